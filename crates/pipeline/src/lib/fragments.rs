//! The first fragments that passed a port, or a router that translates, so that later ones are known by them. Map
//! `fragments` of `bpf/lib/abi_firewall.h`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use overlane_model::Verdict;

use crate::lib::frame::Frame;
use crate::lib::ip::{Fragment, Ip, is_extension, mapped};
use crate::lib::key::{Sender, Zone};
use crate::lib::l4::{Ends, L4, Marks, has_marks, transport_len};
use crate::lib::time::SECOND_NS;

/// Of a port.
const PORT_PLACES: u32 = 64;
/// Of each memory of a router.
const ROUTER_PLACES: u32 = 2048;
const REMEMBERED_S: u64 = 30;

/// What is remembered of first fragments, by memory and place.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Fragments(BTreeMap<(Memory, u32), First>);

/// Where first fragments are remembered. A router that translates remembers what goes out and what comes in apart, and
/// each as it came and as it goes on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Memory {
    zone: Zone,
    part: u32,
}

impl Memory {
    /// Of a port, whatever way the fragment goes.
    pub(crate) fn of_port(zone: Zone) -> Self {
        Self { zone, part: 0 }
    }

    /// Of a router: how fragments of this sender came.
    pub(crate) fn before_nat(zone: Zone, sender: Sender) -> Self {
        let part = match sender {
            Sender::Local => 0,
            Sender::Peer => 2,
        };
        Self { zone, part }
    }

    /// How they went on.
    pub(crate) fn behind_nat(zone: Zone, sender: Sender) -> Self {
        let Self { zone, part } = Self::before_nat(zone, sender);
        Self {
            zone,
            part: part + 1,
        }
    }

    fn places(self) -> u32 {
        match self.zone {
            Zone::Port(..) => PORT_PLACES,
            Zone::Router(_) => ROUTER_PLACES,
        }
    }
}

/// What is known of a later fragment.
pub(crate) enum Recalled {
    /// Its first one.
    First(First),
    /// It cannot be of the datagram of its first one.
    Refused(Verdict, &'static str),
    /// Nothing, and its first one would show more.
    Unknown,
    /// Nothing but what it says itself; its first one says no more.
    Portless,
}

/// A first fragment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct First {
    seen_ns: u64,
    identification: u32,
    /// Over IPv4 its protocol, which is part of what tells datagrams apart; over IPv6 the next header, which is not
    /// (RFC 8200 section 4.5).
    next: u8,
    /// Where its transport header ends, in bytes of the datagram.
    l4_end: usize,
    pub(crate) ends: Ends,
    pub(crate) icmp: Option<(u8, u8)>,
}

impl Recalled {
    /// Nobody remembers its first one.
    pub(crate) fn nothing(later: &Fragment, ends: &Ends) -> Self {
        let is_v6 = ends.source.is_ipv6();
        match has_marks(ends.protocol, is_v6) || (is_v6 && is_extension(later.next)) {
            true => Self::Unknown,
            false => Self::Portless,
        }
    }
}

impl Fragments {
    pub(crate) fn recall(
        &self,
        memory: Memory,
        later: &Fragment,
        ends: &Ends,
        now_ns: u64,
    ) -> Recalled {
        match self.find(memory, later, ends, now_ns) {
            Some(first) if later.next != first.next => Recalled::Refused(
                Verdict::FragmentUnknown,
                "a later fragment names another header than its first one",
            ),
            Some(first) if later.offset < first.l4_end => Recalled::Refused(
                Verdict::FragmentOverlap,
                "a later fragment lies over the transport header of its first one",
            ),
            Some(first) => Recalled::First(first.clone()),
            None => Recalled::nothing(later, ends),
        }
    }

    /// The first fragment of the same datagram, unless it was too long ago.
    fn find(&self, memory: Memory, later: &Fragment, ends: &Ends, now_ns: u64) -> Option<&First> {
        let first = self.0.get(&(memory, place(memory, later, ends)))?;
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
        memory: Memory,
        fragment: &Fragment,
        mut first: First,
        now_ns: u64,
    ) {
        // Of the same datagram: its receiver may keep either.
        if let Some(earlier) = self.find(memory, fragment, &first.ends, now_ns) {
            first.l4_end = first.l4_end.max(earlier.l4_end);
        }
        let place = place(memory, fragment, &first.ends);
        self.0.insert((memory, place), first);
    }
}

fn place(memory: Memory, fragment: &Fragment, ends: &Ends) -> u32 {
    let words = fold(ends.source) ^ fold(ends.destination);
    fragment.identification.wrapping_add(words) % memory.places()
}

fn fold(addr: IpAddr) -> u32 {
    let octets = mapped(addr).octets();
    let (words, _) = octets.as_chunks::<4>();
    words
        .iter()
        .fold(0, |sum, word| sum ^ u32::from_le_bytes(*word))
}

impl First {
    pub(crate) fn new(
        frame: &Frame<'_>,
        ip: &Ip,
        fragment: &Fragment,
        l4: &L4,
        now_ns: u64,
    ) -> Self {
        let header_len = transport_len(frame, ip).unwrap_or(0);
        Self {
            seen_ns: now_ns,
            identification: fragment.identification,
            next: fragment.next,
            l4_end: (ip.l4_at + header_len).saturating_sub(fragment.begin),
            ends: l4.ends,
            icmp: l4.icmp,
        }
    }

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
    use overlane_model::{RouterId, SwitchId};
    use overlane_wire::PortKey;

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
        let port = Memory::of_port(Zone::Port(
            SwitchId::from_number(1).unwrap(),
            PortKey::new(1).unwrap(),
        ));
        assert_eq!(place(port, &fragment(0), &four), 1);
        assert_eq!(place(port, &fragment(63), &four), 0);
        assert_eq!(place(port, &fragment(u32::MAX), &four), 0);
        let six = ends("2001:2::2100:0", "2001:2::");
        assert_eq!(place(port, &fragment(2), &six), 0x23);
        let router = Memory::behind_nat(Zone::Router(RouterId::new(1).unwrap()), Sender::Peer);
        assert_eq!(place(router, &fragment(2047), &four), 0);
        assert_eq!(place(router, &fragment(63), &four), 64);
    }
}
