//! Which end a rule gives a new translation.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use overlane_model::{NatKind, NatRule};
use overlane_wire::ip::protocol;

use super::passing::{Part, Passing, Place, is_untranslated, local};
use crate::lib::connection::Connection;
use crate::lib::context::{Context, Stage};
use crate::lib::flow_hash::remix;
use crate::lib::hiding::teller;
use crate::lib::key::ConnectionKey;
use crate::lib::tracking;

/// Outside ports that are looked at for one translation beside its own.
const TRIES: u32 = 72;
/// An inside address has at most two of the four or five outside ports of a group with one peer.
const GROUP: u32 = 4;
const SHARE_OF_GROUP: u32 = 2;
/// In a range of so few ports that a group has neighbours it may have all.
const LEAST_STEP: u32 = 4;
/// So many groups it has its share of: then it has it of all.
const REFUSALS: u32 = 8;
/// Those that a peer gets inside where another connection has its own.
const PEER_PORTS: RangeInclusive<u16> = 1024..=65535;

/// Not an ICMP identifier.
fn has_real_ports(key: &ConnectionKey) -> bool {
    key.has_ports() && !key.is_icmp()
}

impl Passing<'_> {
    /// Whom an ICMP error out by the leg comes from, about a packet of the translation `key`: the guest that the packet
    /// was for, or a router on its way there.
    pub(super) fn teller(
        &self,
        cx: &mut Context<'_>,
        key: &ConnectionKey,
        outside: &ConnectionKey,
    ) -> Stage<IpAddr> {
        if self.ip.source == key.local {
            return Stage::Continue(outside.local);
        }
        if is_untranslated(key, outside) {
            return Stage::Continue(self.ip.source);
        }
        match teller(self.router, self.ip.source) {
            Some(teller) => Stage::Continue(teller),
            None => self.unsupported(cx, "its gateway has no address to tell it from"),
        }
    }

    /// The first rule with this inside end.
    fn of_inside(&self, key: &ConnectionKey) -> Option<&NatKind> {
        let is_it = |kind: &&NatKind| match kind {
            NatKind::OneToOne { inside, .. } => *inside == key.local,
            NatKind::Forward {
                protocol, inside, ..
            } => *protocol == key.protocol && *inside == local(*key) && has_real_ports(key),
            NatKind::Source { inside, .. } => inside.contains(&key.local),
        };
        self.rules.iter().map(|rule| &rule.kind).find(is_it)
    }

    /// The first rule with this outside end, and its inside one.
    fn of_outside(&self, outside: &ConnectionKey) -> Option<(&NatKind, Place)> {
        let here = local(*outside);
        self.rules.iter().find_map(|rule| match &rule.kind {
            NatKind::OneToOne {
                inside,
                outside: address,
            } if *address == here.0 => Some((&rule.kind, (*inside, here.1))),
            NatKind::Forward {
                protocol,
                outside: place,
                inside,
            } if *protocol == outside.protocol && *place == here && has_real_ports(outside) => {
                Some((&rule.kind, *inside))
            }
            _ => None,
        })
    }

    /// Whether the rules of now make the same of a translation as those that it was begun by.
    pub(super) fn still_makes(&self, key: &ConnectionKey, connection: &Connection) -> bool {
        let Some(outside) = connection.outside else {
            return false;
        };
        if is_untranslated(key, &outside) {
            return !self.drops_rest;
        }
        // What is for the one end keeps nothing that was made for the other.
        if connection.made_by_peer {
            return self
                .of_outside(&outside)
                .is_some_and(|(_, (inside, port))| {
                    inside == key.local && (port == key.local_port || key.is_icmp())
                });
        }
        let outside = local(outside);
        let keeps_port = outside.1 == key.local_port;
        match self.of_inside(key) {
            Some(NatKind::OneToOne { outside: other, .. }) => *other == outside.0 && keeps_port,
            Some(NatKind::Forward { outside: other, .. }) => *other == outside,
            Some(NatKind::Source {
                outside: other,
                ports,
                ..
            }) => *other == outside.0 && (keeps_port || ports.contains(&outside.1)),
            None => false,
        }
    }

    /// The outside end that the first rule gives a new connection. `None`: no rule fits.
    pub(super) fn outside(
        &self,
        cx: &mut Context<'_>,
        key: &ConnectionKey,
        flow_hash: u32,
    ) -> Stage<Option<Place>> {
        let Some(kind) = self.of_inside(key) else {
            return Stage::Continue(None);
        };
        self.check_covered(cx)?;
        self.check_begins(cx)?;
        let outside = match kind {
            NatKind::OneToOne { outside, .. } => (*outside, key.local_port),
            NatKind::Forward {
                outside, inside, ..
            } => {
                self.check_sctp(cx, outside.1 == inside.1)?;
                *outside
            }
            NatKind::Source { outside, ports, .. } => {
                let shared = self.share(cx, key, *outside, ports, flow_hash);
                return shared.map_continue(Some);
            }
        };
        if !is_free(cx, &key.with_local(outside)) {
            return self.exhausted(cx, outside);
        }
        Stage::Continue(Some(outside))
    }

    /// A port of an address that others have too.
    fn share(
        &self,
        cx: &mut Context<'_>,
        key: &ConnectionKey,
        outside: IpAddr,
        ports: &RangeInclusive<u16>,
        flow_hash: u32,
    ) -> Stage<Place> {
        if self.part == Part::Unknown {
            return self.unknown_part(cx);
        }
        if !key.has_ports() && self.hides_ports() {
            return self.unsupported(cx, "its ports cannot be seen");
        }
        let tries = tries(ports, flow_hash ^ cx.state.secret);
        let tries = tries.filter(|_| !key.keeps_port());
        let mut crowd = Crowd::new(key, outside, ports);
        for port in std::iter::once(key.local_port).chain(tries) {
            if !self.is_forwarded(key.protocol, (outside, port)) && crowd.leaves(cx, port) {
                return Stage::Continue((outside, port));
            }
            if crowd.refused >= REFUSALS {
                break;
            }
        }
        if let Some((victim, _)) = crowd.victim
            && let Some(freed) = cx.state.connections.get(&victim).and_then(|it| it.outside)
            && !self.is_forwarded(key.protocol, local(freed))
        {
            cx.state.forget(&victim);
            return Stage::Continue(local(freed));
        }
        self.exhausted(cx, (outside, key.local_port))
    }

    /// The inside end that the first rule gives a new connection from outside.
    pub(super) fn inside(
        &self,
        cx: &mut Context<'_>,
        outside: &ConnectionKey,
    ) -> Stage<Option<Place>> {
        let Some((kind, inside)) = self.of_outside(outside) else {
            return Stage::Continue(None);
        };
        if let NatKind::Forward { .. } = kind {
            self.check_sctp(cx, outside.local_port == inside.1)?;
        }
        self.check_covered(cx)?;
        Stage::Continue(Some(inside))
    }

    /// What comes there from outside has a rule of its own.
    fn is_forwarded(&self, of: u8, place: Place) -> bool {
        let is_one = |rule: &NatRule| {
            matches!(rule.kind, NatKind::Forward { protocol, outside, .. }
                if protocol == of && outside == place)
        };
        self.rules.iter().any(is_one)
    }

    /// They are not there, or something that parse does not read hides them.
    fn hides_ports(&self) -> bool {
        let protocols = [protocol::TCP, protocol::UDP, protocol::SCTP];
        self.ip.is_hidden() || protocols.contains(&self.ip.protocol)
    }

    /// SCTP's CRC is over its ports, and is not written anew.
    fn check_sctp(&self, cx: &mut Context<'_>, is_same_port: bool) -> Stage {
        match self.l4.ends.protocol {
            protocol::SCTP if !is_same_port => self.unsupported(cx, "SCTP keeps its port"),
            _ => Stage::Continue(()),
        }
    }
}

/// The ports of a range that are looked at: where it has few, one after the other.
fn tries(ports: &RangeInclusive<u16>, hash: u32) -> impl Iterator<Item = u16> {
    let first = u32::from(*ports.start());
    let count = u32::from(*ports.end()).saturating_sub(first) + 1;
    let number = move |hash| ((u64::from(remix(hash)) * u64::from(count)) >> 32) as u32;
    (0..TRIES.min(count)).map(move |attempt| {
        let number = match count <= TRIES {
            true => (number(hash) + attempt) % count,
            false => number(hash.wrapping_add(attempt.wrapping_mul(0x9e37_79b9))),
        };
        (first + number) as u16
    })
}

/// The inside key of a connection that begins outside. Where another has `key`, its peer has come by another way from the
/// same port: it gets another port inside, or of ICMP another identifier. `None`: none is free.
pub(super) fn free_inside(
    cx: &Context<'_>,
    key: ConnectionKey,
    flow_hash: u32,
) -> Option<ConnectionKey> {
    let tries = tries(&PEER_PORTS, flow_hash ^ cx.state.secret);
    let tries = tries.filter(|_| !key.keeps_port());
    let tries = tries.map(|port| key.with_peer_port(port));
    std::iter::once(key)
        .chain(tries)
        .find(|key| tracking::live(cx, key).is_none())
}

/// Who has the outside ports that a new translation looks at: `bpf/lib/outside_ends.h`.
struct Crowd<'a> {
    key: &'a ConnectionKey,
    outside: IpAddr,
    ports: &'a RangeInclusive<u16>,
    /// The inside address with the majority of votes, if one has it.
    most: IpAddr,
    votes: u32,
    /// The oldest of its translations that gives way.
    victim: Option<(ConnectionKey, u64)>,
    /// Free ports that the new one's inside address has enough of.
    refused: u32,
}

impl<'a> Crowd<'a> {
    fn new(key: &'a ConnectionKey, outside: IpAddr, ports: &'a RangeInclusive<u16>) -> Self {
        Self {
            key,
            outside,
            ports,
            most: key.local,
            votes: 0,
            victim: None,
            refused: 0,
        }
    }

    /// Whether nobody has the port with this peer, and the new one may have it.
    fn leaves(&mut self, cx: &Context<'_>, port: u16) -> bool {
        if let Some(holder) = self.holder(cx, port) {
            self.vote(cx, holder);
            return false;
        }
        if !self.key.keeps_port() && self.has_share(cx, port) {
            self.refused += 1;
            return false;
        }
        true
    }

    /// The inside key of the live translation that has a port.
    fn holder(&self, cx: &Context<'_>, port: u16) -> Option<ConnectionKey> {
        let outside = self.key.with_local((self.outside, port));
        let key = cx.state.translations.get(&outside)?;
        tracking::live(cx, key).map(|_| *key)
    }

    /// Majority vote (Boyer and Moore).
    fn vote(&mut self, cx: &Context<'_>, holder: ConnectionKey) {
        if self.votes == 0 {
            (self.most, self.victim) = (holder.local, None);
        } else if self.most != holder.local {
            self.votes -= 1;
            return;
        }
        self.votes += 1;
        let connection = cx.state.connections.get(&holder);
        if let Some(connection) = connection.filter(|it| it.gives_way(&holder, cx.now_ns))
            && (self.victim).is_none_or(|(_, seen_ns)| connection.seen_ns < seen_ns)
        {
            self.victim = Some((holder, connection.seen_ns));
        }
    }

    /// Whether the inside address has as many ports of a free one's group as it may.
    fn has_share(&mut self, cx: &Context<'_>, port: u16) -> bool {
        let first = u32::from(*self.ports.start());
        let count = u32::from(*self.ports.end()).saturating_sub(first) + 1;
        let step = count / GROUP;
        let port = u32::from(port).wrapping_sub(first);
        if port >= count || step < LEAST_STEP {
            return false;
        }
        let mut others: Vec<u32> = (port % step..count).step_by(step as usize).collect();
        others.retain(|other| *other != port);
        let (mut left, mut own) = (others.len() as u32, 0);
        for other in others {
            if own >= SHARE_OF_GROUP || own + left < SHARE_OF_GROUP {
                break;
            }
            let holder = self.holder(cx, (first + other) as u16);
            if let Some(holder) = holder.filter(|holder| holder.local == self.key.local) {
                own += 1;
                self.vote(cx, holder);
            }
            left -= 1;
        }
        own >= SHARE_OF_GROUP
    }
}

/// Nobody uses it outside. What has expired stays until its place or its key is wanted.
pub(super) fn is_free(cx: &Context<'_>, outside: &ConnectionKey) -> bool {
    let key = cx.state.translations.get(outside);
    key.is_none_or(|key| tracking::live(cx, key).is_none())
}
