//! One function for each header: what is there is written down field by field, then what follows it.

use std::net::{Ipv4Addr, Ipv6Addr};

use overlane_wire::{Mac, VlanTag};

use crate::compose::letters;
use crate::layers::{
    Arp, ArpOp, Eth, Ext6, Ext6Kind, Geneve, GeneveOption, Icmp, Ip4, Ip6, Layer, Na, Ns, Ovn,
    Payload, Ra, Redirect, Rs, Tag, Tcp, Udp, Vxlan,
};
use crate::values::{Hex, MacText};

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) << 16 | u32::from(u16_at(bytes, at + 2))
}

fn mac_at(bytes: &[u8], at: usize) -> Option<MacText> {
    let mac: [u8; 6] = bytes.get(at..at + 6)?.try_into().ok()?;
    Some(MacText(Mac::new(mac)))
}

fn v4_at(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    let addr: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(addr.into())
}

fn v6_at(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    let addr: [u8; 16] = bytes.get(at..at + 16)?.try_into().ok()?;
    Some(addr.into())
}

fn hex(bytes: &[u8]) -> Option<Hex> {
    (!bytes.is_empty()).then(|| Hex(bytes.to_vec()))
}

pub(super) fn ethernet(bytes: &[u8], layers: &mut Vec<Layer>) {
    if bytes.len() < 14 {
        return payload(bytes, layers);
    }
    let kind = u16_at(bytes, 12);
    layers.push(Layer::Eth(Eth {
        dst: mac_at(bytes, 0),
        src: mac_at(bytes, 6),
        kind: Some(kind),
    }));
    typed(kind, &bytes[14..], layers);
}

fn typed(kind: u16, bytes: &[u8], layers: &mut Vec<Layer>) {
    match kind {
        0x8100 | 0x88a8 if bytes.len() >= 4 => {
            let tag = VlanTag::from_tci(u16_at(bytes, 0));
            let next = u16_at(bytes, 2);
            layers.push(Layer::Vlan(Tag {
                id: Some(tag.vid()),
                pcp: Some(tag.pcp()),
                dei: Some(tag.dei()),
                tpid: Some(kind),
                kind: Some(next),
            }));
            typed(next, &bytes[4..], layers);
        }
        0x0800 if bytes.len() >= 20 => ipv4(bytes, layers),
        0x86dd if bytes.len() >= 40 => ipv6(bytes, layers),
        0x0806 if bytes.len() >= 28 => arp(bytes, layers),
        _ => payload(bytes, layers),
    }
}

fn arp(bytes: &[u8], layers: &mut Vec<Layer>) {
    layers.push(Layer::Arp(Arp {
        htype: Some(u16_at(bytes, 0)),
        ptype: Some(u16_at(bytes, 2)),
        hlen: Some(bytes[4]),
        plen: Some(bytes[5]),
        op: Some(match u16_at(bytes, 6) {
            1 => ArpOp::Request,
            2 => ArpOp::Reply,
            other => ArpOp::Number(other),
        }),
        sha: mac_at(bytes, 8),
        spa: v4_at(bytes, 14),
        tha: mac_at(bytes, 18),
        tpa: v4_at(bytes, 24),
    }));
    payload(&bytes[28..], layers);
}

/// What an IP header with this length says is behind it, and whether zeros follow that.
fn padded(bytes: &[u8], length: usize) -> (&[u8], bool) {
    match bytes.get(length..) {
        Some(rest) if !rest.is_empty() && rest.iter().all(|byte| *byte == 0) => {
            (&bytes[..length], true)
        }
        _ => (bytes, false),
    }
}

/// Padding is written as such where it ends the packet, in whichever frame it stands.
fn pad(bytes: &[u8], is_padded: bool, layers: &mut Vec<Layer>) {
    if is_padded && !matches!(layers.last(), Some(Layer::Pad(_))) {
        // The layers before take as many bytes as they do without the padding.
        let before = crate::compose::compose(layers).map_or(0, |packet| packet.bytes.len());
        layers.push(Layer::Pad(before + bytes.len()));
    }
}

fn ipv4(bytes: &[u8], layers: &mut Vec<Layer>) {
    let total = usize::from(u16_at(bytes, 2));
    let (packet, is_padded) = if total >= 20 {
        padded(bytes, total)
    } else {
        (bytes, false)
    };
    let claimed = usize::from(bytes[0] & 0x0f) * 4;
    let header = if (20..=packet.len()).contains(&claimed) {
        claimed
    } else {
        20
    };
    let flags = bytes[6];
    let offset = u16_at(bytes, 6) & 0x1fff;
    layers.push(Layer::Ip4(Ip4 {
        version: Some(bytes[0] >> 4),
        ihl: Some(bytes[0] & 0x0f),
        dscp: Some(bytes[1] >> 2),
        ecn: Some(bytes[1] & 3),
        total_len: Some(u16_at(bytes, 2)),
        id: Some(u16_at(bytes, 4)),
        reserved: Some(flags & 0x80 != 0),
        df: Some(flags & 0x40 != 0),
        mf: Some(flags & 0x20 != 0),
        offset: Some(offset),
        ttl: Some(bytes[8]),
        protocol: Some(bytes[9]),
        checksum: Some(u16_at(bytes, 10)),
        src: v4_at(bytes, 12),
        dst: v4_at(bytes, 16),
        options: hex(&packet[20..header]),
    }));
    let protocol = if offset == 0 { bytes[9] } else { NOTHING };
    upper(protocol, &packet[header..], layers);
    pad(&bytes[packet.len()..], is_padded, layers);
}

/// No header follows.
const NOTHING: u8 = 59;

fn ipv6(bytes: &[u8], layers: &mut Vec<Layer>) {
    let (packet, is_padded) = padded(bytes, 40 + usize::from(u16_at(bytes, 4)));
    let class = (u16_at(bytes, 0) >> 4) as u8;
    layers.push(Layer::Ip6(Ip6 {
        version: Some(bytes[0] >> 4),
        dscp: Some(class >> 2),
        ecn: Some(class & 3),
        flow_label: Some(u32_at(bytes, 0) & 0x000f_ffff),
        payload_len: Some(u16_at(bytes, 4)),
        next: Some(bytes[6]),
        hop_limit: Some(bytes[7]),
        src: v6_at(bytes, 8),
        dst: v6_at(bytes, 24),
    }));
    upper(bytes[6], &packet[40..], layers);
    pad(&bytes[packet.len()..], is_padded, layers);
}

fn upper(protocol: u8, bytes: &[u8], layers: &mut Vec<Layer>) {
    let extension = Ext6Kind::from_number(protocol)
        .filter(|_| matches!(layers.last(), Some(Layer::Ip6(_) | Layer::Ext6(_))));
    match (protocol, extension) {
        (_, Some(kind)) if bytes.len() >= 8 => extended(kind, bytes, layers),
        (1, _) if bytes.len() >= 8 => {
            layers.push(Layer::Icmp4(icmp(bytes)));
            payload(&bytes[8..], layers);
        }
        (6, _) if bytes.len() >= 20 => tcp(bytes, layers),
        (17, _) if bytes.len() >= 8 => udp(bytes, layers),
        (58, _) if bytes.len() >= 8 => icmpv6(bytes, layers),
        _ => payload(bytes, layers),
    }
}

fn extended(kind: Ext6Kind, bytes: &[u8], layers: &mut Vec<Layer>) {
    let next = bytes[0];
    if kind == Ext6Kind::Fragment {
        let place = u16_at(bytes, 2);
        layers.push(Layer::Ext6(Ext6 {
            kind: Some(kind),
            next: Some(next),
            len: Some(bytes[1]),
            offset: Some(place >> 3),
            more: Some(place & 1 != 0),
            id: Some(u32_at(bytes, 4)),
            data: None,
        }));
        let next = if place >> 3 == 0 { next } else { NOTHING };
        return upper(next, &bytes[8..], layers);
    }
    let claimed = (usize::from(bytes[1]) + 1) * 8;
    let whole = claimed <= bytes.len();
    let length = if whole { claimed } else { 8 };
    layers.push(Layer::Ext6(Ext6 {
        kind: Some(kind),
        next: Some(next),
        len: Some(bytes[1]),
        data: hex(&bytes[2..length]),
        ..Ext6::default()
    }));
    upper(if whole { next } else { NOTHING }, &bytes[length..], layers);
}

fn icmp(bytes: &[u8]) -> Icmp {
    Icmp {
        kind: Some(bytes[0]),
        code: Some(bytes[1]),
        checksum: Some(u16_at(bytes, 2)),
        rest: Some(u32_at(bytes, 4)),
    }
}

/// A link-layer address option at the start of the options, and those behind it.
fn options(kind: u8, bytes: &[u8]) -> (Option<MacText>, Option<Hex>) {
    match bytes {
        [first, 1, _, _, _, _, _, _, rest @ ..] if *first == kind => (mac_at(bytes, 2), hex(rest)),
        _ => (None, hex(bytes)),
    }
}

fn icmpv6(bytes: &[u8], layers: &mut Vec<Layer>) {
    layers.push(match bytes[0] {
        133 | 135 | 137 if bytes.len() >= nd_len(bytes[0]) => asking(bytes),
        134 if bytes.len() >= nd_len(134) => router(bytes),
        136 if bytes.len() >= nd_len(136) => advertisement(bytes),
        _ => {
            layers.push(Layer::Icmp6(icmp(bytes)));
            return payload(&bytes[8..], layers);
        }
    });
}

/// Length of the fixed part of a message, options begin there.
const fn nd_len(kind: u8) -> usize {
    match kind {
        133 => 8,
        134 => 16,
        137 => 40,
        _ => 24,
    }
}

fn asking(bytes: &[u8]) -> Layer {
    let (code, checksum) = (Some(bytes[1]), Some(u16_at(bytes, 2)));
    let reserved = Some(u32_at(bytes, 4));
    let behind = &bytes[nd_len(bytes[0])..];
    let (slla, options_1) = options(1, behind);
    match bytes[0] {
        133 => Layer::Rs(Rs {
            slla,
            options: options_1,
            reserved,
            code,
            checksum,
        }),
        135 => Layer::Ns(Ns {
            target: v6_at(bytes, 8),
            slla,
            options: options_1,
            reserved,
            code,
            checksum,
        }),
        _ => {
            let (tlla, options) = options(2, behind);
            Layer::Redirect(Redirect {
                target: v6_at(bytes, 8),
                destination: v6_at(bytes, 24),
                tlla,
                options,
                reserved,
                code,
                checksum,
            })
        }
    }
}

fn router(bytes: &[u8]) -> Layer {
    let (slla, options) = options(1, &bytes[nd_len(134)..]);
    Layer::Ra(Ra {
        hop_limit: Some(bytes[4]),
        flags: Some(bytes[5]),
        lifetime: Some(u16_at(bytes, 6)),
        reachable: Some(u32_at(bytes, 8)),
        retrans: Some(u32_at(bytes, 12)),
        slla,
        options,
        code: Some(bytes[1]),
        checksum: Some(u16_at(bytes, 2)),
    })
}

fn advertisement(bytes: &[u8]) -> Layer {
    let (tlla, options) = options(2, &bytes[nd_len(136)..]);
    let set = [('R', 1 << 31), ('S', 1 << 30), ('O', 1 << 29)];
    let set = set
        .into_iter()
        .filter(|(_, bit)| u32_at(bytes, 4) & bit != 0);
    Layer::Na(Na {
        target: v6_at(bytes, 8),
        flags: Some(set.map(|(letter, _)| letter).collect()),
        reserved: Some(u32_at(bytes, 4) & 0x1fff_ffff),
        tlla,
        options,
        code: Some(bytes[1]),
        checksum: Some(u16_at(bytes, 2)),
    })
}

fn tcp(bytes: &[u8], layers: &mut Vec<Layer>) {
    let claimed = usize::from(bytes[12] >> 4) * 4;
    let header = if (20..=bytes.len()).contains(&claimed) {
        claimed
    } else {
        20
    };
    layers.push(Layer::Tcp(Tcp {
        src: Some(u16_at(bytes, 0)),
        dst: Some(u16_at(bytes, 2)),
        seq: Some(u32_at(bytes, 4)),
        ack: Some(u32_at(bytes, 8)),
        data_offset: Some(bytes[12] >> 4),
        flags: Some(letters(bytes[13])),
        window: Some(u16_at(bytes, 14)),
        checksum: Some(u16_at(bytes, 16)),
        urgent: Some(u16_at(bytes, 18)),
        options: hex(&bytes[20..header]),
    }));
    payload(&bytes[header..], layers);
}

fn udp(bytes: &[u8], layers: &mut Vec<Layer>) {
    let port = u16_at(bytes, 2);
    layers.push(Layer::Udp(Udp {
        src: Some(u16_at(bytes, 0)),
        dst: Some(port),
        length: Some(u16_at(bytes, 4)),
        checksum: Some(u16_at(bytes, 6)),
    }));
    match (port, &bytes[8..]) {
        (4789, inner) if inner.len() >= 8 => vxlan(inner, layers),
        (6081, inner) if inner.len() >= 8 => geneve(inner, layers),
        (_, inner) => payload(inner, layers),
    }
}

fn vxlan(bytes: &[u8], layers: &mut Vec<Layer>) {
    layers.push(Layer::Vxlan(Vxlan {
        flags: Some(bytes[0]),
        reserved: Some(u32_at(bytes, 0) & 0x00ff_ffff),
        vni: Some(u32_at(bytes, 4) >> 8),
        reserved2: Some(bytes[7]),
    }));
    ethernet(&bytes[8..], layers);
}

fn geneve(bytes: &[u8], layers: &mut Vec<Layer>) {
    let opt_len = bytes[0] & 0x3f;
    let claimed = 8 + usize::from(opt_len) * 4;
    let end = if claimed <= bytes.len() { claimed } else { 8 };
    let protocol = u16_at(bytes, 2);
    let options = geneve_options(&bytes[8..end]);
    let (options, rest) = match options {
        Some(options) => (options, end),
        None => (Vec::new(), 8),
    };
    layers.push(Layer::Geneve(Geneve {
        version: Some(bytes[0] >> 6),
        opt_len: Some(opt_len),
        oam: Some(bytes[1] & 0x80 != 0),
        critical: Some(bytes[1] & 0x40 != 0),
        reserved: Some(bytes[1] & 0x3f),
        protocol: Some(protocol),
        vni: Some(u32_at(bytes, 4) >> 8),
        reserved2: Some(bytes[7]),
        options: Some(options),
    }));
    if rest == end && claimed == end {
        ethernet(&bytes[rest..], layers);
    } else {
        payload(&bytes[rest..], layers);
    }
}

/// None where lengths do not add up.
fn geneve_options(mut bytes: &[u8]) -> Option<Vec<GeneveOption>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let length = 4 + usize::from(bytes.get(3)? & 0x1f) * 4;
        let data = bytes.get(4..length)?;
        let reserved = Some(bytes[3] >> 5).filter(|bits| *bits != 0);
        found.push(match (u16_at(bytes, 0), bytes[2], data) {
            (0x0102, 0x80, [a, b, c, d]) => GeneveOption {
                ovn: Some(Ovn {
                    from: Some(u16::from_be_bytes([*a, *b])),
                    to: Some(u16::from_be_bytes([*c, *d])),
                }),
                reserved,
                ..GeneveOption::default()
            },
            (class, kind, data) => GeneveOption {
                class: Some(class),
                kind: Some(kind),
                data: hex(data),
                reserved,
                ..GeneveOption::default()
            },
        });
        bytes = &bytes[length..];
    }
    Some(found)
}

fn payload(bytes: &[u8], layers: &mut Vec<Layer>) {
    if bytes.is_empty() {
        return;
    }
    let counts = bytes.iter().enumerate().all(|(at, byte)| *byte == at as u8);
    let text = std::str::from_utf8(bytes).ok();
    let text = text.filter(|text| text.chars().all(|c| c.is_ascii_graphic() || c == ' '));
    layers.push(Layer::Payload(match text {
        _ if counts => Payload {
            size: Some(bytes.len()),
            ..Payload::default()
        },
        Some(text) => Payload {
            text: Some(text.to_owned()),
            ..Payload::default()
        },
        None => Payload {
            hex: hex(bytes),
            ..Payload::default()
        },
    }));
}
