//! A host whose port a1 has a firewall, and packets between a1 and a2.

use overlane_model::{
    Action, Asks, Direction, FirewallTable, MovedConnection, MovedEnd, MovedEnds, MovedMarks,
    MovedState, PortFirewall, PortSecurity, RuleTable, Service, SwitchId, Tables, Verdict,
};
use overlane_pipeline::{
    Connection, ConnectionKey, ConnectionState, Entry, Host, Outcome, Packet, State, Taken, TcpEnd,
};
use overlane_wire::checksum::Sum;
use overlane_wire::{PortKey, Vni};

pub(crate) use crate::common::*;

pub(crate) const OPEN: PortFirewall = PortFirewall {
    drop_from_port: false,
    drop_to_port: false,
    allow_when_full: false,
    drop_non_ip: false,
    asks_from_port: Asks {
        protocol: false,
        ports: false,
    },
    asks_to_port: Asks {
        protocol: false,
        ports: false,
    },
};
/// Only what a1 begins.
pub(crate) const OUTBOUND: PortFirewall = PortFirewall {
    drop_to_port: true,
    ..OPEN
};
pub(crate) const LOCAL: &str = "198.18.100.1";
pub(crate) const PEER: &str = "198.18.100.2";
pub(crate) const LOCAL6: &str = "2001:2::1";
pub(crate) const PEER6: &str = "2001:2::2";

/// Who sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Local,
    Peer,
}
pub(crate) use End::{Local, Peer};

#[derive(Debug)]
pub(crate) struct Wall {
    tables: Tables,
    host: Host,
    pub(crate) state: State,
    pub(crate) now_ns: u64,
}

impl Wall {
    pub(crate) fn new(firewall: PortFirewall, rules: Vec<RuleTable>) -> Self {
        let mut tables = tables("h1", &With::default());
        for port in &mut tables.ports {
            port.firewall = (port.name.as_str() == "a1").then_some(firewall);
            if port.name.as_str() == "a2" {
                port.security = PortSecurity::default();
            }
        }
        let mut wall = Self {
            host: Host::new(tables.clone(), 1500),
            tables,
            state: State::new(),
            now_ns: 1,
        };
        wall.set(rules);
        wall.tables.firewall.version = 1;
        wall.host = Host::new(wall.tables.clone(), 1500);
        wall
    }

    /// Other rules from now on.
    pub(crate) fn set(&mut self, rules: Vec<RuleTable>) {
        let ports = self.tables.ports.iter_mut();
        for firewall in ports.filter_map(|port| port.firewall.as_mut()) {
            firewall.asks_from_port = asked(&rules, Direction::FromPort);
            firewall.asks_to_port = asked(&rules, Direction::ToPort);
        }
        let version = self.tables.firewall.version + 1;
        self.tables.firewall = FirewallTable { rules, version };
        self.host = Host::new(self.tables.clone(), 1500);
    }

    /// The host has so many places for connections, a power of two.
    pub(crate) fn set_places(&mut self, places: u32) {
        self.tables.connections = places;
        self.host = Host::new(self.tables.clone(), 1500);
    }

    /// The port may have so many connections.
    pub(crate) fn limit(&mut self, connections: u32) {
        for port in &mut self.tables.ports {
            port.limits.connections = connections;
        }
        self.host = Host::new(self.tables.clone(), 1500);
    }

    /// What is not IP and passes nevertheless.
    pub(crate) fn let_pass(&mut self, ethertypes: &[u16]) {
        for switch in &mut self.tables.switches {
            switch.non_ip = ethertypes.to_vec();
        }
        self.host = Host::new(self.tables.clone(), 1500);
    }

    pub(crate) fn run(&mut self, from: End, bytes: Vec<u8>) -> Outcome {
        self.run_packet(from, &Packet::new(bytes))
    }

    pub(crate) fn run_packet(&mut self, from: End, packet: &Packet) -> Outcome {
        let entry = port(if from == Local { "v1" } else { "v2" });
        self.run_at(&entry, packet)
    }

    /// With right checksums, whatever the test has changed.
    pub(crate) fn run_at(&mut self, entry: &Entry, packet: &Packet) -> Outcome {
        let mut packet = packet.clone();
        seal(&mut packet.bytes);
        self.host.run(&mut self.state, self.now_ns, entry, &packet)
    }

    pub(crate) fn decide_at(&mut self, entry: &Entry, packet: &Packet) -> Outcome {
        let mut packet = packet.clone();
        seal(&mut packet.bytes);
        self.host
            .decide(&mut self.state, self.now_ns, entry, &packet)
    }

    pub(crate) fn ip(&mut self, from: End, protocol: u8, payload: &[u8]) -> Verdict {
        self.run(from, ip_frame(from, protocol, 0, payload)).verdict
    }

    pub(crate) fn udp(&mut self, from: End, local_port: u16, peer_port: u16) -> Verdict {
        let (source, destination) = match from {
            Local => (local_port, peer_port),
            Peer => (peer_port, local_port),
        };
        self.ip(from, 17, &udp(source, destination, b"data"))
    }

    pub(crate) fn connection(&self) -> (ConnectionKey, Connection) {
        let all: Vec<_> = self.state.connections().iter().collect();
        let [(key, connection)] = all[..] else {
            panic!("not one connection: {all:?}");
        };
        (*key, connection.clone())
    }

    /// Port a1 comes from another host, where it had this connection between [`LOCAL`] and [`PEER`].
    pub(crate) fn move_here(&mut self, connection: &Connection) {
        let end = |end: &TcpEnd| MovedEnd {
            max_window: end.max_window,
            scale: end.scale,
        };
        let moved = MovedConnection {
            protocol: 6,
            local: LOCAL.parse().unwrap(),
            peer: PEER.parse().unwrap(),
            marks: MovedMarks::Ports(1000, 80),
            begun_by_peer: connection.from_peer,
            adopted: connection.adopted,
            answered: connection.answered,
            state: match connection.state {
                ConnectionState::Opening => MovedState::Opening,
                ConnectionState::Established => MovedState::Established,
                ConnectionState::Closing => MovedState::Closing,
                ConnectionState::Closed => MovedState::Closed,
            },
            age_ms: 0,
            idle_ms: 0,
            tcp: Some(MovedEnds {
                local: end(&connection.local),
                peer: end(&connection.peer),
            }),
        };
        self.state = State::new();
        let port = self
            .tables
            .ports
            .iter()
            .find(|port| port.name.as_str() == "a1");
        let taken = self
            .state
            .take_over(&self.tables, port.unwrap(), &moved, self.now_ns);
        assert_eq!(taken, Taken::Kept);
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.connections().len()
    }

    pub(crate) fn wait(&mut self, seconds: u64) {
        self.now_ns += seconds * SECOND;
    }
}

/// What rules ask for, as the tables of a host say it.
fn asked(rules: &[RuleTable], direction: Direction) -> Asks {
    let rules = rules.iter().filter(|rule| rule.direction == direction);
    let mut asks = Asks::default();
    for services in rules.filter_map(|rule| rule.services.as_ref()) {
        asks.protocol = true;
        asks.ports |= services.iter().any(|service| service.range().1.is_some());
    }
    asks
}

/// A frame over IPv4; `fragment`: flags and offset.
/// Writes the checksums of an IP packet without extension headers, as far as it is whole.
fn seal(frame: &mut [u8]) {
    let headers = if frame.get(12) == Some(&8) { 34 } else { 54 };
    let Some(first) = frame.get(14).copied().filter(|_| frame.len() >= headers) else {
        return;
    };
    let be16 = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    let (protocol, at, end, addresses) = match frame[12..14] {
        [8, 0] => {
            let is_fragment = be16(20) & 0x3fff != 0;
            let protocol = if is_fragment { 0 } else { frame[23] };
            (
                protocol,
                14 + usize::from(first & 15) * 4,
                14 + be16(16),
                26..34,
            )
        }
        [0x86, 0xdd] => (frame[20], 54, 54 + be16(18), 22..54),
        _ => return,
    };
    let is_v4 = frame[12] == 8;
    if is_v4 {
        frame[24..26].fill(0);
        let sum = Sum::new()
            .bytes(frame.get(14..at).unwrap_or_default())
            .finish();
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    let checksum_at = match protocol {
        6 => at + 16,
        1 | 58 => at + 2,
        _ => return,
    };
    if end > frame.len() || at > end || checksum_at + 2 > end {
        return;
    }
    frame[checksum_at..checksum_at + 2].fill(0);
    let len = end - at;
    let sum = match protocol {
        1 => Sum::new(),
        // The addresses, the length and the protocol are summed alike in both families.
        _ => Sum::new()
            .bytes(&frame[addresses])
            .word(len as u16)
            .word(protocol.into()),
    };
    let sum = sum.bytes(&frame[at..end]).finish();
    frame[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
}

pub(crate) fn ip_frame(from: End, protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    match from {
        Local => eth(
            A1,
            A2,
            0x0800,
            &ip4_with(LOCAL, PEER, protocol, 0, fragment, payload),
        ),
        Peer => eth(
            A2,
            A1,
            0x0800,
            &ip4_with(PEER, LOCAL, protocol, 0, fragment, payload),
        ),
    }
}

pub(crate) fn ip6_frame(from: End, next: u8, payload: &[u8]) -> Vec<u8> {
    match from {
        Local => eth(A1, A2, 0x86dd, &ip6(LOCAL6, PEER6, next, payload)),
        Peer => eth(A2, A1, 0x86dd, &ip6(PEER6, LOCAL6, next, payload)),
    }
}

/// A rule of port a1, of any peer and service.
pub(crate) fn rule(name: &str, direction: Direction, action: Action) -> RuleTable {
    let blue = SwitchId::Vni(Vni::new(5001).unwrap());
    RuleTable {
        name: name.parse().unwrap(),
        line: 1,
        priority: 1000,
        direction,
        ports: vec![(blue, PortKey::new(1).unwrap())],
        peers: None,
        services: None,
        action,
        log: false,
    }
}

pub(crate) fn with(mut rule: RuleTable, services: &[Service]) -> RuleTable {
    rule.services = Some(services.to_vec());
    rule
}

pub(crate) fn of(mut rule: RuleTable, peers: &[&str]) -> RuleTable {
    rule.peers = Some(peers.iter().map(|peer| peer.parse().unwrap()).collect());
    rule
}

pub(crate) fn logged(mut rule: RuleTable) -> RuleTable {
    rule.log = true;
    rule
}

pub(crate) fn ports(protocol: u8, first: u16, last: u16) -> Service {
    Service::Ports {
        protocol,
        first,
        last,
    }
}

/// A TCP packet between port 1000 of a1 and port 80 of a2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tcp {
    pub(crate) flags: u8,
    pub(crate) sequence: u32,
    pub(crate) ack: u32,
    pub(crate) window: u16,
    pub(crate) scale: Option<u8>,
    pub(crate) len: usize,
}

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;

/// Of sequence number and, if ACK is set, acknowledgment.
pub(crate) fn segment(flags: u8, sequence: u32, ack: u32) -> Tcp {
    Tcp {
        flags,
        sequence,
        ack,
        window: 1000,
        scale: None,
        len: 0,
    }
}

impl Tcp {
    pub(crate) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// What it takes of the sequence numbers.
    pub(crate) fn sequence_len(&self) -> u32 {
        self.len as u32 + u32::from(self.is(SYN)) + u32::from(self.is(FIN))
    }

    pub(crate) fn len(self, len: usize) -> Self {
        Self { len, ..self }
    }

    pub(crate) fn window(self, window: u16) -> Self {
        Self { window, ..self }
    }

    pub(crate) fn scale(self, scale: u8) -> Self {
        let scale = Some(scale);
        Self { scale, ..self }
    }

    pub(crate) fn bytes(self, from: End) -> Vec<u8> {
        let (source, destination) = match from {
            Local => (1000, 80),
            Peer => (80, 1000),
        };
        let options = self.scale.map_or(vec![], |scale| vec![1, 3, 3, scale]);
        let payload = [options.clone(), vec![7; self.len]].concat();
        let mut out = tcp(source, destination, self.sequence, self.flags, &payload);
        out[8..12].copy_from_slice(&self.ack.to_be_bytes());
        out[12] = ((20 + options.len()) as u8 / 4) << 4;
        out[14..16].copy_from_slice(&self.window.to_be_bytes());
        ip_frame(from, 6, 0, &out)
    }
}

impl Wall {
    pub(crate) fn tcp(&mut self, from: End, tcp: Tcp) -> Verdict {
        self.run(from, tcp.bytes(from)).verdict
    }

    /// Local begins at 100, the peer at 500; both have sent nothing since.
    pub(crate) fn handshake(&mut self) {
        for (from, tcp) in [
            (Local, segment(SYN, 99, 0)),
            (Peer, segment(SYN | ACK, 499, 100)),
            (Local, segment(ACK, 100, 500)),
        ] {
            assert_eq!(self.tcp(from, tcp), Verdict::ToPort, "{tcp:?}");
        }
    }
}
