//! What a gateway translates: two rules must not claim what only one can have.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;

use super::family;
use super::routers::{Side, Taken, What};
use crate::decode::{NatDraft, RouterDraft};
use crate::diagnostic::{Sink, Span};
use crate::tables::NatKind;

pub(super) fn nat(
    router: &RouterDraft<'_>,
    sides: &[Side<'_>],
    taken: &mut Taken,
    sink: &mut Sink,
) {
    let Some(gateway) = &router.gateway else {
        return;
    };
    let mut claims = Outside::default();
    let inner = sides.iter().filter(|side| side.switch.is_some());
    let inner: HashMap<IpAddr, &Side<'_>> = inner.map(|side| (side.address.addr(), side)).collect();
    for draft in &gateway.nat {
        let Some(kind) = &draft.kind else { continue };
        families(draft, kind, sink);
        claims.claim(draft, kind, sink);
        let outside = kind.outside();
        if let Some(side) = inner.get(&outside) {
            let message = format!("{outside} is the router's address on {}", side.described());
            let help = "translate to an address of the physical network";
            let places = [
                (side.at, "the interface is here"),
                (draft.outside_at, "it is translated to here"),
            ];
            sink.disagreement(places, message, help);
        }
        let what = "an outside address of the router's `nat`".to_owned();
        taken
            .entry(outside.into())
            .or_insert((draft.outside_at, What::Own(what)));
    }
}

fn families(draft: &NatDraft, kind: &NatKind, sink: &mut Sink) {
    let (inside, outside) = (kind.inside().addr(), kind.outside());
    if inside.is_ipv4() != outside.is_ipv4() {
        let (inside, outside) = (family(inside), family(outside));
        let message = format!("the inside is {inside} and the outside {outside}");
        let help = "write addresses of one family: packets are not translated between them";
        let places = [
            (draft.inside_at, "the inside is here"),
            (draft.outside_at, "the outside is here"),
        ];
        sink.disagreement(places, message, help);
    }
}

/// Who uses an outside address.
#[derive(Default)]
struct Outside {
    /// Alone, and from where inside.
    alone: HashMap<IpAddr, Span>,
    insides: HashMap<IpNet, Span>,
    /// The first who shares it.
    shared: HashMap<IpAddr, Span>,
    forwards: HashMap<(u8, IpAddr, u16), Span>,
}

impl Outside {
    fn claim(&mut self, draft: &NatDraft, kind: &NatKind, sink: &mut Sink) {
        let (at, outside) = (draft.outside_at, kind.outside());
        let help = "an outside address of `one_to_one` is its own: give each entry another";
        let first =
            |place: Option<&Span>| place.map(|&place| (place, "first used here".to_owned()));
        let alone = first(self.alone.get(&outside));
        if let NatKind::OneToOne { .. } = kind {
            if let Some(first) = alone.or_else(|| first(self.shared.get(&outside))) {
                sink.conflict(
                    at,
                    format!("{outside} is already used outside"),
                    help,
                    first,
                );
            }
            self.alone.entry(outside).or_insert(at);
            let inside = kind.inside();
            if let Some(first) = first(self.insides.get(&inside)) {
                let message = format!("{} is already translated one to one", inside.addr());
                let help = "it can have one outside address: remove one of the two";
                sink.conflict(draft.inside_at, message, help, first);
            }
            self.insides.entry(inside).or_insert(draft.inside_at);
            return;
        }
        if let Some(first) = alone {
            let message = format!("{outside} is already the outside of a `one_to_one`");
            sink.conflict(at, message, help, first);
        }
        self.shared.entry(outside).or_insert(at);
        if let NatKind::Forward {
            protocol,
            outside: (_, port),
            ..
        } = *kind
        {
            let key = (protocol, outside, port);
            if let Some(first) = first(self.forwards.get(&key)) {
                let message = format!("port {port} of {outside} is already forwarded");
                let help = "it leads to one place: remove one of the two, or take another port";
                sink.conflict(at, message, help, first);
            }
            self.forwards.entry(key).or_insert(at);
        }
    }
}
