//! Connections of a port that move with it to another host: the file that `overlane connections export` writes
//! and `import` reads. Times are ages, for the clocks of two hosts have nothing to do with each other.
//!
//! [`MovedConnections::parse`] checks everything that can be known of a connection without the host that it goes to.

mod json;

use std::collections::BTreeSet;
use std::net::IpAddr;

use overlane_wire::Mac;
use overlane_wire::ip::protocol;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::names::Name;
use crate::render::{json_error, printable};
use crate::tables::SwitchId;

/// All live connections of one port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MovedConnections {
    /// The port.
    pub port: Name,
    /// Its logical switch.
    pub switch: SwitchId,
    /// Its MAC.
    pub mac: Mac,
    /// Its connections, no two with the same ends.
    pub connections: Vec<MovedConnection>,
}

/// One connection, as conntrack knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MovedConnection {
    /// IP protocol.
    pub protocol: u8,
    /// The port's end.
    pub local: IpAddr,
    /// The other end.
    pub peer: IpAddr,
    /// What tells it from others between the same ends.
    pub marks: MovedMarks,
    /// Its first packet came from the peer.
    pub begun_by_peer: bool,
    /// It is older than the firewall: its windows are not known.
    pub adopted: bool,
    /// The end that did not begin it has sent.
    pub answered: bool,
    /// How far it is.
    pub state: MovedState,
    /// Milliseconds since its first packet.
    pub age_ms: u64,
    /// Milliseconds since its last packet.
    pub idle_ms: u64,
    /// TCP with ports: what is known of both ends.
    pub tcp: Option<MovedEnds>,
}

/// Ports, or what ICMP has in their place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MovedMarks {
    /// Fragments, and protocols without ports.
    None,
    /// TCP, UDP and SCTP: at the local end, at the peer.
    Ports(u16, u16),
    /// ICMP: type of the request, and identifier.
    Query(u8, u16),
}

/// How far a connection is: docs/semantics.md, conntrack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MovedState {
    /// Begun.
    Opening,
    /// Both ends talk.
    Established,
    /// TCP: an end has sent FIN.
    Closing,
    /// TCP: an end has sent RST.
    Closed,
}

/// Both ends of TCP.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MovedEnds {
    /// The port's.
    pub local: MovedEnd,
    /// The other one.
    pub peer: MovedEnd,
}

/// What holds of one end of TCP wherever it is: docs/semantics.md, Windows. How far it is the new host learns from its
/// packets, for it may have sent since.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MovedEnd {
    /// The largest window that it ever offered.
    pub max_window: u32,
    /// The window scale option of its SYN.
    pub scale: Option<u8>,
}

/// Why a file cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MovedError {
    /// No JSON, or not the members that it should have.
    #[error("the file with the connections cannot be understood: {0}")]
    Syntax(String),
    /// Something else.
    #[error(
        "this is no file with connections: its `format` is not `{}`",
        MovedConnections::FORMAT
    )]
    Foreign,
    /// Of a version that writes other files.
    #[error(
        "the file has the format `{}`, this version reads `{}`",
        printable(found),
        MovedConnections::FORMAT
    )]
    OtherFormat {
        /// What it says.
        found: String,
    },
    /// The port, the switch or the MAC is none.
    #[error("`{member}` makes no sense: {}", printable(why))]
    Head {
        /// Which.
        member: &'static str,
        /// Why.
        why: String,
    },
    /// A connection is none.
    #[error("connection {number} makes no sense: {why}")]
    Connection {
        /// Its number, from 1.
        number: usize,
        /// Why.
        why: String,
    },
}

impl From<serde_json::Error> for MovedError {
    fn from(error: serde_json::Error) -> Self {
        Self::Syntax(json_error(&error))
    }
}

impl MovedConnections {
    /// What the file says that it is.
    pub const FORMAT: &str = "overlane-connections/2";
    /// What files of all versions begin with.
    const FAMILY: &str = "overlane-connections/";

    /// Reads a file and checks it.
    pub fn parse(bytes: &[u8]) -> Result<Self, MovedError> {
        json::parse(bytes)
    }

    /// The file.
    pub fn to_json(&self) -> Result<Vec<u8>, MovedError> {
        json::write(self)
    }

    fn check(&self) -> Result<(), MovedError> {
        let mut seen = BTreeSet::new();
        for (number, connection) in (1..).zip(&self.connections) {
            let fail = |why: &str| MovedError::Connection {
                number,
                why: why.to_owned(),
            };
            connection.check().map_err(fail)?;
            if !seen.insert(connection.key()) {
                return Err(fail("another one before it has the same ends"));
            }
            let fail = |why| MovedError::Connection { number, why };
            connection.check_addresses().map_err(fail)?;
        }
        Ok(())
    }

    /// Each connection has two ends that can talk to each other, and the peer has none of the addresses `own`, which
    /// are the port's alone.
    pub fn check_ends(&self, own: &[IpAddr]) -> Result<(), MovedError> {
        for (number, connection) in (1..).zip(&self.connections) {
            let fail = |why| MovedError::Connection { number, why };
            connection.check_ends(own).map_err(fail)?;
        }
        Ok(())
    }
}

/// `MAX_WINDOW << MAX_SCALE`: no packet can offer more.
const MAX_WINDOW: u32 = (u16::MAX as u32) << MAX_SCALE;
/// RFC 7323 section 2.3.
const MAX_SCALE: u8 = 14;
const SCTP: u8 = 132;

impl MovedConnection {
    /// Nothing that conntrack could not have written. What it says of the wire is taken as it is.
    fn check(&self) -> Result<(), &'static str> {
        if self.local.is_ipv4() != self.peer.is_ipv4() {
            return Err("its ends are of two address families");
        }
        let has_ports = [protocol::TCP, protocol::UDP, SCTP].contains(&self.protocol);
        let (icmp, types): (u8, &[u8]) = match self.local {
            IpAddr::V4(_) => (protocol::ICMP, &[8, 13]),
            IpAddr::V6(_) => (protocol::ICMPV6, &[128]),
        };
        match self.marks {
            MovedMarks::Query(..) if self.protocol != icmp => {
                return Err("it has an ICMP type and another protocol");
            }
            MovedMarks::Query(kind, _) if !types.contains(&kind) => {
                return Err("its ICMP type begins no connection");
            }
            MovedMarks::Ports(..) if !has_ports => return Err("its protocol has no ports"),
            MovedMarks::Ports(0, 0) => return Err("ports 0 and 0 are none"),
            _ => {}
        }
        let is_tcp = self.protocol == protocol::TCP && self.marks != MovedMarks::None;
        match &self.tcp {
            None if is_tcp => return Err("`tcp` is missing"),
            Some(_) if !is_tcp => return Err("`tcp` is for TCP with ports"),
            None if self.adopted => return Err("only TCP is adopted"),
            None if self.state as u8 > MovedState::Established as u8 => {
                return Err("only TCP closes");
            }
            None => {}
            Some(ends) => {
                ends.local.check()?;
                ends.peer.check()?;
            }
        }
        if self.idle_ms > self.age_ms {
            return Err("its last packet is older than its first");
        }
        Ok(())
    }

    fn check_addresses(&self) -> Result<(), String> {
        for (end, address) in [("local end", self.local), ("peer", self.peer)] {
            if let Some(what) = nobodys(address) {
                return Err(format!("its {end} is {address}, {what}"));
            }
        }
        Ok(())
    }

    /// As [`MovedConnections::check_ends`].
    pub fn check_ends(&self, own: &[IpAddr]) -> Result<(), String> {
        self.check_addresses()?;
        let peer = self.peer;
        if peer == self.local || own.contains(&peer) {
            return Err(format!("its peer is {peer}, the port's own address"));
        }
        Ok(())
    }

    /// What no two of a port share.
    fn key(&self) -> (u8, IpAddr, IpAddr, MovedMarks, bool) {
        let asks = matches!(self.marks, MovedMarks::Query(..)) && self.begun_by_peer;
        (self.protocol, self.local, self.peer, self.marks, asks)
    }
}

/// What an address is, if no end of a connection has it.
fn nobodys(address: IpAddr) -> Option<&'static str> {
    match address {
        _ if address.is_unspecified() => Some("which is no address"),
        _ if address.is_loopback() => Some("a loopback address"),
        _ if address.is_multicast() => Some("a multicast address"),
        IpAddr::V4(v4) if v4.is_broadcast() => Some("the broadcast address"),
        _ => None,
    }
}

impl MovedEnd {
    fn check(&self) -> Result<(), &'static str> {
        if self.scale.is_some_and(|scale| scale > MAX_SCALE) {
            return Err("a window scale above 14");
        }
        if self.max_window > MAX_WINDOW {
            return Err("a window that no packet can offer");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
