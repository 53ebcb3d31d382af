//! `overlane-vlan`: this project's data path with logical switches that are VLANs on the uplink
//! (`uplink_vlan`): the same stages, and no tunnel. What a tunnel costs is the difference from it.

use super::overlane::Overlane;
use crate::topology::Expected;

pub(super) fn backend() -> Overlane {
    Overlane::new(Expected::Vlan)
}
