//! `kernel-vxlan`: on each host a Linux bridge for each network, and in it the kernel's VXLAN device, unicast to the other
//! hosts. Like for like it learns as it comes; at its best it does not, and knows the guests from the start.
//!
//! ```text
//! port0 ── br0 ── vxlan0 (VNI 5001) ⇢ uplink
//! ```

use super::{Backend, bridge, networks_on};
use crate::error::LabError;
use crate::session::Session;
use crate::topology::{Expected, Network, Topology, UPLINK, layout};
use overlane_analysis::record::{Family, Tuning};
use overlane_net::Vxlan;
use std::net::IpAddr;

/// IANA's port; the kernel's own default is an older one.
const PORT: u16 = 4789;
/// The entry of the forwarding table for everything that no other is for.
const FLOOD: [u8; 6] = [0; 6];

pub(super) struct KernelVxlan;

impl Backend for KernelVxlan {
    fn build(&mut self, _session: &Session, topology: &Topology) -> Result<(), LabError> {
        for (index, host) in topology.hosts.iter().enumerate() {
            if topology.has_underlay() {
                let (own, prefix) = (topology.host_address(index), topology.underlay_prefix());
                host.add_address(UPLINK, own, prefix)?;
            }
            for (network, mut ports) in networks_on(topology, index) {
                let device = format!("vxlan{}", network.index);
                if topology.has_underlay() {
                    add_tunnel(topology, index, network, &device)?;
                    ports.push(&device);
                }
                bridge::join(host, &format!("br{}", network.index), &ports)?;
            }
        }
        Ok(())
    }

    fn expected(&self) -> Expected {
        Expected::Vxlan
    }

    fn devices(&self, topology: &Topology) -> Vec<(usize, String)> {
        super::devices_of_networks(topology, "vxlan")
    }
}

/// The tunnel of one network: flooding to the other hosts, and the guests' MACs from the start, so that none
/// is forgotten while packets go one way.
fn add_tunnel(
    topology: &Topology,
    index: usize,
    network: Network,
    device: &str,
) -> Result<(), LabError> {
    let host = &topology.hosts[index];
    let uplink = host.netlink.link(UPLINK)?.index;
    let tunnel = Vxlan {
        device: Some(uplink),
        learning: topology.setting.tuning == Tuning::Alike,
        ..tunnel(network.vni, topology.host_address(index))
    };
    host.netlink.add_vxlan(device, &tunnel)?;
    for peer in topology.peers(index) {
        let address = topology.host_address(peer);
        host.netlink.add_bridge_fdb(device, FLOOD, address)?;
        for (guest, port) in topology.ports_on(peer) {
            // Where a machine that moves is, the switch learns.
            if port.networks.contains(&network.index) && !guest.is_machine {
                host.netlink.add_bridge_fdb(device, guest.mac, address)?;
            }
        }
    }
    // Only now: a device that is up learns from the other hosts' frames, and what it has learned is not added again.
    host.raise_between(device, topology.guest_mtu())
}

fn tunnel(vni: u32, local: IpAddr) -> Vxlan {
    Vxlan {
        vni: Some(vni),
        external: false,
        group_policy: false,
        local: Some(local),
        remote: None,
        port: PORT,
        learning: true,
        // As Overlane and Open vSwitch; the kernel's own default is to send one.
        udp_csum: false,
        // As Overlane does over IPv6 (RFC 6936): the inner packet has checksums of its own.
        udp6_zero_csum: local.is_ipv6(),
        device: None,
    }
}

pub(super) fn check(session: &Session) -> Result<Option<String>, LabError> {
    if let Some(reason) = bridge::check(session)? {
        return Ok(Some(reason));
    }
    let local = layout::host_address(Family::Ipv4, 0);
    let tunnel = tunnel(layout::FIRST_VNI, local);
    let tried = session.try_in_netns(|netlink| netlink.add_vxlan("vxlan0", &tunnel))?;
    Ok(tried
        .err()
        .map(|error| format!("the kernel makes no VXLAN device: {error}")))
}
