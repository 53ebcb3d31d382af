//! How a trace can end beside its verdicts: nothing leads to the address, and who alone must get the packet.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod place;
#[path = "place/traced.rs"]
mod traced;

use serde_json::{Value, json};

use place::{Place, code, err, out};
use traced::hooks;

/// Networks that are apart: `red` has no router, `far` is behind a router that has no way there, `pair` has two ports.
const APART: &str = r#"version: 1
hosts:
  h1: { underlay: 198.18.0.1, uplink: eth1 }
  h2: { underlay: 198.18.0.2, uplink: eth1 }
switches:
  red: { vni: 1 }
  near: { vni: 2 }
  far: { vni: 3 }
  office: { uplink_vlan: 100 }
  loose: { vni: 4 }
ports:
  red1: { switch: red, host: h1, device: red1, mac: "02:00:00:00:00:01", addresses: [198.18.1.1, "2001:2:0:1::1"] }
  red2: { switch: red, host: h2, device: red2, mac: "02:00:00:00:00:02", addresses: [198.18.1.2], allowed_addresses: [198.18.66.6/32] }
  near1: { switch: near, host: h1, device: near1, mac: "02:00:00:00:00:03", addresses: [198.18.2.1, "2001:2:0:2::1"] }
  far1: { switch: far, host: h2, device: far1, mac: "02:00:00:00:00:04", addresses: [198.18.3.1, "2001:2:0:3::1"] }
  desk1: { switch: office, host: h1, device: desk1, mac: "02:00:00:00:00:05", addresses: [198.18.4.1] }
  desk2: { switch: office, host: h2, device: desk2, mac: "02:00:00:00:00:06", addresses: [198.18.4.2] }
  any1: { switch: loose, host: h1, device: any1, mac: "02:00:00:00:00:07", addresses: [198.18.5.1] }
  any2: { switch: loose, host: h2, device: any2, mac: "02:00:00:00:00:08", security: mac }
routers:
  core:
    interfaces: { near: [198.18.2.254/24] }
    routes: [{ to: 198.19.9.0/24, via: 198.19.0.1 }]
    gateway: { host: h2, device: phys0, addresses: [198.19.0.2/24] }
  other:
    interfaces: { far: [198.18.3.254/24] }
"#;

fn last(text: &str) -> &str {
    text.lines().last().unwrap()
}

#[test]
fn networks_that_are_apart_are_a_result() {
    let place = Place::of(APART);
    for (port, packet, why) in [
        // Another switch, with a router there or without.
        (
            "red1",
            "ip4.dst=near1",
            "port near1 of switch near has 198.18.2.1, and no router of switch red leads there",
        ),
        (
            "red1",
            "ip6.dst=near1 tcp",
            "port near1 of switch near has 2001:2:0:2::1, and no router of switch red",
        ),
        (
            "red1",
            "ip4.dst=198.18.3.254",
            "router other has 198.18.3.254, and no router of switch red leads there",
        ),
        // A router without an address of the family.
        (
            "near1",
            "ip6.dst=far1",
            "port far1 of switch far has 2001:2:0:3::1, and no router of switch near",
        ),
        // Nobody has it: on the switch itself, or anywhere.
        (
            "near1",
            "ip4.dst=198.18.2.77",
            "no port of switch near has 198.18.2.77, and no router there leads to it",
        ),
        (
            "red1",
            "ip4.dst=198.18.77.7 udp",
            "no port of switch red has 198.18.77.7, and no router there leads to it",
        ),
        (
            "red1",
            "arp.op=reply arp.tpa=198.18.1.77",
            "no port of switch red has 198.18.1.77",
        ),
    ] {
        let output = place.trace(port, packet, &[]);
        assert_eq!((code(&output), err(&output)), (0, ""), "{packet}");
        let text = out(&output);
        assert!(
            text.starts_with(&format!("from port {port} of switch ")),
            "{text}"
        );
        assert!(
            last(text).starts_with(&format!("unreachable: {why}")),
            "{text}"
        );
        assert!(!text.contains("not known:"), "{text}");
        let json = place.json(port, packet);
        assert_eq!(json["result"]["verdict"], "unreachable", "{json}");
        assert_eq!(json["result"]["by"]["kind"], "switch");
        assert_eq!(
            (&json["packet"], &json["hop"]),
            (&Value::Null, &Value::Null)
        );
        for (expected, exit) in [
            ("unreachable", 0),
            ("delivered", 1),
            ("dropped", 1),
            ("unreachable:red1", 1),
        ] {
            let output = place.trace(port, packet, &["--expect", expected]);
            assert_eq!(code(&output), exit, "{expected}");
            let note = format!("note: packet 1: expected {expected}, found unreachable\n");
            assert_eq!(err(&output), if exit == 1 { note.as_str() } else { "" });
        }
    }
}

#[test]
fn routers_that_do_not_join_have_no_route() {
    let place = Place::of(APART);
    for (port, packet) in [
        ("near1", "ip4.dst=far1"),
        ("far1", "ip4.dst=near1"),
        ("far1", "ip4.dst=198.19.9.9"),
    ] {
        let output = place.trace(port, packet, &["--expect", "no_route"]);
        assert_eq!(code(&output), 0, "{}", out(&output));
        assert!(last(out(&output)).starts_with("dropped: no_route at route on "));
        let hops = hooks(&place.json(port, packet)["hop"]);
        assert_eq!(hops.len(), 1, "{hops:?}");
    }
}

#[test]
fn who_may_have_an_address_is_asked_or_named() {
    let place = Place::of(APART);
    // Who lists the address has it, and on a VLAN somebody may.
    let floating = place.trace(
        "red1",
        "ip4.dst=198.18.66.6",
        &["--expect", "delivered:red2"],
    );
    assert_eq!(code(&floating), 0, "{}", out(&floating));
    let outside = place.trace(
        "desk1",
        "ip4.dst=198.18.4.77",
        &["--expect", "vlan_out:vlan:office"],
    );
    assert_eq!(code(&outside), 0, "{}", err(&outside));
    for (port, packet, not_known) in [
        (
            "any1",
            "ip4.dst=198.18.5.77",
            "not known: who has 198.18.5.77: port any2 of switch loose may use any address",
        ),
        (
            "desk1",
            "ip4.dst=red1",
            "not known: whether VLAN 100 leads to 198.18.1.1 outside the fabric",
        ),
    ] {
        let text = place.text(port, packet);
        assert!(text.contains(not_known), "{text}");
        assert!(last(&text).starts_with("unreachable: "), "{text}");
        let json = place.json(port, packet);
        assert!(
            not_known.ends_with(json["result"]["not_known"].as_str().unwrap())
                || json["result"]["not_known"].is_string()
        );
    }
}

#[test]
fn what_is_not_in_the_file_is_wrong_usage() {
    let place = Place::of(APART);
    for arguments in [
        &["--port", "nobody", "ip4.dst=red1"][..],
        &["--port", "red1", "ip4.dst=nobody"],
        &["--from-leg", "other", "ip4.src=198.19.9.9", "ip4.dst=far1"],
        &["--port", "any2", "ip4.dst=198.18.5.1"],
    ] {
        let output = place.run(&[&["trace", "fabric.yaml"], arguments].concat());
        assert_eq!((code(&output), out(&output)), (2, ""), "{arguments:?}");
    }
}

#[test]
fn an_expectation_says_who_gets_it() {
    let place = Place::of(APART);
    for (port, packet, expected, found) in [
        ("red1", "ip4.dst=red2", "delivered:red2", None),
        ("red1", "ip4.dst=red2", "to_port:red2", None),
        (
            "red1",
            "ip4.dst=red2",
            "delivered:near1",
            Some("to_port:red2"),
        ),
        (
            "red1",
            "ip4.dst=red2",
            "delivered:red2,near1",
            Some("to_port:red2"),
        ),
        (
            "red1",
            "ip4.dst=red2 ip4.src=198.18.1.9",
            "delivered:red2",
            Some("spoofed_ip"),
        ),
        // A flood: all of them, in any order, and the physical network.
        ("red1", "eth.dst=broadcast", "flood:red2", None),
        (
            "desk1",
            "eth.dst=broadcast",
            "flood:vlan:office,desk2",
            None,
        ),
        (
            "desk1",
            "eth.dst=broadcast",
            "delivered:desk2,vlan:office",
            None,
        ),
        (
            "desk1",
            "eth.dst=broadcast",
            "flood:desk2",
            Some("flood:desk2,vlan:office"),
        ),
        ("desk1", "ip4.dst=desk2", "delivered:desk2", None),
        // Out by a VLAN or a leg, and an answer.
        (
            "desk1",
            "eth.dst=02:00:00:00:99:99",
            "vlan_out:vlan:office",
            None,
        ),
        ("near1", "ip4.dst=198.19.9.9", "leg_out:leg:core", None),
        ("near1", "ip4.dst=198.19.9.9", "delivered:leg:core", None),
        (
            "near1",
            "ip4.dst=198.19.9.9",
            "leg_out:near1",
            Some("leg_out:leg:core"),
        ),
        ("red1", "arp.tpa=red2", "answer:red1", None),
        ("red1", "arp.tpa=red2", "answer:red2", Some("answer:red1")),
    ] {
        let output = place.trace(port, packet, &["--expect", expected]);
        let exit = i32::from(found.is_some());
        assert_eq!(
            code(&output),
            exit,
            "{packet} {expected}: {}{}",
            out(&output),
            err(&output)
        );
        if let Some(found) = found {
            let note = err(&output).lines().next().unwrap().to_owned();
            let shown: Vec<&str> = note.split(", found ").collect();
            assert!(shown[0].starts_with("note: packet 1: expected "), "{note}");
            assert_eq!(shown[1], found, "{note}");
        }
    }
    let flooded = place.json("desk1", "eth.dst=broadcast");
    assert_eq!(flooded["result"]["ends"], json!(["desk2", "vlan:office"]));
    let text = place.text("desk1", "eth.dst=broadcast");
    assert_eq!(
        last(&text),
        "flooded: desk2 on h2, the physical network of switch office"
    );
}

#[test]
fn an_expectation_of_nobody_is_wrong_usage() {
    let place = Place::of(APART);
    for (expected, message) in [
        ("delivered:", "invalid value '' for '--expect"),
        ("delivered:red2,", "invalid value 'red2,' for '--expect"),
        ("deliverd:red2", "invalid value 'deliverd' for '--expect"),
        ("delivered:a/b", "invalid value 'a/b' for '--expect"),
        ("delivered:red3", "the fabric has no port `red3`"),
        (
            "leg_out:leg:other",
            "the fabric has no router `other` with a leg",
        ),
        ("flood:vlan:red", "switch `red` is on no VLAN"),
        ("flood:vlan:nothing", "the fabric has no switch `nothing`"),
        ("to_host:host:h9", "h9"),
    ] {
        let output = place.trace("red1", "ip4.dst=red2", &["--expect", expected]);
        assert_eq!((code(&output), out(&output)), (2, ""), "{expected}");
        assert!(
            err(&output).contains(message),
            "{expected}: {}",
            err(&output)
        );
    }
}
