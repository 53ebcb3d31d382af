//! The fabric file of a topology, as a user would write it (docs/fabric.md), for the backends of
//! [`overlane`](super::overlane). What a feature adds to it is in [`overlane_services`](super::overlane_services).

use super::overlane_services;
use crate::topology::{Guest, GuestPort, Network, Topology, UPLINK};
use overlane_analysis::record::{Encapsulation, Family, Feature, Setting};
use std::fmt::Write;
use std::net::IpAddr;

/// What the file needs to know of a topology.
pub(super) struct Fabric<'a> {
    pub(super) encapsulation: Encapsulation,
    pub(super) setting: Setting,
    /// Names and underlay addresses.
    pub(super) hosts: Vec<(&'a str, IpAddr)>,
    pub(super) networks: Vec<Network>,
    /// Of each host in turn.
    pub(super) ports: Vec<FabricPort<'a>>,
}

/// A guest's device on a host: one port for each of its networks.
pub(super) struct FabricPort<'a> {
    /// Of the guest, `guest1`.
    pub(super) name: &'a str,
    pub(super) host: &'a str,
    pub(super) device: &'a str,
    pub(super) mac: [u8; 6],
    pub(super) address: IpAddr,
    pub(super) networks: std::ops::Range<u32>,
    pub(super) vlans: &'a [u16],
}

impl<'a> Fabric<'a> {
    /// The fabric of a topology whose hosts have these names in it, and whose machines are at these hosts, pair by pair.
    pub(super) fn of(topology: &'a Topology, names: &'a [String], homes: &[usize]) -> Self {
        let hosts = names.iter().enumerate();
        let port = |host: &'a str, guest: &'a Guest, port: &'a GuestPort| FabricPort {
            name: &guest.node.place,
            host,
            device: &port.host_device,
            mac: guest.mac,
            address: guest.address,
            networks: port.networks.clone(),
            vlans: &port.vlans,
        };
        let is_elsewhere = |guest: &Guest, host: usize| {
            let mut pairs = topology.pairs.iter().zip(homes);
            pairs.any(|(pair, home)| pair.sender.mac == guest.mac && *home != host)
        };
        Self {
            encapsulation: topology.backend.encapsulation(),
            setting: topology.setting,
            networks: topology.networks().collect(),
            ports: hosts
                .clone()
                .flat_map(|(index, name)| {
                    let on_host = topology.ports_on(index);
                    let is_here = |(guest, _): &(&Guest, _)| !is_elsewhere(guest, index);
                    let here: Vec<_> = on_host.filter(is_here).collect();
                    here.into_iter()
                        .map(move |(guest, each)| port(name, guest, each))
                })
                .collect(),
            hosts: hosts
                .map(|(index, name)| (name.as_str(), topology.host_address(index)))
                .collect(),
        }
    }

    /// The file.
    pub(super) fn text(&self) -> String {
        let mut text = String::from("version: 1\n");
        let tunnel = match self.encapsulation {
            Encapsulation::Vxlan => Some("vxlan"),
            Encapsulation::Geneve => Some("geneve"),
            Encapsulation::Vlan | Encapsulation::None => None,
        };
        let ipv6 = self.setting.underlay == Family::Ipv6;
        // Over IPv6 the file has to say that outer checksums are zero (RFC 6936), also for a fabric
        // without tunnels.
        let zero = ipv6.then_some("udp6_zero_checksum: true");
        let tunnel = tunnel.map(|name| format!("encapsulation: {name}"));
        let settings: Vec<&str> = tunnel.iter().map(String::as_str).chain(zero).collect();
        if !settings.is_empty() {
            push(
                &mut text,
                format_args!("tunnel: {{ {} }}", settings.join(", ")),
            );
        }
        push(&mut text, format_args!("hosts:"));
        for (name, address) in &self.hosts {
            let line = format_args!("  {name}: {{ underlay: \"{address}\", uplink: {UPLINK} }}");
            push(&mut text, line);
        }
        push(&mut text, format_args!("switches:"));
        let policy = overlane_services::policy(self.setting.feature);
        for network in &self.networks {
            let (index, on) = (network.index, self.on_underlay(network));
            push(&mut text, format_args!("  lab{index}: {{ {on}{policy} }}"));
        }
        push(&mut text, format_args!("ports:"));
        for port in &self.ports {
            self.push_ports(&mut text, port);
        }
        overlane_services::push(&mut text, self);
        text
    }

    fn on_underlay(&self, network: &Network) -> String {
        match self.encapsulation {
            Encapsulation::Vlan => format!("uplink_vlan: {}", network.vlan),
            _ => format!("vni: {}", network.vni),
        }
    }

    /// A port for each network of a guest's device.
    fn push_ports(&self, text: &mut String, port: &FabricPort<'_>) {
        let security = match self.setting.feature {
            Feature::SecurityOff => ", security: \"off\"",
            _ => "",
        };
        let mac = port.mac.map(|byte| format!("{byte:02x}")).join(":");
        for (number, network) in port.networks.clone().enumerate() {
            let vlan = port.vlans.get(number);
            let vlan = vlan.map_or(String::new(), |vlan| format!(", vlan: {vlan}"));
            let FabricPort {
                name,
                host,
                device,
                address,
                ..
            } = port;
            let name = port_name(name, network);
            let line = format_args!(
                "  {name}: {{ switch: lab{network}, host: {host}, device: {device}{vlan}, \
                 mac: \"{mac}\", addresses: [\"{address}\"]{security} }}"
            );
            push(text, line);
        }
    }
}

/// A guest's port in one of its networks.
pub(super) fn port_name(guest: &str, network: u32) -> String {
    format!("{guest}-{network}")
}

pub(super) fn push(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::topology::layout;

    pub(in super::super) fn text(encapsulation: Encapsulation, setting: Setting) -> String {
        let ports = layout::ports(&setting, 0);
        let fabric = Fabric {
            encapsulation,
            setting,
            hosts: vec![
                ("a", layout::host_address(setting.underlay, 0)),
                ("b", layout::host_address(setting.underlay, 1)),
            ],
            networks: (0..setting.networks())
                .map(|index| Network::of(&setting, index))
                .collect(),
            ports: vec![FabricPort {
                name: "guest1",
                host: "a",
                device: "port0",
                mac: layout::guest_mac(1),
                address: layout::guest_address(&setting, 1),
                networks: ports[0].networks.clone(),
                vlans: &ports[0].vlans,
            }],
        };
        fabric.text()
    }

    #[test]
    fn hosts_switches_and_ports() {
        let text = text(Encapsulation::Geneve, Setting::default());
        let expected = "version: 1\n\
            tunnel: { encapsulation: geneve }\n\
            hosts:\n\
            \x20 a: { underlay: \"198.18.0.1\", uplink: uplink }\n\
            \x20 b: { underlay: \"198.18.0.2\", uplink: uplink }\n\
            switches:\n\
            \x20 lab0: { vni: 5001 }\n\
            ports:\n\
            \x20 guest1-0: { switch: lab0, host: a, device: port0, mac: \"02:00:00:00:00:01\", \
            addresses: [\"198.18.100.1\"] }\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_trunk_is_a_port_for_each_tag() {
        let setting = Setting {
            vnis: 3,
            ..Setting::default()
        };
        let text = text(Encapsulation::Vxlan, setting);
        assert!(text.contains("\n  lab2: { vni: 5003 }\n"), "{text}");
        assert!(
            text.contains("  guest1-2: { switch: lab2, host: a, device: port0, vlan: 3, mac: "),
            "{text}"
        );
        assert_eq!(text.matches("vlan: ").count(), 3, "{text}");
    }

    #[test]
    fn ipv6_asks_for_zero_checksums_and_security_can_be_off() {
        let setting = Setting {
            inner: Family::Ipv6,
            underlay: Family::Ipv6,
            feature: Feature::SecurityOff,
            ..Setting::default()
        };
        let text = text(Encapsulation::Vxlan, setting);
        assert!(
            text.contains("tunnel: { encapsulation: vxlan, udp6_zero_checksum: true }\n"),
            "{text}"
        );
        assert!(text.contains("underlay: \"2001:2::2\""), "{text}");
        assert!(
            text.contains("addresses: [\"2001:2:0:100::1\"], security: \"off\" }"),
            "{text}"
        );
    }

    #[test]
    fn a_vlan_has_no_tunnel() {
        let text = text(Encapsulation::Vlan, Setting::default());
        assert!(text.contains("  lab0: { uplink_vlan: 100 }\n"), "{text}");
        assert!(!text.contains("tunnel") && !text.contains("vni"), "{text}");
    }
}
