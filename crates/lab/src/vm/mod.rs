//! Real virtual machines, and their live migration.
//!
//! ```text
//!  Images (kernel, initrd, accelerator) ──► Machine::boot      ──┐
//!                                       ──► Machine::incoming  ──┴─► Migration::begin … poll … switch … poll
//! ```
//!
//! A machine is a QEMU in a node's namespace, on the node's CPUs, with a TAP of that namespace as its network card. In it
//! runs one program of ours (`crates/guest`), which takes orders by a serial port. A migration is looked after by asking it
//! again and again, so that one thread can look after several.

#[cfg(test)]
mod fake;
mod guest;
mod initrd;
mod kernel;
mod lines;
mod links;
mod migration;
mod qemu;
mod qmp;
#[cfg(test)]
mod scripted;
#[cfg(test)]
mod tests;

pub(crate) use guest::GuestReport;
pub(crate) use kernel::Kernel;
pub(crate) use migration::{Figures, Guest, Migration, Options, Progress, Stopped};
pub(crate) use qemu::{Machine, Spec};

use crate::error::LabError;
use crate::relay;
use crate::session::Session;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const QEMU: &str = "qemu-system-x86_64";
const KVM_DEVICE: &str = "/dev/kvm";
/// Until QEMU has said its version.
const VERSION: Duration = Duration::from_secs(20);
/// With KVM a machine is up after a second or two; where KVM only pretends to work it never is.
const PROBE: Duration = Duration::from_secs(15);
const PROBE_MIB: u32 = 128;

/// What a virtual machine lacks here, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) what: String,
    pub(crate) help: String,
}

/// What all virtual machines of a run are booted from.
pub(crate) struct Images {
    /// QEMU's own words for its version.
    pub(crate) version: String,
    pub(crate) kernel: Kernel,
    pub(crate) accelerator: Accelerator,
    initrd: PathBuf,
}

/// What runs the guest's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accelerator {
    /// The processor, and it was tried.
    Kvm,
    /// QEMU's translator.
    Emulation,
}

impl Images {
    /// Finds QEMU and a kernel (`folder`: has `vmlinuz` and `lib/modules`; none: of the environment or of this machine),
    /// makes the RAM disk, and tries KVM by booting it.
    pub(crate) fn prepare(session: &Session, folder: Option<&Path>) -> Result<Self, LabError> {
        if let Some(missing) = missing(session, folder)? {
            return Err(missing.into());
        }
        let mut command = Command::new(QEMU);
        command.arg("--version");
        let said = session.run(command, VERSION)?.stdout;
        let said = String::from_utf8_lossy(&said);
        let kernel = Kernel::find(folder)?;
        let initrd = session.dir().join("guest.cpio");
        initrd::write(session, &kernel, &initrd)?;
        let mut images = Self {
            version: said.lines().next().unwrap_or_default().to_owned(),
            kernel,
            accelerator: Accelerator::Kvm,
            initrd,
        };
        if !images.boots(session)? {
            images.accelerator = Accelerator::Emulation;
        }
        Ok(images)
    }

    /// What machines run on.
    pub(crate) fn words(&self) -> String {
        format!(
            "its machines run on {}, {}, with Linux {}",
            self.version, self.accelerator, self.kernel.release
        )
    }

    /// Whether the accelerator boots our guest. `/dev/kvm` alone proves nothing: some clouds' KVM gives up on a kernel.
    fn boots(&self, session: &Session) -> Result<bool, LabError> {
        if !Path::new(KVM_DEVICE).exists() {
            return Ok(false);
        }
        let machine = match Machine::without_network(session, self, "probe", PROBE_MIB) {
            Ok(machine) => machine,
            Err(LabError::Interrupted) => return Err(LabError::Interrupted),
            Err(_) => return Ok(false),
        };
        let end = Instant::now() + PROBE;
        while Instant::now() < end {
            match machine.wait_up(session, Duration::from_millis(100)) {
                Ok(()) => return Ok(true),
                Err(LabError::Interrupted) => return Err(LabError::Interrupted),
                // It stands still when KVM gives up.
                Err(_) if machine.is_running(session).unwrap_or(false) => {}
                Err(_) => return Ok(false),
            }
        }
        Ok(false)
    }
}

/// Why no virtual machine can be migrated here, and what to do about it; `Ok(None)` when one can.
pub(crate) fn missing(
    session: &Session,
    folder: Option<&Path>,
) -> Result<Option<Missing>, LabError> {
    if !is_installed(QEMU) {
        return Ok(Some(Missing::no_qemu()));
    }
    let modules = match Kernel::find(folder).and_then(|kernel| kernel.modules_to_load()) {
        Ok(modules) => modules,
        Err(missing) => return Ok(Some(missing)),
    };
    let programs = modules
        .iter()
        .filter_map(|module| initrd::decompressor(module));
    for program in programs {
        if !is_installed(program) {
            return Ok(Some(Missing::no_decompressor(program)));
        }
    }
    Ok(relay::check(session)?.map(|what| Missing {
        what,
        help: "in a container allow the device /dev/net/tun".to_owned(),
    }))
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

impl Missing {
    fn no_qemu() -> Self {
        Self {
            what: format!("no {QEMU} is installed"),
            help: "apt-get install --no-install-recommends qemu-system-x86".to_owned(),
        }
    }

    fn no_kernel() -> Self {
        Self {
            what: "no kernel for a virtual machine: none in /boot has its modules in /lib/modules"
                .to_owned(),
            help: format!(
                "unpack one, which need not become this machine's: in an empty folder, as KERNEL what `apt-cache search \
                 --names-only '^linux-image-.*-amd64$'` names with a version: apt-get download KERNEL; dpkg-deb --extract \
                 KERNEL_*.deb .; depmod --basedir . RELEASE (the folder's name in lib/modules); then set {}=FOLDER",
                kernel::KERNEL_VARIABLE
            ),
        }
    }

    fn wrong_folder(what: String, folder: &Path) -> Self {
        Self {
            what,
            help: format!(
                "a package of Debian's, unpacked with dpkg-deb --extract, has its kernel in boot/ and gets its modules.dep by: \
                 depmod --basedir {} RELEASE",
                folder.display()
            ),
        }
    }

    fn unreadable(path: &Path, error: &io::Error) -> Self {
        Self {
            what: format!("{} cannot be read: {error}", path.display()),
            help: "depmod writes it (package kmod)".to_owned(),
        }
    }

    fn no_module(name: &str, release: &str) -> Self {
        Self {
            what: format!(
                "Linux {release} has no {name}, which a virtual machine's network card needs"
            ),
            help: format!("name another kernel by {}", kernel::KERNEL_VARIABLE),
        }
    }

    fn no_decompressor(program: &str) -> Self {
        let package = match program {
            "xz" => "xz-utils",
            other => other,
        };
        Self {
            what: format!("the kernel's modules are compressed, and no {program} is installed"),
            help: format!("apt-get install --no-install-recommends {package}"),
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.help)
    }
}

impl From<Missing> for LabError {
    fn from(missing: Missing) -> Self {
        Self::Unable {
            reason: missing.to_string(),
        }
    }
}

impl fmt::Display for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kvm => "KVM",
            Self::Emulation => "emulation (TCG)",
        })
    }
}
