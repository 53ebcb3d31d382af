//! `ovs-vlan`: Open vSwitch in userspace without a tunnel: the guest is an access port of a VLAN, the
//! uplink a trunk that carries this VLAN alone.
//!
//! ```text
//! port0 (tag 100) ── br0 ── uplink (trunks 100)
//! ```
//!
//! The tag lies outside of the payload that a device's MTU limits: the guest has the plain MTU.

use super::Backend;
use super::ovs_switch::{self, Switches};
use crate::error::LabError;
use crate::proof::Expected;
use crate::session::Session;
use crate::topology::{PORT_DEVICE, Topology, UPLINK, VLAN};

#[derive(Default)]
pub(super) struct OvsVlan {
    switches: Switches,
}

/// One bridge with both ports; the switch takes each device's MTU as it finds it.
fn script() -> String {
    format!(
        "add-br br0 -- set bridge br0 datapath_type=netdev \
         -- add-port br0 {PORT_DEVICE} tag={VLAN} vlan_mode=access \
         -- add-port br0 {UPLINK} trunks={VLAN} vlan_mode=trunk"
    )
}

impl Backend for OvsVlan {
    fn build(&mut self, session: &Session, topology: &Topology) -> Result<(), LabError> {
        Switches::prepare(topology)?;
        for (host, _, _) in topology.hosts() {
            let instance = self.switches.start(session, topology, host)?;
            instance.configure(session, host, &script())?;
        }
        Ok(())
    }

    fn expected(&self) -> Expected {
        Expected::Vlan
    }

    fn notes(&self) -> Vec<String> {
        ovs_switch::notes()
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
    fn the_guest_is_an_access_port_and_the_uplink_a_trunk_of_one_vlan() {
        let script = script();
        assert!(
            script.contains("add-port br0 port0 tag=100 vlan_mode=access"),
            "{script}"
        );
        assert!(
            script.ends_with("add-port br0 uplink trunks=100 vlan_mode=trunk"),
            "{script}"
        );
        assert!(!script.contains("tunnel"), "{script}");
    }
}
