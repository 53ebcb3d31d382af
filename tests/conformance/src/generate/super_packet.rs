//! Makes super-packets of packets: of long ones most, of short ones a few, with segments of any size.

use overlane_pipeline::{Gso, GsoKind, Packet};

use super::World;
use crate::dissect::dissect;
use crate::layers::Layer;
use crate::random::Random;

/// From so many bytes on a packet is long.
const LONG: usize = 500;

/// Headers before the payload of a guest's segment: TCP and UDP over IPv4 and IPv6.
const HEADERS: [usize; 4] = [54, 42, 74, 62];

pub(super) fn now_and_then(random: &mut Random, world: &World<'_>, packet: &mut Packet) {
    let len = packet.bytes.len();
    if !random.percent(if len < LONG { 3 } else { 60 }) {
        return;
    }
    let headers = random.of(HEADERS);
    let size = match random.below(10) {
        0..5 => world.border(random, headers),
        5..7 => random.of([1, 8, 100, 536]),
        _ => 1 + random.below(len),
    };
    let size = size.clamp(1, usize::from(u16::MAX));
    let segments = if random.percent(90) {
        len.saturating_sub(headers).div_ceil(size)
    } else {
        random.below(4)
    };
    packet.gso = Some(Gso {
        kind: kind(packet),
        size: size as u16,
        segments: segments as u32,
    });
    if random.percent(6) {
        without_length(&mut packet.bytes);
    }
}

/// As the guest's kernel would say: no executor decides by it.
fn kind(packet: &Packet) -> GsoKind {
    let layers = dissect(packet);
    let mut kinds = layers.iter().rev().filter_map(|layer| match layer {
        Layer::Tcp(_) => Some(GsoKind::Tcp),
        Layer::Udp(_) => Some(GsoKind::Udp),
        _ => None,
    });
    kinds.next().unwrap_or(GsoKind::Sctp)
}

/// BIG TCP: the length of the IP packet is the super-packet's.
fn without_length(bytes: &mut [u8]) {
    let at = match bytes.get(12..14) {
        Some([0x08, 0x00]) => 16,
        Some([0x86, 0xdd]) => 18,
        _ => return,
    };
    if let Some(length) = bytes.get_mut(at..at + 2) {
        length.fill(0);
    }
}
