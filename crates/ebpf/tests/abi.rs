//! `abi.rs` against the compiled object: every struct, member, enum and capacity, from its BTF. What is
//! on one side only fails.

#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(unreachable_pub, missing_docs, reason = "a helper of this test")]
mod btf;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use btf::Btf;
use overlane_ebpf::{DataPath, abi};
use overlane_model::{Hook, Verdict};

/// Structs that key or value a map, and what they are made of; found from the maps, not listed by hand.
fn abi_structs(btf: &Btf) -> BTreeSet<String> {
    let layouts = DataPath::embedded().unwrap();
    let mut names = BTreeSet::new();
    // These maps never leave the programs.
    let private = ["scratch", "event_buffer"];
    for map in layouts
        .layouts()
        .keys()
        .filter(|name| !private.contains(&name.as_str()))
    {
        for part in ["key", "value"] {
            if let Some(id) = btf.map_part(map, part) {
                btf.collect_structs(id, &mut names);
            }
        }
    }
    names.insert("event".into()); // what the ring holds
    names
}

#[test]
fn every_struct_has_the_same_members_at_the_same_places() {
    let btf = Btf::of(DataPath::embedded_bytes());
    let ours: BTreeMap<&str, &abi::StructLayout> = abi::STRUCTS
        .iter()
        .map(|layout| (layout.name, layout))
        .collect();
    let theirs = abi_structs(&btf);
    let names: BTreeSet<String> = ours.keys().map(|name| (*name).to_owned()).collect();
    assert_eq!(names, theirs);
    for (name, layout) in ours {
        let members: Vec<(String, usize, usize)> = layout
            .members
            .iter()
            .map(|&(name, offset, size)| (name.to_owned(), offset, size))
            .collect();
        assert_eq!((layout.size, members), btf.layout(name), "struct {name}");
    }
}

#[test]
fn no_struct_has_padding_of_the_compiler() {
    for layout in abi::STRUCTS {
        let members: usize = layout.members.iter().map(|(_, _, size)| size).sum();
        assert_eq!(members, layout.size, "struct {}", layout.name);
    }
}

#[test]
fn enums_have_the_same_numbers() {
    let btf = Btf::of(&enums_object());
    let mut verdicts: BTreeMap<String, u32> = Verdict::ALL
        .iter()
        .map(|verdict| {
            (
                format!("VERDICT_{}", verdict.name().to_uppercase()),
                verdict.number(),
            )
        })
        .collect();
    verdicts.insert("VERDICT_DROP_FIRST".into(), 16);
    verdicts.insert("VERDICT_SLOTS".into(), abi::VERDICT_SLOTS as u32);
    assert_eq!(verdicts, btf.enumeration("verdict"));

    let mut hooks: BTreeMap<String, u32> = Hook::ALL
        .iter()
        .map(|hook| {
            (
                format!("HOOK_{}", hook.name().to_uppercase()),
                hook.number(),
            )
        })
        .collect();
    hooks.insert("HOOK_COUNT".into(), abi::HOOK_COUNT as u32);
    assert_eq!(hooks, btf.enumeration("hook"));

    let encapsulations = [
        (
            "ENCAPSULATION_VXLAN".to_owned(),
            abi::ENCAPSULATION_VXLAN.into(),
        ),
        (
            "ENCAPSULATION_GENEVE".to_owned(),
            abi::ENCAPSULATION_GENEVE.into(),
        ),
    ];
    assert_eq!(
        BTreeMap::from(encapsulations),
        btf.enumeration("encapsulation")
    );
}

/// BTF only has types that a map or global function uses; the enums are no more than numbers to those. So
/// a file of three variables is compiled from the same headers.
fn enums_object() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("enums.c");
    let object = folder.path().join("enums.o");
    std::fs::write(
        &source,
        "#include \"abi.h\"\nenum verdict v;\nenum hook h;\nenum encapsulation e;\n",
    )
    .unwrap();
    let clang = if Command::new("clang-19").arg("--version").output().is_ok() {
        "clang-19"
    } else {
        "clang"
    };
    let status = Command::new(clang)
        .args([
            "-target",
            "bpf",
            "-O2",
            "-g",
            "-c",
            "-I",
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf"),
        ])
        .args([
            "-I",
            &format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH),
        ])
        .arg(&source)
        .arg("-o")
        .arg(&object)
        .status()
        .unwrap();
    assert!(status.success());
    std::fs::read(object).unwrap()
}

#[test]
fn maps_hold_as_many_entries_as_we_check_for() {
    let data_path = DataPath::embedded().unwrap();
    let capacities = [
        ("settings", 1),
        ("ports", abi::MAX_PORTS),
        ("port_keys", abi::MAX_PORTS),
        ("switches", abi::MAX_SWITCHES),
        ("fdb", abi::MAX_FDB),
        ("neighbours", abi::MAX_NEIGHBOURS),
        ("flood", abi::MAX_FLOOD),
        ("remotes", abi::MAX_REMOTES),
        ("port_counters", abi::MAX_PORTS),
        ("remote_counters", abi::MAX_REMOTES),
        ("verdict_counters", abi::HOOK_COUNT * abi::VERDICT_SLOTS),
    ];
    for (map, capacity) in capacities {
        assert_eq!(
            data_path.layouts()[map].max_entries as usize,
            capacity,
            "{map}"
        );
    }
}

/// Constants that BTF does not carry, from the header itself.
#[test]
fn constants_of_the_header() {
    let header =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf/abi.h")).unwrap();
    let constant = |name: &str| {
        let define = format!("#define {name} ");
        let line = header
            .lines()
            .find_map(|line| line.strip_prefix(&define))
            .unwrap_or_else(|| panic!("{name}"));
        let value = line
            .split("/*")
            .next()
            .unwrap()
            .trim()
            .trim_matches(['(', ')']);
        match value.split_once(" << ") {
            Some((one, by)) => one.parse::<u32>().unwrap() << by.parse::<u32>().unwrap(),
            None => value.parse().unwrap(),
        }
    };
    assert_eq!(constant("PORT_PEER"), abi::PORT_PEER);
    assert_eq!(constant("SWITCH_FLOOD_UNKNOWN"), abi::SWITCH_FLOOD_UNKNOWN);
    assert_eq!(
        constant("MAX_FLOOD_MEMBERS") as usize,
        abi::MAX_FLOOD_MEMBERS
    );
    assert_eq!(constant("MAX_TEMPLATE") as usize, abi::MAX_TEMPLATE);
}
