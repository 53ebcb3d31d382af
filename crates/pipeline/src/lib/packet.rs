//! A packet as a hook sees it: the bytes, and what the kernel keeps beside them.

use overlane_model::DeviceName;
use overlane_wire::ethernet::Tag;

/// A packet at a hook.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// From the Ethernet header on, without the tag below.
    pub bytes: Vec<u8>,
    /// The outermost VLAN tag, which the kernel keeps beside the bytes, with its protocol identifier.
    pub tag: Option<Tag>,
    /// What makes it a super-packet.
    pub gso: Option<Gso>,
}

/// How a super-packet is cut into segments.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Gso {
    /// Of the transport protocol, as the sender's kernel says it.
    pub kind: GsoKind,
    /// Payload of one segment.
    pub size: u16,
    /// Segments it is worth.
    pub segments: u32,
}

/// What is cut.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GsoKind {
    /// A TCP stream.
    Tcp,
    /// Datagrams of one size (`UDP_SEGMENT`).
    Udp,
    /// SCTP chunks.
    Sctp,
}

/// Where a packet enters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// By a device of this host; the packet's tag tells which port of a trunk.
    Port(DeviceName),
    /// Back from the segmenter, of the port with this device.
    Segmenter(DeviceName),
    /// By the uplink.
    Underlay,
    /// By a gateway's device in the physical network.
    Leg(DeviceName),
}

impl Packet {
    /// A packet without tag, of one segment.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            bytes: bytes.into(),
            tag: None,
            gso: None,
        }
    }
}
