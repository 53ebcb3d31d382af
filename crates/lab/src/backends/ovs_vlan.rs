//! `ovs-vlan`, `ovs-kernel-vlan`: Open vSwitch without a tunnel: each guest is an access port of its network's
//! VLAN, the uplink a trunk that carries these VLANs alone.
//!
//! ```text
//! port0 (tag 100) ── br0 ── uplink (trunks 100)
//! ```
//!
//! The tag lies outside of the payload that a device's MTU limits: the guests have the plain MTU. The tags
//! of guests that are trunks are exchanged by flows.

use super::Backend;
use super::ovs_flows::{self, Carrier};
use super::ovs_switch::{self, Datapath, Switches};
use crate::error::LabError;
use crate::session::Session;
use crate::topology::{Expected, Network, Topology, UPLINK};
use std::collections::BTreeMap;

const BRIDGE: &str = "br0";

pub(super) struct OvsVlan {
    switches: Switches,
}

impl OvsVlan {
    pub(super) const fn new(datapath: Datapath) -> Self {
        Self {
            switches: Switches::new(datapath),
        }
    }
}

/// One bridge with all ports; the switch takes each device's MTU as it finds it.
fn script(topology: &Topology, host: usize, datapath: Datapath) -> String {
    let trunk = topology.setting.is_trunk();
    let mut script = ovs_switch::bridge(BRIDGE, datapath);
    for (_, port) in topology.ports_on(host) {
        let vlan = Network::of(&topology.setting, port.networks.start).vlan;
        script += &port_words(&port.host_device, vlan, trunk);
    }
    if topology.has_underlay() {
        let vlans: Vec<u16> = topology.networks().map(|network| network.vlan).collect();
        script += &uplink_words(&vlans, trunk);
    }
    script
}

fn port_words(device: &str, vlan: u16, trunk: bool) -> String {
    match trunk {
        true => format!(" -- add-port {BRIDGE} {device}"),
        false => format!(" -- add-port {BRIDGE} {device} tag={vlan} vlan_mode=access"),
    }
}

fn uplink_words(vlans: &[u16], trunk: bool) -> String {
    let numbers: Vec<_> = vlans.iter().map(u16::to_string).collect();
    match trunk {
        true => format!(" -- add-port {BRIDGE} {UPLINK}"),
        false => format!(
            " -- add-port {BRIDGE} {UPLINK} trunks={} vlan_mode=trunk",
            numbers.join(",")
        ),
    }
}

impl Backend for OvsVlan {
    fn build(&mut self, session: &Session, topology: &Topology) -> Result<(), LabError> {
        self.switches.prepare(topology)?;
        let datapath = self.switches.datapath();
        for (index, host) in topology.hosts.iter().enumerate() {
            let instance = self.switches.start(session, topology, host)?;
            instance.configure(session, host, &script(topology, index, datapath))?;
            if topology.setting.is_trunk() {
                let carrier = Carrier::Vlan { uplink: UPLINK };
                let flows = ovs_flows::flows(topology, index, carrier);
                instance.set_flows(session, host, BRIDGE, &flows)?;
            }
        }
        Ok(())
    }

    fn expected(&self) -> Expected {
        Expected::Vlan
    }

    fn counters(
        &self,
        session: &Session,
        topology: &Topology,
    ) -> Result<BTreeMap<String, u64>, LabError> {
        self.switches.counters(session, topology)
    }

    fn notes(&self) -> Vec<String> {
        ovs_switch::notes(self.switches.datapath())
    }

    fn tear_down(&mut self, _session: &Session, _topology: &Topology) -> Result<(), LabError> {
        self.switches.stop();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_are_access_ports_and_the_uplink_a_trunk_of_their_vlans() {
        assert_eq!(
            port_words("port0", 100, false),
            " -- add-port br0 port0 tag=100 vlan_mode=access"
        );
        assert_eq!(
            uplink_words(&[100, 101], false),
            " -- add-port br0 uplink trunks=100,101 vlan_mode=trunk"
        );
    }

    #[test]
    fn ports_of_trunks_are_left_to_the_flows() {
        assert_eq!(port_words("port0", 1, true), " -- add-port br0 port0");
        assert_eq!(uplink_words(&[1, 2], true), " -- add-port br0 uplink");
    }
}
