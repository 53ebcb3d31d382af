//! `status`: is this host as it was declared, and if not, what differs and what helps? It plans what `apply` would do
//! with the tables that were applied last, does none of it, and looks at what only a user can mend. It changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use overlane_ebpf::maps::MapSet;
use overlane_ebpf::{DataPath, preflight};
use overlane_model::Tables;
use overlane_net::{Link, NeighbourState as Neighbour, Netlink, Nud};
use overlane_wire::Mac;
use serde::Serialize;

use crate::HostError;
use crate::apply::{self, Unfit, resolve, users};
use crate::calls::{self, Answer, Call, View};
use crate::kinds::{self, Current, Look, hooks};
use crate::lib::detour::own_devices;
use crate::lib::elsewhere::{Elsewhere, NotTaken};
use crate::lib::lock::Lock;
use crate::lib::next_hop::next_hop;
use crate::lib::paths;
use crate::observe::{self, NeighbourState};
use crate::report::{Object, Remedy, Report, Row, finding};
use crate::state::{self, State};

/// So often all is looked at again where an apply comes in between.
const LOOKS: usize = 3;

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
    /// How an agent keeps it; none: nobody does.
    pub agent: Option<View>,
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

/// Looks at `host`, and asks its agent. `declared`: the tables of a fabric file, in place of those that were applied last.
pub fn status(host: &str, declared: Option<&Tables>) -> Result<Status, HostError> {
    let found = look(host, declared);
    // An agent that does not answer says nothing of the host: packets do not need it.
    match calls::ask(host, &Call::Status) {
        Ok(Some(Answer::Status(view))) => Ok(match found {
            Ok(found) => found.told_by(*view),
            // Its agent knows why.
            Err(HostError::NotApplied(_)) => Status::empty(host).told_by(*view),
            Err(error) => return Err(error),
        }),
        _ => found,
    }
}

/// Looks at `host`, without its agent.
pub(crate) fn look(host: &str, declared: Option<&Tables>) -> Result<Status, HostError> {
    preflight::check_rights()?;
    let mut state = State::applied(host)?;
    for _ in 0..LOOKS {
        let found = status_of(&state, declared)?;
        let now = State::applied(host)?;
        if now == state {
            return Ok(found);
        }
        // An apply has come to its end meanwhile.
        state = now;
    }
    status_of(&state, declared)
}

fn status_of(state: &State, declared: Option<&Tables>) -> Result<Status, HostError> {
    let host = state.host.as_str();
    let mut rows: Vec<Row> = interrupted(state).into_iter().collect();
    let other = declared.filter(|tables| !kinds::same(tables, &state.tables));
    if other.is_some() {
        rows.push(finding::other_file(host));
    }
    let tables = other.unwrap_or(&state.tables);
    let mut helpers = Vec::new();
    match state.namespace()? {
        None if state.netns.is_none() => rows.push(finding::namespace_unseen(host)),
        None => rows.push(finding::namespace_gone(host)),
        Some(netns) if state.knows_tables || declared.is_some() => {
            let found = netns.run(|| differences(state, tables, &mut helpers))??;
            let netns = state.namespace_name()?;
            rows.extend(
                found
                    .into_iter()
                    .map(|row| row.in_namespace(netns.as_deref())),
            );
        }
        Some(_) if state.in_progress => {}
        Some(_) => rows.push(finding::tables_unknown(host)),
    }
    if other.is_some() || !state.knows_tables {
        // Only the file says what that is.
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
        netns: state.netns.clone(),
        verdict: verdict.unwrap_or(Verdict::AsDeclared),
        things,
        rows,
        agent: None,
    })
}

impl Status {
    /// Nothing is applied.
    fn empty(host: &str) -> Self {
        let mut empty = Self {
            host: host.to_owned(),
            netns: None,
            verdict: Verdict::AsDeclared,
            things: Vec::new(),
            rows: Vec::new(),
            agent: None,
        };
        empty.add(Row::finding("not_applied", Object::Host, host).means("it is not applied"));
        empty
    }

    /// With what only the agent knows.
    fn told_by(mut self, view: View) -> Self {
        let seen = view.seen.iter().map(|it| (it.key.as_str(), it.since));
        let seen: BTreeMap<&str, u64> = seen.collect();
        for row in &mut self.rows {
            row.since = row.since.or_else(|| seen.get(row.key().as_str()).copied());
        }
        self.things.push(Thing::as_declared((Object::Agent, "")));
        for row in calls::rows(&view) {
            if self.rows.iter().all(|known| known.key() != row.key()) {
                self.add(row);
            }
        }
        self.agent = Some(view);
        self
    }

    fn add(&mut self, row: Row) {
        let verdict = verdict_of(&row);
        let key = (row.object, row.name.clone());
        let place = self.things.iter().position(|thing| thing.key() == key);
        let place = place.unwrap_or_else(|| {
            self.things
                .push(Thing::as_declared((row.object, &row.name)));
            self.things.len() - 1
        });
        if let Some(thing) = self.things.get_mut(place) {
            thing.verdict = thing.verdict.max(verdict);
            thing.rows.push(self.rows.len());
        }
        self.verdict = self.verdict.max(verdict);
        self.rows.push(row);
    }
}

fn interrupted(state: &State) -> Option<Row> {
    let host = state.host.as_str();
    let row = || finding::apply_unfinished(host, Lock::holder(host).as_ref(), written(host));
    state.in_progress.then(row)
}

/// When the state file was written.
fn written(host: &str) -> Option<u64> {
    let file = fs::metadata(paths::state(host)).ok()?;
    seconds(file.modified().ok()?)
}

/// Since the Epoch.
fn seconds(time: SystemTime) -> Option<u64> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    Some(since.as_secs())
}

/// From a thread in the host's namespace. `helpers` gets the devices of ours that should be there.
fn differences(
    state: &State,
    tables: &Tables,
    helpers: &mut Vec<&'static str>,
) -> Result<Vec<Row>, HostError> {
    let host = state.host.as_str();
    let netlink = Netlink::new()?;
    let mut links = netlink.links()?;
    let data_path = DataPath::embedded()?;
    let mut rows: Vec<Row> = other_build(state, &data_path).into_iter().collect();
    rows.extend(devices(state, tables, &links));
    rows.extend(neighbours(tables, &netlink)?);
    if state.map_signature != data_path.signature() {
        // What this build would write says nothing of what the other one wrote.
        return Ok(rows);
    }
    let elsewhere = Elsewhere::look(tables, &links, &NotTaken::new())?;
    links.extend(elsewhere.links());
    let look = (&netlink, &links[..], elsewhere);
    let mut resolved = match resolve(tables, look, None, Unfit::LeftOut) {
        Ok(resolved) => resolved,
        Err(error) => {
            rows.extend(finding::of_error(host, &error));
            return Ok(rows);
        }
    };
    rows.append(&mut resolved.notes);
    helpers.extend(resolved.helpers());
    rows.extend(resolved.to_make().flat_map(finding::missing));
    let mut current = Current::read(host, &data_path, links)?;
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
    if plan.is_silent() {
        let entries = Row::modify(Object::DataPath, "").differs("entries in the maps");
        report.changes.push(entries);
    }
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
        Object::Device if own_devices().any(|own| own == row.name) => {
            "super-packets go a slower way, or none"
        }
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

/// Devices of the fabric that are not what `apply` found: another one, with another MTU or MAC, or without carrier.
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
            } else if link.mtu > before.mtu && object != Object::Port {
                let (now, before) = (link.mtu, before.mtu);
                rows.push(finding::raised_mtu((object, user), device, now, before));
            }
            if let (Object::Leg, Some(mac)) = (object, before.other_mac(link)) {
                let now = Mac::new(link.mac);
                rows.push(finding::other_mac((object, user), now, mac));
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
        let is_silent = |known: &Neighbour| matches!(known.state, Nud::Failed | Nud::Incomplete);
        if let Some(known) = known.filter(is_silent) {
            let since = seconds(SystemTime::now() - known.confirmed);
            let remote = remote.name.as_str();
            rows.push(finding::no_answer(remote, next_hop, uplink, since));
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
    let mut users_of: BTreeMap<&str, Vec<(Object, &str)>> = BTreeMap::new();
    for (object, user, device) in users {
        users_of.entry(device).or_default().push((object, user));
    }
    for (place, row) in rows.iter().enumerate() {
        // A device's row belongs to its users, and a guard's to all families.
        let of_row = match row.object {
            Object::Guard => vec![(Object::Guard, "")],
            Object::Device => match users_of.get(row.name.as_str()) {
                Some(users) => users.clone(),
                None => vec![(Object::Device, row.name.as_str())],
            },
            object => vec![(object, row.name.as_str())],
        };
        for thing in of_row {
            let at = *(places.entry((thing.0, thing.1.to_owned()))).or_insert_with(|| {
                things.push(Thing::as_declared(thing));
                things.len() - 1
            });
            let thing = &mut things[at];
            thing.verdict = thing.verdict.max(verdict_of(row));
            thing.rows.push(place);
        }
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
