//! Whether the end that a packet goes to would take it. `bpf/lib/sound.h`.

use std::net::Ipv6Addr;

use overlane_wire::checksum::Sum;
use overlane_wire::ip::protocol;
use overlane_wire::{ethernet, ipv6};

use crate::lib::bytes::be16;
use crate::lib::frame::Frame;
use crate::lib::ip::Ip;

/// Why the end that gets the packet would discard it; `None`: nothing is wrong, as far as checksums tell.
pub(crate) fn unsound(frame: &Frame<'_>, ip: &Ip) -> Option<&'static str> {
    let packet = frame.bytes.get(..ip.end).unwrap_or(&frame.bytes);
    let header = packet.get(ethernet::LEN..ip.l4_at).unwrap_or_default();
    if ip.source.is_ipv4() && !Sum::new().bytes(header).verifies() {
        return Some("the checksum of its IPv4 header is wrong");
    }
    // An extension header may say another destination, which is summed then (RFC 8200 section 8.1).
    let is_behind_extension = ip.source.is_ipv6() && header.len() != ipv6::LEN;
    if frame.gso.is_some() || ip.is_fragment() || ip.is_hidden() || is_behind_extension {
        return None;
    }
    let bytes = packet.get(ip.l4_at..).unwrap_or_default();
    let checksum_at = match (ip.protocol, ip.source.is_ipv4()) {
        (protocol::UDP, _) => return unsound_udp(bytes),
        (protocol::TCP, _) => 16,
        (protocol::ICMP, true) | (protocol::ICMPV6, false) => 2,
        _ => return None,
    };
    let Some(field) = be16(bytes, checksum_at) else {
        return Some("its transport header is not whole");
    };
    let is_right = match ip.protocol {
        protocol::ICMP => Sum::new().bytes(bytes).verifies(),
        number => {
            let pseudo = Sum::new().pseudo_header(ip.source, ip.destination, number, bytes.len());
            is_right_or_begun(pseudo, field, bytes)
        }
    };
    match is_right {
        true => None,
        false => Some("its checksum is wrong"),
    }
}

/// One that a device is still to complete is the sum of the pseudo header.
pub(crate) fn is_right_or_begun(pseudo: Sum, field: u16, bytes: &[u8]) -> bool {
    field == pseudo.fold() || pseudo.bytes(bytes).verifies()
}

/// The checksum of an ICMPv6 message.
pub(crate) fn is_icmpv6_sum_right(source: Ipv6Addr, to: Ipv6Addr, message: &[u8]) -> bool {
    let (source, to) = (source.into(), to.into());
    let pseudo = Sum::new().pseudo_header(source, to, protocol::ICMPV6, message.len());
    be16(message, 2).is_some_and(|field| is_right_or_begun(pseudo, field, message))
}

/// Its checksum may hold for an inner packet that is still to be completed.
fn unsound_udp(bytes: &[u8]) -> Option<&'static str> {
    let len = be16(bytes, 4).map(usize::from);
    match len.is_some_and(|len| (8..=bytes.len()).contains(&len)) {
        true => None,
        false => Some("its UDP length is wrong"),
    }
}
