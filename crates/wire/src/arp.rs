//! ARP for IPv4 over Ethernet (RFC 826). Comes after Ethernet (type 0x0806).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |       hardware type (1)       |    protocol type (0x0800)     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  hw len (6)   | proto len (4) |           operation           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |          sender MAC (6)  sender address (4)                   |
//! |          target MAC (6)  target address (4)                   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use std::net::Ipv4Addr;

use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Layer, WireError};
use crate::layout;
use crate::{Emit, EtherType, Mac};

/// Length of the packet.
pub const LEN: usize = 28;

const ETHERNET: u16 = 1;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    hardware: U16,
    protocol: U16,
    hardware_len: u8,
    protocol_len: u8,
    operation: U16,
    sender_mac: [u8; 6],
    sender: [u8; 4],
    target_mac: [u8; 6],
    target: [u8; 4],
}

/// What the packet asks or says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Who has the target address?
    Request,
    /// The sender has it.
    Reply,
    /// RARP, InARP and others; never 1 or 2.
    Other(u16),
}

impl From<u16> for Operation {
    fn from(value: u16) -> Self {
        match value {
            1 => Self::Request,
            2 => Self::Reply,
            other => Self::Other(other),
        }
    }
}

impl Operation {
    /// The number on the wire.
    pub fn get(self) -> u16 {
        match self {
            Self::Request => 1,
            Self::Reply => 2,
            Self::Other(other) => other,
        }
    }
}

/// A checked ARP packet: IPv4 over Ethernet, whole.
#[derive(Clone, Copy)]
pub struct View<'a> {
    packet: &'a Layout,
}

impl<'a> View<'a> {
    /// Checks length, and both address types and lengths.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (packet, _padding) = layout::split::<Layout>(Layer::Arp, bytes)?;
        if packet.hardware.get() != ETHERNET
            || packet.protocol.get() != EtherType::IPV4.get()
            || packet.hardware_len != 6
            || packet.protocol_len != 4
        {
            return Err(WireError::ArpKind {
                hardware: packet.hardware.get(),
                hardware_len: packet.hardware_len,
                protocol: packet.protocol.get(),
                protocol_len: packet.protocol_len,
            });
        }
        Ok(Self { packet })
    }

    /// What the packet asks or says.
    pub fn operation(&self) -> Operation {
        Operation::from(self.packet.operation.get())
    }

    /// Sender's MAC.
    pub fn sender_mac(&self) -> Mac {
        Mac::new(self.packet.sender_mac)
    }

    /// Sender's address; 0.0.0.0 in a probe (RFC 5227 §1.1).
    pub fn sender(&self) -> Ipv4Addr {
        self.packet.sender.into()
    }

    /// Target's MAC; not defined in a request.
    pub fn target_mac(&self) -> Mac {
        Mac::new(self.packet.target_mac)
    }

    /// Target's address.
    pub fn target(&self) -> Ipv4Addr {
        self.packet.target.into()
    }
}

/// The values a sender chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What the packet asks or says.
    pub operation: Operation,
    /// Sender's MAC.
    pub sender_mac: Mac,
    /// Sender's address.
    pub sender: Ipv4Addr,
    /// Target's MAC.
    pub target_mac: Mac,
    /// Target's address.
    pub target: Ipv4Addr,
}

impl Header {
    /// Takes the values over.
    pub fn parse(view: &View<'_>) -> Self {
        Self {
            operation: view.operation(),
            sender_mac: view.sender_mac(),
            sender: view.sender(),
            target_mac: view.target_mac(),
            target: view.target(),
        }
    }

    /// The answer to this request: `mac` has the target address.
    pub fn reply(&self, mac: Mac) -> Self {
        Self {
            operation: Operation::Reply,
            sender_mac: mac,
            sender: self.target,
            target_mac: self.sender_mac,
            target: self.sender,
        }
    }
}

impl Emit for Header {
    fn emit_len(&self) -> usize {
        LEN
    }

    fn fill(&self, out: &mut [u8]) {
        let layout = Layout {
            hardware: U16::new(ETHERNET),
            protocol: U16::new(EtherType::IPV4.get()),
            hardware_len: 6,
            protocol_len: 4,
            operation: U16::new(self.operation.get()),
            sender_mac: self.sender_mac.get(),
            sender: self.sender.octets(),
            target_mac: self.target_mac.get(),
            target: self.target.octets(),
        };
        out.copy_from_slice(layout.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: [u8; 28] = [
        0, 1, 8, 0, 6, 4, 0, 1, // Ethernet, IPv4, request
        2, 0, 0, 0, 0, 1, 198, 18, 100, 1, // sender
        0, 0, 0, 0, 0, 0, 198, 18, 100, 2, // target
    ];

    #[test]
    fn golden_bytes() {
        let view = View::new_checked(&REQUEST).unwrap();
        assert_eq!(view.operation(), Operation::Request);
        assert_eq!(view.sender(), Ipv4Addr::new(198, 18, 100, 1));
        let request = Header::parse(&view);
        assert_eq!(request.to_bytes(), REQUEST);
        let reply = request.reply(Mac::new([2, 0, 0, 0, 0, 2]));
        assert_eq!(
            reply.to_bytes()[7..],
            [
                2, 2, 0, 0, 0, 0, 2, 198, 18, 100, 2, 2, 0, 0, 0, 0, 1, 198, 18, 100, 1
            ]
        );
    }

    #[test]
    fn other_kinds_and_lengths() {
        for (at, value) in [(1, 6), (2, 0x86), (4, 8), (5, 16)] {
            let mut bytes = REQUEST;
            bytes[at] = value;
            assert!(matches!(
                View::new_checked(&bytes),
                Err(WireError::ArpKind { .. })
            ));
        }
        assert_eq!(
            View::new_checked(&REQUEST[..27]).err(),
            Some(WireError::Truncated {
                layer: Layer::Arp,
                needed: 28,
                have: 27
            })
        );
    }
}
