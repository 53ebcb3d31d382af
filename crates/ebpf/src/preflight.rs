//! What must hold before anything is loaded: a kernel with tcx, the rights, and a BPF file system.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use crate::{EbpfError, sys};

/// A kernel's version: 6.12.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion(pub u32, pub u32, pub u32);

/// The oldest kernel that the tests boot and pass on (`tests/kernels/`). Older ones may do, and nobody has tried.
pub const OLDEST_TESTED: KernelVersion = KernelVersion(6, 12, 0);

/// First kernel with tcx, without which nothing attaches.
const FIRST_WITH_TCX: KernelVersion = KernelVersion(6, 6, 0);

/// Number and name of each capability we use (linux/capability.h): attach and devices, everything that
/// CAP_BPF does not cover (namespaces, objects by id), maps and programs.
const CAPABILITIES: [(u32, &str); 3] = [
    (12, "CAP_NET_ADMIN"),
    (21, "CAP_SYS_ADMIN"),
    (39, "CAP_BPF"),
];

/// The running kernel has tcx.
pub fn check_kernel() -> Result<(), EbpfError> {
    check_release(&running_kernel()?)
}

/// The release of the running kernel if it is older than [`OLDEST_TESTED`].
pub fn untested_kernel() -> Result<Option<String>, EbpfError> {
    Ok(Some(running_kernel()?).filter(|release| !is_tested(release)))
}

/// Release of the running kernel, as `uname -r` prints it.
pub fn running_kernel() -> Result<String, EbpfError> {
    let path = Path::new("/proc/sys/kernel/osrelease");
    let text = fs::read_to_string(path).map_err(EbpfError::path("read", path))?;
    Ok(text.trim().to_owned())
}

/// Whether a kernel with this release is new enough to count as tested.
pub(crate) fn is_tested(release: &str) -> bool {
    KernelVersion::of(release) >= OLDEST_TESTED
}

/// This process has the capabilities.
pub fn check_rights() -> Result<(), EbpfError> {
    let path = Path::new("/proc/self/status");
    check_capabilities(&fs::read_to_string(path).map_err(EbpfError::path("read", path))?)
}

/// A BPF file system is mounted on `path`.
pub fn check_bpffs(path: &Path) -> Result<(), EbpfError> {
    match sys::is_bpffs(path) {
        Ok(true) => Ok(()),
        Ok(false) => Err(EbpfError::NoBpffs {
            path: path.to_owned(),
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(EbpfError::NoBpffs {
            path: path.to_owned(),
        }),
        Err(error) => Err(EbpfError::path("statfs", path)(error)),
    }
}

/// What is pinned under `path` outlives this process: it is the file system that the first process has there. One
/// that is mounted under `ip netns exec` goes with the mount namespace.
pub fn check_bpffs_lasts(path: &Path) -> Result<(), EbpfError> {
    let Some(outside) = seen_from_outside(path) else {
        return Ok(());
    };
    let is_same = match (fs::metadata(path), fs::metadata(&outside)) {
        (Ok(own), Ok(outside)) => own.dev() == outside.dev(),
        _ => false,
    };
    let is_bpffs = |path| sys::is_bpffs(path).unwrap_or(false);
    if is_same || !(is_bpffs(path) || is_bpffs(&outside)) {
        return Ok(());
    }
    Err(EbpfError::PrivateBpffs {
        path: path.to_owned(),
    })
}

/// Number of the machine's first PID namespace (include/linux/proc_ns.h, `PROC_PID_INIT_INO`).
const FIRST_PID_NAMESPACE: u64 = 0xefff_fffc;

/// The first process of the machine is out of sight, in a container for example: [`check_bpffs_lasts`] compares with
/// one that knows no more than this one.
pub fn is_shut_in() -> bool {
    let number = fs::metadata("/proc/self/ns/pid").map(|namespace| namespace.ino());
    // Where /proc is that of the machine, it names this process by another number.
    let sees_itself = fs::read_link("/proc/self")
        .is_ok_and(|own| own.as_os_str() == std::process::id().to_string().as_str());
    number.is_ok_and(|number| number != FIRST_PID_NAMESPACE) && sees_itself
}

/// `path` in the mount namespace of the first process; where we may not look, of the first ancestor of whom we may.
fn seen_from_outside(path: &Path) -> Option<PathBuf> {
    let mut ancestors: Vec<u32> =
        std::iter::successors(Some(std::process::id()), |&id| parent_of(id)).collect();
    ancestors.push(1);
    let roots = ancestors
        .into_iter()
        .rev()
        .map(|id| PathBuf::from(format!("/proc/{id}/root")));
    let below = path.strip_prefix("/").ok()?;
    let mut roots = roots.filter(|root| fs::metadata(root).is_ok());
    roots.next().map(|root| root.join(below))
}

fn parent_of(id: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    parent.trim().parse().ok().filter(|&parent| parent != 0)
}

impl KernelVersion {
    /// The version that a release begins with; what it does not say is 0.
    pub fn of(release: &str) -> Self {
        let mut numbers = release
            .split(|c: char| !c.is_ascii_digit())
            .map(|part| part.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        Self(next(), next(), next())
    }
}

fn check_release(release: &str) -> Result<(), EbpfError> {
    if KernelVersion::of(release) >= FIRST_WITH_TCX {
        Ok(())
    } else {
        Err(EbpfError::KernelTooOld {
            running: release.to_owned(),
        })
    }
}

/// The series.
impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

fn check_capabilities(status: &str) -> Result<(), EbpfError> {
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    let missing: Vec<_> = CAPABILITIES
        .iter()
        .filter(|(bit, _)| effective & (1 << bit) == 0)
        .map(|&(_, name)| name)
        .collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(EbpfError::Rights { missing })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_kernels_are_refused_by_name() {
        for with_tcx in ["6.6.0", "6.18.44-fc", "7.0.0-rc1", "6.6-generic", "10.1"] {
            check_release(with_tcx).unwrap();
        }
        for old in ["6.5.13-generic", "5.15.0", "6.1.0-30-amd64", "4.19"] {
            let error = check_release(old).unwrap_err();
            assert!(error.to_string().contains(old), "{error}");
            assert!(error.help().unwrap().contains("6.12"));
        }
    }

    #[test]
    fn kernels_that_nobody_tried_are_known() {
        for tested in ["6.12.0", "6.12.95+deb12-amd64", "6.18.44-fc", "7.0.0-rc1"] {
            assert!(is_tested(tested), "{tested}");
        }
        for untested in ["6.6.0", "6.8.0-45-generic", "6.11.11"] {
            assert!(!is_tested(untested), "{untested}");
        }
    }

    #[test]
    fn missing_capabilities_are_named() {
        check_capabilities("Name:\tx\nCapEff:\t000001ffffffffff\n").unwrap();
        let error = check_capabilities("CapEff:\t0000000000000000\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "missing rights: CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF"
        );
        let error = check_capabilities("CapEff:\t0000008000200000\n").unwrap_err();
        assert_eq!(error.to_string(), "missing rights: CAP_NET_ADMIN");
    }

    #[test]
    fn what_the_first_process_sees_too_lasts() {
        check_bpffs_lasts(Path::new("/sys/fs/bpf")).unwrap();
        check_bpffs_lasts(Path::new("/nowhere")).unwrap();
        let parent = parent_of(std::process::id()).unwrap();
        assert_eq!(parent, std::os::unix::process::parent_id());
    }

    #[test]
    fn a_plain_folder_is_no_bpffs() {
        let error = check_bpffs(Path::new("/proc")).unwrap_err();
        assert!(error.help().unwrap().contains("mount -t bpf bpf /proc"));
        assert!(matches!(
            check_bpffs(Path::new("/nowhere")),
            Err(EbpfError::NoBpffs { .. })
        ));
    }
}
