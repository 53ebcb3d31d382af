//! Tables can be written and read: what is read is what was written, and what no fabric could say is refused.

#![allow(clippy::unwrap_used)]

use overlane_model::{Tables, load};

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
