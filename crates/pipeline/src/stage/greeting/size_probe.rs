//! Probes of a size: does a tunnel packet of this length get here, and one of that length back? `overlane mtu` sends
//! them and reads the answers; the data path only answers. Lengths are those of outer IP packets.
//!
//! ```text
//! | outer | tunnel: 8, VNI 0 | Ethernet: 14 | "OVL" 1, kind 0: 6 | wanted: 2 | id: 4 | came: 2 | uplink: 2 | path: 2 |
//! | 0 0 | who said so: 16 | cookie of who answers: 8 | zeros
//! ```

use std::net::IpAddr;

use overlane_model::cookie;
use overlane_wire::checksum::checksum;
use overlane_wire::ip::protocol;
use overlane_wire::{EtherType, ethernet, ipv4, ipv6, udp};

use super::packet::{HEADER_LEN, MAGIC, STAGE, output};
use crate::lib::bytes::{array, put16};
use crate::lib::context::Context;
use crate::lib::explain::Found;
use crate::lib::ip::mapped;
use crate::lib::limit::Limited;
use crate::lib::outer::Outer;
use crate::lib::path_mtu;
use crate::lib::state::LimitOf;

/// From the inner Ethernet header on.
const LEN: usize = 50;
/// What an answer repeats of it, its kind aside: up to and with the asker's number.
const REPEATED_LEN: usize = 26;
const KIND_AT: usize = ethernet::LEN + MAGIC.len();
const ANSWER: u8 = 4;
const DONT_FRAGMENT: u16 = 0x4000;
const TTL: u8 = 64;

/// As long as it is wanted, where the uplink takes that: longer than the probe only for who has heard this host before,
/// and no more of one remote than `Limited::SIZES`.
pub(super) fn answer(cx: &mut Context<'_>, outer: &Outer<'_>) {
    let remote = outer.remote;
    let Some(message) = message(cx, outer) else {
        return cx.step(
            STAGE,
            || "a probe of a size that is not whole, or has IP options",
        );
    };
    let bytes = packet(cx, outer, message);
    let (of, weight) = (
        LimitOf::Remote(remote.addr),
        (bytes.len() - ethernet::LEN) as u32,
    );
    if !cx.allows(of, Limited::Sizes, weight, Limited::SIZES) {
        let why = || "no answer: its sender has caused enough of them";
        return cx.step(STAGE, why);
    }
    cx.step(STAGE, || {
        let (name, came) = (&remote.name, outer.end - ethernet::LEN);
        let len = bytes.len() - ethernet::LEN;
        let text =
            format!("host {name} asks whether {came} bytes get here: they do, and {len} go back");
        Found::by_host(text, name)
    });
    output(cx, outer, bytes);
}

/// From the tunnel header on: what came, and what is known of the way back.
fn message(cx: &Context<'_>, outer: &Outer<'_>) -> Option<Vec<u8>> {
    let is_plain = outer.tunnel_at == ethernet::LEN + ip_len(outer.remote.addr) + udp::LEN;
    let at = outer.tunnel_at + HEADER_LEN;
    let probe = cx.entered.bytes.get(outer.tunnel_at..outer.end)?;
    array::<LEN>(cx.entered.bytes.get(at..outer.end)?, 0).filter(|_| is_plain)?;
    let short = |len: usize| len.min(u16::MAX.into()) as u16;
    let known = path_mtu::known(cx, outer.remote.addr);
    let mut out = probe.get(..HEADER_LEN + REPEATED_LEN)?.to_vec();
    if let Some([kind, pad]) = out.get_mut(HEADER_LEN + KIND_AT..)?.first_chunk_mut() {
        (*kind, *pad) = (ANSWER, 0);
    }
    out.extend(short(outer.end - ethernet::LEN).to_be_bytes());
    out.extend(short(cx.host.underlay_mtu() as usize).to_be_bytes());
    out.extend(short(known.map_or(0, |known| known.mtu as usize)).to_be_bytes());
    out.extend([0, 0]);
    out.extend(known.map_or([0; 16], |known| mapped(known.hop).octets()));
    Some(out)
}

fn packet(cx: &Context<'_>, outer: &Outer<'_>, message: Vec<u8>) -> Vec<u8> {
    let (vtep, remote) = (cx.host.tables().vtep, outer.remote.addr);
    let bytes = &cx.entered.bytes;
    let udp_at = outer.tunnel_at - udp::LEN;
    let wanted = array::<2>(&message, HEADER_LEN + KIND_AT + 2).map_or(0, u16::from_be_bytes);
    let ports = array::<4>(bytes, udp_at).unwrap_or_default();
    let least = ip_len(remote) + udp::LEN + message.len();
    let len = match usize::from(wanted) {
        wanted if wanted > cx.host.underlay_mtu() as usize => least,
        wanted => wanted.max(least),
    };
    let came = outer.end - ethernet::LEN;
    let len = match is_proven(cx, outer) {
        true => len,
        false => len.min(came),
    };
    let mut out = vec![0; 12];
    let udp_len = (len - ip_len(remote)) as u16;
    match (vtep, remote) {
        (IpAddr::V4(vtep), IpAddr::V4(remote)) => {
            out.extend(EtherType::IPV4.get().to_be_bytes());
            out.extend([0x45, 0]);
            out.extend((len as u16).to_be_bytes());
            out.extend([0, 0]);
            out.extend(DONT_FRAGMENT.to_be_bytes());
            out.extend([TTL, protocol::UDP, 0, 0]);
            out.extend(vtep.octets());
            out.extend(remote.octets());
            let sum = checksum(out.get(ethernet::LEN..).unwrap_or_default());
            put16(&mut out, ethernet::LEN + 10, sum);
        }
        _ => {
            out.extend(EtherType::IPV6.get().to_be_bytes());
            out.extend([0x60, 0, 0, 0]);
            out.extend(udp_len.to_be_bytes());
            out.extend([protocol::UDP, TTL]);
            out.extend(mapped(vtep).octets());
            out.extend(mapped(remote).octets());
        }
    }
    out.extend(ports);
    out.extend(udp_len.to_be_bytes());
    out.extend([0, 0]);
    out.extend(message);
    if len >= least + cookie::LEN {
        out.extend(cookie::cookie(cx.state.cookies(), remote, cx.now_ns));
    }
    out.resize(ethernet::LEN + len, 0);
    out
}

/// Whether who sent the probe has heard this host: it shows the cookie.
fn is_proven(cx: &Context<'_>, outer: &Outer<'_>) -> bool {
    let probe = cx.entered.bytes.get(outer.tunnel_at..outer.end);
    let shown = array(probe.unwrap_or_default(), HEADER_LEN + LEN);
    shown.is_some_and(|shown| {
        cookie::is_valid(shown, cx.state.cookies(), outer.remote.addr, cx.now_ns)
    })
}

const fn ip_len(remote: IpAddr) -> usize {
    match remote {
        IpAddr::V4(_) => ipv4::LEN,
        IpAddr::V6(_) => ipv6::LEN,
    }
}
