//! Later fragments of datagrams whose first one was sent: before it, after it, over it, or much later.

use overlane_pipeline::{Entry, Packet};
use overlane_wire::checksum::checksum;

use super::{Arrival, Conversations};
use crate::random::Random;

const FRAGMENT: u8 = 44;
const MORE_AND_OFFSET: u16 = 0x3fff;

impl Conversations<'_> {
    /// Another fragment of a datagram that somebody sends in fragments.
    pub(super) fn go_on(&self, random: &mut Random) -> Option<(Entry, Packet)> {
        let is_fragment = |arrival: &&Arrival| self.fragment_field(arrival).is_some();
        let sent: Vec<&Arrival> = self.said.iter().filter(is_fragment).collect();
        let arrival = random.pick(&sent)?;
        let field = self.fragment_field(arrival)?;
        let mut packet = arrival.packet.clone();
        let units = random.of([0u16, 1, 1, 2, 2, 3, 5, 185]);
        let more = random.percent(50);
        let bytes = &mut packet.bytes;
        match field {
            Field::Ipv4 { ip_at } => {
                let value = units | u16::from(more) << 13;
                put16(bytes, ip_at + 6, value);
                put16(bytes, ip_at + 10, 0);
                let len = usize::from(bytes.get(ip_at)? & 0xf) * 4;
                let sum = checksum(bytes.get(ip_at..ip_at + len)?);
                put16(bytes, ip_at + 10, sum);
            }
            Field::Ipv6 { header_at } => {
                put16(bytes, header_at + 2, units << 3 | u16::from(more));
            }
        }
        if random.percent(10) {
            super::super::mutate(random, &mut packet);
        }
        Some((arrival.entry.clone(), packet))
    }

    /// Where the inner IP packet says what part it is, if it is a fragment.
    fn fragment_field(&self, arrival: &Arrival) -> Option<Field> {
        let bytes = &arrival.packet.bytes;
        let is_tunnelled = arrival.entry == Entry::Underlay && arrival.packet.tag.is_none();
        let eth_at = if is_tunnelled {
            self.inner_at(bytes)?
        } else {
            0
        };
        let ip_at = eth_at + 14;
        match [*bytes.get(ip_at - 2)?, *bytes.get(ip_at - 1)?] {
            [0x08, 0x00] => {
                let field = u16::from_be_bytes([*bytes.get(ip_at + 6)?, *bytes.get(ip_at + 7)?]);
                (field & MORE_AND_OFFSET != 0).then_some(Field::Ipv4 { ip_at })
            }
            [0x86, 0xdd] => {
                let header_at = ip_at + 40;
                let is_one = *bytes.get(ip_at + 6)? == FRAGMENT && bytes.len() >= header_at + 8;
                is_one.then_some(Field::Ipv6 { header_at })
            }
            _ => None,
        }
    }
}

/// What says the part.
enum Field {
    Ipv4 { ip_at: usize },
    Ipv6 { header_at: usize },
}

fn put16(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}
