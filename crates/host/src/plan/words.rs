//! The plan in words, for people: one line per thing that is added, changed or removed.

use std::collections::{BTreeMap, BTreeSet};

use overlane_ebpf::abi;
use overlane_ebpf::tables::Table;
use zerocopy::{FromBytes, IntoBytes};

use super::{Entry, Fresh, Plan, Step, Target};
use crate::current::Current;
use crate::observe::port_by_key;
use crate::report::{Change, ChangeKind};
use crate::state::{PortState, State, SwitchState, switch_words};

mod machine;
mod rules;

/// Up to so many entries of one kind are listed, more are counted.
const LISTED_MAX: usize = 8;

/// All lines, in the order of the fabric file: ports, switches, remotes, addresses, then the machine's side.
pub(super) fn changes(
    target: &Target<'_>,
    current: &Current,
    plan: &Plan,
    fresh: &Fresh,
) -> Vec<Change> {
    let should = State::of(target.tables);
    let is = current.state.as_ref();
    let mut lines = Vec::new();
    ports(target, &should, is, plan, &mut lines);
    switches(&should, is, plan, &mut lines);
    remotes(&should, is, plan, &mut lines);
    rules::rules(target, is, plan, &mut lines);
    rules::routers(&should, is, plan, &mut lines);
    // In a new set every entry is written again; that is no news about the fabric.
    if !(plan.new_set && is.is_some()) {
        addresses(&should, is, plan, &mut lines);
    }
    machine::machine(target, current, plan, fresh, &mut lines);
    lines
}

fn ports(
    target: &Target<'_>,
    should: &State,
    is: Option<&State>,
    plan: &Plan,
    lines: &mut Vec<Change>,
) {
    let old = by_name(is.map(|is| is.ports.as_slice()), |port| &port.name);
    for port in &should.ports {
        let presence = presence(target, is, &port.device);
        let words = format!(
            "port {} (device {}, key {}){}",
            port.name,
            port.place(),
            port.key,
            presence.words()
        );
        let reattached = plan.steps.iter().any(|step| {
            matches!(step, Step::Attach { device, program, .. } if *device == port.device && program.name() == "from_port")
        });
        match old.get(port.name.as_str()) {
            None => lines.push(Change::add(words)),
            Some(old) if *old != port => lines.push(Change::modify(words)),
            Some(_) if presence.is_new() => lines.push(Change::modify(words)),
            Some(_) if reattached => lines.push(Change::modify(format!(
                "{words}: attached to its device again"
            ))),
            Some(_) if port_entry_changes(target, port, plan) => lines.push(Change::modify(words)),
            Some(_) => {}
        }
    }
    let names: BTreeSet<&str> = should.ports.iter().map(|port| port.name.as_str()).collect();
    for port in old
        .values()
        .filter(|port| !names.contains(port.name.as_str()))
    {
        lines.push(Change::remove(format!(
            "port {} (device {}, key {})",
            port.name,
            port.place(),
            port.key
        )));
    }
}

/// Whether a device that the fabric names is there.
#[derive(Debug, Clone, Copy)]
struct Presence {
    is_missing: bool,
    was_missing: bool,
}

fn presence(target: &Target<'_>, is: Option<&State>, device: &str) -> Presence {
    Presence {
        is_missing: target.resolved.is_missing(device),
        was_missing: is.is_some_and(|is| is.missing.contains(device)),
    }
}

impl Presence {
    /// It came or went since the last `apply`.
    const fn is_new(self) -> bool {
        self.is_missing != self.was_missing
    }

    const fn words(self) -> &'static str {
        match (self.is_missing, self.was_missing) {
            (true, _) => ": its device is missing",
            (false, true) => ": its device is there",
            (false, false) => "",
        }
    }
}

/// The port's own entry is written though its names are the same: repaired, or its device, its security or
/// its learning changed.
fn port_entry_changes(target: &Target<'_>, port: &PortState, plan: &Plan) -> bool {
    let index = target
        .resolved
        .devices
        .ports
        .iter()
        .find(|(name, _)| name.as_str() == port.device)
        .map(|(_, d)| d.ifindex);
    let Some(index) = index.filter(|_| !plan.new_set) else {
        return false;
    };
    let id = abi::PortId {
        ifindex: index,
        vlan: port.vlan.map_or(0, u32::from),
    };
    let mut entries = puts(plan, Table::Ports);
    entries.any(|entry| entry.key == id.as_bytes() && !differs_in_rules_only(entry))
}

/// Rules have words of their own.
fn differs_in_rules_only(entry: &Entry) -> bool {
    let without_rules = |bytes: &[u8]| {
        let mut port = abi::Port::read_from_bytes(bytes).ok()?;
        port.flags &= !(abi::PORT_RULES_ODD | abi::PORT_FIREWALL);
        (port.rules_from, port.rules_to) = (0, 0);
        Some(port)
    };
    let old = entry.old.as_deref().and_then(without_rules);
    old.is_some() && old == without_rules(&entry.new)
}

fn switches(should: &State, is: Option<&State>, plan: &Plan, lines: &mut Vec<Change>) {
    let old = by_name(is.map(|is| is.switches.as_slice()), |switch| &switch.name);
    let mut flooding: BTreeSet<u32> = BTreeSet::new();
    if !plan.new_set {
        let entries = puts(plan, Table::Flood).chain(deletes(plan, Table::Flood));
        flooding.extend(
            entries.filter_map(|entry| {
                Some(abi::FloodKey::read_from_bytes(&entry.key).ok()?.switch_id)
            }),
        );
    }
    for switch in &should.switches {
        let words = format!("switch {} ({})", switch.name, switch_words(switch.id));
        match old.get(switch.name.as_str()) {
            None => lines.push(Change::add(words)),
            Some(old) if *old != switch => {
                let differences = switch_differences(old, switch).join(", ");
                lines.push(Change::modify(format!("{words}: {differences}")));
            }
            Some(_) if flooding.contains(&switch.id) => {
                lines.push(Change::modify(format!("{words}: flood list")))
            }
            Some(_) => {}
        }
    }
    let names: BTreeSet<&str> = should
        .switches
        .iter()
        .map(|switch| switch.name.as_str())
        .collect();
    for switch in old
        .values()
        .filter(|switch| !names.contains(switch.name.as_str()))
    {
        lines.push(Change::remove(format!(
            "switch {} ({})",
            switch.name,
            switch_words(switch.id)
        )));
    }
}

/// What is another than before.
fn switch_differences(old: &SwitchState, new: &SwitchState) -> Vec<String> {
    let mut differences = Vec::new();
    if old.id != new.id {
        differences.push(format!("was {}", switch_words(old.id)));
    }
    if old.flood_unknown != new.flood_unknown {
        let unknown = if new.flood_unknown { "flood" } else { "drop" };
        differences.push(format!("unknown unicast {unknown}"));
    }
    if old.vlan_transparent != new.vlan_transparent {
        let tags = if new.vlan_transparent {
            "carried"
        } else {
            "refused"
        };
        differences.push(format!("VLAN tags of guests {tags}"));
    }
    if old.path_mtu_discovery.unwrap_or_default() != new.path_mtu_discovery.unwrap_or_default() {
        let are_told = match new.path_mtu_discovery {
            Some(true) => "told",
            _ => "not told",
        };
        differences.push(format!("senders of too large packets are {are_told}"));
    }
    if old.mss_clamp != new.mss_clamp {
        let mss = if new.mss_clamp {
            "clamped"
        } else {
            "left alone"
        };
        differences.push(format!("MSS of TCP {mss}"));
    }
    if old.learn_age_s != new.learn_age_s {
        differences.push(match new.learn_age_s {
            Some(age_s) => format!("learned addresses kept for {age_s} s"),
            None => "no learning".to_owned(),
        });
    }
    if old.timeouts != new.timeouts {
        differences.push("time-outs".to_owned());
    }
    differences
}

fn remotes(should: &State, is: Option<&State>, plan: &Plan, lines: &mut Vec<Change>) {
    let old = by_name(is.map(|is| is.remotes.as_slice()), |remote| &remote.name);
    for remote in &should.remotes {
        let words = format!("remote {} ({})", remote.name, remote.address);
        let key = abi::Addr::from(remote.address);
        let rewritten =
            !plan.new_set && puts(plan, Table::Remotes).any(|entry| entry.key == key.bytes);
        match old.get(remote.name.as_str()) {
            None => lines.push(Change::add(words)),
            Some(old) if *old != remote => lines.push(Change::modify(words)),
            Some(_) if rewritten => lines.push(Change::modify(format!("{words}: outer header"))),
            Some(_) => {}
        }
    }
    let names: BTreeSet<&str> = should
        .remotes
        .iter()
        .map(|remote| remote.name.as_str())
        .collect();
    for remote in old
        .values()
        .filter(|remote| !names.contains(remote.name.as_str()))
    {
        lines.push(Change::remove(format!(
            "remote {} ({})",
            remote.name, remote.address
        )));
    }
}

fn addresses(should: &State, is: Option<&State>, plan: &Plan, lines: &mut Vec<Change>) {
    let switch = |id: u32| {
        let of = |state: &State| {
            state
                .switches
                .iter()
                .find(|switch| switch.id == id)
                .map(|s| s.name.clone())
        };
        of(should)
            .or_else(|| of(is?))
            .unwrap_or_else(|| switch_words(id))
    };
    let fdb = |entry: &Entry| {
        let key = abi::FdbKey::read_from_bytes(&entry.key).ok()?;
        Some(format!(
            "FDB entry {} on switch {}",
            overlane_wire::Mac::from(key.mac),
            switch(key.switch_id)
        ))
    };
    let neighbour = |entry: &Entry| {
        let key = abi::NeighbourKey::read_from_bytes(&entry.key).ok()?;
        Some(format!(
            "neighbour {} on switch {}",
            std::net::IpAddr::from(key.addr),
            switch(key.switch_id)
        ))
    };
    table(plan, Table::Fdb, "FDB entries", &fdb, lines);
    table(plan, Table::Neighbours, "neighbours", &neighbour, lines);
    let port = |id: u32, key: u32| {
        let of = |state: &State| port_by_key(state, id, key).map(|port| port.name.clone());
        let name = of(should).or_else(|| of(is?));
        name.unwrap_or_else(|| format!("{key} of switch {}", switch(id)))
    };
    let allowed = |entry: &Entry| {
        let key = abi::AllowedAddressKey::read_from_bytes(&entry.key).ok()?;
        let addr = std::net::IpAddr::from(key.addr);
        let before = 96 + if addr.is_ipv4() { 96 } else { 0 };
        let length = key.prefixlen.checked_sub(before)?;
        let port = port(u32::from_be(key.switch_id), u32::from_be(key.key));
        Some(format!("allowed address {addr}/{length} of port {port}"))
    };
    let allowed_mac = |entry: &Entry| {
        let key = abi::AllowedMacKey::read_from_bytes(&entry.key).ok()?;
        let mac = overlane_wire::Mac::from(key.mac);
        let port = port(key.switch_id, key.key.into());
        Some(format!("allowed MAC {mac} of port {port}"))
    };
    let (addresses, macs) = (Table::AllowedAddresses, Table::AllowedMacs);
    table(plan, addresses, "allowed addresses", &allowed, lines);
    table(plan, macs, "allowed MACs", &allowed_mac, lines);
}

fn table(
    plan: &Plan,
    table: Table,
    many: &str,
    words: &dyn Fn(&Entry) -> Option<String>,
    lines: &mut Vec<Change>,
) {
    let added: Vec<_> = puts(plan, table)
        .filter(|entry| entry.old.is_none())
        .collect();
    let changed: Vec<_> = puts(plan, table)
        .filter(|entry| entry.old.is_some())
        .collect();
    let removed: Vec<_> = deletes(plan, table).collect();
    for (kind, entries) in [
        (ChangeKind::Add, added),
        (ChangeKind::Modify, changed),
        (ChangeKind::Remove, removed),
    ] {
        if entries.len() > LISTED_MAX {
            lines.push(Change {
                kind,
                what: format!("{} {many}", entries.len()),
            });
        } else {
            lines.extend(
                entries
                    .into_iter()
                    .filter_map(words)
                    .map(|what| Change { kind, what }),
            );
        }
    }
}

fn puts(plan: &Plan, wanted: Table) -> impl Iterator<Item = &Entry> {
    plan.steps
        .iter()
        .filter_map(move |step| match step {
            Step::Put { table, entries } if *table == wanted => Some(entries),
            _ => None,
        })
        .flatten()
}

fn deletes(plan: &Plan, wanted: Table) -> impl Iterator<Item = &Entry> {
    plan.steps
        .iter()
        .filter_map(move |step| match step {
            Step::Delete { table, entries } if *table == wanted => Some(entries),
            _ => None,
        })
        .flatten()
}

fn by_name<T>(items: Option<&[T]>, name: fn(&T) -> &String) -> BTreeMap<&str, &T> {
    items
        .unwrap_or_default()
        .iter()
        .map(|item| (name(item).as_str(), item))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch() -> SwitchState {
        SwitchState {
            name: "blue".to_owned(),
            id: 5001,
            flood_unknown: false,
            vlan_transparent: false,
            path_mtu_discovery: Some(true),
            mss_clamp: false,
            learn_age_s: None,
            timeouts: None,
        }
    }

    #[test]
    fn what_becomes_of_too_large_packets_is_told() {
        let silent = SwitchState {
            path_mtu_discovery: Some(false),
            mss_clamp: true,
            ..switch()
        };
        let (not_told, clamped) = (
            "senders of too large packets are not told",
            "MSS of TCP clamped",
        );
        assert_eq!(switch_differences(&switch(), &silent), [not_told, clamped]);
        let (told, left_alone) = (
            "senders of too large packets are told",
            "MSS of TCP left alone",
        );
        assert_eq!(switch_differences(&silent, &switch()), [told, left_alone]);
        // A version that told nobody wrote the state.
        let earlier = SwitchState {
            path_mtu_discovery: None,
            ..switch()
        };
        assert_eq!(switch_differences(&earlier, &switch()), [told]);
    }
}
