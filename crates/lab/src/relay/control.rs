//! The laboratory's side of a relay: starts it, reads its CPU time, and says so when it has ended.

use super::{READY, RelayCable, RelayEnd, RelayRequest};
use crate::error::LabError;
use crate::session::Session;
use crate::session::process::{Process, own_program};
use nix::sys::time::TimeSpec;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use overlane_net::tap::Tap;
use std::cell::RefCell;
use std::fs;
use std::io::Read;
use std::os::fd::AsFd;
use std::process::{ChildStdin, Command};
use std::time::{Duration, Instant};

/// Until a relay has made its devices; many start at once, some on one CPU.
const START: Duration = Duration::from_secs(20);
/// Most queues of a device: what virtual machines get, even on large hosts.
const MOST_QUEUES: usize = 4;

/// What a new relay is to join.
pub(crate) struct Join<'a> {
    /// Whose relay it is: `guest1 of bridge-1500`.
    pub(crate) owner: String,
    /// The namespaces of its ends, each with the CPUs of what lies there.
    pub(crate) ends: [(&'a str, &'a [usize]); 2],
    /// The devices in the one and in the other.
    pub(crate) cables: Vec<[String; 2]>,
}

/// A relay that runs; it ends when this is dropped, and its devices with it.
pub(crate) struct Relay {
    owner: String,
    process: RefCell<Process>,
    /// The relay ends when this does.
    _orders: ChildStdin,
}

/// CPU time of the relays since they began: of the senders', and of the receivers'. `None`: there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTime {
    pub(crate) senders: Option<Duration>,
    pub(crate) receivers: Option<Duration>,
}

impl Relay {
    /// Starts a relay and waits until its devices are there.
    pub(crate) fn start(session: &Session, join: &Join<'_>) -> Result<Self, LabError> {
        let program = own_program().ok_or_else(|| LabError::Unable {
            reason: "the laboratory was not started by the program `overlane`, whose relay a virtual machine needs"
                .to_owned(),
        })?;
        let mut command = Command::new(program);
        command.arg("relay").args(words(&join.request()));
        let [(_, one), (_, other)] = join.ends;
        let (process, orders, mut output) = session.converse(command, &[one, other].concat())?;
        let relay = Self {
            owner: join.owner.clone(),
            process: RefCell::new(process),
            _orders: orders,
        };
        let (mut said, end) = (Vec::new(), Instant::now() + START);
        while said != format!("{READY}\n").as_bytes() {
            let left = end.saturating_duration_since(Instant::now());
            if !session.interrupts.wait_for(output.as_fd(), left)? {
                return Err(relay.failed(&format!("made no devices within {} s", START.as_secs())));
            }
            let mut bytes = [0; 64];
            let count = output
                .read(&mut bytes)
                .map_err(LabError::system("listening to a relay"))?;
            if count == 0 {
                let outcome = relay.process.borrow_mut().last_words();
                return Err(relay.failed(&outcome));
            }
            said.extend_from_slice(&bytes[..count]);
        }
        Ok(relay)
    }

    /// An error when it has ended.
    pub(crate) fn look_after(&self) -> Result<(), LabError> {
        let mut process = self.process.borrow_mut();
        if !process.has_ended() {
            return Ok(());
        }
        let (pid, outcome) = (process.pid(), process.last_words());
        Err(self.failed(&format!(
            "(process {pid}) {outcome}; if nobody ended it, see `dmesg` for what the kernel says"
        )))
    }

    /// Its CPU time since it began.
    pub(crate) fn cpu_time(&self) -> Result<Duration, LabError> {
        self.look_after()?;
        let pid = Pid::from_raw(self.process.borrow().pid().cast_signed());
        let time = clock_getcpuclockid(pid).and_then(clock_gettime);
        let time: TimeSpec = time.map_err(LabError::system("reading the CPU time of a relay"))?;
        Ok(time.into())
    }

    /// The part of its CPU time that its threads on these CPUs had: where one relay joins two guests, each direction runs with
    /// the guest that it reads from.
    pub(crate) fn cpu_time_on(&self, cpus: &[usize]) -> Result<Duration, LabError> {
        let tasks = format!("/proc/{}/task", self.process.borrow().pid());
        let threads = fs::read_dir(&tasks).map_err(LabError::io("reading", tasks.as_ref()))?;
        let mut sum = Duration::ZERO;
        for thread in threads {
            let thread = thread
                .map_err(LabError::io("reading", tasks.as_ref()))?
                .path();
            let read = |file: &str| {
                let path = thread.join(file);
                fs::read_to_string(&path).map_err(LabError::io("reading", &path))
            };
            sum += thread_time_on(cpus, &read("stat")?, &read("schedstat")?);
        }
        Ok(sum)
    }

    fn failed(&self, what: &str) -> LabError {
        LabError::Relay {
            reason: format!("the relay of {} {what}", self.owner),
        }
    }
}

/// Run time of a thread (first number of `schedstat`, in ns) if it ran on one of these CPUs last (field 39 of `stat`, proc(5)).
fn thread_time_on(cpus: &[usize], stat: &str, schedstat: &str) -> Duration {
    // The name in parentheses may hold anything; field 3 stands first behind it.
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let cpu = behind_name.split_ascii_whitespace().nth(39 - 3);
    let is_on = cpu
        .and_then(|cpu| cpu.parse().ok())
        .is_some_and(|cpu| cpus.contains(&cpu));
    let ns = schedstat.split_ascii_whitespace().next().filter(|_| is_on);
    Duration::from_nanos(ns.and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

impl Join<'_> {
    fn request(&self) -> RelayRequest {
        let queues = self.ends.iter().map(|(_, cpus)| cpus.len()).max();
        RelayRequest {
            queues: queues.unwrap_or(1).clamp(1, MOST_QUEUES),
            ends: self.ends.map(|(netns, cpus)| RelayEnd {
                netns: netns.to_owned(),
                cpus: cpus.to_vec(),
            }),
            cables: self.cables.iter().cloned().map(RelayCable).collect(),
        }
    }
}

/// As `overlane relay` takes them.
fn words(request: &RelayRequest) -> Vec<String> {
    let ends = request.ends.iter().map(ToString::to_string);
    let cables = request.cables.iter().map(ToString::to_string);
    let queues = std::iter::once(request.queues.to_string());
    queues.chain(ends).chain(cables).collect()
}

/// Why no virtual machine can be had here; `Ok(None)` when it can.
pub(crate) fn check(session: &Session) -> Result<Option<String>, LabError> {
    let tried = session.in_new_netns(|netns| Ok(netns.run(|| Tap::create_queues("try", 1))?))?;
    Ok(tried
        .err()
        .map(|error| format!("virtual machines need TAP devices (modprobe tun): {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_time_is_where_it_ran() {
        let stat = format!("7 (re) lay) S{} 3 0 0", " 0".repeat(35));
        let of = |cpus: &[usize]| thread_time_on(cpus, &stat, "1500 20 3\n");
        assert_eq!(of(&[1, 3]), Duration::from_nanos(1500));
        assert_eq!(of(&[0, 1]), Duration::ZERO);
        assert_eq!(
            thread_time_on(&[3], "7 (short) S", "1500 20 3"),
            Duration::ZERO
        );
    }

    #[test]
    fn a_relay_has_a_queue_for_each_cpu_of_its_guest_up_to_four() {
        for (cpus, queues) in [
            (&[][..], 1),
            (&[3], 1),
            (&[0, 1], 2),
            (&[0, 1, 2, 3, 4, 5], 4),
        ] {
            let join = Join {
                owner: "guest1".to_owned(),
                ends: [("h", cpus), ("g", cpus)],
                cables: vec![["port0".to_owned(), "eth0".to_owned()]],
            };
            assert_eq!(join.request().queues, queues);
            let said = words(&join.request());
            assert_eq!(said.len(), 4);
            assert_eq!(said[2].parse(), Ok(join.request().ends[1].clone()));
            assert_eq!(said[3], "port0=eth0");
        }
    }
}
