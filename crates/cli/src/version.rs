//! `overlane version`: which build this is, and what it fits.

use overlane_ebpf::DataPath;
use overlane_ebpf::preflight::OLDEST_TESTED;
use overlane_host::{HostError, STATE_SCHEMA};
use serde::Serialize;

use crate::args::Version;
use crate::failure::Failure;
use crate::output::Output;

#[derive(Serialize)]
struct Build {
    version: &'static str,
    /// Of git; `unknown` outside a checkout.
    commit: &'static str,
    /// The sources differed from the commit.
    changed: bool,
    /// The oldest kernel that is tested.
    kernel_min: String,
    abi: Abi,
}

/// What a build leaves on a machine for the next one.
#[derive(Serialize)]
struct Abi {
    /// The pinned maps: builds that agree here take each other's maps over as they are.
    maps: String,
    /// The state file.
    state: u32,
}

pub(crate) fn run(args: &Version, output: Output) -> Result<(), Failure> {
    let build = build()?;
    if args.json {
        return Ok(output.json(&build)?);
    }
    let changed = if build.changed {
        ", and changes that are not committed"
    } else {
        ""
    };
    output.line(format!(
        "overlane {}\n\
         commit         {}{changed}\n\
         oldest kernel  Linux {}\n\
         map layout     {}\n\
         state format   {}",
        build.version, build.commit, build.kernel_min, build.abi.maps, build.abi.state,
    ))?;
    Ok(())
}

fn build() -> Result<Build, Failure> {
    let data_path = DataPath::embedded().map_err(HostError::from)?;
    Ok(Build {
        version: env!("CARGO_PKG_VERSION"),
        commit: env!("OVERLANE_COMMIT"),
        changed: env!("OVERLANE_CHANGED") == "true",
        kernel_min: OLDEST_TESTED.to_string(),
        abi: Abi {
            maps: data_path.signature().to_owned(),
            state: STATE_SCHEMA,
        },
    })
}
