//! Greetings: hosts tell each other what they can take, in tunnel packets with VNI 0. Instead of `tunnel`.
//!
//! ```text
//! | outer | VXLAN or Geneve: 8, VNI 0 | Ethernet: 14, type 0x88b5 | "OVL" 1 | kind: 1 | abilities: 1 | 0 0 |
//! ```
//!
//! Probes of a size (`size_probe`) are kinds of their own.

use std::net::IpAddr;
use std::ops::Range;

use overlane_model::Verdict;
use overlane_wire::{ethernet, ipv4, ipv6};

use crate::bytes::{array, put};
use crate::context::Context;
use crate::explain::Found;
use crate::vtep_check::Outer;
use crate::{Output, Packet};

mod size_probe;

const STAGE: &str = "greeting";
/// Of the tunnel header, without options.
const HEADER_LEN: usize = 8;
const LEN: usize = ethernet::LEN + 8;
const TYPE: [u8; 2] = [0x88, 0xb5];
const MAGIC: [u8; 4] = *b"OVL\x01";
const ASK: u8 = 1;
const ANSWER: u8 = 2;
const SIZE_PROBE: u8 = 3;
const SIZE_ANSWER: u8 = 4;
/// A host that takes UDP super-packets whole says so of its ports and of its routers.
pub(crate) const WHOLE_UDP: u8 = 1;
pub(crate) const ROUTES_WHOLE_UDP: u8 = 2;

/// What a packet with VNI 0 is, if it is a greeting.
pub(crate) fn greeting(cx: &mut Context<'_>, outer: &Outer<'_>) -> Option<Verdict> {
    let at = outer.tunnel_at + HEADER_LEN;
    let bytes = cx.entered.bytes.get(at..outer.end)?;
    let [.., t0, t1, m0, m1, m2, m3, kind, abilities, _, _] = array::<LEN>(bytes, 0)?;
    if [t0, t1] != TYPE || [m0, m1, m2, m3] != MAGIC {
        return None;
    }
    let remote = outer.remote;
    match kind {
        SIZE_PROBE => {
            size_probe::answer(cx, outer);
            return Some(Verdict::Greeting);
        }
        SIZE_ANSWER => {
            cx.step(STAGE, || {
                let name = &remote.name;
                Found::by_host(format!("host {name} answers a probe of a size"), name)
            });
            return Some(Verdict::Greeting);
        }
        _ => {}
    }
    let takes = abilities & WHOLE_UDP != 0;
    cx.state.abilities.insert(remote.addr, abilities);
    cx.step(STAGE, || {
        let (name, takes) = (&remote.name, if takes { "takes" } else { "does not take" });
        let text = format!("host {name} {takes} UDP super-packets whole");
        Found::by_host(text, name)
    });
    if kind == ASK {
        answer(cx, outer, at + ethernet::LEN + MAGIC.len());
    }
    Some(Verdict::Greeting)
}

/// The same packet the other way, with this host's abilities.
fn answer(cx: &mut Context<'_>, outer: &Outer<'_>, kind_at: usize) {
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
    put(&mut bytes, kind_at, &[ANSWER, abilities]);
    output(cx, outer, bytes);
}

fn output(cx: &mut Context<'_>, outer: &Outer<'_>, bytes: Vec<u8>) {
    cx.send(Output::Underlay {
        remote: Some(outer.remote.addr),
        packet: Packet {
            bytes,
            tag: None,
            gso: None,
        },
    });
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
