//! Detours: devices that `apply` makes, through which frames go between decap and a port's device where the
//! kernel has to do something to them. `bpf/lib/detour.h` says which flows.
//!
//! The **unmarker** takes the tunnel's mark off a super-packet: the kernel's VXLAN device does that, and has to be
//! reached through its IP stack. That is the stack of a namespace of its own, so that no firewall, route,
//! connection table or `rp_filter` of the host has a part in it:
//!
//! ```text
//!   host's namespace:   ovl-unm0 ──┐ veth              ┌── ovl-unm4, ovl-unm6 (VXLAN; their sockets stay there)
//!   unmarker's:                    └─ ovl-unm1 ─ IP ─ UDP
//! ```
//!
//! The **coalescer** joins the packets of tunnels that the kernel does not coalesce. Its far end has GRO, and is in the
//! unmarker's namespace, where VXLAN has a socket:
//!
//! ```text
//!   host's namespace:   ovl-coa0 ──┐ veth
//!   unmarker's:                    └─ ovl-coa1
//! ```

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::thread;

use overlane_ebpf::abi;
use overlane_ebpf::tables::{Devices, Table};
use overlane_net::netns::{self, Netns};
use overlane_net::{Link, NetError, Netlink, Vxlan, ethtool, sysctl};
use zerocopy::{FromBytes, IntoBytes};

use super::kind::{Kind, Look};
use super::own_devices::{self, quiet};
use super::plan::{Deed, Done, Mending, Plan};
use crate::HostError;
use crate::lib::detour::{COALESCER_INSIDE, Detour, EXITS, UNMARKER_INSIDE, namespace_of};
use crate::lib::features::has_feature;
use crate::report::{Object, Row, finding};

/// As `bpf/leave/unmarker.h` writes them: `UNMARK_HERE` of both families, `UNMARK_PORT`, `UNMARK_VNI`. A VXLAN device
/// takes packets of one family.
const UNMARKER_V4: (&str, IpAddr) = (EXITS[0], IpAddr::V4(Ipv4Addr::new(198, 19, 0, 2)));
const UNMARKER_V6: (&str, IpAddr) = (
    EXITS[1],
    IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0xc613, 2)),
);
const UNMARKER_PORT: u16 = 4789;
const UNMARKER_VNI: u32 = 1;
/// What is cut here is cut for the port's device.
const MTU: u32 = 65535;
/// A queue is one CPU's work; a flow stays in one.
const MOST_QUEUES: usize = 16;

impl Detour {
    /// Says where the programs find it.
    pub(crate) const fn set_index(self, devices: &mut Devices, index: u32) {
        match self {
            Self::Unmarker => devices.unmarker_ifindex = index,
            Self::Coalescer => devices.coalescer_ifindex = index,
        }
    }

    /// The programs no longer send into it.
    const fn clear_index(self, settings: &mut abi::Settings) {
        match self {
            Self::Unmarker => settings.unmarker_ifindex = 0,
            Self::Coalescer => settings.coalescer_ifindex = 0,
        }
    }

    /// Whether it is as [`make`](Self::make) makes it. `devices` has those of both namespaces.
    pub(crate) fn is_right(self, devices: &BTreeMap<String, Link>) -> bool {
        let inside = match self {
            Self::Unmarker => UNMARKER_INSIDE,
            Self::Coalescer => COALESCER_INSIDE,
        };
        let (Some(into), Some(inside)) = (devices.get(self.entrance()), devices.get(inside)) else {
            return false;
        };
        let are_joined = into.peer_in_other_netns && into.peer_index == Some(inside.index);
        let ours = self.devices().iter();
        let are_up = ours
            .map(|name| devices.get(*name))
            .all(|link| link.is_some_and(|it| it.up));
        are_joined && are_up && inside.up && into.mtu == MTU && self.has_gro(devices)
    }

    /// `bpf/lib/detour.h` says what GRO does behind the unmarker.
    fn has_gro(self, devices: &BTreeMap<String, Link>) -> bool {
        let exits = match self {
            Self::Unmarker => EXITS.iter(),
            Self::Coalescer => [].iter(),
        };
        exits
            .filter_map(|name| devices.get(*name))
            .all(|link| has_feature(link, "rx-gro"))
    }

    /// Creates and raises it. What is left of it after an error, [`discard`](Self::discard) takes away.
    fn make(self, host: &str, netlink: &Netlink) -> Result<(), NetError> {
        match self {
            Self::Unmarker => make_unmarker(host, netlink),
            Self::Coalescer => make_coalescer(host, netlink),
        }
    }

    /// Takes away what there is of it.
    fn discard(self, host: &str, netlink: &Netlink) -> Result<(), NetError> {
        for device in self.devices() {
            own_devices::delete(netlink, device)?;
        }
        let inside = namespace_of(host);
        if self == Self::Unmarker && netns::exists(&inside) {
            netns::delete(&inside)?;
        }
        Ok(())
    }
}

/// Both.
pub(crate) struct Detours;

impl Kind for Detours {
    fn compare<'a>(&self, look: &Look<'a>, plan: &mut Plan<'a>) -> Result<(), HostError> {
        let (current, host) = (look.current, look.host);
        let is_wanted = |detour| {
            let target = look.target;
            target.is_some_and(|target| target.resolved.detours.contains(&detour))
        };
        for detour in Detour::ALL {
            if !is_wanted(detour) {
                detour.take_away(look, plan);
            } else if !detour.is_right(&current.devices)
                || plan.fresh.contains(Detour::Unmarker.entrance())
            {
                // The coalescer goes with the unmarker, in whose namespace it ends.
                let row = own_devices::row(look, detour.entrance(), detour.name());
                let deed = Deed::new(row, move |mending| detour.replace(host, mending));
                let without = move |reason: &str| finding::no_detour(detour, reason);
                plan.add(deed.or_without(detour.thing(), without));
                plan.fresh.extend(detour.devices());
                let hooks = detour.hooks().iter();
                plan.fresh.extend(hooks.map(|(_, device)| *device));
            }
        }
        Ok(())
    }
}

impl Detour {
    fn take_away<'a>(self, look: &Look<'a>, plan: &mut Plan<'a>) {
        let devices = self.devices().iter();
        let there: Vec<&str> = (devices.copied())
            .filter(|device| look.current.devices.contains_key(*device))
            .collect();
        let has_namespace = self == Self::Unmarker && look.current.unmarker_namespace;
        let row = match (there.is_empty(), has_namespace) {
            (true, false) => return,
            (true, true) => Row::remove(Object::Namespace, namespace_of(look.host)),
            (false, _) => Row::remove(Object::Device, self.entrance()),
        };
        let host = look.host;
        let deed = move |mending: &mut Mending<'a>| {
            for device in there {
                own_devices::delete(mending.netlink, device)?;
            }
            if has_namespace {
                netns::delete(&namespace_of(host))?;
            }
            Ok(Done::Yes)
        };
        plan.clean_up(Deed::new(row.detail(self.name()), deed));
    }

    /// Makes it, in place of what there is of it. Nothing goes into it yet. Packets do without: the straight way is
    /// slower, or a remote segments what it could have sent whole.
    fn replace<'a>(self, host: &'a str, mending: &mut Mending<'a>) -> Result<Done, HostError> {
        mending.journal.before()?;
        let netlink = mending.netlink;
        self.close(mending)?;
        if self == Self::Unmarker {
            // It ends in the same namespace.
            Self::Coalescer.close(mending)?;
        }
        self.discard(host, netlink)?;
        match self.make(host, netlink) {
            Ok(()) => {
                let undo = move || Ok(self.discard(host, netlink)?);
                mending.journal.push(undo);
                Ok(Done::Yes)
            }
            Err(error) => {
                self.discard(host, netlink)?;
                Ok(Done::Refused(error.to_string()))
            }
        }
    }

    /// No frame goes into a device that is about to go. Not undone: after a failure there is no such device.
    fn close(self, mending: &mut Mending<'_>) -> Result<(), HostError> {
        let maps = mending.maps()?;
        for (key, value) in maps.entries(Table::Settings)? {
            if let Ok(mut settings) = abi::Settings::read_from_bytes(&value) {
                self.clear_index(&mut settings);
                maps.put(Table::Settings, &key, settings.as_bytes())?;
            }
        }
        mending.closed.insert(self);
        Ok(())
    }
}

fn make_unmarker(host: &str, netlink: &Netlink) -> Result<(), NetError> {
    let here = Netns::current()?;
    let inside = Netns::create(&namespace_of(host))?;
    let into = Detour::Unmarker.entrance();
    netlink.add_veth(into, UNMARKER_INSIDE, Some(&inside))?;
    let within = Netlink::in_netns(&inside)?;
    furnish(&inside, &within)?;
    for (device, address) in [UNMARKER_V4, UNMARKER_V6] {
        let vxlan = Vxlan {
            vni: Some(UNMARKER_VNI),
            external: false,
            group_policy: true,
            local: Some(address),
            remote: None,
            port: UNMARKER_PORT,
            learning: false,
            udp_csum: true,
            udp6_zero_csum: true,
            device: None,
        };
        within.add_vxlan(device, &vxlan)?;
        // Its socket stays where it was made.
        within.set_netns(device, &here)?;
        quiet(netlink, device)?;
        netlink.set_up(device)?;
    }
    quiet(netlink, into)?;
    netlink.set_mtu(into, MTU)?;
    netlink.set_up(into)
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
    within.add_address(UNMARKER_INSIDE, UNMARKER_V4.1, 32)?;
    sysctl::set(inside, "net.ipv6.conf.ovl-unm1.disable_ipv6", "0")?;
    within.add_address(UNMARKER_INSIDE, UNMARKER_V6.1, 128)
}

fn make_coalescer(host: &str, netlink: &Netlink) -> Result<(), NetError> {
    let inside = Netns::open(&namespace_of(host))?;
    let within = Netlink::in_netns(&inside)?;
    let into = Detour::Coalescer.entrance();
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let queues = cpus.min(MOST_QUEUES) as u32;
    netlink.add_veth_with_queues(into, COALESCER_INSIDE, &inside, queues)?;
    quiet(netlink, into)?;
    netlink.set_mtu(into, MTU)?;
    within.set_addr_gen_none(COALESCER_INSIDE)?;
    within.set_arp(COALESCER_INSIDE, false)?;
    within.set_mtu(COALESCER_INSIDE, MTU)?;
    // Only where the sending end does not say that it segments (drivers/net/veth.c, `veth_skb_is_eligible_for_gro`).
    ethtool::set_features(into, &[("tso", false)])?;
    inside.run(|| ethtool::set_features(COALESCER_INSIDE, &[("gro", true)]))??;
    netlink.set_up(into)?;
    within.set_up(COALESCER_INSIDE)
}
