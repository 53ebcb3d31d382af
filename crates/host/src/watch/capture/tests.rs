//! Events become packets with names. What needs a kernel is in `tests/system/test_capture_command.py`.

use super::*;

const PORT_KEY: u16 = 7;

fn names() -> Names {
    Names {
        ports: BTreeMap::from([
            ((5001, 7), "a1".to_owned()),
            ((5001, 8), "a2".to_owned()),
            ((5002, 7), "c1".to_owned()),
        ]),
        switches: BTreeMap::from([(5001, "blue".to_owned()), (5002, "green".to_owned())]),
        remotes: BTreeMap::from([(IpAddr::from([198, 18, 0, 2]), "h2".to_owned())]),
        uplink: "eth1".to_owned(),
        tunnel_ports: tunnel_ports(Encapsulation::Geneve, 6081),
    }
}

fn event(hook: Hook, verdict: Verdict, phase: u8) -> Event {
    Event {
        time: 5_000,
        switch_id: 5001,
        ifindex: 3,
        len: 98,
        captured: 60,
        segments: 1,
        source_key: PORT_KEY,
        dest_key: 8,
        vlan_proto: 0,
        vlan_tci: 0,
        hook: hook.number() as u8,
        verdict: verdict.number() as u8,
        phase,
        pad: 0,
    }
}

const CLOCK: Clock = Clock {
    monotonic_ns: 4_000,
    unix_ns: 1_795_250_000_000_000_000,
};

/// An IPv4 frame from 198.18.0.1 to 198.18.0.2.
fn outer() -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
    frame[26..34].copy_from_slice(&[198, 18, 0, 1, 198, 18, 0, 2]);
    frame
}

fn packet(event: &Event, bytes: &[u8]) -> Packet {
    names().packet(event, bytes, &CLOCK).unwrap()
}

#[test]
fn numbers_become_names() {
    let came = event(Hook::FromPort, Verdict::SpoofedIp, abi::EVENT_ENTERED);
    let packet = packet(&came, &outer());
    assert_eq!(packet.time_unix_ns, 1_795_250_000_000_001_000);
    assert_eq!(packet.switch.as_deref(), Some("blue"));
    assert_eq!(packet.from_port.as_deref(), Some("a1"));
    assert_eq!(packet.to_port.as_deref(), Some("a2"));
    assert_eq!(packet.interface, "from_port a1");
    assert_eq!((packet.len, packet.bytes.len()), (98, 60));
    // A guest's own addresses name no remote.
    assert_eq!(packet.remote, None);
}

#[test]
fn every_place_has_a_name_of_its_own() {
    let (entered, left) = (abi::EVENT_ENTERED, abi::EVENT_LEFT);
    for (hook, verdict, phase, interface) in [
        (Hook::FromPort, Verdict::Encap, entered, "from_port a1"),
        (Hook::FromPort, Verdict::Encap, left, "to_underlay eth1"),
        (Hook::FromPort, Verdict::VlanOut, left, "to_underlay eth1"),
        (Hook::FromPort, Verdict::Answer, left, "to_port a1"),
        (
            Hook::FromUnderlay,
            Verdict::ToPort,
            entered,
            "from_underlay eth1",
        ),
        (Hook::FromUnderlay, Verdict::ToPort, left, "to_port a2"),
        (
            Hook::FromSegmenter,
            Verdict::Encap,
            entered,
            "from_segmenter",
        ),
        (
            Hook::FromGroDevice,
            Verdict::OuterDevice,
            entered,
            "from_gro_device",
        ),
    ] {
        let packet = packet(&event(hook, verdict, phase), &outer());
        assert_eq!(packet.interface, interface, "{hook} {verdict}");
        assert_eq!(packet.phase == Phase::Left, phase == left);
    }
    let unknown = Event {
        source_key: 0,
        ..event(Hook::FromPort, Verdict::NoPort, entered)
    };
    assert_eq!(packet(&unknown, &outer()).interface, "from_port #3");
}

#[test]
fn a_tunnel_packet_names_its_remote() {
    for (hook, phase) in [
        (Hook::FromPort, abi::EVENT_LEFT),
        (Hook::FromUnderlay, abi::EVENT_ENTERED),
    ] {
        let packet = packet(&event(hook, Verdict::Encap, phase), &outer());
        assert_eq!(packet.remote.as_deref(), Some("h2"), "{hook}");
    }
    let names = names();
    assert!(names.concerns(Some(IpAddr::from([198, 18, 0, 2])), &outer()));
    assert!(!names.concerns(Some(IpAddr::from([198, 18, 0, 3])), &outer()));
    assert!(names.concerns(None, &[]));
    assert!(!names.concerns(Some(IpAddr::from([198, 18, 0, 2])), &[]));
}

#[test]
fn the_tag_goes_back_to_its_place() {
    let tagged = Event {
        vlan_proto: 0x8100u16.to_be(),
        vlan_tci: 0xa00a,
        ..event(Hook::FromPort, Verdict::VlanTag, abi::EVENT_ENTERED)
    };
    let bytes = packet(&tagged, &outer()).bytes;
    assert_eq!(bytes[12..18], [0x81, 0x00, 0xa0, 0x0a, 0x08, 0x00]);
    assert_eq!(bytes.len(), 64);
    assert_eq!(packet(&tagged, &outer()).len, 102);
    // Nothing to put it into.
    assert_eq!(packet(&tagged, &[1; 8]).bytes, [1; 8]);
}

#[test]
fn what_another_version_wrote_is_left_out() {
    let good = event(Hook::FromPort, Verdict::Encap, abi::EVENT_ENTERED);
    for strange in [
        Event { hook: 9, ..good },
        Event {
            verdict: 120,
            ..good
        },
        Event { phase: 2, ..good },
    ] {
        assert_eq!(names().packet(&strange, &outer(), &CLOCK), None);
    }
}

#[test]
fn a_name_is_a_port_or_a_remote() {
    let find = |target| names().find(target, "h1");
    assert_eq!(find(Target::All).unwrap(), Wanted::All);
    assert_eq!(find(Target::Drops).unwrap(), Wanted::Drops);
    assert_eq!(find(Target::Named("c1")).unwrap(), Wanted::Port((5002, 7)));
    let address = IpAddr::from([198, 18, 0, 2]);
    assert_eq!(find(Target::Named("h2")).unwrap(), Wanted::Remote(address));
    let error = find(Target::Named("b9")).unwrap_err();
    assert_eq!(error.to_string(), "host h1 has no port and no remote `b9`");
    assert!(error.help().unwrap().contains("a1, a2, c1, h2"));
}
