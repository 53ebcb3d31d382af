//! Stage nat: what a gateway translates between the overlay (inside) and the physical network (outside). Out
//! by the leg between `route` and `leg_out`, from it between `parse` and `route`. A translation is a
//! connection of the router: `conntrack` keeps it, its local end is the inside.
//!
//! ```text
//!        inside key                                outside key
//! | local: 198.18.1.10, port 5000 |  <---->  | local: 198.19.0.2, port 1024 |
//! | peer:  198.19.9.7, port 80    |          | peer:  the same              |
//! ```

use std::borrow::Cow;
use std::net::IpAddr;

use overlane_model::{NatRule, RouterTable, Verdict, Way};

use crate::conntrack::{self, Beginning, ConnectionKey, Followed, Judgement, Sender, Zone};
use crate::context::{Context, Stage};
use crate::explain::Found;
use crate::next_hop::longest;
use crate::parse::{Frame, Ip, L4};

mod rewrite;
mod rules;

use rewrite::End;

const STAGE: &str = "nat";

/// An address and port, or ICMP identifier.
type Place = (IpAddr, u16);

/// Puts a place at one end of a packet.
type Write = fn(&mut [u8], &Ip, &L4, End, Place);

/// A packet at a gateway that translates, or drops what it does not.
struct Passing<'a> {
    router: &'a RouterTable,
    rules: &'a [NatRule],
    /// What no rule translates.
    drops_rest: bool,
    /// The most translations.
    share: u32,
    ip: Ip,
    l4: L4,
    sender: Sender,
}

/// Out by the leg: the source becomes the outside one.
pub(crate) fn out(
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
            passing.rewrite(cx, frame, &key, outside, rewrite::error);
        }
        return Stage::Continue(());
    }
    let key = ConnectionKey::of(passing.zone(), Sender::Local, &passing.l4.ends);
    let Some(key) = key else {
        return passing.out_without_key(cx);
    };
    if let Followed::Passes { .. } = passing.follow(cx, &key)?
        && let Some(outside) = outside_of(cx, &key)
    {
        passing.rewrite(cx, frame, &key, outside, rewrite::packet);
        return Stage::Continue(());
    }
    if let Some(outside) = passing.outside(cx, &key, frame.flow_hash)? {
        passing.begin(cx, &key, outside)?;
        passing.rewrite(cx, frame, &key, outside, rewrite::packet);
        return Stage::Continue(());
    }
    passing.as_it_is(cx)
}

/// From the leg: the destination becomes the inside one.
pub(crate) fn from_leg(
    cx: &mut Context<'_>,
    router: &RouterTable,
    frame: &mut Cow<'_, Frame<'_>>,
) -> Stage {
    let Some(passing) = passing(cx, router, frame, Sender::Peer)? else {
        return Stage::Continue(());
    };
    if let Some(outside) = passing.related(cx) {
        let key = cx.state.translations.get(&outside).copied();
        let inside = key.map_or((outside.local, outside.local_port), local);
        passing.rewrite(cx, frame, &outside, inside, rewrite::error);
        return Stage::Continue(());
    }
    let outside = ConnectionKey::of(passing.zone(), Sender::Peer, &passing.l4.ends);
    let Some(outside) = outside else {
        return passing.as_it_is(cx);
    };
    if let Some(key) = cx.state.translations.get(&outside).copied()
        && let Followed::Passes { .. } = passing.follow(cx, &key)?
    {
        passing.rewrite(cx, frame, &key, local(key), rewrite::packet);
        return Stage::Continue(());
    }
    let Some(inside) = passing.inside(cx, &outside)? else {
        return passing.as_it_is(cx);
    };
    let key = outside.outside(inside);
    if conntrack::live(cx, &key).is_some() {
        return passing.exhausted(cx, inside);
    }
    passing.begin(cx, &key, local(outside))?;
    passing.rewrite(cx, frame, &key, inside, rewrite::packet);
    Stage::Continue(())
}

fn local(key: ConnectionKey) -> Place {
    (key.local, key.local_port)
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
    let rules = &gateway.nat[..];
    if rules.is_empty() && !gateway.drop_untranslated {
        return Stage::Continue(None);
    }
    let l4 = L4::read_whole(frame, &ip);
    conntrack::check(cx, &l4)?;
    Stage::Continue(Some(Passing {
        router,
        rules,
        drops_rest: gateway.drop_untranslated,
        share: gateway.connections,
        ip,
        l4,
        sender,
    }))
}

impl Passing<'_> {
    fn zone(&self) -> Zone {
        Zone::Router(self.router.id)
    }

    fn follow(&self, cx: &mut Context<'_>, key: &ConnectionKey) -> Stage<Followed> {
        let followed = conntrack::follow(cx, key, self.sender, &self.l4, |_| Judgement::Stands)?;
        let (Followed::Asks, Some(segment)) = (&followed, self.l4.segment()) else {
            return Stage::Continue(followed);
        };
        if let Some(why) = self.l4.unsound {
            return conntrack::unsound(cx, why);
        }
        conntrack::remember_syn(cx, key, self.sender, segment);
        Stage::Continue(Followed::Passes { rule: None })
    }

    /// Of an ICMP error about a packet of a live translation, that packet's key: from the leg the outside
    /// one.
    fn related(&self, cx: &Context<'_>) -> Option<ConnectionKey> {
        let quoted = self.l4.quoted?;
        if self.l4.ends.destination != quoted.ends.source {
            return None;
        }
        let key = ConnectionKey::of(self.zone(), self.sender.other(), &quoted.ends)?;
        let inside = match self.sender {
            Sender::Local => key,
            Sender::Peer => *cx.state.translations.get(&key)?,
        };
        conntrack::live(cx, &inside).map(|_| key)
    }

    /// Nothing translates it.
    fn as_it_is(&self, cx: &mut Context<'_>) -> Stage {
        let route = longest(self.router, self.ip.destination);
        let is_own = route.is_some_and(|route| route.way == Way::Own);
        let is_for_router = self.sender == Sender::Peer && is_own;
        if !self.drops_rest || is_for_router {
            return Stage::Continue(());
        }
        cx.end(STAGE, Verdict::NatNoRule, || {
            let name = &self.router.name;
            let text = "and drops what none does";
            Found::by_router(
                format!("router {name} has no rule that translates it, {text}"),
                name,
            )
        })
    }

    fn begin(&self, cx: &mut Context<'_>, key: &ConnectionKey, outside: Place) -> Stage {
        let new = Beginning {
            rule: None,
            outside: Some(outside),
            owner: 0,
            share: self.share,
            may_be_adopted: true,
            allow_when_full: false,
        };
        conntrack::begin(cx, key, self.sender, &self.l4, new).map_continue(|_| ())
    }

    /// `write`: [`rewrite::packet`], or [`rewrite::error`] of an ICMP error and what it quotes.
    fn rewrite(
        &self,
        cx: &mut Context<'_>,
        frame: &mut Cow<'_, Frame<'_>>,
        key: &ConnectionKey,
        to: Place,
        write: Write,
    ) {
        let frame = frame.to_mut();
        let end = match self.sender {
            Sender::Local => End::Source,
            Sender::Peer => End::Destination,
        };
        write(frame.bytes.to_mut(), &self.ip, &self.l4, end, to);
        if let Some(ip) = &mut frame.ip {
            match end {
                End::Source => ip.source = to.0,
                End::Destination => ip.destination = to.0,
            }
        }
        self.explain(cx, key, to);
    }

    fn explain(&self, cx: &mut Context<'_>, key: &ConnectionKey, (addr, port): Place) {
        cx.step(STAGE, || {
            let name = &self.router.name;
            let side = match self.sender {
                Sender::Local => "source",
                Sender::Peer => "destination",
            };
            let port = match key.has_ports() {
                true if key.is_icmp() => format!(" identifier {port}"),
                true => format!(" port {port}"),
                false => String::new(),
            };
            Found::by_router(format!("the {side} becomes {addr}{port}"), name)
        });
    }
}
