//! The first fragments that passed, so that later ones are known by them. Map `fragments` of
//! `bpf/lib/abi_firewall.h`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::key::Zone;
use crate::parse::{Ends, Fragment, L4, Marks, mapped};
use crate::state::SECOND_NS;

/// Of one zone.
const PLACES: u32 = 64;
const REMEMBERED_S: u64 = 30;

/// What is remembered of first fragments, by zone and place.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Fragments(BTreeMap<(Zone, u32), First>);

/// A first fragment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct First {
    seen_ns: u64,
    identification: u32,
    /// Over IPv4 its protocol, which is part of what tells datagrams apart; over IPv6 the next header, which is not
    /// (RFC 8200 section 4.5).
    pub(crate) next: u8,
    /// Where its transport header ends, in bytes of the datagram.
    pub(crate) l4_end: usize,
    pub(crate) ends: Ends,
    pub(crate) icmp: Option<(u8, u8)>,
}

impl Fragments {
    /// The first fragment of the same datagram, unless it was too long ago.
    pub(crate) fn find(
        &self,
        zone: Zone,
        later: &Fragment,
        ends: &Ends,
        now_ns: u64,
    ) -> Option<&First> {
        let first = self.0.get(&(zone, place(later, ends)))?;
        let is_same = (first.ends.source, first.ends.destination)
            == (ends.source, ends.destination)
            && first.identification == later.identification
            && (ends.source.is_ipv6() || first.next == later.next);
        let is_old = now_ns.saturating_sub(first.seen_ns) > REMEMBERED_S * SECOND_NS;
        Some(first).filter(|_| is_same && !is_old)
    }

    /// It takes the place of an older one.
    pub(crate) fn remember(
        &mut self,
        zone: Zone,
        fragment: &Fragment,
        l4: &L4,
        l4_end: usize,
        now_ns: u64,
    ) {
        // Of the same datagram: its receiver may keep either.
        let earlier = self.find(zone, fragment, &l4.ends, now_ns);
        let l4_end = earlier.map_or(l4_end, |earlier| l4_end.max(earlier.l4_end));
        let first = First {
            seen_ns: now_ns,
            identification: fragment.identification,
            next: fragment.next,
            l4_end,
            ends: l4.ends,
            icmp: l4.icmp,
        };
        self.0.insert((zone, place(fragment, &l4.ends)), first);
    }
}

fn place(fragment: &Fragment, ends: &Ends) -> u32 {
    let words = fold(ends.source) ^ fold(ends.destination);
    fragment.identification.wrapping_add(words) % PLACES
}

fn fold(addr: IpAddr) -> u32 {
    let octets = mapped(addr).octets();
    let (words, _) = octets.as_chunks::<4>();
    words
        .iter()
        .fold(0, |sum, word| sum ^ u32::from_le_bytes(*word))
}

impl First {
    /// For an explanation.
    pub(crate) fn describe(&self) -> String {
        match (self.ends.marks, self.icmp) {
            (
                Marks::Ports {
                    source,
                    destination,
                },
                _,
            ) => format!("was from port {source} to port {destination}"),
            (_, Some((kind, code))) => format!("was ICMP type {kind} code {code}"),
            _ => format!("was of protocol {}", self.ends.protocol),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(identification: u32) -> Fragment {
        Fragment {
            identification,
            offset: 0,
            next: 17,
            begin: 34,
        }
    }

    fn ends(source: &str, destination: &str) -> Ends {
        Ends {
            protocol: 17,
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            marks: Marks::None,
        }
    }

    #[test]
    fn a_place_is_of_the_identification_and_both_addresses() {
        // Words of both families are little-endian: of these, the first byte of the last word counts.
        let four = ends("10.0.0.1", "11.0.0.2");
        assert_eq!(place(&fragment(0), &four), 1);
        assert_eq!(place(&fragment(63), &four), 0);
        assert_eq!(place(&fragment(u32::MAX), &four), 0);
        let six = ends("2001:2::2100:0", "2001:2::");
        assert_eq!(place(&fragment(2), &six), 0x23);
    }
}
