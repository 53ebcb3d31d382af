//! What greetings and probes of a size have in common.

use crate::lib::context::Context;
use crate::lib::outcome::Output;
use crate::lib::outer::Outer;
use crate::lib::packet::Packet;

pub(super) const STAGE: &str = "greeting";
/// Of the tunnel header, without options.
pub(super) const HEADER_LEN: usize = 8;
pub(super) const MAGIC: [u8; 4] = *b"OVL\x01";

pub(super) fn output(cx: &mut Context<'_>, outer: &Outer<'_>, bytes: Vec<u8>) {
    cx.send(Output::Underlay {
        remote: Some(outer.remote.addr),
        packet: Packet {
            bytes,
            tag: None,
            gso: None,
        },
    });
}
