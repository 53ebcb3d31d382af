//! Where things lie on the machine. Everything `apply` leaves is under these two folders, apart from the
//! devices named here and in `detours`, the unmarker's namespace, and the managed neighbour entries listed in the
//! state file.

use std::path::{Path, PathBuf};

use overlane_ebpf::Program;

/// The BPF file system.
pub const BPFFS: &str = "/sys/fs/bpf";
/// Parent of all hosts' pins.
pub const PINS: &str = "/sys/fs/bpf/overlane";
/// State and lock files: gone after a reboot, as the pins are.
pub const RUN: &str = "/run/overlane";

/// What agents keep of their hosts. It outlives a reboot.
pub const KEPT: &str = "/var/lib/overlane";

/// The end of the segmenter to send into.
pub const SEGMENTER: &str = "ovl-seg0";
/// The end where the segments come out.
pub const SEGMENTER_OUT: &str = "ovl-seg1";
/// The device that registers the tunnel's port for GRO.
pub const GRO: &str = "ovl-gro";
/// Broken devices of ours wait under these names until their replacement works.
pub const ASIDE: [(&str, &str); 3] = [
    (SEGMENTER, "ovl-old0"),
    (SEGMENTER_OUT, "ovl-old1"),
    (GRO, "ovl-oldg"),
];

/// Folder of one host's pins.
pub fn pins(host: &str) -> PathBuf {
    Path::new(PINS).join(pin_name(host))
}

/// Folder of one host's pinned links.
pub fn links(host: &str) -> PathBuf {
    pins(host).join("links")
}

/// Folder of the record of one host.
pub(crate) fn record(host: &str) -> PathBuf {
    pins(host).join("ours")
}

/// Folder of one pinned map set.
pub fn map_set(host: &str, signature: &str) -> PathBuf {
    pins(host).join(format!("{MAP_SET}{signature}"))
}

pub(crate) const MAP_SET: &str = "maps-";

/// File name of the link of a program on a device.
pub fn link(program: Program, device: &str) -> String {
    pin_name(&format!("{}-{device}", program.name()))
}

/// The name of a host's tables of nftables: the guard.
pub fn guard_table(host: &str) -> String {
    format!("overlane-{host}")
}

/// What `apply` remembers of a host.
pub fn state(host: &str) -> PathBuf {
    Path::new(RUN).join(format!("{host}.json"))
}

/// What the kernel's verifier said when it refused a program of a host.
pub fn verifier_log(host: &str) -> PathBuf {
    Path::new(RUN).join(format!("{host}.verifier"))
}

/// Who works on a host.
pub fn lock(host: &str) -> PathBuf {
    Path::new(RUN).join(format!("{host}.lock"))
}

/// Who captures packets of a host. Left behind by a kill, and then the capture may still be on.
pub fn capture_lock(host: &str) -> PathBuf {
    Path::new(RUN).join(format!("{host}.capture"))
}

/// Who reads the log of rules of a host.
pub fn log_lock(host: &str) -> PathBuf {
    Path::new(RUN).join(format!("{host}.log"))
}

/// Who keeps a host.
pub fn agent_lock(host: &str) -> PathBuf {
    Path::new(RUN).join(format!("{host}.agent"))
}

/// Where the agent of a host is called.
pub fn socket(host: &str) -> PathBuf {
    Path::new(RUN).join(format!("{host}.socket"))
}

/// The last good desired state of a host.
pub fn kept(host: &str) -> PathBuf {
    Path::new(KEPT).join(format!("{host}.json"))
}

/// What a run of `apply` left to announce; no two runs have the same number.
pub fn announcements(host: &str, number: u32) -> PathBuf {
    Path::new(RUN).join(format!("{}.{number}", announcements_of(host)))
}

/// Whether a file of this name is one of them.
pub(crate) fn is_announcements_of(host: &str, name: &str) -> bool {
    let number = name.strip_prefix(&announcements_of(host));
    let number = number.and_then(|number| number.strip_prefix('.'));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// What their names begin with, without the number.
pub(crate) fn announcements_of(host: &str) -> String {
    format!("{host}.announce")
}

/// The BPF file system refuses dots in names (kernel/bpf/inode.c, `bpf_lookup`); `%` escapes them and itself.
pub(crate) fn pin_name(name: &str) -> String {
    name.replace('%', "%25").replace('.', "%2e")
}

/// What became this name. The folder of a host's pins is called after the host.
pub(crate) fn unpin_name(name: &str) -> String {
    name.replace("%2e", ".").replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_its_own_announcements() {
        let name = |host, number| {
            let path = announcements(host, number);
            path.file_name().unwrap().to_string_lossy().into_owned()
        };
        assert!(is_announcements_of("h1", &name("h1", 7)));
        assert!(!is_announcements_of("h1", &name("h1.announce", 7)));
        assert!(!is_announcements_of("h1", "h1.announce.new"));
        assert!(!is_announcements_of("h1", "h1.json"));
    }

    #[test]
    fn no_dot_reaches_the_bpf_file_system() {
        assert_eq!(link(Program::FromPort, "eth0.100"), "from_port-eth0%2e100");
        assert_ne!(
            link(Program::FromPort, "a.b"),
            link(Program::FromPort, "a%2eb")
        );
        assert_eq!(unpin_name("h1%2eexample"), "h1.example");
        assert_eq!(
            pins("h1.example"),
            Path::new("/sys/fs/bpf/overlane/h1%2eexample")
        );
    }
}
