//! The bytes of an answer, and about which packets there is none (RFC 1122 section 3.2.2, RFC 1812 section
//! 4.3.2.7, RFC 4443 section 2.4).

use std::net::IpAddr;

use overlane_wire::checksum::{Sum, checksum, update};
use overlane_wire::ip::protocol;
use overlane_wire::{EtherType, ethernet, ipv4, ipv6, tcp};

use crate::lib::bytes::{array, be16, be32, byte, put, put16};
use crate::lib::frame::Frame;
use crate::lib::ip::{Ip, is_of_one_host};
use crate::lib::l4::is_whole;
use crate::lib::tell::Answer;

const IP_AT: usize = ethernet::LEN;
const TTL: u8 = 64;
/// What makes the answer as long as every host takes at least (RFC 1122 section 3.3.2, RFC 8200 section 5).
const MOST_QUOTED_4: usize = 576 - ipv4::LEN - ICMP_LEN;
const MOST_QUOTED_6: usize = 1280 - ipv6::LEN - ICMP_LEN;
const ICMP_LEN: usize = 8;
const ECHO_REQUEST_6: u8 = 128;
const ECHO_REPLY_4: u8 = 0;
const ECHO_REPLY_6: u8 = 129;
const REDIRECT_6: u8 = 137;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// Nobody is told about what is an answer itself, or was for many, or comes from nobody. Nor does an answer come from
/// an address that no host has.
pub(crate) fn may_be_answered(frame: &Frame<'_>, ip: &Ip) -> bool {
    let hosts = [ip.source, ip.destination];
    !frame.destination.is_group() && hosts.into_iter().all(is_of_one_host) && !is_answer(frame, ip)
}

/// A later fragment, an ICMP error or redirect, a reset, or what may be one.
fn is_answer(frame: &Frame<'_>, ip: &Ip) -> bool {
    if ip.is_later_fragment() || ip.is_hidden() {
        return true;
    }
    let within = |at| byte(&frame.bytes, at).filter(|_| at < ip.end);
    match (ip.source, ip.protocol) {
        (IpAddr::V4(_), protocol::ICMP) => {
            within(ip.l4_at).is_none_or(|kind| matches!(kind, 3 | 4 | 5 | 11 | 12))
        }
        (IpAddr::V6(_), protocol::ICMPV6) => {
            within(ip.l4_at).is_none_or(|kind| kind < ECHO_REQUEST_6 || kind == REDIRECT_6)
        }
        (_, protocol::TCP) => within(ip.l4_at + 13).is_some_and(|flags| flags & RST != 0),
        _ => false,
    }
}

/// Of a packet that a reset can be about: sequence number, acknowledgement, flags, and all that it has of
/// the sequence.
pub(crate) fn tcp(frame: &Frame<'_>, ip: &Ip) -> Option<(u32, u32, u8, u32)> {
    if !is_whole(frame, ip, protocol::TCP, tcp::LEN) {
        return None;
    }
    let (bytes, at) = (&frame.bytes, ip.l4_at);
    let [offset, flags] = array(bytes, at + 12)?;
    let header_len = usize::from(offset >> 4) * 4;
    let payload_len = ip.end.saturating_sub(at + header_len);
    let controls = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
    let len = (payload_len as u32).wrapping_add(controls);
    Some((be32(bytes, at + 4)?, be32(bytes, at + 8)?, flags, len))
}

/// The frame of an error or a reset.
pub(crate) fn write(about: &Frame<'_>, ip: &Ip, from: IpAddr, answer: &Answer) -> Option<Vec<u8>> {
    let to = ip.source;
    let (protocol, mut message, checksum_at) = match (answer, to) {
        (Answer::Icmp { v4, rest, .. }, IpAddr::V4(_)) => {
            (protocol::ICMP, error(about, ip, *v4, *rest), 2)
        }
        (Answer::Icmp { v6, rest, .. }, IpAddr::V6(_)) => {
            (protocol::ICMPV6, error(about, ip, *v6, *rest), 2)
        }
        _ => (protocol::TCP, reset(about, ip)?, 16),
    };
    let sum = match protocol {
        protocol::ICMP => Sum::new(),
        _ => Sum::new().pseudo_header(from, to, protocol, message.len()),
    };
    let checksum = sum.bytes(&message).finish();
    put16(&mut message, checksum_at, checksum);
    let mut bytes = about.source.bytes().to_vec();
    bytes.extend(about.destination.bytes());
    bytes.extend(ip_header(from, to, protocol, message.len())?);
    bytes.extend(message);
    Some(bytes)
}

/// Type of the frame, and an IP header in which nothing is asked for.
fn ip_header(from: IpAddr, to: IpAddr, protocol: u8, len: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(2 + ipv6::LEN);
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let total_len = (ipv4::LEN + len) as u16;
            out.extend([0x45, 0]);
            out.extend(total_len.to_be_bytes());
            out.extend([0, 0, 0, 0, TTL, protocol, 0, 0]);
            out.extend(from.octets());
            out.extend(to.octets());
            let checksum = checksum(&out);
            put16(&mut out, 10, checksum);
            out.splice(0..0, EtherType::IPV4.get().to_be_bytes());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            out.extend(EtherType::IPV6.get().to_be_bytes());
            out.extend([0x60, 0, 0, 0]);
            out.extend((len as u16).to_be_bytes());
            out.extend([protocol, TTL]);
            out.extend(from.octets());
            out.extend(to.octets());
        }
        _ => return None,
    }
    Some(out)
}

/// RFC 9293 section 3.10.7.1.
fn reset(about: &Frame<'_>, ip: &Ip) -> Option<Vec<u8>> {
    let (sequence, acknowledged, flags, len) = tcp(about, ip)?;
    let [s0, s1, d0, d1] = array(&about.bytes, ip.l4_at)?;
    let (sequence, acknowledge, flags) = match flags & ACK {
        0 => (0, sequence.wrapping_add(len), RST | ACK),
        _ => (acknowledged, 0, RST),
    };
    let mut out = vec![d0, d1, s0, s1];
    out.extend(sequence.to_be_bytes());
    out.extend(acknowledge.to_be_bytes());
    out.extend([0x50, flags, 0, 0, 0, 0, 0, 0]);
    Some(out)
}

/// Type, code, what the error says, and the packet that it is about.
fn error(about: &Frame<'_>, ip: &Ip, (kind, code): (u8, u8), rest: u32) -> Vec<u8> {
    let most = match ip.source {
        IpAddr::V4(_) => MOST_QUOTED_4,
        IpAddr::V6(_) => MOST_QUOTED_6,
    };
    let end = ip.end.min(IP_AT + most).min(about.len());
    let mut out = vec![kind, code, 0, 0];
    out.extend(rest.to_be_bytes());
    out.extend(about.bytes.get(IP_AT..end).unwrap_or_default());
    out
}

/// The reply to an echo request, written over it.
pub(crate) fn echo_reply(about: &Frame<'_>, ip: &Ip) -> Option<Vec<u8>> {
    let reply = match ip.destination {
        IpAddr::V4(_) => ECHO_REPLY_4,
        IpAddr::V6(_) => ECHO_REPLY_6,
    };
    let mut bytes = about.bytes.to_vec();
    put(&mut bytes, 0, about.source.bytes());
    put(&mut bytes, 6, about.destination.bytes());
    change16(&mut bytes, ip.l4_at, ip.l4_at + 2, |word| {
        u16::from(reply) << 8 | word & 0xff
    });
    match (ip.source, ip.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            put(&mut bytes, IP_AT + 12, &destination.octets());
            put(&mut bytes, IP_AT + 16, &source.octets());
            change16(&mut bytes, IP_AT + 8, IP_AT + 10, |word| {
                u16::from(TTL) << 8 | word & 0xff
            });
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            put(&mut bytes, IP_AT + 8, &destination.octets());
            put(&mut bytes, IP_AT + 24, &source.octets());
            put(&mut bytes, IP_AT + 7, &[TTL]);
        }
        _ => return None,
    }
    Some(bytes)
}

/// Changes a word, and the checksum over it (RFC 1624).
fn change16(bytes: &mut [u8], at: usize, checksum_at: usize, new: impl FnOnce(u16) -> u16) {
    if let (Some(old), Some(sum)) = (be16(bytes, at), be16(bytes, checksum_at)) {
        let new = new(old);
        put16(bytes, at, new);
        put16(bytes, checksum_at, update(sum, old, new));
    }
}
