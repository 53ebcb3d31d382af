//! Planted mistakes (`mtu_mistakes.json`): `audit` finds each of them, names what to do, and finds nothing else.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use overlane_host::mtu::audit;
use overlane_host::mtu::audit::{Finding, Place, Severity};
use overlane_host::mtu::facts::HostFacts;
use overlane_model::Fabric;
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Deserialize)]
struct Mistakes {
    fabric: Vec<String>,
    facts: Value,
    sound: Vec<Case>,
    mistakes: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    underlay: Option<u32>,
    edit: Vec<(String, String)>,
    change: Map<String, Value>,
    #[serde(default)]
    expect: Vec<Expected>,
}

#[derive(Deserialize)]
struct Expected {
    place: Place,
    severity: Severity,
    what: String,
    says: Vec<String>,
    remedy: Vec<String>,
}

fn mistakes() -> Mistakes {
    serde_json::from_str(include_str!("mtu_mistakes.json")).unwrap()
}

impl Mistakes {
    fn audit(&self, case: &Case) -> Vec<Finding> {
        let mut text = self.fabric.join("\n");
        for (from, to) in &case.edit {
            assert!(text.contains(from), "{}: {from}", case.name);
            text = text.replace(from, to);
        }
        let mut facts = self.facts.clone();
        for (pointer, value) in &case.change {
            put(&mut facts, pointer, value.clone());
        }
        let facts: Vec<HostFacts> = serde_json::from_value(facts).unwrap();
        let fabric = Fabric::parse(&case.name, &text);
        let fabric = fabric.unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        audit(&fabric, &facts, case.underlay)
    }
}

/// Sets what the pointer names; its last part may be new.
fn put(facts: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = facts.pointer_mut(parent).expect(pointer);
    parent
        .as_object_mut()
        .expect(pointer)
        .insert(key.to_owned(), value);
}

/// 200 guests alike, on two hosts.
fn many(finding: &str) -> Vec<Finding> {
    let mut text = String::from(
        "version: 1\nhosts:\n  h1: { underlay: 198.18.0.1, uplink: eth1 }\n  h2: { underlay: 198.18.0.2, uplink: eth1 }\n\
         switches: { blue: { vni: 1 } }\nports:\n",
    );
    let mut ports = [Vec::new(), Vec::new()];
    for number in 0..200 {
        let host = number % 2;
        text += &format!(
            "  p{number}: {{ switch: blue, host: h{}, device: d{number}, mac: '02:00:00:00:00:{number:02x}', \
             addresses: [198.18.1.{number}, '2001:2::{number:x}'] }}\n",
            host + 1
        );
        let mut port = serde_json::json!({ "port": format!("p{number}"), "device": format!("d{number}"), "mtu": 1442 });
        let more: Value = serde_json::from_str(finding).unwrap();
        port.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        ports[host].push(port);
    }
    text = text
        .replace("198.18.1.0,", "198.18.1.250,")
        .replace("00:00:00:00:00'", "00:00:00:00:fa'");
    let facts = ["h1", "h2"].iter().zip(ports).map(|(host, ports)| {
        let uplink = serde_json::json!({ "device": "eth1", "mtu": 1500 });
        serde_json::json!({ "host": host, "uplink": uplink, "ports": ports })
    });
    let facts: Vec<HostFacts> = serde_json::from_value(facts.collect()).unwrap();
    let fabric = Fabric::parse("many", &text);
    let fabric = fabric.unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    audit(&fabric, &facts, None)
}

#[test]
fn guests_alike_are_alike() {
    for (facts, count) in [
        // The guest's end is larger; guests that send too much, and too little; too small for IPv6; that do not heed.
        (r#"{"mtu": 1400, "peer_mtu": 1442}"#, 200),
        (r#"{"longest": 1500}"#, 200),
        (r#"{"longest": 1000, "longest_segment": 1000}"#, 200),
        (r#"{"mtu": 1000, "peer_mtu": 1000}"#, 200),
        (r#"{"untold": 7}"#, 200),
        // One for each host.
        (r#"{"mtu": 1500, "peer_mtu": 1500}"#, 2),
    ] {
        let findings = many(facts);
        let first = &findings[0];
        let alike = findings.iter().filter(|finding| first.is_like(finding));
        assert_eq!(alike.count(), count, "{facts}: {first:?}");
    }
    // `--json` has all names.
    let named = many(r#"{"mtu": 1500, "peer_mtu": 1500}"#);
    assert!(named.iter().all(|finding| finding.ports.len() == 100));
    // What differs in more than names stays apart.
    let (small, large) = (many(r#"{"longest": 1500}"#), many(r#"{"longest": 1501}"#));
    assert!(!small[0].is_like(&large[1]) && small[0].is_like(&small[1]));
}

#[test]
fn a_sound_configuration_has_no_finding() {
    let all = mistakes();
    assert!(all.sound.len() > 10);
    for case in &all.sound {
        assert_eq!(all.audit(case), [], "{}", case.name);
    }
}

#[test]
fn each_mistake_is_found_with_what_to_do() {
    let all = mistakes();
    assert!(all.mistakes.len() >= 30);
    let mut places = BTreeSet::new();
    for case in &all.mistakes {
        let found = all.audit(case);
        let (name, shown) = (&case.name, serde_json::to_string_pretty(&found).unwrap());
        assert!(!case.expect.is_empty(), "{name}");
        assert_eq!(found.len(), case.expect.len(), "{name}: {shown}");
        for (found, expected) in found.iter().zip(&case.expect) {
            let of = (found.place, found.severity, found.what.as_str());
            let expected_of = (expected.place, expected.severity, expected.what.as_str());
            assert_eq!(of, expected_of, "{name}: {shown}");
            for text in &expected.says {
                assert!(found.says.contains(text), "{name}: `{text}` of {shown}");
            }
            for text in &expected.remedy {
                assert!(found.remedy.contains(text), "{name}: `{text}` of {shown}");
            }
            assert!(!found.remedy.is_empty(), "{name}");
            places.insert(found.place);
        }
    }
    assert_eq!(places.len(), 5);
}

#[test]
fn a_finding_names_the_namespace_to_act_in() {
    let all = mistakes();
    let mut changes = all.mistakes.into_iter();
    let mut case = changes.next().unwrap();
    let all = mistakes();
    case.change.insert("/0/netns".into(), "blue".into());
    let remedy = &all.audit(&case)[0].remedy;
    assert!(
        remedy.starts_with("on h1: ip -n blue link set web1 mtu 1442"),
        "{remedy}"
    );
}

#[test]
fn nothing_is_wrong_with_what_nobody_has_seen() {
    let all = mistakes();
    let fabric = Fabric::parse("f", &all.fabric.join("\n")).unwrap();
    assert_eq!(audit(&fabric, &[], None), []);
    let unseen = HostFacts {
        host: "h1".to_owned(),
        ..HostFacts::default()
    };
    assert_eq!(audit(&fabric, &[unseen], None), []);
}
