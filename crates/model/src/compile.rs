//! A valid [`Fabric`] becomes the [`Tables`] of one host. Comes after [`check`](crate::check): what
//! is looked up here exists, and what must be unique is.
//!
//! Everything is built in the order of names or numbers, so the tables follow from the fabric alone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use thiserror::Error;

use crate::diagnostic::nearest;
use crate::fabric::{
    Allow, Fabric, GuestVlan, Host, Limits, Neighbours, NonIp, Port, Router, Security, Switch,
    UnknownUnicast, single,
};
use crate::names::Name;
use crate::render::{listed, printable};
use crate::tables::{
    Encapsulation, FdbEntry, FirewallTable, FloatingAddress, FloatingMac, FloodMember,
    GeneveOptions, Learning, Neighbour, Origin, Place, PortLimits, PortSecurity, PortTable, Remote,
    RouterTable, SwitchId, SwitchTable, Tables,
};
use crate::template;

mod counts;
mod firewall;
mod routers;

pub(crate) use self::counts::{Crowded, needs};

use self::routers::Attached;

/// Why a fabric has no tables for a host.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The fabric has no such host.
    #[error("the fabric has no host `{}` (its hosts: {})", printable(.host), listed(.known.iter().map(Name::as_str)))]
    UnknownHost {
        /// What was asked for.
        host: String,
        /// What there is, by name.
        known: Vec<Name>,
    },
}

impl CompileError {
    /// What to do.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::UnknownHost { host, known } => nearest(host, known.iter().map(Name::as_str))
                .map(|near| format!("did you mean `{near}`?")),
        }
    }
}

impl Fabric {
    /// The tables of one host.
    pub fn compile(&self, host: &str) -> Result<Tables, CompileError> {
        let Some(host) = self.hosts.get(host) else {
            return Err(CompileError::UnknownHost {
                host: host.to_owned(),
                known: self.hosts.keys().cloned().collect(),
            });
        };
        let view = View::new(self, host);
        let mut ports = view.ports();
        let firewall = view.firewall.table(&mut ports);
        Ok(Tables {
            host: host.name.clone(),
            vtep: host.underlay,
            uplink: host.uplink.clone(),
            connections: host.connections,
            tunnel: self.tunnel.clone(),
            ports,
            switches: view.switches(),
            fdb: view.fdb(),
            neighbours: view.neighbours(),
            floating_addresses: view.floating_addresses(),
            floating_macs: view.floating_macs(),
            remotes: view.remotes(),
            origins: view.origins(),
            routers: view.routers(),
            firewall,
        })
    }
}

impl Fabric {
    /// The rules of one host alone.
    pub(crate) fn firewall(&self, host: &Host) -> FirewallTable {
        let by_switch = by_switch(self);
        firewall::View::new(self, host, &by_switch).table(&mut [])
    }
}

fn by_switch(fabric: &Fabric) -> BTreeMap<&Name, Vec<&Port>> {
    let mut by_switch: BTreeMap<&Name, Vec<&Port>> = BTreeMap::new();
    for port in fabric.ports.values() {
        by_switch.entry(&port.switch).or_default().push(port);
    }
    by_switch
}

/// What a port may send, as the data path checks it.
fn security(port: &Port) -> PortSecurity {
    let check_mac = port.security != Security::Off;
    let has_addresses = !port.addresses.is_empty() || !port.allowed_addresses.is_empty();
    PortSecurity {
        check_mac,
        check_addresses: port.security == Security::Strict && has_addresses,
        allow_dhcp_server: port.allow.contains(&Allow::DhcpServer),
        allow_router_advertisement: port.allow.contains(&Allow::RouterAdvertisement),
    }
}

/// A logical switch, its ports and its routers, by name.
struct Members<'f> {
    switch: &'f Switch,
    ports: Vec<&'f Port>,
    routers: Vec<Attached<'f>>,
}

/// The fabric as one host sees it.
struct View<'f> {
    fabric: &'f Fabric,
    host: &'f Host,
    areas: routers::Areas<'f>,
    /// Logical switches that it knows, by name.
    members: BTreeMap<&'f Name, Members<'f>>,
    /// Routers of these switches, by name.
    routers: Vec<&'f Router>,
    firewall: firewall::View<'f>,
}

impl<'f> View<'f> {
    fn new(fabric: &'f Fabric, host: &'f Host) -> Self {
        let mut by_switch = by_switch(fabric);
        let areas = routers::Areas::new(fabric);
        let reached: BTreeSet<&Name> = areas.reached(host).collect();
        let routers: Vec<&Router> = (fabric.routers.values())
            .filter(|router| {
                // What it is attached to is known as a whole or not at all.
                let mut interfaces = router.interfaces.iter();
                interfaces.any(|interface| reached.contains(&interface.switch))
            })
            .collect();
        let firewall = firewall::View::new(fabric, host, &by_switch);
        let mut attached = routers::attached(&routers);
        let members = reached.into_iter().filter_map(|name| {
            let members = Members {
                switch: fabric.switches.get(name)?,
                ports: by_switch.remove(name).unwrap_or_default(),
                routers: attached.remove(name).unwrap_or_default(),
            };
            Some((name, members))
        });
        Self {
            fabric,
            host,
            areas,
            members: members.collect(),
            routers,
            firewall,
        }
    }

    fn is_local(&self, port: &Port) -> bool {
        port.host == self.host.name
    }

    /// The VTEP of a port elsewhere.
    fn vtep(&self, port: &Port) -> Option<IpAddr> {
        Some(self.fabric.hosts.get(&port.host)?.underlay)
    }

    fn ports(&self) -> Vec<PortTable> {
        let local = self
            .fabric
            .ports
            .values()
            .filter(|port| self.is_local(port));
        local
            .filter_map(|port| {
                Some(PortTable {
                    name: port.name.clone(),
                    attachment: port.attachment.clone(),
                    netns: port.netns.clone(),
                    switch: self.fabric.switches.get(&port.switch)?.id,
                    key: port.key,
                    mac: port.mac,
                    allowed_addresses: port.allowed_addresses.clone(),
                    allowed_macs: port.allowed_macs.clone(),
                    security: security(port),
                    learning: port.learning,
                    limits: self.limits(port),
                    firewall: None,
                })
            })
            .collect()
    }

    /// What the port says, else its switch.
    fn limits(&self, port: &Port) -> PortLimits {
        let switch = self.fabric.switches.get(&port.switch);
        let of_switch = switch.map_or_else(Limits::default, |switch| switch.limits);
        let default = PortLimits::default();
        let either = |port: Option<u32>, switch| port.or(switch);
        PortLimits {
            connections: either(port.limits.connections, of_switch.connections)
                .unwrap_or(default.connections),
            flood: either(port.limits.flood, of_switch.flood).unwrap_or(default.flood),
        }
    }

    fn switches(&self) -> Vec<SwitchTable> {
        self.members
            .values()
            .map(|members| SwitchTable {
                name: members.switch.name.clone(),
                id: members.switch.id,
                flood_unknown: members.switch.unknown_unicast == UnknownUnicast::Flood,
                asks: !members.routers.is_empty() && members.switch.neighbours == Neighbours::Asked,
                vlan_transparent: members.switch.guest_vlan == GuestVlan::Transparent,
                path_mtu_discovery: members.switch.path_mtu_discovery,
                mss_clamp: members.switch.mss_clamp,
                learn_age_s: members
                    .ports
                    .iter()
                    .filter_map(|port| Learning::age_s(port.learning, &port.allowed_macs))
                    .max(),
                non_ip: match &members.switch.firewall.non_ip {
                    NonIp::Allow => Vec::new(),
                    NonIp::Drop(passing) => passing.clone(),
                },
                timeouts: members.switch.timeouts,
                flood: self.flood(members),
            })
            .collect()
    }

    fn flood(&self, members: &Members<'_>) -> Vec<FloodMember> {
        let (local, elsewhere): (Vec<&Port>, Vec<&Port>) =
            members.ports.iter().partition(|port| self.is_local(port));
        let tunnelled = members.switch.id.vni().is_some();
        let elsewhere = elsewhere.iter().filter(|_| tunnelled);
        let hosts: BTreeSet<&Name> = elsewhere.map(|port| &port.host).collect();
        let remotes = hosts.iter().filter_map(|&host| self.fabric.hosts.get(host));
        let mut remotes: Vec<&Host> = remotes.collect();
        // The data path makes room for the outer header once, and more where it becomes longer.
        remotes.sort_by_key(|remote| remote.options);
        local
            .iter()
            .map(|port| FloodMember::Local(port.attachment.clone()))
            .chain(
                remotes
                    .iter()
                    .map(|remote| FloodMember::Remote(remote.underlay)),
            )
            .collect()
    }

    fn fdb(&self) -> Vec<FdbEntry> {
        let mut entries = Vec::new();
        for Members {
            switch,
            ports,
            routers,
        } in self.members.values()
        {
            entries.extend(routers.iter().map(|attached| attached.fdb(switch.id)));
            entries.extend(ports.iter().filter_map(|port| {
                let place = if self.is_local(port) {
                    Place::Local(port.attachment.clone())
                } else if switch.id.vlan().is_some() {
                    Place::Vlan
                } else {
                    Place::Remote(self.vtep(port)?)
                };
                let is_elsewhere = matches!(place, Place::Remote(_));
                Some(FdbEntry {
                    switch: switch.id,
                    mac: port.mac,
                    key: port.key,
                    port: port.name.clone(),
                    place,
                    roams: is_elsewhere && port.security == Security::Off,
                })
            }));
        }
        entries.sort_by_key(|entry| (entry.switch, entry.mac));
        entries
    }

    fn origins(&self) -> Vec<Origin> {
        let mut origins = Vec::new();
        let tunnelled = self.members.values();
        for members in tunnelled.filter(|members| members.switch.id.vni().is_some()) {
            let name = &members.switch.name;
            let hosts: BTreeSet<&Name> = members.ports.iter().map(|port| &port.host).collect();
            let senders = self.others().filter(|host| self.areas.reaches(host, name));
            origins.extend(senders.map(|sender| Origin {
                switch: members.switch.id,
                remote: sender.underlay,
                has_ports: hosts.contains(&sender.name),
            }));
        }
        origins.sort();
        origins
    }

    /// Every other host.
    fn others(&self) -> impl Iterator<Item = &'f Host> {
        let hosts = self.fabric.hosts.values();
        hosts.filter(|host| host.name != self.host.name)
    }

    fn neighbours(&self) -> Vec<Neighbour> {
        let mut neighbours = Vec::new();
        for Members {
            switch,
            ports,
            routers,
        } in self.members.values()
        {
            let of_routers = routers.iter();
            neighbours.extend(of_routers.flat_map(|attached| attached.neighbours(switch.id)));
            for port in ports {
                let of_port = port.addresses.iter();
                neighbours.extend(of_port.map(|&addr| Neighbour {
                    switch: switch.id,
                    addr,
                    mac: port.mac,
                    key: port.key,
                    is_router: port.allow.contains(&Allow::RouterAdvertisement),
                    router: None,
                    port: port.name.clone(),
                }));
            }
        }
        neighbours.sort_by_key(|neighbour| (neighbour.switch, neighbour.addr));
        neighbours
    }

    fn floating_addresses(&self) -> Vec<FloatingAddress> {
        let allowed = |port: &Port| {
            let networks = port.allowed_addresses.iter();
            networks.filter_map(|&network| single(network)).collect()
        };
        let floating = self.floating(allowed).into_iter();
        let floating = floating.map(|((switch, addr), ports)| FloatingAddress {
            switch,
            addr,
            ports,
        });
        floating.collect()
    }

    fn floating_macs(&self) -> Vec<FloatingMac> {
        let floating = self.floating(|port| port.allowed_macs.clone()).into_iter();
        let floating = floating.map(|((switch, mac), ports)| FloatingMac { switch, mac, ports });
        floating.collect()
    }

    /// The ports that have each of what `of` says of a port, by name.
    fn floating<T: Ord>(&self, of: impl Fn(&Port) -> Vec<T>) -> BTreeMap<(SwitchId, T), Vec<Name>> {
        let mut floating: BTreeMap<_, Vec<Name>> = BTreeMap::new();
        for Members { switch, ports, .. } in self.members.values() {
            for port in ports {
                for what in of(port) {
                    let ports = floating.entry((switch.id, what)).or_default();
                    ports.push(port.name.clone());
                }
            }
        }
        floating
    }

    fn routers(&self) -> Vec<RouterTable> {
        let routers = self.routers.iter();
        routers
            .filter_map(|router| routers::table(self.fabric, self.host, router))
            .collect()
    }

    fn remotes(&self) -> Vec<Remote> {
        self.others()
            .map(|remote| Remote {
                name: remote.name.clone(),
                addr: remote.underlay,
                header: template::outer(
                    &self.fabric.tunnel,
                    remote.options,
                    self.host.underlay,
                    remote.underlay,
                ),
                names_ports: self.fabric.tunnel.encapsulation == Encapsulation::Geneve
                    && remote.options == GeneveOptions::Ovn,
            })
            .collect()
    }
}
