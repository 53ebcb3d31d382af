//! The tables of one host, indexed for lookup. What happens to a packet there is in `hooks`.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};

use overlane_model::{
    Attachment, DeviceName, FdbEntry, FloatingAddress, FloatingMac, Neighbour, Origin, PortTable,
    Remote, RouterId, RouterTable, SwitchId, SwitchTable, Tables, VlanId,
};
use overlane_wire::Mac;

use crate::lib::ip::mapped;

/// One host: its tables, the MTU of its uplink, and the legs of its gateways. What an index points to is
/// in the tables.
#[derive(Clone, Debug)]
pub struct Host {
    tables: Tables,
    underlay_mtu: u32,
    shares_port: bool,
    port_mtu: u32,
    takes_whole_udp: bool,
    devices: HashMap<DeviceName, BTreeMap<Option<VlanId>, usize>>,
    port_keys: HashMap<(SwitchId, u16), usize>,
    switches: HashMap<SwitchId, usize>,
    fdb: HashMap<(SwitchId, Mac), usize>,
    neighbours: HashMap<(SwitchId, Ipv6Addr), usize>,
    floating_addresses: HashMap<(SwitchId, Ipv6Addr), usize>,
    floating_macs: HashMap<(SwitchId, Mac), usize>,
    remotes: HashMap<IpAddr, usize>,
    origins: HashMap<(SwitchId, IpAddr), usize>,
    routers: HashMap<RouterId, usize>,
    /// By device: the router, and the device itself.
    legs: HashMap<DeviceName, (usize, Leg)>,
}

impl Host {
    /// Indexes the tables. `underlay_mtu` is the largest IP packet that the uplink sends.
    pub fn new(tables: Tables, underlay_mtu: u32) -> Self {
        let mut devices: HashMap<_, BTreeMap<_, _>> = HashMap::new();
        for (i, port) in tables.ports.iter().enumerate() {
            let Attachment { device, vlan } = &port.attachment;
            devices.entry(device.clone()).or_default().insert(*vlan, i);
        }
        let mut legs = HashMap::new();
        for (i, router) in tables.routers.iter().enumerate() {
            if let Some(device) = router.leg() {
                legs.insert(device.clone(), (i, Leg::default()));
            }
        }
        Self {
            underlay_mtu,
            shares_port: false,
            port_mtu: u32::MAX,
            takes_whole_udp: true,
            legs,
            devices,
            port_keys: index(&tables.ports, |port| (port.switch, port.key.get())),
            switches: index(&tables.switches, |switch| switch.id),
            fdb: index(&tables.fdb, |entry| (entry.switch, entry.mac)),
            neighbours: index(&tables.neighbours, |n| (n.switch, mapped(n.addr))),
            floating_addresses: index(&tables.floating_addresses, |it| {
                (it.switch, mapped(it.addr))
            }),
            floating_macs: index(&tables.floating_macs, |it| (it.switch, it.mac)),
            remotes: index(&tables.remotes, |remote| remote.addr),
            origins: index(&tables.origins, |origin| (origin.switch, origin.remote)),
            routers: index(&tables.routers, |router| router.id),
            tables,
        }
    }

    /// Says what a gateway's leg is like: its MAC, and the largest IP packet that it sends. Without this it has
    /// no MAC, and Ethernet's 1500. A device that is no leg is passed over.
    #[must_use]
    pub fn with_leg(mut self, device: &DeviceName, mac: Mac, mtu: u32) -> Self {
        if let Some((_, leg)) = self.legs.get_mut(device) {
            *leg = Leg { mac, mtu };
        }
        self
    }

    /// Says whether another device of the machine has the tunnel's port: what is not ours is left to it.
    #[must_use]
    pub fn with_shared_port(mut self, shared: bool) -> Self {
        self.shares_port = shared;
        self
    }

    /// Says whether the host can take the tunnel's mark off a UDP super-packet, as it can without this.
    #[must_use]
    pub fn with_whole_udp(mut self, takes: bool) -> Self {
        self.takes_whole_udp = takes;
        self
    }

    /// Says the largest IP packet that the devices of ports take. Without this they take all.
    #[must_use]
    pub fn with_port_mtu(mut self, mtu: u32) -> Self {
        self.port_mtu = mtu;
        self
    }

    pub(crate) fn port_mtu(&self) -> u32 {
        self.port_mtu
    }

    pub(crate) fn takes_whole_udp(&self) -> bool {
        self.takes_whole_udp
    }

    pub(crate) fn shares_port(&self) -> bool {
        self.shares_port
    }

    /// What it was made of.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The largest IP packet that the uplink sends.
    pub fn underlay_mtu(&self) -> u32 {
        self.underlay_mtu
    }

    pub(crate) fn device(&self, device: &DeviceName) -> Option<Device<'_>> {
        let ports = self.devices.get(device)?;
        Some(Device { host: self, ports })
    }

    pub(crate) fn port_at(&self, at: &Attachment) -> Option<&PortTable> {
        self.device(&at.device)?.port(at.vlan)
    }

    pub(crate) fn port_of_key(&self, switch: SwitchId, key: u16) -> Option<&PortTable> {
        self.tables.ports.get(*self.port_keys.get(&(switch, key))?)
    }

    pub(crate) fn switch(&self, id: SwitchId) -> Option<&SwitchTable> {
        self.tables.switches.get(*self.switches.get(&id)?)
    }

    pub(crate) fn fdb_entry(&self, switch: SwitchId, mac: Mac) -> Option<&FdbEntry> {
        self.tables.fdb.get(*self.fdb.get(&(switch, mac))?)
    }

    /// An address that several ports may use. It is no neighbour.
    pub(crate) fn floating_address(
        &self,
        switch: SwitchId,
        addr: IpAddr,
    ) -> Option<&FloatingAddress> {
        let index = self.floating_addresses.get(&(switch, mapped(addr)))?;
        self.tables.floating_addresses.get(*index)
    }

    /// A MAC that several ports may use. The FDB does not have it.
    pub(crate) fn floating_mac(&self, switch: SwitchId, mac: Mac) -> Option<&FloatingMac> {
        let index = self.floating_macs.get(&(switch, mac))?;
        self.tables.floating_macs.get(*index)
    }

    /// Whose an address is. IPv4 in the form `::ffff:a.b.c.d` is nobody's: that is no address on a link.
    pub(crate) fn neighbour(&self, switch: SwitchId, addr: IpAddr) -> Option<&Neighbour> {
        if matches!(addr, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()) {
            return None;
        }
        let index = *self.neighbours.get(&(switch, mapped(addr)))?;
        self.tables.neighbours.get(index)
    }

    pub(crate) fn remote(&self, addr: IpAddr) -> Option<&Remote> {
        self.tables.remotes.get(*self.remotes.get(&addr)?)
    }

    /// Whether a remote may send into a switch, and as whom.
    pub(crate) fn origin(&self, switch: SwitchId, remote: IpAddr) -> Option<&Origin> {
        self.tables
            .origins
            .get(*self.origins.get(&(switch, remote))?)
    }

    /// The first of these that is a VTEP's, of this host or another; as `::ffff:a.b.c.d` too.
    pub(crate) fn vtep_among(&self, addresses: &[IpAddr]) -> Option<IpAddr> {
        let is_vtep = |addr: &&IpAddr| {
            let addr = addr.to_canonical();
            addr == self.tables.vtep || self.remote(addr).is_some()
        };
        addresses.iter().find(is_vtep).copied()
    }

    pub(crate) fn router(&self, id: RouterId) -> Option<&RouterTable> {
        self.tables.routers.get(*self.routers.get(&id)?)
    }

    /// A gateway's device in the physical network, and whose it is.
    pub(crate) fn leg(&self, device: &DeviceName) -> Option<(&RouterTable, Leg)> {
        let (router, leg) = self.legs.get(device)?;
        Some((self.tables.routers.get(*router)?, *leg))
    }
}

/// A device with ports.
#[derive(Clone, Copy)]
pub(crate) struct Device<'a> {
    host: &'a Host,
    ports: &'a BTreeMap<Option<VlanId>, usize>,
}

impl<'a> Device<'a> {
    /// The port of this tag, or of none.
    pub(crate) fn port(&self, vlan: Option<VlanId>) -> Option<&'a PortTable> {
        self.host.tables.ports.get(*self.ports.get(&vlan)?)
    }
}

fn index<T, K: Eq + std::hash::Hash>(items: &[T], key: impl Fn(&T) -> K) -> HashMap<K, usize> {
    let entries = items.iter().enumerate();
    entries.map(|(i, item)| (key(item), i)).collect()
}

/// What a gateway's device is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leg {
    pub(crate) mac: Mac,
    /// Its largest IP packet.
    pub(crate) mtu: u32,
}

impl Default for Leg {
    fn default() -> Self {
        Self {
            mac: Mac::new([0; 6]),
            mtu: 1500,
        }
    }
}
