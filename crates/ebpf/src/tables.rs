//! The tables of one host as map entries: [`encode`] is pure, so the difference between what should be
//! and what is can be computed, shown and tested without the kernel.

use std::collections::BTreeMap;
use std::net::IpAddr;

use overlane_model::{
    Attachment, DeviceName, Dscp, Encapsulation, FloodMember, Place, PortTable, Tables,
};
use zerocopy::IntoBytes;

use crate::EbpfError;
use crate::abi;

/// The maps that `apply` writes, in the order in which entries can be added without a packet meeting a
/// half-made fabric: what is referred to comes before what refers to it. Deletion goes the other way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Counters of each logical port; `apply` makes and deletes the entries, programs count.
    PortCounters,
    /// Counters of each remote; likewise.
    RemoteCounters,
    /// VTEP address → outer header template.
    Remotes,
    /// (switch, key) → where the port is.
    PortKeys,
    /// (switch, index) → receiver of a flooded frame.
    Flood,
    /// Number → logical switch.
    Switches,
    /// (switch, MAC) → place.
    Fdb,
    /// (switch, address) → MAC.
    Neighbours,
    /// Device and tag → logical port.
    Ports,
    /// What holds for the host.
    Settings,
}

/// Entries of one map: key → value.
pub type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// Entries of every map that `apply` writes.
pub type Contents = BTreeMap<Table, Entries>;

/// What the names in the tables mean on this machine.
#[derive(Debug, Clone, Default)]
pub struct Devices {
    /// The ports' devices.
    pub ports: BTreeMap<DeviceName, PortDevice>,
    /// Index of the uplink.
    pub uplink_ifindex: u32,
    /// Largest outer IP packet.
    pub underlay_mtu: u32,
    /// Index of the end of the segmenter to send into; 0: none.
    pub segmenter_ifindex: u32,
}

/// One port's device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortDevice {
    /// Its index.
    pub ifindex: u32,
    /// A veth whose peer is in another namespace.
    pub peer: bool,
}

impl Table {
    /// All, in the order of adding.
    pub const ALL: [Self; 10] = [
        Self::PortCounters,
        Self::RemoteCounters,
        Self::Remotes,
        Self::PortKeys,
        Self::Flood,
        Self::Switches,
        Self::Fdb,
        Self::Neighbours,
        Self::Ports,
        Self::Settings,
    ];

    /// The map's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PortCounters => "port_counters",
            Self::RemoteCounters => "remote_counters",
            Self::Remotes => "remotes",
            Self::PortKeys => "port_keys",
            Self::Flood => "flood",
            Self::Switches => "switches",
            Self::Fdb => "fdb",
            Self::Neighbours => "neighbours",
            Self::Ports => "ports",
            Self::Settings => "settings",
        }
    }

    /// Only which keys exist is `apply`'s business; the values belong to the programs.
    pub const fn is_counters(self) -> bool {
        matches!(self, Self::PortCounters | Self::RemoteCounters)
    }

    /// Bytes of a key and of a value.
    pub const fn sizes(self) -> (usize, usize) {
        match self {
            Self::PortCounters => (size_of::<abi::PortKey>(), size_of::<abi::PortCounters>()),
            Self::RemoteCounters => (size_of::<abi::Addr>(), size_of::<abi::RemoteCounters>()),
            Self::Remotes => (size_of::<abi::Addr>(), size_of::<abi::Remote>()),
            Self::PortKeys => (size_of::<abi::PortKey>(), size_of::<abi::PortId>()),
            Self::Flood => (size_of::<abi::FloodKey>(), size_of::<abi::FloodMember>()),
            Self::Switches => (size_of::<u32>(), size_of::<abi::Switch>()),
            Self::Fdb => (size_of::<abi::FdbKey>(), size_of::<abi::FdbEntry>()),
            Self::Neighbours => (size_of::<abi::NeighbourKey>(), size_of::<abi::Neighbour>()),
            Self::Ports => (size_of::<abi::PortId>(), size_of::<abi::Port>()),
            Self::Settings => (size_of::<u32>(), size_of::<abi::Settings>()),
        }
    }

    /// How many entries fit, and what in the fabric makes them.
    const fn capacity(self) -> (usize, &'static str) {
        match self {
            Self::PortCounters | Self::PortKeys | Self::Ports => {
                (abi::MAX_PORTS, "fewer ports on this host")
            }
            Self::RemoteCounters | Self::Remotes => (abi::MAX_REMOTES, "fewer hosts"),
            Self::Flood => (
                abi::MAX_FLOOD,
                "fewer ports on this host, or fewer hosts per switch",
            ),
            Self::Switches => (abi::MAX_SWITCHES, "fewer switches with a port on this host"),
            Self::Fdb => (abi::MAX_FDB, "fewer ports in the switches of this host"),
            Self::Neighbours => (
                abi::MAX_NEIGHBOURS,
                "fewer addresses on the ports of this host's switches",
            ),
            Self::Settings => (1, "fewer hosts"),
        }
    }
}

/// Compiles tables to map entries. Fails when a table does not fit into its map.
pub fn encode(tables: &Tables, devices: &Devices) -> Result<Contents, EbpfError> {
    check_capacity(tables)?;
    let mut contents = Contents::new();
    ports(tables, devices, &mut contents)?;
    switches(tables, devices, &mut contents)?;
    addresses(tables, devices, &mut contents)?;
    remotes(tables, &mut contents)?;
    let settings = settings(tables, devices);
    put(&mut contents, Table::Settings, &0u32, &settings);
    for table in Table::ALL {
        contents.entry(table).or_default();
    }
    Ok(contents)
}

/// Whether all tables fit; needs no device, so it can be the first check of all.
pub fn check_capacity(tables: &Tables) -> Result<(), EbpfError> {
    let flood = tables
        .switches
        .iter()
        .map(|switch| switch.flood.len())
        .sum();
    let counts = [
        (Table::Ports, tables.ports.len()),
        (Table::Switches, tables.switches.len()),
        (Table::Fdb, tables.fdb.len()),
        (Table::Neighbours, tables.neighbours.len()),
        (Table::Flood, flood),
        (Table::Remotes, tables.remotes.len()),
    ];
    for (table, count) in counts {
        let (limit, shrink) = table.capacity();
        if count > limit {
            return Err(EbpfError::TooMany {
                table: table.name(),
                count,
                limit,
                shrink,
            });
        }
    }
    for switch in &tables.switches {
        let (count, limit) = (switch.flood.len(), abi::MAX_FLOOD_MEMBERS);
        if count > limit {
            return Err(EbpfError::FloodList {
                switch: switch.id,
                count,
                limit,
            });
        }
    }
    Ok(())
}

fn put<K, V>(contents: &mut Contents, table: Table, key: &K, value: &V)
where
    K: IntoBytes + zerocopy::Immutable,
    V: IntoBytes + zerocopy::Immutable,
{
    contents
        .entry(table)
        .or_default()
        .insert(key.as_bytes().to_vec(), value.as_bytes().to_vec());
}

fn ports(tables: &Tables, devices: &Devices, contents: &mut Contents) -> Result<(), EbpfError> {
    for port in &tables.ports {
        let id = devices.id(&port.attachment)?;
        let key = abi::PortKey {
            switch_id: port.switch.number(),
            key: port.key.get().into(),
        };
        let value = abi::Port {
            switch_id: port.switch.number(),
            key: port.key.get(),
            mac: port.mac.into(),
            flags: port_flags(port, devices.port(&port.attachment.device)?),
            learn_limit: port.learning.map_or(0, |learning| learning.limit),
            learn_age: port.learning.map_or(0, |learning| learning.age_s),
        };
        put(contents, Table::Ports, &id, &value);
        put(contents, Table::PortKeys, &key, &id);
        put(
            contents,
            Table::PortCounters,
            &key,
            &abi::PortCounters::default(),
        );
    }
    Ok(())
}

/// The bits that are set, of those with a condition.
fn flags<const N: usize>(bits: [(bool, u32); N]) -> u32 {
    let set = bits.iter().filter(|(is_set, _)| *is_set);
    set.fold(0, |flags, (_, bit)| flags | bit)
}

fn port_flags(port: &PortTable, device: PortDevice) -> u32 {
    let security = &port.security;
    flags([
        (device.peer, abi::PORT_PEER),
        (security.check_mac, abi::PORT_CHECK_MAC),
        (security.check_addresses, abi::PORT_CHECK_ADDRESSES),
        (security.allow_dhcp_server, abi::PORT_DHCP_SERVER),
        (security.allow_router_advertisement, abi::PORT_ROUTER),
        (port.learning.is_some(), abi::PORT_LEARNING),
    ])
}

fn switches(tables: &Tables, devices: &Devices, contents: &mut Contents) -> Result<(), EbpfError> {
    for switch in &tables.switches {
        let switch_id = switch.id.number();
        let value = abi::Switch {
            flood_members: switch.flood.len() as u32,
            flags: flags([
                (switch.flood_unknown, abi::SWITCH_FLOOD_UNKNOWN),
                (switch.vlan_transparent, abi::SWITCH_TRANSPARENT),
                (switch.learn_age_s.is_some(), abi::SWITCH_LEARNING),
            ]),
            learn_age: switch.learn_age_s.unwrap_or_default(),
        };
        put(contents, Table::Switches, &switch_id, &value);
        for (index, member) in switch.flood.iter().enumerate() {
            let (port, remote) = match member {
                FloodMember::Local(at) => (devices.id(at)?, abi::Addr::default()),
                FloodMember::Remote(addr) => (abi::PortId::default(), (*addr).into()),
            };
            let key = abi::FloodKey {
                switch_id,
                index: index as u32,
            };
            put(
                contents,
                Table::Flood,
                &key,
                &abi::FloodMember { port, remote },
            );
        }
    }
    Ok(())
}

fn addresses(tables: &Tables, devices: &Devices, contents: &mut Contents) -> Result<(), EbpfError> {
    for entry in &tables.fdb {
        let (port, remote) = match &entry.place {
            Place::Local(at) => (devices.id(at)?, abi::Addr::default()),
            Place::Remote(addr) => (abi::PortId::default(), (*addr).into()),
            Place::Vlan => (abi::PortId::default(), abi::Addr::default()),
        };
        let key = abi::FdbKey {
            switch_id: entry.switch.number(),
            mac: entry.mac.into(),
            pad: 0,
        };
        put(
            contents,
            Table::Fdb,
            &key,
            &abi::FdbEntry {
                port,
                key: entry.key.get().into(),
                remote,
            },
        );
    }
    for neighbour in &tables.neighbours {
        let key = abi::NeighbourKey {
            switch_id: neighbour.switch.number(),
            addr: neighbour.addr.into(),
        };
        let value = abi::Neighbour {
            mac: neighbour.mac.into(),
            key: neighbour.key.get(),
            flags: flags([(neighbour.is_router, abi::NEIGHBOUR_ROUTER)]),
        };
        put(contents, Table::Neighbours, &key, &value);
    }
    Ok(())
}

fn remotes(tables: &Tables, contents: &mut Contents) -> Result<(), EbpfError> {
    for remote in &tables.remotes {
        let (len, limit) = (remote.header.len(), abi::MAX_TEMPLATE);
        if len > limit {
            return Err(EbpfError::Template {
                remote: remote.addr,
                len,
                limit,
            });
        }
        let mut header = [0; abi::MAX_TEMPLATE];
        header[..len].copy_from_slice(&remote.header);
        let value = abi::Remote {
            header_len: len as u16,
            ip_csum: if remote.addr.is_ipv4() {
                ipv4_sum(&header)
            } else {
                0
            },
            pad: 0,
            header,
        };
        put(
            contents,
            Table::Remotes,
            &abi::Addr::from(remote.addr),
            &value,
        );
        put(
            contents,
            Table::RemoteCounters,
            &abi::Addr::from(remote.addr),
            &abi::RemoteCounters::default(),
        );
    }
    Ok(())
}

fn settings(tables: &Tables, devices: &Devices) -> abi::Settings {
    let tunnel = &tables.tunnel;
    abi::Settings {
        vtep: tables.vtep.into(),
        uplink_ifindex: devices.uplink_ifindex,
        segmenter_ifindex: devices.segmenter_ifindex,
        underlay_mtu: devices.underlay_mtu,
        hash_seed: tunnel.hash_seed,
        tunnel_port: tunnel.port,
        source_port_min: *tunnel.source_ports.start(),
        source_port_max: *tunnel.source_ports.end(),
        encapsulation: match tunnel.encapsulation {
            Encapsulation::Vxlan => abi::ENCAPSULATION_VXLAN,
            Encapsulation::Geneve => abi::ENCAPSULATION_GENEVE,
        },
        family: if matches!(tables.vtep, IpAddr::V4(_)) {
            4
        } else {
            6
        },
        strict: tunnel.strict.into(),
        dscp: match tunnel.dscp {
            Dscp::Fixed(dscp) => dscp,
            Dscp::Copy => 0,
        },
        copy_dscp: (tunnel.dscp == Dscp::Copy).into(),
        pad: [0; 5],
    }
}

/// The one's complement sum (RFC 1071) of the template's IPv4 header, over words as they lie in memory:
/// the data path adds the length in network order and inverts.
fn ipv4_sum(header: &[u8; abi::MAX_TEMPLATE]) -> u16 {
    let words = header[14..34].as_chunks::<2>().0;
    let mut sum: u32 = words
        .iter()
        .map(|word| u32::from(u16::from_ne_bytes(*word)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

impl Devices {
    fn id(&self, at: &Attachment) -> Result<abi::PortId, EbpfError> {
        Ok(abi::PortId {
            ifindex: self.port(&at.device)?.ifindex,
            vlan: at.vlan.map_or(0, |vlan| vlan.get().into()),
        })
    }

    fn port(&self, name: &DeviceName) -> Result<PortDevice, EbpfError> {
        self.ports
            .get(name)
            .copied()
            .ok_or_else(|| EbpfError::UnknownDevice(name.to_string()))
    }
}

#[cfg(test)]
mod tests;
