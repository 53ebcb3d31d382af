//! What can go wrong between this crate and the kernel.

use std::io;
use std::path::{Path, PathBuf};

use overlane_model::sizes::TooMany;
use thiserror::Error;

use crate::preflight::{self, OLDEST_TESTED};

/// Any failure of this crate.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EbpfError {
    /// The kernel has no tcx.
    #[error("Linux {running} is too old: it has no tcx, where the data path attaches")]
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
    /// Pins there would go with the mount namespace of this process, and the programs with them.
    #[error("{} is not the BPF file system of this machine: what is pinned there ends with this process", path.display())]
    PrivateBpffs {
        /// Where it is looked for.
        path: PathBuf,
    },
    /// A table would not fit into its map.
    #[error(transparent)]
    TooMany(#[from] TooMany),
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
    /// The kernel's verifier refused a program.
    #[error("Linux {running} refused program {program}: {}", reason(log))]
    Refused {
        /// The program.
        program: &'static str,
        /// Release of the running kernel.
        running: String,
        /// All that the verifier said.
        log: String,
    },
    /// A program could not be loaded, and the verifier did not say why.
    #[error("cannot load program {name}")]
    Program {
        /// The program.
        name: &'static str,
        /// What failed.
        #[source]
        source: aya::programs::ProgramError,
    },
}

impl EbpfError {
    /// The device of a hook or of a link is not there any more.
    #[must_use]
    pub fn is_device_gone(&self) -> bool {
        let Self::Call { source, .. } = self else {
            return false;
        };
        let answer = source.raw_os_error();
        answer.is_some_and(|answer| [libc::ENODEV, libc::ENOLINK].contains(&answer))
    }

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
            Self::KernelTooOld { .. } => format!("boot Linux {OLDEST_TESTED} or newer"),
            Self::Refused { running, .. } if preflight::is_tested(running) => {
                "this is a mistake of Overlane, not yours: please report it, with all that the verifier said".into()
            }
            Self::Refused { .. } => {
                format!("this kernel is too old: boot Linux {OLDEST_TESTED}, the oldest that is tested, or newer")
            }
            Self::Rights { .. } => "run it as root (sudo); in a container these capabilities must be granted".into(),
            Self::NoBpffs { path } => format!("mount it: mount -t bpf bpf {}", path.display()),
            Self::PrivateBpffs { path } => format!(
                "this process has mounts of its own, as under `ip netns exec`: run overlane outside of them, and name the \
                 network namespace with --netns NAME; a container needs the host's {} as a bind mount; nothing was changed",
                path.display()
            ),
            Self::TooMany(too_many) => too_many.size.help(),
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

/// What the verifier minded: its last line before the account of what it did.
fn reason(log: &str) -> &str {
    const ACCOUNT: [&str; 2] = ["verification time ", "processed "];
    // Of a loop that does not end, the registers follow the reason.
    const DETAILS: [&str; 2] = ["cur state:", "old state:"];
    let begins = |line: &str, with: [&str; 2]| with.iter().any(|words| line.starts_with(words));
    log.lines()
        .map(str::trim)
        .take_while(|line| !begins(line, ACCOUNT))
        .filter(|line| !line.is_empty() && !begins(line, DETAILS))
        .last()
        .unwrap_or("no reason given")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of Linux 6.12, about a length of which it had lost the lower bound.
    const LOG: &str = "\
func#0 @0
; if (bpf_skb_load_bytes(ctx, offset, options, len) < 0) @ l4.h:91
33: (85) call bpf_skb_load_bytes#26
R4 invalid zero-sized read: u64=[0,40]
verification time 1337 usec
stack depth 0+0
processed 4711 insns (limit 1000000) max_states_per_insn 4 total_states 97 peak_states 97 mark_read 0

";

    fn refused(running: &str, log: &str) -> EbpfError {
        EbpfError::Refused {
            program: "from_port",
            running: running.into(),
            log: log.into(),
        }
    }

    #[test]
    fn a_refusal_says_program_kernel_and_reason() {
        assert_eq!(
            refused("6.12.95+deb12-amd64", LOG).to_string(),
            "Linux 6.12.95+deb12-amd64 refused program from_port: R4 invalid zero-sized read: u64=[0,40]"
        );
        let endless = "infinite loop detected at insn 5\ncur state: R0=1\nold state: R0=1\nprocessed 9 insns\n";
        let endless = refused("7.3.4", endless).to_string();
        assert!(
            endless.ends_with("infinite loop detected at insn 5"),
            "{endless}"
        );
        let silent = refused("6.12.95", "processed 0 insns\n").to_string();
        assert!(silent.ends_with("no reason given"), "{silent}");
    }

    #[test]
    fn a_refusal_is_our_mistake_on_a_tested_kernel_and_else_the_kernels_age() {
        for tested in ["6.12.95+deb12-amd64", "7.3.4", "6.18.44-fc"] {
            let help = refused(tested, LOG).help().unwrap();
            assert!(help.contains("mistake of Overlane"), "{help}");
        }
        for old in ["6.6.0", "6.8.0-45-generic", "6.11.1"] {
            let help = refused(old, LOG).help().unwrap();
            assert!(help.contains("too old") && help.contains("6.12"), "{help}");
        }
    }
}
