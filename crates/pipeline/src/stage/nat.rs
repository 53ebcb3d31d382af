//! Stage nat: what a gateway translates between the overlay (inside) and the physical network (outside). Out
//! by the leg between `route` and `leg_out`, from it between `parse` and `route`. A translation is a
//! connection of the router (`lib/tracking.rs`), its local end is the inside.
//!
//! ```text
//!        inside key                                outside key
//! | local: 198.18.1.10, port 5000 |  <---->  | local: 198.19.0.2, port 1024 |
//! | peer:  198.19.9.7, port 80    |          | peer:  the same              |
//! ```
//!
//! The peer's port is another one inside where two translations would have the same inside key.

mod fragments;
mod passing;
mod rewrite;
mod rules;

use std::borrow::Cow;
use std::net::IpAddr;

use overlane_model::{RouterTable, Verdict};

use crate::lib::begin::{self, Beginning};
use crate::lib::connection::Connection;
use crate::lib::context::{Context, Stage};
use crate::lib::covered;
use crate::lib::explain::Found;
use crate::lib::frame::Frame;
use crate::lib::hiding::hiding;
use crate::lib::key::{ConnectionKey, Sender};
use crate::lib::segment::Segment;
use crate::lib::tracking::{self, Followed, Judgement};
use passing::{Part, Passing, STAGE, is_untranslated, local};
use rewrite::{Change, End};

/// Out by the leg: the source becomes the outside one.
pub(crate) fn out(
    cx: &mut Context<'_>,
    router: &RouterTable,
    frame: &mut Cow<'_, Frame<'_>>,
) -> Stage {
    pass(cx, router, frame, Sender::Local, translate_out)
}

/// From the leg: the destination becomes the inside one.
pub(crate) fn from_leg(
    cx: &mut Context<'_>,
    router: &RouterTable,
    frame: &mut Cow<'_, Frame<'_>>,
) -> Stage {
    pass(cx, router, frame, Sender::Peer, translate_in)
}

/// A first fragment that passes is remembered.
fn pass<'f>(
    cx: &mut Context<'_>,
    router: &RouterTable,
    frame: &mut Cow<'_, Frame<'f>>,
    sender: Sender,
    translate: impl FnOnce(&mut Context<'_>, &RouterTable, &mut Cow<'_, Frame<'f>>) -> Stage,
) -> Stage {
    let came = fragments::first(cx, frame);
    translate(cx, router, frame)?;
    if translates(router) {
        fragments::remember(cx, router, sender, came, frame);
    }
    Stage::Continue(())
}

fn translate_out(
    cx: &mut Context<'_>,
    router: &RouterTable,
    frame: &mut Cow<'_, Frame<'_>>,
) -> Stage {
    let Some(passing) = passing(cx, router, frame, Sender::Local)? else {
        return Stage::Continue(());
    };
    let outside_of = |cx: &Context<'_>, key| cx.state.connections.get(key)?.outside;
    if let Some(key) = passing.related(cx) {
        if let Some(outside) = outside_of(cx, &key) {
            if outside == key {
                passing.stays(cx);
                return Stage::Continue(());
            }
            if !is_untranslated(&key, &outside) {
                passing.check_covered(cx)?;
            }
            let teller = passing.teller(cx, &key, &outside)?;
            passing.rewrite_error(cx, frame, &key, &outside, teller);
        }
        return Stage::Continue(());
    }
    let key = ConnectionKey::of(passing.zone(), Sender::Local, &passing.l4.ends);
    let Some(key) = key else {
        return passing.out_without_key(cx);
    };
    passing.check_stuck(cx, &key)?;
    if passing.follow(cx, &key)?
        && let Some(outside) = outside_of(cx, &key)
    {
        passing.translate(cx, frame, &key, &outside);
        return Stage::Continue(());
    }
    if let Some(outside) = passing.outside(cx, &key, frame.flow_hash)? {
        let outside = key.with_local(outside);
        passing.begin(cx, &key, outside)?;
        passing.translate(cx, frame, &key, &outside);
        return Stage::Continue(());
    }
    passing.as_it_is(cx)
}

fn translate_in(
    cx: &mut Context<'_>,
    router: &RouterTable,
    frame: &mut Cow<'_, Frame<'_>>,
) -> Stage {
    let Some(passing) = passing(cx, router, frame, Sender::Peer)? else {
        return Stage::Continue(());
    };
    if let Some(outside) = passing.related(cx) {
        let key = cx.state.translations.get(&outside).copied();
        let inside = key.unwrap_or(outside);
        if inside == outside {
            passing.stays(cx);
            return Stage::Continue(());
        }
        if inside.local != outside.local {
            passing.check_covered(cx)?;
        }
        passing.rewrite_error(cx, frame, &outside, &inside, inside.local);
        return Stage::Continue(());
    }
    let outside = ConnectionKey::of(passing.zone(), Sender::Peer, &passing.l4.ends);
    let Some(outside) = outside else {
        return passing.as_it_is(cx);
    };
    if let Some(key) = cx.state.translations.get(&outside).copied() {
        passing.check_stuck(cx, &key)?;
        if passing.follow(cx, &key)? {
            passing.translate(cx, frame, &outside, &key);
            return Stage::Continue(());
        }
    }
    let Some(inside) = passing.inside(cx, &outside)? else {
        passing.as_it_is(cx)?;
        if let Some(key) = passing.begin_untranslated(cx, &outside, frame.flow_hash)? {
            passing.translate(cx, frame, &outside, &key);
        }
        return Stage::Continue(());
    };
    passing.check_begins(cx)?;
    let Some(key) = rules::free_inside(cx, outside.with_local(inside), frame.flow_hash) else {
        return passing.exhausted(cx, inside);
    };
    passing.begin(cx, &key, outside)?;
    passing.translate(cx, frame, &outside, &key);
    Stage::Continue(())
}

/// The packet is dropped, and what it began by the leg goes with it: nobody got the packet who could answer.
pub(crate) fn forget_begun(cx: &mut Context<'_>) {
    if let Some(key) = cx.begun.take()
        && (cx.state.connections.get(&key)).is_some_and(|connection| !connection.answered)
    {
        cx.state.forget(&key);
    }
}

/// It has rules, or drops what none translates.
fn translates(router: &RouterTable) -> bool {
    let mut gateway = router.gateway.iter();
    gateway.any(|gateway| !gateway.nat.is_empty() || gateway.drop_untranslated)
}

/// `None`: nothing is translated here, or it is not IP.
fn passing<'a>(
    cx: &mut Context<'_>,
    router: &'a RouterTable,
    frame: &Frame<'_>,
    sender: Sender,
) -> Stage<Option<Passing<'a>>> {
    let (Some(gateway), Some(ip)) = (&router.gateway, frame.ip) else {
        return Stage::Continue(None);
    };
    if !translates(router) {
        return Stage::Continue(None);
    }
    let (l4, part) = fragments::read(cx, router, sender, frame, &ip)?;
    tracking::check(cx, &l4)?;
    let covered = covered::covered(frame, &ip, l4.ends.protocol);
    Stage::Continue(Some(Passing {
        router,
        rules: &gateway.nat,
        drops_rest: gateway.drop_untranslated,
        share: gateway.connections,
        version: gateway.nat_version(),
        ip,
        l4,
        part,
        covered,
        sender,
    }))
}

impl Passing<'_> {
    /// Whether it belongs to a translation. One that the rules no longer make is forgotten, or, where the other
    /// side's next packet would only begin it again, left to its time-out.
    fn follow(&self, cx: &mut Context<'_>, key: &ConnectionKey) -> Stage<bool> {
        let judge = |connection: &Connection| match connection.version {
            version if version == self.version => Judgement::Stands,
            _ if self.still_makes(key, connection) => Judgement::Allowed {
                rule: None,
                version: self.version,
            },
            _ => Judgement::Revoked,
        };
        let followed = match self.part {
            Part::Later => tracking::accompany(cx, key, judge),
            Part::Full | Part::Unknown => tracking::follow(cx, key, self.sender, &self.l4, judge)?,
        };
        match followed {
            Followed::Passes { .. } => Stage::Continue(true),
            Followed::Asks => self.remember_syn(cx, key),
            Followed::Nothing {
                may_be_adopted: true,
            } => Stage::Continue(false),
            Followed::Nothing { .. } => cx.end(STAGE, Verdict::ConnectionInvalid, || {
                let name = &self.router.name;
                Found::by_router(
                    format!("router {name} has no rule for {key} any more"),
                    name,
                )
            }),
        }
    }

    /// Of an ICMP error about a packet of a live translation, that packet's key: from the leg the outside
    /// one. The rules of now would translate that packet, too.
    fn related(&self, cx: &Context<'_>) -> Option<ConnectionKey> {
        let quoted = self.l4.quoted?;
        if self.l4.ends.destination != quoted.ends.source {
            return None;
        }
        let ends = self.ends_of(cx, &quoted)?;
        let key = ConnectionKey::of(self.zone(), self.sender.other(), &ends)?;
        let inside = match self.sender {
            Sender::Local => key,
            Sender::Peer => *cx.state.translations.get(&key)?,
        };
        let connection = tracking::live(cx, &inside)?;
        let is_made = connection.version == self.version || self.still_makes(&inside, connection);
        is_made.then_some(key)
    }

    /// An ICMP message that begins nothing, where its sender should not be seen outside.
    fn out_without_key(&self, cx: &mut Context<'_>) -> Stage {
        match hiding(self.rules, self.ip.source) {
            Some(_) => self.unsupported(cx, "an ICMP message about no connection"),
            None => self.as_it_is(cx),
        }
    }

    /// Nothing translates it.
    fn as_it_is(&self, cx: &mut Context<'_>) -> Stage {
        let is_for_router = self.is_for_router();
        if is_for_router && self.part == Part::Unknown && self.stands_for_others() {
            return self.unknown_part(cx);
        }
        if is_for_router && self.is_unsolicited() {
            return self.no_rule(cx, "and does not answer there: two SYNs may meet");
        }
        if !self.drops_rest || is_for_router {
            return Stage::Continue(());
        }
        self.no_rule(cx, "and drops what none does")
    }

    /// A SYN to an address that stands for others too (RFC 5382 REQ-4).
    fn is_unsolicited(&self) -> bool {
        self.l4.segment().is_some_and(Segment::opens) && self.stands_for_others()
    }

    fn no_rule(&self, cx: &mut Context<'_>, what: &str) -> Stage {
        cx.end(STAGE, Verdict::NatNoRule, || {
            let name = &self.router.name;
            Found::by_router(
                format!("router {name} has no rule that translates it, {what}"),
                name,
            )
        })
    }

    /// No rule is asked about a SYN into a translation that is there.
    fn remember_syn(&self, cx: &mut Context<'_>, key: &ConnectionKey) -> Stage<bool> {
        self.check_sound(cx)?;
        let segment = self.l4.segment();
        Stage::Continue(segment.is_some_and(|it| tracking::remember_syn(cx, key, self.sender, it)))
    }

    fn begin(&self, cx: &mut Context<'_>, key: &ConnectionKey, outside: ConnectionKey) -> Stage {
        let new = self.beginning(outside);
        self.begin_with(cx, key, new).map_continue(|_| ())
    }

    /// False: there is no place for it, and the packet passes without.
    fn begin_with(&self, cx: &mut Context<'_>, key: &ConnectionKey, new: Beginning) -> Stage<bool> {
        let begins = begin::begin(cx, key, self.sender, &self.l4, new)?;
        if begins && self.sender == Sender::Peer {
            cx.begun = Some(*key);
        }
        Stage::Continue(begins)
    }

    fn beginning(&self, outside: ConnectionKey) -> Beginning {
        Beginning {
            rule: None,
            version: self.version,
            outside: Some(outside),
            owner: 0,
            share: self.share,
            may_be_adopted: true,
            allow_when_full: false,
        }
    }

    /// What no rule is for is remembered with one end on both sides, so that its answers leave as they are. `None`: it
    /// begins nothing.
    fn begin_untranslated(
        &self,
        cx: &mut Context<'_>,
        outside: &ConnectionKey,
        flow_hash: u32,
    ) -> Stage<Option<ConnectionKey>> {
        if self.is_for_router()
            || self.ip.is_later_fragment()
            || self.ip.is_hidden()
            || !begin::may_begin(&self.l4)
            || !rules::is_free(cx, outside)
        {
            return Stage::Continue(None);
        }
        let Some(key) = rules::free_inside(cx, *outside, flow_hash) else {
            return Stage::Continue(None);
        };
        let new = Beginning {
            allow_when_full: true,
            ..self.beginning(*outside)
        };
        let begun = self.begin_with(cx, &key, new);
        begun.map_continue(|begun| begun.then_some(key))
    }

    /// A packet of the key `from` becomes one of `to`; what was opened untranslated keeps both ends.
    fn translate(
        &self,
        cx: &mut Context<'_>,
        frame: &mut Cow<'_, Frame<'_>>,
        from: &ConnectionKey,
        to: &ConnectionKey,
    ) {
        if to != from {
            return self.rewrite(cx, frame, from, to);
        }
        self.stays(cx);
    }

    fn stays(&self, cx: &mut Context<'_>) {
        let name = &self.router.name;
        cx.step(STAGE, || {
            Found::by_router("it was opened untranslated and stays so".into(), name)
        });
    }

    fn rewrite(
        &self,
        cx: &mut Context<'_>,
        frame: &mut Cow<'_, Frame<'_>>,
        from: &ConnectionKey,
        to: &ConnectionKey,
    ) {
        let (frame, change) = (frame.to_mut(), self.change(from, to));
        rewrite::packet(frame.bytes.to_mut(), &self.ip, &self.l4, &change);
        self.put_addr(cx, frame, to.local);
        self.explain(cx, to, &change);
    }

    fn change(&self, from: &ConnectionKey, to: &ConnectionKey) -> Change {
        Change {
            end: self.end(),
            to: local(*to),
            peer_port: (from.peer_port != to.peer_port).then_some(to.peer_port),
        }
    }

    /// An ICMP error and what it quotes.
    fn rewrite_error(
        &self,
        cx: &mut Context<'_>,
        frame: &mut Cow<'_, Frame<'_>>,
        from: &ConnectionKey,
        to: &ConnectionKey,
        teller: IpAddr,
    ) {
        let (frame, change) = (frame.to_mut(), self.change(from, to));
        let bytes = frame.bytes.to_mut();
        rewrite::error(bytes, &self.ip, &self.l4, &change, teller);
        self.put_addr(cx, frame, teller);
        if teller == to.local {
            return self.explain(cx, to, &change);
        }
        cx.step(STAGE, || {
            let (name, inside) = (&self.router.name, self.ip.source);
            let text = format!("the source becomes {teller}: {inside} is a router on the way");
            Found::by_router(text, name)
        });
    }

    fn end(&self) -> End {
        match self.sender {
            Sender::Local => End::Source,
            Sender::Peer => End::Destination,
        }
    }

    fn put_addr(&self, cx: &mut Context<'_>, frame: &mut Frame<'_>, addr: IpAddr) {
        cx.is_readdressed |= self.sender == Sender::Peer && self.ip.destination != addr;
        if let Some(ip) = &mut frame.ip {
            match self.end() {
                End::Source => ip.source = addr,
                End::Destination => ip.destination = addr,
            }
        }
    }

    fn explain(&self, cx: &mut Context<'_>, key: &ConnectionKey, change: &Change) {
        let (addr, port) = change.to;
        cx.step(STAGE, || {
            let name = &self.router.name;
            let (side, other) = match self.sender {
                Sender::Local => ("source", "destination"),
                Sender::Peer => ("destination", "source"),
            };
            let port = match key.has_ports() {
                true if key.is_icmp() => format!(" identifier {port}"),
                true => format!(" port {port}"),
                false => String::new(),
            };
            let peer = match change.peer_port {
                Some(port) => format!(", and the {other}'s port {port}"),
                None => String::new(),
            };
            Found::by_router(format!("the {side} becomes {addr}{port}{peer}"), name)
        });
    }
}
