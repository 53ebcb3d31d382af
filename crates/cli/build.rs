//! Tells the binary which revision of the sources it was made from, when that is known: for
//! `overlane --version`. Outside a git checkout there is only the version.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=OVERLANE_REVISION");
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && std::path::Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
    let revision = std::env::var("OVERLANE_REVISION")
        .ok()
        .or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    let version = env!("CARGO_PKG_VERSION");
    match revision {
        Some(revision) => println!("cargo::rustc-env=OVERLANE_VERSION={version} ({revision})"),
        None => println!("cargo::rustc-env=OVERLANE_VERSION={version}"),
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
