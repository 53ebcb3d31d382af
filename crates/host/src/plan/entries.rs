//! The part of the plan that is about map entries. Rules change in an order of their own, so that no packet
//! meets a mixture of old and new ones (`bpf/lib/abi_firewall.h`, struct rule_set).

use std::collections::{BTreeMap, BTreeSet};

use overlane_ebpf::abi::{self, firewall, router};
use overlane_ebpf::counters::{Counted, Moves};
use overlane_ebpf::tables::{Contents, Entries, Table, is_in_the_way};
use zerocopy::FromBytes;

use super::{Cleanup, Entry, Fresh, Plan, Step, Target};
use crate::current::Current;
use crate::detours::Detour;
use crate::paths::SEGMENTER;
use crate::state::State;

/// Counters of everything that has, or had, another number. Of a new set only those of rules: what else the old
/// one counted is found there.
pub(super) fn moves(target: &Target<'_>, current: &Current) -> BTreeMap<Counted, Moves> {
    let mut rules = rule_moves(target, current);
    if current.maps.is_none() {
        rules.retain(|(old, _)| old.is_some());
        return BTreeMap::from([(Counted::Rules, rules)]);
    }
    let other = |what: Counted| (what, what.moves(&current.contents, target.contents));
    let mut moves = BTreeMap::from([
        (Counted::Rules, rules),
        other(Counted::Ports),
        other(Counted::Remotes),
        other(Counted::PathMtus),
    ]);
    for moves in moves.values_mut() {
        moves.retain(|(old, new)| *old != Some(*new));
    }
    moves
}

/// A rule is known by its name.
fn rule_moves(target: &Target<'_>, current: &Current) -> Moves {
    let old = current.state.iter().flat_map(|state| &state.rules);
    let old: BTreeMap<&str, u32> = old.map(|rule| (rule.name.as_str(), rule.number)).collect();
    let should = State::rules_of(target.tables, target.contents);
    let known = |name: &str| old.get(name).copied();
    should
        .iter()
        .map(|rule| (known(&rule.name), rule.number))
        .collect()
}

pub(super) fn plan_entries(target: &Target<'_>, current: &Current, fresh: &Fresh, plan: &mut Plan) {
    discard_leftovers(target, current, plan);
    forget_connections(target, current, plan);
    pick_up_connections(target, current, plan);
    plan_moves(&[Counted::Ports, Counted::Remotes, Counted::PathMtus], plan);
    let none = Entries::new();
    let sent_into = [
        SEGMENTER,
        Detour::Unmarker.entrance(),
        Detour::Coalescer.entrance(),
    ];
    for table in Table::ALL {
        let (should, is) = (
            &target.contents[&table],
            current.contents.get(&table).unwrap_or(&none),
        );
        if table == Table::Settings {
            if should != is || sent_into.iter().any(|device| fresh.contains(device)) {
                if rules_version(should) != rules_version(is) && !plan.new_set {
                    // A packet judged by the old rules must not begin a connection of the new version.
                    plan.steps.push(Step::Settle);
                }
                plan.steps.push(Step::Settings {
                    old: is.values().next().cloned(),
                });
            }
            continue;
        }
        // The ports are what changes over to the new rules.
        if table == Table::Ports {
            plan_moves(&[Counted::Rules], plan);
        }
        let entries: Vec<Entry> = should
            .iter()
            .filter(|(key, new)| is.get(*key) != Some(*new))
            .map(|(key, new)| Entry {
                key: key.clone(),
                old: is.get(key).cloned(),
                new: new.clone(),
            })
            .collect();
        if !entries.is_empty() {
            plan.steps.push(Step::Put { table, entries });
        }
    }
}

/// A new set has nothing to move.
fn plan_moves(counted: &[Counted], plan: &mut Plan) {
    let is_moved = |what: &&Counted| plan.moves.get(what).is_some_and(|moves| !moves.is_empty());
    if !plan.new_set {
        let moved = counted.iter().filter(is_moved);
        plan.steps
            .extend(moved.map(|what| Step::MoveCounters(*what)));
    }
}

fn rules_version(settings: &Entries) -> Option<u32> {
    let settings = settings.values().next()?;
    Some(abi::Settings::read_from_bytes(settings).ok()?.rules_version)
}

/// What an interrupted run left where ports and routers are about to look: a longer prefix, for example,
/// would hide the new entries.
fn discard_leftovers(target: &Target<'_>, current: &Current, plan: &mut Plan) {
    for table in Table::ALL {
        let mut entries = surplus(target, current, table);
        entries.retain(|entry| is_in_the_way(target.contents, table, &entry.key));
        if !entries.is_empty() {
            plan.steps.push(Step::Delete { table, entries });
        }
    }
}

/// A port that comes to this host begins without connections, and a router that translates here: those under its key
/// are of an earlier stay.
fn forget_connections(target: &Target<'_>, current: &Current, plan: &mut Plan) {
    let (should, is) = (zones(target.contents), zones(&current.contents));
    push_forget(should.difference(&is).copied().collect(), plan);
}

/// Where a port gets a firewall, packets have passed without it. What it knows of their connections is from before. So
/// it is where a port loses one and that is undone.
fn pick_up_connections(target: &Target<'_>, current: &Current, plan: &mut Plan) {
    let (should, is) = (guarded(target.contents), guarded(&current.contents));
    let there = zones(&current.contents);
    let changed = should.symmetric_difference(&is).copied();
    let ports: BTreeSet<_> = changed.filter(|port| there.contains(port)).collect();
    if !ports.is_empty() && !plan.new_set {
        plan.steps.push(Step::PickUpConnections(ports));
    }
}

/// Ports with a firewall.
fn guarded(contents: &Contents) -> BTreeSet<PortId> {
    let has_firewall = |port: &abi::Port| port.flags & abi::PORT_FIREWALL != 0;
    let ports = ports(contents).filter(has_firewall);
    ports.map(|port| (port.switch_id, port.key)).collect()
}

/// Whose connections are kept: ports, and routers that translate.
fn zones(contents: &Contents) -> BTreeSet<PortId> {
    macs(contents)
        .into_keys()
        .chain(translating(contents))
        .collect()
}

/// So does one that has taken another one's key; what that one had is its own until it is gone.
pub(super) fn forget_replaced(target: &Target<'_>, current: &Current, plan: &mut Plan) {
    let (should, is) = (macs(target.contents), macs(&current.contents));
    let is_another = |port, mac| is.get(port).is_some_and(|was| was != mac);
    let replaced = should.iter().filter(|(port, mac)| is_another(port, *mac));
    push_forget(replaced.map(|(port, _)| *port).collect(), plan);
}

/// Connections of a port that leaves, and of a router that translates here no longer, give their places back.
pub(super) fn forget_gone(target: &Target<'_>, current: &Current, plan: &mut Plan) {
    let (should, is) = (zones(target.contents), zones(&current.contents));
    let gone: BTreeSet<_> = is.difference(&should).copied().collect();
    if !gone.is_empty() && !plan.new_set {
        plan.cleanups.push(Cleanup::Connections(gone));
    }
}

/// Routers that translate, as connections name them.
fn translating(contents: &Contents) -> impl Iterator<Item = PortId> {
    let routers = contents.get(&Table::Routers).into_iter().flatten();
    routers.filter_map(|(id, value)| {
        let id = u32::read_from_bytes(id).ok()?;
        let router = router::Router::read_from_bytes(value).ok()?;
        let translates = router.flags & router::ROUTER_NAT != 0;
        translates.then_some((firewall::ZONE_ROUTER | id, 0))
    })
}

fn push_forget(ports: BTreeSet<PortId>, plan: &mut Plan) {
    if !ports.is_empty() && !plan.new_set {
        plan.steps.push(Step::ForgetConnections(ports));
    }
}

/// Switch and key of a port.
type PortId = (u32, u16);

fn ports(contents: &Contents) -> impl Iterator<Item = abi::Port> {
    let ports = contents.get(&Table::Ports).into_iter().flatten();
    ports.filter_map(|(_, value)| abi::Port::read_from_bytes(value).ok())
}

fn macs(contents: &Contents) -> BTreeMap<PortId, abi::MacBytes> {
    ports(contents)
        .map(|port| ((port.switch_id, port.key), port.mac))
        .collect()
}

pub(super) fn plan_deletions(target: &Target<'_>, current: &Current, plan: &mut Plan) {
    let mut is_settled = false;
    for table in Table::ALL.into_iter().rev() {
        let mut entries = surplus(target, current, table);
        entries.retain(|entry| !is_in_the_way(target.contents, table, &entry.key));
        if entries.is_empty() {
            continue;
        }
        if table.is_referred_to() && !is_settled {
            plan.steps.push(Step::Settle);
            is_settled = true;
        }
        plan.steps.push(Step::Delete { table, entries });
    }
}

/// Entries that are there and should not be.
fn surplus(target: &Target<'_>, current: &Current, table: Table) -> Vec<Entry> {
    // The entries of an array cannot be deleted, only overwritten.
    if table.is_array() {
        return Vec::new();
    }
    let should = &target.contents[&table];
    current
        .contents
        .get(&table)
        .into_iter()
        .flatten()
        .filter(|(key, _)| !should.contains_key(*key))
        .map(|(key, old)| Entry {
            key: key.clone(),
            old: Some(old.clone()),
            new: Vec::new(),
        })
        .collect()
}
