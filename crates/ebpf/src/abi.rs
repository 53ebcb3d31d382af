//! The keys and values of every map, as `bpf/abi.h` declares them. Addresses are bytes in network
//! order (IPv4 as `::ffff:a.b.c.d`), everything else a native integer. `tests/abi.rs` compares each
//! struct, enum and capacity with the compiled object, so a change on one side only does not pass.

#![allow(
    missing_docs,
    reason = "the meaning of each member stands in bpf/abi.h, once"
)]

use std::net::{IpAddr, Ipv6Addr};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub const MAX_PORTS: usize = 4096;
pub const MAX_SWITCHES: usize = 4096;
pub const MAX_FDB: usize = 65536;
pub const MAX_NEIGHBOURS: usize = 131_072;
pub const MAX_REMOTES: usize = 1024;
pub const MAX_FLOOD: usize = 262_144;
pub const MAX_FLOOD_MEMBERS: usize = 1024;
pub const MAX_TEMPLATE: usize = 80;

pub const HOOK_COUNT: usize = 4;
pub const VERDICT_SLOTS: usize = 64;

pub const ENCAPSULATION_VXLAN: u8 = 0;
pub const ENCAPSULATION_GENEVE: u8 = 1;

pub const PORT_PEER: u32 = 1 << 0;
pub const SWITCH_FLOOD_UNKNOWN: u32 = 1 << 0;

/// Declares one struct of `abi.h` and, for the test, its name there and its members.
macro_rules! abi {
    ($($(#[$doc:meta])* struct $name:ident = $c_name:literal { $($field:ident: $type:ty,)+ })+) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
            pub struct $name { $(pub $field: $type,)+ }
        )+

        /// Every struct: name in C, size, and each member's name, offset and size.
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
        uplink_ifindex: u32,
        segmenter_ifindex: u32,
        underlay_mtu: u32,
        hash_seed: u32,
        tunnel_port: u16,
        source_port_min: u16,
        source_port_max: u16,
        encapsulation: u8,
        family: u8,
        strict: u8,
        pad: [u8; 7],
    }
    struct Port = "port" {
        vni: u32,
        key: u16,
        mac: MacBytes,
        flags: u32,
    }
    #[derive(Hash, PartialOrd, Ord)]
    struct PortKey = "port_key" {
        vni: u32,
        key: u32,
    }
    struct Switch = "lswitch" {
        flood_members: u32,
        flags: u32,
    }
    struct FdbKey = "fdb_key" {
        vni: u32,
        mac: MacBytes,
        pad: u16,
    }
    struct FdbEntry = "fdb_entry" {
        ifindex: u32,
        key: u32,
        remote: Addr,
    }
    struct NeighbourKey = "neighbour_key" {
        vni: u32,
        addr: Addr,
    }
    struct Neighbour = "neighbour" {
        mac: MacBytes,
        key: u16,
    }
    struct FloodKey = "flood_key" {
        vni: u32,
        index: u32,
    }
    struct FloodMember = "flood_member" {
        ifindex: u32,
        remote: Addr,
    }
    struct Remote = "remote" {
        header_len: u16,
        ip_csum: u16,
        pad: u32,
        header: [u8; MAX_TEMPLATE],
    }
    #[derive(Default)]
    struct Counter = "counter" {
        packets: u64,
        segments: u64,
        bytes: u64,
    }
    #[derive(Default)]
    struct PortCounters = "port_counters" {
        from_port: Counter,
        to_port: Counter,
        dropped: Counter,
    }
    #[derive(Default)]
    struct RemoteCounters = "remote_counters" {
        to_remote: Counter,
        from_remote: Counter,
        dropped: Counter,
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
    /// The sum of two.
    pub const fn plus(self, other: Self) -> Self {
        Self {
            from_port: self.from_port.plus(other.from_port),
            to_port: self.to_port.plus(other.to_port),
            dropped: self.dropped.plus(other.dropped),
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
