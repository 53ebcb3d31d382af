//! Open vSwitch with one of its datapaths, userspace (`datapath_type=netdev`) or the kernel's (`system`): one
//! instance per virtual host with its own database and sockets, and what its version asks of the devices around
//! it. What the instances do is said by [`ovs`](super::ovs) (tunnels) and [`ovs_vlan`](super::ovs_vlan), flows of trunks by
//! [`ovs_flows`](super::ovs_flows).

use crate::error::LabError;
use crate::session::Session;
use crate::session::process::Process;
use crate::topology::{Node, Topology, UPLINK};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PROGRAMS: [&str; 7] = [
    "ovsdb-tool",
    "ovsdb-server",
    "ovs-vswitchd",
    "ovs-vsctl",
    "ovs-ofctl",
    "ovs-appctl",
    "ovs-dpctl",
];
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
const STEP: Duration = Duration::from_secs(15);
/// What Open vSwitch's userspace TCP cannot take (3.1: checksums left to the device go out unfilled,
/// and super-packets are dropped).
const OFFLOADS_OFF: [(&str, bool); 5] = [
    ("tx", false),
    ("sg", false),
    ("tso", false),
    ("gso", false),
    ("gro", false),
];

/// What forwards the packets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Datapath {
    /// The daemon itself.
    Userspace,
    /// The kernel's module; the daemon decides about the first packet of a flow.
    Kernel,
}

/// The daemons of a topology's hosts; they end with it.
pub(super) struct Switches {
    datapath: Datapath,
    daemons: Vec<Process>,
    instances: Vec<Instance>,
}

impl Switches {
    pub(super) const fn new(datapath: Datapath) -> Self {
        Self {
            datapath,
            daemons: Vec::new(),
            instances: Vec::new(),
        }
    }

    pub(super) const fn datapath(&self) -> Datapath {
        self.datapath
    }

    /// Sets the devices of all hosts and guests as this version of Open vSwitch needs them.
    pub(super) fn prepare(&self, topology: &Topology) -> Result<(), LabError> {
        if self.datapath == Datapath::Kernel {
            return Ok(());
        }
        for guest in topology.guests() {
            for port in &guest.ports {
                guest.node.set_features(&port.device, &OFFLOADS_OFF)?;
            }
        }
        for (index, host) in topology.hosts.iter().enumerate() {
            for (_, port) in topology.ports_on(index) {
                host.set_features(&port.host_device, &[("gro", false)])?;
            }
            host.set_features(UPLINK, &[("gro", false)])?;
        }
        Ok(())
    }

    /// Starts the two daemons of a host.
    pub(super) fn start(
        &mut self,
        session: &Session,
        topology: &Topology,
        host: &Node,
    ) -> Result<&Instance, LabError> {
        let instance = Instance::new(session, topology, host);
        instance.clear()?;
        fs::create_dir_all(&instance.dir).map_err(LabError::io("creating", &instance.dir))?;
        let mut create = instance.command(host, "ovsdb-tool");
        create
            .arg("create")
            .arg(instance.path("conf.db"))
            .arg(SCHEMA);
        session.run(create, STEP)?;
        let mut database = instance.command(host, "ovsdb-server");
        database
            .arg(instance.path("conf.db"))
            .arg(format!("--remote=p{}", instance.socket()));
        self.daemons.push(session.start(database, &host.cpus)?);
        session.wait_until("ovsdb-server", STEP, || {
            Ok(UnixStream::connect(instance.path("db.sock")).is_ok())
        })?;
        session.run(instance.vsctl(host, &["--no-wait", "init"]), STEP)?;
        let mut switch = instance.command(host, "ovs-vswitchd");
        switch.arg(instance.socket());
        if self.datapath == Datapath::Userspace {
            switch.arg("--disable-system");
        }
        self.daemons.push(session.start(switch, &host.cpus)?);
        self.instances.push(instance);
        Ok(&self.instances[self.instances.len() - 1])
    }

    /// What the switches dropped, by the interface that tells.
    pub(super) fn counters(
        &self,
        session: &Session,
        topology: &Topology,
    ) -> Result<BTreeMap<String, u64>, LabError> {
        let mut counters = BTreeMap::new();
        for (host, instance) in topology.hosts.iter().zip(&self.instances) {
            if self.datapath == Datapath::Kernel {
                let said = session
                    .run(instance.appctl(host, &["dpctl/show"]), STEP)?
                    .stdout;
                let lost = lost_upcalls(&String::from_utf8_lossy(&said));
                let lost = lost.ok_or_else(|| unreadable(host, "the datapath"))?;
                counters.insert(format!("{} ovs upcalls lost", host.place), lost);
                continue;
            }
            let ask = [
                "--format=json",
                "--columns=name,statistics",
                "list",
                "interface",
            ];
            let said = session.run(instance.vsctl(host, &ask), STEP)?.stdout;
            let drops = drops_of(&host.place, &said);
            counters.extend(drops.ok_or_else(|| unreadable(host, "the interfaces"))?);
        }
        Ok(counters)
    }

    /// Ends all of them.
    pub(super) fn stop(&mut self) {
        self.daemons.clear();
        self.instances.clear();
    }
}

fn unreadable(host: &Node, what: &str) -> LabError {
    LabError::System {
        action: format!("reading {what} of Open vSwitch on {}", host.place),
        source: ErrorKind::InvalidData.into(),
    }
}

/// First packets of flows that the daemon never saw (`lookups: hit:5 missed:3 lost:0`). What else the kernel's
/// datapath drops, its devices count.
fn lost_upcalls(shown: &str) -> Option<u64> {
    let words = shown
        .lines()
        .find_map(|line| line.trim().strip_prefix("lookups:"))?;
    let lost = words
        .split_whitespace()
        .find_map(|word| word.strip_prefix("lost:"))?;
    lost.parse().ok()
}

/// The counters of drops in a table of interfaces: rows of a name and `["map", [[key, value] …]]`
/// (RFC 7047 §5.1). What the kernel counts on devices of its own is left to them.
fn drops_of(place: &str, table: &[u8]) -> Option<BTreeMap<String, u64>> {
    let table: Value = serde_json::from_slice(table).ok()?;
    let mut drops = BTreeMap::new();
    for row in table.get("data")?.as_array()? {
        let name = row.get(0)?.as_str()?;
        let statistics = row.get(1)?.get(1)?.as_array()?;
        for entry in statistics {
            let (key, count) = (entry.get(0)?.as_str()?, entry.get(1)?.as_u64());
            let is_drop = key.contains("drop") || key == "rx_over_err";
            if let (true, Some(count)) = (is_drop, count) {
                drops.insert(format!("{place} ovs {name} {key}"), count);
            }
        }
    }
    Some(drops)
}

/// The words that make a bridge, which forgets as late as it can.
pub(super) fn bridge(name: &str, datapath: Datapath) -> String {
    let kind = match datapath {
        Datapath::Userspace => "netdev",
        Datapath::Kernel => "system",
    };
    format!(
        "add-br {name} -- set bridge {name} datapath_type={kind} other-config:mac-aging-time=3600"
    )
}

/// What a reader of the cells of any of these backends has to know.
pub(super) fn notes(datapath: Datapath) -> Vec<String> {
    if datapath == Datapath::Kernel {
        return vec![
            "Open vSwitch forwards in the kernel (system datapath); one daemon per virtual host, on \
             that host's CPUs, decides about the first packet of each flow."
                .to_owned(),
        ];
    }
    vec![
        "Open vSwitch runs in userspace (netdev datapath), one instance per virtual host, on that \
         host's CPUs."
            .to_owned(),
        "The guests' checksum and segmentation offloads are off, and GRO on the hosts' devices is off: \
         TCP over this version's userspace datapath fails with them on. The wire offload axis \
         therefore changes nothing here."
            .to_owned(),
    ]
}

/// Files and sockets of one host's switch.
pub(super) struct Instance {
    dir: PathBuf,
}

impl Instance {
    fn new(session: &Session, topology: &Topology, host: &Node) -> Self {
        Self {
            dir: session
                .dir()
                .join(format!("{}-{}", topology.label(), host.place)),
        }
    }

    /// Runs one ovs-vsctl script; vsctl waits until the switch has done it.
    pub(super) fn configure(
        &self,
        session: &Session,
        host: &Node,
        script: &str,
    ) -> Result<(), LabError> {
        let words: Vec<_> = std::iter::once("--timeout=10")
            .chain(script.split_whitespace())
            .collect();
        session.run(self.vsctl(host, &words), STEP)?;
        Ok(())
    }

    /// Tells the switch the way to the other hosts. By itself it learns it from the kernel, unless it looks between
    /// the address and the route; then it never does. It refuses until it knows the address.
    pub(super) fn add_route(
        &self,
        session: &Session,
        host: &Node,
        network: &str,
        bridge: &str,
    ) -> Result<(), LabError> {
        session.wait_until("Open vSwitch to know the underlay", STEP, || {
            let command = self.appctl(host, &["ovs/route/add", network, bridge]);
            Ok(session.run(command, STEP).is_ok())
        })
    }

    /// Puts flows into a bridge; nothing else stays in it.
    pub(super) fn set_flows(
        &self,
        session: &Session,
        host: &Node,
        bridge: &str,
        flows: &str,
    ) -> Result<(), LabError> {
        let file = self.path(&format!("{bridge}.flows"));
        fs::write(&file, flows).map_err(LabError::io("writing", &file))?;
        let management = self.path(&format!("{bridge}.mgmt"));
        let mut command = self.command(host, "ovs-ofctl");
        command
            .arg("replace-flows")
            .arg(format!("unix:{}", management.display()))
            .arg(&file);
        session.run(command, STEP)?;
        Ok(())
    }

    /// An earlier group's database and sockets would be taken for this one's.
    fn clear(&self) -> Result<(), LabError> {
        match fs::remove_dir_all(&self.dir) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(LabError::io("removing", &self.dir)(error))
            }
            _ => Ok(()),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn socket(&self) -> String {
        format!("unix:{}", self.path("db.sock").display())
    }

    /// A program of Open vSwitch that keeps its hands off the machine's own instance.
    fn command(&self, host: &Node, program: &str) -> Command {
        let mut command = host.netns.command(program);
        for folder in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(folder, &self.dir);
        }
        if matches!(program, "ovsdb-server" | "ovs-vswitchd") {
            command.arg(format!(
                "--unixctl={}",
                self.path(&format!("{program}.ctl")).display()
            ));
            command.args(["--verbose=off", "--verbose=console:err"]);
        }
        command
    }

    fn appctl(&self, host: &Node, arguments: &[&str]) -> Command {
        let mut command = self.command(host, "ovs-appctl");
        command.arg("-t").arg(self.path("ovs-vswitchd.ctl"));
        command.args(arguments);
        command
    }

    fn vsctl(&self, host: &Node, arguments: &[&str]) -> Command {
        let mut command = self.command(host, "ovs-vsctl");
        command
            .arg(format!("--db={}", self.socket()))
            .args(arguments);
        command
    }
}

/// Why this machine cannot run Open vSwitch with the kernel's datapath.
pub(super) fn check_kernel(session: &Session) -> Result<Option<String>, LabError> {
    if let Some(reason) = check() {
        return Ok(Some(reason));
    }
    let tried = session.in_new_netns(|netns| {
        let mut command = netns.command("ovs-dpctl");
        command.args(["-vconsole:off", "add-dp", "try"]);
        Ok(session.run(command, STEP))
    })?;
    match tried {
        Ok(_) => Ok(None),
        Err(LabError::Interrupted) => Err(LabError::Interrupted),
        Err(error) => Ok(Some(format!(
            "the kernel has no datapath for Open vSwitch (CONFIG_OPENVSWITCH): {error}"
        ))),
    }
}

/// Why this machine cannot run Open vSwitch in userspace.
pub(super) fn check() -> Option<String> {
    if let Some(missing) = PROGRAMS
        .iter()
        .find(|program| crate::machine::environment::find_program(program).is_none())
    {
        return Some(format!(
            "`{missing}` is not installed (package openvswitch-switch)"
        ));
    }
    if !Path::new(SCHEMA).exists() {
        return Some(format!("{SCHEMA} is missing (package openvswitch-switch)"));
    }
    if !Path::new("/dev/net/tun").exists() {
        return Some("the kernel has no TAP devices (/dev/net/tun)".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_upcalls_are_read() {
        let shown = "system@ovs-system:\n  lookups: hit:5 missed:3 lost:2\n  flows: 1\n";
        assert_eq!(lost_upcalls(shown), Some(2));
        assert_eq!(lost_upcalls("system@ovs-system:\n  flows: 1\n"), None);
    }
}
