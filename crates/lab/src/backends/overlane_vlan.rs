//! `overlane-vlan`: this project's data path with a logical switch that is a VLAN on the uplink
//! (`uplink_vlan`): the same stages, and no tunnel. What a tunnel costs is the difference from it.

use super::overlane::Overlane;
use crate::proof::Expected;
use crate::topology::VLAN;

pub(super) fn backend() -> Overlane {
    // No settings of tunnels: there are none.
    Overlane::new(
        String::new(),
        format!("uplink_vlan: {VLAN}"),
        Expected::Vlan,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fabric_file_has_a_vlan_and_no_tunnel() {
        let fabric = backend().fabric(["lab1-a", "lab1-b"]);
        assert!(
            fabric.contains("\nswitches:\n  lab: { uplink_vlan: 100 }\n"),
            "{fabric}"
        );
        assert!(
            !fabric.contains("tunnel") && !fabric.contains("vni"),
            "{fabric}"
        );
        assert!(fabric.starts_with("version: 1\nhosts:\n"), "{fabric}");
    }
}
