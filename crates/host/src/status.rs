//! `status`: is this host as it was declared, and if not, what differs and what helps? It plans what `apply` would do
//! with the tables that were applied last, does none of it, and looks at what only a user can mend. It changes nothing.

use std::collections::BTreeSet;

use overlane_ebpf::maps::MapSet;
use overlane_ebpf::{DataPath, preflight};
use overlane_model::Tables;
use overlane_net::{Link, Netlink, Nud};
use serde::Serialize;

use crate::HostError;
use crate::apply::{self, Unfit, resolve, users};
use crate::kinds::{Current, Look, hooks};
use crate::lib::detour::Detour;
use crate::lib::lock::Lock;
use crate::lib::paths::{GRO, SEGMENTER};
use crate::observe::{self, NeighbourState};
use crate::report::{Object, Report, Row, finding};
use crate::state::{self, State};

/// A host beside what it should be.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// The host.
    pub host: String,
    /// Its network namespace; none for the one `apply` ran in.
    pub netns: Option<String>,
    /// What is to be said of it as a whole.
    pub verdict: Verdict,
    /// Each thing that people know: the host, its ports, uplink, legs, remotes and helpers.
    pub things: Vec<Thing>,
    /// What differs, and what deserves a look, as the same rows that `apply` tells with.
    pub rows: Vec<Row>,
}

/// Whether a host is as declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All is as declared.
    AsDeclared,
    /// Something differs: a row names it.
    Differs,
    /// Something could not be looked at.
    Unknown,
}

/// One thing, and whether it is as declared.
#[derive(Debug, Clone, Serialize)]
pub struct Thing {
    /// What it is.
    pub object: Object,
    /// Which one.
    pub name: String,
    /// Whether it is as declared.
    pub verdict: Verdict,
    /// The places of its rows in [`Status::rows`].
    pub rows: Vec<usize>,
}

/// Looks at `host`. `declared`: the tables of a fabric file, in place of those that were applied last.
pub fn status(host: &str, declared: Option<&Tables>) -> Result<Status, HostError> {
    preflight::check_rights()?;
    let state = observe::state_of(host)?;
    let mut rows: Vec<Row> = interrupted(&state).into_iter().collect();
    let tables = match declared {
        Some(tables) if *tables != state.tables => {
            rows.push(finding::other_file(host));
            tables
        }
        _ => &state.tables,
    };
    match state.namespace()? {
        None => rows.push(finding::namespace_gone(host)),
        Some(netns) => {
            let found = netns.run(|| look(&state, tables))??;
            let netns = state.netns.as_deref();
            rows.extend(found.into_iter().map(|row| row.in_namespace(netns)));
        }
    }
    if state.schema != state::SCHEMA {
        // Only the file says what that was.
        let again = finding::apply_again(host);
        for row in rows
            .iter_mut()
            .filter(|row| row.remedy.as_ref() == Some(&again))
        {
            row.remedy = Some(format!("overlane apply FILE --host {host}"));
        }
    }
    let mut seen = BTreeSet::new();
    rows.retain(|row| seen.insert(row.to_string()));
    rows.sort_by_key(|row| row.object);
    let things = things(tables, &rows);
    let verdict = rows.iter().map(verdict_of).max();
    Ok(Status {
        host: host.to_owned(),
        netns: state.netns,
        verdict: verdict.unwrap_or(Verdict::AsDeclared),
        things,
        rows,
    })
}

/// The tables that were applied last, and where: `apply` can repeat them.
pub fn last_applied(host: &str) -> Result<(Tables, Option<String>), HostError> {
    let state = observe::state_of(host)?;
    if state.schema != state::SCHEMA {
        return Err(HostError::TablesUnknown(host.to_owned()));
    }
    Ok((state.tables, state.netns))
}

fn interrupted(state: &State) -> Option<Row> {
    let row = || finding::apply_unfinished(&state.host, Lock::holder(&state.host).as_ref());
    state.in_progress.then(row)
}

/// From a thread in the host's namespace.
fn look(state: &State, tables: &Tables) -> Result<Vec<Row>, HostError> {
    let host = state.host.as_str();
    let netlink = Netlink::new()?;
    let links = netlink.links()?;
    let data_path = DataPath::embedded()?;
    let mut rows: Vec<Row> = other_build(state, &data_path).into_iter().collect();
    rows.extend(devices(state, tables, &links));
    rows.extend(neighbours(tables, &netlink)?);
    if state.map_signature != data_path.signature() {
        // What this build would write says nothing of what the other one wrote.
        return Ok(rows);
    }
    let mut resolved = match resolve(tables, &netlink, None, Unfit::LeftOut) {
        Ok(resolved) => resolved,
        Err(error) => {
            rows.extend(finding::of_error(host, &error));
            return Ok(rows);
        }
    };
    rows.append(&mut resolved.notes);
    rows.extend(resolved.missing.iter().flat_map(finding::missing));
    let mut current = Current::read(host, &data_path, &netlink)?;
    if let Some(maps) = &current.maps {
        rows.extend(silent_next_hops(state, maps)?);
    }
    if let Some(state) = &mut current.state {
        state.complete(tables);
    }
    let target = apply::target(tables, resolved, &data_path, &current)?;
    let here = state::netns_id()?;
    let plan = Look::new(host, Some(&target), &current, &netlink, here).plan()?;
    rows.extend(hooks::look(host, &plan.hooks, &current, &netlink)?);
    let mut report = Report::new(host);
    plan.predict(&state.refused, &mut report);
    let again = finding::apply_again(host);
    // A missing device has a row that says more.
    let is_told = |row: &Row| {
        let told = rows
            .iter()
            .filter(|told| told.note == Some("missing_device"));
        let mut told = told.map(|told| (told.object, told.name.as_str()));
        told.any(|told| told == (row.object, row.name.as_str()))
    };
    let planned = report.changes.into_iter().filter(|row| !is_told(row));
    let planned: Vec<Row> = planned.map(|row| explained(row).remedy(&again)).collect();
    rows.extend(planned);
    rows.extend(report.notes);
    Ok(rows)
}

/// What a difference means for the network, where it is more than it says.
fn explained(row: Row) -> Row {
    let meaning = match row.object {
        Object::Port if row.lacks_program() => "no packet of the port passes",
        Object::Leg if row.lacks_program() => "the router reaches no physical network",
        Object::Uplink if row.lacks_program() => "nothing comes out of the tunnels",
        Object::Guard => "a port's device that is made again is open to its guest until then",
        Object::NextHop => "the first packets to its remotes wait until it is resolved",
        Object::MulticastGroup => "neighbours may not find the address",
        Object::Promiscuous => "frames to guests on a VLAN may be lost at the network card",
        Object::Device => "super-packets go a slower way, or none",
        _ => return row,
    };
    row.means(meaning)
}

fn other_build(state: &State, data_path: &DataPath<'_>) -> Option<Row> {
    if state.map_signature != data_path.signature() {
        Some(finding::other_layout(&state.host))
    } else if state.object_digest != data_path.digest() {
        Some(finding::other_programs(&state.host))
    } else {
        None
    }
}

/// Devices of the fabric that are not what `apply` found: another one, with a lower MTU, or without carrier.
fn devices(state: &State, tables: &Tables, links: &[Link]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (object, user, device) in users(tables) {
        let Some(link) = links.iter().find(|link| link.name == device) else {
            continue;
        };
        if let Some(before) = state.devices.get(device) {
            if before.ifindex != link.index {
                rows.push(finding::other_device(
                    &state.host,
                    (object, user),
                    device,
                    (before.ifindex, link.index),
                ));
            } else if link.mtu < before.mtu {
                rows.push(finding::lower_mtu(
                    (object, user),
                    device,
                    link.mtu,
                    before.mtu,
                ));
            }
        }
        // A guest behind a port may be off; whoever is behind the others is not.
        if object != Object::Port && link.up && !link.carrier {
            rows.push(finding::no_carrier((object, user), device));
        }
    }
    rows
}

/// Next hops to remotes that nobody answers for.
fn neighbours(tables: &Tables, netlink: &Netlink) -> Result<Vec<Row>, HostError> {
    let mut rows = Vec::new();
    let uplink = tables.uplink.as_str();
    let Ok(link) = netlink.link(uplink) else {
        return Ok(rows);
    };
    for remote in &tables.remotes {
        let Ok(route) = netlink.route_to(remote.addr, None) else {
            continue;
        };
        let next_hop = route.gateway.unwrap_or(remote.addr);
        if route.oif != link.index {
            continue;
        }
        let known = netlink.neighbour(uplink, next_hop)?;
        if known.is_some_and(|known| matches!(known.state, Nud::Failed | Nud::Incomplete)) {
            rows.push(finding::no_answer(remote.name.as_str(), next_hop, uplink));
        }
    }
    Ok(rows)
}

/// Next hops behind legs that the data path asked in vain.
fn silent_next_hops(state: &State, maps: &MapSet) -> Result<Vec<Row>, HostError> {
    let neighbours = observe::neighbours_in(state, maps)?.neighbours;
    let neighbours = neighbours.into_iter();
    let silent = neighbours.filter(|row| row.state == NeighbourState::Silent);
    let rows = silent.filter_map(|row| Some(finding::leg_silent(&row.leg_of?, &row.address)));
    Ok(rows.collect())
}

/// A row that only tells of how a host is made differs from nothing.
fn verdict_of(row: &Row) -> Verdict {
    match row.note {
        Some("unknown") => Verdict::Unknown,
        Some(note) if finding::is_remark(note) => Verdict::AsDeclared,
        _ => Verdict::Differs,
    }
}

/// All that people know, in their order, and then what else has rows.
fn things(tables: &Tables, rows: &[Row]) -> Vec<Thing> {
    let mut known: Vec<(Object, String)> = vec![(Object::Host, tables.host.to_string())];
    let users: Vec<_> = users(tables).collect();
    known.extend(
        users
            .iter()
            .map(|(object, user, _)| (*object, (*user).to_owned())),
    );
    let remotes = tables.remotes.iter();
    known.extend(remotes.map(|remote| (Object::Remote, remote.name.to_string())));
    let helpers = [
        SEGMENTER,
        GRO,
        Detour::Unmarker.entrance(),
        Detour::Coalescer.entrance(),
    ];
    let is_there = |name: &&str| *name != Detour::Coalescer.entrance();
    known.extend(
        (helpers.into_iter().filter(is_there)).map(|name| (Object::Device, name.to_owned())),
    );
    if !tables.ports.is_empty() {
        known.push((Object::Guard, String::new()));
    }
    // A device's row belongs to its user, and a guard's to all families.
    let thing_of = |row: &Row| match row.object {
        Object::Guard => (Object::Guard, String::new()),
        Object::Device => {
            let user = users.iter().find(|(_, _, device)| *device == row.name);
            let user = user.map(|(object, user, _)| (*object, (*user).to_owned()));
            user.unwrap_or_else(|| (Object::Device, row.name.clone()))
        }
        object => (object, row.name.clone()),
    };
    for row in rows {
        let thing = thing_of(row);
        if !known.contains(&thing) {
            known.push(thing);
        }
    }
    let thing = |(object, name): (Object, String)| {
        let own = rows.iter().enumerate();
        let own = own.filter(|(_, row)| thing_of(row) == (object, name.clone()));
        let own: Vec<_> = own.collect();
        let verdict = own.iter().map(|(_, row)| verdict_of(row)).max();
        Thing {
            object,
            name,
            verdict: verdict.unwrap_or(Verdict::AsDeclared),
            rows: own.into_iter().map(|(place, _)| place).collect(),
        }
    };
    known.into_iter().map(thing).collect()
}
