//! Compiles the program of the virtual machines (`crates/guest`) a second time: static, so that it runs as the only file
//! of an initial RAM disk, and small. `src/vm/initrd.rs` embeds it.

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), Box<dyn Error>> {
    let sources = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?)
        .join("../guest/src")
        .canonicalize()
        .map_err(|error| {
            format!("crates/guest/src, the program of the virtual machines: {error}")
        })?;
    println!("cargo::rerun-if-changed={}", sources.display());
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = env::var("RUSTC")?;
    let output = Command::new(&rustc)
        .args(["--edition", "2024", "--crate-name", "overlane_guest"])
        .args(["--target", &env::var("TARGET")?])
        .args([
            "-C",
            "target-feature=+crt-static",
            "-C",
            "relocation-model=static",
        ])
        .args(["-C", "opt-level=s", "-C", "lto", "-C", "codegen-units=1"])
        .args(["-C", "panic=abort", "-C", "strip=symbols"])
        // Paths in messages must not depend on where the project lies.
        .arg(format!("--remap-path-prefix={}=guest", sources.display()))
        .arg("-o")
        .arg(PathBuf::from(env::var("OUT_DIR")?).join("overlane-guest"))
        .arg(sources.join("main.rs"))
        .output()
        .map_err(|error| format!("{rustc} could not be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let messages = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "the program of the virtual machines (crates/guest) was not built:\n{messages}\n{}",
        help(&messages)
    )
    .into())
}

/// What is missing, by what the compiler and the linker say of it.
fn help(messages: &str) -> &'static str {
    if messages.contains("linker `") && messages.contains("not found") {
        "help: no linker here; install one: apt-get install gcc"
    } else if ["-lc", "libc.a", "-lpthread", "crt1.o"]
        .iter()
        .any(|part| messages.contains(part))
    {
        "help: the C library for static programs (libc.a) is missing; install it: apt-get install libc6-dev"
    } else if messages.contains("can't find crate for `std`") {
        "help: the standard library of this target is missing; install it: rustup target add (the target)"
    } else {
        "help: a static program is linked with gcc and libc6-dev: scripts/setup installs them"
    }
}
