//! The laboratory's commands that measure nothing: `lab list`, `check`, `plan`, and what `compare`, `report` and
//! `resume` say of folders that hold no result. What measures is shown in tests/system/.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const GOOD: &str = "\
name: mine
title: A study of mine
question: Does it run?
matrix:
  samples: 6
  seconds: 1
  warm_up_seconds: 0.5
  networks: [bridge, overlane-vxlan]
  groups:
    - { tests: [tcp_stream], bytes: [1024, 131072], mtu: [standard, jumbo] }
    - { tests: [udp_stream], bytes: [64], rate_pps: [10000] }
quick:
  samples: 2
  seconds: 0.5
  warm_up_seconds: 0.2
  networks: [bridge, overlane-vxlan]
  groups:
    - { tests: [tcp_stream], bytes: [131072] }
";

/// [`GOOD`] with something else in place of a part of it, which has to be there.
fn with(part: &str, other: &str) -> String {
    assert!(GOOD.contains(part), "{part}");
    GOOD.replace(part, other)
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_overlane"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn err(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn json(output: &Output) -> Value {
    assert_eq!(code(output), 0, "{}", err(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A study file of this text, and its path.
fn study(text: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.yaml");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

/// What `lab check` says of a wrong study, with the exit code that it has to have.
fn mistakes(text: &str) -> String {
    let (_folder, path) = study(text);
    let output = run(&["lab", "check", &path]);
    assert_eq!(code(&output), 2, "{}{}", out(&output), err(&output));
    assert_eq!(out(&output), "");
    err(&output).to_owned()
}

#[test]
fn the_studies_are_listed() {
    let studies = json(&run(&["lab", "list", "--json"]));
    let names: Vec<_> = studies
        .as_array()
        .unwrap()
        .iter()
        .map(|study| &study["name"])
        .collect();
    for name in [
        "jumbo-vxlan",
        "geneve-vs-vxlan",
        "jumbo-migration",
        "cpu-cost",
        "frame-sweep",
    ] {
        assert!(names.iter().any(|known| *known == name), "{name}");
    }
    let output = run(&["lab", "list"]);
    assert!(out(&output).contains("frame-sweep") && out(&output).contains("QUICK MINUTES"));
}

#[test]
fn a_study_that_is_not_there_is_wrong_usage_and_names_those_there_are() {
    for command in [&["lab", "check"][..], &["lab", "plan"], &["lab", "run"]] {
        let output = run(&[command, &["no-such-study"]].concat());
        assert_eq!(code(&output), 2, "{command:?}: {}", err(&output));
        assert!(err(&output).contains("jumbo-vxlan"), "{}", err(&output));
    }
    let output = run(&["lab", "check", "./no-such-file.yaml"]);
    assert_ne!(code(&output), 0);
    assert!(
        err(&output).contains("no-such-file.yaml"),
        "{}",
        err(&output)
    );
}

#[test]
fn what_ships_can_be_run_and_so_can_the_study_in_the_manual() {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/studies.md");
    let page = fs::read_to_string(manual).unwrap();
    let block = page.split("```yaml\n").nth(1).unwrap();
    let (_folder, path) = study(block.split("```").next().unwrap());
    for study in [
        &path,
        "jumbo-vxlan",
        "geneve-vs-vxlan",
        "jumbo-migration",
        "cpu-cost",
        "frame-sweep",
    ] {
        let output = run(&["lab", "check", study]);
        assert_eq!(code(&output), 0, "{study}: {}", err(&output));
        assert!(out(&output).contains("can be run"));
    }
}

#[test]
fn a_slip_of_the_pen_is_named_with_its_place_and_what_was_meant() {
    let said = mistakes(&with("samples: 6", "sampels: 6"));
    assert!(said.contains("mine.yaml:5:3"), "{said}");
    assert!(
        said.contains("sampels") && said.contains("samples"),
        "{said}"
    );

    let said = mistakes(&with(
        "[bridge, overlane-vxlan]\n  groups:\n    - { tests: [tcp_stream], bytes: [1024",
        "[bridge, overlane-vxlna]\n  groups:\n    - { tests: [tcp_stream], bytes: [1024",
    ));
    assert!(said.contains("mine.yaml:8:"), "{said}");
    assert!(
        said.contains("overlane-vxlna") && said.contains("`overlane-vxlan`"),
        "{said}"
    );

    // All of a kind at once.
    let said = mistakes(
        &with("samples: 6", "sampels: 6").replace("tests: [udp_stream]", "tests: [udp_steam]"),
    );
    assert!(
        said.contains("sampels") && said.contains("udp_stream"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_measured_is_named_with_what_would_do() {
    for (part, other, words) in [
        // Nothing fits into 20 bytes on Ethernet, nor 1600 into an MTU of 1500.
        ("bytes: [64]", "bytes: [20]", ["groups[1].bytes[0]", "20"]),
        (
            "bytes: [64]",
            "bytes: [1600]",
            ["groups[1].bytes[0]", "1600"],
        ),
        ("bytes: [64], ", "", ["bytes", "groups[1]"]),
        (
            "tests: [udp_stream]",
            "tests: [tcp_rr]",
            ["rate_pps", "tcp_rr"],
        ),
        (
            "rate_pps: [10000]",
            "vnis: [4]",
            ["vnis[0]", "frame_stream"],
        ),
        (
            "rate_pps: [10000]",
            "far_end: [tester]",
            ["far_end[0]", "overlane-vxlan"],
        ),
        ("mtu: [standard, jumbo]", "mtu: []", ["mtu", "empty"]),
        ("samples: 6", "samples: 0", ["matrix.samples", "1 to"]),
        ("seconds: 1\n", "seconds: -1\n", ["matrix.seconds", "-1"]),
        ("name: mine", "name: ../mine", ["name", "a-z"]),
    ] {
        let said = mistakes(&with(part, other));
        for word in words {
            assert!(
                said.contains(word),
                "{word} is missing, {other} in place of {part}:\n{said}"
            );
        }
        assert!(
            said.starts_with("error: ") || said.contains("mine.yaml:"),
            "{said}"
        );
    }
}

#[test]
fn a_file_that_is_no_study_is_refused_without_harm() {
    for text in [
        "",
        "- 1\n- 2\n",
        "name: [\n",
        "{{{{",
        "\u{0}\u{1}\u{2}",
        "name: &a [*a]\n",
    ] {
        assert!(!mistakes(text).is_empty(), "{text:?}");
    }
}

#[test]
fn a_plan_counts_cells_and_time_and_measures_nothing() {
    let (_folder, path) = study(GOOD);
    let plan = json(&run(&["lab", "plan", &path, "--json"]));
    // Two networks; two sizes at two MTUs, and one rate.
    assert_eq!(plan["cells"], 10, "{plan:#}");
    assert_eq!(
        (&plan["samples"], &plan["quick"]),
        (&Value::from(6), &Value::from(false))
    );
    assert_eq!(plan["samples_in_all"], 10 * 7, "with a warm-up each");
    let counted: usize = plan["blocks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["cells"].as_array().unwrap().len())
        .sum();
    assert_eq!(counted, 10);
    let seconds = plan["expected_seconds"].as_f64().unwrap();
    assert!(
        seconds > 60.0 && seconds <= plan["at_most_seconds"].as_f64().unwrap(),
        "{seconds}"
    );

    let quick = json(&run(&["lab", "plan", &path, "--quick", "--json"]));
    assert_eq!(
        (&quick["cells"], &quick["quick"]),
        (&Value::from(2), &Value::from(true))
    );
    assert!(quick["expected_seconds"].as_f64().unwrap() < seconds);

    let output = run(&["lab", "plan", &path]);
    assert_eq!(code(&output), 0);
    for part in [
        "A study of mine",
        "tcp_stream-1024B-1i",
        "overlane-vxlan",
        "10 cells",
        "8900",
    ] {
        assert!(
            out(&output).contains(part),
            "{part} is missing in\n{}",
            out(&output)
        );
    }
}

#[test]
fn options_change_the_plan_and_nonsense_is_wrong_usage() {
    let (_folder, path) = study(GOOD);
    let plan = |options: &[&str]| {
        json(&run(&[
            &["lab", "plan", &path, "--quick", "--json"],
            options,
        ]
        .concat()))
    };
    assert_eq!(
        plan(&["--networks", "bridge,kernel-vxlan,overlane-geneve"])["cells"],
        3
    );
    assert_eq!(plan(&["--backends", "bridge"])["cells"], 1, "the old word");
    assert_eq!(plan(&["--against-itself"])["cells"], 4);
    assert_eq!(plan(&["--tuning", "alike,best"])["cells"], 4);
    let changed = plan(&[
        "--samples",
        "9",
        "--seconds",
        "2",
        "--hosts",
        "3",
        "--pairs",
        "2",
        "--inner",
        "ipv6",
    ]);
    assert_eq!(
        (&changed["samples"], &changed["seconds"]),
        (&Value::from(9), &Value::from(2.0))
    );
    let cell = &changed["blocks"][0]["cells"][0];
    assert_eq!(
        (&cell["hosts"], &cell["pairs"], &cell["inner"]),
        (&Value::from(3), &Value::from(2), &Value::from("ipv6"))
    );
    for wrong in [
        &["--networks", "bridge,vlan"][..],
        &["--hosts", "0"],
        &["--pairs", "many"],
        &["--inner", "ipx"],
        &["--tuning", "worst"],
        &["--samples", "0"],
        &["--seconds", "0"],
        &["--seconds", "nan"],
    ] {
        let output = run(&[&["lab", "plan", &path], wrong].concat());
        assert_eq!(
            code(&output),
            2,
            "{wrong:?}: {}{}",
            out(&output),
            err(&output)
        );
        assert_eq!(out(&output), "", "{wrong:?}");
    }
}

#[test]
fn a_study_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.yaml");
    let large = folder.path().join("large.yaml");
    fs::File::create(&large).unwrap().set_len(1 << 21).unwrap();
    for (path, why) in [(&missing, "No such file"), (&large, "not a study file")] {
        for verb in ["check", "plan", "run"] {
            let output = run(&["lab", verb, path.to_str().unwrap()]);
            assert_eq!(code(&output), 2, "{verb}: {}", err(&output));
            let words = format!("cannot read {}", path.display());
            assert!(err(&output).contains(&words), "{verb}: {}", err(&output));
            assert!(err(&output).contains(why), "{verb}: {}", err(&output));
        }
    }
}

#[test]
fn a_folder_without_a_result_is_named() {
    let empty = tempfile::tempdir().unwrap();
    let dir = empty.path().to_str().unwrap();
    for command in [
        &["lab", "report", dir][..],
        &["lab", "resume", dir],
        &["lab", "compare", dir, "/nonexistent"],
    ] {
        let output = run(command);
        assert_ne!(code(&output), 0, "{command:?}");
        assert!(
            err(&output).contains("holds no result"),
            "{command:?}: {}",
            err(&output)
        );
    }
    assert_eq!(
        fs::read_dir(empty.path()).unwrap().count(),
        0,
        "nothing was written"
    );
    for wrong in [
        &["lab", "compare", dir][..],
        &["lab", "compare", dir, "--networks", "bridge"],
        &["lab", "resume"],
    ] {
        assert_eq!(code(&run(wrong)), 2, "{wrong:?}");
    }
}

#[test]
fn networks_to_compare_are_two_that_there_are() {
    let empty = tempfile::tempdir().unwrap();
    let dir = empty.path().to_str().unwrap();
    for (networks, words) in [
        ("bridge", "a comma"),
        ("bridge,vlan", "no network `vlan`"),
        ("bridge,", "no network ``"),
        ("bridge,bridge,bridge", "no network"),
    ] {
        let output = run(&["lab", "compare", dir, "--networks", networks]);
        assert_eq!(code(&output), 2, "{networks}");
        assert!(err(&output).contains(words), "{networks}: {}", err(&output));
    }
    let right = run(&["lab", "compare", dir, "--networks", "bridge,overlane-vxlan"]);
    assert!(err(&right).contains("holds no result"), "{}", err(&right));
}

#[test]
fn an_agent_ends_with_its_input() {
    let output = run(&["traffic"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let hello: Value = serde_json::from_str(out(&output).lines().next().unwrap()).unwrap();
    assert_eq!(hello["answer"], "hello");
    assert_eq!(out(&output).lines().count(), 1);
}

/// [`GOOD`] with machines that move beside its streams.
const MOVING: &str = "    - { tests: [migration], bytes: [64], pairs: [2], offload: [false] }\n";

#[test]
fn options_of_machines_change_those_that_move_and_no_other_group() {
    let text = GOOD.replace("  groups:\n", &format!("  groups:\n{MOVING}"));
    let (_folder, path) = study(&text);
    let cells = |options: &[&str]| -> Vec<Value> {
        let plan = [&["lab", "plan", &path, "--quick", "--json"], options].concat();
        let plan = json(&run(&plan));
        let blocks = plan["blocks"].as_array().unwrap().iter();
        let cells = blocks.flat_map(|block| block["cells"].as_array().unwrap().clone());
        cells.collect()
    };
    let all = cells(&[
        "--guest-memory",
        "512",
        "--dirty-rate",
        "7",
        "--mtu",
        "1500,9000",
        "--postcopy",
        "--guests",
        "tap",
        "--inner",
        "ipv6",
    ]);
    let (machines, guests): (Vec<_>, Vec<_>) =
        all.iter().partition(|cell| cell["test"] == "migration");
    assert_eq!((machines.len(), guests.len()), (2 * 2, 2 * 2));
    for cell in &machines {
        assert_eq!(
            (&cell["guests"], &cell["inner"]),
            (&"qemu".into(), &"ipv4".into())
        );
        assert_eq!(cell["guest_memory_mib"], 512);
        assert_eq!(cell["migration"]["dirty_mib_per_second"], 7);
        assert_eq!(cell["migration"]["postcopy"], true);
    }
    for cell in &guests {
        assert_eq!(
            (&cell["guests"], &cell["inner"]),
            (&"tap".into(), &"ipv6".into())
        );
        assert_eq!(cell["migration"], Value::Null);
    }
    let output = run(&["lab", "plan", &path, "--quick", "--mtu", "9000"]);
    for part in ["9000", "or as long as machines take to move"] {
        assert!(
            out(&output).contains(part),
            "{part} is missing in\n{}",
            out(&output)
        );
    }
}

#[test]
fn options_of_machines_are_wrong_usage_where_none_moves_or_none_can() {
    let (_folder, path) = study(GOOD);
    let text = GOOD.replace("  groups:\n", &format!("  groups:\n{MOVING}"));
    let (_other, moving) = study(&text);
    for (path, options, part) in [
        (
            &path,
            &["--links", "2"][..],
            "--links: no test of this study moves a machine",
        ),
        (
            &path,
            &["--postcopy"],
            "--postcopy: no test of this study moves a machine",
        ),
        (&moving, &["--links", "3"], "`3` is out of range"),
        (&moving, &["--pairs", "5"], "5 machines at once"),
        (&moving, &["--guest-memory", "100"], "128 to 4096"),
        (&path, &["--mtu", "1400"], "write 1500 or 9000"),
        (
            &path,
            &["--mtu", "1500,1500"],
            "the same value stands before",
        ),
    ] {
        let output = run(&[&["lab", "plan", path], options].concat());
        assert_eq!(code(&output), 2, "{options:?}: {}", err(&output));
        assert!(err(&output).contains(part), "{options:?}: {}", err(&output));
        assert_eq!(out(&output), "");
    }
}
