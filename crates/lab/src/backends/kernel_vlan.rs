//! `kernel-vlan`: on each host a Linux bridge for each network, and in it the kernel's 802.1Q device of the
//! uplink. No overlay.
//!
//! ```text
//! port0 ── br0 ── vlan0 (tag 100 of uplink)
//! ```
//!
//! The tag lies outside of the payload that a device's MTU limits: the guests have the plain MTU.

use super::{Backend, bridge, networks_on};
use crate::error::LabError;
use crate::session::Session;
use crate::topology::{Expected, Topology, UPLINK, layout};

pub(super) struct KernelVlan;

impl Backend for KernelVlan {
    fn build(&mut self, _session: &Session, topology: &Topology) -> Result<(), LabError> {
        for (index, host) in topology.hosts.iter().enumerate() {
            for (network, mut ports) in networks_on(topology, index) {
                let device = format!("vlan{}", network.index);
                if topology.has_underlay() {
                    host.netlink.add_vlan(&device, UPLINK, network.vlan)?;
                    host.raise_between(&device, topology.guest_mtu())?;
                    ports.push(&device);
                }
                bridge::join(host, &format!("br{}", network.index), &ports)?;
            }
        }
        Ok(())
    }

    fn expected(&self) -> Expected {
        Expected::Vlan
    }

    fn devices(&self, topology: &Topology) -> Vec<(usize, String)> {
        super::devices_of_networks(topology, "vlan")
    }
}

pub(super) fn check(session: &Session) -> Result<Option<String>, LabError> {
    if let Some(reason) = bridge::check(session)? {
        return Ok(Some(reason));
    }
    let tried = session.try_in_netns(|netlink| {
        netlink.add_veth("a", "b", None)?;
        netlink.add_vlan("vlan0", "a", layout::FIRST_VLAN)
    })?;
    Ok(tried
        .err()
        .map(|error| format!("the kernel makes no 802.1Q device (CONFIG_VLAN_8021Q): {error}")))
}
