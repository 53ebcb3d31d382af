//! Detours: devices that `apply` makes, through which frames go between decap and a port's device where the
//! kernel has to do something to them. `bpf/flow_way.h` says which frames.
//!
//! The **unmarker** takes the tunnel's mark off a super-packet: the kernel's VXLAN device does that, and has to be
//! reached through its IP stack. That is the stack of a namespace of its own, so that no firewall, route,
//! connection table or `rp_filter` of the host has a part in it:
//!
//! ```text
//!   host's namespace:   ovl-unm0 ──┐ veth              ┌── ovl-unm (VXLAN, its socket is in the other one)
//!   unmarker's:                    └─ ovl-unm1 ─ IP ─ UDP
//! ```
//!
//! The **coalescer** is a veth pair whose far end has GRO: for tunnels that the kernel does not coalesce.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::thread;

use overlane_ebpf::Program;
use overlane_ebpf::tables::Devices;
use overlane_net::netns::{self, Netns};
use overlane_net::{Link, NetError, Netlink, Vxlan, ethtool, sysctl};
use serde::Serialize;

use crate::devices::quiet;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Detour {
    /// Takes the tunnel's mark off.
    Unmarker,
    /// Joins segments.
    Coalescer,
}

/// In the unmarker's namespace.
const UNMARKER_INSIDE: &str = "ovl-unm1";
/// As `bpf/unmark.h` writes them: `UNMARK_HERE` of both families, `UNMARK_PORT`.
const HERE_V4: Ipv4Addr = Ipv4Addr::new(198, 19, 255, 255);
const HERE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0xc613, 0xffff);
const UNMARKER_PORT: u16 = 4789;
/// What is cut here is cut for the port's device.
const MTU: u32 = 65535;
/// A queue is one CPU's work; a flow stays in one.
const MOST_QUEUES: usize = 16;

impl Detour {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Unmarker, Self::Coalescer];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unmarker => "unmarker",
            Self::Coalescer => "coalescer",
        }
    }

    /// The device to send into.
    pub const fn entrance(self) -> &'static str {
        match self {
            Self::Unmarker => "ovl-unm0",
            Self::Coalescer => "ovl-coa0",
        }
    }

    /// The device where frames come out.
    pub const fn exit(self) -> &'static str {
        match self {
            Self::Unmarker => "ovl-unm",
            Self::Coalescer => "ovl-coa1",
        }
    }

    /// The program there.
    pub const fn program(self) -> Program {
        match self {
            Self::Unmarker => Program::FromUnmarker,
            Self::Coalescer => Program::FromCoalescer,
        }
    }

    /// The names of its devices in the host's namespace.
    pub const fn devices(self) -> [&'static str; 2] {
        [self.entrance(), self.exit()]
    }

    /// Says where the programs find it.
    pub(crate) const fn set_index(self, devices: &mut Devices, index: u32) {
        match self {
            Self::Unmarker => devices.unmarker_ifindex = index,
            Self::Coalescer => devices.coalescer_ifindex = index,
        }
    }

    /// Whether it is as [`make`](Self::make) makes it.
    pub(crate) fn is_right(self, host: &str, devices: &BTreeMap<String, Link>) -> bool {
        let (Some(into), Some(out)) = (devices.get(self.entrance()), devices.get(self.exit()))
        else {
            return false;
        };
        let ready = into.up && out.up && into.mtu == MTU;
        ready
            && match self {
                Self::Unmarker => {
                    out.udp_port == Some(UNMARKER_PORT) && is_inside_right(host, into)
                }
                Self::Coalescer => into.peer_index == Some(out.index) && !into.peer_in_other_netns,
            }
    }

    /// Creates and raises it. What is left of it after an error, [`discard`](Self::discard) takes away.
    pub(crate) fn make(self, host: &str, netlink: &Netlink) -> Result<(), NetError> {
        match self {
            Self::Unmarker => make_unmarker(host, netlink),
            Self::Coalescer => make_coalescer(netlink),
        }
    }

    /// Takes away what there is of it. True: there was something.
    pub(crate) fn discard(self, host: &str, netlink: &Netlink) -> Result<bool, NetError> {
        let mut found = false;
        for device in self.devices() {
            match netlink.delete(device) {
                // The second end of a pair goes with the first.
                Err(error) if error.is_not_found() => {}
                other => {
                    other?;
                    found = true;
                }
            }
        }
        let inside = namespace_of(host);
        if self == Self::Unmarker && netns::exists(&inside) {
            netns::delete(&inside)?;
            found = true;
        }
        Ok(found)
    }
}

/// The name of the unmarker's namespace, which is nobody else's.
pub fn namespace_of(host: &str) -> String {
    format!("overlane.{host}.unmarker")
}

fn is_inside_right(host: &str, into: &Link) -> bool {
    let inside = Netns::open(&namespace_of(host)).and_then(|netns| Netlink::in_netns(&netns));
    let end = inside.and_then(|netlink| netlink.link(UNMARKER_INSIDE));
    end.is_ok_and(|end| end.up && into.peer_index == Some(end.index))
}

fn make_unmarker(host: &str, netlink: &Netlink) -> Result<(), NetError> {
    let here = Netns::current()?;
    let inside = Netns::create(&namespace_of(host))?;
    let (into, out) = (Detour::Unmarker.entrance(), Detour::Unmarker.exit());
    netlink.add_veth(into, UNMARKER_INSIDE, Some(&inside))?;
    let within = Netlink::in_netns(&inside)?;
    furnish(&inside, &within)?;
    let vxlan = Vxlan {
        vni: None,
        external: true,
        local: None,
        remote: None,
        port: UNMARKER_PORT,
        learning: false,
        udp6_zero_csum: true,
        device: None,
    };
    within.add_vxlan(out, &vxlan)?;
    // Its socket stays where it was made.
    within.set_netns(out, &here)?;
    for device in [into, out] {
        quiet(netlink, device)?;
    }
    netlink.set_mtu(into, MTU)?;
    netlink.set_up(into)?;
    netlink.set_up(out)?;
    coalesce_udp(out);
    Ok(())
}

/// The namespace gets the end of the pair, its addresses, and a stack that asks no questions.
fn furnish(inside: &Netns, within: &Netlink) -> Result<(), NetError> {
    for (key, value) in [
        ("net.ipv4.conf.all.rp_filter", "0"),
        ("net.ipv4.conf.default.rp_filter", "0"),
        ("net.ipv4.conf.ovl-unm1.rp_filter", "0"),
        ("net.ipv4.ip_forward", "0"),
        ("net.ipv4.ip_early_demux", "0"),
    ] {
        sysctl::set(inside, key, value)?;
    }
    within.set_addr_gen_none(UNMARKER_INSIDE)?;
    within.set_arp(UNMARKER_INSIDE, false)?;
    within.set_mtu(UNMARKER_INSIDE, MTU)?;
    within.set_up(UNMARKER_INSIDE)?;
    within.add_address(UNMARKER_INSIDE, IpAddr::V4(HERE_V4), 32)?;
    match sysctl::set(inside, "net.ipv6.conf.ovl-unm1.disable_ipv6", "0") {
        // A kernel without IPv6 hands over no IPv6.
        Err(error) if error.is_not_found() => Ok(()),
        other => {
            other?;
            within.add_address(UNMARKER_INSIDE, IpAddr::V6(HERE_V6), 128)
        }
    }
}

/// UDP super-packets arrive here as datagrams, one by one (net/ipv4/udp.c, `udp_unexpected_gso`), and are joined
/// again. A kernel that cannot do that hands over the datagrams.
fn coalesce_udp(device: &str) {
    let _ = ethtool::set_features(device, &[("rx-udp-gro-forwarding", true)]);
}

fn make_coalescer(netlink: &Netlink) -> Result<(), NetError> {
    let (into, out) = (Detour::Coalescer.entrance(), Detour::Coalescer.exit());
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    netlink.add_veth_with_queues(into, out, cpus.min(MOST_QUEUES) as u32)?;
    for device in [into, out] {
        quiet(netlink, device)?;
        netlink.set_mtu(device, MTU)?;
    }
    // Only what does not come in super-packets goes through GRO (drivers/net/veth.c, `veth_skb_is_eligible_for_gro`).
    ethtool::set_features(into, &[("tso", false)])?;
    ethtool::set_features(out, &[("gro", true)])?;
    netlink.set_up(into)?;
    netlink.set_up(out)
}
