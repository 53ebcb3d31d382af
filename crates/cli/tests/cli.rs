//! The binary as its users meet it: exit codes, what is said on which stream, help with examples.
//! Nothing here touches the machine; what `apply` does is shown in tests/system/.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const GOOD: &str = "\
version: 1
hosts:
  h1: { underlay: 198.18.0.1, uplink: eth1 }
  h2: { underlay: 198.18.0.2, uplink: eth1 }
switches:
  blue: { vni: 5001 }
ports:
  web1: { switch: blue, host: h1, device: web1, mac: \"02:00:00:00:00:01\", addresses: [198.18.100.1] }
  web2: { switch: blue, host: h2, device: web2, mac: \"02:00:00:00:00:02\" }
";

/// Four mistakes: VNI 0, an unknown host, a MAC that is none, a key twice the same.
const BAD: &str = "\
version: 1
hosts:
  h1: { underlay: 198.18.0.1, uplink: eth1 }
switches:
  blue: { vni: 0 }
  green: { vni: 7 }
ports:
  web1: { switch: green, host: h3, device: web1, mac: \"02:00:00:00:00:01\" }
  web2: { switch: green, host: h1, device: web2, mac: \"02:00:00:00:00\" }
  web3: { switch: green, host: h1, device: web2, mac: \"02:00:00:00:00:03\", mtu: 9000 }
";

fn overlane(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overlane"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    overlane(arguments).output().unwrap()
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

/// A folder with `good.yaml` and `bad.yaml`.
fn files() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (
        folder.path().join("good.yaml"),
        folder.path().join("bad.yaml"),
    );
    fs::write(&good, GOOD).unwrap();
    fs::write(&bad, BAD).unwrap();
    (folder, good, bad)
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn check_of_a_good_file() {
    let (_folder, good, _) = files();
    let output = run(&["check", path(&good)]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(
        out(&output).contains("ok, geneve over IPv4, 2 hosts, 1 logical switch, 2 logical ports")
    );
    assert_eq!(err(&output), "");
}

#[test]
fn check_shows_all_mistakes_at_once() {
    let (_folder, _, bad) = files();
    let output = run(&["check", path(&bad)]);
    assert_eq!(code(&output), 2);
    assert_eq!(out(&output), "");
    let text = err(&output);
    for place in [":5:", ":8:", ":9:", ":10:"] {
        assert!(
            text.contains(&format!("bad.yaml{place}")),
            "no mistake at {place} in:\n{text}"
        );
    }
    assert!(text.contains("help:"), "{text}");
    assert!(
        !text.contains('\u{1b}'),
        "colour without a terminal:\n{text}"
    );
}

#[test]
fn check_for_programs() {
    let (_folder, good, bad) = files();
    let output = run(&["check", "--json", path(&bad)]);
    assert_eq!(code(&output), 2);
    assert_eq!(err(&output), "");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["ok"], false);
    let errors = answer["errors"].as_array().unwrap();
    assert!(errors.len() >= 4, "{answer:#}");
    assert!(errors.iter().all(|error| error["line"].is_u64()
        && error["message"].is_string()
        && error["severity"] == "error"));

    let answer: Value =
        serde_json::from_slice(&run(&["check", "--json", path(&good)]).stdout).unwrap();
    let nothing = serde_json::json!({ "ok": true, "errors": [], "warnings": [] });
    assert_eq!(answer, nothing);
}

/// A fabric nevertheless: a rule that another one hides.
fn suspect() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("suspect.yaml");
    let rules = "rules:
  first: { ports: [blue], direction: to_port, action: drop }
  second: { ports: [web1], direction: to_port, action: allow, services: [tcp/80] }
";
    fs::write(&file, GOOD.to_owned() + rules).unwrap();
    (folder, file)
}

#[test]
fn check_and_apply_warn_and_go_on() {
    let (_folder, file) = suspect();
    let output = run(&["check", path(&file)]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(out(&output).contains("ok, geneve over IPv4"));
    let said = "warning: rule `second` decides nothing: rule `first` (line 11) is tried first";
    assert!(err(&output).starts_with(said), "{}", err(&output));
    assert!(err(&output).contains("suspect.yaml:12:3\n"));
    assert!(err(&output).contains("warning: 1 warning in "));

    let output = run(&["check", "--json", path(&file)]);
    assert_eq!((code(&output), err(&output)), (0, ""));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&answer["ok"], &answer["errors"]),
        (&true.into(), &serde_json::json!([]))
    );
    let [warning] = &answer["warnings"].as_array().unwrap()[..] else {
        panic!("{answer:#}")
    };
    assert_eq!(
        (&warning["severity"], &warning["line"]),
        (&"warning".into(), &12.into())
    );
    assert_eq!(warning["related"]["line"], 11);

    // It goes on to what it does next: the host.
    let output = run(&["apply", path(&file), "--host", "nobody"]);
    let (warned, then) = (err(&output).find("warning: "), err(&output).find("error: "));
    assert!(warned.is_some() && warned < then, "{}", err(&output));
}

#[test]
fn check_of_standard_input_and_of_nothing() {
    let mut child = overlane(&["check", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(GOOD.as_bytes())
        .unwrap();
    assert_eq!(code(&child.wait_with_output().unwrap()), 0);

    let output = run(&["check", "/nonexistent/fabric.yaml"]);
    assert_eq!(code(&output), 2);
    assert!(err(&output).starts_with("error: cannot read /nonexistent/fabric.yaml"));
}

#[test]
fn the_examples_in_the_tree_are_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut checked = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let example = entry.unwrap().path();
        let name = path(&example);
        if name.ends_with(".yaml") && !name.ends_with(".statements.yaml") {
            let output = run(&["check", name]);
            assert_eq!((code(&output), err(&output)), (0, ""));
            checked += 1;
        }
    }
    assert!(checked > 0);
}

#[test]
fn apply_without_a_fabric_or_with_an_unknown_host() {
    let (_folder, good, bad) = files();
    let output = run(&["apply", "/nonexistent/fabric.yaml", "--host", "h1"]);
    assert_eq!(code(&output), 2);
    assert!(err(&output).starts_with("error: cannot read /nonexistent/fabric.yaml"));

    let output = run(&["apply", path(&good), "--host", "h7"]);
    assert_eq!(code(&output), 2);
    let text = err(&output);
    assert!(text.starts_with("error: ") && text.contains("h7"), "{text}");
    assert!(
        text.contains("h1") && text.contains("h2"),
        "the hosts there are: {text}"
    );

    assert_eq!(code(&run(&["apply", path(&bad), "--host", "h1"])), 2);
    assert_eq!(code(&run(&["apply", path(&good)])), 2, "--host is required");
}

#[test]
fn apply_without_rights_says_so() {
    let (folder, good, _) = files();
    // The test may run as root; the program then runs as nobody, and must be able to read.
    let mut command = if is_root() {
        let program = folder.path().join("overlane");
        // Not by this process: a test beside this one forks, and its child would keep the file open for writing.
        let copied = Command::new("cp")
            .arg(env!("CARGO_BIN_EXE_overlane"))
            .arg(&program)
            .status()
            .unwrap();
        assert!(copied.success());
        open_to_all(folder.path());
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
            .arg(program);
        command.args(["apply", path(&good), "--host", "h1"]);
        command
    } else {
        overlane(&["apply", path(&good), "--host", "h1"])
    };
    let output = command.output().unwrap();
    assert_eq!(code(&output), 1, "{}", err(&output));
    let text = err(&output);
    assert!(text.starts_with("error: "), "{text}");
    assert!(text.contains("root") || text.contains("CAP_"), "{text}");
    assert!(text.contains("\nhelp: "), "{text}");
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output().unwrap();
    output.stdout == b"0\n"
}

fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    for entry in fs::read_dir(folder).unwrap() {
        fs::set_permissions(entry.unwrap().path(), fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn show_and_remove_of_a_host_that_is_not_applied() {
    for command in [
        &["show", "counters"][..],
        &["show", "rules"],
        &["show", "connections"],
        &["show", "routes"],
        &["connections", "export", "web1"],
        &["connections", "import", "web1"],
        &["connections", "forget", "--all"],
        &["log"],
    ] {
        let output = run(&[command, &["--host", "ovcli-no-such-host"]].concat());
        assert_eq!(code(&output), 1, "{command:?}");
        let text = err(&output);
        assert!(text.starts_with("error: "), "{text}");
        assert!(text.contains("ovcli-no-such-host"), "{text}");
    }
}

#[test]
fn schema_is_json_schema() {
    let output = run(&["schema"]);
    assert_eq!(code(&output), 0);
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        schema["$schema"]
            .as_str()
            .unwrap()
            .contains("json-schema.org")
    );
    for section in ["version", "tunnel", "hosts", "switches", "ports"] {
        assert!(schema["properties"][section].is_object(), "{section}");
    }
}

#[test]
fn completions_for_the_usual_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        assert_eq!(code(&output), 0);
        assert!(
            out(&output).contains("overlane") && out(&output).len() > 1000,
            "{shell}"
        );
    }
    assert_eq!(code(&run(&["completions", "tcsh"])), 2);
}

#[test]
fn every_help_has_an_example() {
    let commands: [&[&str]; 32] = [
        &[],
        &["check"],
        &["apply"],
        &["remove"],
        &["show"],
        &["show", "ports"],
        &["show", "fdb"],
        &["show", "remotes"],
        &["show", "counters"],
        &["show", "rules"],
        &["show", "connections"],
        &["show", "routes"],
        &["connections"],
        &["connections", "export"],
        &["connections", "import"],
        &["connections", "forget"],
        &["log"],
        &["trace"],
        &["flows"],
        &["schema"],
        &["completions"],
        &["lab"],
        &["lab", "run"],
        &["lab", "resume"],
        &["lab", "plan"],
        &["lab", "check"],
        &["lab", "compare"],
        &["lab", "report"],
        &["lab", "list"],
        &["lab", "doctor"],
        &["lab", "cleanup"],
        &["traffic"],
    ];
    for command in commands {
        let output = run(&[command, &["--help"]].concat());
        assert_eq!(code(&output), 0);
        let text = out(&output);
        let examples = text
            .split_once("Examples:")
            .map(|(_, examples)| examples)
            .unwrap_or_default();
        let line = format!("  overlane {}", command.join(" "));
        assert!(examples.contains(line.trim_end()), "{command:?}:\n{text}");
    }
}

#[test]
fn usage_errors_are_2_and_on_standard_error() {
    for wrong in [
        &["aply"][..],
        &["show", "everything"],
        &["connections", "import"],
        // What is to be forgotten must be said.
        &["connections", "forget"],
        &["connections", "forget", "--json"],
        &["connections", "forget", "--all", "--port", "web1"],
        &["connections", "forget", "--peer", "198.18.9"],
        &["connections", "forget", "--protocol", "gre"],
        &["lab", "run"],
        &[],
    ] {
        let output = run(wrong);
        assert_eq!(code(&output), 2, "{wrong:?}");
        assert_eq!(out(&output), "", "{wrong:?}");
        assert!(!err(&output).is_empty(), "{wrong:?}");
    }
}

#[test]
fn version_names_version_and_revision() {
    let output = run(&["--version"]);
    assert_eq!(code(&output), 0);
    assert!(out(&output).starts_with(concat!("overlane ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn version_says_what_a_build_fits() {
    let output = run(&["version", "--json"]);
    assert_eq!(code(&output), 0);
    let build: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(build["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        build["kernel_min"],
        overlane_ebpf::preflight::OLDEST_TESTED.to_string()
    );
    assert_eq!(build["abi"]["state"], overlane_host::STATE_SCHEMA);
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let is_hex = |word: &str| word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let maps = word(&build["abi"]["maps"]);
    assert!(maps.len() == 16 && is_hex(&maps), "{maps}");
    // OVERLANE_REVISION may name the revision otherwise.
    let commit = word(&build["commit"]);
    assert!(!commit.is_empty());

    let text = run(&["version"]);
    for part in [&commit, &maps] {
        assert!(out(&text).contains(part.as_str()), "{}", out(&text));
    }
    if commit != "unknown" {
        assert!(out(&run(&["--version"])).contains(&commit));
    }
}

#[test]
fn man_says_which_folder_it_could_not_write() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let output = run(&["man", file.to_str().unwrap()]);
    assert_eq!(code(&output), 1);
    let expected = format!("error: cannot write {}", file.display());
    assert!(err(&output).starts_with(&expected), "{}", err(&output));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    // Standard output is a pipe whose other end is closed before anything is written.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = overlane(&["schema"])
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(code(&output), 0);
    assert_eq!(err(&output), "");
}

#[test]
fn what_cannot_be_written_is_an_error_that_names_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fabric.yaml");
    fs::write(&file, GOOD).unwrap();
    let file = file.to_str().unwrap();
    for arguments in [
        &["check", file, "--json"][..],
        &["flows", file, "--json"],
        &["flows", file],
        &["schema"],
        &["version"],
        &["completions", "bash"],
        &["--help"],
        &["--version"],
        &["help", "apply"],
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        let output = overlane(arguments).stdout(full.unwrap()).output().unwrap();
        assert_eq!(code(&output), 1, "{arguments:?}");
        let said = err(&output);
        let expected = "error: cannot write to standard output: No space left on device";
        assert!(said.starts_with(expected), "{arguments:?}: {said}");
    }
}
