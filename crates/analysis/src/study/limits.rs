//! How large, how many: what a topology, a frame and a message may be.

use crate::record::Family;

/// Most tags of one device: a guest with more has more devices.
pub const TAGS_PER_DEVICE: u32 = 2047;
/// VLAN identifiers that may be used (IEEE 802.1Q §9.6: 0 and 4095 are none).
pub const VLANS: u32 = 4094;
/// Most pairs: the last octet of the guests' addresses counts them, two to a pair.
pub const MAX_PAIRS: u32 = 100;
/// Most machines that move at once: each takes memory and CPU like a computer.
pub const MAX_MACHINES: u32 = 4;
/// Memory of a machine in MiB: its kernel and its program have to fit, and it has to be sent.
pub const MACHINE_MIB: std::ops::RangeInclusive<u32> = 128..=4096;
/// Cables that memory travels over.
pub const MAX_LINKS: u32 = 2;
/// Payload of a message of the flows that run meanwhile: a number has to fit, and the smallest MTU.
pub const FLOW_BYTES: std::ops::RangeInclusive<u32> = 16..=1400;
/// Most hosts: so many namespaces with a switch each are no use beyond.
pub const MAX_HOSTS: u32 = 16;
/// Most networks.
pub const MAX_NETWORKS: u32 = 4096;
/// Most parallel connections, flows or senders of an agent.
pub const MAX_INSTANCES: u32 = 256;
/// Most bytes of a `write`, a request or a response.
pub const MAX_MESSAGE_BYTES: u32 = 1 << 20;
/// Bytes of the number in each packet of a test that counts losses.
pub const SEQUENCE_BYTES: u32 = 16;
/// Bytes of an Ethernet header without a tag.
pub const ETHERNET_BYTES: u32 = 14;
/// Bytes of the frame check sequence.
pub const FCS_BYTES: u32 = 4;
/// Bytes of a UDP header.
pub const UDP_BYTES: u32 = 8;

/// Bytes of the headers in front of a datagram's payload, below the frame's end.
pub fn ip_bytes(family: Family) -> u32 {
    match family {
        Family::Ipv4 => 20,
        Family::Ipv6 => 40,
    }
}

/// The smallest frame, with its FCS, that carries a numbered packet.
pub fn smallest_frame_bytes(family: Family) -> u32 {
    ETHERNET_BYTES + ip_bytes(family) + UDP_BYTES + SEQUENCE_BYTES + FCS_BYTES
}

/// The largest frame, with its FCS and without a tag, that a device of this MTU takes.
pub fn largest_frame_bytes(mtu: u32) -> u32 {
    ETHERNET_BYTES + mtu + FCS_BYTES
}

/// The largest payload of a datagram that a device of this MTU takes as one packet.
pub fn largest_datagram_bytes(family: Family, mtu: u32) -> u32 {
    mtu - ip_bytes(family) - UDP_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_leaves_room_for_its_headers() {
        assert_eq!(largest_datagram_bytes(Family::Ipv4, 1500), 1472);
        assert_eq!(largest_datagram_bytes(Family::Ipv6, 8900), 8852);
    }
}
