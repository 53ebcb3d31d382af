//! Tells the binary which revision of the sources it was made from, when that is known: for
//! `overlane version`. Outside a git checkout there is only the version.
//!
//! Runs again when the checkout moves to another commit, or when a source of the program changes: then the
//! program is compiled anyway.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the program is made from, seen from the top of the tree; of each crate only what is no test.
const SOURCES: [&str; 4] = ["bpf", "studies", "Cargo.toml", "Cargo.lock"];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sources = sources(&root);
    println!("cargo::rerun-if-env-changed=OVERLANE_REVISION");
    for source in &sources {
        println!("cargo::rerun-if-changed={}", root.join(source).display());
    }
    for file in moves(&root) {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    let told = std::env::var("OVERLANE_REVISION").ok();
    let (revision, changed) = match told.filter(|told| !told.is_empty()) {
        Some(told) => (Some(told), false),
        None => (revision(&root), is_changed(&root, &sources)),
    };
    let version = env!("CARGO_PKG_VERSION");
    let mark = if changed { "-dirty" } else { "" };
    match &revision {
        Some(revision) => {
            println!("cargo::rustc-env=OVERLANE_VERSION={version} ({revision}{mark})");
        }
        None => println!("cargo::rustc-env=OVERLANE_VERSION={version}"),
    }
    println!(
        "cargo::rustc-env=OVERLANE_COMMIT={}",
        revision.as_deref().unwrap_or("unknown")
    );
    println!("cargo::rustc-env=OVERLANE_CHANGED={changed}");
}

/// The sources of the program, relative to the top of the tree. All exist: cargo runs a build script that
/// waits for a missing file every time.
fn sources(root: &Path) -> Vec<String> {
    let crates = std::fs::read_dir(root.join("crates"));
    let mut found: Vec<String> = crates
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .flat_map(|name| {
            ["src", "build.rs", "Cargo.toml"].map(|part| format!("crates/{name}/{part}"))
        })
        .chain(SOURCES.map(str::to_owned))
        .filter(|source| root.join(source).exists())
        .collect();
    found.sort();
    found
}

/// The files of git that change when another commit is checked out.
fn moves(root: &Path) -> Vec<PathBuf> {
    let path = |name: &str| Some(root.join(git(root, &["rev-parse", "--git-path", name])?));
    let there = |name: &str| path(name).filter(|path| path.exists());
    // It grows with every commit and checkout; a clone may be told to keep none.
    if let Some(log) = there("logs/HEAD") {
        return vec![log];
    }
    let branch = git(root, &["symbolic-ref", "--quiet", "HEAD"]);
    ["HEAD", "packed-refs"]
        .into_iter()
        .chain(branch.as_deref())
        .filter_map(there)
        .collect()
}

/// The commit, if this tree is a checkout and not merely inside of another one.
fn revision(root: &Path) -> Option<String> {
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    let is_here = Path::new(&top).canonicalize().ok()? == root.canonicalize().ok()?;
    is_here.then(|| git(root, &["rev-parse", "--short=12", "HEAD"]))?
}

/// Whether a source differs from the commit.
fn is_changed(root: &Path, sources: &[String]) -> bool {
    let mut arguments = vec!["status", "--porcelain", "--untracked-files=no", "--"];
    arguments.extend(sources.iter().map(String::as_str));
    git(root, &arguments).is_some()
}

/// What git says; none when it says nothing, or fails.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        // Root may build what another user checked out. Cargo has already run build scripts from there.
        .args(["-c", "safe.directory=*", "--no-optional-locks"])
        .args(arguments)
        .current_dir(root)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
