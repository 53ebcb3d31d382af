//! Whether the end that a packet goes to would take it. `bpf/lib/sound.h`.

use overlane_wire::checksum::Sum;
use overlane_wire::ethernet;
use overlane_wire::ip::protocol;

use super::{Frame, Ip};
use crate::bytes::be16;

/// Why the end that gets the packet would discard it; `None`: nothing is wrong, as far as checksums tell.
pub(super) fn unsound(frame: &Frame<'_>, ip: &Ip) -> Option<&'static str> {
    let packet = frame.bytes.get(..ip.end).unwrap_or(&frame.bytes);
    let header = packet.get(ethernet::LEN..ip.l4_at).unwrap_or_default();
    if ip.source.is_ipv4() && !Sum::new().bytes(header).verifies() {
        return Some("the checksum of its IPv4 header is wrong");
    }
    if frame.gso.is_some() || ip.is_fragment() || ip.is_hidden() {
        return None;
    }
    let bytes = packet.get(ip.l4_at..).unwrap_or_default();
    let checksum_at = match (ip.protocol, ip.source.is_ipv4()) {
        (protocol::TCP, _) => 16,
        (protocol::UDP, _) => 6,
        (protocol::ICMP, true) | (protocol::ICMPV6, false) => 2,
        _ => return None,
    };
    let len = match ip.protocol {
        protocol::UDP => usize::from(be16(bytes, 4).unwrap_or_default()),
        _ => bytes.len(),
    };
    let (Some(summed), Some(field)) = (bytes.get(..len), be16(bytes, checksum_at)) else {
        return Some("its transport header is not whole, or says more than there is");
    };
    if ip.protocol == protocol::UDP && len < 8 {
        return Some("its UDP length is less than a header");
    }
    let pseudo = match ip.protocol {
        protocol::ICMP => Sum::new(),
        number => Sum::new().pseudo_header(ip.source, ip.destination, number, len),
    };
    let is_left_out = ip.protocol == protocol::UDP && field == 0;
    // A device is still to complete it.
    let is_begun = ip.protocol != protocol::ICMP && field == pseudo.fold();
    if is_left_out || is_begun || pseudo.bytes(summed).verifies() {
        return None;
    }
    Some("its checksum is wrong")
}
