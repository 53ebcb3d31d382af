//! `overlane flows` as its users meet it: the rules of every stage with their lines of the file, for
//! people and for programs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod place;

use serde_json::{Value, json};

use place::{Place, code, err, out};

#[test]
fn flows_for_people() {
    let place = Place::new("geneve");
    let output = place.run(&["flows", "fabric.yaml", "blue"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert_eq!(out(&output), BLUE);
    let output = place.run(&["flows", "fabric.yaml"]);
    for line in [
        "switch base: VLAN 100 on the uplinks (fabric.yaml:10)",
        "02:00:00:00:02:01  p1      1  h1    t0 tag 10  fabric.yaml:18",
        "Any other address: vlan_out: the physical network may know.",
        "h1       p1        the uplink, once",
        "h1    eth1    100  fabric.yaml:4",
        "switch green: VNI 5002 (fabric.yaml:9)",
        "VLAN tags of guests: carried with the frame",
        "g1    h1    strict    02:00:00:00:01:01  any           up to 8 learned MACs, 60 s each     fabric.yaml:16",
        "g2    h2    off       any                any           DHCP server, router advertisements  fabric.yaml:17",
        "Then learned addresses, at most 60 s old.",
        "Any other address: flood.",
    ] {
        assert!(
            out(&output).lines().any(|found| found == line),
            "{line}\nin\n{}",
            out(&output)
        );
    }
    let output = place.run(&["flows", "fabric.yaml", "blu"]);
    assert_eq!(code(&output), 2);
    assert_eq!(
        err(&output),
        "error: the fabric has no switch `blu`\nhelp: did you mean `blue`?\n"
    );
}

const BLUE: &str = "\
switch blue: VNI 5001 (fabric.yaml:8)
VLAN tags of guests: dropped (vlan_tag)
neighbours: asked (routers ask for addresses that no port declares)
packets that are too large: the sender is told (path_mtu_discovery)
MSS of TCP: left alone

port_security: what each port may send

PORT  HOST  SECURITY  FROM MAC           FROM ADDRESS                   AND                    LINE
─────────────────────────────────────────────────────────────────────────────────────────────────────────────
a1    h1    strict    02:00:00:00:00:01  198.18.100.1, 2001:2:0:100::1  -                      fabric.yaml:12
a2    h1    strict    02:00:00:00:00:02  198.18.100.2                   -                      fabric.yaml:13
b1    h2    strict    02:00:00:00:00:03  198.18.100.3                   router advertisements  fabric.yaml:14
c1    h3    strict    02:00:00:00:00:04  198.18.100.4                   -                      fabric.yaml:15
With addresses: also the link-local address of the MAC; 0.0.0.0 and :: in DHCP, address detection, IGMP and MLD.

arp_nd: questions answered on the spot

ADDRESS          MAC                PORT  LINE
────────────────────────────────────────────────────────
198.18.100.1     02:00:00:00:00:01  a1    fabric.yaml:12
198.18.100.2     02:00:00:00:00:02  a2    fabric.yaml:13
198.18.100.3     02:00:00:00:00:03  b1    fabric.yaml:14
198.18.100.4     02:00:00:00:00:04  c1    fabric.yaml:15
2001:2:0:100::1  02:00:00:00:00:01  a1    fabric.yaml:12
To everybody but the port itself.

l2_lookup: where frames go

TO MAC             PORT  KEY  HOST  DEVICE  LINE
──────────────────────────────────────────────────────────
02:00:00:00:00:01  a1      1  h1    a1      fabric.yaml:12
02:00:00:00:00:02  a2      2  h1    a2      fabric.yaml:13
02:00:00:00:00:03  b1      3  h2    b1      fabric.yaml:14
02:00:00:00:00:04  c1      4  h3    c1      fabric.yaml:15
Group addresses: flood.
Any other address: dropped (unknown_unicast).

flood: who gets a copy

ON HOST  TO PORTS  TO HOSTS
───────────────────────────
h1       a1, a2    h2, h3
h2       b1        h1, h3
h3       c1        h1, h2
Never back to the port it came from; what comes from another host goes to ports only.

encap: the outer header

FROM  TO  OUTER ADDRESSES          UDP                 TUNNEL           DSCP  LINE
───────────────────────────────────────────────────────────────────────────────────────────
h1    h2  198.18.0.1 → 198.18.0.2  49152-65535 → 6081  geneve VNI 5001  0     fabric.yaml:5
h1    h3  198.18.0.1 → 198.18.0.3  49152-65535 → 6081  geneve VNI 5001  0     fabric.yaml:6
h2    h1  198.18.0.2 → 198.18.0.1  49152-65535 → 6081  geneve VNI 5001  0     fabric.yaml:4
h2    h3  198.18.0.2 → 198.18.0.3  49152-65535 → 6081  geneve VNI 5001  0     fabric.yaml:6
h3    h1  198.18.0.3 → 198.18.0.1  49152-65535 → 6081  geneve VNI 5001  0     fabric.yaml:4
h3    h2  198.18.0.3 → 198.18.0.2  49152-65535 → 6081  geneve VNI 5001  0     fabric.yaml:5
";

#[test]
fn flows_for_programs() {
    let place = Place::new("vxlan");
    let output = place.run(&["flows", "fabric.yaml", "--json"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let flows: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [base, blue, green] = &flows.as_array().unwrap()[..] else {
        panic!("{flows:#}")
    };
    assert_eq!(
        base["vlan_out"][0],
        json!({ "host": "h1", "uplink": "eth1", "vlan": 100, "line": 4 })
    );
    assert_eq!(
        (&base["vni"], &base["uplink_vlan"], &base["encap"]),
        (&Value::Null, &json!(100), &json!([]))
    );
    assert_eq!(base["l2_lookup"][0]["vlan"], 10);
    assert_eq!(base["unknown_unicast"], "vlan_out");
    assert_eq!(
        blue["encap"][0],
        json!({
            "from": "h1", "to": "h2", "source": "198.18.0.1", "destination": "198.18.0.2",
            "encapsulation": "vxlan", "vni": 5001, "port": 4789, "source_ports": [49152, 65535],
            "options": null, "dscp": 0, "line": 5,
        })
    );
    assert_eq!(
        blue["flood"][0],
        json!({ "host": "h1", "ports": ["a1", "a2"], "hosts": ["h2", "h3"], "uplink": false })
    );
    assert_eq!(
        blue["port_security"][2],
        json!({
            "port": "b1", "host": "h2", "device": "b1", "vlan": null, "security": "strict",
            "mac": "02:00:00:00:00:03", "addresses": ["198.18.100.3"], "allowed_addresses": [],
            "allowed_macs": [], "dhcp_server": false,
            "router_advertisement": true, "learning": null, "line": 14,
        })
    );
    assert_eq!(
        blue["arp_nd"][4],
        json!({ "address": "2001:2:0:100::1", "mac": "02:00:00:00:00:01", "port": "a1", "line": 12 })
    );
    assert_eq!(green["learn_age_s"], 60);
    assert_eq!(
        (&green["guest_vlan"], &green["unknown_unicast"]),
        (&json!("transparent"), &json!("flood"))
    );
    let free = &green["port_security"][1];
    assert_eq!(
        (&free["mac"], &free["addresses"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(
        green["port_security"][0]["learning"],
        json!({ "limit": 8, "age_s": 60 })
    );
}
