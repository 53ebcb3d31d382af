//! `bridge`: a Linux bridge on each host with the guest's port and the uplink. No overlay: the
//! baseline that overlays are measured against.

use super::Backend;
use crate::error::LabError;
use crate::proof::Expected;
use crate::session::Session;
use crate::topology::{Node, PORT_DEVICE, Topology, UPLINK};

const BRIDGE: &str = "br0";

pub(super) struct Bridge;

impl Backend for Bridge {
    fn build(&mut self, _session: &Session, topology: &Topology) -> Result<(), LabError> {
        for (host, _, _) in topology.hosts() {
            join(host, UPLINK)?;
        }
        Ok(())
    }

    fn expected(&self) -> Expected {
        Expected::Plain
    }
}

/// Joins the guest's port and `other` by a bridge, whose MTU follows its smallest port.
pub(super) fn join(host: &Node, other: &str) -> Result<(), LabError> {
    host.netlink.add_bridge(BRIDGE)?;
    for port in [PORT_DEVICE, other] {
        host.netlink.set_master(port, BRIDGE)?;
    }
    host.netlink.set_up(BRIDGE)?;
    Ok(())
}

pub(super) fn check(session: &Session) -> Result<Option<String>, LabError> {
    let tried = session.try_in_netns(|netlink| netlink.add_bridge(BRIDGE))?;
    Ok(tried
        .err()
        .map(|error| format!("the kernel makes no bridge: {error}")))
}
