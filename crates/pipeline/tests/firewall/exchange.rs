//! Two ends that keep to the rules of TCP, a network that loses packets before the firewall and behind it,
//! sequence numbers that wrap around, windows of any scale: nothing is ever out of its window.
//!
//! ```text
//! local -- lost? -- firewall -- lost? -- peer
//! ```

use overlane_model::{PortFirewall, Verdict};
use overlane_pipeline::ConnectionState;
use proptest::prelude::*;

use crate::wall::*;

const MSS: u32 = 1460;

/// One end of a legal connection (RFC 9293 section 3.3.1, RFC 7323 section 2).
#[derive(Clone, Debug)]
struct Host {
    begins: bool,
    first: u32,
    /// SND.UNA, SND.NXT and how much the other end allows from SND.UNA on.
    unacknowledged: u32,
    next: u32,
    allowed: u32,
    fin: bool,
    /// RCV.NXT, once the other end's SYN is here.
    received: Option<u32>,
    /// What its SYN offers, and whether the other's did.
    scale: Option<u8>,
    other_scale: Option<u8>,
}

/// What an end does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Data(u32),
    /// Everything that the window allows, as a super-packet.
    Burst,
    Again,
    Ack,
    KeepAlive,
    Probe,
    Fin,
}

/// What the network does.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Arrives,
    LostBefore,
    LostBehind,
}

impl Host {
    fn new(begins: bool, first: u32, scale: Option<u8>) -> Self {
        Self {
            begins,
            first,
            unacknowledged: first,
            next: first,
            allowed: 0,
            fin: false,
            received: None,
            scale,
            other_scale: None,
        }
    }

    fn is_scaled(&self) -> bool {
        self.scale.is_some() && self.other_scale.is_some()
    }

    /// Its SYN is not acknowledged yet.
    fn is_opening(&self) -> bool {
        self.unacknowledged == self.first
    }

    /// The packet of an act, `window` as it stands in it. `None`: nothing to say.
    fn act(&mut self, act: Act, window: u16) -> Option<Tcp> {
        let flags = if self.received.is_some() { ACK } else { 0 };
        let ack = self.received.unwrap_or(0);
        if self.is_opening() {
            if !self.begins && self.received.is_none() {
                return None;
            }
            self.next = self.first.wrapping_add(1);
            // Who answers offers the option only if it was asked.
            let answers = self.received.is_none() || self.other_scale.is_some();
            self.scale = self.scale.filter(|_| answers);
            let syn = segment(SYN | flags, self.first, ack).window(window);
            let scale = self.scale;
            return Some(Tcp { scale, ..syn });
        }
        let in_flight = self.next.wrapping_sub(self.unacknowledged);
        let room = match self.fin {
            true => 0,
            false => self.allowed.saturating_sub(in_flight),
        };
        let packet = |flags, sequence, len: u32| {
            Some(
                segment(flags, sequence, ack)
                    .len(len as usize)
                    .window(window),
            )
        };
        let (sequence, flags, len) = match act {
            Act::Data(len) => (self.next, flags, len.min(room)),
            Act::Burst => (self.next, flags, room.min(40 * MSS)),
            Act::Probe if self.allowed == 0 && in_flight == 0 => (self.next, flags, 1),
            // The FIN takes its place in the window too.
            Act::Fin if room > 0 => {
                self.fin = true;
                let sequence = self.next;
                self.next = sequence.wrapping_add(1);
                return packet(flags | FIN, sequence, 0);
            }
            Act::Again | Act::Fin if in_flight > 0 => {
                let data = in_flight - u32::from(self.fin);
                let fin = if data == 0 { FIN } else { 0 };
                return packet(flags | fin, self.unacknowledged, data.min(MSS));
            }
            Act::KeepAlive if in_flight == 0 => {
                return packet(flags, self.next.wrapping_sub(1), 0);
            }
            _ => (self.next, flags, 0),
        };
        self.next = sequence.wrapping_add(len);
        packet(flags, sequence, len)
    }

    /// In order only; what comes too early is sent again.
    fn take(&mut self, packet: &Tcp) {
        let is_syn = packet.flags & SYN != 0;
        if is_syn && self.received.is_none() {
            self.received = Some(packet.sequence.wrapping_add(1));
            self.other_scale = packet.scale;
        }
        let Some(received) = &mut self.received else {
            return;
        };
        if !is_syn {
            let len = packet.len as u32 + u32::from(packet.flags & FIN);
            let old = received.wrapping_sub(packet.sequence);
            if old <= len {
                *received = packet.sequence.wrapping_add(len);
            }
        }
        let acknowledged = packet.ack.wrapping_sub(self.unacknowledged);
        let is_ack = packet.flags & ACK != 0;
        if is_ack && acknowledged <= self.next.wrapping_sub(self.unacknowledged) {
            self.unacknowledged = packet.ack;
            let shift = if self.is_scaled() && !is_syn {
                self.other_scale.unwrap_or(0)
            } else {
                0
            };
            self.allowed = u32::from(packet.window) << shift;
        }
    }
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (1..=MSS).prop_map(Act::Data),
        1 => Just(Act::Burst),
        3 => Just(Act::Again),
        4 => Just(Act::Ack),
        1 => Just(Act::KeepAlive),
        1 => Just(Act::Probe),
        1 => Just(Act::Fin),
    ]
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Arrives),
        1 => Just(Fate::LostBefore),
        1 => Just(Fate::LostBehind),
    ]
}

/// Near the end of the numbers, mostly.
fn first() -> impl Strategy<Value = u32> {
    prop_oneof![
        3 => (0..200_000_u32).prop_map(|before| u32::MAX - before),
        1 => ((1_u32 << 31) - 50_000)..(1 << 31),
        1 => any::<u32>(),
    ]
}

fn window() -> impl Strategy<Value = u16> {
    prop_oneof![Just(0), Just(u16::MAX), any::<u16>()]
}

fn scale() -> impl Strategy<Value = Option<u8>> {
    prop::option::weighted(0.7, 0..=14_u8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn legal_packets_fit(
        (from_peer, first_local, first_peer) in (any::<bool>(), first(), first()),
        (scale_local, scale_peer) in (scale(), scale()),
        events in prop::collection::vec((any::<bool>(), act(), window(), fate()), 10..120),
    ) {
        // Who begins must be allowed to; the other direction is the connection's.
        let firewall = PortFirewall {
            drop_from_port: from_peer,
            drop_to_port: !from_peer,
            ..OPEN
        };
        let mut wall = Wall::new(firewall, vec![]);
        let mut local = Host::new(!from_peer, first_local, scale_local);
        let mut peer = Host::new(from_peer, first_peer, scale_peer);
        let mut passed = Vec::new();
        for (is_local, act, window, fate) in events {
            let (from, sender, receiver) = match is_local {
                true => (Local, &mut local, &mut peer),
                false => (Peer, &mut peer, &mut local),
            };
            wall.now_ns += SECOND / 100;
            let Some(packet) = sender.act(act, window).filter(|_| fate != Fate::LostBefore) else {
                continue;
            };
            passed.push((from, packet));
            let verdict = wall.tcp(from, packet);
            prop_assert_eq!(verdict, Verdict::ToPort, "{:?} {:?}", passed, wall.connection());
            if fate == Fate::Arrives {
                receiver.take(&packet);
            }
        }
        if wall.connections() > 0 {
            let (_, connection) = wall.connection();
            prop_assert!(!connection.adopted && connection.from_peer == from_peer);
            let fin = passed.iter().any(|(_, packet)| packet.flags & FIN != 0);
            prop_assert_eq!(connection.state == ConnectionState::Closing, fin);
        }
    }
}
