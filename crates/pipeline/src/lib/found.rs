//! Neighbours that the fabric does not declare, on the sides of routers: `neighbour` notes who answers, `route` asks,
//! `leave/ask.rs` writes the questions. The maps `found`, `found_counts` and `asked` of `bpf/lib/abi.h`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use overlane_model::{RouterTable, Side, SwitchId, Verdict, Way};
use overlane_wire::Mac;

use crate::lib::context::{Context, Stage};
use crate::lib::explain::Found;
use crate::lib::fdb;
use crate::lib::limit::Limited;
use crate::lib::next_hop::{self, is_refused, longest};
use crate::lib::state::{Asked, FoundNeighbour, NeighbourId, RouterSide, State};
use crate::lib::tell::{Answer, Request};
use crate::lib::time::SECOND_NS;

const STAGE: &str = "route";
/// RFC 4861 section 10.
const REACHABLE_NS: u64 = 30 * SECOND_NS;
/// Nobody has the address.
const SILENT_NS: u64 = 3 * SECOND_NS;
/// Since it was last confirmed.
const FORGOTTEN_NS: u64 = 60 * SECOND_NS;
/// MAX_MULTICAST_SOLICIT and MAX_UNICAST_SOLICIT of RFC 4861 section 10.
const MOST_TRIES: u32 = 3;

/// What a message says of a neighbour.
#[derive(Clone, Copy)]
pub(crate) struct Note {
    pub(crate) mac: Mac,
    /// Of the port that it came from; 0: by the uplink, or a leg.
    pub(crate) key: u16,
    /// Instead of another MAC.
    pub(crate) replaces: bool,
    /// It answers a router.
    pub(crate) confirms: bool,
}

/// The router's own address beside one that somebody on a side may have (NEIGH-2). `None`: nobody can.
pub(crate) fn own_beside(router: &RouterTable, side: Side, addr: IpAddr) -> Option<IpAddr> {
    let route = longest(router, addr)?;
    if route.way != Way::Connected(side) || is_refused(addr, Some(route)) {
        return None;
    }
    router.address_beside(side, addr)
}

/// The MAC of a next hop that nobody declares.
pub(crate) fn find<'a>(
    cx: &mut Context<'a>,
    router: &'a RouterTable,
    side: Side,
    addr: IpAddr,
    is_super_packet: bool,
) -> Option<Mac> {
    let id = (RouterSide::of(router, side), addr);
    let known = cx.state.found.get(&id).copied()?;
    let (now_ns, mac) = (cx.now_ns, known.mac);
    if is_nowhere(cx, side, mac) {
        cx.state.forget_neighbour(&id);
        explain(cx, router, || {
            format!("{addr} answered with MAC {mac}, which nobody has now, and is forgotten")
        });
        return None;
    }
    if now_ns < known.confirmed_ns.saturating_add(REACHABLE_NS) {
        explain(cx, router, || {
            format!("{addr} answered with MAC {mac} (found)")
        });
        return Some(mac);
    }
    let may_ask = now_ns >= known.asked_ns.saturating_add(SECOND_NS);
    if known.tries >= MOST_TRIES && may_ask {
        cx.state.forget_neighbour(&id);
        explain(cx, router, || {
            format!("{addr} does not answer any more at {mac}, and is forgotten")
        });
        return None;
    }
    let is_asked = may_ask && !is_super_packet;
    if is_asked {
        let is_last = known.tries + 1 == MOST_TRIES;
        let asks_all = is_last && router.acting_elsewhere().is_none();
        let to = (!asks_all).then_some(mac);
        cx.probe = Some(Request {
            router,
            side,
            addr,
            to,
        });
    }
    explain(cx, router, || {
        let more = if is_asked { ", and is asked again" } else { "" };
        format!("{addr} answered with MAC {mac} (found), not lately{more}")
    });
    Some(mac)
}

/// Whether nobody has the MAC there (NEIGH-16).
fn is_nowhere(cx: &Context<'_>, side: Side, mac: Mac) -> bool {
    let Side::Switch(id) = side else {
        return false;
    };
    let switch = cx.host.switch(id);
    switch.is_some_and(|switch| fdb::receiver(cx, switch, mac).is_none())
}

/// The MAC of a next hop that is known now.
pub(crate) fn known_mac(cx: &Context<'_>, switch: SwitchId, addr: IpAddr) -> Option<Mac> {
    if let Some(declared) = cx.host.neighbour(switch, addr) {
        return Some(declared.mac);
    }
    let found = cx.state.found.get(&(RouterSide::Switch(switch), addr));
    found.map(|found| found.mac)
}

/// The packet becomes a question to everybody on the side, unless one was lately.
pub(crate) fn ask<'a, T>(
    cx: &mut Context<'a>,
    router: &'a RouterTable,
    side: Side,
    addr: IpAddr,
) -> Stage<T> {
    let (host, now_ns) = (cx.host, cx.now_ns);
    let id = (RouterSide::of(router, side), addr);
    let place = || next_hop::place(host, side);
    if own_beside(router, side, addr).is_none() {
        let why = || format!("nobody {} can have {addr}", place());
        return refuse(cx, router, Verdict::NoNeighbour, why);
    }
    cx.asked = Some(id);
    let (mut tries, mut since_ns) = (0, u64::MAX);
    if let Some(asked) = cx.state.asked.get(&id) {
        (tries, since_ns) = (asked.tries, now_ns.saturating_sub(asked.at_ns));
    }
    if since_ns < SECOND_NS {
        let why = || format!("was asking for {addr} {} a moment ago", place());
        return end(cx, router, Verdict::Resolving, why);
    }
    if tries >= MOST_TRIES && since_ns < SECOND_NS + SILENT_NS {
        let why = || format!("nobody {} answers for {addr}", place());
        return refuse(cx, router, Verdict::NoNeighbour, why);
    }
    let sender = cx.limit_of_sender();
    if !sender.is_some_and(|sender| cx.allows(sender, Limited::Asks, 1, Limited::ASKS)) {
        let why = || format!("does not ask for {addr}: the sender has caused enough questions");
        return end(cx, router, Verdict::AskLimit, why);
    }
    cx.question = Some(Request {
        router,
        side,
        addr,
        to: None,
    });
    let by = if addr.is_ipv4() {
        "ARP"
    } else {
        "neighbour discovery"
    };
    let why = || format!("would ask for {addr} by {by} {}", place());
    end(cx, router, Verdict::Resolving, why)
}

/// Ends the packet's way, and its sender is told.
fn refuse<T>(
    cx: &mut Context<'_>,
    router: &RouterTable,
    verdict: Verdict,
    why: impl FnOnce() -> String,
) -> Stage<T> {
    cx.answer = Some(Answer::NO_NEIGHBOUR);
    end(cx, router, verdict, why)
}

fn end<T>(
    cx: &mut Context<'_>,
    router: &RouterTable,
    verdict: Verdict,
    why: impl FnOnce() -> String,
) -> Stage<T> {
    cx.end(STAGE, verdict, || by_router(router, why()))
}

fn explain(cx: &mut Context<'_>, router: &RouterTable, what: impl FnOnce() -> String) {
    cx.step(STAGE, || by_router(router, what()));
}

fn by_router(router: &RouterTable, text: String) -> Found {
    let name = &router.name;
    Found::by_router(format!("router {name}: {text}"), name)
}

impl State {
    /// Most neighbours that are found: `MAX_FOUND`.
    pub const MAX_FOUND: usize = 65_536;
    /// Most of them at one port: `MAX_FOUND_AT_PORT`.
    pub const MAX_FOUND_AT_PORT: u32 = 1024;
    /// Most of them from the underlay of one switch, or behind one leg: `MAX_FOUND_BEHIND`.
    pub const MAX_FOUND_BEHIND: u32 = 4096;
    /// Most addresses that are asked for and remembered: `MAX_ASKED`. The longest unused is forgotten for one more,
    /// which the reference executor never has.
    pub const MAX_ASKED: usize = 16_384;

    /// A neighbour answers a router (NEIGH-6), without a packet that says so. `key`: of its port on this host, else 0.
    /// False where there is no room for one more (NEIGH-7).
    pub fn neighbour_answers(&mut self, id: NeighbourId, mac: Mac, key: u16, now_ns: u64) -> bool {
        let note = Note {
            mac,
            key,
            replaces: true,
            confirms: true,
        };
        self.note(id, &note, now_ns)
    }

    /// False where there is no room for one more.
    pub(crate) fn note(&mut self, id: NeighbourId, note: &Note, now_ns: u64) -> bool {
        let known = self.found.get(&id).copied();
        let same = known.filter(|known| known.mac == note.mac);
        let stale_ns = now_ns.saturating_sub(REACHABLE_NS);
        if let Some(known) = self.found.get_mut(&id)
            && same.is_none()
            && !note.replaces
        {
            known.confirmed_ns = known.confirmed_ns.min(stale_ns);
            return true;
        }
        let was_asked = match &known {
            Some(known) => note.confirms && known.tries != 0,
            None => self.asked.contains_key(&id),
        };
        let unasked = known.is_none_or(|known| known.unasked) && !was_asked;
        let confirmed_ns = match note.confirms {
            true => now_ns,
            false => same.map_or(stale_ns, |same| same.confirmed_ns),
        };
        let new = FoundNeighbour {
            mac: note.mac,
            key: note.key,
            confirmed_ns,
            asked_ns: 0,
            tries: 0,
            unasked,
        };
        // Another MAC at the same place takes the place of the former one.
        if known.is_some_and(|known| known.owner() == new.owner()) && same.is_none() {
            self.found.insert(id, new);
            return true;
        }
        let stays = same.filter(|same| same.key == note.key);
        if stays.is_none_or(|it| it.unasked != unasked) && self.count_and_insert(id, new, now_ns) {
            return true;
        }
        // Who made room may have forgotten it.
        if let Some(known) = self.found.get_mut(&id).filter(|_| stays.is_some()) {
            let is_older = now_ns >= known.confirmed_ns.saturating_add(SECOND_NS);
            if note.confirms && (is_older || known.tries != 0) {
                (known.confirmed_ns, known.tries) = (now_ns, 0);
            }
        }
        stays.is_some()
    }

    /// A new neighbour, or one that is heard from elsewhere.
    fn count_and_insert(&mut self, id: NeighbourId, new: FoundNeighbour, now_ns: u64) -> bool {
        let owner = (id.0, new.owner());
        let most = match new.key {
            0 => Self::MAX_FOUND_BEHIND,
            _ => Self::MAX_FOUND_AT_PORT,
        };
        let has_limit = |state: &Self| state.found_counts.get(&owner).is_some_and(|it| *it >= most);
        let is_full =
            |state: &Self| state.found.len() >= Self::MAX_FOUND && !state.found.contains_key(&id);
        if has_limit(self) {
            self.sweep_found(now_ns, Some(owner));
        }
        if has_limit(self) {
            return false;
        }
        if is_full(self) {
            self.sweep_found(now_ns, None);
        }
        if is_full(self) {
            return false;
        }
        match self.found.insert(id, new) {
            Some(former) => self.uncount_found(id.0, former.owner()),
            None => drop(self.asked.remove(&id)),
        }
        *self.found_counts.entry(owner).or_default() += 1;
        true
    }

    /// Forgets whom nobody confirmed: those that spoke first, and the others of one owner or of all. It walks the whole
    /// table, so at most once a second on the host.
    fn sweep_found(&mut self, now_ns: u64, of: Option<(RouterSide, u16)>) {
        if now_ns < self.next_found_sweep_ns {
            return;
        }
        self.next_found_sweep_ns = now_ns.saturating_add(SECOND_NS);
        let is_old = |id: &NeighbourId, known: &FoundNeighbour| {
            now_ns > known.confirmed_ns.saturating_add(FORGOTTEN_NS)
                && (known.unasked || of.is_none_or(|of| of == (id.0, known.owner())))
        };
        let old: Vec<_> = self
            .found
            .extract_if(.., |id, known| is_old(id, known))
            .collect();
        for ((side, _), known) in old {
            self.uncount_found(side, known.owner());
        }
    }

    fn forget_neighbour(&mut self, id: &NeighbourId) {
        if let Some(known) = self.found.remove(id) {
            self.uncount_found(id.0, known.owner());
        }
    }

    fn uncount_found(&mut self, side: RouterSide, key: u16) {
        if let Some(number) = self.found_counts.get_mut(&(side, key)) {
            *number = number.saturating_sub(1);
        }
    }

    /// Everybody was asked for the address.
    pub(crate) fn note_question(&mut self, id: NeighbourId, at_ns: u64) {
        let before = self.asked.get(&id).map_or(0, |asked| asked.tries);
        let tries = before % MOST_TRIES + 1;
        self.asked.insert(id, Asked { at_ns, tries });
    }

    /// It is asked once more.
    pub(crate) fn ask_again(&mut self, id: &NeighbourId, now_ns: u64) {
        if let Some(known) = self.found.get_mut(id) {
            (known.asked_ns, known.tries) = (now_ns, known.tries + 1);
        }
    }

    /// Every neighbour that routers found, stale ones included.
    pub fn found(&self) -> &BTreeMap<NeighbourId, FoundNeighbour> {
        &self.found
    }

    /// How many neighbours ports have, by side and key; with key 0 the underlay of a switch, or a leg.
    pub fn found_counts(&self) -> &BTreeMap<(RouterSide, u16), u32> {
        &self.found_counts
    }

    /// Every address that routers asked for, and nobody answered.
    pub fn asked(&self) -> &BTreeMap<NeighbourId, Asked> {
        &self.asked
    }
}
