//! The schema and the decoder say the same: same keys, same required ones, same verdict on the
//! examples. The validator here knows only the words that the schema uses, and fails on any other.

use std::collections::BTreeSet;

use overlane_wire::Vni;
use serde_json::{Map, Value, json};

use crate::diagnostic::Sink;
use crate::yaml::{self, Kind, Node};
use crate::{Dscp, Fabric, GuestVlan, Learning, Security, decode, schema};

/// What is wrong with `value`, as "path: what" lines.
fn validate(root: &Value, schema: &Value, value: &Value, path: &str, faults: &mut Vec<String>) {
    for (word, rule) in schema.as_object().unwrap() {
        let right = match word.as_str() {
            "$schema" | "$defs" | "title" | "description" | "default" | "format" => true,
            "patternProperties" | "additionalProperties" => true, // with "properties", below
            "$ref" => {
                let pointer = rule.as_str().unwrap().strip_prefix('#').unwrap();
                validate(root, root.pointer(pointer).unwrap(), value, path, faults);
                true
            }
            "type" => match rule.as_str().unwrap() {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" => value.is_i64(),
                other => panic!("type {other}"),
            },
            "const" => value == rule,
            "oneOf" | "anyOf" => {
                let fits = rule.as_array().unwrap().iter().filter(|choice| {
                    let mut inner = Vec::new();
                    validate(root, choice, value, path, &mut inner);
                    inner.is_empty()
                });
                let fits = fits.count();
                fits == 1 || (word == "anyOf" && fits > 0)
            }
            "minimum" => value
                .as_i64()
                .is_none_or(|value| value >= rule.as_i64().unwrap()),
            "maximum" => value
                .as_i64()
                .is_none_or(|value| value <= rule.as_i64().unwrap()),
            "pattern" => value.as_str().is_none_or(|text| matches(rule, text)),
            "minProperties" => value
                .as_object()
                .is_none_or(|map| map.len() as u64 >= rule.as_u64().unwrap()),
            "required" => rule.as_array().unwrap().iter().all(|key| {
                value
                    .as_object()
                    .is_none_or(|map| map.contains_key(key.as_str().unwrap()))
            }),
            "uniqueItems" => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                (1..items.len()).all(|index| !items[..index].contains(&items[index]))
            }
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    validate(root, rule, item, path, faults);
                }
                true
            }
            "properties" => true,
            other => panic!("the schema uses `{other}`: teach the validator"),
        };
        if !right {
            faults.push(format!("{path}: {word}"));
        }
    }
    if let Some(map) = value.as_object() {
        members(root, schema, map, path, faults);
    }
}

fn members(
    root: &Value,
    schema: &Value,
    map: &Map<String, Value>,
    path: &str,
    faults: &mut Vec<String>,
) {
    for (key, value) in map {
        let path = format!("{path}/{key}");
        let by_name = schema.get("properties").and_then(|all| all.get(key));
        let by_pattern = schema.get("patternProperties").and_then(|all| {
            let mut all = all.as_object().unwrap().iter();
            all.find(|(pattern, _)| matches(&json!(pattern), key))
                .map(|(_, rule)| rule)
        });
        match by_name.or(by_pattern) {
            Some(rule) => validate(root, rule, value, &path, faults),
            None if schema.get("additionalProperties") == Some(&json!(false)) => {
                faults.push(format!("{path}: unknown"));
            }
            None => {}
        }
    }
}

fn matches(pattern: &Value, text: &str) -> bool {
    regex_lite::Regex::new(pattern.as_str().unwrap())
        .unwrap()
        .is_match(text)
}

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
            "encapsulation": "vxlan", "port": 4789, "source_ports": "50000-60000", "strict": true,
            "udp6_zero_checksum": true, "dscp": 46,
        },
        "hosts": { "h": { "underlay": "198.18.0.1", "uplink": "eth1" } },
        "switches": {
            "s": { "vni": 5001, "unknown_unicast": "flood", "vlan": "refuse" },
            "v": { "uplink_vlan": 100 },
        },
        "ports": { "p": {
            "switch": "s", "host": "h", "device": "d", "mac": "02:00:00:00:00:01",
            "addresses": ["198.18.100.1", "2001:2::1"], "key": 7, "vlan": 10, "security": "mac",
            "allow": ["dhcp_server"], "learning": { "limit": 2, "age": 60 },
        } },
    })
}

/// Each kind of mapping: its definition in the schema, and where it stands in `full`, with all of its keys
/// in one place or the other.
const MAPPINGS: [(&str, &[&str]); 6] = [
    ("FabricFile", &[""]),
    ("TunnelSettings", &["/tunnel"]),
    ("Host", &["/hosts/h"]),
    ("LogicalSwitch", &["/switches/s", "/switches/v"]),
    ("LogicalPort", &["/ports/p"]),
    ("LearningSettings", &["/ports/p/learning"]),
];

/// Of these a switch needs one, and has no other.
const SWITCH_IDS: [&str; 2] = ["vni", "uplink_vlan"];

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
            let required = required || SWITCH_IDS.contains(&key);
            assert_eq!(faults(&less).is_empty(), !required, "{name}: {key}");
            // Without its switches or ports the rest of the file changes its meaning.
            if !(name == "FabricFile" && key == "switches") {
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
        ("/hosts/h/underlay", json!("198.18.0.1/24")),
        ("/hosts/h/uplink", json!("a/b")),
        ("/ports/p/mac", json!("02-00-00-00-00-01")),
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
    ] {
        let mut document = full();
        *document.pointer_mut(path).unwrap() = value.clone();
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
    let mut document = full();
    for key in ["vlan", "security", "allow", "learning"] {
        document["ports"]["p"].as_object_mut().unwrap().remove(key);
    }
    document["tunnel"].as_object_mut().unwrap().remove("dscp");
    let fabric = accepted(&document).unwrap();
    let port = &fabric.ports()["p"];
    assert_eq!(fabric.tunnel().dscp, Dscp::Fixed(0));
    assert_eq!(fabric.switches()["v"].guest_vlan, GuestVlan::Refuse);
    assert_eq!(port.security, Security::Strict);
    assert_eq!((port.attachment.vlan, port.learning), (None, None));
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
    ] {
        let mut sink = Sink::default();
        let document = json_of(&yaml::read(text, &mut sink).unwrap());
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
