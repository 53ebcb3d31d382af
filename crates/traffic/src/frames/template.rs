//! What a frame looks like: made once per stream, the numbered header is written anew for each frame.
//!
//! ```text
//!  Ethernet 14 │ VLAN tag 4, if any │ IPv4 20 or IPv6 40 │ UDP 8 │ numbered header 16 │ zeros │ (FCS 4)
//! ```
//!
//! Over IPv4 the UDP checksum is 0, none (RFC 768). IPv6 needs one (RFC 8200 §8.1): the sum of what
//! never changes is kept.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::{TrafficError, in_range};
use crate::message::Lane;
use crate::sequence::{HEADER, Header};

use super::FCS_BYTES;

/// The discard service: nobody answers.
pub(super) const DESTINATION_PORT: u16 = crate::message::FRAME_PORT;
/// Source ports go round from here, so that each stream is a flow of its own.
const FIRST_SOURCE_PORT: u16 = 1024;

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;
const PROTOCOL_UDP: u8 = 17;

/// Smallest frame of Ethernet, with FCS.
const SMALLEST_FRAME: u32 = 64;
/// Largest frame: what an IPv4 packet can hold.
const LARGEST_FRAME: u32 = (ETHERNET + 65535 + FCS_BYTES) as u32;

/// The bytes of a stream's frames.
pub(super) struct Template {
    bytes: Vec<u8>,
    /// Where the numbered header is.
    header_at: usize,
    /// Where the UDP checksum is and the sum of everything but the numbered header; IPv6 only.
    checksum: Option<(usize, u32)>,
}

/// Length of everything in front of the UDP payload, without tag.
pub(super) fn headers_bytes(ipv4: bool) -> usize {
    ETHERNET + if ipv4 { IPV4 } else { IPV6 } + UDP
}

/// Whether a frame has room for its headers; without a family: for those of IPv4.
pub(super) fn check_size(frame_bytes: u32, address: Option<IpAddr>) -> Result<(), TrafficError> {
    let ipv4 = address.is_none_or(|address| address.is_ipv4());
    let least = (headers_bytes(ipv4) + HEADER + FCS_BYTES) as u64;
    in_range(
        "frame_bytes",
        frame_bytes.into(),
        least.max(SMALLEST_FRAME.into()),
        LARGEST_FRAME.into(),
    )
}

impl Template {
    /// The frames of one stream.
    pub(super) fn new(
        lane: &Lane,
        vlan: Option<u16>,
        stream: u16,
        frame_bytes: u32,
    ) -> Result<Self, TrafficError> {
        check_size(frame_bytes, Some(lane.source))?;
        let frame_bytes = frame_bytes as usize - FCS_BYTES;
        let mut bytes = Vec::new();
        bytes.extend(mac("destination_mac", &lane.destination_mac)?);
        bytes.extend(mac("source_mac", &lane.source_mac)?);
        if let Some(vlan) = vlan {
            in_range("vlans", vlan.into(), 0, 4094)?;
            bytes.extend([0x8100, vlan].map(u16::to_be_bytes).concat());
        }
        let payload = vec![0; frame_bytes - headers_bytes(lane.source.is_ipv4())];
        let udp = udp_header(stream, payload.len());
        let mut checksum = None;
        match (lane.source, lane.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                bytes.extend(0x0800_u16.to_be_bytes());
                bytes.extend(ipv4_header(source, destination, UDP + payload.len()));
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                bytes.extend(0x86dd_u16.to_be_bytes());
                bytes.extend(ipv6_header(source, destination, UDP + payload.len()));
                // The pseudo-header (RFC 8200 §8.1): addresses, length, protocol. The payload is zeros.
                let fixed = sum(&source.octets())
                    + sum(&destination.octets())
                    + sum(&((UDP + payload.len()) as u32).to_be_bytes())
                    + u32::from(PROTOCOL_UDP)
                    + sum(&udp);
                checksum = Some((bytes.len() + 6, fixed));
            }
            _ => {
                return Err(TrafficError::Invalid {
                    what: "source",
                    value: lane.source.to_string(),
                    wanted: format!("of the same family as {}", lane.destination).into(),
                });
            }
        }
        bytes.extend(udp);
        let header_at = bytes.len();
        bytes.extend(payload);
        Ok(Self {
            bytes,
            header_at,
            checksum,
        })
    }

    /// All of a frame, numbered with zeros.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Length of the UDP payload.
    pub(super) fn payload_bytes(&self) -> usize {
        self.bytes.len() - self.header_at
    }

    /// Numbers a copy of the template, or of as much of its beginning as holds the numbered header.
    #[inline]
    pub(super) fn number(&self, frame: &mut [u8], header: Header) {
        let header = header.bytes();
        frame[self.header_at..self.header_at + HEADER].copy_from_slice(&header);
        if let Some((at, fixed)) = self.checksum {
            let checksum = match !fold(fixed + sum(&header)) {
                // Zero would mean that there is none (RFC 768).
                0 => 0xffff,
                checksum => checksum,
            };
            frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
        }
    }
}

fn udp_header(stream: u16, payload_bytes: usize) -> [u8; UDP] {
    let source = FIRST_SOURCE_PORT + stream % (u16::MAX - FIRST_SOURCE_PORT);
    let length = (UDP + payload_bytes) as u16;
    let mut header = [0; UDP];
    for (field, value) in [source, DESTINATION_PORT, length].into_iter().enumerate() {
        header[2 * field..2 * field + 2].copy_from_slice(&value.to_be_bytes());
    }
    header
}

fn ipv4_header(source: Ipv4Addr, destination: Ipv4Addr, content_bytes: usize) -> [u8; IPV4] {
    let mut header = [0; IPV4];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&((IPV4 + content_bytes) as u16).to_be_bytes());
    // Do not fragment: a network that would have to is to drop it.
    header[6] = 0x40;
    header[8] = 64;
    header[9] = PROTOCOL_UDP;
    header[12..16].copy_from_slice(&source.octets());
    header[16..].copy_from_slice(&destination.octets());
    let checksum = !fold(sum(&header));
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header
}

fn ipv6_header(source: Ipv6Addr, destination: Ipv6Addr, content_bytes: usize) -> [u8; IPV6] {
    let mut header = [0; IPV6];
    header[0] = 0x60;
    header[4..6].copy_from_slice(&(content_bytes as u16).to_be_bytes());
    header[6] = PROTOCOL_UDP;
    header[7] = 64;
    header[8..24].copy_from_slice(&source.octets());
    header[24..].copy_from_slice(&destination.octets());
    header
}

/// The sum of the 16-bit words (RFC 1071), not folded. For an even number of bytes, few enough not to overflow.
#[inline]
fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks_exact(2);
    words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum()
}

#[inline]
fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn mac(what: &'static str, text: &str) -> Result<[u8; 6], TrafficError> {
    let parse = || {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2)?;
            // from_str_radix takes a sign too.
            let hex = part.bytes().all(|digit| digit.is_ascii_hexdigit());
            *byte = u8::from_str_radix(part, 16).ok().filter(|_| hex)?;
        }
        parts.next().is_none().then_some(bytes)
    };
    parse().ok_or_else(|| TrafficError::Invalid {
        what,
        value: text.to_owned(),
        wanted: "a MAC address like 02:00:00:00:00:01".into(),
    })
}
