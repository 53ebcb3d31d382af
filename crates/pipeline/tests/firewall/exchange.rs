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
            Act::Probe if self.allowed == 0 && in_flight == 0 && !self.fin => (self.next, flags, 1),
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
        if is_syn && self.received.is_some() {
            // It answers that with what it knows (RFC 5961 section 4).
            return;
        }
        if is_syn {
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

/// A FIN passed, and later a packet that acknowledges it.
fn has_acknowledged_fin(passed: &[(End, Tcp)]) -> bool {
    passed.iter().enumerate().any(|(at, (from, fin))| {
        let end = fin.sequence.wrapping_add(fin.len as u32 + 1);
        let acknowledges = |(other, packet): &(End, Tcp)| {
            other != from && packet.flags & ACK != 0 && packet.ack == end
        };
        fin.flags & FIN != 0 && passed[at..].iter().any(acknowledges)
    })
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

/// Both ends, and the firewall between them.
#[derive(Debug)]
struct Exchange {
    wall: Wall,
    local: Host,
    peer: Host,
    /// What passed.
    passed: Vec<(End, Tcp)>,
}

impl Exchange {
    /// Who begins must be allowed to; the other direction is the connection's.
    fn new(from_peer: bool, firsts: (u32, u32), scales: (Option<u8>, Option<u8>)) -> Self {
        let firewall = PortFirewall {
            drop_from_port: from_peer,
            drop_to_port: !from_peer,
            ..OPEN
        };
        Self {
            wall: Wall::new(firewall, vec![]),
            local: Host::new(!from_peer, firsts.0, scales.0),
            peer: Host::new(from_peer, firsts.1, scales.1),
            passed: Vec::new(),
        }
    }

    fn told(&self) -> String {
        format!("{:?} {:?}", self.passed, self.wall.state.connections())
    }

    fn ends(&mut self, from: End) -> (&mut Host, &mut Host) {
        match from {
            Local => (&mut self.local, &mut self.peer),
            Peer => (&mut self.peer, &mut self.local),
        }
    }

    /// An end does something. The firewall lets it pass, if it gets there and is `seen`.
    fn step(&mut self, (from, act, window, fate): Event, seen: bool) -> Result<(), TestCaseError> {
        self.wall.now_ns += SECOND / 100;
        let Some(packet) = self.ends(from).0.act(act, window) else {
            return Ok(());
        };
        if fate == Fate::LostBefore {
            return Ok(());
        }
        if seen {
            let verdict = self.wall.tcp(from, packet);
            self.passed.push((from, packet));
            prop_assert_eq!(verdict, Verdict::ToPort, "{}", self.told());
        }
        if fate == Fate::Arrives {
            self.ends(from).1.take(&packet);
        }
        Ok(())
    }
}

type Event = (End, Act, u16, Fate);

fn event() -> impl Strategy<Value = Event> {
    (
        prop::sample::select(vec![Local, Peer]),
        act(),
        window(),
        fate(),
    )
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(event(), 10..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn legal_packets_fit(
        (from_peer, firsts, scales) in (any::<bool>(), (first(), first()), (scale(), scale())),
        events in events(),
    ) {
        let mut exchange = Exchange::new(from_peer, firsts, scales);
        for event in events {
            exchange.step(event, true)?;
        }
        if exchange.wall.connections() > 0 {
            let (_, connection) = exchange.wall.connection();
            prop_assert!(!connection.adopted && connection.from_peer == from_peer);
            let is_closing = connection.state == ConnectionState::Closing;
            prop_assert_eq!(is_closing, has_acknowledged_fin(&exchange.passed), "{}", exchange.told());
        }
    }

    /// The port moves, and meanwhile packets go past both firewalls. Both ends know better than the new one how far
    /// they are, until that has seen both.
    #[test]
    fn legal_packets_fit_where_the_port_moves(
        (from_peer, firsts, scales) in (any::<bool>(), (first(), first()), (scale(), scale())),
        (before, unseen, after) in (events(), prop::collection::vec(event(), 0..60), events()),
    ) {
        let mut exchange = Exchange::new(from_peer, firsts, scales);
        for event in before {
            exchange.step(event, true)?;
        }
        prop_assume!(exchange.wall.connections() > 0);
        let (_, connection) = exchange.wall.connection();
        for event in unseen {
            exchange.step(event, false)?;
        }
        exchange.wall.move_here(&connection);
        for event in after {
            exchange.step(event, true)?;
        }
        // Both go on: the firewall knows again what is far away.
        for from in [Local, Peer, Local, Peer] {
            exchange.step((from, Act::Data(1), u16::MAX, Fate::Arrives), true)?;
        }
        let (local, peer) = (exchange.local.clone(), exchange.peer.clone());
        let is_open = |host: &Host| !host.is_opening() && !host.fin;
        let (_, connection) = exchange.wall.connection();
        let mut scales = [connection.local.scale, connection.peer.scale].into_iter().flatten();
        let are_narrow = scales.all(|scale| scale <= 10);
        if is_open(&local) && is_open(&peer) && are_narrow {
            for (from, host) in [(Local, &local), (Peer, &peer)] {
                for far in [1 << 30, 3 << 30] {
                    let received = host.received.unwrap_or(0);
                    let (sequence, ack) = (host.next.wrapping_add(far), received.wrapping_add(far));
                    for packet in [segment(ACK, sequence, received), segment(ACK, host.next, ack)] {
                        let verdict = exchange.wall.tcp(from, packet);
                        prop_assert_eq!(verdict, Verdict::OutOfWindow, "{:?} {}", packet, exchange.told());
                    }
                }
            }
        }
    }
}
