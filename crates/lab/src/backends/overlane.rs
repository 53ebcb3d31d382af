//! `overlane-vxlan` and `overlane-geneve`: this project's own data path, set up as any user would: a
//! fabric file and `overlane apply`, through the public command line.
//! [`overlane_vlan`](super::overlane_vlan) is the same with another fabric.

use super::Backend;
use crate::environment;
use crate::error::LabError;
use crate::journal::Entry;
use crate::proof::Expected;
use crate::session::Session;
use crate::topology::{
    GUEST1_ADDRESS, GUEST1_MAC, GUEST2_ADDRESS, GUEST2_MAC, HOST1_ADDRESS, HOST2_ADDRESS, Node,
    PORT_DEVICE, PREFIX, Topology, UPLINK, VNI,
};
use nix::mount::{MsFlags, mount};
use nix::sys::statfs::{FsType, statfs};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PROGRAM: &str = "overlane";
const BPFFS: &str = "/sys/fs/bpf";
/// `BPF_FS_MAGIC` of linux/magic.h.
const BPFFS_MAGIC: FsType = FsType(0xcafe_4a11);
const STEP: Duration = Duration::from_secs(30);
/// tcx came with this one.
const KERNEL: (u32, u32) = (6, 6);

pub(super) struct Overlane {
    /// The file's settings of tunnels, a whole line; empty where there are none.
    tunnel: String,
    /// What the logical switch is on the underlay.
    switch: String,
    expected: Expected,
    applied: Vec<String>,
}

impl Overlane {
    pub(super) fn vxlan() -> Self {
        Self::tunnels("vxlan", Expected::Vxlan)
    }

    pub(super) fn geneve() -> Self {
        Self::tunnels("geneve", Expected::Geneve { ovn: true })
    }

    fn tunnels(encapsulation: &str, expected: Expected) -> Self {
        let tunnel = format!("tunnel: {{ encapsulation: {encapsulation} }}\n");
        Self::new(tunnel, format!("vni: {VNI}"), expected)
    }

    pub(super) fn new(tunnel: String, switch: String, expected: Expected) -> Self {
        Self {
            tunnel,
            switch,
            expected,
            applied: Vec::new(),
        }
    }

    /// The fabric of the two hosts.
    pub(super) fn fabric(&self, [a, b]: [&str; 2]) -> String {
        let Self { tunnel, switch, .. } = self;
        let (mac1, mac2) = (mac(GUEST1_MAC), mac(GUEST2_MAC));
        format!(
            "version: 1\n\
             {tunnel}\
             hosts:\n  \
               {a}: {{ underlay: {HOST1_ADDRESS}, uplink: {UPLINK} }}\n  \
               {b}: {{ underlay: {HOST2_ADDRESS}, uplink: {UPLINK} }}\n\
             switches:\n  \
               lab: {{ {switch} }}\n\
             ports:\n  \
               guest1: {{ switch: lab, host: {a}, device: {PORT_DEVICE}, mac: \"{mac1}\", addresses: [{GUEST1_ADDRESS}] }}\n  \
               guest2: {{ switch: lab, host: {b}, device: {PORT_DEVICE}, mac: \"{mac2}\", addresses: [{GUEST2_ADDRESS}] }}\n"
        )
    }
}

impl Backend for Overlane {
    fn build(&mut self, session: &Session, topology: &Topology) -> Result<(), LabError> {
        mount_bpffs(session)?;
        let names = ["a", "b"].map(|end| session.unique(&format!("{}-{end}", topology.label())));
        let file = session.dir().join(format!("{}.yaml", topology.label()));
        let fabric = self.fabric([&names[0], &names[1]]);
        fs::write(&file, fabric).map_err(LabError::io("writing", &file))?;
        for (host, own, _) in topology.hosts() {
            host.netlink.add_address(UPLINK, own.into(), PREFIX)?;
        }
        for ((host, _, _), name) in topology.hosts().zip(names) {
            session.journal(&Entry::Fabric { host: name.clone() })?;
            let mut apply = overlane(&["apply"])?;
            apply.arg(&file);
            session.run(on_host(apply, &name, host), STEP)?;
            self.applied.push(name);
        }
        Ok(())
    }

    fn expected(&self) -> Expected {
        self.expected
    }

    fn tear_down(&mut self, session: &Session, topology: &Topology) -> Result<(), LabError> {
        for ((host, _, _), name) in topology.hosts().zip(self.applied.drain(..)) {
            session.run(on_host(overlane(&["remove"])?, &name, host), STEP)?;
        }
        Ok(())
    }
}

fn on_host(mut command: Command, name: &str, host: &Node) -> Command {
    command.args(["--host", name, "--netns", host.netns.name()]);
    command
}

fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

/// The program that this one is.
fn overlane(arguments: &[&str]) -> Result<Command, LabError> {
    let program = own_program().ok_or_else(|| LabError::Unable {
        reason: "the laboratory was not started by the program `overlane`".to_owned(),
    })?;
    let mut command = Command::new(program);
    command.args(arguments).env("NO_COLOR", "1");
    Ok(command)
}

fn own_program() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    (program.file_stem()? == PROGRAM).then_some(program)
}

/// Mounts the BPF file system where the machine has not; the journal remembers who did.
fn mount_bpffs(session: &Session) -> Result<(), LabError> {
    let path = Path::new(BPFFS);
    if is_bpffs(path) {
        return Ok(());
    }
    session.journal(&Entry::BpfMount {
        path: path.to_owned(),
    })?;
    mount(
        Some("bpf"),
        path,
        Some("bpf"),
        MsFlags::empty(),
        None::<&str>,
    )
    .map_err(|errno| LabError::io("mounting the BPF file system on", path)(errno.into()))
}

fn is_bpffs(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| found.filesystem_type() == BPFFS_MAGIC)
}

pub(super) fn check() -> Option<String> {
    if own_program().is_none() {
        return Some("the laboratory was not started by the program `overlane`".to_owned());
    }
    let release = environment::kernel_release();
    if let Some(found) = environment::version_of(&release)
        && found < KERNEL
    {
        return Some(format!(
            "it needs Linux {}.{}, this is {release}",
            KERNEL.0, KERNEL.1
        ));
    }
    let filesystems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !is_bpffs(Path::new(BPFFS)) && !filesystems.split_whitespace().any(|word| word == "bpf") {
        return Some("the kernel has no BPF file system".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fabric_file_has_both_hosts_and_ports() {
        let fabric = Overlane::geneve().fabric(["lab1-a", "lab1-b"]);
        assert!(
            fabric.contains("tunnel: { encapsulation: geneve }"),
            "{fabric}"
        );
        assert!(
            fabric.contains("\n  lab1-b: { underlay: 198.18.0.2, uplink: uplink }\n"),
            "{fabric}"
        );
        assert!(
            fabric.contains(
                "\n  guest1: { switch: lab, host: lab1-a, device: port0, mac: \"02:00:00:00:00:01\", addresses: [198.18.100.1] }\n"
            ),
            "{fabric}"
        );
    }
}
