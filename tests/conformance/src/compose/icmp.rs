//! ICMP, ICMPv6 and neighbour discovery.

use overlane_wire::checksum::Sum;
use overlane_wire::ip::protocol;

use super::Place;
use crate::layers::{Icmp, Na, Ns, Ra, Redirect, Rs};
use crate::values::{Hex, MacText};

const ECHO_REQUEST: u8 = 8;
const ECHO_REQUEST_6: u8 = 128;
const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;

pub(super) fn v4(icmp: &Icmp, place: &Place<'_>) -> Vec<u8> {
    let mut bytes = vec![
        icmp.kind.unwrap_or(ECHO_REQUEST),
        icmp.code.unwrap_or(0),
        0,
        0,
    ];
    bytes.extend(icmp.rest.unwrap_or(0).to_be_bytes());
    let sum = Sum::new().bytes(&bytes).bytes(place.payload).finish();
    bytes[2..4].copy_from_slice(&icmp.checksum.unwrap_or(sum).to_be_bytes());
    bytes
}

pub(super) fn v6(icmp: &Icmp, place: &Place<'_>) -> Vec<u8> {
    Message {
        kind: icmp.kind.unwrap_or(ECHO_REQUEST_6),
        code: icmp.code,
        rest: icmp.rest.unwrap_or(0),
        body: &[],
        option: None,
        options: &None,
        checksum: icmp.checksum,
    }
    .bytes(place)
}

pub(super) fn solicitation(ns: &Ns, place: &Place<'_>) -> Vec<u8> {
    Message {
        kind: 135,
        code: ns.code,
        rest: ns.reserved.unwrap_or(0),
        body: &ns.target.map_or([0; 16], |target| target.octets()),
        option: ns.slla.map(|mac| (SOURCE_LINK_LAYER, mac)),
        options: &ns.options,
        checksum: ns.checksum,
    }
    .bytes(place)
}

pub(super) fn advertisement(na: &Na, place: &Place<'_>) -> Result<Vec<u8>, String> {
    let mut flags = 0;
    for letter in na.flags.iter().flat_map(|flags| flags.chars()) {
        flags |= match letter {
            'R' => 1 << 31,
            'S' => 1 << 30,
            'O' => 1 << 29,
            _ => {
                return Err(format!(
                    "no flag of an advertisement has the letter `{letter}`"
                ));
            }
        };
    }
    let message = Message {
        kind: 136,
        code: na.code,
        rest: flags | na.reserved.unwrap_or(0),
        body: &na.target.map_or([0; 16], |target| target.octets()),
        option: na.tlla.map(|mac| (TARGET_LINK_LAYER, mac)),
        options: &na.options,
        checksum: na.checksum,
    };
    Ok(message.bytes(place))
}

pub(super) fn router_solicitation(rs: &Rs, place: &Place<'_>) -> Vec<u8> {
    Message {
        kind: 133,
        code: rs.code,
        rest: rs.reserved.unwrap_or(0),
        body: &[],
        option: rs.slla.map(|mac| (SOURCE_LINK_LAYER, mac)),
        options: &rs.options,
        checksum: rs.checksum,
    }
    .bytes(place)
}

pub(super) fn router_advertisement(ra: &Ra, place: &Place<'_>) -> Vec<u8> {
    let mut timers = ra.reachable.unwrap_or(0).to_be_bytes().to_vec();
    timers.extend(ra.retrans.unwrap_or(0).to_be_bytes());
    let [high, low] = ra.lifetime.unwrap_or(1800).to_be_bytes();
    Message {
        kind: 134,
        code: ra.code,
        rest: u32::from_be_bytes([ra.hop_limit.unwrap_or(64), ra.flags.unwrap_or(0), high, low]),
        body: &timers,
        option: ra.slla.map(|mac| (SOURCE_LINK_LAYER, mac)),
        options: &ra.options,
        checksum: ra.checksum,
    }
    .bytes(place)
}

pub(super) fn redirect(redirect: &Redirect, place: &Place<'_>) -> Vec<u8> {
    let mut body = redirect
        .target
        .map_or([0; 16], |addr| addr.octets())
        .to_vec();
    body.extend(redirect.destination.map_or([0; 16], |addr| addr.octets()));
    Message {
        kind: 137,
        code: redirect.code,
        rest: redirect.reserved.unwrap_or(0),
        body: &body,
        option: redirect.tlla.map(|mac| (TARGET_LINK_LAYER, mac)),
        options: &redirect.options,
        checksum: redirect.checksum,
    }
    .bytes(place)
}

/// An ICMPv6 message.
struct Message<'a> {
    kind: u8,
    code: Option<u8>,
    rest: u32,
    body: &'a [u8],
    option: Option<(u8, MacText)>,
    options: &'a Option<Hex>,
    checksum: Option<u16>,
}

impl Message<'_> {
    fn bytes(&self, place: &Place<'_>) -> Vec<u8> {
        let mut bytes = vec![self.kind, self.code.unwrap_or(0), 0, 0];
        bytes.extend(self.rest.to_be_bytes());
        bytes.extend(self.body);
        if let Some((kind, mac)) = self.option {
            bytes.extend([kind, 1]);
            bytes.extend(mac.0.get());
        }
        bytes.extend(self.options.iter().flat_map(|options| &options.0));
        let length = bytes.len() + place.payload.len();
        let sum = Sum::new().bytes(&bytes).bytes(place.payload);
        let sum = match place.addresses() {
            Some((source, destination)) => {
                sum.pseudo_header(source, destination, protocol::ICMPV6, length)
            }
            None => sum,
        };
        bytes[2..4].copy_from_slice(&self.checksum.unwrap_or(sum.finish()).to_be_bytes());
        bytes
    }
}
