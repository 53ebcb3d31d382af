//! One virtual machine: its QEMU, and what is said to QEMU and to the guest.

use super::guest::GuestReport;
use super::lines::{Heard, Lines};
use super::qmp::{Event, Qmp, QmpError};
use super::{Accelerator, Images, QEMU};
use crate::error::LabError;
use crate::session::Session;
use crate::session::process::{Process, last_lines};
use crate::topology::Node;
use overlane_net::netns::Netns;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Until QEMU has made its sockets; many start at once, some on one CPU.
const START: Duration = Duration::from_secs(30);
/// Until a guest has answered: under emulation, with all CPUs busy.
const ANSWER: Duration = Duration::from_secs(30);
/// Until it has filled memory with random data.
const FILL: Duration = Duration::from_secs(120);
const WITH_KVM: &[&str] = &["-accel", "kvm", "-cpu", "host"];
/// 5-level page tables cost the emulation a tenth of its speed, and string instructions that it runs byte by byte, half.
const WITH_EMULATION: &[&str] = &[
    "-accel",
    "tcg,thread=single",
    "-cpu",
    "max,la57=off,erms=off,fsrm=off",
];
/// An error of the kernel's ends the machine. The watchdogs are off: under emulation they measure how slow the machine is.
/// `rep_good` is a string instruction.
const KERNEL_OPTIONS: &str = "console=ttyS0 loglevel=4 panic=-1 oops=panic mitigations=off nowatchdog clearcpuid=rep_good \
    rcupdate.rcu_cpu_stall_suppress=1 ipv6.disable=1";
/// No two machines of a run have the same files.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A virtio header of 10 bytes, as QEMU takes it for granted until a machine has said otherwise. One that waits for a machine
/// reads a frame before the machine is there, and would hand it over shifted by the two bytes of a longer header.
const SHORT_HEADER: &str = "disable-modern=on,mrg_rxbuf=off";

/// What a virtual machine is to be. The same where it comes from and where it goes to, but for the TAP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) memory_mib: u32,
    pub(crate) mac: [u8; 6],
    pub(crate) address: Ipv4Addr,
    pub(crate) prefix: u8,
    pub(crate) mtu: u32,
    /// A TAP of the node's namespace, persistent, of one queue, with virtio headers.
    pub(crate) tap: String,
}

/// A virtual machine. It ends when this is dropped.
pub(crate) struct Machine {
    /// `vm1 on host2`.
    pub(crate) name: String,
    pub(super) netns: Option<Netns>,
    pub(super) cpus: Vec<usize>,
    /// Where its sockets are.
    pub(super) files: PathBuf,
    process: RefCell<Process>,
    qmp: RefCell<Qmp>,
    control: RefCell<Lines>,
}

impl Machine {
    /// Starts a machine in the namespace and on the CPUs of a node. [`Self::wait_up`] tells when it is up.
    pub(crate) fn boot(
        session: &Session,
        images: &Images,
        spec: &Spec,
        node: &Node,
    ) -> Result<Self, LabError> {
        Self::start(session, images, spec, node, &[])
    }

    /// Starts a machine that waits for the state of another one.
    pub(crate) fn incoming(
        session: &Session,
        images: &Images,
        spec: &Spec,
        node: &Node,
    ) -> Result<Self, LabError> {
        Self::start(session, images, spec, node, &["-incoming", "defer"])
    }

    fn start(
        session: &Session,
        images: &Images,
        spec: &Spec,
        node: &Node,
        extra: &[&str],
    ) -> Result<Self, LabError> {
        let mac = spec.mac.map(|byte| format!("{byte:02x}")).join(":");
        let network = format!(
            "overlane.address={}/{} overlane.mac={mac} overlane.mtu={}",
            spec.address, spec.prefix, spec.mtu
        );
        let files = files(session)?;
        let mut command = node.netns.command(QEMU);
        arguments(
            &mut command,
            images,
            &spec.name,
            spec.memory_mib,
            &files,
            &network,
        );
        command.arg("-netdev").arg(format!(
            "tap,id=net0,ifname={},script=no,downscript=no,vnet_hdr=on,vhost=off",
            spec.tap
        ));
        command.arg("-device").arg(format!(
            "virtio-net-pci,netdev=net0,mac={mac},romfile=,{SHORT_HEADER}"
        ));
        command.args(extra);
        let name = format!("{} on {}", spec.name, node.place);
        let process = session.start(command, &node.cpus)?;
        let mut machine = Self::connect(session, name, files, process)?;
        machine.netns = Some(node.netns.clone());
        machine.cpus.clone_from(&node.cpus);
        Ok(machine)
    }

    /// A machine without a network card.
    pub(super) fn without_network(
        session: &Session,
        images: &Images,
        name: &str,
        mib: u32,
    ) -> Result<Self, LabError> {
        let files = files(session)?;
        let mut command = Command::new(QEMU);
        arguments(&mut command, images, name, mib, &files, "");
        let process = session.start(command, &[])?;
        Self::connect(session, name.to_owned(), files, process)
    }

    fn connect(
        session: &Session,
        name: String,
        files: PathBuf,
        mut process: Process,
    ) -> Result<Self, LabError> {
        let end = Instant::now() + START;
        let mut connect = |ending: &str| loop {
            match UnixStream::connect(files.join(ending)) {
                Ok(stream) => return Ok(stream),
                Err(_) if process.has_ended() => {
                    let reason = format!("QEMU {}", process.last_words());
                    return Err(failed(&name, &reason));
                }
                Err(_) if Instant::now() < end => {
                    session.interrupts.wait(Duration::from_millis(5))?
                }
                Err(error) => {
                    let reason =
                        format!("QEMU made no socket within {} s: {error}", START.as_secs());
                    return Err(failed(&name, &reason));
                }
            }
        };
        let (control, monitor) = (connect("control")?, connect("qmp")?);
        let qmp = match Qmp::greet(monitor, &session.interrupts) {
            Ok(qmp) => qmp,
            Err(QmpError::Lab(error)) => return Err(error),
            Err(error) => {
                return Err(failed(
                    &name,
                    &format!("{error}: QEMU {}", process.last_words()),
                ));
            }
        };
        Ok(Self::of(name, files, process, qmp, Lines::new(control)?))
    }

    pub(super) fn of(
        name: String,
        files: PathBuf,
        process: Process,
        qmp: Qmp,
        control: Lines,
    ) -> Self {
        Self {
            name,
            netns: None,
            cpus: Vec::new(),
            files,
            process: RefCell::new(process),
            qmp: RefCell::new(qmp),
            control: RefCell::new(control),
        }
    }

    /// Waits until the guest says that it is up.
    pub(crate) fn wait_up(&self, session: &Session, limit: Duration) -> Result<(), LabError> {
        let end = Instant::now() + limit;
        loop {
            match self.control.borrow_mut().hear(&session.interrupts, end)? {
                Heard::Line(line) if line.starts_with("up ") => return Ok(()),
                Heard::Line(_) => {}
                Heard::Silence => {
                    let reason = format!("its guest is not up after {} s", limit.as_secs_f64());
                    return Err(self.failed(&reason));
                }
                Heard::End => return Err(self.gone()),
            }
        }
    }

    /// Stops the machine: it keeps all it has, and its time stands.
    pub(crate) fn pause(&self, session: &Session) -> Result<(), LabError> {
        self.ask(session, "stop", json!({})).map(drop)
    }

    /// Has a stopped machine go on.
    pub(crate) fn resume(&self, session: &Session) -> Result<(), LabError> {
        self.ask(session, "cont", json!({})).map(drop)
    }

    /// Has the guest write to so much memory at this rate; 0 and 0: to none. Returns when the memory is filled.
    pub(crate) fn dirty(
        &self,
        session: &Session,
        mib: u64,
        mib_per_second: u64,
    ) -> Result<(), LabError> {
        self.order(session, &format!("dirty {mib} {mib_per_second}"), FILL)
            .map(drop)
    }

    /// Has the guest count from 0 again, all but its memory.
    pub(crate) fn reset(&self, session: &Session) -> Result<(), LabError> {
        self.order(session, "reset", ANSWER).map(drop)
    }

    pub(crate) fn report(&self, session: &Session) -> Result<GuestReport, LabError> {
        let said = self.order(session, "report", ANSWER)?;
        GuestReport::parse(&said).map_err(|reason| self.failed(&reason))
    }

    /// What QEMU says of the machine: `running`, `paused`, `inmigrate`, `postmigrate`, …
    pub(crate) fn status(&self, session: &Session) -> Result<String, LabError> {
        let status = self.ask(session, "query-status", json!({}))?;
        Ok(status["status"].as_str().unwrap_or_default().to_owned())
    }

    pub(crate) fn is_running(&self, session: &Session) -> Result<bool, LabError> {
        Ok(self.status(session)? == "running")
    }

    /// The process identifier of its QEMU.
    #[cfg(test)]
    pub(crate) fn pid(&self) -> u32 {
        self.process.borrow().pid()
    }

    /// Its QEMU runs no more.
    pub(crate) fn has_ended(&self) -> bool {
        self.process.borrow_mut().has_ended()
    }

    /// An error with its last words when its QEMU has ended.
    pub(crate) fn look_after(&self) -> Result<(), LabError> {
        if self.has_ended() {
            Err(self.gone())
        } else {
            Ok(())
        }
    }

    /// Gives QEMU a command.
    pub(super) fn ask(
        &self,
        session: &Session,
        command: &str,
        arguments: Value,
    ) -> Result<Value, LabError> {
        let answer = self
            .qmp
            .borrow_mut()
            .execute(&session.interrupts, command, arguments);
        answer.map_err(|error| match error {
            QmpError::Lab(error) => error,
            QmpError::Ended => self.gone(),
            error => self.failed(&error.to_string()),
        })
    }

    /// What QEMU told unasked since the last time.
    pub(super) fn events(&self, session: &Session) -> Result<Vec<Event>, LabError> {
        self.qmp.borrow_mut().events(&session.interrupts)
    }

    /// Gives the guest an order; its answer, which is no error.
    fn order(&self, session: &Session, order: &str, limit: Duration) -> Result<String, LabError> {
        let mut control = self.control.borrow_mut();
        // The late answer to an order that was given up on.
        while let Heard::Line(_) = control.hear(&session.interrupts, Instant::now())? {}
        if !control.say(&session.interrupts, order)? {
            return Err(self.gone());
        }
        match control.hear(&session.interrupts, Instant::now() + limit)? {
            Heard::Line(line) => match line.strip_prefix("error ") {
                Some(reason) => Err(self.failed(&format!("its guest refused `{order}`: {reason}"))),
                None => Ok(line),
            },
            Heard::Silence => {
                let reason = format!(
                    "its guest did not answer `{order}` within {} s",
                    limit.as_secs()
                );
                Err(self.failed(&reason))
            }
            Heard::End => Err(self.gone()),
        }
    }

    /// The error for a QEMU that has ended, or is about to.
    fn gone(&self) -> LabError {
        let mut process = self.process.borrow_mut();
        let (pid, outcome) = (process.pid(), process.last_words());
        self.failed(&format!("its QEMU (process {pid}) {outcome}"))
    }

    pub(super) fn failed(&self, reason: &str) -> LabError {
        let console = fs::read(self.files.join("console")).unwrap_or_default();
        let said = last_lines(&console);
        if said.is_empty() {
            return failed(&self.name, reason);
        }
        failed(
            &self.name,
            &format!("{reason}; its console ends with: {said}"),
        )
    }
}

fn failed(name: &str, reason: &str) -> LabError {
    LabError::VirtualMachine {
        name: name.to_owned(),
        reason: reason.to_owned(),
    }
}

/// A folder for a machine's files, with a short name: a socket's path has at most 107 bytes.
fn files(session: &Session) -> Result<PathBuf, LabError> {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = session.dir().join(format!("vm{number}"));
    fs::create_dir(&folder).map_err(LabError::io("creating", &folder))?;
    Ok(folder)
}

/// All but the network card: one processor, two serial ports, and a monitor.
fn arguments(
    command: &mut Command,
    images: &Images,
    name: &str,
    mib: u32,
    files: &Path,
    network: &str,
) {
    let file = |ending: &str| value(&files.join(ending));
    let socket =
        |id: &str, ending: &str| format!("socket,id={id},path={},server=on,wait=off", file(ending));
    command
        .args([
            "-name",
            name,
            "-machine",
            "q35",
            "-smp",
            "1",
            "-m",
            &memory(images.accelerator, mib),
        ])
        .args(match images.accelerator {
            Accelerator::Kvm => WITH_KVM,
            Accelerator::Emulation => WITH_EMULATION,
        })
        .args([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
        ])
        .args([
            "-chardev",
            &format!("file,id=console,path={}", file("console")),
        ])
        .args([
            "-serial",
            "chardev:console",
            "-chardev",
            &socket("control", "control"),
        ])
        .args([
            "-serial",
            "chardev:control",
            "-chardev",
            &socket("monitor", "qmp"),
        ])
        .args(["-mon", "chardev=monitor,mode=control", "-kernel"])
        .arg(&images.kernel.image)
        .arg("-initrd")
        .arg(&images.initrd)
        .args(["-append", &format!("{KERNEL_OPTIONS} {network}")]);
}

/// The size of a machine's memory. Under emulation a little more than was asked for: QEMU reads the list of written pages 64 at
/// a time where it can, and then misses pages. A round that finds no page but such as wait to be sent does not have the
/// emulated processor report its writes anew, so what it writes to a page after that was sent is lost, and the guest dies at
/// its destination (`cpu_physical_memory_sync_dirty_bitmap` asks `num_dirty`, which leaves those out). Memory that is no
/// multiple of 64 pages is gone through page by page, which is right, and slower.
fn memory(accelerator: Accelerator, mib: u32) -> String {
    match accelerator {
        Accelerator::Kvm => format!("{mib}M"),
        Accelerator::Emulation => format!("{}K", u64::from(mib) * 1024 + 8),
    }
}

/// A path in an option of QEMU, which ends a value at a comma and takes two for one.
fn value(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulated_memory_is_no_multiple_of_64_pages() {
        assert_eq!(memory(Accelerator::Kvm, 256), "256M");
        assert_eq!(memory(Accelerator::Emulation, 256), "262152K");
    }

    #[test]
    fn commas_in_paths_are_no_ends() {
        assert_eq!(value(Path::new("/run/a,b")), "/run/a,,b");
    }
}
