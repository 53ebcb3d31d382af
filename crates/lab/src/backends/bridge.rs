//! `bridge`: a Linux bridge on each host with the guests' ports and the uplink. No overlay: the
//! baseline that overlays are measured against. It knows no networks: all guests are in one, and tags of
//! trunks pass as they are.

use super::Backend;
use crate::error::LabError;
use crate::session::Session;
use crate::topology::{AGEING_SECONDS, Expected, Node, Topology, UPLINK};

const BRIDGE: &str = "br0";

pub(super) struct Bridge;

impl Backend for Bridge {
    fn build(&mut self, _session: &Session, topology: &Topology) -> Result<(), LabError> {
        for (index, host) in topology.hosts.iter().enumerate() {
            let ports = topology.ports_on(index);
            let mut ports: Vec<&str> = ports.map(|(_, port)| port.host_device.as_str()).collect();
            if topology.has_underlay() {
                ports.push(UPLINK);
            }
            join(host, BRIDGE, &ports)?;
        }
        Ok(())
    }

    fn expected(&self) -> Expected {
        Expected::Plain
    }

    fn devices(&self, topology: &Topology) -> Vec<(usize, String)> {
        let hosts = 0..topology.hosts.len();
        hosts.map(|host| (host, BRIDGE.to_owned())).collect()
    }
}

/// Joins ports by a bridge, whose MTU follows its smallest port.
pub(super) fn join(host: &Node, bridge: &str, ports: &[&str]) -> Result<(), LabError> {
    host.netlink.add_bridge(bridge)?;
    host.netlink.set_bridge_ageing(bridge, AGEING_SECONDS)?;
    for port in ports {
        host.netlink.set_master(port, bridge)?;
    }
    host.netlink.set_up(bridge)?;
    Ok(())
}

pub(super) fn check(session: &Session) -> Result<Option<String>, LabError> {
    let tried = session.try_in_netns(|netlink| netlink.add_bridge(BRIDGE))?;
    Ok(tried
        .err()
        .map(|error| format!("the kernel makes no bridge: {error}")))
}
