//! Translated headers: addresses, ports, and every checksum over them, incrementally (RFC 1624).

use std::net::IpAddr;

use overlane_wire::checksum::update;
use overlane_wire::ethernet;
use overlane_wire::ip::protocol;

use crate::lib::bytes::{array, be16, put, put16};
use crate::lib::covered::{checksum_offset, has_no_zero_sum};
use crate::lib::ip::Ip;
use crate::lib::l4::{L4, Marks};

const IP_AT: usize = ethernet::LEN;
const ICMP_LEN: usize = 8;

/// Which end of a packet changes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Source,
    Destination,
}

impl End {
    fn other(self) -> Self {
        match self {
            Self::Source => Self::Destination,
            Self::Destination => Self::Source,
        }
    }
}

/// What a packet becomes.
#[derive(Clone, Copy)]
pub(super) struct Change {
    pub(super) end: End,
    /// Address and port of that end.
    pub(super) to: (IpAddr, u16),
    /// Of the other end, if that changes too.
    pub(super) peer_port: Option<u16>,
}

/// An IP packet in a frame, or in an ICMP error.
struct Packet {
    ip_at: usize,
    is_v4: bool,
    protocol: u8,
    /// Of the transport header; `None`: a later fragment.
    l4_at: Option<usize>,
    marks: Marks,
    /// Behind the last byte that counts.
    end: usize,
}

/// The packet itself.
pub(super) fn packet(bytes: &mut [u8], ip: &Ip, l4: &L4, change: &Change) {
    outer(ip, l4).translate(bytes, change);
}

/// An ICMP error: its own end becomes `teller`; what it quotes went the other way, so its opposite end changes; and the
/// checksum over that.
pub(super) fn error(bytes: &mut [u8], ip: &Ip, l4: &L4, change: &Change, teller: IpAddr) {
    let Some(quoted) = l4.quoted else {
        return;
    };
    let before = bytes.to_vec();
    let inner = Packet {
        ip_at: quoted.ip_at,
        is_v4: ip.source.is_ipv4(),
        protocol: quoted.ends.protocol,
        l4_at: (!quoted.is_later_fragment()).then_some(quoted.l4_at),
        marks: quoted.ends.marks,
        end: ip.end,
    };
    let of_quoted = Change {
        end: change.end.other(),
        ..*change
    };
    inner.translate(bytes, &of_quoted);
    let checksum_at = ip.l4_at + 2;
    for at in (ip.l4_at + ICMP_LEN..ip.end).step_by(2) {
        let (old, new) = (padded16(&before, at, ip.end), padded16(bytes, at, ip.end));
        if old != new
            && let Some(sum) = be16(bytes, checksum_at)
        {
            put16(bytes, checksum_at, update(sum, old, new));
        }
    }
    let outer = Packet {
        marks: Marks::None,
        ..outer(ip, l4)
    };
    let of_error = Change {
        to: (teller, 0),
        peer_port: None,
        ..*change
    };
    outer.translate(bytes, &of_error);
}

/// A word of a sum: behind the end there are zeros.
fn padded16(bytes: &[u8], at: usize, end: usize) -> u16 {
    let byte = |at: usize| bytes.get(at).copied().filter(|_| at < end).unwrap_or(0);
    u16::from_be_bytes([byte(at), byte(at + 1)])
}

fn outer(ip: &Ip, l4: &L4) -> Packet {
    Packet {
        ip_at: IP_AT,
        is_v4: ip.source.is_ipv4(),
        protocol: l4.ends.protocol,
        l4_at: (!ip.is_later_fragment()).then_some(ip.l4_at),
        marks: l4.ends.marks,
        end: ip.end,
    }
}

impl Packet {
    fn translate(&self, bytes: &mut [u8], change: &Change) {
        let (end, (addr, port)) = (change.end, change.to);
        let mut sum = self.checksum(bytes);
        self.put_addr(bytes, end, addr, &mut sum);
        self.put_port(bytes, end, port, &mut sum);
        if let Some(port) = change.peer_port {
            self.put_port(bytes, end.other(), port, &mut sum);
        }
        let Some((at, sum)) = sum else {
            return;
        };
        let sum = match sum {
            0 if has_no_zero_sum(self.protocol) => 0xffff,
            sum => sum,
        };
        put16(bytes, at, sum);
    }

    /// Place and value of the transport checksum, where there is one.
    fn checksum(&self, bytes: &[u8]) -> Option<(usize, u16)> {
        let at = self.l4_at? + checksum_offset(self.protocol, self.is_v4)?;
        let sum = be16(bytes, at).filter(|_| at + 2 <= self.end)?;
        let is_none = has_no_zero_sum(self.protocol) && sum == 0;
        (!is_none).then_some((at, sum))
    }

    fn put_addr(&self, bytes: &mut [u8], end: End, addr: IpAddr, sum: &mut Option<(usize, u16)>) {
        let (at, octets) = match (addr, end) {
            (IpAddr::V4(addr), End::Source) => (self.ip_at + 12, addr.octets().to_vec()),
            (IpAddr::V4(addr), End::Destination) => (self.ip_at + 16, addr.octets().to_vec()),
            (IpAddr::V6(addr), End::Source) => (self.ip_at + 8, addr.octets().to_vec()),
            (IpAddr::V6(addr), End::Destination) => (self.ip_at + 24, addr.octets().to_vec()),
        };
        if addr.is_ipv4() != self.is_v4 {
            return;
        }
        // ICMP over IPv4 has no pseudo header.
        let is_in_sum = !(self.is_v4 && self.protocol == protocol::ICMP);
        let header_sum_at = self.ip_at + 10;
        let (words, _) = octets.as_chunks::<2>();
        for (i, word) in words.iter().enumerate() {
            let new = u16::from_be_bytes(*word);
            let Some(old) = be16(bytes, at + 2 * i) else {
                return;
            };
            if self.is_v4
                && let Some(header_sum) = be16(bytes, header_sum_at)
            {
                put16(bytes, header_sum_at, update(header_sum, old, new));
            }
            if is_in_sum && let Some((_, sum)) = sum {
                *sum = update(*sum, old, new);
            }
        }
        put(bytes, at, &octets);
    }

    fn put_port(&self, bytes: &mut [u8], end: End, new: u16, sum: &mut Option<(usize, u16)>) {
        let Some(l4_at) = self.l4_at else {
            return;
        };
        let at = match (self.marks, end) {
            (Marks::Ports { .. }, End::Source) => l4_at,
            (Marks::Ports { .. }, End::Destination) => l4_at + 2,
            (Marks::Query { .. }, _) => l4_at + 4,
            (Marks::None | Marks::Message, _) => return,
        };
        let Some(old) = array(bytes, at).map(u16::from_be_bytes) else {
            return;
        };
        put16(bytes, at, new);
        if let Some((_, sum)) = sum {
            *sum = update(*sum, old, new);
        }
    }
}
