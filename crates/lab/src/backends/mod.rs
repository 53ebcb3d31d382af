//! The networks that are compared: each joins the guests' ports to `uplink` on every host of a topology.
//!
//! A new backend is a file here, a name in `record`, and a line in [`new`], [`check`] and [`unsupported`].

mod bridge;
mod direct;
mod kernel_geneve;
mod kernel_vlan;
mod kernel_vxlan;
mod overlane;
mod overlane_fabric;
mod overlane_services;
mod overlane_vlan;
mod ovs;
mod ovs_flows;
mod ovs_switch;
mod ovs_vlan;

use crate::error::LabError;
use crate::session::Session;
use crate::topology::{Expected, Network, Topology};
use overlane_analysis::record::BackendName;
use ovs_switch::Datapath;
use std::collections::BTreeMap;

/// What joins the guests of one topology.
pub(crate) trait Backend {
    /// Sets itself up on all hosts.
    fn build(&mut self, session: &Session, topology: &Topology) -> Result<(), LabError>;

    /// How the guests' packets have to look on the underlay.
    fn expected(&self) -> Expected;

    /// The devices that it adds, with their host counted from 0: they have counters.
    fn devices(&self, _topology: &Topology) -> Vec<(usize, String)> {
        Vec::new()
    }

    /// Its own counters of lost packets, since it was built: `host1 overlane unknown_unicast` → packets.
    fn counters(
        &self,
        _session: &Session,
        _topology: &Topology,
    ) -> Result<BTreeMap<String, u64>, LabError> {
        Ok(BTreeMap::new())
    }

    /// What a reader of its cells has to know.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// The machine of a pair stands still on its way to a host: its port goes over to that one. Called again for the same host
    /// it does nothing. A switch that learns needs none of it: it finds the machine by what it sends.
    fn take_over(
        &mut self,
        _session: &Session,
        _topology: &Topology,
        _pair: usize,
        _to: usize,
    ) -> Result<(), LabError> {
        Ok(())
    }

    /// All machines are at the first host again, whatever became of a [`take_over`](Self::take_over).
    fn bring_home(&mut self, _session: &Session, _topology: &Topology) -> Result<(), LabError> {
        Ok(())
    }

    /// Takes itself down in order; namespaces, devices and processes are the session's to remove.
    fn tear_down(&mut self, _session: &Session, _topology: &Topology) -> Result<(), LabError> {
        Ok(())
    }
}

/// A backend, for one topology.
pub(crate) fn new(name: BackendName) -> Box<dyn Backend> {
    match name {
        BackendName::Direct => Box::new(direct::Direct),
        BackendName::Bridge => Box::new(bridge::Bridge),
        BackendName::KernelVlan => Box::new(kernel_vlan::KernelVlan),
        BackendName::KernelVxlan => Box::new(kernel_vxlan::KernelVxlan),
        BackendName::KernelGeneve => Box::new(kernel_geneve::KernelGeneve),
        BackendName::OvsVlan => Box::new(ovs_vlan::OvsVlan::new(Datapath::Userspace)),
        BackendName::OvsVxlan => Box::new(ovs::Ovs::vxlan(Datapath::Userspace)),
        BackendName::OvsGeneve => Box::new(ovs::Ovs::geneve(Datapath::Userspace)),
        BackendName::OvsKernelVlan => Box::new(ovs_vlan::OvsVlan::new(Datapath::Kernel)),
        BackendName::OvsKernelVxlan => Box::new(ovs::Ovs::vxlan(Datapath::Kernel)),
        BackendName::OvsKernelGeneve => Box::new(ovs::Ovs::geneve(Datapath::Kernel)),
        BackendName::OverlaneVlan => Box::new(overlane_vlan::backend()),
        BackendName::OverlaneVxlan => Box::new(overlane::Overlane::vxlan()),
        BackendName::OverlaneGeneve => Box::new(overlane::Overlane::geneve()),
    }
}

/// Why a backend cannot run here; `Ok(None)` when it can. Kernel devices are tried in a namespace of
/// their own: configuration files of kernels tell less than the kernel.
pub(crate) fn check(session: &Session, name: BackendName) -> Result<Option<String>, LabError> {
    match name {
        BackendName::Direct => Ok(None),
        BackendName::Bridge => bridge::check(session),
        BackendName::KernelVlan => kernel_vlan::check(session),
        BackendName::KernelVxlan => kernel_vxlan::check(session),
        BackendName::KernelGeneve => kernel_geneve::check(session),
        BackendName::OvsVlan | BackendName::OvsVxlan | BackendName::OvsGeneve => {
            Ok(ovs_switch::check())
        }
        BackendName::OvsKernelVlan => ovs_switch::check_kernel(session),
        BackendName::OvsKernelVxlan => either(ovs_switch::check_kernel(session)?, || {
            kernel_vxlan::check(session)
        }),
        BackendName::OvsKernelGeneve => either(ovs_switch::check_kernel(session)?, || {
            kernel_geneve::check(session)
        }),
        BackendName::OverlaneVlan | BackendName::OverlaneVxlan | BackendName::OverlaneGeneve => {
            Ok(overlane::check())
        }
    }
}

/// The first reason of two.
fn either(
    first: Option<String>,
    second: impl FnOnce() -> Result<Option<String>, LabError>,
) -> Result<Option<String>, LabError> {
    match first {
        Some(reason) => Ok(Some(reason)),
        None => second(),
    }
}

/// The networks that have ports on a host, with the ports' devices; none of them is a trunk.
fn networks_on(topology: &Topology, host: usize) -> Vec<(Network, Vec<&str>)> {
    let ports = |network: &Network| -> Vec<&str> {
        topology
            .ports_on(host)
            .filter(|(_, port)| port.networks.contains(&network.index))
            .map(|(_, port)| port.host_device.as_str())
            .collect()
    };
    topology
        .networks()
        .map(|network| (network, ports(&network)))
        .filter(|(_, ports)| !ports.is_empty())
        .collect()
}

/// For each network of each host its bridge, and the one device that joins it to the uplink.
fn devices_of_networks(topology: &Topology, uplinks: &str) -> Vec<(usize, String)> {
    let mut devices = Vec::new();
    for host in 0..topology.hosts.len() {
        for (Network { index, .. }, _) in networks_on(topology, host) {
            devices.push((host, format!("br{index}")));
            if topology.has_underlay() {
                devices.push((host, format!("{uplinks}{index}")));
            }
        }
    }
    devices
}
