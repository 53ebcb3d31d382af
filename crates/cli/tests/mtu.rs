//! `overlane mtu` as its users meet it: what fits, for people and for programs, and what is wrong with what another
//! host wrote down. Needs no rights; `tests/system/test_mtu_audit.py` looks at devices.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod place;

use std::fs;

use serde_json::{Value, json};

use place::{Place, code, err, out};

/// No machine has hosts of these names applied.
const FABRIC: &str = r#"version: 1
tunnel: { encapsulation: geneve }
hosts:
  mtu-h1: { underlay: 198.18.0.1, uplink: eth1 }
  mtu-h2: { underlay: 198.18.0.2, uplink: eth1, options: none }
switches:
  blue: { vni: 5001 }
  red: { vni: 5002, vlan: transparent }
  base: { uplink_vlan: 100 }
  lone: { vni: 5003 }
ports:
  b1: { switch: blue, host: mtu-h1, device: b1, mac: "02:00:00:00:00:01", addresses: [198.18.100.1] }
  b2: { switch: blue, host: mtu-h2, device: b2, mac: "02:00:00:00:00:02", addresses: [198.18.100.2] }
  r1: { switch: red, host: mtu-h1, device: r1, mac: "02:00:00:00:00:03" }
  r2: { switch: red, host: mtu-h2, device: r2, mac: "02:00:00:00:00:04" }
  p1: { switch: base, host: mtu-h1, device: p1, mac: "02:00:00:00:00:05" }
  l1: { switch: lone, host: mtu-h1, device: l1, mac: "02:00:00:00:00:06" }
routers:
  core:
    interfaces: { blue: [198.18.100.254/24] }
    gateway: { host: mtu-h1, device: leg0, addresses: [198.19.0.2/24] }
"#;

const SIZES: &str = "\
TUNNELS

HEADER                        BYTES  UNDERLAY  GUEST MTU  HOSTS
──────────────────────────────────────────────────────────────────────────
Geneve over IPv4 + tag           62      1500       1438  mtu-h2 -> mtu-h1
plain Geneve over IPv4 + tag     54      1500       1446  mtu-h1 -> mtu-h2

SWITCHES

SWITCH  UNDERLAY    HEADER  GUEST MTU
─────────────────────────────────────
base    VLAN 100         -       1500
blue    VNI 5001        58       1442
lone    VNI 5003         -        any
red     VNI 5002  58 + tag       1438

WHAT EACH PLACE NEEDS

PLACE              WHAT                        MTU  FRAMES
───────────────────────────────────────────────────────────────────────────
physical switches  between all VTEPs          1500  1518 bytes, tagged 1522
VTEP               uplinks                    1500
virtual switch     ports of red               1438
virtual switch     ports of blue              1442
virtual switch     ports of base              1500
routers            leg leg0 of core, or more  1442
guests             guests of red              1438
guests             guests of blue             1442
guests             guests of base             1500

WHAT THE UNDERLAY WOULD HAVE TO CARRY

FOR GUESTS OF  UNDERLAY MTU  FRAME  WITH A VLAN TAG
───────────────────────────────────────────────────
1500                   1562   1580             1584
9000                   9062   9080             9084

The MTU of the uplink of mtu-h1, mtu-h2 is not known here: 1500 is assumed.

no host was looked at: none of the file is applied on this machine, and --host names none
";

#[test]
fn the_arithmetic_for_people() {
    let place = Place::of(FABRIC);
    let output = place.run(&["mtu", "fabric.yaml"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert_eq!(out(&output), SIZES);
}

#[test]
fn the_arithmetic_for_programs() {
    let place = Place::of(FABRIC);
    let output = place.run(&["mtu", "fabric.yaml", "--underlay-mtu", "9000", "--json"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let said: Value = serde_json::from_str(out(&output)).unwrap();
    assert_eq!(
        said["tunnels"][0],
        json!({
            "from": "mtu-h1", "to": "mtu-h2", "encapsulation": "geneve_plain", "ip_version": 4, "header_bytes": 50,
            "tagged": true, "underlay_mtu": 9000, "guest_mtu": 8946, "switches": ["blue", "red"], "routers": ["core"],
        })
    );
    assert_eq!(said["switches"][0]["guest_mtu"], 9000);
    assert_eq!(said["switches"][1]["guest_mtu"], 8942);
    assert_eq!(said["switches"][2]["guest_mtu"], Value::Null);
    let physical = &said["places"][0];
    assert_eq!(
        (&physical["mtu"], &physical["frame_bytes"]),
        (&json!(9000), &json!(9018))
    );
    assert_eq!(
        (&said["hosts"], &said["findings"]),
        (&json!([]), &json!([]))
    );
}

/// What another host wrote down, with guests of blue at this MTU.
fn elsewhere(guests: u32) -> String {
    let device = |device: &str, mtu: u32| json!({ "device": device, "mtu": mtu });
    let mut port = device("b2", guests);
    port["port"] = "b2".into();
    json!({ "hosts": [{
        "host": "mtu-h2", "uplink": device("eth1", 1500), "ports": [port],
        "routes": [{ "remote": "mtu-h1", "device": "eth1" }],
    }] })
    .to_string()
}

#[test]
fn what_another_host_wrote_down_is_judged() {
    let place = Place::of(FABRIC);
    let file = place.folder.path().join("h2.json");
    for (guests, expected, last) in [
        (1442, 0, "nothing is wrong"),
        (1300, 0, "0 wrong, 1 wasteful"),
        (1500, 3, "1 wrong, 0 wasteful"),
    ] {
        fs::write(&file, elsewhere(guests)).unwrap();
        let output = place.run(&["mtu", "fabric.yaml", "--with", "h2.json"]);
        assert_eq!(code(&output), expected, "{}", out(&output));
        assert_eq!(out(&output).lines().last(), Some(last));
        // Its answer can be read again.
        let output = place.run(&["mtu", "fabric.yaml", "--with", "h2.json", "--json"]);
        fs::write(&file, out(&output)).unwrap();
        let again = place.run(&["mtu", "fabric.yaml", "--with", "h2.json", "--json"]);
        assert_eq!((code(&again), out(&again)), (expected, out(&output)));
    }
    let output = place.run(&["mtu", "fabric.yaml", "--with", "h2.json"]);
    let finding = "\
wrong: guests of mtu-h2, switch blue
  b2 has MTU 1500, and 1442 fit beside the 58 bytes of Geneve over IPv4 into 1500: each sender of more is told so
  help: on mtu-h2: ip link set b2 mtu 1442, and 1442 inside the guests; or let the underlay carry 1558 (frames of 1576 bytes) \
and set the uplinks to it
";
    assert!(out(&output).contains(finding), "{}", out(&output));
}

#[test]
fn findings_alike_are_shown_once() {
    let mut fabric = String::from(
        "version: 1\nhosts:\n  mtu-many: { underlay: 198.18.0.1, uplink: eth1 }\nswitches: { blue: { vni: 1 } }\nports:\n",
    );
    let mut ports = Vec::new();
    for number in 1..=200 {
        fabric += &format!(
            "  p{number}: {{ switch: blue, host: mtu-many, device: d{number}, mac: '02:00:00:00:00:{number:02x}' }}\n"
        );
        ports.push(json!({
            "port": format!("p{number}"), "device": format!("d{number}"), "mtu": 1400, "peer_mtu": 1500
        }));
    }
    let place = Place::of(&fabric);
    let host =
        json!({ "host": "mtu-many", "uplink": { "device": "eth1", "mtu": 1500 }, "ports": ports });
    let file = place.folder.path().join("many.json");
    fs::write(&file, json!({ "hosts": [host] }).to_string()).unwrap();
    let output = place.run(&["mtu", "fabric.yaml", "--with", "many.json"]);
    let text = out(&output);
    assert_eq!(code(&output), 3, "{text}");
    assert_eq!(
        text.matches("the guest's end has MTU 1500").count(),
        1,
        "{text}"
    );
    assert!(
        text.contains(
            "\n  200 alike: so are port p2, port p3, port p4 and 196 more (--json has each)\n"
        ),
        "{text}"
    );
    assert_eq!(text.lines().last(), Some("200 wrong, 0 wasteful"));
    let output = place.run(&["mtu", "fabric.yaml", "--with", "many.json", "--json"]);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(all["findings"].as_array().unwrap().len(), 200);
}

/// It ends up in messages, and in commands that somebody copies.
#[test]
fn what_no_machine_has_is_refused() {
    let place = Place::of(FABRIC);
    let device = |device: &str, mtu: u32| json!({ "device": device, "mtu": mtu });
    for (host, said) in [
        (
            json!({ "uplink": device("eth1", u32::MAX) }),
            "no MTU is 4294967295",
        ),
        (
            json!({ "uplink": device("\u{1b}[2J", 1500) }),
            r#""\u{1b}[2J" is no name of a device or namespace"#,
        ),
        (
            json!({ "uplink": device("eth1;halt", 1500) }),
            r#""eth1;halt" is no name of a device or namespace"#,
        ),
        (
            json!({ "uplink": null, "netns": "a\nwrong: b" }),
            r#""a\nwrong: b" is no name of a device or namespace"#,
        ),
        (
            json!({ "uplink": null, "path_mtus": [{ "remote": "\n", "mtu": 1400 }] }),
            r#""\n" is no name of a fabric"#,
        ),
    ] {
        let mut host = host;
        host["host"] = "mtu-h2".into();
        let file = place.folder.path().join("h2.json");
        fs::write(file, json!({ "hosts": [host] }).to_string()).unwrap();
        let output = place.run(&["mtu", "fabric.yaml", "--with", "h2.json"]);
        let expected = format!("error: cannot read h2.json: host mtu-h2: {said}\n");
        assert_eq!((code(&output), err(&output)), (2, expected.as_str()));
    }
}

#[test]
fn a_host_without_devices_says_what_is_missing() {
    let place = Place::of(FABRIC);
    let output = place.run(&["mtu", "fabric.yaml", "--host", "mtu-h1", "--host", "mtu-h1"]);
    assert_eq!(code(&output), 0, "{}", out(&output));
    for line in [
        "not seen: the leg of router core: no such device: leg0",
        "not seen: port b1: no such device: b1",
    ] {
        assert_eq!(
            out(&output).matches(line).count(),
            1,
            "{line} of\n{}",
            out(&output)
        );
    }
    assert!(out(&output).contains("nothing is wrong with what was seen; "));
}

#[test]
fn what_is_asked_wrongly() {
    let place = Place::of(FABRIC);
    fs::write(
        place.folder.path().join("odd.json"),
        "{\"hosts\": [{\"host\": \"mtu-h9\"}]}",
    )
    .unwrap();
    for (words, expected, error) in [
        (
            &["--host", "mtu-h3"][..],
            2,
            "the fabric has no host `mtu-h3`",
        ),
        (
            &["--with", "odd.json"],
            2,
            "cannot read odd.json: of another fabric: the fabric has no host `mtu-h9`",
        ),
        (
            &["--with", "fabric.yaml"],
            2,
            "cannot read fabric.yaml: not what `overlane mtu --json` prints",
        ),
        (
            &["--with", "none.json"],
            2,
            "cannot read none.json: No such file",
        ),
        (&["--underlay-mtu", "67"], 2, "67 is not in 68..=65535"),
        (
            &["--watch", "--interval", "301"],
            2,
            "a number of seconds from 0.1 to 300",
        ),
        (
            &["--host", "mtu-h1", "--netns", "mtu-nowhere"],
            1,
            "no network namespace mtu-nowhere",
        ),
    ] {
        let output = place.run(&[&["mtu", "fabric.yaml"], words].concat());
        assert_eq!(code(&output), expected, "{words:?}");
        assert!(err(&output).contains(error), "{words:?}: {}", err(&output));
    }
    let output = place.run(&["mtu", "fabric.yaml", "--host", "mtu-h3"]);
    assert!(
        err(&output).contains("help: did you mean `mtu-h"),
        "{}",
        err(&output)
    );
}
