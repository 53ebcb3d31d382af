//! A packet at a gateway, as the parts of stage nat see it.

use std::net::IpAddr;

use overlane_model::{NatRule, RouterTable, Verdict, Way};
use overlane_wire::ip::protocol;

use crate::lib::context::{Context, Stage};
use crate::lib::explain::Found;
use crate::lib::ip::Ip;
use crate::lib::key::{ConnectionKey, Sender, Zone};
use crate::lib::l4::L4;
use crate::lib::next_hop::longest;
use crate::lib::{begin, tracking};

pub(super) const STAGE: &str = "nat";

/// An address and port, or ICMP identifier.
pub(super) type Place = (IpAddr, u16);

/// A packet at a gateway that translates, or drops what it does not.
pub(super) struct Passing<'a> {
    pub(super) router: &'a RouterTable,
    pub(super) rules: &'a [NatRule],
    /// What no rule translates.
    pub(super) drops_rest: bool,
    /// The most translations.
    pub(super) share: u32,
    /// Of all that decides what is translated.
    pub(super) version: u32,
    pub(super) ip: Ip,
    pub(super) l4: L4,
    pub(super) part: Part,
    /// Why none of its addresses may change.
    pub(super) covered: Option<&'static str>,
    pub(super) sender: Sender,
}

/// What a packet has to do with translations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// It belongs to one, or may begin one.
    Full,
    /// It belongs to one, but changes nothing of it and begins none.
    Later,
    /// A later fragment, and nobody knows the ports of its first one.
    Unknown,
}

pub(super) fn local(key: ConnectionKey) -> Place {
    (key.local, key.local_port)
}

/// Opened untranslated: its local end is the same outside. Of ICMP the identifier may be another.
pub(super) fn is_untranslated(inside: &ConnectionKey, outside: &ConnectionKey) -> bool {
    let is_same_port = inside.local_port == outside.local_port || inside.is_icmp();
    inside.local == outside.local && is_same_port
}

/// What the parts of the stage ask.
impl Passing<'_> {
    pub(super) fn zone(&self) -> Zone {
        Zone::Router(self.router.id)
    }

    /// It comes from the leg for the router itself.
    pub(super) fn is_for_router(&self) -> bool {
        let route = longest(self.router, self.ip.destination);
        let is_own = route.is_some_and(|route| route.way == Way::Own);
        self.sender == Sender::Peer && is_own
    }

    pub(super) fn stands_for_others(&self) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rule| rule.kind.outside() == self.ip.destination)
    }

    /// Before an address of the packet changes.
    pub(super) fn check_covered(&self, cx: &mut Context<'_>) -> Stage {
        match self.covered {
            Some(why) => self.unsupported(cx, why),
            None => Stage::Continue(()),
        }
    }

    /// The translation `key` is live, and would give the packet another address.
    pub(super) fn check_stuck(&self, cx: &mut Context<'_>, key: &ConnectionKey) -> Stage {
        let connection = tracking::live(cx, key);
        let outside = connection.and_then(|connection| connection.outside);
        match outside.is_some_and(|outside| !is_untranslated(key, &outside)) {
            true => self.check_covered(cx),
            false => Stage::Continue(()),
        }
    }

    /// What no end would take begins nothing.
    pub(super) fn check_sound(&self, cx: &mut Context<'_>) -> Stage {
        match self.l4.unsound {
            Some(why) => tracking::unsound(cx, why),
            None => Stage::Continue(()),
        }
    }

    /// A later fragment begins no translation.
    pub(super) fn check_begins(&self, cx: &mut Context<'_>) -> Stage {
        if self.part == Part::Later {
            let why = "the translation of its first fragment is gone";
            return refuse(cx, self.router, Verdict::ConnectionInvalid, why);
        }
        self.check_sound(cx)?;
        match begin::may_begin(&self.l4) {
            true => Stage::Continue(()),
            false => refuse(
                cx,
                self.router,
                Verdict::ConnectionInvalid,
                "it begins nothing",
            ),
        }
    }

    pub(super) fn unknown_part<T>(&self, cx: &mut Context<'_>) -> Stage<T> {
        let why = "a later fragment whose first one, which has the ports, was not seen of late";
        refuse(cx, self.router, Verdict::FragmentUnknown, why)
    }

    pub(super) fn unsupported<T>(&self, cx: &mut Context<'_>, why: &str) -> Stage<T> {
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
                _ if port == 0 => format!("{addr} is taken towards this peer"),
                _ => format!("{addr} port {port} and others are taken towards this peer"),
            };
            Found::by_router(text, name)
        })
    }
}

pub(super) fn refuse<T>(
    cx: &mut Context<'_>,
    router: &RouterTable,
    reason: Verdict,
    why: &'static str,
) -> Stage<T> {
    cx.end(STAGE, reason, || {
        let name = &router.name;
        Found::by_router(format!("router {name} cannot translate it: {why}"), name)
    })
}
