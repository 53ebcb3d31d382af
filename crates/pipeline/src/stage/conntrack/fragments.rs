//! What the firewall knows of a packet that does not show all: a first fragment, a later one, and one whose extension
//! headers do not end.

use overlane_model::{Asks, Verdict};

use crate::lib::classifier::Part;
use crate::lib::context::{Context, Stage};
use crate::lib::explain::Found;
use crate::lib::fragments::{Memory, Recalled};
use crate::lib::frame::Frame;
use crate::lib::ip::{Fragment, Ip, is_extension};
use crate::lib::key::Zone;
use crate::lib::l4::{Ends, L4, Quoted, transport_len};

/// As which stage it explains itself.
const STAGE: &str = "acl";

/// Where a packet is judged.
pub(super) struct Place<'a> {
    pub(super) zone: Zone,
    pub(super) port: &'a overlane_model::Name,
    pub(super) asks: Asks,
}

/// The packet with what is remembered of its datagram.
pub(super) fn read(
    cx: &mut Context<'_>,
    at: &Place<'_>,
    frame: &Frame<'_>,
    ip: &Ip,
) -> Stage<(L4, Part)> {
    let l4 = L4::read(frame, ip);
    if ip.is_hidden() {
        return hidden(cx, at, l4);
    }
    match ip.fragment {
        None => Stage::Continue((l4, Part::Full)),
        Some(first) if first.is_first() => {
            check_header(cx, at, frame, ip)?;
            Stage::Continue((l4, Part::Full))
        }
        Some(later) => self::later(cx, at, ip, &later, l4),
    }
}

fn hidden(cx: &mut Context<'_>, at: &Place<'_>, l4: L4) -> Stage<(L4, Part)> {
    if !at.asks.protocol {
        return Stage::Continue((l4, Part::Unknown));
    }
    let why = "its extension headers do not end where they can be read, and rules of";
    refuse(cx, at, Verdict::DeepHeader, why, "ask for a protocol")
}

fn check_header(cx: &mut Context<'_>, at: &Place<'_>, frame: &Frame<'_>, ip: &Ip) -> Stage {
    match transport_len(frame, ip) {
        Some(_) => Stage::Continue(()),
        None => {
            let why = "a first fragment without its whole transport header, which the firewall of";
            refuse(cx, at, Verdict::FragmentTiny, why, "has to see")
        }
    }
}

fn later(
    cx: &mut Context<'_>,
    at: &Place<'_>,
    ip: &Ip,
    fragment: &Fragment,
    mut l4: L4,
) -> Stage<(L4, Part)> {
    let (memory, now_ns) = (Memory::of_port(at.zone), cx.now_ns);
    match (cx.state.fragments).recall(memory, fragment, &l4.ends, now_ns) {
        Recalled::First(first) => {
            cx.step(STAGE, || {
                format!("a later fragment of the datagram that {}", first.describe())
            });
            (l4.ends, l4.icmp) = (first.ends, first.icmp);
            return Stage::Continue((l4, Part::Later));
        }
        Recalled::Refused(reason, why) => {
            return refuse(cx, at, reason, &format!("{why}, at"), "");
        }
        Recalled::Portless => return Stage::Continue((l4, Part::Full)),
        Recalled::Unknown => {}
    }
    let is_asked = match ip.source.is_ipv6() && is_extension(fragment.next) {
        true => at.asks.protocol,
        false => at.asks.ports,
    };
    if is_asked {
        let why = "a later fragment whose first one was not seen of late, and rules of";
        let asked = "ask for what only that one has";
        return refuse(cx, at, Verdict::FragmentUnknown, why, asked);
    }
    Stage::Continue((l4, Part::Unknown))
}

/// What a quoted packet is known by: a later fragment by its first one, as [`later`] says of a packet. `None`: nobody
/// knows.
pub(super) fn ends_of(cx: &Context<'_>, zone: Zone, quoted: &Quoted) -> Option<Ends> {
    let ends = quoted.ends;
    let Some(later) = quoted.fragment.filter(|fragment| !fragment.is_first()) else {
        return Some(ends);
    };
    match (cx.state.fragments).recall(Memory::of_port(zone), &later, &ends, cx.now_ns) {
        Recalled::First(first) => Some(first.ends),
        Recalled::Portless => Some(ends),
        Recalled::Refused(..) | Recalled::Unknown => None,
    }
}

/// `why` goes on with the port, and that with `more`.
fn refuse<T>(
    cx: &mut Context<'_>,
    at: &Place<'_>,
    reason: Verdict,
    why: &str,
    more: &str,
) -> Stage<T> {
    cx.end(STAGE, reason, || {
        let text = format!("{why} port {} {more}", at.port);
        Found::by_port(text.trim_end().to_owned(), at.port)
    })
}
