//! `overlane flows FILE [SWITCH]`: what the whole deployment does with packets, switch by switch and
//! stage by stage, as if it were one switch. Read from the tables that each host gets, so it is what
//! the data paths do, and not a second opinion on the file.

mod text;

use std::net::IpAddr;

use overlane_model::{
    Attachment, CompileError, Dscp, Encapsulation, Fabric, FloodMember, GatewayHost, GuestVlan,
    Interface, Name, Neighbours, Place, Port, PortTable, Router, Security, Switch, SwitchId,
    Tables, UnknownUnicast,
};
use serde::Serialize;

use crate::args::Flows;
use crate::check;
use crate::failure::Failure;
use crate::output::Output;
use crate::places::Places;
use crate::trace::{PacketError, did_you_mean, printable};

/// The flows of one logical switch.
#[derive(Serialize)]
pub(crate) struct SwitchFlows {
    switch: String,
    vni: Option<u32>,
    uplink_vlan: Option<u16>,
    line: u32,
    /// `refuse` or `transparent`: VLAN tags of guests.
    guest_vlan: &'static str,
    /// Where unicast to nobody goes: `drop`, `flood` or `vlan_out`.
    unknown_unicast: &'static str,
    /// `asked` or `declared`: whom routers reach here.
    neighbours: String,
    /// Whether the sender of a packet that is too large is told so.
    path_mtu_discovery: bool,
    /// Whether the MSS of TCP that crosses the underlay is lowered to what fits.
    mss_clamp: bool,
    /// Whether addresses are learned, and for how many seconds from remotes.
    learn_age_s: Option<u32>,
    port_security: Vec<PortRule>,
    arp_nd: Vec<Answer>,
    l2_lookup: Vec<Forward>,
    route: Vec<SideRule>,
    flood: Vec<FloodRule>,
    /// Of a switch with a VNI.
    encap: Vec<EncapRule>,
    /// Of a switch on a VLAN.
    vlan_out: Vec<UplinkRule>,
}

/// What a port may send.
#[derive(Serialize)]
struct PortRule {
    port: String,
    host: String,
    device: String,
    /// The tag on the device, of a trunk port.
    vlan: Option<u16>,
    security: String,
    /// `None`: any.
    mac: Option<String>,
    /// `None`: any.
    addresses: Option<Vec<IpAddr>>,
    /// What it may use beside them, and beside `mac`.
    allowed_addresses: Vec<String>,
    allowed_macs: Vec<String>,
    dhcp_server: bool,
    router_advertisement: bool,
    learning: Option<Learning>,
    line: u32,
}

#[derive(Serialize)]
struct Learning {
    limit: u32,
    age_s: u32,
}

/// A question that is answered on the spot, unless the owner asks.
#[derive(Serialize)]
struct Answer {
    address: IpAddr,
    mac: String,
    port: String,
    line: u32,
}

/// Where frames to a MAC go.
#[derive(Serialize)]
struct Forward {
    mac: String,
    port: String,
    key: u16,
    host: String,
    device: String,
    vlan: Option<u16>,
    line: u32,
}

/// What a router of the switch does, on each of its sides, with addresses that nobody declares.
#[derive(Serialize)]
struct SideRule {
    router: String,
    /// The side: a switch,
    switch: Option<String>,
    /// or the leg of its gateway.
    leg: Option<String>,
    /// Its own addresses there, with the networks whose addresses it may ask for.
    networks: Vec<String>,
    /// `asked` or `dropped`.
    undeclared: &'static str,
    /// Who asks; `None`: each host for itself, or nobody.
    asks: Option<String>,
    line: u32,
}

/// Where copies go of a frame that comes from a port of a host.
#[derive(Serialize)]
struct FloodRule {
    host: String,
    ports: Vec<String>,
    hosts: Vec<String>,
    uplink: bool,
}

/// The outer header from one host to another.
#[derive(Serialize)]
struct EncapRule {
    from: String,
    to: String,
    source: IpAddr,
    destination: IpAddr,
    encapsulation: &'static str,
    /// Of Geneve: OVN's option with the logical ports, or none.
    options: Option<&'static str>,
    vni: u32,
    port: u16,
    source_ports: [u16; 2],
    /// `None`: that of the inner header.
    dscp: Option<u8>,
    /// Where the host it goes to is declared.
    line: u32,
}

#[derive(Serialize)]
struct UplinkRule {
    host: String,
    uplink: String,
    vlan: u16,
    line: u32,
}

pub(crate) fn run(args: &Flows, output: Output) -> Result<(), Failure> {
    let fabric = check::load(&args.file)?;
    let places = Places {
        fabric: &fabric,
        file: &args.file,
    };
    let flows = collect(&fabric, args.switch.as_ref().map(Name::as_str))?;
    if args.json {
        output.json(&flows)?;
    } else {
        text::show(&places, &flows, output)?;
    }
    Ok(())
}

/// The flows of one switch, or of all.
fn collect(fabric: &Fabric, only: Option<&str>) -> Result<Vec<SwitchFlows>, Failure> {
    let switches: Vec<&Switch> = match only {
        None => fabric.switches().values().collect(),
        Some(name) => {
            let found = fabric.switches().get(name);
            vec![found.ok_or_else(|| {
                let known = fabric.switches().keys().map(Name::as_str);
                PacketError::UnknownSwitch {
                    name: printable(name),
                    help: did_you_mean(name, known),
                }
            })?]
        }
    };
    let hosts = fabric.hosts().keys();
    let hosts = hosts.map(|host| fabric.compile(host.as_str()));
    let hosts = hosts.collect::<Result<Vec<Tables>, CompileError>>()?;
    let of = |switch| Collector {
        fabric,
        hosts: &hosts,
        switch,
    };
    Ok(switches
        .into_iter()
        .map(|switch| of(switch).flows())
        .collect())
}

/// Gathers the flows of one switch from the tables of all hosts.
struct Collector<'a> {
    fabric: &'a Fabric,
    hosts: &'a [Tables],
    switch: &'a Switch,
}

impl<'a> Collector<'a> {
    fn flows(&self) -> SwitchFlows {
        let tables = self.hosts.iter().flat_map(|host| &host.switches);
        let mut tables = tables.filter(|table| table.id == self.switch.id);
        SwitchFlows {
            switch: self.switch.name.to_string(),
            vni: self.switch.id.vni().map(|vni| vni.get()),
            uplink_vlan: self.switch.id.vlan().map(|vlan| vlan.get()),
            line: self.switch.line,
            guest_vlan: match self.switch.guest_vlan {
                GuestVlan::Refuse => "refuse",
                GuestVlan::Transparent => "transparent",
            },
            unknown_unicast: match (self.switch.unknown_unicast, self.switch.id) {
                (UnknownUnicast::Flood, _) => "flood",
                (UnknownUnicast::Drop, SwitchId::Vni(_)) => "drop",
                (UnknownUnicast::Drop, SwitchId::Vlan(_)) => "vlan_out",
            },
            neighbours: self.switch.neighbours.to_string(),
            path_mtu_discovery: self.switch.path_mtu_discovery,
            mss_clamp: self.switch.mss_clamp,
            learn_age_s: tables.find_map(|table| table.learn_age_s),
            port_security: self.port_security(),
            arp_nd: self.arp_nd(),
            l2_lookup: self.l2_lookup(),
            route: self.route(),
            flood: self.flood(),
            encap: self.encap(),
            vlan_out: self.vlan_out(),
        }
    }

    fn port(&self, name: &Name) -> Option<&'a Port> {
        self.fabric.ports().get(name)
    }

    /// The hosts that carry the switch, with their ports in it.
    fn members(&self) -> impl Iterator<Item = (&'a Tables, Vec<&'a PortTable>)> {
        let id = self.switch.id;
        let of_host = move |host: &'a Tables| {
            let ports = host.ports.iter().filter(move |port| port.switch == id);
            (host, ports.collect::<Vec<_>>())
        };
        let hosts = self.hosts.iter().map(of_host);
        hosts.filter(|(_, ports)| !ports.is_empty())
    }

    fn port_security(&self) -> Vec<PortRule> {
        let mut rules = Vec::new();
        for (host, ports) in self.members() {
            rules.extend(ports.into_iter().filter_map(|table| {
                let port = self.port(&table.name)?;
                let rule = table.security;
                // Without a check there is nothing to be allowed.
                let free = port.security == Security::Off;
                Some(PortRule {
                    port: table.name.to_string(),
                    host: host.host.to_string(),
                    device: table.attachment.device.to_string(),
                    vlan: vlan(&table.attachment),
                    security: port.security.to_string(),
                    mac: rule.check_mac.then(|| table.mac.to_string()),
                    addresses: rule.check_addresses.then(|| port.addresses.clone()),
                    allowed_addresses: texts(&table.allowed_addresses),
                    allowed_macs: texts(&table.allowed_macs),
                    dhcp_server: free || rule.allow_dhcp_server,
                    router_advertisement: free || rule.allow_router_advertisement,
                    learning: table.learning.map(|learning| Learning {
                        limit: learning.limit,
                        age_s: learning.age_s,
                    }),
                    line: port.line,
                })
            }));
        }
        rules.sort_by(|one, other| one.port.cmp(&other.port));
        rules
    }

    /// What any of its hosts knows: all know the same.
    fn arp_nd(&self) -> Vec<Answer> {
        let Some((host, _)) = self.members().next() else {
            return Vec::new();
        };
        let of_switch = host.neighbours.iter();
        let of_switch = of_switch.filter(|neighbour| neighbour.switch == self.switch.id);
        let answer = |neighbour: &overlane_model::Neighbour| {
            Some(Answer {
                address: neighbour.addr,
                mac: neighbour.mac.to_string(),
                port: neighbour.port.to_string(),
                line: self.port(&neighbour.port)?.line,
            })
        };
        of_switch.filter_map(answer).collect()
    }

    /// Each MAC as the host has it on which it is a port.
    fn l2_lookup(&self) -> Vec<Forward> {
        let mut entries = Vec::new();
        for (host, _) in self.members() {
            let of_switch = host
                .fdb
                .iter()
                .filter(|entry| entry.switch == self.switch.id);
            entries.extend(of_switch.filter_map(|entry| {
                let Place::Local(attachment) = &entry.place else {
                    return None;
                };
                Some(Forward {
                    mac: entry.mac.to_string(),
                    port: entry.port.to_string(),
                    key: entry.key.get(),
                    host: host.host.to_string(),
                    device: attachment.device.to_string(),
                    vlan: vlan(attachment),
                    line: self.port(&entry.port)?.line,
                })
            }));
        }
        entries.sort_by(|one, other| one.mac.cmp(&other.mac));
        entries
    }

    /// All sides of each router that has an interface on the switch: what is for it may leave by any of them.
    fn route(&self) -> Vec<SideRule> {
        let routers = self.fabric.routers().values();
        let of_switch = routers.filter(|router| {
            let mut interfaces = router.interfaces.iter();
            interfaces.any(|interface| interface.switch == self.switch.name)
        });
        of_switch.flat_map(|router| self.sides(router)).collect()
    }

    fn sides(&self, router: &Router) -> Vec<SideRule> {
        let acting = self.fabric.acting_host(router);
        let asker = || acting.map(|host| host.name.to_string());
        let on_switch = |interface: &Interface| {
            let switch = self.fabric.switches().get(&interface.switch);
            let asks = switch.is_some_and(|switch| switch.neighbours == Neighbours::Asked);
            SideRule {
                router: router.name.to_string(),
                switch: Some(interface.switch.to_string()),
                leg: None,
                networks: texts(&interface.addresses),
                undeclared: if asks { "asked" } else { "dropped" },
                asks: asker().filter(|_| asks),
                line: interface.line,
            }
        };
        let on_leg = |gateway: &GatewayHost| {
            Some(SideRule {
                router: router.name.to_string(),
                switch: None,
                leg: Some(gateway.device.as_ref()?.to_string()),
                networks: texts(&gateway.addresses),
                undeclared: "asked",
                asks: asker(),
                line: gateway.line,
            })
        };
        let switches = router.interfaces.iter().map(on_switch);
        let leg = router.gateway.as_ref().and_then(on_leg);
        switches.chain(leg).collect()
    }

    fn flood(&self) -> Vec<FloodRule> {
        let rule = |(host, ports): (&Tables, Vec<&PortTable>)| {
            let table = host
                .switches
                .iter()
                .find(|table| table.id == self.switch.id)?;
            let (mut to_ports, mut to_hosts) = (Vec::new(), Vec::new());
            for member in &table.flood {
                match member {
                    FloodMember::Local(attachment) => {
                        let port = ports.iter().find(|port| port.attachment == *attachment);
                        to_ports.extend(port.map(|port| port.name.to_string()));
                    }
                    FloodMember::Remote(remote) => {
                        let remote = host.remotes.iter().find(|other| other.addr == *remote);
                        to_hosts.extend(remote.map(|remote| remote.name.to_string()));
                    }
                }
            }
            Some(FloodRule {
                host: host.host.to_string(),
                ports: to_ports,
                hosts: to_hosts,
                uplink: self.switch.id.vlan().is_some(),
            })
        };
        self.members().filter_map(rule).collect()
    }

    /// One for each ordered pair of hosts that both carry the switch.
    fn encap(&self) -> Vec<EncapRule> {
        let Some(vni) = self.switch.id.vni() else {
            return Vec::new();
        };
        let tunnel = self.fabric.tunnel();
        let mut rules = Vec::new();
        for (from, _) in self.members() {
            for (to, _) in self.members().filter(|(to, _)| to.host != from.host) {
                let remote = from.remotes.iter().find(|remote| remote.name == to.host);
                let host = self.fabric.hosts().get(&to.host);
                let (Some(remote), Some(host)) = (remote, host) else {
                    continue;
                };
                rules.push(EncapRule {
                    from: from.host.to_string(),
                    to: to.host.to_string(),
                    source: from.vtep,
                    destination: remote.addr,
                    encapsulation: tunnel.encapsulation.name(),
                    options: (tunnel.encapsulation == Encapsulation::Geneve)
                        .then_some(host.options.name()),
                    vni: vni.get(),
                    port: tunnel.port,
                    source_ports: [*tunnel.source_ports.start(), *tunnel.source_ports.end()],
                    dscp: match tunnel.dscp {
                        Dscp::Fixed(dscp) => Some(dscp),
                        Dscp::Copy => None,
                    },
                    line: host.line,
                });
            }
        }
        rules
    }

    fn vlan_out(&self) -> Vec<UplinkRule> {
        let Some(vlan) = self.switch.id.vlan() else {
            return Vec::new();
        };
        let rule = |(host, _): (&Tables, Vec<&PortTable>)| {
            Some(UplinkRule {
                host: host.host.to_string(),
                uplink: host.uplink.to_string(),
                vlan: vlan.get(),
                line: self.fabric.hosts().get(&host.host)?.line,
            })
        };
        self.members().filter_map(rule).collect()
    }
}

fn texts<T: ToString>(values: &[T]) -> Vec<String> {
    values.iter().map(T::to_string).collect()
}

fn vlan(attachment: &Attachment) -> Option<u16> {
    attachment.vlan.map(|vlan| vlan.get())
}
