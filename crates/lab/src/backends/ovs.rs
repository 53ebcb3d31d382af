//! `ovs-vxlan` and `ovs-geneve`: Open vSwitch in userspace (`datapath_type=netdev`), one instance
//! per virtual host with its own database and sockets.
//!
//! ```text
//! port0 ── br-int ── tunnel ⇢ br-phys (internal port holds the underlay address) ── uplink
//! ```
//!
//! Userspace tunnelling finds the outer path by the kernel's routes: the underlay address therefore
//! lies on the bridge that holds the uplink (OVS documentation, "Userspace native tunneling").

use super::Backend;
use crate::error::LabError;
use crate::process::Process;
use crate::proof::Expected;
use crate::session::Session;
use crate::topology::{GUEST_DEVICE, Node, PORT_DEVICE, PREFIX, Topology, UPLINK, VNI};
use std::fs;
use std::io::ErrorKind;
use std::net::Ipv4Addr;
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

pub(super) struct Ovs {
    kind: &'static str,
    expected: Expected,
    daemons: Vec<Process>,
}

impl Ovs {
    pub(super) fn vxlan() -> Self {
        Self {
            kind: "vxlan",
            expected: Expected::Vxlan,
            daemons: Vec::new(),
        }
    }

    pub(super) fn geneve() -> Self {
        Self {
            kind: "geneve",
            expected: Expected::Geneve { ovn: false },
            daemons: Vec::new(),
        }
    }

    /// The two daemons of a host.
    fn start(
        &mut self,
        session: &Session,
        host: &Node,
        instance: &Instance,
    ) -> Result<(), LabError> {
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
        Ok(())
    }

    /// Bridges, uplink, tunnel and the guest's port; vsctl waits until the switch has them.
    fn configure(
        &self,
        session: &Session,
        topology: &Topology,
        host: &Node,
        instance: &Instance,
        [own, other]: [Ipv4Addr; 2],
    ) -> Result<(), LabError> {
        let underlay_mtu = topology.group.mtu_class.underlay_mtu();
        let guest_mtu = topology.group.mtu_class.guest_mtu(topology.backend);
        let script = format!(
            "add-br br-phys -- set bridge br-phys datapath_type=netdev \
             -- set interface br-phys mtu_request={underlay_mtu} \
             -- add-port br-phys {UPLINK} \
             -- add-br br-int -- set bridge br-int datapath_type=netdev \
             -- add-port br-int {PORT_DEVICE} -- set interface {PORT_DEVICE} mtu_request={guest_mtu} \
             -- add-port br-int tunnel0 -- set interface tunnel0 type={} \
             options:remote_ip={other} options:key={VNI}",
            self.kind
        );
        let words: Vec<_> = std::iter::once("--timeout=10")
            .chain(script.split_whitespace())
            .collect();
        session.run(instance.vsctl(host, &words), STEP)?;
        host.netlink.add_address("br-phys", own.into(), PREFIX)?;
        host.netlink.set_up("br-phys")?;
        host.netlink.set_up("br-int")?;
        Ok(())
    }
}

impl Backend for Ovs {
    fn build(&mut self, session: &Session, topology: &Topology) -> Result<(), LabError> {
        for guest in [&topology.guest1, &topology.guest2] {
            guest.set_features(GUEST_DEVICE, &OFFLOADS_OFF)?;
        }
        for (host, own, other) in topology.hosts() {
            for device in [PORT_DEVICE, UPLINK] {
                host.set_features(device, &[("gro", false)])?;
            }
            let instance = Instance::new(session, topology, host);
            self.start(session, host, &instance)?;
            self.configure(session, topology, host, &instance, [own, other])?;
        }
        Ok(())
    }

    fn expected(&self) -> Expected {
        self.expected
    }

    fn notes(&self) -> Vec<String> {
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

    fn tear_down(&mut self, _session: &Session, _topology: &Topology) -> Result<(), LabError> {
        self.daemons.clear();
        Ok(())
    }
}

/// Files and sockets of one host's switch.
struct Instance {
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
