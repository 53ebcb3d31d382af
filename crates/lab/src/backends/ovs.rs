//! `ovs-vxlan` and `ovs-geneve`: Open vSwitch in userspace with a tunnel between the hosts.
//!
//! ```text
//! port0 ── br-int ── tunnel ⇢ br-phys (internal port holds the underlay address) ── uplink
//! ```
//!
//! Userspace tunnelling finds the outer path by the kernel's routes: the underlay address therefore
//! lies on the bridge that holds the uplink (OVS documentation, "Userspace native tunneling").

use super::Backend;
use super::ovs_switch::{self, Switches};
use crate::error::LabError;
use crate::proof::Expected;
use crate::session::Session;
use crate::topology::{PORT_DEVICE, PREFIX, Topology, UPLINK, VNI};
use std::net::Ipv4Addr;

pub(super) struct Ovs {
    kind: &'static str,
    expected: Expected,
    switches: Switches,
}

impl Ovs {
    pub(super) fn vxlan() -> Self {
        Self {
            kind: "vxlan",
            expected: Expected::Vxlan,
            switches: Switches::default(),
        }
    }

    pub(super) fn geneve() -> Self {
        Self {
            kind: "geneve",
            expected: Expected::Geneve { ovn: false },
            switches: Switches::default(),
        }
    }

    /// Bridges, uplink, tunnel and the guest's port.
    fn script(&self, topology: &Topology, other: Ipv4Addr) -> String {
        let underlay_mtu = topology.group.mtu_class.underlay_mtu();
        let guest_mtu = topology.group.mtu_class.guest_mtu(topology.backend);
        format!(
            "add-br br-phys -- set bridge br-phys datapath_type=netdev \
             -- set interface br-phys mtu_request={underlay_mtu} \
             -- add-port br-phys {UPLINK} \
             -- add-br br-int -- set bridge br-int datapath_type=netdev \
             -- add-port br-int {PORT_DEVICE} -- set interface {PORT_DEVICE} mtu_request={guest_mtu} \
             -- add-port br-int tunnel0 -- set interface tunnel0 type={} \
             options:remote_ip={other} options:key={VNI}",
            self.kind
        )
    }
}

impl Backend for Ovs {
    fn build(&mut self, session: &Session, topology: &Topology) -> Result<(), LabError> {
        Switches::prepare(topology)?;
        for (host, own, other) in topology.hosts() {
            let instance = self.switches.start(session, topology, host)?;
            instance.configure(session, host, &self.script(topology, other))?;
            host.netlink.add_address("br-phys", own.into(), PREFIX)?;
            host.netlink.set_up("br-phys")?;
            host.netlink.set_up("br-int")?;
        }
        Ok(())
    }

    fn expected(&self) -> Expected {
        self.expected
    }

    fn notes(&self) -> Vec<String> {
        ovs_switch::notes()
    }

    fn tear_down(&mut self, _session: &Session, _topology: &Topology) -> Result<(), LabError> {
        self.switches.stop();
        Ok(())
    }
}
