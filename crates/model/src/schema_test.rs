//! The schema and the decoder say the same: same keys, same required ones, same verdict on the
//! examples.

mod validate;

use std::collections::BTreeSet;

use overlane_wire::Vni;
use serde_json::{Value, json};

use validate::validate;

use crate::diagnostic::Sink;
use crate::yaml::{self, Kind, Node};
use crate::{Dscp, Fabric, GuestVlan, Learning, Rule, Security, SwitchFirewall, decode, schema};

fn faults(value: &Value) -> Vec<String> {
    let schema = schema();
    let mut faults = Vec::new();
    validate(&schema, &schema, value, "", &mut faults);
    faults
}

/// JSON is YAML.
fn accepted(value: &Value) -> Result<Fabric, String> {
    Fabric::parse("f", &value.to_string()).map_err(|errors| errors.render(false))
}

fn json_of(node: &Node) -> Value {
    match &node.value {
        yaml::Value::Mapping(entries) => entries
            .iter()
            .map(|entry| (entry.key.clone(), json_of(&entry.value)))
            .collect(),
        yaml::Value::List(nodes) => nodes.iter().map(json_of).collect(),
        yaml::Value::Quoted(text) => json!(text),
        yaml::Value::Plain(text) => match yaml::resolve(text) {
            Kind::Text => json!(text),
            Kind::Integer => json!(text.parse::<i64>().unwrap()),
            Kind::Boolean(value) => json!(value),
            other => panic!("{text}: {other:?}"),
        },
        yaml::Value::Refused => panic!(),
    }
}

/// A file in which every key of the format stands.
fn full() -> Value {
    json!({
        "version": 1,
        "tunnel": {
            "encapsulation": "geneve", "port": 6081, "source_ports": "50000-60000", "strict": true,
            "udp6_zero_checksum": true, "dscp": 46, "options": "none",
        },
        "hosts": { "h": { "underlay": "198.18.0.1", "uplink": "eth1", "options": "ovn", "connections": 1048576 } },
        "switches": {
            "s": {
                "vni": 5001, "unknown_unicast": "flood", "vlan": "refuse", "neighbours": "declared",
                "firewall": { "from_port": "allow", "to_port": "drop", "when_full": "allow", "non_ip": [35020] },
                "path_mtu_discovery": false, "mss_clamp": true,
                "limits": { "connections": 9, "flood": 10 },
                "timeouts": {
                    "tcp_opening": 300, "tcp_established": 7440, "tcp_closing": 240, "tcp_closed": 240,
                    "udp_unanswered": 120, "udp": 300, "icmp": 60, "other_unanswered": 1, "other": 2592000,
                },
            },
            "v": { "uplink_vlan": 100 },
        },
        "ports": { "p": {
            "switch": "s", "host": "h", "device": "d", "netns": "c1", "mac": "02:00:00:00:00:01",
            "addresses": ["198.18.100.1", "2001:2::1"],
            "allowed_addresses": ["198.18.100.9", "2001:2:0:9::/64"], "allowed_macs": ["00:00:5e:00:01:01"], "key": 7, "vlan": 10, "security": "mac",
            "allow": ["dhcp_server"], "learning": { "limit": 2, "age": 60 },
            "limits": { "connections": 1048576, "flood": 1000 },
        } },
        "groups": { "g": ["p"] },
        "networks": { "n": ["198.18.50.0/24", "2001:2:0:50::/64"] },
        "rules": { "r": {
            "ports": ["p", "g", "s"], "direction": "to_port", "action": "reject", "priority": 7,
            "peers": ["n", "198.18.9.0/24", "s"], "services": ["tcp/80", "icmp/3/4"], "log": true,
        } },
        "routers": { "r": {
            "mac": "02:00:00:00:00:fe",
            "interfaces": { "s": ["198.18.100.254/24"] },
            "routes": [{ "to": "198.18.200.0/24", "via": ["198.18.100.2", "198.18.100.3"] }],
            "reverse_path": "off",
            "mss_clamp": true,
            "gateway": {
                "untranslated": "drop", "connections": 7, "host": "h", "device": "phys0", "addresses": ["198.19.0.2/24"],
                "timeouts": {
                    "tcp_opening": 300, "tcp_established": 7440, "tcp_closing": 240, "tcp_closed": 240,
                    "udp_unanswered": 120, "udp": 300, "icmp": 60, "other_unanswered": 1, "other": 2592000,
                },
                "nat": [
                    { "one_to_one": "198.18.100.1", "outside": "198.19.0.3" },
                    { "forward": "198.18.100.1:80", "protocol": "tcp", "outside": "198.19.0.2:8080" },
                    { "source": "198.18.100.0/24", "outside": "198.19.0.2", "ports": "2000-3000" },
                ],
            },
        } },
    })
}

/// Each kind of mapping: its definition in the schema, and where it stands in `full`, with all of its keys
/// in one place or the other.
const MAPPINGS: [(&str, &[&str]); 14] = [
    ("FabricFile", &[""]),
    ("TunnelSettings", &["/tunnel"]),
    ("Host", &["/hosts/h"]),
    ("LogicalSwitch", &["/switches/s", "/switches/v"]),
    ("LogicalPort", &["/ports/p"]),
    ("LearningSettings", &["/ports/p/learning"]),
    ("Limits", &["/switches/s/limits", "/ports/p/limits"]),
    (
        "Timeouts",
        &["/switches/s/timeouts", "/routers/r/gateway/timeouts"],
    ),
    ("Firewall", &["/switches/s/firewall"]),
    ("Rule", &["/rules/r"]),
    ("Router", &["/routers/r"]),
    ("Route", &["/routers/r/routes/0"]),
    ("Gateway", &["/routers/r/gateway"]),
    (
        "NatRule",
        &[
            "/routers/r/gateway/nat/0",
            "/routers/r/gateway/nat/1",
            "/routers/r/gateway/nat/2",
        ],
    ),
];

/// Needed by what else stands beside them in `full`: one of several, or one that another needs.
const NEEDED: [(&str, &str); 8] = [
    ("LogicalSwitch", "vni"),
    ("LogicalSwitch", "uplink_vlan"),
    ("Gateway", "device"),
    ("Gateway", "addresses"),
    ("NatRule", "one_to_one"),
    ("NatRule", "forward"),
    ("NatRule", "source"),
    ("NatRule", "protocol"),
];

/// What the rest of `full` speaks of: without it the file is still of the right form.
const NAMED: [&str; 4] = ["switches", "ports", "groups", "networks"];

fn definition(name: &str) -> Value {
    let schema = schema();
    let found = match name {
        "FabricFile" => Some(&schema),
        name => schema["$defs"].get(name),
    };
    found.unwrap().clone()
}

#[test]
fn same_keys() {
    for (name, paths) in MAPPINGS {
        let definition = definition(name);
        let required: Vec<_> = definition
            .get("required")
            .into_iter()
            .flat_map(|all| all.as_array().unwrap())
            .collect();
        let keys = definition["properties"].as_object().unwrap().keys();
        let mut described: Vec<_> = keys
            .map(|key| (key.as_str(), required.contains(&&json!(key))))
            .collect();
        described.sort_unstable();
        let mut decoded = decode::keys(name);
        decoded.sort_unstable();
        assert_eq!(described, decoded, "{name}");
        let document = full();
        let written: BTreeSet<&str> = paths
            .iter()
            .flat_map(|path| document.pointer(path).unwrap().as_object().unwrap().keys())
            .map(String::as_str)
            .collect();
        let decoded: BTreeSet<&str> = decoded.iter().map(|(key, _)| *key).collect();
        assert_eq!(written, decoded, "{name}");
    }
}

#[test]
fn same_answer_to_a_key_more_or_less() {
    accepted(&full()).unwrap();
    assert_eq!(faults(&full()), [""; 0]);
    for (name, path) in MAPPINGS
        .into_iter()
        .flat_map(|(name, paths)| paths.iter().map(move |path| (name, *path)))
    {
        let mut more = full();
        more.pointer_mut(path).unwrap()["zebra"] = json!(1);
        assert!(
            accepted(&more).unwrap_err().contains("unknown key `zebra`"),
            "{name}"
        );
        // A choice of forms (`learning`) only knows that none fits.
        assert!(
            faults(&more)
                .iter()
                .any(|fault| *fault == format!("{path}/zebra: unknown") || fault.ends_with("anyOf")),
            "{name}"
        );
        for (key, required) in decode::keys(name) {
            let mut less = full();
            let members = less.pointer_mut(path).unwrap().as_object_mut().unwrap();
            if members.remove(key).is_none() {
                continue;
            }
            let required = required || NEEDED.contains(&(name, key));
            assert_eq!(faults(&less).is_empty(), !required, "{name}: {key}");
            if !(name == "FabricFile" && NAMED.contains(&key)) {
                assert_eq!(accepted(&less).is_ok(), !required, "{name}: {key}");
            }
        }
    }
}

#[test]
fn same_answer_to_values() {
    for (path, value) in [
        ("/version", json!(2)),
        ("/hosts", json!({})),
        ("/tunnel/port", json!(0)),
        ("/tunnel/port", json!(65536)),
        ("/tunnel/port", json!("4789")),
        ("/tunnel/strict", json!("true")),
        ("/tunnel/encapsulation", json!("stt")),
        ("/tunnel/source_ports", json!("50000")),
        ("/tunnel", json!(null)),
        ("/switches/s/vni", json!(0)),
        ("/switches/s/vni", json!(1 << 24)),
        ("/switches/s/vni", json!(1.5)),
        ("/switches/s/unknown_unicast", json!(false)),
        ("/switches/s/neighbours", json!("found")),
        ("/hosts/h/underlay", json!("198.18.0.1/24")),
        ("/hosts/h/uplink", json!("a/b")),
        ("/hosts/h/connections", json!(0)),
        ("/hosts/h/connections", json!(1000)),
        ("/hosts/h/connections", json!(2_097_152)),
        ("/ports/p/mac", json!("02-00-00-00-00-01")),
        ("/ports/p/netns", json!(0)),
        ("/ports/p/netns", json!("")),
        ("/ports/p/netns", json!("a/b")),
        ("/ports/p/netns", json!("..")),
        ("/ports/p/netns", json!(["c1"])),
        ("/ports/p/key", json!(0)),
        ("/ports/p/key", json!(32768)),
        ("/ports/p/addresses", json!("198.18.100.1")),
        ("/ports/p/addresses/0", json!("web1")),
        ("/ports/p/switch", json!(7)),
        ("/ports/p/switch", json!("-s")),
        ("/tunnel/dscp", json!(64)),
        ("/tunnel/dscp", json!(-1)),
        ("/tunnel/dscp", json!("46")),
        ("/tunnel/dscp", json!(true)),
        ("/switches/v/uplink_vlan", json!(0)),
        ("/switches/v/uplink_vlan", json!(4095)),
        ("/switches/v", json!({ "uplink_vlan": 100, "vni": 5002 })),
        ("/switches/s/vlan", json!("trunk")),
        ("/switches/s/vlan", json!(100)),
        ("/ports/p/vlan", json!(0)),
        ("/ports/p/vlan", json!(4095)),
        ("/ports/p/vlan", json!("10")),
        ("/ports/p/security", json!("none")),
        ("/ports/p/security", json!(false)),
        ("/ports/p/allow", json!("dhcp_server")),
        ("/ports/p/allow/0", json!("dhcp")),
        ("/ports/p/allow", json!(["dhcp_server", "dhcp_server"])),
        ("/ports/p/learning", json!("true")),
        ("/ports/p/learning", json!(64)),
        ("/ports/p/learning/limit", json!(0)),
        ("/ports/p/learning/limit", json!(65537)),
        ("/ports/p/learning/age", json!(0)),
        ("/ports/p/learning/age", json!(86401)),
        ("/ports/p/limits", json!(64)),
        ("/ports/p/limits/connections", json!(0)),
        ("/ports/p/limits/connections", json!(1_048_577)),
        ("/switches/s/limits/flood", json!(9)),
        ("/switches/s/limits/flood", json!(1_000_000_001)),
        ("/routers/r/gateway/connections", json!(0)),
        ("/switches/s/timeouts", json!(30)),
        ("/switches/s/timeouts/udp", json!(0)),
        ("/switches/s/timeouts/tcp_established", json!(2_592_001)),
        ("/routers/r/gateway/timeouts/icmp", json!("60 s")),
        ("/groups/g", json!("p")),
        ("/groups/g/0", json!(7)),
        ("/networks/n", json!("198.18.0.0/24")),
        ("/networks/n/0", json!("office")),
        ("/rules/r/ports", json!([])),
        ("/rules/r/ports", json!("p")),
        ("/rules/r/direction", json!("in")),
        ("/rules/r/action", json!("accept")),
        ("/rules/r/priority", json!(65536)),
        ("/rules/r/priority", json!(-1)),
        ("/rules/r/peers", json!([])),
        ("/rules/r/peers", json!("n")),
        ("/rules/r/peers/0", json!("a/b")),
        ("/rules/r/services", json!([])),
        ("/rules/r/services/0", json!("http")),
        ("/rules/r/services/0", json!("tcp/80/81")),
        ("/rules/r/services/0", json!("protocol")),
        ("/rules/r/services/0", json!(80)),
        ("/rules/r/log", json!("yes")),
        ("/switches/s/firewall", json!("drop")),
        ("/switches/s/firewall/to_port", json!("reject")),
        ("/routers/r/mac", json!("fe")),
        ("/routers/r/interfaces", json!({})),
        ("/routers/r/interfaces/s", json!([])),
        ("/routers/r/interfaces/s", json!("198.18.100.254/24")),
        ("/routers/r/interfaces/s/0", json!("198.18.100.254")),
        ("/routers/r/routes", json!({})),
        ("/routers/r/routes/0/to", json!("default")),
        ("/routers/r/routes/0/via", json!([])),
        ("/routers/r/routes/0/via", json!("198.18.100.0/24")),
        (
            "/routers/r/routes/0/via",
            json!(["198.18.100.2", "198.18.100.2"]),
        ),
        ("/routers/r/gateway", json!("h")),
        ("/routers/r/gateway/device", json!("a/b")),
        ("/routers/r/gateway/addresses", json!([])),
        ("/routers/r/gateway/nat", json!({})),
        ("/routers/r/gateway/nat/0/outside", json!("any")),
        (
            "/routers/r/gateway/nat/0/one_to_one",
            json!("198.18.1.0/24"),
        ),
        ("/routers/r/gateway/nat/1/protocol", json!("icmp")),
        ("/routers/r/gateway/nat/1/forward", json!("198.18.100.1")),
        ("/routers/r/gateway/nat/2/ports", json!("2000")),
        ("/routers/r/gateway/nat/2/source", json!("web")),
    ] {
        let mut document = full();
        *document.pointer_mut(path).unwrap() = value.clone();
        assert!(
            !faults(&document).is_empty(),
            "{path} {value}: the schema takes it"
        );
        assert!(
            accepted(&document).is_err(),
            "{path} {value}: the decoder takes it"
        );
    }
}

#[test]
fn same_answer_to_forms() {
    for (path, value) in [
        ("/tunnel/dscp", json!(0)),
        ("/tunnel/dscp", json!(63)),
        ("/tunnel/dscp", json!("copy")),
        ("/ports/p/learning", json!(true)),
        ("/ports/p/learning", json!(false)),
        ("/ports/p/learning", json!({})),
        ("/ports/p/allow", json!([])),
        ("/ports/p/security", json!("off")),
        ("/ports/p/vlan", json!(4094)),
        ("/switches/s/vni", json!(Vni::MAX)),
        ("/switches/v/uplink_vlan", json!(4094)),
        ("/groups/g", json!([])),
        ("/networks/n", json!([])),
        ("/networks/n/0", json!("198.18.50.1")),
        ("/networks/n/0", json!("::/0")),
        ("/rules/r/priority", json!(0)),
        ("/rules/r/priority", json!(65535)),
        ("/rules/r/peers/0", json!("2001:2::7")),
        ("/rules/r/services/0", json!("protocol/47")),
        ("/rules/r/services/0", json!("udp/8000-8100")),
        ("/rules/r/services/0", json!("icmp6")),
        ("/switches/s/firewall", json!({})),
        ("/routers/r/routes", json!([])),
        ("/routers/r/routes/0/to", json!("::/0")),
        ("/routers/r/routes/0/via", json!("198.18.100.2")),
        ("/routers/r/gateway/nat", json!([])),
        ("/routers/r/gateway", json!({ "host": "h" })),
        ("/routers/r/gateway/nat/1/protocol", json!("sctp")),
    ] {
        let mut document = full();
        *document.pointer_mut(path).unwrap() = value.clone();
        if value == json!("::/0") && path.ends_with("/to") {
            let interface = document.pointer_mut("/routers/r/interfaces/s/0").unwrap();
            *interface = json!("2001:2::fe/64");
            document["routers"]["r"]["gateway"]["nat"] = json!([]);
            document["routers"]["r"]["routes"][0]["via"] = json!("2001:2::9");
        }
        assert_eq!(faults(&document), [""; 0], "{path} {value}");
        accepted(&document).unwrap_or_else(|errors| panic!("{path} {value}: {errors}"));
    }
}

#[test]
fn defaults_are_those_of_the_schema() {
    let defaults = |name: &str, key: &str| definition(name)["properties"][key]["default"].clone();
    assert_eq!(defaults("TunnelSettings", "dscp"), json!(0));
    assert_eq!(defaults("LogicalSwitch", "vlan"), json!("refuse"));
    assert_eq!(defaults("LogicalPort", "security"), json!("strict"));
    assert_eq!(defaults("LogicalPort", "learning"), json!(false));
    assert_eq!(defaults("LearningSettings", "limit"), json!(64));
    assert_eq!(defaults("LearningSettings", "age"), json!(300));
    assert_eq!(defaults("Rule", "priority"), json!(Rule::PRIORITY));
    assert_eq!(defaults("Rule", "log"), json!(false));
    assert_eq!(defaults("Firewall", "to_port"), json!("allow"));
    assert_eq!(defaults("Firewall", "when_full"), json!("drop"));
    assert_eq!(defaults("NatRule", "ports"), json!("1024-65535"));
    let mut document = full();
    for key in ["vlan", "security", "allow", "learning"] {
        document["ports"]["p"].as_object_mut().unwrap().remove(key);
    }
    document["tunnel"].as_object_mut().unwrap().remove("dscp");
    let rule = document["rules"]["r"].as_object_mut().unwrap();
    for key in ["priority", "peers", "services", "log"] {
        rule.remove(key);
    }
    document["switches"]["s"]["firewall"] = json!({});
    let fabric = accepted(&document).unwrap();
    let port = &fabric.ports()["p"];
    assert_eq!(fabric.tunnel().dscp, Dscp::Fixed(0));
    assert_eq!(fabric.switches()["v"].guest_vlan, GuestVlan::Refuse);
    assert_eq!(port.security, Security::Strict);
    assert_eq!((port.attachment.vlan, port.learning), (None, None));
    let rule = &fabric.rules()[0];
    assert_eq!((rule.priority, rule.log), (1000, false));
    assert_eq!((&rule.peers, &rule.services), (&None, &None));
    let firewall = &fabric.switches()["s"].firewall;
    assert_eq!(*firewall, SwitchFirewall::default());
    document["ports"]["p"]["learning"] = json!({ "limit": 9 });
    let learning = accepted(&document).unwrap().ports()["p"].learning;
    assert_eq!(
        learning,
        Some(Learning {
            limit: 9,
            age_s: 300
        })
    );
}

#[test]
fn examples_fit_the_schema() {
    for text in [
        include_str!("../../../examples/two-hosts.yaml"),
        include_str!("../../../examples/ipv6-underlay.yaml"),
        include_str!("../../../examples/three-hosts-geneve.yaml"),
        include_str!("../../../examples/physical-segments.yaml"),
        include_str!("../../../examples/routers-and-firewall.yaml"),
    ] {
        let mut sink = Sink::default();
        let document = json_of(&yaml::read(text, 0, &mut sink).unwrap());
        assert_eq!(faults(&document), [""; 0]);
    }
}

#[test]
fn everything_is_described() {
    let schema = schema();
    for (name, _) in MAPPINGS {
        let definition = definition(name);
        assert!(definition["description"].as_str().unwrap().len() > 10);
        for (key, property) in definition["properties"].as_object().unwrap() {
            assert!(
                property["description"].as_str().unwrap().len() > 10,
                "{name}: {key}"
            );
        }
    }
    // And in the manual.
    let manual = include_str!("../../../docs/fabric.md");
    for (name, _) in MAPPINGS {
        for (key, _) in decode::keys(name) {
            assert!(
                manual.contains(&format!("| `{key}` |")),
                "docs/fabric.md: {key}"
            );
        }
    }
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
}
