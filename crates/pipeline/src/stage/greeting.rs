//! Greetings: hosts tell each other what they can take, in tunnel packets with VNI 0. Instead of `tunnel`.
//!
//! ```text
//! | outer | VXLAN or Geneve: 8, VNI 0 | Ethernet: 14, type 0x88b5 | "OVL" 1 | kind: 1 | abilities: 1 | 0 0 |
//! ```
//!
//! Behind that stand two cookies, of who asks and of who answers. Each end believes who shows it its own.
//! Probes of a size (`size_probe`) are kinds of their own.

mod packet;
mod size_probe;

use std::net::IpAddr;
use std::ops::Range;

use overlane_model::{Verdict, cookie};
use overlane_wire::checksum::Sum;
use overlane_wire::ip::protocol;
use overlane_wire::{ethernet, ipv4, ipv6, udp};

use crate::lib::bytes::{array, be16, put};
use crate::lib::context::Context;
use crate::lib::explain::Found;
use crate::lib::limit::Limited;
use crate::lib::outer::Outer;
use crate::lib::sound::is_right_or_begun;
use crate::lib::state::{LimitOf, ROUTES_WHOLE_UDP, WHOLE_UDP};
use packet::{HEADER_LEN, MAGIC, STAGE, output};

const LEN: usize = ethernet::LEN + 8;
const TYPE: [u8; 2] = [0x88, 0xb5];
const ASK: u8 = 1;
const ANSWER: u8 = 2;
const CONFIRM: u8 = 5;
const SIZE_PROBE: u8 = 3;
const SIZE_ANSWER: u8 = 4;

/// What a packet with VNI 0 is, if it is a greeting.
pub(crate) fn greeting(cx: &mut Context<'_>, outer: &Outer<'_>) -> Option<Verdict> {
    let at = outer.tunnel_at + HEADER_LEN;
    let bytes = cx.entered.bytes.get(at..outer.end)?;
    let [.., t0, t1, m0, m1, m2, m3, kind, abilities, _, _] = array::<LEN>(bytes, 0)?;
    if [t0, t1] != TYPE || [m0, m1, m2, m3] != MAGIC {
        return None;
    }
    let cookies = Cookies::behind(bytes);
    match (kind, cookies) {
        (SIZE_PROBE, _) => size_probe::answer(cx, outer),
        (SIZE_ANSWER, _) => say(cx, outer, "answers a probe of a size"),
        (ASK, _) => {
            say(cx, outer, "asks what this host takes");
            answer(cx, outer, ANSWER, Limited::Abilities);
        }
        (ANSWER, Some(Cookies { asker, answerer })) if is_ours(cx, outer, asker) => {
            believe(cx, outer, abilities);
            // An older build has none.
            if answerer != [0; cookie::LEN] {
                answer(cx, outer, CONFIRM, Limited::Confirmed);
            }
        }
        (CONFIRM, Some(Cookies { answerer, .. })) if is_ours(cx, outer, answerer) => {
            believe(cx, outer, abilities);
        }
        _ => say(
            cx,
            outer,
            "says what it takes, and does not show that it has heard this host: not believed",
        ),
    }
    Some(Verdict::Greeting)
}

fn say(cx: &mut Context<'_>, outer: &Outer<'_>, what: &str) {
    cx.step(STAGE, || {
        let name = &outer.remote.name;
        Found::by_host(format!("host {name} {what}"), name)
    });
}

/// Behind a greeting.
struct Cookies {
    asker: [u8; cookie::LEN],
    answerer: [u8; cookie::LEN],
}

impl Cookies {
    /// An older build sends none.
    fn behind(greeting: &[u8]) -> Option<Self> {
        Some(Self {
            asker: array(greeting, LEN)?,
            answerer: array(greeting, LEN + cookie::LEN)?,
        })
    }
}

/// Whether the remote shows that it has heard this host.
fn is_ours(cx: &Context<'_>, outer: &Outer<'_>, shown: [u8; cookie::LEN]) -> bool {
    let is_valid = cookie::is_valid(shown, cx.state.cookies(), outer.remote.addr, cx.now_ns);
    is_valid && is_outer_sum_right(cx, outer).unwrap_or_default()
}

/// The outer UDP checksum, which no other tunnel packet is asked for. 0: there is none.
fn is_outer_sum_right(cx: &Context<'_>, outer: &Outer<'_>) -> Option<bool> {
    let udp_at = outer.tunnel_at.checked_sub(udp::LEN)?;
    let udp = cx.entered.bytes.get(udp_at..outer.end)?;
    let field = be16(udp, 6)?;
    let (from, to) = (outer.remote.addr, cx.host.tables().vtep);
    let pseudo = Sum::new().pseudo_header(from, to, protocol::UDP, udp.len());
    Some(field == 0 || is_right_or_begun(pseudo, field, udp))
}

fn believe(cx: &mut Context<'_>, outer: &Outer<'_>, abilities: u8) {
    let remote = outer.remote;
    let takes = abilities & WHOLE_UDP != 0;
    cx.state.abilities.insert(remote.addr, abilities);
    cx.step(STAGE, || {
        let (name, takes) = (&remote.name, if takes { "takes" } else { "does not take" });
        let text = format!("host {name} {takes} UDP super-packets whole");
        Found::by_host(text, name)
    });
}

/// The same packet the other way, with this host's abilities. An answer has this host's cookie, where there is room.
fn answer(cx: &mut Context<'_>, outer: &Outer<'_>, kind: u8, limit: Limited) {
    let of = LimitOf::Remote(outer.remote.addr);
    if !cx.allows(of, limit, 1, Limited::ABILITIES) {
        let why = || "no answer: its sender has caused enough of them";
        return cx.step(STAGE, why);
    }
    let kind_at = outer.tunnel_at + HEADER_LEN + ethernet::LEN + MAGIC.len();
    let cookie_at = outer.tunnel_at + HEADER_LEN + LEN + cookie::LEN;
    let mut bytes = cx.entered.bytes.clone();
    let abilities = if cx.host.takes_whole_udp() {
        WHOLE_UDP | ROUTES_WHOLE_UDP
    } else {
        0
    };
    put(&mut bytes, 0, &[0; 12]);
    let vtep = cx.host.tables().vtep;
    let [source, destination] = addresses(vtep);
    write(&mut bytes, source, vtep);
    write(&mut bytes, destination, outer.remote.addr);
    put(&mut bytes, outer.tunnel_at.saturating_sub(2), &[0, 0]);
    put(&mut bytes, kind_at, &[kind, abilities]);
    if kind == ANSWER && cookie_at + cookie::LEN <= outer.end {
        let cookie = cookie::cookie(cx.state.cookies(), outer.remote.addr, cx.now_ns);
        put(&mut bytes, cookie_at, &cookie);
    }
    output(cx, outer, bytes);
}

/// Where they stand in a packet: source, destination.
fn addresses(vtep: IpAddr) -> [Range<usize>; 2] {
    let (at, len) = match vtep {
        IpAddr::V4(_) => (ethernet::LEN + ipv4::LEN - 8, 4),
        IpAddr::V6(_) => (ethernet::LEN + ipv6::LEN - 32, 16),
    };
    [at..at + len, at + len..at + 2 * len]
}

fn write(bytes: &mut [u8], at: Range<usize>, address: IpAddr) {
    match address {
        IpAddr::V4(v4) => put(bytes, at.start, &v4.octets()),
        IpAddr::V6(v6) => put(bytes, at.start, &v6.octets()),
    }
}
