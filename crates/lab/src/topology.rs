//! The virtual hosts of one cell.
//!
//! ```text
//!  guest1          host1                      host2          guest2
//!  eth0 ──── port0   uplink ════════════ uplink   port0 ──── eth0       every backend but `direct`
//!  eth0 ═════════════════════════════════════════════════════ eth0      `direct`: one cable
//! ```
//!
//! Each box is a network namespace, each line a veth pair; ═ is the wire whose offload is an axis.
//! What joins `port0` to `uplink` is the backend's business.

use crate::error::LabError;
use crate::record::{BackendName, GroupKey, Hop};
use crate::session::Session;
use overlane_net::netns::{self, Netns};
use overlane_net::{Netlink, ethtool, sysfs};
use std::net::Ipv4Addr;

/// The guests' addresses (RFC 2544's range for benchmarks).
pub(crate) const GUEST1_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 100, 1);
pub(crate) const GUEST2_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 100, 2);
pub(crate) const GUEST1_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(crate) const GUEST2_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// The hosts' underlay addresses: the tunnels' ends.
pub(crate) const HOST1_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
pub(crate) const HOST2_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
pub(crate) const PREFIX: u8 = 24;
/// The network that the guests are in.
pub(crate) const VNI: u32 = 5001;
/// The VLAN on the underlay that plays its part where there is no tunnel.
pub(crate) const VLAN: u16 = 100;

pub(crate) const GUEST_DEVICE: &str = "eth0";
pub(crate) const PORT_DEVICE: &str = "port0";
pub(crate) const UPLINK: &str = "uplink";

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

/// One namespace.
pub(crate) struct Node {
    /// `guest1`, `host1`, `host2` or `guest2`.
    pub(crate) place: &'static str,
    pub(crate) netns: Netns,
    pub(crate) netlink: Netlink,
    /// The CPUs of its virtual host.
    pub(crate) cpus: Vec<usize>,
}

/// The namespaces of one cell, joined.
pub(crate) struct Topology {
    pub(crate) backend: BackendName,
    pub(crate) group: GroupKey,
    pub(crate) guest1: Node,
    pub(crate) guest2: Node,
    /// None with `direct`.
    pub(crate) hosts: Option<[Node; 2]>,
}

impl Topology {
    /// Builds namespaces and cables, without a backend.
    pub(crate) fn build(
        session: &Session,
        backend: BackendName,
        group: GroupKey,
    ) -> Result<Self, LabError> {
        let cpus = &session.cpus;
        let mtu = group.mtu_class.guest_mtu(backend);
        let name = label(backend, mtu);
        let guest1 = Node::create(session, &name, "guest1", &cpus.host1)?;
        let guest2 = Node::create(session, &name, "guest2", &cpus.host2)?;
        let hosts = if backend == BackendName::Direct {
            guest1
                .netlink
                .add_veth(GUEST_DEVICE, GUEST_DEVICE, Some(&guest2.netns))?;
            None
        } else {
            let host1 = Node::create(session, &name, "host1", &cpus.host1)?;
            let host2 = Node::create(session, &name, "host2", &cpus.host2)?;
            host1.netlink.add_veth(UPLINK, UPLINK, Some(&host2.netns))?;
            for (host, guest) in [(&host1, &guest1), (&host2, &guest2)] {
                guest
                    .netlink
                    .add_veth(GUEST_DEVICE, PORT_DEVICE, Some(&host.netns))?;
                host.raise(PORT_DEVICE, mtu)?;
                host.raise(UPLINK, group.mtu_class.underlay_mtu())?;
                host.set_wire(UPLINK, group.offload)?;
            }
            Some([host1, host2])
        };
        for (guest, mac, address) in [
            (&guest1, GUEST1_MAC, GUEST1_ADDRESS),
            (&guest2, GUEST2_MAC, GUEST2_ADDRESS),
        ] {
            guest.netlink.set_mac(GUEST_DEVICE, mac)?;
            guest.raise(GUEST_DEVICE, mtu)?;
            guest
                .netlink
                .add_address(GUEST_DEVICE, address.into(), PREFIX)?;
            if hosts.is_none() {
                guest.set_wire(GUEST_DEVICE, group.offload)?;
            }
        }
        Ok(Self {
            backend,
            group,
            guest1,
            guest2,
            hosts,
        })
    }

    /// What tells this topology from the others that are up with it.
    pub(crate) fn label(&self) -> String {
        label(self.backend, self.group.mtu_class.guest_mtu(self.backend))
    }

    /// The hosts with their own and the other's underlay address.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = (&Node, Ipv4Addr, Ipv4Addr)> {
        let addresses = [
            (HOST1_ADDRESS, HOST2_ADDRESS),
            (HOST2_ADDRESS, HOST1_ADDRESS),
        ];
        let hosts = self.hosts.iter().flatten();
        hosts
            .zip(addresses)
            .map(|(host, (own, other))| (host, own, other))
    }

    /// The sending end of the wire: where packets are counted.
    pub(crate) fn wire(&self) -> (&Node, &'static str) {
        match &self.hosts {
            Some([host1, _]) => (host1, UPLINK),
            None => (&self.guest1, GUEST_DEVICE),
        }
    }

    /// Deletes the namespaces and with them the devices, so that the next group begins on an empty
    /// machine. What cannot be deleted is left to the journal.
    pub(crate) fn delete(self) {
        let names: Vec<String> = [&self.guest1, &self.guest2]
            .into_iter()
            .chain(self.hosts.iter().flatten())
            .map(|node| node.netns.name().to_owned())
            .collect();
        // The handles first: a namespace lives as long as one is open.
        drop(self);
        for name in names {
            let _ = netns::delete(&name);
        }
    }

    /// Every device that the laboratory set up, as it is now.
    pub(crate) fn hops(&self) -> Result<Vec<Hop>, LabError> {
        let offload = if self.group.offload { "on" } else { "off" };
        let mtu = self.group.mtu_class.guest_mtu(self.backend);
        let topology = format!("{} mtu {mtu} offload {offload}", self.backend);
        let mut hops = vec![self.guest1.hop(&topology, GUEST_DEVICE)?];
        for (host, devices) in self
            .hosts
            .iter()
            .flatten()
            .zip([[PORT_DEVICE, UPLINK], [UPLINK, PORT_DEVICE]])
        {
            for device in devices {
                hops.push(host.hop(&topology, device)?);
            }
        }
        hops.push(self.guest2.hop(&topology, GUEST_DEVICE)?);
        Ok(hops)
    }
}

fn label(backend: BackendName, mtu: u32) -> String {
    format!("{backend}-{mtu}")
}

impl Node {
    fn create(
        session: &Session,
        name: &str,
        place: &'static str,
        cpus: &[usize],
    ) -> Result<Self, LabError> {
        let netns = session.create_netns(&format!("{name}-{place}"))?;
        let netlink = Netlink::in_netns(&netns)?;
        Ok(Self {
            place,
            netns,
            netlink,
            cpus: cpus.to_vec(),
        })
    }

    /// Sets the MTU and the receiving CPUs, and takes the device up.
    pub(crate) fn raise(&self, device: &str, mtu: u32) -> Result<(), LabError> {
        self.netlink.set_mtu(device, mtu)?;
        sysfs::set_rps(&self.netns, device, &self.cpus)?;
        self.netlink.set_up(device)?;
        Ok(())
    }

    /// Offload on: as veth comes. Off: super-packets are cut before they enter the wire. GRO is on in
    /// both, as on a NIC.
    fn set_wire(&self, device: &'static str, offload: bool) -> Result<(), LabError> {
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

    fn hop(&self, topology: &str, device: &str) -> Result<Hop, LabError> {
        let link = self.netlink.link(device)?;
        let mut features = self.netns.run(|| ethtool::features(device))??;
        features.retain(|name, _| RECORDED.contains(&name.as_str()));
        // Devices without flow control refuse to answer.
        let pause = self.netns.run(|| ethtool::pause(device))?.ok();
        let on = |on: bool| if on { "on" } else { "off" };
        let mut rps_cpus = sysfs::rps(&self.netns, device)?.concat();
        rps_cpus.sort_unstable();
        rps_cpus.dedup();
        Ok(Hop {
            topology: topology.to_owned(),
            place: self.place.to_owned(),
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
        })
    }
}
