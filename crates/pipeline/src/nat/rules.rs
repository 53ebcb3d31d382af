//! Which end a rule gives a new translation.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use overlane_model::{NatKind, NatRule, Verdict};
use overlane_wire::ip::protocol;

use super::{Passing, Place, STAGE, local};
use crate::conntrack::{self, ConnectionKey};
use crate::context::{Context, Stage};
use crate::explain::Found;
use crate::flow_hash::remix;
use crate::parse::Marks;

/// Outside ports that are looked at for one translation.
const TRIES: u32 = 32;

impl Passing<'_> {
    /// An ICMP message that begins nothing, where its sender should not be seen outside.
    pub(super) fn out_without_key(&self, cx: &mut Context<'_>) -> Stage {
        let source = self.ip.source;
        let hides = |rule: &&NatRule| match &rule.kind {
            NatKind::OneToOne { inside, .. } => *inside == source,
            NatKind::Source { inside, .. } => inside.contains(&source),
            NatKind::Forward { .. } => false,
        };
        match self.rules.iter().find(hides) {
            Some(_) => self.unsupported(cx, "an ICMP message about no connection"),
            None => self.as_it_is(cx),
        }
    }

    /// The outside end that the first rule gives a new connection. `None`: no rule fits.
    pub(super) fn outside(
        &self,
        cx: &mut Context<'_>,
        key: &ConnectionKey,
        flow_hash: u32,
    ) -> Stage<Option<Place>> {
        let here = local(*key);
        for rule in self.rules {
            let outside = match &rule.kind {
                NatKind::OneToOne { inside, outside } if *inside == key.local => {
                    (*outside, key.local_port)
                }
                NatKind::Forward {
                    protocol,
                    outside,
                    inside,
                } if *protocol == key.protocol && *inside == here && self.has_ports() => {
                    self.check_sctp(cx, outside.1 == inside.1)?;
                    *outside
                }
                NatKind::Source {
                    inside,
                    outside,
                    ports,
                } if inside.contains(&key.local) => {
                    return self
                        .share(cx, key, *outside, ports, flow_hash)
                        .map_continue(Some);
                }
                _ => continue,
            };
            if !is_free(cx, &key.outside(outside)) {
                return self.exhausted(cx, outside);
            }
            return Stage::Continue(Some(outside));
        }
        Stage::Continue(None)
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
        if !key.has_ports() {
            return self.unsupported(cx, "a fragment, or a protocol without ports");
        }
        self.check_sctp(cx, false)?;
        let first = u32::from(*ports.start());
        let count = u32::from(*ports.end()).saturating_sub(first) + 1;
        let hash = remix(flow_hash ^ cx.state.secret);
        let start = ((u64::from(hash) * u64::from(count)) >> 32) as u32;
        let tries = (0..TRIES).map(|i| (first + (start + i) % count) as u16);
        for port in std::iter::once(key.local_port).chain(tries) {
            if !self.is_forwarded(key.protocol, (outside, port))
                && is_free(cx, &key.outside((outside, port)))
            {
                return Stage::Continue((outside, port));
            }
        }
        self.exhausted(cx, (outside, key.local_port))
    }

    /// The inside end that the first rule gives a new connection from outside.
    pub(super) fn inside(
        &self,
        cx: &mut Context<'_>,
        outside: &ConnectionKey,
    ) -> Stage<Option<Place>> {
        let here = local(*outside);
        for rule in self.rules {
            match &rule.kind {
                NatKind::OneToOne {
                    inside,
                    outside: address,
                } if *address == outside.local => {
                    return Stage::Continue(Some((*inside, outside.local_port)));
                }
                NatKind::Forward {
                    protocol,
                    outside: place,
                    inside,
                } if *protocol == outside.protocol && *place == here && self.has_ports() => {
                    self.check_sctp(cx, place.1 == inside.1)?;
                    return Stage::Continue(Some(*inside));
                }
                _ => {}
            }
        }
        Stage::Continue(None)
    }

    /// What comes there from outside has a rule of its own.
    fn is_forwarded(&self, of: u8, place: Place) -> bool {
        let is_one = |rule: &NatRule| {
            matches!(rule.kind, NatKind::Forward { protocol, outside, .. }
                if protocol == of && outside == place)
        };
        self.rules.iter().any(is_one)
    }

    /// Real ports, no ICMP identifier.
    fn has_ports(&self) -> bool {
        matches!(self.l4.ends.marks, Marks::Ports { .. })
    }

    /// SCTP's CRC is over its ports, and is not written anew.
    fn check_sctp(&self, cx: &mut Context<'_>, is_same_port: bool) -> Stage {
        match self.l4.ends.protocol {
            protocol::SCTP if !is_same_port => self.unsupported(cx, "SCTP keeps its port"),
            _ => Stage::Continue(()),
        }
    }

    fn unsupported<T>(&self, cx: &mut Context<'_>, why: &str) -> Stage<T> {
        cx.end(STAGE, Verdict::NatUnsupported, || {
            let name = &self.router.name;
            Found::by_router(format!("router {name} cannot translate it: {why}"), name)
        })
    }

    pub(super) fn exhausted<T>(&self, cx: &mut Context<'_>, (addr, port): Place) -> Stage<T> {
        cx.end(STAGE, Verdict::NatExhausted, || {
            let name = &self.router.name;
            let text = match self.ip.protocol {
                protocol::ICMP | protocol::ICMPV6 => format!("no free identifier of {addr}"),
                _ => format!("{addr} port {port} and others are taken towards this peer"),
            };
            Found::by_router(text, name)
        })
    }
}

/// Nobody uses it outside; what has expired is forgotten.
fn is_free(cx: &mut Context<'_>, outside: &ConnectionKey) -> bool {
    let Some(key) = cx.state.translations.get(outside).copied() else {
        return true;
    };
    if conntrack::live(cx, &key).is_some() {
        return false;
    }
    cx.state.forget(&key);
    true
}
