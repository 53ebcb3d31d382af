//! Tables can be written and read: what is read is what was written, and what no fabric could say is refused.

#![allow(clippy::unwrap_used)]

use overlane_model::{Fabric, Tables, load};

fn tables() -> Vec<Tables> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let files = std::fs::read_dir(folder).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let fabrics = files.filter(|path| {
        let name = path.to_string_lossy();
        name.ends_with(".yaml") && !name.ends_with(".statements.yaml")
    });
    let tables = fabrics.flat_map(|path| {
        let fabric = load(&path).unwrap();
        let hosts: Vec<String> = fabric.hosts().keys().map(ToString::to_string).collect();
        let compiled = hosts.into_iter().map(move |host| fabric.compile(&host));
        compiled.map(Result::unwrap).collect::<Vec<_>>()
    });
    tables.collect()
}

#[test]
fn what_is_read_is_what_was_written() {
    let tables = tables();
    assert!(tables.iter().any(|it| !it.firewall.rules.is_empty()));
    assert!(tables.iter().any(|it| !it.routers.is_empty()));
    for tables in tables {
        let text = serde_json::to_string(&tables).unwrap();
        assert_eq!(serde_json::from_str::<Tables>(&text).unwrap(), tables);
    }
}

/// A build that does not know a field of a port passes over it, and one that knows it does without.
#[test]
fn builds_read_what_older_and_newer_ones_wrote() {
    let text = "version: 1\nhosts: { h1: { underlay: 198.18.0.1, uplink: eth1 } }\n\
        switches: { s: { vni: 5001 } }\nports:\n  \
        p: { switch: s, host: h1, device: v, netns: 4711, mac: '02:00:00:00:00:01' }\n";
    let tables = |text: &str| Fabric::parse("f", text).unwrap().compile("h1").unwrap();
    let written = serde_json::to_string(&tables(text)).unwrap();
    assert_eq!(written.matches(r#""netns":4711,"#).count(), 1);
    // It stands for every field that a build does not know.
    let newer = written.replace(r#""netns":"#, r#""unheard_of":"#);
    let without = tables(&text.replace("netns: 4711, ", ""));
    assert_eq!(serde_json::from_str::<Tables>(&newer).unwrap(), without);
    let older = serde_json::to_string(&without).unwrap();
    assert!(!older.contains("netns"));
    assert_eq!(serde_json::from_str::<Tables>(&older).unwrap(), without);
}

#[test]
fn what_no_fabric_says_is_refused() {
    let text = serde_json::to_string(&tables()[0]).unwrap();
    for (field, wrong) in [
        ("host", "\"../x\""),
        ("uplink", "\"a/b\""),
        ("name", "\"a b\""),
        ("key", "0"),
        ("mac", "\"02:00\""),
        ("vni", "16777216"),
    ] {
        let (before, rest) = text.split_once(&format!("\"{field}\":")).unwrap();
        let end = rest.find([',', '}']).unwrap();
        let spoilt = format!("{before}\"{field}\":{wrong}{}", &rest[end..]);
        serde_json::from_str::<Tables>(&spoilt).unwrap_err();
    }
}
