//! `ovs-vxlan`, `ovs-geneve`, `ovs-kernel-vxlan`, `ovs-kernel-geneve`: Open vSwitch with a tunnel to each other host.
//!
//! ```text
//! userspace   port0 ── br-int ── tunnel ⇢ br-phys (internal port holds the underlay address) ── uplink
//! kernel      port0 ── br-int ── tunnel (vxlan_sys_4789, genev_sys_6081) ⇢ uplink (holds the underlay address)
//! ```
//!
//! Userspace tunnelling finds the outer path by the kernel's routes: the underlay address therefore
//! lies on the bridge that holds the uplink (OVS documentation, "Userspace native tunneling"). Each network
//! is a tag within br-int, with a tunnel of its own; the tags of guests that are trunks are exchanged by flows.

use super::Backend;
use super::ovs_flows::{self, Carrier};
use super::ovs_switch::{self, Datapath, Switches};
use crate::error::LabError;
use crate::session::Session;
use crate::topology::{Expected, Network, Topology, UPLINK, layout};
use std::collections::BTreeMap;
use std::fmt::Write;

const INNER: &str = "br-int";
const OUTER: &str = "br-phys";

pub(super) struct Ovs {
    kind: &'static str,
    /// The one device that the kernel's datapath has for all tunnels.
    device: &'static str,
    expected: Expected,
    switches: Switches,
}

impl Ovs {
    pub(super) fn vxlan(datapath: Datapath) -> Self {
        Self {
            kind: "vxlan",
            device: "vxlan_sys_4789",
            expected: Expected::Vxlan,
            switches: Switches::new(datapath),
        }
    }

    pub(super) fn geneve(datapath: Datapath) -> Self {
        Self {
            kind: "geneve",
            device: "genev_sys_6081",
            expected: Expected::Geneve { ovn: false },
            switches: Switches::new(datapath),
        }
    }

    /// Bridges, uplink, tunnels and the guests' ports.
    fn script(&self, topology: &Topology, host: usize) -> String {
        let datapath = self.switches.datapath();
        let mut script = ovs_switch::bridge(INNER, datapath);
        if topology.has_underlay() && datapath == Datapath::Userspace {
            let mtu = topology.setting.mtu_class.underlay_mtu();
            script += &format!(
                " -- {} -- set interface {OUTER} mtu_request={mtu} -- add-port {OUTER} {UPLINK}",
                ovs_switch::bridge(OUTER, datapath)
            );
        }
        let guest_mtu = topology.guest_mtu();
        for (_, port) in topology.ports_on(host) {
            let tag = tag(topology, port.networks.start);
            let device = &port.host_device;
            // Writing to a string does not fail.
            let _ = write!(
                script,
                " -- add-port {INNER} {device}{tag} -- set interface {device} mtu_request={guest_mtu}"
            );
        }
        for peer in topology.peers(host) {
            self.push_tunnels(&mut script, topology, peer);
        }
        script
    }

    /// The tunnels to another host: one for each network, or one for all tags of trunks.
    fn push_tunnels(&self, script: &mut String, topology: &Topology, peer: usize) {
        let kind = self.kind;
        let remote = topology.host_address(peer);
        let options = format!("type={kind} options:remote_ip={remote} options:csum=false");
        let common = ovs_flows::tunnel_to(peer);
        if topology.setting.is_trunk() {
            let _ = write!(
                script,
                " -- add-port {INNER} {common} -- set interface {common} {options} options:key=flow"
            );
            return;
        }
        for Network { index, vni, .. } in topology.networks() {
            let tag = tag(topology, index);
            let name = format!("{common}-{index}");
            let _ = write!(
                script,
                " -- add-port {INNER} {name}{tag} -- set interface {name} {options} options:key={vni}"
            );
        }
    }
}

/// The tag that keeps networks apart within the bridge; a single one needs none.
fn tag(topology: &Topology, network: u32) -> String {
    let setting = &topology.setting;
    if setting.vnis == 1 || setting.is_trunk() {
        return String::new();
    }
    format!(" tag={}", Network::of(setting, network).vlan)
}

impl Backend for Ovs {
    fn build(&mut self, session: &Session, topology: &Topology) -> Result<(), LabError> {
        self.switches.prepare(topology)?;
        let datapath = self.switches.datapath();
        for (index, host) in topology.hosts.iter().enumerate() {
            let script = self.script(topology, index);
            let instance = self.switches.start(session, topology, host)?;
            instance.configure(session, host, &script)?;
            if topology.has_underlay() {
                let (own, prefix) = (topology.host_address(index), topology.underlay_prefix());
                match datapath {
                    Datapath::Userspace => {
                        host.add_address(OUTER, own, prefix)?;
                        host.netlink.set_up(OUTER)?;
                        let network = layout::underlay_network(topology.setting.underlay);
                        instance.add_route(session, host, network, OUTER)?;
                    }
                    Datapath::Kernel => host.add_address(UPLINK, own, prefix)?,
                }
            }
            host.netlink.set_up(INNER)?;
            // As with the kernel's own bridge: what is joined is joined at the cables' ends.
            if host.netlink.link(self.device).is_ok() {
                host.set_features(self.device, &[("gro", false)])?;
            }
            if topology.setting.is_trunk() {
                let flows = ovs_flows::flows(topology, index, Carrier::Tunnel);
                instance.set_flows(session, host, INNER, &flows)?;
            }
        }
        Ok(())
    }

    fn expected(&self) -> Expected {
        self.expected
    }

    fn devices(&self, topology: &Topology) -> Vec<(usize, String)> {
        if self.switches.datapath() == Datapath::Userspace || !topology.has_underlay() {
            return Vec::new();
        }
        (0..topology.hosts.len())
            .map(|host| (host, self.device.to_owned()))
            .collect()
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
