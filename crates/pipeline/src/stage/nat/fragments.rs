//! Fragments at a gateway: a later one is translated as its first one was, which is remembered as it came and as it went
//! on.

use overlane_model::{RouterTable, Verdict};

use super::passing::{Part, Passing, STAGE, refuse};
use crate::lib::context::{Context, Stage};
use crate::lib::fragments::{First, Memory, Recalled};
use crate::lib::frame::Frame;
use crate::lib::ip::{Fragment, Ip};
use crate::lib::key::{Sender, Zone};
use crate::lib::l4::{Ends, L4, Quoted, transport_len};

/// The packet with what is remembered of its datagram.
pub(super) fn read(
    cx: &mut Context<'_>,
    router: &RouterTable,
    sender: Sender,
    frame: &Frame<'_>,
    ip: &Ip,
) -> Stage<(L4, Part)> {
    let mut l4 = L4::read(frame, ip);
    let Some(fragment) = ip.fragment else {
        return Stage::Continue((l4, Part::Full));
    };
    if fragment.is_first() {
        if !ip.is_hidden() && transport_len(frame, ip).is_none() {
            let why = "a first fragment without its whole transport header";
            return refuse(cx, router, Verdict::FragmentTiny, why);
        }
        return Stage::Continue((l4, Part::Full));
    }
    let memory = Memory::before_nat(Zone::Router(router.id), sender);
    let recalled = match ip.is_hidden() {
        true => Recalled::nothing(&fragment, &l4.ends),
        false => (cx.state.fragments).recall(memory, &fragment, &l4.ends, cx.now_ns),
    };
    match recalled {
        Recalled::First(first) => {
            cx.step(STAGE, || {
                format!("a later fragment of the datagram that {}", first.describe())
            });
            (l4.ends, l4.icmp) = (first.ends, first.icmp);
            Stage::Continue((l4, Part::Later))
        }
        Recalled::Refused(reason, why) => refuse(cx, router, reason, why),
        Recalled::Portless => Stage::Continue((l4, Part::Full)),
        Recalled::Unknown => Stage::Continue((l4, Part::Unknown)),
    }
}

/// A first fragment.
pub(super) fn first(cx: &Context<'_>, frame: &Frame<'_>) -> Option<(Fragment, First)> {
    let ip = frame.ip?;
    let fragment = ip.first_seen()?;
    let l4 = L4::read(frame, &ip);
    let first = First::new(frame, &ip, &fragment, &l4, cx.now_ns);
    Some((fragment, first))
}

/// One that has passed: as it came, and as it goes on.
pub(super) fn remember(
    cx: &mut Context<'_>,
    router: &RouterTable,
    sender: Sender,
    came: Option<(Fragment, First)>,
    goes_on: &Frame<'_>,
) {
    let (zone, now_ns) = (Zone::Router(router.id), cx.now_ns);
    let goes_on = first(cx, goes_on);
    for (memory, first) in [
        (Memory::before_nat(zone, sender), came),
        (Memory::behind_nat(zone, sender), goes_on),
    ] {
        if let Some((fragment, first)) = first {
            (cx.state.fragments).remember(memory, &fragment, first, now_ns);
        }
    }
}

impl Passing<'_> {
    /// What a quoted packet is known by: a later fragment by how its first one went on. `None`: it is not of its
    /// datagram.
    pub(super) fn ends_of(&self, cx: &Context<'_>, quoted: &Quoted) -> Option<Ends> {
        let ends = quoted.ends;
        let Some(later) = quoted.fragment.filter(|fragment| !fragment.is_first()) else {
            return Some(ends);
        };
        let memory = Memory::behind_nat(self.zone(), self.sender.other());
        match (cx.state.fragments).recall(memory, &later, &ends, cx.now_ns) {
            Recalled::First(first) => Some(first.ends),
            Recalled::Refused(..) => None,
            Recalled::Portless | Recalled::Unknown => Some(ends),
        }
    }
}
