//! Rules of the house that a program can read: which crate may depend on which, and which module (`modules`); how long
//! a file may be, where `unsafe` stands. Part of `make check`. Each rule is shown to be able to fail.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

#[path = "house_rules/modules.rs"]
mod modules;

/// Every edge between our crates, and no other (drawn in ARCHITECTURE.md).
const EDGES: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("model", &["wire"]),
    ("net", &[]),
    ("ebpf", &["model", "wire"]),
    ("host", &["model", "wire", "ebpf", "net"]),
    ("traffic", &[]),
    ("analysis", &[]),
    ("guest", &[]),
    ("lab", &["analysis", "net", "traffic"]),
    ("pipeline", &["model", "wire"]),
    (
        "cli",
        &[
            "analysis", "wire", "model", "pipeline", "ebpf", "host", "lab", "traffic",
        ],
    ),
    (
        "conformance",
        &["pipeline", "ebpf", "host", "net", "model", "wire"],
    ),
];

/// Crates from outside that stay inside one of ours (docs/adr/).
const CONFINED: &[(&str, &str)] = &[
    ("aya", "ebpf"),
    ("netlink-sys", "net"),
    ("netlink-packet-route", "net"),
    ("clap", "cli"),
];

const LONGEST_FILE: usize = 800;
const LONG_FILE: usize = 500;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What `cargo metadata` says about this workspace.
fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The edges, of every kind (tests and build scripts as well), that are not allowed.
fn forbidden_edges(metadata: &Value) -> Vec<String> {
    let short = |name: &str| name.strip_prefix("overlane-").map(str::to_owned);
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let Some(from) = short(name) else {
            found.push(format!(
                "{name}: a crate of the workspace is called overlane-something"
            ));
            continue;
        };
        let Some((_, allowed)) = EDGES.iter().find(|(crate_name, _)| *crate_name == from) else {
            found.push(format!("{from}: not drawn in ARCHITECTURE.md"));
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap() {
            let name = dependency["name"].as_str().unwrap();
            if let Some(to) = short(name) {
                if !allowed.contains(&to.as_str()) {
                    found.push(format!("{from} → {to}"));
                }
            } else if let Some((_, owner)) = CONFINED.iter().find(|(outside, _)| *outside == name)
                && *owner != from
            {
                found.push(format!("{from} → {name}, which belongs into {owner} only"));
            }
        }
    }
    found
}

#[test]
fn crates_depend_only_along_the_drawn_edges() {
    assert_eq!(forbidden_edges(&metadata()), Vec::<String>::new());
}

#[test]
fn a_forbidden_edge_is_found() {
    let package = |metadata: &mut Value, name: &str| -> usize {
        let packages = metadata["packages"].as_array().unwrap();
        packages
            .iter()
            .position(|package| package["name"] == name)
            .unwrap()
    };
    for (from, to, expected) in [
        ("overlane-wire", "overlane-model", "wire → model"),
        ("overlane-lab", "overlane-host", "lab → host"),
        (
            "overlane-host",
            "aya",
            "host → aya, which belongs into ebpf only",
        ),
    ] {
        let mut doctored = metadata();
        let index = package(&mut doctored, from);
        let edge = serde_json::json!({ "name": to, "kind": "dev" });
        doctored["packages"][index]["dependencies"]
            .as_array_mut()
            .unwrap()
            .push(edge);
        assert_eq!(forbidden_edges(&doctored), [expected]);
    }
    let mut doctored = metadata();
    let index = package(&mut doctored, "overlane-net");
    doctored["packages"][index]["name"] = "overlane-agent".into();
    assert_eq!(
        forbidden_edges(&doctored),
        ["agent: not drawn in ARCHITECTURE.md"]
    );
}

/// Every file of ours under `folders` with one of the endings.
fn sources(folders: &[&str], endings: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = open.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if path.is_dir() {
                if !["target", "corpus", "artifacts", "__pycache__"].contains(&name.as_str()) {
                    open.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

#[test]
fn files_stay_readable() {
    let mut too_long = Vec::new();
    for path in sources(
        &["crates", "bpf", "tests", "fuzz", "scripts"],
        &[".rs", ".h", ".c", ".py"],
    ) {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        if lines > LONGEST_FILE {
            too_long.push(format!("{}: {lines} lines", path.display()));
        } else if lines > LONG_FILE {
            println!("talk about it: {} has {lines} lines", path.display());
        }
    }
    assert_eq!(too_long, Vec::<String>::new());
}

/// The floors of `bpf/`, and which of them a file of each may include. Stages do not know each other, but the one that is
/// made of others.
const FLOORS: &[(&str, &[&str])] = &[
    ("", &["stage", "leave"]),
    ("stage", &["lib"]),
    ("leave", &["leave", "lib"]),
    ("lib", &["lib"]),
];
const FIREWALL: &str = "stage/firewall.h";
const PARTS_OF_FIREWALL: [&str; 2] = ["acl.h", "conntrack.h"];

/// The floor of a file in `bpf/`.
fn floor_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(floor, _)| floor)
}

/// What a source file includes beyond its floor.
fn forbidden_includes(path: &str, text: &str) -> Vec<String> {
    let floor = floor_of(path);
    let allowed = FLOORS.iter().find(|(name, _)| *name == floor);
    let Some((_, allowed)) = allowed else {
        return vec![format!("{path}: no floor of ARCHITECTURE.md")];
    };
    let included = text
        .lines()
        .filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'));
    let forbidden = included.filter(|header| {
        // Beside its own file a header is named without its floor.
        let to = if header.contains('/') {
            floor_of(header)
        } else {
            floor
        };
        let is_part = path == FIREWALL && PARTS_OF_FIREWALL.contains(header);
        !(is_part || allowed.contains(&to))
    });
    forbidden
        .map(|header| format!("{path} → {header}"))
        .collect()
}

/// The sources of the data path: path below `bpf/`, and text.
fn data_path() -> Vec<(String, String)> {
    let bpf = root().join("bpf");
    let files = sources(&["bpf"], &[".h", ".c"]);
    let files = files.into_iter().map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        let below = path.strip_prefix(&bpf).unwrap();
        (below.to_str().unwrap().to_owned(), text)
    });
    files.collect()
}

#[test]
fn the_data_path_stands_on_four_floors() {
    let mut found = Vec::new();
    for (path, text) in data_path() {
        found.extend(forbidden_includes(&path, &text));
    }
    assert_eq!(found, Vec::<String>::new());
    for (path, line, is_right) in [
        ("stage/acl.h", "lib/limit.h", true),
        ("stage/acl.h", "stage/parse.h", false),
        ("stage/acl.h", "parse.h", false),
        ("stage/acl.h", "leave/encap.h", false),
        ("stage/firewall.h", "acl.h", true),
        ("stage/firewall.h", "parse.h", false),
        ("stage/firewall.h", "leave/encap.h", false),
        ("leave/port.h", "send.h", true),
        ("leave/port.h", "stage/acl.h", false),
        ("lib/ip.h", "packet.h", true),
        ("lib/ip.h", "leave/send.h", false),
        ("lib/ip.h", "stage/parse.h", false),
        ("tc.bpf.c", "stage/parse.h", true),
        ("more/x.h", "lib/ip.h", false),
    ] {
        let found = forbidden_includes(path, &format!("#include \"{line}\"\n"));
        assert_eq!(found.is_empty(), is_right, "{path} → {line}");
    }
}

/// The programs include each stage themselves, so that one file has their order.
#[test]
fn the_programs_include_every_stage() {
    let files = data_path();
    let (_, programs) = files.iter().find(|(path, _)| path == "tc.bpf.c").unwrap();
    let missing: Vec<&str> = files
        .iter()
        .map(|(path, _)| path.as_str())
        .filter(|path| floor_of(path) == "stage")
        .filter(|path| !programs.contains(&format!("#include \"{path}\"\n")))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}

/// Whether a line of code, not of comment, uses the keyword.
fn uses_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"]
        .iter()
        .any(|use_| code.contains(use_))
}

#[test]
fn unsafe_stands_only_in_sys_rs() {
    let outside: Vec<String> = sources(&["crates"], &[".rs"])
        .into_iter()
        .filter(|path| !path.ends_with("sys.rs") && !path.ends_with("house_rules.rs"))
        .filter(|path| fs::read_to_string(path).unwrap().lines().any(uses_unsafe))
        .map(|path| path.display().to_string())
        .collect();
    assert_eq!(outside, Vec::<String>::new());
    assert!(uses_unsafe("let x = unsafe { y() };"));
    assert!(!uses_unsafe("// an unsafe { block }"));
}

/// Code in the comments of documentation. cargo would compile each crate once more to try it: examples are tests.
fn code_examples(text: &str) -> Vec<&str> {
    let comments = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or(line.strip_prefix("//!"))
    });
    let fences = comments.filter_map(|line| line.trim_start().strip_prefix("```"));
    fences.step_by(2).filter(|kind| *kind != "text").collect()
}

#[test]
fn examples_are_tests() {
    for path in sources(&["crates", "tests"], &[".rs"]) {
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(code_examples(&text), [""; 0], "{}", path.display());
    }
    let text = "/// ```text\n/// a\n/// ```\n//! ```no_run\n//! b();\n//! ```\n";
    assert_eq!(code_examples(text), ["no_run"]);
}

#[test]
fn the_makefile_stays_small() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let phony = makefile
        .lines()
        .find_map(|line| line.strip_prefix(".PHONY:"))
        .unwrap();
    let targets: BTreeSet<&str> = phony.split_whitespace().collect();
    assert!(targets.len() <= 19, "{targets:?}");
    for target in &targets {
        let rule = format!("\n{target}:");
        let line = makefile
            .find(&rule)
            .map(|at| makefile[at + 1..].lines().next().unwrap());
        assert!(
            line.is_some_and(|line| line.contains("## ")),
            "{target} has no help text"
        );
    }
}
