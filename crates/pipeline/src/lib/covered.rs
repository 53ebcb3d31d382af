//! What nat cannot translate: something in the packet covers its addresses, and nat does not write that anew.
//! `bpf/lib/covered.h`.

use overlane_wire::ip::protocol;
use overlane_wire::{ethernet, ipv4};

use crate::lib::bytes::byte;
use crate::lib::frame::Frame;
use crate::lib::ip::Ip;

const IPV4_OPTION_END: u8 = 0;
const IPV4_OPTION_NOTHING: u8 = 1;
const IPV4_LOOSE_ROUTE: u8 = 131;
const IPV4_STRICT_ROUTE: u8 = 137;

/// Place of the checksum in a transport header, where that may change with an address or a port.
pub(crate) fn checksum_offset(protocol: u8, is_v4: bool) -> Option<usize> {
    match (protocol, is_v4) {
        (protocol::TCP, _) => Some(16),
        (protocol::UDP | protocol::UDP_LITE | protocol::DCCP, _) => Some(6),
        (protocol::ICMP, true) | (protocol::ICMPV6 | protocol::PIM, false) => Some(2),
        (protocol::OSPF, false) => Some(12),
        _ => None,
    }
}

/// A checksum of 0 says that there is none (RFC 768), or is wrong (RFC 3828): no sum is written so.
pub(crate) fn has_no_zero_sum(protocol: u8) -> bool {
    matches!(protocol, protocol::UDP | protocol::UDP_LITE)
}

/// Why no address of the packet may change. `protocol`: of a later fragment that of its first one.
pub(crate) fn covered(frame: &Frame<'_>, ip: &Ip, protocol: u8) -> Option<&'static str> {
    if ip.is_hidden() {
        return Some("headers that do not end may hide a checksum");
    }
    if ip.may_have_other_ends {
        return Some("an extension header may name another end, which checksums cover");
    }
    match protocol {
        protocol::AUTHENTICATION => return Some("AH signs its addresses"),
        // That of VRRP over IPv4 covers them by some senders only.
        protocol::VRRP | protocol::MOBILITY | protocol::HOST_IDENTITY => {
            return Some("its checksum covers its addresses");
        }
        _ => {}
    }
    let checksum_end = checksum_offset(protocol, ip.source.is_ipv4()).map(|at| ip.l4_at + at + 2);
    let is_first = ip.is_fragment() && !ip.is_later_fragment();
    if is_first && checksum_end.is_some_and(|end| end > ip.end) {
        return Some("its checksum is in a later fragment");
    }
    (ip.source.is_ipv4() && has_source_route(frame, ip))
        .then_some("a source route names another end, which checksums cover")
}

/// By a source route, the last of its addresses is the destination that checksums cover (RFC 9293 section 3.1).
fn has_source_route(frame: &Frame<'_>, ip: &Ip) -> bool {
    let options = frame.bytes.get(ethernet::LEN + ipv4::LEN..ip.l4_at);
    let options = options.unwrap_or_default();
    let mut at = 0;
    while let Some(kind) = byte(options, at) {
        at += match (kind, byte(options, at + 1)) {
            (IPV4_LOOSE_ROUTE | IPV4_STRICT_ROUTE, _) => return true,
            (IPV4_OPTION_NOTHING, _) => 1,
            (IPV4_OPTION_END, _) | (_, None | Some(0 | 1)) => return false,
            (_, Some(len)) => usize::from(len),
        };
    }
    false
}
