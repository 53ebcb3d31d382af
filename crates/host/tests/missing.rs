//! A device that the fabric names and the namespace lacks: all else is applied, and its port is closed and known.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{World, assert_same, build_without_stages, can_run, changes, snapshot, with_object};
use overlane_host::observe::{self, PortState};
use overlane_host::{ApplyRequest, HostError, Report, Testing, UnfitDevice, UsedAs, apply, paths};
use overlane_net::Netlink;
use overlane_net::netns::Netns;
use overlane_net::nftables::{Family, Nftables};

/// Of the port whose device comes and goes.
const ADDRESS: &str = "198.18.100.33";

fn fabric(world: &World, encapsulation: &str, port: u16) -> String {
    let host = world.host(1);
    let more = format!(
        "  late: {{ switch: blue, host: {host}, device: late0, mac: \"02:00:00:00:00:21\", \
         addresses: [{ADDRESS}], key: 33 }}\n"
    );
    world.fabric(encapsulation, port, &more)
}

fn late() -> UnfitDevice {
    UnfitDevice {
        device: "late0".into(),
        used_as: UsedAs::Port,
        by: vec!["late".into()],
        elsewhere: None,
    }
}

fn states(world: &World) -> Vec<PortState> {
    let ports = observe::ports(&world.host(1)).unwrap().ports;
    ports.iter().map(|port| port.state).collect()
}

/// Names of the devices that the guard closes.
fn guarded(world: &World) -> String {
    let table = paths::guard_table(&world.host(1));
    let read = || Nftables::new().unwrap().read(Family::Inet, &table).unwrap();
    let devices = world.ns(1).run(read).unwrap().unwrap().devices;
    devices.into_iter().collect::<Vec<_>>().join(" ")
}

fn no_ports(world: &World, hook: &str) -> u64 {
    let verdicts = observe::counters(&world.host(1)).unwrap().verdicts;
    let mut verdicts = verdicts.into_iter();
    let row = verdicts.find(|row| (row.hook, row.verdict) == (hook, "no_port"));
    row.map_or(0, |row| row.count.packets)
}

fn ping_late(world: &World, from: usize) -> bool {
    let guest = Netns::open(&world.guest(from)).unwrap();
    let mut ping = guest.command("ping");
    ping.args(["-n", "-q", "-W", "1", "-c", "1", ADDRESS]);
    ping.output().unwrap().status.success()
}

/// The device, with the guest behind it that the fabric declares.
fn plug_in(world: &World) {
    let guest = Netns::open(&world.guest(1)).unwrap();
    let netlink = world.netlink(1);
    netlink.add_veth("late0", "late", Some(&guest)).unwrap();
    netlink.set_up("late0").unwrap();
}

fn applied(world: &World, text: &str) -> Report {
    world.apply(text, 1).unwrap()
}

#[test]
fn all_but_a_missing_device_is_applied_and_it_joins_when_it_comes() {
    if !can_run("missing") {
        return;
    }
    for (encapsulation, port) in [("geneve", 6081), ("vxlan", 4789)] {
        let world = World::new(2);
        let text = fabric(&world, encapsulation, port);
        world.apply(&text, 2).unwrap();

        let dry = world
            .apply_with(&text, 1, true, Testing::default())
            .unwrap();
        assert_eq!(dry.missing, [late()]);
        let first = applied(&world, &text);
        assert_eq!(first.missing, [late()]);
        let line = |sign, words| format!("{sign} port late (device late0, key 33){words}");
        let missing = ": its device is missing";
        assert!(changes(&first).contains(&line('+', missing)));
        assert_eq!(changes(&dry), changes(&first));
        assert_eq!(states(&world), [PortState::Missing, PortState::Ok]);
        assert_eq!(guarded(&world), "late0 web1");
        let again = applied(&world, &text);
        assert_eq!((changes(&again), again.missing), (vec![], vec![late()]));

        // What else there is works, and what goes to the port ends here by its name.
        assert!(world.ping(1, 2, 2));
        for (from, hook) in [(1, "from_port"), (2, "from_underlay")] {
            let before = no_ports(&world, hook);
            assert!(!ping_late(&world, from));
            assert_eq!(no_ports(&world, hook), before + 1, "{encapsulation} {hook}");
        }

        plug_in(&world);
        assert_eq!(states(&world), [PortState::Detached, PortState::Ok]);
        let came = applied(&world, &text);
        assert!(changes(&came).contains(&line('~', ": its device is there")));
        assert_eq!(came.missing, []);
        // Nobody has brought up the guest's end.
        assert_eq!(states(&world), [PortState::NoCarrier, PortState::Ok]);
        let guest = Netns::open(&world.guest(1)).unwrap();
        let guest = Netlink::in_netns(&guest).unwrap();
        guest.set_up("late").unwrap();
        assert_eq!(states(&world), [PortState::Ok; 2]);
        world.netlink(1).set_down("late0").unwrap();
        assert_eq!(states(&world), [PortState::Down, PortState::Ok]);

        world.netlink(1).delete("late0").unwrap();
        let gone = applied(&world, &text);
        assert_eq!(changes(&gone)[0], line('~', missing));
        assert_eq!(gone.missing, [late()]);
        assert_eq!(states(&world), [PortState::Missing, PortState::Ok]);
        // The name is closed for whoever makes it again.
        assert_eq!(guarded(&world), "late0 web1");
        let link = paths::link(overlane_ebpf::Program::FromPort, "late0");
        assert!(!paths::links(&world.host(1)).join(link).exists());
        let before = no_ports(&world, "from_underlay");
        assert!(!ping_late(&world, 2));
        assert_eq!(no_ports(&world, "from_underlay"), before + 1);
    }
}

/// Before each operation, until there is none that it could go before.
#[test]
fn a_device_that_goes_meanwhile_is_missing() {
    if !can_run("goes_meanwhile") {
        return;
    }
    let object = build_without_stages();
    let quickly = with_object(&object);
    let world = World::new(1);
    let host = world.host(1);
    let before = format!(
        "{}routers:\n  r1:\n    interfaces: {{ blue: [198.18.100.254/24] }}\n",
        world.fabric("vxlan", 4789, "")
    );
    let leg = format!(
        "    routes: [{{ to: 0.0.0.0/0, via: 198.19.0.1 }}]\n    \
         gateway: {{ host: {host}, device: late0, addresses: [198.19.0.2/24], \
         nat: [{{ source: 198.18.100.0/24, outside: 198.19.0.2 }}] }}\n"
    );
    for after in [fabric(&world, "vxlan", 4789), format!("{before}{leg}")] {
        let mut noticed = 0;
        for at in 0.. {
            world.apply_with(&before, 1, false, quickly).unwrap();
            plug_in(&world);
            let lose_at = Some((at, "late0"));
            let testing = Testing { lose_at, ..quickly };
            let report = world.apply_with(&after, 1, false, testing).unwrap();
            if world.netlink(1).delete("late0").is_ok() {
                assert!(at > 5 && noticed > 2, "{at} {noticed}");
                break;
            }
            noticed += report.missing.len();
            let ports = observe::ports(&host).unwrap();
            let states = ports.ports.iter().map(|row| (&row.device, row.state));
            let states = states.chain(ports.others.iter().map(|row| (&row.device, row.state)));
            let late: Vec<_> = states.filter(|(device, _)| *device == "late0").collect();
            assert_eq!(late, [(&"late0".to_owned(), PortState::Missing)], "{at}");
        }
    }
}

/// Before each operation another device gets the name and the index of a port's device that stays.
#[test]
fn a_device_that_another_one_replaces_meanwhile_is_not_taken_for_it() {
    if !can_run("replaced_meanwhile") {
        return;
    }
    let object = build_without_stages();
    let quickly = with_object(&object);
    let world = World::new(1);
    let [before, after] = [4789, 4790].map(|port| fabric(&world, "vxlan", port));
    let mut unseen = 0;
    for at in 0.. {
        plug_in(&world);
        world.apply_with(&before, 1, false, quickly).unwrap();
        let testing = Testing {
            lose_at: Some((at, "late0")),
            replace_lost: true,
            ..quickly
        };
        world.apply_with(&after, 1, false, testing).unwrap();
        let netlink = world.netlink(1);
        if netlink.link("late0").unwrap().up {
            assert!(at > 5 && unseen > 0, "{at} {unseen}");
            break;
        }
        // Taken as the port's new device, or known not to be the old one.
        let state = states(&world)[0];
        unseen += usize::from(state == PortState::Detached);
        assert!(
            [PortState::Down, PortState::Detached].contains(&state),
            "{at}: {state:?}"
        );
        world.apply_with(&after, 1, false, quickly).unwrap();
        assert_eq!(states(&world)[0], PortState::Down, "{at}");
        netlink.delete("late0").unwrap();
    }
}

#[test]
fn who_is_strict_gets_all_or_nothing() {
    if !can_run("strict") {
        return;
    }
    let world = World::new(1);
    let (tables, netns) = (
        world.tables(&fabric(&world, "vxlan", 4789), 1),
        world.netns(1),
    );
    let before = snapshot(&world, 1);
    let request = ApplyRequest {
        netns: Some(&netns),
        strict: true,
        ..ApplyRequest::new(&tables)
    };
    let error = apply(&request).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("no such device: late0 (port late)")
    );
    assert!(error.help().unwrap().contains("without --strict"));
    assert!(matches!(error, HostError::MissingDevices { .. }));
    assert_same(&before, &snapshot(&world, 1), "strict");
}

#[test]
fn without_the_uplink_nothing_is_applied_and_a_missing_port_is_no_error() {
    if !can_run("uplink") {
        return;
    }
    let world = World::new(1);
    let text = fabric(&world, "vxlan", 4789).replace("uplink: eth1", "uplink: eth9");
    let before = snapshot(&world, 1);
    let error = world.apply(&text, 1).unwrap_err();
    let said = format!(
        "no such device: eth9 (uplink) (namespace {})",
        world.netns(1)
    );
    assert_eq!(error.to_string(), said);
    assert_eq!(error.missing_besides(), [late()]);
    assert_same(&before, &snapshot(&world, 1), "uplink");

    // Who is strict is told of all: each is an error.
    let (tables, netns) = (world.tables(&text, 1), world.netns(1));
    let request = ApplyRequest {
        netns: Some(&netns),
        strict: true,
        ..ApplyRequest::new(&tables)
    };
    let error = apply(&request).unwrap_err();
    let said = "no such device: eth9 (uplink), late0 (port late) (";
    assert!(error.to_string().starts_with(said), "{error}");
    assert_eq!(error.missing_besides(), []);
}
