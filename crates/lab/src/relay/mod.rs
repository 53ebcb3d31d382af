//! The relay of a virtual machine: what vhost-net is to a real one.
//!
//! ```text
//!  guest's namespace           the relay           host's namespace
//!  eth0 (TAP) ── queue ──► read() … write() ──► queue ── port0 (TAP)
//!             ◄── queue ── write() … read() ◄── queue ──
//! ```
//!
//! Both devices are multi-queue TAPs that speak virtio headers, so super-packets and partial checksums cross whole.
//! A thread for each queue and direction moves whole frames with their headers, as they are. A relay is a process of
//! its own (`overlane relay`): its CPU time is its guest's. [`control`] starts it and looks after it.

mod control;

pub(crate) use control::{CpuTime, Join, Relay, check};

use crate::error::LabError;
use crate::machine::cpus::pin_thread;
use nix::errno::Errno;
use overlane_net::netns::Netns;
use overlane_net::tap::Tap;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;

/// The largest super-packet with its virtio header, Ethernet header and tags.
const FRAME_BYTES: usize = (64 << 10) + 64;

/// What the relay says when its devices are there.
const READY: &str = "ready";

/// What a relay joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayRequest {
    /// Queues of each device.
    pub queues: usize,
    /// The namespaces of both ends.
    pub ends: [RelayEnd; 2],
    /// The devices that it makes in the one and in the other.
    pub cables: Vec<RelayCable>,
}

/// Where one end is: `NAMESPACE@CPU,…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayEnd {
    /// The namespace.
    pub netns: String,
    /// What comes from there is read on these CPUs; none: on any.
    pub cpus: Vec<usize>,
}

/// Two devices that are joined: `DEVICE=DEVICE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayCable(pub [String; 2]);

impl FromStr for RelayEnd {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (netns, cpus) = text.split_once('@').ok_or("it is NAMESPACE@CPU,…")?;
        let cpus = cpus.split(',').filter(|cpu| !cpu.is_empty());
        let cpus = cpus.map(|cpu| cpu.parse().map_err(|_| format!("`{cpu}` is no CPU")));
        Ok(Self {
            netns: netns.to_owned(),
            cpus: cpus.collect::<Result<_, _>>()?,
        })
    }
}

impl fmt::Display for RelayEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus: Vec<_> = self.cpus.iter().map(ToString::to_string).collect();
        write!(f, "{}@{}", self.netns, cpus.join(","))
    }
}

impl FromStr for RelayCable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ends = text.split_once('=').ok_or("it is DEVICE=DEVICE")?;
        Ok(Self([ends.0.to_owned(), ends.1.to_owned()]))
    }
}

impl fmt::Display for RelayCable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([one, other]) = self;
        write!(f, "{one}={other}")
    }
}

/// Makes the devices and relays between them, until `input` ends or something fails. The devices go with the process.
pub fn relay(
    request: &RelayRequest,
    mut input: impl Read + Send + 'static,
    mut output: impl Write,
) -> Result<(), LabError> {
    let (say, end) = mpsc::channel();
    for RelayCable([one, other]) in &request.cables {
        let [here, there] = &request.ends;
        let taps = open(here, one, request.queues)?;
        for (one, other) in taps.into_iter().zip(open(there, other, request.queues)?) {
            let (one, other) = (Arc::new(one), Arc::new(other));
            spawn(&here.cpus, Arc::clone(&one), Arc::clone(&other), &say)?;
            spawn(&there.cpus, other, one, &say)?;
        }
    }
    writeln!(output, "{READY}")
        .and_then(|()| output.flush())
        .map_err(LabError::system("saying that the relay is ready"))?;
    // Who started it holds the other end of the input: it ends with that process, however that ends.
    thread::spawn(move || {
        let ended = io::copy(&mut input, &mut io::sink());
        let _ = say.send(ended.map(drop).map_err(LabError::system("reading orders")));
    });
    end.recv().unwrap_or(Ok(()))
}

fn open(end: &RelayEnd, device: &str, queues: usize) -> Result<Vec<Tap>, LabError> {
    Ok(Netns::open(&end.netns)?.run(|| Tap::create_queues(device, queues))??)
}

/// A thread for one queue and direction.
fn spawn(
    cpus: &[usize],
    from: Arc<Tap>,
    to: Arc<Tap>,
    say: &Sender<Result<(), LabError>>,
) -> Result<(), LabError> {
    let (cpus, say) = (cpus.to_vec(), say.clone());
    let run = move || {
        let failed = |errno: io::Error| {
            let action = format!("relaying from {} to {}", from.name(), to.name());
            LabError::system(&action)(errno)
        };
        let error = match pin_thread(&cpus) {
            Ok(()) => failed(pump(&from, &to)),
            Err(errno) => LabError::system("pinning a thread of the relay")(errno),
        };
        // Nobody listens any more when the process is ending anyway.
        let _ = say.send(Err(error));
    };
    let thread = thread::Builder::new().name("relay".to_owned()).spawn(run);
    thread
        .map(drop)
        .map_err(LabError::system("starting a thread of the relay"))
}

/// Moves frames from one queue to another; returns why it cannot any more.
fn pump(mut from: &Tap, mut to: &Tap) -> io::Error {
    let mut frame = vec![0; FRAME_BYTES];
    loop {
        let length = match from.read(&mut frame) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return error,
        };
        // A device that is down takes nothing (EIO): a cable that is not plugged in.
        match to.write(&frame[..length]) {
            Err(error) if error.raw_os_error() != Some(Errno::EIO as i32) => return error,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_cables_are_read_as_they_are_written() {
        for text in ["lab1-a-host1@0,2", "lab1-a-guest1@"] {
            assert_eq!(text.parse::<RelayEnd>().unwrap().to_string(), text);
        }
        assert_eq!("a@1".parse::<RelayEnd>().unwrap().cpus, [1]);
        let cable: RelayCable = "port0=eth0".parse().unwrap();
        assert_eq!(cable.to_string(), "port0=eth0");
        for text in ["a", "a@x", "a@1,y"] {
            assert!(text.parse::<RelayEnd>().is_err(), "{text}");
        }
        assert!("port0".parse::<RelayCable>().is_err());
    }

    #[test]
    fn a_namespace_that_is_not_there_is_named() {
        let end = |netns: &str| RelayEnd {
            netns: netns.to_owned(),
            cpus: Vec::new(),
        };
        let request = RelayRequest {
            queues: 1,
            ends: [end("lab0-none"), end("lab0-none")],
            cables: vec![RelayCable(["port0".to_owned(), "eth0".to_owned()])],
        };
        let error = relay(&request, io::empty(), io::sink()).unwrap_err();
        assert!(error.to_string().contains("lab0-none"), "{error}");
    }
}
