//! `status`: is this host as it was declared, and if not, what differs and what helps? It plans what `apply` would do
//! with the tables that were applied last, does none of it, and looks at what only a user can mend. It changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use overlane_ebpf::maps::MapSet;
use overlane_ebpf::{DataPath, preflight};
use overlane_model::Tables;
use overlane_net::{Link, Netlink, Nud};
use serde::Serialize;

use crate::HostError;
use crate::apply::{self, Unfit, resolve, users};
use crate::kinds::{Current, Look, hooks};
use crate::lib::lock::Lock;
use crate::lib::next_hop::next_hop;
use crate::observe::{self, NeighbourState};
use crate::report::{Object, Remedy, Report, Row, finding};
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
    let state = State::applied(host)?;
    let mut rows: Vec<Row> = interrupted(&state).into_iter().collect();
    let tables = match declared {
        Some(tables) if *tables != state.tables => {
            rows.push(finding::other_file(host));
            tables
        }
        _ => &state.tables,
    };
    let mut helpers = Vec::new();
    match state.namespace()? {
        None => rows.push(finding::namespace_gone(host)),
        Some(netns) => {
            let found = netns.run(|| look(&state, tables, &mut helpers))??;
            let netns = state.netns.as_deref();
            rows.extend(found.into_iter().map(|row| row.in_namespace(netns)));
        }
    }
    if state.schema != state::SCHEMA {
        // Only the file says what that was.
        let again = Remedy::apply_again(host);
        for row in &mut rows {
            if row.remedy.as_ref() == Some(&again) {
                row.remedy = Some(Remedy::apply_file(host));
            }
        }
    }
    let mut seen = BTreeSet::new();
    rows.retain(|row| seen.insert(row.to_string()));
    rows.sort_by_key(|row| row.object);
    let things = things(tables, helpers, &rows);
    let verdict = rows.iter().map(verdict_of).max();
    Ok(Status {
        host: host.to_owned(),
        netns: state.netns,
        verdict: verdict.unwrap_or(Verdict::AsDeclared),
        things,
        rows,
    })
}

fn interrupted(state: &State) -> Option<Row> {
    let row = || finding::apply_unfinished(&state.host, Lock::holder(&state.host).as_ref());
    state.in_progress.then(row)
}

/// From a thread in the host's namespace. `helpers` gets the devices of ours that should be there.
fn look(
    state: &State,
    tables: &Tables,
    helpers: &mut Vec<&'static str>,
) -> Result<Vec<Row>, HostError> {
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
    helpers.extend(resolved.helpers());
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
    // A missing device has a row that says more.
    let thing = |row: &Row| (row.object, row.name.clone());
    let missing = (rows.iter()).filter(|row| row.note == Some("missing_device"));
    let missing: BTreeSet<_> = missing.map(thing).collect();
    let planned = (report.changes.into_iter()).filter(|row| !missing.contains(&thing(row)));
    let planned: Vec<Row> = planned
        .map(|row| explained(row).remedy(Remedy::apply_again(host)))
        .collect();
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
    let links: BTreeMap<&str, &Link> = links.iter().map(|it| (it.name.as_str(), it)).collect();
    for (object, user, device) in users(tables) {
        let Some(link) = links.get(device) else {
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
        let Ok(Some(next_hop)) = next_hop(netlink, link.index, remote.addr) else {
            continue;
        };
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
        _ if row.is_remark => Verdict::AsDeclared,
        _ => Verdict::Differs,
    }
}

/// All that people know, in their order, and then what else has rows.
fn things(tables: &Tables, helpers: Vec<&str>, rows: &[Row]) -> Vec<Thing> {
    let users: Vec<_> = users(tables).collect();
    let host = [(Object::Host, tables.host.as_str())];
    let remotes = (tables.remotes.iter()).map(|remote| (Object::Remote, remote.name.as_str()));
    let guard = (!tables.ports.is_empty()).then_some((Object::Guard, ""));
    let known = (host.into_iter())
        .chain(users.iter().map(|(object, user, _)| (*object, *user)))
        .chain(remotes)
        .chain(helpers.into_iter().map(|name| (Object::Device, name)))
        .chain(guard);
    let mut things: Vec<Thing> = known.map(Thing::as_declared).collect();
    let places = things.iter().zip(0..);
    let mut places: BTreeMap<_, usize> = places.map(|(it, at)| (it.key(), at)).collect();
    let user_of: BTreeMap<_, _> = (users.into_iter())
        .map(|(object, user, device)| (device, (object, user)))
        .collect();
    for (place, row) in rows.iter().enumerate() {
        // A device's row belongs to its user, and a guard's to all families.
        let thing = match row.object {
            Object::Guard => (Object::Guard, ""),
            Object::Device => match user_of.get(row.name.as_str()) {
                Some(user) => *user,
                None => (Object::Device, row.name.as_str()),
            },
            object => (object, row.name.as_str()),
        };
        let at = *(places.entry((thing.0, thing.1.to_owned()))).or_insert_with(|| {
            things.push(Thing::as_declared(thing));
            things.len() - 1
        });
        let thing = &mut things[at];
        thing.verdict = thing.verdict.max(verdict_of(row));
        thing.rows.push(place);
    }
    things
}

impl Thing {
    fn as_declared((object, name): (Object, &str)) -> Self {
        Self {
            object,
            name: name.to_owned(),
            verdict: Verdict::AsDeclared,
            rows: Vec::new(),
        }
    }

    fn key(&self) -> (Object, String) {
        (self.object, self.name.clone())
    }
}
