//! IPv4, IPv6 and its extension headers.

use overlane_wire::ipv6_extension::Extensions;
use overlane_wire::{Ecn, Emit, checksum, ipv4, ipv6};

use super::{Place, is_nd};
use crate::layers::{Ext6, Ext6Kind, Ip4, Ip6};

/// A packet too long for its length field is a super-packet that says 0 (BIG TCP).
fn length(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(0)
}

pub(super) fn v4(ip: &Ip4, place: &Place<'_>) -> Result<Vec<u8>, String> {
    let options = ip.options.clone().unwrap_or_default().0;
    let header = ipv4::Header {
        dscp: ip.dscp.unwrap_or(0),
        ecn: Ecn::from_bits(ip.ecn.unwrap_or(0)),
        total_len: 0,
        identification: ip.id.unwrap_or(0),
        dont_fragment: ip.df.unwrap_or(false),
        more_fragments: ip.mf.unwrap_or(false),
        fragment_offset: ip.offset.unwrap_or(0),
        ttl: ip.ttl.unwrap_or(64),
        protocol: ip.protocol.unwrap_or_else(|| place.protocol()),
        source: ip.src.unwrap_or([0; 4].into()),
        destination: ip.dst.unwrap_or([0; 4].into()),
        options: ipv4::Options::new(&options).map_err(|error| error.to_string())?,
    };
    let mut bytes = header.to_bytes();
    let total_len = length(bytes.len() + place.payload.len());
    bytes[2..4].copy_from_slice(&ip.total_len.unwrap_or(total_len).to_be_bytes());
    let ihl = ip.ihl.unwrap_or(bytes[0] & 0x0f);
    bytes[0] = ip.version.unwrap_or(4) << 4 | ihl & 0x0f;
    if ip.reserved == Some(true) {
        bytes[6] |= 0x80;
    }
    bytes[10..12].fill(0);
    let sum = ip.checksum.unwrap_or_else(|| checksum::checksum(&bytes));
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    Ok(bytes)
}

pub(super) fn v6(ip: &Ip6, place: &Place<'_>) -> Vec<u8> {
    let hop_limit = if place.next.is_some_and(is_nd) {
        255
    } else {
        64
    };
    let mut bytes = ipv6::Header {
        dscp: ip.dscp.unwrap_or(0),
        ecn: Ecn::from_bits(ip.ecn.unwrap_or(0)),
        flow_label: ip.flow_label.unwrap_or(0),
        payload_len: ip.payload_len.unwrap_or(length(place.payload.len())),
        hop_limit: ip.hop_limit.unwrap_or(hop_limit),
        source: ip.src.unwrap_or([0; 16].into()),
        destination: ip.dst.unwrap_or([0; 16].into()),
        extensions: Extensions::none(ip.next.unwrap_or_else(|| place.protocol())),
    }
    .to_bytes();
    if let Some(version) = ip.version {
        bytes[0] = version << 4 | bytes[0] & 0x0f;
    }
    bytes
}

pub(super) fn extension(extension: &Ext6, place: &Place<'_>) -> Result<Vec<u8>, String> {
    let kind = extension.kind.ok_or("kind must be given")?;
    let next = extension.next.unwrap_or_else(|| place.protocol());
    let mut bytes = vec![next, 0];
    if kind == Ext6Kind::Fragment {
        let place = extension.offset.unwrap_or(0) << 3 | u16::from(extension.more == Some(true));
        bytes.extend(place.to_be_bytes());
        bytes.extend(extension.id.unwrap_or(0).to_be_bytes());
        bytes[1] = extension.len.unwrap_or(0); // reserved in this one (RFC 8200 section 4.5)
        return Ok(bytes);
    }
    bytes.extend(extension.data.clone().unwrap_or_default().0);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let units =
        u8::try_from(bytes.len() / 8 - 1).map_err(|_| "longer than its length field can say")?;
    bytes[1] = extension.len.unwrap_or(units);
    Ok(bytes)
}
