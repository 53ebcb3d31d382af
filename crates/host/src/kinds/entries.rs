//! Entries of the maps. Rules change in an order of their own, so that no packet meets a mixture of old and new ones
//! (`bpf/lib/abi_firewall.h`, struct rule_set), and counters move before their number gets another owner.

use std::collections::BTreeMap;
use std::rc::Rc;

use overlane_ebpf::abi;
use overlane_ebpf::counters::{self, Counted, Moves};
use overlane_ebpf::maps::{MapSet, settle};
use overlane_ebpf::tables::{self, Entries, Table, is_in_the_way};
use zerocopy::FromBytes;

use super::kind::{Kind, Look};
use super::plan::Entry;
use super::plan::{Deed, Done, Mending, Plan};
use super::target::{NO_DEVICE, Target};
use crate::HostError;
use crate::lib::detour::Detour;
use crate::lib::paths::{SEGMENTER, SEGMENTER_OUT};
use crate::report::{Object, Row};
use crate::state::State;

/// Entries of the maps that `apply` fills.
pub(crate) struct MapEntries;

impl Kind for MapEntries {
    fn compare<'a>(&self, look: &Look<'a>, plan: &mut Plan<'a>) -> Result<(), HostError> {
        // Where nothing is wanted they go with the maps.
        let Some(target) = look.target else {
            return Ok(());
        };
        plan.moves = moves(target, look);
        // What an interrupted run left where ports and routers are about to look: a longer prefix, for example, would
        // hide the new entries.
        for table in Table::ALL {
            let mut entries = surplus(target, look, table);
            entries.retain(|entry| is_in_the_way(&target.contents, table, &entry.key));
            delete(plan, table, entries, Plan::add);
        }
        move_counters(plan, &[Counted::Ports, Counted::Remotes, Counted::PathMtus]);
        for table in Table::ALL {
            match table {
                Table::Settings => settings(target, look, plan),
                _ => put(target, look, plan, table),
            }
        }
        for table in Table::ALL.into_iter().rev() {
            let mut entries = surplus(target, look, table);
            entries.retain(|entry| !is_in_the_way(&target.contents, table, &entry.key));
            let is_settled = plan.deleted.iter().any(|(table, _)| table.is_referred_to());
            if !entries.is_empty() && table.is_referred_to() && !is_settled {
                plan.delete(wait_for_packets());
            }
            delete(plan, table, entries, Plan::delete);
        }
        Ok(())
    }
}

/// New ones and changed ones.
fn put<'a>(target: &Target<'_>, look: &Look<'a>, plan: &mut Plan<'a>, table: Table) {
    // The ports are what changes over to the new rules.
    if table == Table::Ports {
        move_counters(plan, &[Counted::Rules]);
    }
    let none = Entries::new();
    let is = look.current.contents.get(&table).unwrap_or(&none);
    let should = target.contents[&table].iter();
    let differs = should.filter(|(key, new)| !tables::has(is, table, key, new));
    let entries: Vec<Rc<Entry>> = differs
        .map(|(key, new)| {
            Rc::new(Entry {
                key: key.clone(),
                old: is.get(key).cloned(),
                new: new.clone(),
            })
        })
        .collect();
    if entries.is_empty() {
        return;
    }
    let written = entries.iter().map(|entry| (table, Rc::clone(entry)));
    plan.written.extend(written);
    plan.add(Deed::new(None, move |mending| {
        let maps = mending.maps()?;
        for entry in entries {
            mending.journal.before()?;
            let undo = Rc::clone(&entry);
            mending.journal.push(move || put_back(maps, table, &undo));
            maps.put(table, &entry.key, &entry.new)?;
        }
        Ok(Done::Yes)
    }));
}

fn delete<'a>(
    plan: &mut Plan<'a>,
    table: Table,
    entries: Vec<Rc<Entry>>,
    push: fn(&mut Plan<'a>, Deed<'a>),
) {
    if entries.is_empty() {
        return;
    }
    let deleted = entries.iter().map(|entry| (table, Rc::clone(entry)));
    plan.deleted.extend(deleted);
    let deed = Deed::new(None, move |mending| {
        let maps = mending.maps()?;
        for entry in entries {
            mending.journal.before()?;
            maps.delete(table, &entry.key)?;
            mending.journal.push(move || put_back(maps, table, &entry));
        }
        Ok(Done::Yes)
    });
    push(plan, deed);
}

/// Entries that are there and should not be.
fn surplus(target: &Target<'_>, look: &Look<'_>, table: Table) -> Vec<Rc<Entry>> {
    // The entries of an array cannot be deleted, only overwritten.
    if table.is_array() {
        return Vec::new();
    }
    let should = &target.contents[&table];
    let is = look.current.contents.get(&table).into_iter().flatten();
    let surplus = is.filter(|(key, _)| !should.contains_key(*key));
    surplus
        .map(|(key, old)| {
            Rc::new(Entry {
                key: key.clone(),
                old: Some(old.clone()),
                new: Vec::new(),
            })
        })
        .collect()
}

/// The settings, with our devices as they are by then.
fn settings<'a>(target: &'a Target<'a>, look: &Look<'a>, plan: &mut Plan<'a>) {
    let none = Entries::new();
    let is = look.current.contents.get(&Table::Settings).unwrap_or(&none);
    let should = &target.contents[&Table::Settings];
    let sent_into = [
        SEGMENTER,
        Detour::Unmarker.entrance(),
        Detour::Coalescer.entrance(),
    ];
    if should == is && !sent_into.iter().any(|device| plan.fresh.contains(device)) {
        return;
    }
    let (old, new) = (decoded(is), decoded(should));
    let version = |settings: Option<abi::Settings>| Some(settings?.rules_version);
    if version(new) != version(old) && !plan.new_set {
        // A packet judged by the old rules must not begin a connection of the new version.
        plan.add(wait_for_packets());
    }
    // An array map starts with zeros: nothing was configured.
    if let (Some(old), Some(new)) = (old.filter(|old| old.uplink_ifindex != 0), new) {
        tell_settings(&old, &new, plan);
    }
    plan.add(Deed::new(None, move |mending| {
        write_settings(target, mending)?;
        Ok(Done::Yes)
    }));
}

fn decoded(settings: &Entries) -> Option<abi::Settings> {
    abi::Settings::read_from_bytes(settings.values().next()?).ok()
}

/// Encoded again, because devices of ours may be younger than the plan.
pub(super) fn write_settings(
    target: &Target<'_>,
    mending: &mut Mending<'_>,
) -> Result<(), HostError> {
    let (netlink, maps) = (mending.netlink, mending.maps()?);
    let mut devices = target.resolved.devices.clone();
    devices.segmenter_ifindex = netlink.link(SEGMENTER)?.index;
    devices.segmenter_out_ifindex = netlink.link(SEGMENTER_OUT)?.index;
    for detour in target.resolved.detours.difference(&mending.closed) {
        // The kernel may have refused it.
        let entrance = netlink.link(detour.entrance()).ok();
        let index = entrance.map_or(0, |link| link.index);
        detour.set_index(&mut devices, index);
    }
    let mut before = maps.entries(Table::Settings)?;
    for (key, new) in tables::settings(target.tables, &devices) {
        mending.journal.before()?;
        maps.put(Table::Settings, &key, &new)?;
        let old = before.remove(&key);
        let entry = Entry { key, old, new };
        mending
            .journal
            .push(move || put_back(maps, Table::Settings, &entry));
    }
    Ok(())
}

fn tell_settings(old: &abi::Settings, new: &abi::Settings, plan: &mut Plan<'_>) {
    let of = |settings: &abi::Settings| {
        let encapsulation = match settings.encapsulation {
            abi::ENCAPSULATION_GENEVE => "geneve",
            _ => "vxlan",
        };
        let dscp = match settings.copy_dscp {
            0 => settings.dscp.to_string(),
            _ => "copy".to_owned(),
        };
        let (first, last) = (settings.source_port_min, settings.source_port_max);
        [
            (
                "tunnel end point",
                std::net::IpAddr::from(settings.vtep).to_string(),
            ),
            ("underlay MTU", settings.underlay_mtu.to_string()),
            ("encapsulation", encapsulation.to_owned()),
            ("tunnel port", settings.tunnel_port.to_string()),
            ("source ports", format!("{first}-{last}")),
            ("strict", (settings.strict != 0).to_string()),
            ("DSCP", dscp),
            ("most connections", settings.connection_places.to_string()),
            (
                "another device on the tunnel port",
                (settings.port_shared != 0).to_string(),
            ),
            (
                "uplink index",
                match settings.uplink_ifindex {
                    NO_DEVICE => "none".to_owned(),
                    index => index.to_string(),
                },
            ),
        ]
    };
    for ((name, old), (_, new)) in of(old).into_iter().zip(of(new)) {
        if old != new {
            plan.tell(Row::modify(Object::Setting, name).has(name, old, new));
        }
    }
}

/// Until no packet is at work with what was just replaced.
fn wait_for_packets<'a>() -> Deed<'a> {
    Deed::new(None, |_| {
        settle();
        Ok(Done::Yes)
    })
}

fn put_back(maps: &MapSet, table: Table, entry: &Entry) -> Result<(), HostError> {
    let key = &entry.key;
    match &entry.old {
        Some(old) => Ok(maps.put(table, key, old)?),
        // The entries of an array cannot be deleted.
        None if table.is_array() => Ok(maps.put(table, key, &vec![0; entry.new.len()])?),
        None => Ok(maps.delete(table, key)?),
    }
}

/// Counters of everything that has, or had, another number. Of a new set only those of rules: what else the old one
/// counted is found there.
fn moves(target: &Target<'_>, look: &Look<'_>) -> BTreeMap<Counted, Rc<Moves>> {
    let current = look.current;
    let mut rules = rule_moves(target, current.state.as_ref());
    if current.maps.is_none() {
        rules.retain(|(old, _)| old.is_some());
        return BTreeMap::from([(Counted::Rules, Rc::new(rules))]);
    }
    let others = [Counted::Ports, Counted::Remotes, Counted::PathMtus];
    let others = others.map(|what| (what, what.moves(&current.contents, &target.contents)));
    let all = others.into_iter().chain([(Counted::Rules, rules)]);
    let differing = all.map(|(what, mut moves)| {
        moves.retain(|(old, new)| *old != Some(*new));
        (what, Rc::new(moves))
    });
    differing.collect()
}

/// A rule is known by its name.
fn rule_moves(target: &Target<'_>, before: Option<&State>) -> Moves {
    let rules = before.into_iter().flat_map(State::rules);
    let old: BTreeMap<&str, u32> = rules
        .map(|(number, rule)| (rule.name.as_str(), number))
        .collect();
    let numbers = State::numbers_of_rules(target.tables, &target.contents);
    let rules = target.tables.firewall.rules.iter().zip(numbers);
    rules
        .map(|(rule, number)| (old.get(rule.name.as_str()).copied(), number))
        .collect()
}

/// A new set has nothing to move.
fn move_counters(plan: &mut Plan<'_>, counted: &[Counted]) {
    if plan.new_set {
        return;
    }
    for &what in counted {
        let moves = plan.moves.get(&what).filter(|moves| !moves.is_empty());
        if let Some(moves) = moves.map(Rc::clone) {
            plan.add(Deed::new(None, move |mending| {
                let maps = mending.maps()?;
                give_numbers(what, maps, &moves, mending)?;
                Ok(Done::Yes)
            }));
        }
    }
}

/// What is new begins at zero. Not undone: the numbers that are given are not in use before, or those of rules that have
/// changed places.
pub(super) fn give_numbers(
    what: Counted,
    from: &MapSet,
    moves: &[(Option<u32>, u32)],
    mending: &mut Mending<'_>,
) -> Result<(), HostError> {
    mending.journal.before()?;
    Ok(counters::move_to(what, from, mending.maps()?, moves)?)
}
