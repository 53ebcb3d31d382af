//! What a feature adds to the fabric file of [`overlane_fabric`](super::overlane_fabric): rules of a firewall, routers, a
//! gateway with its leg, NAT.

use super::overlane_fabric::{Fabric, push as line};
use crate::topology::LEG;
use crate::topology::layout::{self, ROUTER_MAC, Subnet};
use overlane_analysis::record::{Family, Feature, Rules};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The priority of the rule that admits what is sent; that of the others is above it.
const LAST: u32 = 1;
/// The port of the first rule's service; each of the others has another one.
const FIRST_PORT: u32 = 10_000;

/// What the switches say of packets that no rule is for: to a port they are dropped.
pub(super) fn policy(feature: Feature) -> &'static str {
    match feature.rules() {
        None => "",
        Some(_) => ", firewall: { to_port: drop }",
    }
}

/// The sections that the feature adds.
pub(super) fn push(text: &mut String, fabric: &Fabric<'_>) {
    let feature = fabric.setting.feature;
    if let Some(rules) = feature.rules() {
        push_rules(text, fabric, rules);
    }
    if feature.is_routed() {
        push_routers(text, fabric);
    }
}

/// Rules for the ports of all switches. What is sent meets the last of them alone: the others are for peers that are not
/// there, each with a service of its own.
fn push_rules(text: &mut String, fabric: &Fabric<'_>, rules: Rules) {
    let switches: Vec<String> = (fabric.networks.iter())
        .map(|network| format!("lab{}", network.index))
        .collect();
    let switches = switches.join(", ");
    let action = if rules.stateful {
        "allow"
    } else {
        "allow_stateless"
    };
    line(text, format_args!("rules:"));
    for number in 1..rules.count {
        let (peer, port) = (absent_peer(fabric, number), FIRST_PORT + number);
        let priority = LAST + rules.count - number;
        line(
            text,
            format_args!(
                "  lab-rule{number}: {{ ports: [{switches}], direction: to_port, action: {action}, priority: {priority}, \
                 peers: [\"{peer}\"], services: [tcp/{port}] }}"
            ),
        );
    }
    line(
        text,
        format_args!(
            "  lab-rule{}: {{ ports: [{switches}], direction: to_port, action: {action}, priority: {LAST}, \
             peers: [{switches}], services: [tcp, udp] }}",
            rules.count
        ),
    );
    if !rules.stateful {
        // Without it the policy would begin connections in the other direction.
        line(
            text,
            format_args!(
                "  lab-out: {{ ports: [{switches}], direction: from_port, action: {action} }}"
            ),
        );
    }
}

/// An address that no guest has.
fn absent_peer(fabric: &Fabric<'_>, number: u32) -> IpAddr {
    let [_, _, high, low] = number.to_be_bytes();
    match fabric.setting.inner {
        Family::Ipv4 => Ipv4Addr::new(198, 19, high, low).into(),
        Family::Ipv6 => {
            let number = u16::from_be_bytes([high, low]);
            Ipv6Addr::new(0x2001, 2, 0, 0x200, 0, 0, 0, number).into()
        }
    }
}

/// A router for each switch of senders: it joins it to its switch of receivers, or to the physical network.
fn push_routers(text: &mut String, fabric: &Fabric<'_>) {
    let (setting, family) = (&fabric.setting, fabric.setting.inner);
    let (vnis, prefix) = (setting.vnis.max(1), layout::prefix(family));
    let mac = ROUTER_MAC.map(|byte| format!("{byte:02x}")).join(":");
    line(text, format_args!("routers:"));
    for index in 0..vnis {
        let near = Subnet::Guests.router(family);
        let mut interfaces = format!("lab{index}: [\"{near}/{prefix}\"]");
        if setting.feature.joins_switches() {
            let (far, index) = (Subnet::Far.router(family), index + vnis);
            // Writing to a string does not fail.
            let _ = write!(interfaces, ", lab{index}: [\"{far}/{prefix}\"]");
        }
        line(text, format_args!("  router{index}:"));
        line(text, format_args!("    mac: \"{mac}\""));
        line(text, format_args!("    interfaces: {{ {interfaces} }}"));
        if setting.feature.has_gateway() {
            push_gateway(text, fabric);
        }
    }
}

/// The second host is the gateway.
fn push_gateway(text: &mut String, fabric: &Fabric<'_>) {
    let family = fabric.setting.inner;
    let (leg, prefix) = (Subnet::Physical.router(family), layout::prefix(family));
    let Some((host, _)) = fabric.hosts.get(1) else {
        return;
    };
    line(text, format_args!("    gateway:"));
    line(text, format_args!("      host: {host}"));
    line(text, format_args!("      device: {LEG}"));
    line(text, format_args!("      addresses: [\"{leg}/{prefix}\"]"));
    if fabric.setting.feature == Feature::GatewayNat {
        let inside = Subnet::Guests.network(family);
        line(text, format_args!("      nat:"));
        line(
            text,
            format_args!("        - {{ source: \"{inside}/{prefix}\", outside: \"{leg}\" }}"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::overlane_fabric::tests::text;
    use super::*;
    use overlane_analysis::record::{Encapsulation, Setting};

    fn with(feature: Feature) -> String {
        let setting = Setting {
            feature,
            ..Setting::default()
        };
        text(Encapsulation::Vxlan, setting)
    }

    #[test]
    fn the_rule_that_admits_is_the_last_of_as_many_as_the_feature_says() {
        for (feature, count, action) in [
            (Feature::Firewall10, 10, "allow"),
            (Feature::Firewall1000, 1000, "allow"),
            (Feature::Stateless10, 10, "allow_stateless"),
        ] {
            let text = with(feature);
            let to_port: Vec<_> = text
                .lines()
                .filter(|line| line.contains("direction: to_port"))
                .collect();
            assert_eq!(to_port.len(), count, "{text}");
            let priority = |line: &str| -> u32 {
                let (_, from) = line.split_once("priority: ").unwrap();
                from.split(',').next().unwrap().parse().unwrap()
            };
            let falls = to_port
                .windows(2)
                .all(|two| priority(two[0]) > priority(two[1]));
            assert!(falls, "{text}");
            let last = format!(
                "  lab-rule{count}: {{ ports: [lab0], direction: to_port, action: {action}, priority: 1, \
                 peers: [lab0], services: [tcp, udp] }}"
            );
            assert_eq!(to_port[count - 1], last);
            assert!(text.contains("  lab0: { vni: 5001, firewall: { to_port: drop } }\n"));
            assert_eq!(text.contains("from_port"), feature == Feature::Stateless10);
        }
        let first = with(Feature::Firewall1000);
        assert!(
            first.contains("priority: 1000, peers: [\"198.19.0.1\"], services: [tcp/10001] }"),
            "{first}"
        );
        assert!(!with(Feature::Default).contains("rules"));
    }

    #[test]
    fn a_router_joins_two_switches() {
        let text = with(Feature::RoutingFirewall);
        let router = "routers:\n\
            \x20 router0:\n\
            \x20   mac: \"02:00:00:01:00:01\"\n\
            \x20   interfaces: { lab0: [\"198.18.100.254/24\"], lab1: [\"198.18.110.254/24\"] }\n";
        assert!(text.ends_with(router), "{text}");
        assert!(text.contains("  lab1: { vni: 5002, firewall: { to_port: drop } }\n"));
        assert!(text.contains("peers: [lab0, lab1], services: [tcp, udp] }\nrouters:"));
    }

    #[test]
    fn a_gateway_is_the_second_host_with_its_leg() {
        let plain = with(Feature::Gateway);
        let gateway = "    interfaces: { lab0: [\"198.18.100.254/24\"] }\n\
            \x20   gateway:\n\
            \x20     host: b\n\
            \x20     device: leg0\n\
            \x20     addresses: [\"198.18.120.254/24\"]\n";
        assert!(plain.ends_with(gateway), "{plain}");
        let nat =
            "      nat:\n        - { source: \"198.18.100.0/24\", outside: \"198.18.120.254\" }\n";
        assert_eq!(with(Feature::GatewayNat), format!("{plain}{nat}"));
    }

    #[test]
    fn addresses_are_of_the_guests_family() {
        let setting = Setting {
            inner: Family::Ipv6,
            feature: Feature::RoutingFirewall,
            ..Setting::default()
        };
        let text = text(Encapsulation::Geneve, setting);
        assert!(text.contains("lab1: [\"2001:2:0:110::fe/64\"]"), "{text}");
        assert!(text.contains("peers: [\"2001:2:0:200::9\"]"), "{text}");
    }
}
