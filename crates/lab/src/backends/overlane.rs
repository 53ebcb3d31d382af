//! `overlane-vxlan` and `overlane-geneve`: this project's own data path, set up as any user would: a
//! fabric file and `overlane apply`, through the public command line.
//! [`overlane_vlan`](super::overlane_vlan) is the same with another fabric; the file is written by
//! [`overlane_fabric`](super::overlane_fabric).

use super::Backend;
use super::overlane_fabric::{self, Fabric};
use crate::error::LabError;
use crate::machine::environment;
use crate::session::Session;
use crate::session::journal::Entry;
use crate::session::process::own_program;
use crate::topology::{Expected, Node, Topology, UPLINK};
use nix::mount::{MsFlags, mount};
use nix::sys::statfs::{FsType, statfs};
use overlane_analysis::record::Feature;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const BPFFS: &str = "/sys/fs/bpf";
/// `BPF_FS_MAGIC` of linux/magic.h.
const BPFFS_MAGIC: FsType = FsType(0xcafe_4a11);
/// A fabric of thousands of ports takes its time.
const STEP: Duration = Duration::from_secs(120);
/// What `apply` makes for packets that cannot travel whole, and for receive offload; the latter where the kernel
/// has a device for the tunnel.
const DEVICES: [&str; 3] = ["ovl-seg0", "ovl-seg1", "ovl-gro"];
/// tcx came with this one.
const KERNEL: (u32, u32) = (6, 6);
const NOT_STARTED_BY: &str = "the laboratory was not started by the program `overlane`";

pub(super) struct Overlane {
    expected: Expected,
    /// The names of the hosts in the fabric, those that carry it.
    applied: Vec<String>,
    /// Of each pair, the host that its machine is on; none where no machine moves.
    homes: Vec<usize>,
}

impl Overlane {
    pub(super) fn vxlan() -> Self {
        Self::new(Expected::Vxlan)
    }

    pub(super) fn geneve() -> Self {
        Self::new(Expected::Geneve { ovn: true })
    }

    pub(super) fn new(expected: Expected) -> Self {
        Self {
            expected,
            applied: Vec::new(),
            homes: Vec::new(),
        }
    }
}

impl Backend for Overlane {
    fn build(&mut self, session: &Session, topology: &Topology) -> Result<(), LabError> {
        mount_bpffs(session)?;
        let label = topology.label();
        let name = |host: &Node| session.unique(&format!("{label}-{}", host.place));
        let names: Vec<String> = topology.hosts.iter().map(name).collect();
        let machines = topology.pairs.iter().filter(|pair| pair.sender.is_machine);
        self.homes = machines.map(|_| 0).collect();
        let file = write_fabric(session, topology, &names, &self.homes)?;
        let prefix = topology.underlay_prefix();
        for (index, host) in topology.hosts.iter().enumerate() {
            host.add_address(UPLINK, topology.host_address(index), prefix)?;
        }
        for (host, name) in topology.hosts.iter().zip(names) {
            session.journal(&Entry::Fabric { host: name.clone() })?;
            apply(session, &file, &name, host)?;
            self.applied.push(name);
        }
        Ok(())
    }

    /// As docs/migration.md has it: the connections leave the old host, the new host is made ready and given them, the
    /// old one lets go.
    fn take_over(
        &mut self,
        session: &Session,
        topology: &Topology,
        pair: usize,
        to: usize,
    ) -> Result<(), LabError> {
        let Some(from) = self.homes.get(pair).copied().filter(|from| *from != to) else {
            return Ok(());
        };
        let mut homes = self.homes.clone();
        homes[pair] = to;
        let file = write_fabric(session, topology, &self.applied, &homes)?;
        let [old, new] = [from, to].map(|host| (&self.applied[host], &topology.hosts[host]));
        let is_stateful = |feature: Feature| feature.rules().is_some_and(|rules| rules.stateful);
        let port = overlane_fabric::port_name(&topology.pairs[pair].sender.node.place, 0);
        let mut kept = None;
        if is_stateful(topology.setting.feature) {
            let export = overlane(&["connections", "export", &port, "--host", old.0])?;
            let path = session
                .dir()
                .join(format!("{}-{port}.json", topology.label()));
            let said = session.run(export, STEP)?.stdout;
            fs::write(&path, said).map_err(LabError::io("writing", &path))?;
            kept = Some(path);
        }
        apply(session, &file, new.0, new.1)?;
        if let Some(path) = kept {
            let mut import = overlane(&["connections", "import", &port])?;
            import.arg(path).args(["--host", new.0]);
            session.run(import, STEP)?;
        }
        apply(session, &file, old.0, old.1)?;
        self.homes = homes;
        Ok(())
    }

    /// Their machines are new there, and have no connections.
    fn bring_home(&mut self, session: &Session, topology: &Topology) -> Result<(), LabError> {
        self.homes.fill(0);
        let file = write_fabric(session, topology, &self.applied, &self.homes)?;
        let mut hosts = self.applied.iter().zip(&topology.hosts);
        hosts.try_for_each(|(name, host)| apply(session, &file, name, host))
    }

    fn expected(&self) -> Expected {
        self.expected
    }

    fn devices(&self, topology: &Topology) -> Vec<(usize, String)> {
        let mut devices = Vec::new();
        for (index, host) in topology.hosts.iter().enumerate() {
            let made = DEVICES
                .iter()
                .filter(|name| host.netlink.link(name).is_ok());
            devices.extend(made.map(|name| (index, (*name).to_owned())));
        }
        devices
    }

    fn counters(
        &self,
        session: &Session,
        topology: &Topology,
    ) -> Result<BTreeMap<String, u64>, LabError> {
        let mut counters = BTreeMap::new();
        for (host, name) in topology.hosts.iter().zip(&self.applied) {
            let show = overlane(&["show", "counters", "--json", "--host", name])?;
            let said = session.run(show, STEP)?.stdout;
            let shown: Shown = serde_json::from_slice(&said).map_err(|error| {
                let action = format!("reading the counters of {name}");
                LabError::system(&action)(std::io::Error::from(error))
            })?;
            counters.extend(shown.lost(&host.place));
        }
        Ok(counters)
    }

    fn tear_down(&mut self, session: &Session, topology: &Topology) -> Result<(), LabError> {
        for (host, name) in topology.hosts.iter().zip(self.applied.drain(..)) {
            session.run(on_host(overlane(&["remove"])?, &name, host), STEP)?;
        }
        Ok(())
    }
}

/// What `overlane show counters --json` prints, of it what is needed.
#[derive(Deserialize)]
struct Shown {
    verdicts: Vec<Verdict>,
}

#[derive(Deserialize)]
struct Verdict {
    verdict: String,
    drop: bool,
    /// Packets as they are on a wire: those of the traffic tool.
    segments: u64,
}

impl Shown {
    /// The drops of all hooks together, by their reason.
    fn lost(&self, place: &str) -> BTreeMap<String, u64> {
        let mut lost = BTreeMap::new();
        for Verdict {
            verdict, segments, ..
        } in self.verdicts.iter().filter(|verdict| verdict.drop)
        {
            *lost
                .entry(format!("{place} overlane {verdict}"))
                .or_insert(0) += segments;
        }
        lost
    }
}

/// The fabric with its machines where they are.
fn write_fabric(
    session: &Session,
    topology: &Topology,
    names: &[String],
    homes: &[usize],
) -> Result<PathBuf, LabError> {
    let file = session.dir().join(format!("{}.yaml", topology.label()));
    let fabric = Fabric::of(topology, names, homes).text();
    fs::write(&file, fabric).map_err(LabError::io("writing", &file))?;
    Ok(file)
}

fn apply(session: &Session, file: &Path, name: &str, host: &Node) -> Result<(), LabError> {
    let mut apply = overlane(&["apply"])?;
    apply.arg(file);
    session.run(on_host(apply, name, host), STEP).map(drop)
}

fn on_host(mut command: Command, name: &str, host: &Node) -> Command {
    command.args(["--host", name, "--netns", host.netns.name()]);
    command
}

/// The program that this one is.
fn overlane(arguments: &[&str]) -> Result<Command, LabError> {
    let program = own_program().ok_or_else(|| LabError::Unable {
        reason: NOT_STARTED_BY.to_owned(),
    })?;
    let mut command = Command::new(program);
    command.args(arguments).env("NO_COLOR", "1");
    Ok(command)
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
        return Some(NOT_STARTED_BY.to_owned());
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
    fn drops_of_all_hooks_add_up_and_deliveries_are_none() {
        let shown: Shown = serde_json::from_str(
            r#"{"host": "a", "verdicts": [
                {"hook": "from_port", "verdict": "encap", "drop": false, "packets": 9, "segments": 9, "bytes": 9},
                {"hook": "from_port", "verdict": "pkt_too_big", "drop": true, "packets": 1, "segments": 4, "bytes": 9},
                {"hook": "from_segmenter", "verdict": "pkt_too_big", "drop": true, "packets": 2, "segments": 2, "bytes": 9}
            ]}"#,
        )
        .unwrap();
        let lost = BTreeMap::from([("host2 overlane pkt_too_big".to_owned(), 6)]);
        assert_eq!(shown.lost("host2"), lost);
    }
}
