//! A router whose leg is on this host takes no packets that are for the host: `apply` refuses, and changes nothing.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::net::IpAddr;

use common::{World, assert_same, can_run, snapshot};
use overlane_host::HostError;

/// A gateway with a leg, two outside addresses and a network inside, which a next hop lengthens.
fn fabric(world: &World) -> String {
    format!(
        "{}routers:\n  r1:\n    interfaces: {{ blue: [198.18.100.254/24, \"2001:2:0:1::fe/64\"] }}\n    \
         routes: [{{ to: 198.18.120.0/24, via: 198.18.100.9 }}, {{ to: \"::/0\", via: \"2001:2:0:1::9\" }}]\n    \
         gateway:\n      host: {}\n      device: phys0\n      addresses: [198.19.0.2/24]\n      nat:\n        \
         - {{ source: 198.18.100.0/24, outside: 198.19.0.20 }}\n",
        world.fabric("geneve", 6081, ""),
        world.host(1)
    )
}

/// Where a gateway, and an interface, begin in the file.
const GATEWAY: &str = "      host: ";
const INTERFACE: &str = "blue: [198.18.100.254/24";

/// The line on which a text stands.
fn line(text: &str, of: &str) -> usize {
    1 + text.lines().position(|line| line.contains(of)).unwrap()
}

fn apply_refused(world: &World, text: &str) -> String {
    let before = snapshot(world, 1);
    let error = world.apply(text, 1).unwrap_err();
    assert_same(&before, &snapshot(world, 1), "a refused address");
    assert!(
        matches!(error, HostError::TakenAddresses { .. }),
        "{error:?}"
    );
    assert!(error.help().unwrap().contains("nothing was changed"));
    error.to_string()
}

fn world() -> World {
    let world = World::new(1);
    let netlink = world.netlink(1);
    netlink.add_veth("phys0", "phys1", None).unwrap();
    netlink.add_veth("other0", "other1", None).unwrap();
    for device in ["phys0", "other0", "lo"] {
        netlink.set_up(device).unwrap();
    }
    world
}

fn addr(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn an_address_of_the_host_is_no_routers() {
    if !can_run("an_address_of_the_host_is_no_routers") {
        return;
    }
    for (device, address, by) in [
        ("phys0", "198.19.0.2", Some(GATEWAY)),
        ("other0", "198.19.0.2", Some(GATEWAY)),
        ("lo", "198.19.0.20", Some("outside:")),
        ("lo", "198.18.100.254", Some(INTERFACE)),
        ("phys0", "2001:2:0:1::fe", Some(INTERFACE)),
        ("lo", "198.18.100.1", None),
    ] {
        let world = world();
        world
            .netlink(1)
            .add_address(device, addr(address), 32)
            .unwrap();
        let text = fabric(&world);
        let said = apply_refused(&world, &text);
        let by = by.map_or_else(
            || "address of port web1 inside router r1".to_owned(),
            |of| format!("address of router r1, line {}", line(&text, of)),
        );
        assert!(
            said.contains(&format!("{address} of {device} ({by})")),
            "{said}"
        );
        assert!(
            said.contains(&format!("namespace {}", world.netns(1))),
            "{said}"
        );
    }
}

/// What comes by the leg for a network inside is the router's, whoever has the address.
#[test]
fn an_address_of_the_leg_is_in_no_network_inside() {
    if !can_run("an_address_of_the_leg_is_in_no_network_inside") {
        return;
    }
    let world = world();
    let netlink = world.netlink(1);
    for address in ["198.18.100.77", "198.18.120.7"] {
        netlink.add_address("phys0", addr(address), 32).unwrap();
    }
    let text = fabric(&world);
    let said = apply_refused(&world, &text);
    for (address, network, of) in [
        ("198.18.100.77", "198.18.100.0/24", INTERFACE),
        ("198.18.120.7", "198.18.120.0/24", "to: 198.18.120.0/24"),
    ] {
        let line = line(&text, of);
        let part = format!("{address} of phys0 (in {network} inside router r1, line {line})");
        assert!(said.contains(&part), "{said}");
    }
}

#[test]
fn other_addresses_of_the_host_stay_its_own() {
    if !can_run("other_addresses_of_the_host_stay_its_own") {
        return;
    }
    let world = world();
    let netlink = world.netlink(1);
    // Beside the router on the leg; inside, but on a device of its own: a port of this host, or a network that has
    // the same addresses by chance.
    for (device, address) in [
        ("phys0", "198.19.0.3"),
        ("phys0", "fe80::2"),
        ("other0", "198.18.100.1"),
        ("other0", "198.18.120.7"),
        ("lo", "198.18.120.8"),
    ] {
        netlink.add_address(device, addr(address), 32).unwrap();
    }
    world.apply(&fabric(&world), 1).unwrap();

    // Without a leg here nothing comes to the router from outside.
    let text = fabric(&world);
    let (before, _) = text.split_once("    routes:").unwrap();
    netlink
        .add_address("lo", addr("198.18.100.254"), 32)
        .unwrap();
    world.apply(before, 1).unwrap();
}
