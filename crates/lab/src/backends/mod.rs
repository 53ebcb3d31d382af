//! The networks that are compared: each joins `port0` to `uplink` on both hosts of a topology.
//!
//! A new backend is a file here, a name in `record`, and a line in [`new`] and [`check`].

mod bridge;
mod direct;
mod kernel_vxlan;
mod overlane;
mod overlane_vlan;
mod ovs;
mod ovs_switch;
mod ovs_vlan;

use crate::error::LabError;
use crate::proof::Expected;
use crate::record::BackendName;
use crate::session::Session;
use crate::topology::Topology;

/// What joins the guests of one topology.
pub(crate) trait Backend {
    /// Sets itself up on both hosts.
    fn build(&mut self, session: &Session, topology: &Topology) -> Result<(), LabError>;

    /// How the guests' packets have to look on the underlay.
    fn expected(&self) -> Expected;

    /// What a reader of its cells has to know.
    fn notes(&self) -> Vec<String> {
        Vec::new()
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
        BackendName::KernelVxlan => Box::new(kernel_vxlan::KernelVxlan),
        BackendName::OvsVlan => Box::new(ovs_vlan::OvsVlan::default()),
        BackendName::OvsVxlan => Box::new(ovs::Ovs::vxlan()),
        BackendName::OvsGeneve => Box::new(ovs::Ovs::geneve()),
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
        BackendName::KernelVxlan => kernel_vxlan::check(session),
        BackendName::OvsVlan | BackendName::OvsVxlan | BackendName::OvsGeneve => {
            Ok(ovs_switch::check())
        }
        BackendName::OverlaneVlan | BackendName::OverlaneVxlan | BackendName::OverlaneGeneve => {
            Ok(overlane::check())
        }
    }
}
