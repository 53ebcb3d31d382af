//! One namespace of a topology: a guest's, a host's, or the switch between more than two hosts.

use crate::error::LabError;
use crate::session::Session;
use overlane_analysis::record::{Family, Hop};
use overlane_net::netns::Netns;
use overlane_net::{Netlink, ethtool, sysctl, sysfs};
use std::net::IpAddr;
use std::path::Path;

/// What lets a super-packet, plain or in a tunnel, cross a device whole.
const WIRE_OFFLOADS: [&str; 5] = [
    "tso",
    "gso",
    "tx-udp_tnl-segmentation",
    "tx-udp_tnl-csum-segmentation",
    "tx-udp-segmentation",
];
/// The features that bear on the path, for the record.
const RECORDED: [&str; 14] = [
    "rx-checksum",
    "rx-gro",
    "rx-gro-hw",
    "rx-gro-list",
    "rx-lro",
    "rx-udp-gro-forwarding",
    "tx-checksum-ip-generic",
    "tx-generic-segmentation",
    "tx-scatter-gather",
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "tx-udp-segmentation",
    "tx-udp_tnl-csum-segmentation",
    "tx-udp_tnl-segmentation",
];
/// What keeps a kernel with IPv6 from sending of its own accord: no detection of duplicates, no routers.
const QUIET_IPV6: [(&str, &str); 4] = [
    ("accept_dad", "0"),
    ("dad_transmits", "0"),
    ("accept_ra", "0"),
    ("router_solicitations", "0"),
];
/// What has a Linux bridge hand its packets to the IP firewall's hooks, where the kernel has it built in: on by default, in
/// each new namespace. Other switches have no such detour, and there are no rules.
const BRIDGE_NETFILTER: [&str; 3] = [
    "net/bridge/bridge-nf-call-iptables",
    "net/bridge/bridge-nf-call-ip6tables",
    "net/bridge/bridge-nf-call-arptables",
];
/// An hour between errors: raw frames that no socket waits for are not answered each with one.
const ICMP_INTERVAL_MS: &str = "3600000";

/// One namespace.
pub(crate) struct Node {
    /// `guest1`, `host1`, `tester`, `underlay`.
    pub(crate) place: String,
    pub(crate) netns: Netns,
    pub(crate) netlink: Netlink,
    /// The CPUs of its virtual host.
    pub(crate) cpus: Vec<usize>,
}

impl Node {
    pub(super) fn create(
        session: &Session,
        label: &str,
        place: &str,
        cpus: &[usize],
    ) -> Result<Self, LabError> {
        let netns = session.create_netns(&format!("{label}-{place}"))?;
        let netlink = Netlink::in_netns(&netns)?;
        if Path::new("/proc/sys/net/bridge").exists() {
            for key in BRIDGE_NETFILTER {
                sysctl::set(&netns, key, "0")?;
            }
        }
        Ok(Self {
            place: place.to_owned(),
            netns,
            netlink,
            cpus: cpus.to_vec(),
        })
    }

    /// Another handle on the namespace of `node`.
    pub(super) fn same(node: &Self, place: &str) -> Result<Self, LabError> {
        let netns = Netns::open(node.netns.name())?;
        Ok(Self {
            place: place.to_owned(),
            netlink: Netlink::in_netns(&netns)?,
            netns,
            cpus: node.cpus.clone(),
        })
    }

    /// A guest's kernel sends nothing but what its programs send.
    pub(super) fn keep_quiet(&self) -> Result<(), LabError> {
        sysctl::set(&self.netns, "net.ipv4.icmp_ratelimit", ICMP_INTERVAL_MS)?;
        if has_ipv6() {
            sysctl::set(&self.netns, "net.ipv6.icmp.ratelimit", ICMP_INTERVAL_MS)?;
            // No link-local address: nothing that would be announced.
            sysctl::set(&self.netns, "net.ipv6.conf.default.addr_gen_mode", "1")?;
        }
        Ok(())
    }

    /// Sets the MTU and the receiving CPUs, and takes the device up.
    pub(crate) fn raise(&self, device: &str, mtu: u32) -> Result<(), LabError> {
        self.netlink.set_mtu(device, mtu)?;
        sysfs::set_rps(&self.netns, device, &self.cpus)?;
        self.netlink.set_up(device)?;
        Ok(())
    }

    /// Takes up a device that a network adds between a port and the uplink. Whatever is steered and joined is at the cables' ends,
    /// as for networks that add no device: a second time costs a queue more. It also lost the order of packets: on a
    /// virtual wire super-packets wait in the GRO of such a device, and the small packet behind goes past it.
    pub(crate) fn raise_between(&self, device: &str, mtu: u32) -> Result<(), LabError> {
        self.netlink.set_mtu(device, mtu)?;
        self.set_features(device, &[("gro", false)])?;
        self.netlink.set_up(device)?;
        Ok(())
    }

    /// Gives a device an address.
    pub(crate) fn add_address(
        &self,
        device: &str,
        address: IpAddr,
        prefix: u8,
    ) -> Result<(), LabError> {
        self.speak(device, address)?;
        self.netlink.add_address(device, address, prefix)?;
        Ok(())
    }

    /// Has a device speak the family of an address: IPv6, which is off in the laboratory's namespaces, begins on
    /// this device alone.
    pub(super) fn speak(&self, device: &str, address: IpAddr) -> Result<(), LabError> {
        let settings = QUIET_IPV6.iter().chain(&[("disable_ipv6", "0")]);
        for (key, value) in settings.filter(|_| address.is_ipv6()) {
            let key = format!("net/ipv6/conf/{device}/{key}");
            sysctl::set(&self.netns, &key, value)?;
        }
        Ok(())
    }

    /// Offload on: as veth comes. Off: super-packets are cut before they enter the wire. GRO is on in
    /// both, as on a NIC.
    pub(super) fn set_wire(&self, device: &str, offload: bool) -> Result<(), LabError> {
        self.set_features(device, &[("gro", true)])?;
        if !offload {
            self.set_features(device, &WIRE_OFFLOADS.map(|name| (name, false)))?;
        }
        Ok(())
    }

    /// Sets features of a device and reads them back.
    pub(crate) fn set_features(
        &self,
        device: &str,
        wanted: &[(&str, bool)],
    ) -> Result<(), LabError> {
        Ok(self.netns.run(|| ethtool::set_features(device, wanted))??)
    }

    /// The device as it is now; `own`: the network made it.
    pub(super) fn hop(
        &self,
        topology: &str,
        device: &str,
        own: bool,
        underlay: Family,
    ) -> Result<Hop, LabError> {
        let link = self.netlink.link(device)?;
        let mut features = self.netns.run(|| ethtool::features(device))??;
        features.retain(|name, _| RECORDED.contains(&name.as_str()));
        // Devices without flow control refuse to answer.
        let pause = self.netns.run(|| ethtool::pause(device))?.ok();
        let on = |on: bool| if on { "on" } else { "off" };
        let outer_checksum = match underlay {
            Family::Ipv4 => link.udp_csum,
            Family::Ipv6 => link.udp6_zero_csum.map(|zero| !zero),
        };
        let bridge_netfilter = (link.kind.as_deref() == Some("bridge"))
            .then(|| self.bridge_netfilter())
            .flatten();
        let mut rps_cpus = sysfs::rps(&self.netns, device)?.concat();
        rps_cpus.sort_unstable();
        rps_cpus.dedup();
        Ok(Hop {
            topology: topology.to_owned(),
            place: self.place.clone(),
            device: device.to_owned(),
            mtu: link.mtu,
            rps_cpus,
            features,
            pause: pause.map(|pause| {
                format!(
                    "autoneg {}, rx {}, tx {}",
                    on(pause.autoneg),
                    on(pause.rx),
                    on(pause.tx)
                )
            }),
            own,
            qdisc: link.qdisc,
            queues: [link.tx_queues, link.rx_queues],
            gso_max_size: link.gso_max_size,
            outer_checksum,
            learning: link.learning,
            bridge_netfilter,
        })
    }
}

impl Node {
    /// Some packet of a bridge here goes through the IP firewall's hooks; `None` where the kernel has no such detour.
    fn bridge_netfilter(&self) -> Option<bool> {
        let values = BRIDGE_NETFILTER.map(|key| sysctl::get(&self.netns, key).ok());
        let known = values.into_iter().flatten();
        known.map(|value| value != "0").reduce(|a, b| a || b)
    }
}

fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}
