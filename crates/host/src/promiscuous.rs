//! Promiscuous mode of the uplink. A switch on a VLAN brings frames to the guests' MACs, which the network
//! card would refuse; and cards that sort by VLAN take every VLAN in that mode. Whether it was us who
//! switched it on stands in the state file, since a device that its user made promiscuous stays so.

use std::collections::BTreeSet;

use overlane_model::Tables;

/// What there is to do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Promiscuous {
    /// Switch it on for the uplink.
    pub(crate) switch_on: bool,
    /// Switch it off for these, which no longer need it.
    pub(crate) switch_off: BTreeSet<String>,
    /// Those that are promiscuous because of us from then on.
    pub(crate) ours: BTreeSet<String>,
}

/// Decides from what the tables want, whether the uplink is promiscuous now (`is_on`), and which devices
/// we made so `before`.
pub(crate) fn decide(tables: &Tables, is_on: bool, before: &BTreeSet<String>) -> Promiscuous {
    let uplink = tables.uplink.as_str();
    let wanted = tables
        .switches
        .iter()
        .any(|switch| switch.id.vlan().is_some());
    let mut decided = Promiscuous {
        switch_on: wanted && !is_on,
        switch_off: before.clone(),
        ours: BTreeSet::new(),
    };
    if wanted {
        let was_ours = decided.switch_off.remove(uplink);
        if was_ours || decided.switch_on {
            decided.ours.insert(uplink.to_owned());
        }
    }
    decided
}

#[cfg(test)]
mod tests {
    use overlane_model::Fabric;

    use super::*;

    fn tables(switch: &str) -> Tables {
        let text = format!(
            "version: 1\nhosts: {{ h1: {{ underlay: 198.18.0.1, uplink: eth1 }} }}\n\
             switches: {{ s: {{ {switch} }} }}\n\
             ports: {{ p: {{ switch: s, host: h1, device: v, mac: '02:00:00:00:00:01' }} }}\n"
        );
        Fabric::parse("f", &text).unwrap().compile("h1").unwrap()
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn check(switch: &str, is_on: bool, before: &[&str], on: bool, off: &[&str], ours: &[&str]) {
        let expected = Promiscuous {
            switch_on: on,
            switch_off: set(off),
            ours: set(ours),
        };
        let found = decide(&tables(switch), is_on, &set(before));
        assert_eq!(found, expected, "{switch}, on {is_on}, before {before:?}");
    }

    #[test]
    fn only_what_we_switched_on_is_switched_off() {
        let (vni, vlan) = ("vni: 5001", "uplink_vlan: 100");
        check(vni, false, &[], false, &[], &[]);
        check(vni, true, &[], false, &[], &[]);
        check(vni, true, &["eth1"], false, &["eth1"], &[]);
        check(vlan, false, &[], true, &[], &["eth1"]);
        // The user's.
        check(vlan, true, &[], false, &[], &[]);
        check(vlan, true, &["eth1"], false, &[], &["eth1"]);
        // Re-created, or switched off by somebody.
        check(vlan, false, &["eth1"], true, &[], &["eth1"]);
        // Another uplink than before.
        check(vlan, false, &["eth0"], true, &["eth0"], &["eth1"]);
        check(vlan, true, &["eth0"], false, &["eth0"], &[]);
    }
}
