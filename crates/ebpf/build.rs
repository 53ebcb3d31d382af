//! Compiles the data path (`bpf/tc.bpf.c`) to the object that `object.rs` embeds.
//!
//! Needs clang ≥ 16 and libbpf's headers; says which package is missing otherwise.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Oldest clang whose BPF backend has what the sources use (`-mcpu=v3`, global functions, BTF enums).
const CLANG_MIN: u32 = 16;

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
        .join("../../bpf")
        .canonicalize()?;
    let object = PathBuf::from(env::var("OUT_DIR")?).join("tc.bpf.o");
    println!("cargo::rerun-if-changed={}", sources.display());

    let clang = find_clang()?;
    let multiarch =
        Path::new("/usr/include").join(format!("{}-linux-gnu", env::var("CARGO_CFG_TARGET_ARCH")?));
    if !Path::new("/usr/include/bpf/bpf_helpers.h").exists() {
        return Err("libbpf's headers are missing (bpf/bpf_helpers.h); install them: apt install libbpf-dev".into());
    }
    let output = Command::new(&clang)
        .args([
            "-target", "bpf", "-O2", "-g", "-mcpu=v3", "-Wall", "-Wextra", "-Werror",
        ])
        .arg("-I")
        .arg(&sources)
        .arg("-I")
        .arg(&multiarch)
        // Paths in BTF line information must not depend on where the project lies.
        .arg(format!("-ffile-prefix-map={}=bpf", sources.display()))
        .arg("-c")
        .arg(sources.join("tc.bpf.c"))
        .arg("-o")
        .arg(&object)
        .output()?;
    if !output.status.success() {
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{clang} refused bpf/tc.bpf.c:\n{messages}").into());
    }
    Ok(())
}

/// clang-19 is what Debian 12's set-up installs and what is tested; any other clang that is new enough will do.
fn find_clang() -> Result<String, Box<dyn Error>> {
    for name in ["clang-19", "clang"] {
        let Ok(output) = Command::new(name).arg("--version").output() else {
            continue;
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let major = text
            .split_once("version ")
            .and_then(|(_, rest)| rest.split('.').next())
            .and_then(|major| major.trim().parse::<u32>().ok());
        match major {
            Some(major) if major >= CLANG_MIN => return Ok(name.to_owned()),
            _ => continue,
        }
    }
    Err(format!(
        "no clang ≥ {CLANG_MIN} to compile the data path with; install it: apt install clang-19"
    )
    .into())
}
