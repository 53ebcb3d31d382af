//! What the sender of a packet is told, and what a router asks. `leave` says how.

use std::net::IpAddr;

use overlane_model::{RouterTable, Side};
use overlane_wire::Mac;
use overlane_wire::ip::protocol;

use crate::lib::frame::Frame;

/// Who asks for which address.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) router: &'a RouterTable,
    pub(crate) side: Side,
    pub(crate) addr: IpAddr,
    /// Who had the address before; `None`: everybody is asked.
    pub(crate) to: Option<Mac>,
}

/// What the sender is told.
#[derive(PartialEq, Eq)]
pub(crate) enum Answer {
    /// TCP is reset.
    Reset,
    /// An ICMP error.
    Icmp {
        /// Type and code over IPv4.
        v4: (u8, u8),
        /// Type and code over IPv6.
        v6: (u8, u8),
        /// Bytes 4 to 8 of the message.
        rest: u32,
    },
    /// The reply to its echo request.
    Echo,
    /// This frame.
    Written(Vec<u8>),
}

impl Answer {
    /// No route to the destination.
    pub(crate) const NO_ROUTE: Self = Self::icmp((3, 0), (1, 0));
    /// The next hop does not answer.
    pub(crate) const NO_NEIGHBOUR: Self = Self::icmp((3, 1), (1, 3));
    /// Nobody listens at the port.
    pub(crate) const PORT_UNREACHABLE: Self = Self::icmp((3, 3), (1, 4));
    /// Administratively prohibited.
    pub(crate) const PROHIBITED: Self = Self::icmp((3, 13), (1, 1));
    /// The last router that the packet may pass.
    pub(crate) const TTL_EXCEEDED: Self = Self::icmp((11, 0), (3, 0));

    /// Larger than `mtu`, the largest IP packet that would pass (RFC 1191, RFC 8201).
    pub(crate) fn too_big(mtu: usize) -> Self {
        let rest = mtu.min(u16::MAX.into()) as u32;
        Self::Icmp {
            v4: (3, 4),
            v6: (2, 0),
            rest,
        }
    }

    /// What the firewall of a port rejects.
    pub(crate) fn of_firewall(rejected: &Frame<'_>) -> Self {
        match rejected.ip {
            Some(ip) if ip.protocol == protocol::TCP && !ip.is_fragment() => Self::Reset,
            _ => Self::PROHIBITED,
        }
    }

    const fn icmp(v4: (u8, u8), v6: (u8, u8)) -> Self {
        Self::Icmp { v4, v6, rest: 0 }
    }
}
