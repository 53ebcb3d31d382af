//! The plan in words, for people: one line per thing that is added, changed or removed.

use std::collections::{BTreeMap, BTreeSet};

use overlane_ebpf::abi;
use overlane_ebpf::tables::Table;
use zerocopy::{FromBytes, IntoBytes};

use super::{Cleanup, Entry, Fresh, Plan, Step, Target};
use crate::current::Current;
use crate::paths::{self, GRO, SEGMENTER};
use crate::report::{Change, ChangeKind};
use crate::state::{PortState, State, SwitchState, switch_words};

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
    // In a new set every entry is written again; that is no news about the fabric.
    if !(plan.new_set && is.is_some()) {
        addresses(&should, is, plan, &mut lines);
    }
    machine(target, current, plan, fresh, &mut lines);
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
        let words = format!(
            "port {} (device {}, key {})",
            port.name,
            port.place(),
            port.key
        );
        let reattached = plan.steps.iter().any(|step| {
            matches!(step, Step::Attach { device, program } if *device == port.device && program.name() == "from_port")
        });
        match old.get(port.name.as_str()) {
            None => lines.push(Change::add(words)),
            Some(old) if *old != port => lines.push(Change::modify(words)),
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
    puts(plan, Table::Ports).any(|entry| entry.key == id.as_bytes())
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
    if old.learn_age_s != new.learn_age_s {
        differences.push(match new.learn_age_s {
            Some(age_s) => format!("learned addresses kept for {age_s} s"),
            None => "no learning".to_owned(),
        });
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

fn machine(
    target: &Target<'_>,
    current: &Current,
    plan: &Plan,
    fresh: &Fresh,
    lines: &mut Vec<Change>,
) {
    let is = current.state.as_ref();
    settings(target, plan, lines);
    let uplink = target.tables.uplink.as_str();
    let mut replaced = 0;
    for step in &plan.steps {
        match step {
            Step::Attach { program, device }
                if device == uplink && program.name() == "from_underlay" =>
            {
                let words = format!("uplink {uplink}");
                lines.push(if is.is_some_and(|is| is.uplink == uplink) {
                    Change::modify(format!("{words}: attached to its device again"))
                } else {
                    Change::add(words)
                });
            }
            Step::Attach { device, .. }
                if paths::ASIDE.iter().any(|(own, _)| own == device)
                    && !fresh.contains(device.as_str()) =>
            {
                lines.push(Change::modify(format!(
                    "device {device}: program attached again"
                )));
            }
            Step::Replace { .. } => replaced += 1,
            Step::Segmenter => lines.push(device(current, SEGMENTER, "segmenter")),
            Step::Gro { .. } => lines.push(device(current, GRO, "receive coalescing")),
            Step::RaiseGro => lines.push(Change::modify(format!("device {GRO}: up"))),
            Step::Discard(name) => lines.push(Change::remove(format!(
                "device {name} of an interrupted run"
            ))),
            Step::Promiscuous { device, on: true } => lines.push(Change::add(format!(
                "promiscuous mode of {device} (for switches on a VLAN)"
            ))),
            Step::Promiscuous { device, on: false } => {
                lines.push(Change::remove(format!("promiscuous mode of {device}")))
            }
            Step::Manage(hop) => lines.push(Change::add(format!(
                "next hop {} on {}",
                hop.address, hop.device
            ))),
            Step::Release(hop) => lines.push(Change::remove(format!(
                "next hop {} on {}",
                hop.address, hop.device
            ))),
            _ => {}
        }
    }
    if is.is_some_and(|is| is.uplink != uplink) {
        lines.extend(is.map(|is| Change::remove(format!("uplink {}", is.uplink))));
    }
    if replaced > 0 {
        let maps = if plan.new_set { " and maps" } else { "" };
        lines.push(Change::modify(format!(
            "data path: new programs{maps} on {replaced} devices"
        )));
    }
    if plan.cleanups.contains(&Cleanup::Device(GRO.to_owned())) {
        lines.push(Change::remove(format!("device {GRO} (receive coalescing)")));
    }
}

fn device(current: &Current, name: &str, what: &str) -> Change {
    let words = format!("device {name} ({what})");
    if current.devices.contains_key(name) {
        Change::modify(words)
    } else {
        Change::add(words)
    }
}

fn settings(target: &Target<'_>, plan: &Plan, lines: &mut Vec<Change>) {
    let old = plan.steps.iter().find_map(|step| match step {
        Step::Settings { old } => old
            .as_deref()
            .and_then(|old| abi::Settings::read_from_bytes(old).ok()),
        _ => None,
    });
    let new = target.contents[&Table::Settings].values().next();
    let new = new.and_then(|new| abi::Settings::read_from_bytes(new).ok());
    let (Some(old), Some(new)) = (old, new) else {
        return;
    };
    // An array map starts with zeros: nothing was configured.
    if old.uplink_ifindex == 0 {
        return;
    }
    let fields: [(&str, String, String); 8] = [
        ("tunnel end point", address(old.vtep), address(new.vtep)),
        (
            "underlay MTU",
            old.underlay_mtu.to_string(),
            new.underlay_mtu.to_string(),
        ),
        (
            "encapsulation",
            encapsulation(old.encapsulation),
            encapsulation(new.encapsulation),
        ),
        (
            "tunnel port",
            old.tunnel_port.to_string(),
            new.tunnel_port.to_string(),
        ),
        ("source ports", ports_range(&old), ports_range(&new)),
        (
            "strict",
            (old.strict != 0).to_string(),
            (new.strict != 0).to_string(),
        ),
        ("DSCP", dscp(&old), dscp(&new)),
        (
            "uplink index",
            old.uplink_ifindex.to_string(),
            new.uplink_ifindex.to_string(),
        ),
    ];
    for (name, old, new) in fields {
        if old != new {
            lines.push(Change::modify(format!("{name} {old} → {new}")));
        }
    }
}

fn address(addr: abi::Addr) -> String {
    std::net::IpAddr::from(addr).to_string()
}

fn encapsulation(number: u8) -> String {
    if number == abi::ENCAPSULATION_GENEVE {
        "geneve"
    } else {
        "vxlan"
    }
    .to_owned()
}

fn dscp(settings: &abi::Settings) -> String {
    if settings.copy_dscp == 0 {
        settings.dscp.to_string()
    } else {
        "copy".to_owned()
    }
}

fn ports_range(settings: &abi::Settings) -> String {
    format!("{}-{}", settings.source_port_min, settings.source_port_max)
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
