//! What packets of one connection have in common: `struct connection_key` of `bpf/lib/abi_firewall.h`.

use std::fmt;
use std::net::IpAddr;

use overlane_model::{Direction, RouterId, SwitchId};
use overlane_wire::PortKey;
use overlane_wire::ip::protocol;

use crate::lib::l4::{Ends, Marks};

/// Added to the type of an ICMP request of the peer: the local end may use the same identifier.
pub(crate) const PEER_ASKS: u16 = 0x100;

/// Whose a connection is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Zone {
    /// A logical port's.
    Port(SwitchId, PortKey),
    /// A router's: a translation of its gateway.
    Router(RouterId),
}

/// Whose a connection is, and its two ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionKey {
    /// Whose it is.
    pub zone: Zone,
    /// Protocol number.
    pub protocol: u8,
    /// The port's end; of a router the inside.
    pub local: IpAddr,
    /// The other end.
    pub peer: IpAddr,
    /// Of ICMP the identifier; 0 and 0: no ports.
    pub local_port: u16,
    /// Of ICMP the request's type, and 256 more where the peer is the one who asks.
    pub peer_port: u16,
}

/// Who sends a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sender {
    Local,
    Peer,
}

impl Sender {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Local => Self::Peer,
            Self::Peer => Self::Local,
        }
    }
}

impl From<Direction> for Sender {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::FromPort => Self::Local,
            Direction::ToPort => Self::Peer,
        }
    }
}

impl ConnectionKey {
    /// Of a packet without ports.
    pub(crate) fn bare(zone: Zone, sender: Sender, ends: &Ends) -> Self {
        let (local, peer) = match sender {
            Sender::Local => (ends.source, ends.destination),
            Sender::Peer => (ends.destination, ends.source),
        };
        Self {
            zone,
            protocol: ends.protocol,
            local,
            peer,
            local_port: 0,
            peer_port: 0,
        }
    }

    /// `None`: an ICMP message that belongs to no connection.
    pub(crate) fn of(zone: Zone, sender: Sender, ends: &Ends) -> Option<Self> {
        let is_local = sender == Sender::Local;
        let swap = |source, destination| match is_local {
            true => (source, destination),
            false => (destination, source),
        };
        let (local_port, peer_port) = match ends.marks {
            Marks::None => (0, 0),
            Marks::Ports {
                source,
                destination,
            } => swap(source, destination),
            Marks::Query {
                request,
                is_request,
                identifier,
            } => {
                let asks = if is_request == is_local { 0 } else { PEER_ASKS };
                (identifier, u16::from(request) + asks)
            }
            Marks::Message => return None,
        };
        Some(Self {
            local_port,
            peer_port,
            ..Self::bare(zone, sender, ends)
        })
    }

    /// Without them there is nothing to match a rule's ports or types with, and no window.
    pub(crate) fn has_ports(&self) -> bool {
        (self.local_port, self.peer_port) != (0, 0)
    }

    /// ICMP over IPv4 or ICMPv6 over IPv6.
    pub(crate) fn is_icmp(&self) -> bool {
        match self.local {
            IpAddr::V4(_) => self.protocol == protocol::ICMP,
            IpAddr::V6(_) => self.protocol == protocol::ICMPV6,
        }
    }

    /// TCP with windows.
    pub(crate) fn is_tcp(&self) -> bool {
        self.protocol == protocol::TCP && self.has_ports()
    }

    /// Nothing tells two flows of a peer apart, or nobody may write what does: SCTP's CRC is over its ports.
    pub(crate) fn keeps_port(&self) -> bool {
        !self.has_ports() || self.protocol == protocol::SCTP
    }

    /// The same with another port of the peer; ICMP has one identifier for both ends.
    pub(crate) fn with_peer_port(self, port: u16) -> Self {
        match self.is_icmp() {
            true => Self {
                local_port: port,
                ..self
            },
            false => Self {
                peer_port: port,
                ..self
            },
        }
    }

    /// Type of the request, of an ICMP connection with ports.
    pub(crate) fn request(&self) -> u8 {
        self.peer_port.to_le_bytes()[0]
    }

    /// The same with another local end, as on the other side of a translation.
    pub(crate) fn with_local(&self, local: (IpAddr, u16)) -> Self {
        let (local, local_port) = local;
        Self {
            local,
            local_port,
            ..*self
        }
    }
}

impl fmt::Display for ConnectionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (local, peer) = (self.local, self.peer);
        let (local_port, peer_port) = (self.local_port, self.peer_port);
        match self.protocol {
            _ if self.is_icmp() && self.has_ports() => {
                let request = self.request();
                let arrow = if peer_port < PEER_ASKS { "→" } else { "←" };
                write!(
                    f,
                    "{local} {arrow} {peer} ICMP type {request} id {local_port}"
                )
            }
            protocol::TCP if self.has_ports() => {
                write!(f, "{local} port {local_port} ↔ {peer} port {peer_port} TCP")
            }
            protocol::UDP if self.has_ports() => {
                write!(f, "{local} port {local_port} ↔ {peer} port {peer_port} UDP")
            }
            number if self.has_ports() => {
                let ends = format!("{local} port {local_port} ↔ {peer} port {peer_port}");
                write!(f, "{ends} protocol {number}")
            }
            number => write!(f, "{local} ↔ {peer} protocol {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(sender: Sender, protocol: u8, marks: Marks) -> String {
        let ends = Ends {
            source: IpAddr::from([198, 18, 0, 1]),
            destination: IpAddr::from([198, 18, 0, 2]),
            protocol,
            marks,
        };
        let zone = Zone::Router(RouterId::new(1).unwrap());
        ConnectionKey::of(zone, sender, &ends).unwrap().to_string()
    }

    #[test]
    fn as_text_the_local_end_stands_first_and_who_asks_has_the_arrow() {
        let ports = || Marks::Ports {
            source: 4000,
            destination: 80,
        };
        let asks = |is_request| Marks::Query {
            request: 8,
            is_request,
            identifier: 77,
        };
        let far = "198.18.0.2 port 80 ↔ 198.18.0.1 port 4000";
        let near = "198.18.0.1 port 4000 ↔ 198.18.0.2 port 80";
        for (sender, protocol, marks, expected) in [
            (Sender::Local, protocol::TCP, ports(), format!("{near} TCP")),
            (Sender::Peer, protocol::UDP, ports(), format!("{far} UDP")),
            (Sender::Local, 132, ports(), format!("{near} protocol 132")),
            (
                Sender::Local,
                47,
                Marks::None,
                "198.18.0.1 ↔ 198.18.0.2 protocol 47".to_owned(),
            ),
            (
                Sender::Local,
                protocol::ICMP,
                asks(true),
                "198.18.0.1 → 198.18.0.2 ICMP type 8 id 77".to_owned(),
            ),
            (
                Sender::Local,
                protocol::ICMP,
                asks(false),
                "198.18.0.1 ← 198.18.0.2 ICMP type 8 id 77".to_owned(),
            ),
        ] {
            assert_eq!(shown(sender, protocol, marks), expected);
        }
    }
}
