//! Who has as much as a limit allows, for `show drops`: a drop reason alone says neither whose limit it is, nor which.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use overlane_ebpf::abi::firewall::{self as firewall, LimitKey, LimitState, ZONE_ROUTER};
use overlane_ebpf::abi::{self, PortKey};
use overlane_ebpf::{connections as maps, neighbours};
use overlane_model::{NatKind, RouterTable, Verdict};
use serde::Serialize;

use super::connections::{ConnectionRow, Connections, End, Whose, connections};
use super::learned::{Learned, learned};
use super::look::{router_name, switch_name};
use crate::HostError;
use crate::state::State;

/// Not a drop reason, but what a port's guest was not told of.
pub const UNTOLD: &str = "untold";
/// `ANSWER_LIMIT` and `MOST_ASKS`: of one sender in a tenth of a second.
const MOST_ANSWERS: u64 = 100;
const MOST_ASKS: u64 = 10;
/// Each inside address has a quarter of the places of a router that has so many.
const QUARTERED: u64 = 1024;

/// One limit that is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LimitRow {
    /// The drop reason, or [`UNTOLD`].
    pub reason: &'static str,
    /// Who has it: `port web1`, `router r1`, `host h1`.
    pub whose: String,
    /// How many it has.
    pub used: u64,
    /// How many it may have.
    pub most: u64,
    /// What they are.
    pub of: String,
}

impl LimitRow {
    fn new(
        reason: &'static str,
        whose: String,
        (used, most): (usize, u64),
        of: impl Into<String>,
    ) -> Self {
        let (used, of) = (used as u64, of.into());
        Self {
            reason,
            whose,
            used,
            most,
            of,
        }
    }

    fn is_reached(&self) -> bool {
        self.used >= self.most
    }

    /// New ones look at some places only, and find none before all are taken.
    fn is_near(&self) -> bool {
        self.used * 10 >= self.most * 9
    }
}

/// What a reason of `show drops` is about, if it is a limit, and what to do about it.
pub fn limit_help(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "connections_full" => {
            "no place for a connection of a port, a translation of a router, or any of the host: `overlane show connections` shows who holds them; raise `connections` of the port's `limits`, the gateway or the host, or stop the flood"
        }
        "nat_exhausted" => {
            "no outside port is free for a peer of a router: give its `nat` another outside address or more `ports`; `overlane show routes` shows its rules"
        }
        "mac_limit" => {
            "one more MAC than the port's `learning` allows, or 262144 of the host: raise `limit`, shorten `age`, or stop who makes up MACs; `overlane show learned` shows them"
        }
        "neighbour_limit" => {
            "one more neighbour of routers than 1024 behind a port, 4096 of a switch behind the underlay or of a leg, or 65536 of the host: look for a station that answers for many addresses with `overlane show neighbours`"
        }
        "flood_limit" => {
            "a port floods more copies than `flood` of its `limits` in a second: look for a loop in its guest, or raise it"
        }
        "ask_limit" => {
            "a sender makes routers ask for more than 10 neighbours in a tenth of a second: look for a scan by it"
        }
        UNTOLD => {
            "a guest is told of 100 of its dropped packets in a tenth of a second: see why so many are dropped"
        }
        _ => return None,
    })
}

/// Who is at its limit now, or was at the last packet, of these drop reasons.
pub fn limits(host: &str, reasons: &BTreeSet<&str>) -> Result<Vec<LimitRow>, HostError> {
    let is = |verdict: Verdict| reasons.contains(verdict.name());
    let state = State::applied(host)?;
    let set = super::look::maps(&state)?;
    let mut rows = Vec::new();
    if is(Verdict::ConnectionsFull) || is(Verdict::NatExhausted) {
        let connections = connections(host, None)?;
        if is(Verdict::ConnectionsFull) {
            rows.extend(full(&state, &connections));
        }
        if is(Verdict::NatExhausted) {
            rows.extend(exhausted(&state, &connections));
        }
    }
    if is(Verdict::MacLimit) {
        rows.extend(macs(&learned(host)?));
    }
    if is(Verdict::NeighbourLimit) {
        rows.extend(neighbours_of(&state, &neighbours::counts(&set)?));
    }
    if is(Verdict::FloodLimit) || is(Verdict::AskLimit) || reasons.contains(UNTOLD) {
        let spans = maps::limits(&set)?;
        let spans = spans
            .iter()
            .filter_map(|(key, span)| row(&state, key, span));
        rows.extend(spans.filter(|row| reasons.contains(row.reason)));
    }
    rows.sort_by(|a, b| (a.reason, &a.whose).cmp(&(b.reason, &b.whose)));
    Ok(rows)
}

fn full(state: &State, connections: &Connections) -> Vec<LimitRow> {
    let reason = Verdict::ConnectionsFull.name();
    let most = |share: u32| u64::from(share.min(connections.most));
    let live = || connections.connections.iter().filter(|row| !row.expired);
    let of = |whose: Whose| live().filter(|row| row.whose == whose).count();
    let ports = state.tables.ports.iter().map(|port| {
        let used = of(Whose::Port(port.name.to_string()));
        let counts = (used, most(port.limits.connections));
        LimitRow::new(reason, format!("port {}", port.name), counts, "connections")
    });
    let mut rows: Vec<_> = ports.collect();
    for (router, share) in gateways(state) {
        let (name, most) = (router.name.to_string(), most(share));
        let whose = format!("router {name}");
        let is_its = |row: &&ConnectionRow| row.whose == Whose::Router(name.clone());
        let all = live().filter(is_its).count();
        rows.push(LimitRow::new(
            reason,
            whose.clone(),
            (all, most),
            "translations",
        ));
        if most >= QUARTERED {
            let mut inside: BTreeMap<IpAddr, usize> = BTreeMap::new();
            for row in live().filter(is_its) {
                *inside.entry(row.local.address).or_default() += 1;
            }
            rows.extend(inside.into_iter().map(|(address, used)| {
                let of = format!("translations of {address}");
                LimitRow::new(reason, whose.clone(), (used, most / 4), of)
            }));
        }
    }
    let whose = format!("host {}", state.host);
    let counts = (connections.held, connections.most.into());
    rows.push(LimitRow::new(
        reason,
        whose,
        counts,
        "connections and translations",
    ));
    rows.retain(LimitRow::is_near);
    rows
}

/// The routers that translate here, each with its share.
fn gateways(state: &State) -> impl Iterator<Item = (&RouterTable, u32)> {
    let routers = state.tables.routers.iter();
    let with_nat = routers.filter_map(|router| Some((router, router.gateway.as_ref()?)));
    let with_nat = with_nat.filter(|(_, gateway)| !gateway.nat.is_empty());
    with_nat.map(|(router, gateway)| (router, gateway.connections))
}

/// For each router the peer, and the outside address, of which the most ports are taken.
fn exhausted(state: &State, connections: &Connections) -> Vec<LimitRow> {
    let mut rows = Vec::new();
    for (router, _) in gateways(state) {
        let whose = Whose::Router(router.name.to_string());
        let live = connections.connections.iter();
        let live = live.filter(|row| row.whose == whose && !row.expired);
        let mut taken: BTreeMap<(IpAddr, u8, End), BTreeSet<Option<u16>>> = BTreeMap::new();
        for row in live {
            let Some(it) = row.translation else { continue };
            let way = (it.outside.address, row.protocol, it.peer);
            taken.entry(way).or_default().insert(it.outside.port);
        }
        let counted = taken.into_iter().map(|((outside, protocol, peer), taken)| {
            let ways = format!("{outside} to {peer}");
            // Without ports one inside address has the whole way.
            let (most, of) = match taken.contains(&None) {
                true => (1, format!("ways of protocol {protocol} from {ways}")),
                false => (
                    outside_ports(router, outside),
                    format!("outside ports of {ways}"),
                ),
            };
            let whose = format!("router {}", router.name);
            LimitRow::new(Verdict::NatExhausted.name(), whose, (taken.len(), most), of)
        });
        // An inside address has at most half of them.
        let fullest = counted.filter(|row| row.most > 0 && row.used * 2 >= row.most);
        rows.extend(fullest.max_by_key(|row| row.used));
    }
    rows
}

/// How many ports the rules of a router may give this outside address.
fn outside_ports(router: &RouterTable, address: IpAddr) -> u64 {
    let rules = router.gateway.iter().flat_map(|gateway| &gateway.nat);
    let ports = rules.filter_map(|rule| match &rule.kind {
        NatKind::Source { outside, ports, .. } if *outside == address => Some(ports.clone()),
        _ => None,
    });
    ports.flatten().collect::<BTreeSet<u16>>().len() as u64
}

fn macs(learned: &Learned) -> Vec<LimitRow> {
    let reason = Verdict::MacLimit.name();
    let ports = learned.ports.iter().map(|port| {
        let counts = (port.macs as usize, port.limit.into());
        LimitRow::new(reason, format!("port {}", port.port), counts, "MACs")
    });
    let whose = format!("host {}", learned.host);
    let counts = (learned.entries.len(), abi::MAX_LEARNED as u64);
    let all = LimitRow::new(reason, whose, counts, "MACs");
    ports.chain([all]).filter(LimitRow::is_reached).collect()
}

fn neighbours_of(state: &State, counts: &[(PortKey, abi::Learning)]) -> Vec<LimitRow> {
    let reason = Verdict::NeighbourLimit.name();
    let of = |is_unasked: bool| match is_unasked {
        true => "neighbours that spoke first",
        false => "found neighbours",
    };
    let mut rows = Vec::new();
    let mut all = [0_usize; 2];
    for (owner, count) in counts.iter().filter(|(owner, _)| owner.switch_id != 0) {
        let is_unasked = owner.key & abi::FOUND_UNASKED != 0;
        let key = owner.key & !abi::FOUND_UNASKED;
        let most = if key == 0 {
            abi::MAX_FOUND_BEHIND
        } else {
            abi::MAX_FOUND_AT_PORT
        };
        let whose = match whose(state, owner.switch_id, key) {
            switch if key == 0 && owner.switch_id & ZONE_ROUTER == 0 => {
                format!("{switch} behind the underlay")
            }
            other => other,
        };
        let used = count.macs as usize;
        all[usize::from(is_unasked)] += used;
        rows.push(LimitRow::new(
            reason,
            whose,
            (used, most as u64),
            of(is_unasked),
        ));
    }
    for (used, is_unasked) in all.into_iter().zip([false, true]) {
        let whose = format!("host {}", state.host);
        let counts = (used, abi::MAX_FOUND as u64);
        rows.push(LimitRow::new(reason, whose, counts, of(is_unasked)));
    }
    rows.retain(LimitRow::is_reached);
    rows
}

/// What a sender caused in its last span, if that was as much as it may.
fn row(state: &State, key: &LimitKey, span: &LimitState) -> Option<LimitRow> {
    let (reason, most, of) = match key.limit {
        firewall::LIMIT_FLOOD => {
            let port = state.port(key.switch_id, key.key.into())?;
            let most = port.limits.flood_in_span().into();
            (Verdict::FloodLimit.name(), most, "flooded copies in 0.1 s")
        }
        firewall::LIMIT_ASKS => (Verdict::AskLimit.name(), MOST_ASKS, "questions in 0.1 s"),
        firewall::LIMIT_ANSWERS => (UNTOLD, MOST_ANSWERS, "answers in 0.1 s"),
        _ => return None,
    };
    let whose = whose(state, key.switch_id, key.key.into());
    let row = LimitRow::new(reason, whose, (span.count as usize, most), of);
    Some(row).filter(LimitRow::is_reached)
}

/// A port by its key, a switch, or the leg of a router.
fn whose(state: &State, side: u32, key: u32) -> String {
    if side & ZONE_ROUTER != 0 {
        let router = router_name(state, side & !ZONE_ROUTER);
        return format!("leg of router {}", router.as_deref().unwrap_or("?"));
    }
    if side & firewall::ZONE_REMOTE != 0 {
        return "a remote, with a MAC that nobody declares".to_owned();
    }
    let switch = switch_name(state, side);
    let switch = switch.as_deref().unwrap_or("?");
    match (state.port(side, key), key) {
        (Some(port), _) => format!("port {}", port.name),
        (None, 0) => format!("switch {switch}"),
        (None, _) => format!("key {key} of switch {switch}, on another host"),
    }
}

#[cfg(test)]
mod tests;
