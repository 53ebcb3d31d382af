//! The guard on a real namespace: written with the ports, repaired, told and taken away.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{World, can_run, changes};
use overlane_host::observe::{self, GuardState};
use overlane_host::paths;
use overlane_net::nftables::{Family, Nftables};

#[test]
fn the_guard_follows_the_ports_and_is_repaired() {
    if !can_run("the_guard_follows_the_ports") {
        return;
    }
    let world = World::new(1);
    let (host, netns) = (world.host(1), world.ns(1));
    let table = paths::guard_table(&host);
    let states = || -> Vec<_> {
        let guard = observe::ports(&host).unwrap().guard.unwrap();
        assert_eq!(guard.table, table);
        guard.families.iter().map(|row| row.state).collect()
    };
    let devices = |family| {
        let read = || Nftables::new().unwrap().read(family, &table).unwrap();
        let names = netns.run(read).unwrap().map(|table| table.devices);
        names.map(|names| names.into_iter().collect::<Vec<_>>().join(" "))
    };
    let line = |families: &str| format!("guard: nftables table {table} ({families})");

    let text = world.fabric("vxlan", 4789, "");
    let first = changes(&world.apply(&text, 1).unwrap());
    assert!(first.contains(&format!("+ {}", line("inet, arp, bridge"))));
    assert_eq!(states(), [GuardState::Ok; 3]);

    // A trunk's device once.
    world.netlink(1).add_veth("trunk", "trunk1", None).unwrap();
    let port = |number: u8| {
        format!(
            "  t{number}: {{ switch: blue, host: {host}, device: trunk, vlan: {number}, mac: \"02:00:00:00:01:{number}\" }}\n"
        )
    };
    let more = format!("{text}{}{}", port(10), port(20));
    let second = changes(&world.apply(&more, 1).unwrap());
    assert!(second.contains(&format!("~ {}", line("inet, arp, bridge"))));
    for family in Family::ALL {
        assert_eq!(devices(family).as_deref(), Some("trunk web1"));
    }

    // Somebody flushed the ruleset of one family, and changed that of another.
    let damage = || {
        let tables = Nftables::new().unwrap();
        tables.destroy(Family::Arp, &table).unwrap();
        let other = ["lo".to_owned()].into();
        tables
            .replace_devices(Family::Inet, &table, &other)
            .unwrap();
    };
    netns.run(damage).unwrap();
    let (ok, changed, missing) = (GuardState::Ok, GuardState::Changed, GuardState::Missing);
    assert_eq!(states(), [changed, missing, ok]);
    let repaired = changes(&world.apply(&more, 1).unwrap());
    assert_eq!(
        repaired,
        [format!("~ {}", line("inet")), format!("+ {}", line("arp"))]
    );
    assert_eq!(states(), [ok; 3]);

    // Without ports there is nothing to guard.
    let none: String = text
        .lines()
        .filter(|line| !line.starts_with("  web1:"))
        .map(|line| format!("{line}\n"))
        .collect();
    let last = changes(&world.apply(&none, 1).unwrap());
    assert!(last.contains(&format!("- {}", line("inet, arp, bridge"))));
    assert_eq!(Family::ALL.map(devices), [None, None, None]);
    assert_eq!(observe::ports(&host).unwrap().guard, None);
}
