//! `scripts/install` as `make install` and `make uninstall` run it, into a folder of the test's own: which
//! files come, what they say, that all of them go, and that it is all of them or none.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_overlane");
const PREFIX: &str = "/opt/overlane";

/// What is there beside the man pages of the commands.
const FILES: [&str; 9] = [
    "bin/overlane",
    "etc/NetworkManager/conf.d/10-overlane.conf",
    "lib/systemd/network/10-overlane.network",
    "lib/systemd/system/overlane-agent.service",
    "lib/systemd/system/overlane-apply@.service",
    "share/bash-completion/completions/overlane",
    "share/fish/vendor_completions.d/overlane.fish",
    "share/man/man1/overlane.1",
    "share/zsh/site-functions/_overlane",
];

/// A folder that stands for `/`; its name has a space.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a root")).unwrap();
        Self { folder }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("a root")
    }

    fn prefix(&self) -> PathBuf {
        self.root().join(PREFIX.trim_start_matches('/'))
    }

    /// The script's command; the folder is never the machine's own.
    fn command(&self, action: &str) -> Command {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install");
        let mut command = Command::new(script);
        command
            .arg(action)
            .env("DESTDIR", self.root())
            .env("PREFIX", PREFIX)
            .env("OVERLANE", PROGRAM);
        command
    }

    fn run(&self, action: &str) -> Output {
        self.command(action).output().unwrap()
    }

    /// Every file below the root, as seen from the prefix, or from the root if it is not below that.
    fn files(&self) -> BTreeSet<String> {
        let prefix = self.prefix();
        let mut found = BTreeSet::new();
        let mut open = vec![self.root()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    let name = path.strip_prefix(&prefix);
                    let name = name.or_else(|_| path.strip_prefix(self.root()));
                    let name = name.unwrap_or(&path);
                    found.insert(name.to_str().unwrap().to_owned());
                }
            }
        }
        found
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.prefix().join(file)).unwrap()
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// The help of a command, by the name of its page: `overlane-show-ports.1`.
fn help(page: &str) -> String {
    let stem = page.strip_suffix(".1").unwrap();
    let output = Command::new(PROGRAM)
        .args(stem.split('-').skip(1))
        .arg("--help")
        .output()
        .unwrap();
    succeeded(&output);
    text(&output.stdout).to_owned()
}

/// The options that begin a line of the help: `--json`, `--write`.
fn options(help: &str) -> Vec<&str> {
    help.lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with('-'))
        .filter_map(|line| {
            line.split(&[' ', ','][..])
                .find(|word| word.starts_with("--"))
        })
        .collect()
}

#[test]
fn what_is_installed_is_all_there_and_goes_again() {
    let place = Place::new();
    succeeded(&place.run("install"));
    let files = place.files();
    for file in FILES {
        assert!(files.contains(file), "{file} is missing");
    }
    let pages: Vec<&String> = files
        .iter()
        .filter(|file| !FILES.contains(&file.as_str()))
        .collect();
    for page in [
        "overlane-apply.1",
        "overlane-show-ports.1",
        "overlane-lab-run.1",
    ] {
        let page = format!("share/man/man1/{page}");
        assert!(pages.contains(&&page), "{page} is missing: {pages:?}");
    }
    for page in pages {
        assert!(page.starts_with("share/man/man1/overlane-"), "{page}");
        assert!(!page.contains("relay"), "hidden: {page}");
    }
    for file in &files {
        let place = match file.starts_with("etc/") {
            true => place.root().join(file),
            false => place.prefix().join(file),
        };
        let mode = fs::metadata(place).unwrap().permissions();
        let expected = if file == "bin/overlane" { 0o755 } else { 0o644 };
        assert_eq!(mode.mode() & 0o777, expected, "{file}");
    }
    assert_eq!(
        fs::read(place.prefix().join("bin/overlane")).unwrap(),
        fs::read(PROGRAM).unwrap()
    );

    // Again, over what is there.
    succeeded(&place.run("install"));
    assert_eq!(place.files(), files);

    fs::write(place.prefix().join("bin/other"), "").unwrap();
    succeeded(&place.run("uninstall"));
    assert_eq!(place.files(), BTreeSet::from(["bin/other".to_owned()]));
}

#[test]
fn pages_and_completions_name_the_options() {
    let place = Place::new();
    succeeded(&place.run("install"));
    let mut checked = 0;
    for file in place.files() {
        let Some(page) = file.strip_prefix("share/man/man1/") else {
            continue;
        };
        let roff = place.read(&file).replace("\\-", "-");
        assert!(roff.contains("\n.SH NAME\n"), "{page}");
        for option in options(&help(page)) {
            assert!(roff.contains(option), "{page} does not name {option}");
            checked += 1;
        }
    }
    assert!(checked > 60, "{checked} options were found");
    let apply = place.read("share/man/man1/overlane-apply.1");
    assert!(apply.contains(".SH EXAMPLES"), "{apply}");
    for file in FILES.iter().filter(|file| file.contains("complet")) {
        assert!(place.read(file).contains("dry-run"), "{file}");
    }
}

#[test]
fn the_unit_runs_what_was_installed() {
    let place = Place::new();
    succeeded(&place.run("install"));
    let unit = place.read("lib/systemd/system/overlane-apply@.service");
    for key in ["ExecStart", "ExecReload"] {
        let line = format!("\n{key}={PREFIX}/bin/overlane apply ");
        assert!(unit.contains(&line), "{unit}");
    }
    assert!(!unit.contains("/usr/local"), "{unit}");
    let unit = place.read("lib/systemd/system/overlane-agent.service");
    assert!(
        unit.contains(&format!("\nExecStart={PREFIX}/bin/overlane agent\n")),
        "{unit}"
    );
}

/// A folder without the right to write would stop nobody who is root: so a file lies where a folder has to be.
#[test]
fn nothing_is_written_unless_all_can_be() {
    let place = Place::new();
    fs::create_dir_all(place.prefix().join("lib")).unwrap();
    fs::write(place.prefix().join("lib/systemd"), "in the way").unwrap();
    let before = place.files();
    let output = place.run("install");
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.starts_with("error: nothing was changed: "), "{said}");
    assert!(
        said.contains("lib/systemd is not a folder\nhelp: "),
        "{said}"
    );
    assert_eq!(place.files(), before);
    assert!(!place.prefix().join("bin").exists(), "not even a folder");
}

#[test]
fn what_cannot_be_done_is_said() {
    let place = Place::new();
    let said = |command: &mut Command| {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        text(&output.stderr).to_owned()
    };
    for (expected, mut command) in [
        ("error: PREFIX is 'opt'\n", {
            let mut command = place.command("install");
            command.env("PREFIX", "opt");
            command
        }),
        ("error: there is no program /no/such\n", {
            let mut command = place.command("install");
            command.env("OVERLANE", "/no/such");
            command
        }),
        ("error: unknown action 'repair'\n", place.command("repair")),
    ] {
        let said = said(&mut command);
        assert!(said.starts_with(expected), "{said}");
        assert!(said.contains("\nhelp: "), "{said}");
    }
    assert_eq!(place.files(), BTreeSet::new());
}
