//! The tables of one host: everything its data path has to know, and nothing of logical switches
//! that have no port there. Built by [`Fabric::compile`](crate::Fabric::compile), written into maps
//! by the crate above. Devices are names here; they become interface indices on the machine.
//!
//! The same fabric and host always give the same tables, whatever the order of the file.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use overlane_wire::{Mac, PortKey, Vni};

use crate::names::{DeviceName, Name};

/// The fabric compiled for one host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Tables {
    /// The host.
    pub host: Name,
    /// Its own tunnel end point.
    pub vtep: IpAddr,
    /// Its underlay device.
    pub uplink: DeviceName,
    /// How it speaks to the others.
    pub tunnel: Tunnel,
    /// Its logical ports, by name.
    pub ports: Vec<PortTable>,
    /// The logical switches with a port here, by name.
    pub switches: Vec<SwitchTable>,
    /// Where each MAC of these switches lives, by VNI and MAC.
    pub fdb: Vec<FdbEntry>,
    /// Whose the addresses of these switches are, by VNI and address.
    pub neighbours: Vec<Neighbour>,
    /// Every other host of the fabric, by name.
    pub remotes: Vec<Remote>,
}

/// Settings of the tunnels, the same on every host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Tunnel {
    /// Which header.
    pub encapsulation: Encapsulation,
    /// Outer UDP destination port.
    pub port: u16,
    /// Outer UDP source ports, chosen by a hash of the inner flow.
    pub source_ports: RangeInclusive<u16>,
    /// Drop packets with reserved bits set.
    pub strict: bool,
    /// Seed of that hash.
    pub hash_seed: u32,
}

impl Tunnel {
    /// The seed of every fabric until there is a setting for it.
    pub const HASH_SEED: u32 = 0x6f76_6c6e;
    /// Source ports when the file names none: the dynamic ports (RFC 7348 §5).
    pub const SOURCE_PORTS: RangeInclusive<u16> = 49152..=65535;
}

/// The tunnel header between outer UDP and inner Ethernet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Encapsulation {
    /// RFC 7348.
    Vxlan,
    /// RFC 8926, with OVN's option.
    Geneve,
}

impl Encapsulation {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Vxlan, Self::Geneve];

    /// As the fabric file writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::Geneve => "geneve",
        }
    }

    /// The port that IANA assigned.
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Vxlan => 4789,
            Self::Geneve => 6081,
        }
    }
}

impl fmt::Display for Encapsulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A logical port of this host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PortTable {
    /// Its name in the fabric.
    pub name: Name,
    /// The device that is the port.
    pub device: DeviceName,
    /// Of its logical switch.
    pub vni: Vni,
    /// Its number in that switch.
    pub key: PortKey,
    /// Its MAC.
    pub mac: Mac,
}

/// A logical switch with a port on this host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SwitchTable {
    /// Its name in the fabric.
    pub name: Name,
    /// Its number on the wire.
    pub vni: Vni,
    /// Flood unicast without an FDB entry, instead of dropping it.
    pub flood_unknown: bool,
    /// Receivers of a flooded frame: local ports by name, then each remote once, by name.
    pub flood: Vec<FloodMember>,
}

/// One receiver of a flooded frame.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum FloodMember {
    /// A port of this host.
    Local(DeviceName),
    /// A remote with at least one port in the switch.
    Remote(IpAddr),
}

/// Where a MAC lives.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FdbEntry {
    /// Of the logical switch.
    pub vni: Vni,
    /// The inner destination.
    pub mac: Mac,
    /// The logical port that owns it.
    pub key: PortKey,
    /// Where that port is.
    pub place: Place,
}

/// Where a logical port is, seen from this host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// Behind this device.
    Local(DeviceName),
    /// Behind this VTEP.
    Remote(IpAddr),
}

/// Whose an address is, for the ARP/ND responder.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Neighbour {
    /// Of the logical switch.
    pub vni: Vni,
    /// The inner address.
    pub addr: IpAddr,
    /// The answer.
    pub mac: Mac,
    /// The port that owns the address; it never gets an answer about itself.
    pub key: PortKey,
}

/// Another host of the fabric.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Remote {
    /// Its name in the fabric.
    pub name: Name,
    /// Its VTEP.
    pub addr: IpAddr,
    /// Template of the outer header towards it: an empty Ethernet header, IP, UDP, VXLAN or Geneve.
    /// Lengths, IPv4 checksum, source port, VNI and option data are zero; the data path writes them
    /// per packet.
    pub header: Vec<u8>,
}
