//! What keeps a link going, in the only form in which its messages are meant: neighbour discovery (RFC 4861) and the
//! multicast listeners of both families (RFC 3376, RFC 2710, RFC 3810). `port_security` lets some of it come from
//! nobody, and the firewall looks at none of it.

use std::net::{IpAddr, Ipv6Addr};

use overlane_wire::ip::protocol;
use overlane_wire::nd::{
    NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION, ROUTER_ADVERTISEMENT, ROUTER_SOLICITATION,
};
use overlane_wire::{ethernet, ipv6};

use crate::lib::bytes::{array, byte};
use crate::lib::frame::Frame;
use crate::lib::ip::Ip;

const IP_AT: usize = ethernet::LEN;
const OPTIONS_AT: usize = IP_AT + ipv6::LEN + 2;
/// Of an ICMP message.
const ICMP_LEN: usize = 8;
const IGMP: u8 = 2;
const MLD_QUERY: u8 = 130;
const MLDV2_REPORT: u8 = 143;
pub(crate) const REDIRECT: u8 = 137;
/// RFC 2711, with the value 0: a multicast listener's message.
const ROUTER_ALERT: [u8; 4] = [5, 2, 0, 0];

/// Neighbour discovery, MLD: nothing else would pass where these do not.
pub(crate) fn is_upkeep(frame: &Frame<'_>, ip: &Ip) -> bool {
    has_type(ip) && (is_discovery(frame, ip) || mld_type(frame, ip).is_some())
}

/// Neighbour discovery in the form that RFC 4861 asks for before its options.
fn is_discovery(frame: &Frame<'_>, ip: &Ip) -> bool {
    let Some((kind, 0)) = plain_icmpv6(frame, ip) else {
        return false;
    };
    let Some(fixed_len) = discovery_len(kind) else {
        return false;
    };
    let is_on_link = byte(&frame.bytes, IP_AT + 7) == Some(255);
    let is_from_link = matches!(ip.source, IpAddr::V6(source) if source.is_unicast_link_local());
    is_on_link && ip.l4_at + fixed_len <= ip.end && (!is_routers(kind) || is_from_link)
}

/// Length of the fixed part of a message of neighbour discovery, where its options begin.
pub(crate) fn discovery_len(kind: u8) -> Option<usize> {
    match kind {
        ROUTER_SOLICITATION => Some(8),
        ROUTER_ADVERTISEMENT => Some(16),
        NEIGHBOUR_SOLICITATION | NEIGHBOUR_ADVERTISEMENT => Some(24),
        REDIRECT => Some(40),
        _ => None,
    }
}

/// They come from the router's link-local address (RFC 4861 sections 6.1.2 and 8.1).
pub(crate) fn is_routers(kind: u8) -> bool {
    matches!(kind, ROUTER_ADVERTISEMENT | REDIRECT)
}

/// A report or done of MLD.
pub(crate) fn is_mld_report(frame: &Frame<'_>, ip: &Ip) -> bool {
    mld_type(frame, ip).is_some_and(|kind| kind != MLD_QUERY)
}

/// Of an MLD message.
fn mld_type(frame: &Frame<'_>, ip: &Ip) -> Option<u8> {
    let (kind, _) = plain_icmpv6(frame, ip)?;
    let (IpAddr::V6(source), 130..=132 | 143) = (ip.source, kind) else {
        return None;
    };
    let is_from_nobody = source == Ipv6Addr::UNSPECIFIED && kind != MLD_QUERY;
    let is_for_group = ip.destination.is_multicast() && frame.destination.is_group();
    let least = if kind == MLDV2_REPORT { 8 } else { 24 };
    let is_one = ip.l4_at + least <= ip.end
        && (source.is_unicast_link_local() || is_from_nobody)
        && is_for_group
        && byte(&frame.bytes, IP_AT + 7) == Some(1)
        && has_router_alert(frame, ip);
    is_one.then_some(kind)
}

/// The message stands right behind one hop-by-hop header of 8 bytes, which has the option.
fn has_router_alert(frame: &Frame<'_>, ip: &Ip) -> bool {
    let next = byte(&frame.bytes, IP_AT + 6);
    let len = byte(&frame.bytes, IP_AT + ipv6::LEN + 1);
    let is_alone = (next, len) == (Some(protocol::HOP_BY_HOP), Some(0));
    if !is_alone || ip.l4_at != IP_AT + ipv6::LEN + 8 {
        return false;
    }
    let is_alert = |at| array(&frame.bytes, at) == Some(ROUTER_ALERT);
    let padding = array(&frame.bytes, OPTIONS_AT);
    let is_padded = matches!(padding, Some([0 | 1, 0]));
    is_alert(OPTIONS_AT) || is_padded && is_alert(OPTIONS_AT + 2)
}

/// Type and code, behind no fragment header.
fn plain_icmpv6(frame: &Frame<'_>, ip: &Ip) -> Option<(u8, u8)> {
    let is_plain = ip.source.is_ipv6() && !ip.is_fragment() && !ip.is_atomic;
    if !is_plain || ip.protocol != protocol::ICMPV6 {
        return None;
    }
    let kind = byte(&frame.bytes, ip.l4_at)?;
    // Nobody asks for the code of a message that ends here.
    let code = byte(&frame.bytes, ip.l4_at + 1).unwrap_or(0);
    Some((kind, code))
}

/// To the firewall a message without a whole header has none.
fn has_type(ip: &Ip) -> bool {
    ip.l4_at + ICMP_LEN <= ip.end
}

/// A report or leave of IGMP.
pub(crate) fn is_igmp_report(frame: &Frame<'_>, ip: &Ip) -> bool {
    let is_for_group = ip.destination.is_multicast() && frame.destination.is_group();
    ip.source.is_ipv4()
        && ip.protocol == IGMP
        && !ip.is_fragment()
        && is_for_group
        && byte(&frame.bytes, IP_AT + 8) == Some(1)
        && matches!(
            byte(&frame.bytes, ip.l4_at),
            Some(0x12 | 0x16 | 0x17 | 0x22)
        )
}
