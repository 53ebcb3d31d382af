//! Neighbours that routers find: how often they ask, whom they believe, and how many they remember.

use std::net::IpAddr;

use overlane_model::SwitchId;
use overlane_model::Verdict::{self, *};
use overlane_pipeline::{FoundNeighbour, RouterSide, State};
use overlane_wire::{Mac, Vni};

use crate::net::*;

/// A station behind port sa, and who asks for it; with port security switched off, as both speak for others too.
const FABRIC: &str = "
version: 1
tunnel: { encapsulation: vxlan }
hosts:
  h1: { underlay: 198.18.0.1, uplink: eth1 }
  h2: { underlay: 198.18.0.2, uplink: eth1 }
switches:
  a: { vni: 1 }
  s: { vni: 2 }
ports:
  a1: { switch: a, host: h1, device: v1, mac: '02:00:00:00:00:11', key: 1, addresses: [198.18.1.1] }
  sa: { switch: s, host: h1, device: v2, mac: '02:00:00:00:00:21', key: 1, security: off }
  sb: { switch: s, host: h1, device: v3, mac: '02:00:00:00:00:22', key: 2, security: off }
routers:
  r1:
    mac: '02:00:00:00:00:fe'
    interfaces:
      a: [198.18.1.254/24]
      s: [198.19.0.1/16]
";
const SA: &str = "02:00:00:00:00:21";
const SB: &str = "02:00:00:00:00:22";
const STATION: &str = "198.19.0.77";
const ROUTER: &str = "198.19.0.1";

fn side() -> RouterSide {
    RouterSide::Switch(SwitchId::Vni(Vni::new(2).unwrap()))
}

fn known(state: &State) -> Option<FoundNeighbour> {
    let station: IpAddr = STATION.parse().unwrap();
    state.found().get(&(side(), station)).copied()
}

/// Of sa and of sb, those that spoke first among them.
fn counts(state: &State) -> [u32; 2] {
    let count = |key| state.found_counts().get(&(side(), key)).copied();
    let count = |key| count(key).unwrap_or_default();
    [1, 2].map(|key| count(key) + count(key | FoundNeighbour::UNASKED))
}

impl One {
    fn try_station(&mut self, ns: u64) -> Verdict {
        self.now_ns = ns;
        self.from("v1", to(STATION, UDP, b"12345678")).verdict
    }

    fn answers(&mut self, device: &str, mac: &str, addr: &str) -> Verdict {
        self.from(device, arp_reply(mac, addr, R1, ROUTER)).verdict
    }
}

#[test]
fn nobody_answers() {
    let mut h1 = host_of("h1", FABRIC);
    let mut verdict = |ns| h1.try_station(ns);
    let start = 5 * SECOND;
    for (asked, expected) in [(0, Resolving), (SECOND - 1, Resolving), (SECOND, Resolving)] {
        assert_eq!(verdict(start + asked), expected);
    }
    // The third question, and the second after it.
    assert_eq!(verdict(start + 2 * SECOND), Resolving);
    assert_eq!(verdict(start + 3 * SECOND - 1), Resolving);
    assert_eq!(verdict(start + 3 * SECOND), NoNeighbour);
    assert_eq!(verdict(start + 6 * SECOND - 1), NoNeighbour);
    assert_eq!(verdict(start + 6 * SECOND), Resolving);
    assert_eq!(verdict(start + 6 * SECOND + 1), Resolving);
    let asked: Vec<_> = h1.state.asked().values().map(|asked| asked.tries).collect();
    assert_eq!(asked, [1]);
}

#[test]
fn an_answer_ends_the_asking() {
    let mut h1 = host_of("h1", FABRIC);
    assert_eq!(h1.try_station(0), Resolving);
    assert_eq!(h1.answers("v2", SA, STATION), ToRouter);
    assert!(h1.state.asked().is_empty());
    assert_eq!(h1.try_station(1), ToPort);
    // Nobody asks a neighbour that is declared, or that cannot be there.
    for addr in ["198.18.1.77", ROUTER, "198.19.255.255", "0.0.0.0"] {
        assert_eq!(h1.answers("v2", SA, addr), ToRouter);
    }
    assert_eq!(h1.state.found().len(), 1);
}

#[test]
fn who_is_silent_is_asked_again_and_forgotten() {
    let mut h1 = host_of("h1", FABRIC);
    h1.answers("v2", SA, STATION);
    let outputs = |h1: &mut One, ns| {
        h1.now_ns = ns;
        let outcome = h1.from("v1", to(STATION, UDP, b"12345678"));
        outcome.outputs.len() + usize::from(!outcome.probe.is_empty())
    };
    let stale = 30 * SECOND;
    assert_eq!(outputs(&mut h1, stale - 1), 1);
    assert_eq!(outputs(&mut h1, stale), 2);
    assert_eq!(outputs(&mut h1, stale + 1), 1);
    assert_eq!(outputs(&mut h1, stale + SECOND), 2);
    assert_eq!(outputs(&mut h1, stale + 2 * SECOND), 2);
    assert_eq!(known(&h1.state).unwrap().tries, 3);
    assert_eq!(outputs(&mut h1, stale + 3 * SECOND - 1), 1);
    // Now everybody is asked: both ports of the switch.
    assert_eq!(outputs(&mut h1, stale + 3 * SECOND), 2);
    assert_eq!((known(&h1.state), counts(&h1.state)), (None, [0, 0]));
    // Who answers in time stays.
    h1.answers("v2", SA, STATION);
    let later = h1.now_ns + stale;
    assert_eq!(outputs(&mut h1, later), 2);
    h1.answers("v2", SA, STATION);
    assert_eq!(known(&h1.state).unwrap().confirmed_ns, h1.now_ns);
    assert_eq!(outputs(&mut h1, later + 1), 1);
}

#[test]
fn an_outcome_says_who_is_asked() {
    let mut h1 = host_of("h1", FABRIC);
    let station = (side(), STATION.parse().unwrap());
    let mut asked = |ns| {
        h1.now_ns = ns;
        h1.from("v1", to(STATION, UDP, b"12345678")).asked
    };
    // Asked, asked a moment ago, asked for the third time, silent.
    for ns in [0, 1, SECOND, 2 * SECOND, 3 * SECOND] {
        assert_eq!(asked(ns), Some(station), "{ns}");
    }
    // An answer that no packet brings.
    let now_ns = h1.now_ns;
    let mac: Mac = SB.parse().unwrap();
    assert!(h1.state.neighbour_answers(station, mac, 2, now_ns));
    assert_eq!(counts(&h1.state), [0, 1]);
    let mut asked = |ns| {
        h1.now_ns = ns;
        let outcome = h1.from("v1", to(STATION, UDP, b"12345678"));
        assert_eq!(outcome.verdict, ToPort);
        outcome.asked
    };
    assert_eq!(asked(now_ns + 30 * SECOND - 1), None);
    assert_eq!(asked(now_ns + 30 * SECOND), Some(station), "by the probe");
    assert_eq!(asked(now_ns + 30 * SECOND + 1), None);
}

/// A note of the same says nothing new within a second.
#[test]
fn a_confirmation_is_written_once_a_second() {
    let mut h1 = host_of("h1", FABRIC);
    let mut confirmed = |ns| {
        h1.now_ns = ns;
        h1.answers("v2", SA, STATION);
        known(&h1.state).unwrap().confirmed_ns
    };
    assert_eq!([7, 8, SECOND + 6].map(&mut confirmed), [7, 7, 7]);
    assert_eq!(confirmed(SECOND + 7), SECOND + 7);
}

#[test]
fn a_neighbour_moves() {
    let mut h1 = host_of("h1", FABRIC);
    h1.now_ns = 40 * SECOND;
    h1.answers("v2", SA, STATION);
    assert_eq!(counts(&h1.state), [1, 0]);
    // Gratuitous ARP: it is there, but nobody knows whether it hears the router.
    let moved = arp_request(SB, STATION, BROADCAST, STATION);
    assert_eq!(h1.from("v3", moved).verdict, Flood);
    let found = known(&h1.state).unwrap();
    assert_eq!((found.mac, found.key), (mac(SB), 2));
    assert_eq!(found.confirmed_ns, 10 * SECOND);
    assert_eq!(counts(&h1.state), [0, 1]);
    // Nobody is found in this way.
    let other = arp_request(SB, "198.19.0.78", BROADCAST, "198.19.0.78");
    assert_eq!(h1.from("v3", other).verdict, Flood);
    assert_eq!(h1.state.found().len(), 1);
}

#[test]
fn a_port_has_so_many_and_no_more() {
    let mut h1 = host_of("h1", FABRIC);
    let addr =
        |number: u32| IpAddr::from([198, 19, 1 + (number >> 8) as u8, number as u8]).to_string();
    for number in 0..State::MAX_FOUND_AT_PORT {
        assert_eq!(h1.answers("v2", SA, &addr(number)), ToRouter);
    }
    let one_more = addr(State::MAX_FOUND_AT_PORT);
    assert_eq!(h1.answers("v2", SA, &one_more), NeighbourLimit);
    // Of a question nothing is noted, and it is answered; another port has room; a known one is none more.
    let question = arp_request(SA, &one_more, BROADCAST, ROUTER);
    assert_eq!(h1.from("v2", question).verdict, Answer);
    assert_eq!(h1.answers("v2", SA, &addr(0)), ToRouter);
    assert_eq!(h1.answers("v3", SB, &one_more), ToRouter);
    assert_eq!(counts(&h1.state), [State::MAX_FOUND_AT_PORT, 1]);
    // Who was not confirmed for a minute is forgotten, but not oftener than once a second.
    h1.now_ns = 60 * SECOND;
    assert_eq!(h1.answers("v2", SA, "198.19.9.9"), NeighbourLimit);
    h1.now_ns += 1;
    assert_eq!(h1.answers("v2", SA, "198.19.9.9"), NeighbourLimit);
    h1.now_ns += SECOND - 1;
    assert_eq!(h1.answers("v2", SA, "198.19.9.9"), ToRouter);
    assert_eq!(counts(&h1.state), [1, 0]);
}

#[test]
fn a_sender_causes_so_many_questions() {
    let mut h1 = host_of("h1", FABRIC);
    let mut verdict = |last, ns| {
        h1.now_ns = ns;
        let destination = format!("198.19.7.{last}");
        h1.from("v1", to(&destination, UDP, b"12345678")).verdict
    };
    for last in 1..=10 {
        assert_eq!(verdict(last, 0), Resolving);
    }
    assert_eq!(verdict(11, SECOND / 10 - 1), AskLimit);
    // What the address says comes first.
    assert_eq!(verdict(10, SECOND / 10 - 1), Resolving);
    assert_eq!(verdict(11, SECOND / 10), Resolving);
}

#[test]
fn a_neighbour_whose_mac_nobody_has_is_asked_for() {
    let mut h1 = host_of("h1", FABRIC);
    let mut answer = arp_reply(SA, STATION, R1, ROUTER);
    answer[22..28].copy_from_slice(A1.parse::<Mac>().unwrap().bytes());
    assert_eq!(h1.from("v2", answer).verdict, ToRouter);
    assert_eq!(h1.try_station(1), Resolving);
    assert_eq!((known(&h1.state), counts(&h1.state)), (None, [0, 0]));
}

#[test]
fn a_mac_of_nobody_says_nothing() {
    let mut h1 = host_of("h1", FABRIC);
    for [source, said] in [[SA, "03:00:00:00:00:01"], [SA, R1], [SA, A1], [SA, SB]] {
        let mut bytes = arp_reply(source, STATION, R1, ROUTER);
        bytes[22..28].copy_from_slice(said.parse::<Mac>().unwrap().bytes());
        assert_eq!(h1.from("v2", bytes).verdict, ToRouter);
        // a1 is in another switch: there nobody has its MAC.
        assert_eq!(known(&h1.state).is_some(), said == A1, "{said}");
        h1.state = State::new();
    }
}
