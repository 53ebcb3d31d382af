//! The keys and values of every map, as `bpf/lib/abi*.h` declare them. Addresses are bytes in network
//! order (IPv4 as `::ffff:a.b.c.d`), everything else a native integer. `tests/abi.rs` compares each
//! struct, enum and capacity with the compiled object, so a change on one side only does not pass.
//! [`router`] and [`firewall`] have the parts of those.

#![allow(
    missing_docs,
    reason = "the meaning of each member stands in bpf/lib/abi*.h, once"
)]

use std::net::{IpAddr, Ipv6Addr};

pub use overlane_model::sizes::{
    MAX_ALLOWED_ADDRESSES, MAX_ALLOWED_MACS, MAX_FDB, MAX_FLOOD, MAX_FLOOD_MEMBERS, MAX_NEIGHBOURS,
    MAX_ORIGINS, MAX_PORTS, MAX_REMOTES, MAX_SWITCHES,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub const MAX_DEVICES: usize = 32768;
pub const SEEN_DEVICES: usize = 16384;
pub const MAX_TEMPLATE: usize = 80;
pub const MAX_LEARNED: usize = 262_144;
pub const MAX_FOUND: usize = 65536;
pub const MAX_FOUND_AT_PORT: usize = 1024;
pub const MAX_FOUND_BEHIND: usize = 4096;
pub const FOUND_UNASKED: u32 = 0x8000;
pub const MAX_ASKED: usize = 16384;
pub const MAX_PROBES: usize = 1024;
pub const MAX_LEARNED_FROM_UNDERLAY: usize = 4096;
pub const MAX_FLOW_WAYS: usize = 65536;
pub const EVENT_BYTES: usize = 1 << 20;
pub const MAX_SNAP: usize = 2048;
pub const SWITCH_ID_VLAN: u32 = 1 << 24;

pub const HOOK_COUNT: usize = 7;
pub const VERDICT_SLOTS: usize = 128;

pub const ENCAPSULATION_VXLAN: u8 = 0;
pub const ENCAPSULATION_GENEVE: u8 = 1;

pub const PORT_PEER: u32 = 1 << 0;
pub const PORT_CHECK_MAC: u32 = 1 << 1;
pub const PORT_CHECK_ADDRESSES: u32 = 1 << 2;
pub const PORT_DHCP_SERVER: u32 = 1 << 3;
pub const PORT_ROUTER: u32 = 1 << 4;
pub const PORT_LEARNING: u32 = 1 << 5;
pub const PORT_FIREWALL: u32 = 1 << 6;
pub const PORT_DROP_FROM: u32 = 1 << 7;
pub const PORT_DROP_TO: u32 = 1 << 8;
pub const PORT_ALLOW_WHEN_FULL: u32 = 1 << 9;
pub const PORT_RULES_ODD: u32 = 1 << 10;
pub const PORT_TAKES_NO_MARK: u32 = 1 << 11;
pub const PORT_DROP_NON_IP: u32 = 1 << 12;
pub const PORT_ASKS_PROTOCOL_FROM: u32 = 1 << 13;
pub const PORT_ASKS_PROTOCOL_TO: u32 = 1 << 14;
pub const PORT_ASKS_PORTS_FROM: u32 = 1 << 15;
pub const PORT_ASKS_PORTS_TO: u32 = 1 << 16;
pub const PORT_ALLOWED_ADDRESSES: u32 = 1 << 17;
pub const PORT_ALLOWED_MACS: u32 = 1 << 18;
pub const ABILITY_WHOLE_UDP: u32 = 1 << 0;
pub const ABILITY_ROUTES_WHOLE_UDP: u32 = 1 << 1;
pub const ABILITY_DOUBTED: u32 = 1 << 31;
pub const ORIGIN_HAS_PORTS: u32 = 1 << 0;
pub const FDB_ROAMS: u32 = 1 << 0;
pub const FDB_FLOATS: u32 = 1 << 1;
pub const LEARNING_FLOATING: u32 = 0x8000;
pub const NEIGHBOUR_ROUTER: u32 = 1 << 0;
pub const NEIGHBOUR_INTERFACE: u32 = 1 << 1;
pub const NEIGHBOUR_GATEWAY: u32 = 1 << 2;
pub const NEIGHBOUR_FLOATING: u32 = 1 << 3;
pub const SWITCH_FLOOD_UNKNOWN: u32 = 1 << 0;
pub const SWITCH_TRANSPARENT: u32 = 1 << 1;
pub const SWITCH_LEARNING: u32 = 1 << 2;
pub const SWITCH_ASKS: u32 = 1 << 3;
pub const SWITCH_TELLS_TOO_BIG: u32 = 1 << 4;
pub const SWITCH_MSS_CLAMP: u32 = 1 << 5;
pub const MAX_NON_IP: usize = 8;
pub const MAX_GONE: usize = 4;

pub const CAPTURE_OFF: u32 = 0;
pub const CAPTURE_ALL: u32 = 1;
pub const CAPTURE_DROPS: u32 = 2;
pub const CAPTURE_PORT: u32 = 3;
pub const EVENT_ENTERED: u8 = 0;
pub const EVENT_LEFT: u8 = 1;

/// Declares one struct of `abi.h` and, for the test, its name there and its members.
macro_rules! abi {
    ($($(#[$doc:meta])* struct $name:ident = $c_name:literal { $($field:ident: $type:ty,)+ })+) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
            pub struct $name { $(pub $field: $type,)+ }
        )+

        /// The structs of this part: name in C, size, and each member's name, offset and size.
        pub const STRUCTS: &[StructLayout] = &[$(StructLayout {
            name: $c_name,
            size: size_of::<$name>(),
            members: &[$((
                stringify!($field),
                std::mem::offset_of!($name, $field),
                size_of::<$type>(),
            ),)+],
        },)+];
    };
}

pub mod firewall;
pub mod router;

/// Every struct of every part.
pub fn structs() -> impl Iterator<Item = &'static StructLayout> {
    STRUCTS
        .iter()
        .chain(router::STRUCTS)
        .chain(firewall::STRUCTS)
}

/// Shape of one struct, to compare with BTF.
#[derive(Debug)]
pub struct StructLayout {
    pub name: &'static str,
    pub size: usize,
    /// Name, offset, size.
    pub members: &'static [(&'static str, usize, usize)],
}

abi! {
    #[derive(Default, Hash, PartialOrd, Ord)]
    struct Addr = "addr" {
        bytes: [u8; 16],
    }
    #[derive(Default, Hash, PartialOrd, Ord)]
    struct MacBytes = "mac" {
        bytes: [u8; 6],
    }
    struct Settings = "settings" {
        vtep: Addr,
        netns_cookie: u64,
        uplink_ifindex: u32,
        segmenter_ifindex: u32,
        segmenter_out_ifindex: u32,
        unmarker_ifindex: u32,
        coalescer_ifindex: u32,
        underlay_mtu: u32,
        hash_seed: u32,
        secret: u32,
        cookie_key: [u32; 2],
        tunnel_port: u16,
        source_port_min: u16,
        source_port_max: u16,
        encapsulation: u8,
        family: u8,
        strict: u8,
        dscp: u8,
        copy_dscp: u8,
        port_shared: u8,
        rules_version: u32,
        connection_places: u32,
        pad: u32,
        vteps: Addr,
        vteps_mask: Addr,
    }
    struct Device = "device" {
        ifindex: u32,
        program: u32,
    }
    #[derive(Default, Hash, PartialOrd, Ord)]
    struct PortId = "port_id" {
        ifindex: u32,
        vlan: u32,
    }
    struct Port = "port" {
        switch_id: u32,
        key: u16,
        mac: MacBytes,
        flags: u32,
        learn_limit: u32,
        learn_age: u32,
        rules_from: u32,
        rules_to: u32,
        counters: u32,
        connections: u32,
        flood: u32,
        owner: u32,
        mtu: u32,
    }
    #[derive(Hash, PartialOrd, Ord)]
    struct PortKey = "port_key" {
        switch_id: u32,
        key: u32,
    }
    struct PortPlace = "port_place" {
        id: PortId,
        counters: u32,
    }
    #[derive(Default)]
    struct Timeouts = "timeouts" {
        tcp_opening: u32,
        tcp_established: u32,
        tcp_closing: u32,
        tcp_closed: u32,
        udp_unanswered: u32,
        udp: u32,
        icmp: u32,
        other_unanswered: u32,
        other: u32,
    }
    struct Switch = "lswitch" {
        flood_members: u32,
        flood_routers: u32,
        flags: u32,
        learn_age: u32,
        router: u32,
        non_ip: [u16; MAX_NON_IP],
        timeouts: Timeouts,
    }
    struct FdbKey = "fdb_key" {
        switch_id: u32,
        mac: MacBytes,
        pad: u16,
    }
    struct FdbEntry = "fdb_entry" {
        port: PortId,
        key: u32,
        remote: Addr,
        router: u32,
        flags: u32,
    }
    struct Learned = "learned" {
        port: PortId,
        key: u32,
        remote: Addr,
        router: u32,
        flags: u32,
        age: u32,
        seen: u64,
    }
    #[derive(Default)]
    struct Learning = "learning" {
        macs: u32,
        pad: u32,
        next_sweep: u64,
    }
    #[derive(PartialOrd, Ord)]
    struct NeighbourKey = "neighbour_key" {
        switch_id: u32,
        addr: Addr,
    }
    struct Neighbour = "neighbour" {
        mac: MacBytes,
        key: u16,
        flags: u32,
    }
    struct FoundNeighbour = "found_neighbour" {
        mac: MacBytes,
        key: u16,
        confirmed: u64,
        asked: u64,
        tries: u32,
        unasked: u32,
    }
    struct Asked = "asked" {
        at: u64,
        tries: u32,
        pad: u32,
    }
    struct Probe = "probe" {
        router: u32,
        side: u32,
        addr: Addr,
    }
    struct AllowedAddressKey = "allowed_address_key" {
        prefixlen: u32,
        switch_id: u32,
        key: u32,
        family: u32,
        addr: Addr,
    }
    struct AllowedMacKey = "allowed_mac_key" {
        switch_id: u32,
        mac: MacBytes,
        key: u16,
    }
    struct OriginKey = "origin_key" {
        switch_id: u32,
        remote: Addr,
    }
    struct FloodKey = "flood_key" {
        switch_id: u32,
        index: u32,
    }
    struct FloodMember = "flood_member" {
        port: PortId,
        remote: Addr,
    }
    struct Remote = "remote" {
        header_len: u16,
        ip_csum: u16,
        counters: u32,
        header: [u8; MAX_TEMPLATE],
    }
    #[derive(Default)]
    struct PathMtu = "path_mtu" {
        mtu: u32,
        until: u32,
        hop: Addr,
    }
    #[derive(Default)]
    struct FlowWay = "flow_way" {
        unmarked: u32,
        coalesced: u32,
        single: u32,
        whole: u32,
    }
    #[derive(Default)]
    struct Counter = "counter" {
        packets: u64,
        segments: u64,
        bytes: u64,
    }
    #[derive(Default)]
    struct PortCounters = "port_counters" {
        longest: u64,
        longest_segment: u64,
        from_port: Counter,
        to_port: Counter,
        dropped: Counter,
        untold: Counter,
    }
    #[derive(Default)]
    struct RemoteCounters = "remote_counters" {
        to_remote: Counter,
        from_remote: Counter,
        dropped: Counter,
    }
    #[derive(Default)]
    struct Capture = "capture" {
        mode: u32,
        switch_id: u32,
        key: u32,
        snap: u32,
        lost: u64,
    }
    struct Event = "event" {
        time: u64,
        switch_id: u32,
        ifindex: u32,
        len: u32,
        captured: u32,
        segments: u32,
        source_key: u16,
        dest_key: u16,
        vlan_proto: u16,
        vlan_tci: u16,
        hook: u8,
        verdict: u8,
        phase: u8,
        pad: u8,
    }
    #[derive(Default)]
    struct TestIo = "test_io" {
        now: u64,
        ifindex: u32,
        mark: u32,
        vlan_proto: u16,
        vlan_tci: u16,
        out_proto: u16,
        out_tci: u16,
        verdict: u32,
        out_ifindex: u32,
        gso_size: u32,
        gso_segs: u32,
        gone: [u32; MAX_GONE],
    }
}

impl From<IpAddr> for Addr {
    fn from(addr: IpAddr) -> Self {
        let bytes = match addr {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        Self { bytes }
    }
}

impl Addr {
    /// Of the bits of an IPv6 address.
    pub const fn from_bits(bits: u128) -> Self {
        Self {
            bytes: bits.to_be_bytes(),
        }
    }

    /// As packets of the family 4 or 6 have it. An IPv6 packet may have `::ffff:a.b.c.d`, which `IpAddr::from` takes
    /// for an IPv4 address.
    pub fn of_family(self, family: impl Into<u32>) -> IpAddr {
        match family.into() {
            4 => self.into(),
            _ => Ipv6Addr::from(self.bytes).into(),
        }
    }
}

impl From<Addr> for IpAddr {
    fn from(addr: Addr) -> Self {
        Self::V6(Ipv6Addr::from(addr.bytes)).to_canonical()
    }
}

impl From<overlane_wire::Mac> for MacBytes {
    fn from(mac: overlane_wire::Mac) -> Self {
        Self { bytes: mac.get() }
    }
}

impl From<MacBytes> for overlane_wire::Mac {
    fn from(mac: MacBytes) -> Self {
        Self::new(mac.bytes)
    }
}

impl From<overlane_model::Timeouts> for Timeouts {
    fn from(timeouts: overlane_model::Timeouts) -> Self {
        Self {
            tcp_opening: timeouts.tcp_opening,
            tcp_established: timeouts.tcp_established,
            tcp_closing: timeouts.tcp_closing,
            tcp_closed: timeouts.tcp_closed,
            udp_unanswered: timeouts.udp_unanswered,
            udp: timeouts.udp,
            icmp: timeouts.icmp,
            other_unanswered: timeouts.other_unanswered,
            other: timeouts.other,
        }
    }
}

impl Counter {
    /// The sum of two; counters wrap as they do in the kernel.
    pub const fn plus(self, other: Self) -> Self {
        Self {
            packets: self.packets.wrapping_add(other.packets),
            segments: self.segments.wrapping_add(other.segments),
            bytes: self.bytes.wrapping_add(other.bytes),
        }
    }
}

impl PortCounters {
    /// The sum of two; of what is the longest, the longer one.
    pub fn plus(self, other: Self) -> Self {
        Self {
            from_port: self.from_port.plus(other.from_port),
            to_port: self.to_port.plus(other.to_port),
            dropped: self.dropped.plus(other.dropped),
            untold: self.untold.plus(other.untold),
            longest: self.longest.max(other.longest),
            longest_segment: self.longest_segment.max(other.longest_segment),
        }
    }
}

impl RemoteCounters {
    /// The sum of two.
    pub const fn plus(self, other: Self) -> Self {
        Self {
            to_remote: self.to_remote.plus(other.to_remote),
            from_remote: self.from_remote.plus(other.from_remote),
            dropped: self.dropped.plus(other.dropped),
        }
    }
}
