//! Open vSwitch in userspace (`datapath_type=netdev`): one instance per virtual host with its own
//! database and sockets, and what its version asks of the devices around it. What the instances do is
//! said by [`ovs`](super::ovs) (tunnels) and [`ovs_vlan`](super::ovs_vlan).

use crate::error::LabError;
use crate::process::Process;
use crate::session::Session;
use crate::topology::{GUEST_DEVICE, Node, PORT_DEVICE, Topology, UPLINK};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PROGRAMS: [&str; 4] = ["ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl"];
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

/// The daemons of a topology's hosts; they end with it.
#[derive(Default)]
pub(super) struct Switches {
    daemons: Vec<Process>,
}

impl Switches {
    /// Sets the devices of both hosts and their guests as this version of Open vSwitch needs them.
    pub(super) fn prepare(topology: &Topology) -> Result<(), LabError> {
        for guest in [&topology.guest1, &topology.guest2] {
            guest.set_features(GUEST_DEVICE, &OFFLOADS_OFF)?;
        }
        for (host, _, _) in topology.hosts() {
            for device in [PORT_DEVICE, UPLINK] {
                host.set_features(device, &[("gro", false)])?;
            }
        }
        Ok(())
    }

    /// Starts the two daemons of a host.
    pub(super) fn start(
        &mut self,
        session: &Session,
        topology: &Topology,
        host: &Node,
    ) -> Result<Instance, LabError> {
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
            Ok(instance.path("db.sock").exists())
        })?;
        session.run(instance.vsctl(host, &["--no-wait", "init"]), STEP)?;
        let mut switch = instance.command(host, "ovs-vswitchd");
        switch.arg(instance.socket()).arg("--disable-system");
        self.daemons.push(session.start(switch, &host.cpus)?);
        Ok(instance)
    }

    /// Ends all of them.
    pub(super) fn stop(&mut self) {
        self.daemons.clear();
    }
}

/// What a reader of the cells of any of these backends has to know.
pub(super) fn notes() -> Vec<String> {
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

    fn vsctl(&self, host: &Node, arguments: &[&str]) -> Command {
        let mut command = self.command(host, "ovs-vsctl");
        command
            .arg(format!("--db={}", self.socket()))
            .args(arguments);
        command
    }
}

pub(super) fn check() -> Option<String> {
    if let Some(missing) = PROGRAMS
        .iter()
        .find(|program| crate::environment::find_program(program).is_none())
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
