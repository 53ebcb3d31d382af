//! What can go wrong between this crate and the kernel.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Any failure of this crate.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EbpfError {
    /// The kernel has no tcx.
    #[error("Linux {running} is too old: 6.6 or newer is needed")]
    KernelTooOld {
        /// Release of the running kernel.
        running: String,
    },
    /// A capability is missing.
    #[error("missing rights: {}", missing.join(", "))]
    Rights {
        /// Names of the missing capabilities.
        missing: Vec<&'static str>,
    },
    /// No BPF file system where pins must go.
    #[error("no BPF file system is mounted on {}", path.display())]
    NoBpffs {
        /// Where it should be.
        path: PathBuf,
    },
    /// A table would not fit into its map.
    #[error("table {table} needs {count} entries and holds {limit}")]
    TooMany {
        /// The map.
        table: &'static str,
        /// How many entries the fabric asks for.
        count: usize,
        /// How many fit.
        limit: usize,
        /// What to shrink in the fabric.
        shrink: &'static str,
    },
    /// The flood list of one logical switch is too long.
    #[error("switch with {switch}: {count} receivers in the flood list, {limit} fit")]
    FloodList {
        /// The logical switch.
        switch: overlane_model::SwitchId,
        /// How many receivers it has.
        count: usize,
        /// How many fit.
        limit: usize,
    },
    /// An outer header template longer than the map's field.
    #[error("the outer header towards {remote} is {len} bytes long, {limit} fit")]
    Template {
        /// The remote.
        remote: std::net::IpAddr,
        /// Length of the template.
        len: usize,
        /// Length of the field.
        limit: usize,
    },
    /// The tables name a device that was not resolved.
    #[error("device {0} is not resolved")]
    UnknownDevice(String),
    /// The kernel refused a bpf(2) command or a file operation.
    #[error("{call} of {what} failed")]
    Call {
        /// The command.
        call: &'static str,
        /// Its object.
        what: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The data path's object file is not what this crate expects.
    #[error("the data path object has no {kind} {name}")]
    Missing {
        /// `map` or `program`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// A map of the object has other sizes than `abi.rs`.
    #[error("map {map} has {field} {found}, this program has {expected}")]
    Abi {
        /// The map.
        map: String,
        /// Which size.
        field: &'static str,
        /// In the object.
        found: usize,
        /// Here.
        expected: usize,
    },
    /// The object file cannot be read.
    #[error("the data path object cannot be parsed")]
    Parse(#[from] aya_obj::ParseError),
    /// The kernel refused maps or object.
    #[error("the kernel refused the data path")]
    Load(#[from] aya::EbpfError),
    /// The ring of captured packets cannot be read.
    #[error("cannot read the ring of captured packets")]
    Ring(#[source] aya::maps::MapError),
    /// The ring of what rules log cannot be read.
    #[error("cannot read the log of rules")]
    LogRing(#[source] aya::maps::MapError),
    /// The verifier refused a program.
    #[error("the kernel refused program {name}")]
    Program {
        /// The program.
        name: &'static str,
        /// The verifier's words.
        #[source]
        source: aya::programs::ProgramError,
    },
}

impl EbpfError {
    pub(crate) fn call(
        call: &'static str,
        what: impl Into<String>,
    ) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Call { call, what, source }
    }

    pub(crate) fn path(call: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let what = path.display().to_string();
        move |source| Self::Call { call, what, source }
    }

    /// What the user can do about it.
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::KernelTooOld { .. } => "boot a kernel ≥ 6.6 (it brings tcx, where the data path attaches)".into(),
            Self::Rights { .. } => "run it as root (sudo); in a container these capabilities must be granted".into(),
            Self::NoBpffs { path } => format!("mount it: mount -t bpf bpf {}", path.display()),
            Self::TooMany { shrink, .. } => format!("shrink the fabric: {shrink}"),
            Self::FloodList { .. } => "spread the ports of this switch over fewer hosts, or split the switch".into(),
            Self::Abi { .. } | Self::Missing { .. } => {
                "program and data path come from different builds: build both again".into()
            }
            Self::Call { source, .. } if source.raw_os_error() == Some(libc::EPERM) => {
                "the kernel refused it for lack of rights (CAP_BPF, CAP_NET_ADMIN, CAP_SYS_ADMIN): run it as root".into()
            }
            Self::Call { source, .. } if source.raw_os_error() == Some(libc::ENOMEM) => {
                "the kernel has no memory left for it (the memory limit of this process group counts)".into()
            }
            _ => return None,
        })
    }
}
