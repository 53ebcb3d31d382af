//! What the documents show of `check`, `trace` and `flows` is what the program prints, byte for byte; with
//! the fabric file of the README, which therefore is right as well. A line `…` stands for what a sample
//! leaves out. The comparison is shown to be able to fail. The chart of the README is what the program draws of its record.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const PAGES: [&str; 3] = ["README.md", "docs/cli.md", "docs/trace.md"];
const COMMANDS: [&str; 3] = ["check", "trace", "flows"];
/// What such a sample cannot be run with: a shell, or parts left out.
const NOT_PLAIN: [char; 5] = ['>', '|', '…', '\'', '-'];

/// A file that is only warned of.
const SUSPECT: &str = r#"version: 1
hosts:
  h1: { underlay: 198.18.0.1, uplink: eth1 }
switches: { blue: { vni: 5001 } }
ports:
  web1: { switch: blue, host: h1, device: web1, mac: "02:00:00:00:00:01" }
rules:
  web-all: { ports: [blue], direction: to_port, action: allow, services: [tcp] }
  web-ssh: { ports: [web1], direction: to_port, action: drop, services: [tcp/22] }
"#;

/// The file with mistakes that docs/cli.md shows.
const WRONG: &str = r#"version: 1
hosts:
  h1: { underlay: 198.18.0.1, uplink: eth1 }
  h2: { underlay: 198.18.0.2, uplink: eth1 }
switches:
  green: { vin: 7 }
ports:
  web1: { switch: green, host: h3, device: web1, mac: "02:00:00:00:00:01" }
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// The blocks of a page that are fenced with this word.
fn blocks<'a>(page: &'a str, word: &str) -> Vec<&'a str> {
    let fence = format!("```{word}\n");
    let inside = page.split(&fence).skip(1);
    inside
        .map(|rest| rest.split("```").next().unwrap())
        .collect()
}

/// The samples of a page that can be run here: command line, and what is shown below it.
fn samples(page: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for block in blocks(page, "console") {
        for line in block.lines() {
            if line.starts_with("$ ") || line.starts_with("# ") {
                found.push((line, Vec::new()));
            } else if let Some((_, shown)) = found.last_mut() {
                shown.push(line);
            }
        }
    }
    found.retain(|(line, shown)| {
        let command = line.strip_prefix("$ overlane ").unwrap_or_default();
        let name = command.split_whitespace().next().unwrap_or_default();
        let plain = !line.replace("--port", "").contains(NOT_PLAIN);
        COMMANDS.contains(&name) && plain && !shown.is_empty()
    });
    found
}

/// Whether the lines printed are those shown, with any number of them at each `…`.
fn agrees(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&"…", rest)) => (0..=printed.len()).any(|skip| agrees(rest, &printed[skip..])),
        Some((line, rest)) => printed.first() == Some(line) && agrees(rest, &printed[1..]),
    }
}

#[test]
fn samples_in_the_documents_are_what_the_program_prints() {
    let folder = tempfile::tempdir().unwrap();
    let readme = page("README.md");
    let fabric = blocks(&readme, "yaml")[0];
    fs::write(folder.path().join("fabric.yaml"), fabric).unwrap();
    fs::write(folder.path().join("wrong.yaml"), WRONG).unwrap();
    fs::write(folder.path().join("suspect.yaml"), SUSPECT).unwrap();

    let mut compared = 0;
    for name in PAGES {
        for (line, shown) in samples(&page(name)) {
            let output = Command::new(env!("CARGO_BIN_EXE_overlane"))
                .args(line.split_whitespace().skip(2))
                .current_dir(folder.path())
                .output()
                .unwrap();
            let text = String::from_utf8([output.stderr, output.stdout].concat()).unwrap();
            let printed: Vec<&str> = text.lines().collect();
            assert!(
                agrees(&shown, &printed),
                "{name} shows of `{line}`\n{}\n\nand it prints\n{text}",
                shown.join("\n")
            );
            compared += 1;
        }
    }
    assert!(compared >= 6, "{compared} samples were found");
}

#[test]
fn a_wrong_sample_is_found() {
    let printed = ["a", "b", "c"];
    for right in [
        &["a", "b", "c"][..],
        &["a", "…"],
        &["…", "c"],
        &["a", "b", "…", "c"],
    ] {
        assert!(agrees(right, &printed), "{right:?}");
    }
    for wrong in [
        &["a", "b"][..],
        &["a", "c"],
        &["…", "b"],
        &["a", "…", "d"],
        &[],
    ] {
        assert!(!agrees(wrong, &printed), "{wrong:?}");
    }
}

/// The chart of the README, and the ratios below it, are of the record that lies beside it.
#[test]
fn the_chart_and_the_ratios_of_the_readme_are_those_of_its_record() {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_overlane"));
        command
            .args(arguments)
            .current_dir(root())
            .output()
            .unwrap()
    };
    let kept = "docs/results";
    let drawn = run(&["lab", "chart", kept]);
    assert!(drawn.status.success(), "{drawn:?}");
    let picture = page("docs/results.svg");
    assert!(
        drawn.stdout == picture.as_bytes(),
        "scripts/results --draw draws it"
    );

    let readme = page("README.md");
    let compared = run(&[
        "lab",
        "compare",
        kept,
        "--networks",
        "kernel-vxlan,overlane-vxlan",
        "--json",
    ]);
    let compared: Value = serde_json::from_slice(&compared.stdout).unwrap();
    for (guests, words) in [
        ("veth", "between containers"),
        ("tap", "between virtual machines"),
    ] {
        let rows = compared["rows"].as_array().unwrap().iter();
        let mut rows =
            rows.filter(|row| row["primary"] == true && row["cell_a"]["guests"] == guests);
        let row = rows.next().unwrap();
        let number = |value: &Value| format!("{:.2}", value.as_f64().unwrap());
        let (low, high) = (number(&row["ci95"][0]), number(&row["ci95"][1]));
        let said = format!("{} ({low} to {high})", number(&row["median_ratio"]));
        let line = readme.lines().find(|line| line.contains(words));
        assert!(
            line.is_some_and(|line| line.contains(&said)),
            "README does not say {said} {words}"
        );
    }
}
