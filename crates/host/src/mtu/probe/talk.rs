//! Sends the probes of inquiries to remotes, all at the same time, and hands them what comes back.
//!
//! Probes leave by UDP sockets: the kernel's own way to the remote is the one that is tried. Answers are read from the
//! uplink before the data path takes them.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use overlane_ebpf::abi::Settings;
use overlane_model::cookie;
use overlane_net::{Link, NetError, PacketReader, datagram};

use super::format::{Heard, Tunnels};
use super::round::{Answer, FLOWS, Probe, Way};
use super::search::Inquiry;
use crate::HostError;

/// So long a try waits where nothing is known of the way, and at most.
const LONGEST: Duration = Duration::from_millis(300);
/// A machine that is busy answers late.
const SHORTEST: Duration = Duration::from_millis(100);
/// Probes that leave at once, and the pause between: no queue on the way fills up.
const BURST: usize = 16;
const PAUSE: Duration = Duration::from_millis(1);

/// One host that speaks to its remotes.
#[derive(Debug)]
pub(super) struct Talk {
    tunnels: Tunnels,
    reader: PacketReader,
    sockets: Vec<UdpSocket>,
    ports: Vec<u16>,
}

/// What is asked of one remote.
struct Asked<I: Inquiry> {
    remote: IpAddr,
    inquiry: I,
    outcome: Option<I::Outcome>,
    /// That the remote gave last; zeros: none.
    cookie: [u8; cookie::LEN],
    sent: HashMap<u32, Sent>,
    /// Of the try that runs.
    unsent: usize,
    end: Option<Instant>,
    shortest: Option<Duration>,
    longest: Duration,
    refused: Option<io::Error>,
}

/// A probe that is on its way.
#[derive(Clone, Copy)]
struct Sent {
    at: Instant,
    /// Length of its answer.
    wanted: u16,
}

/// What came of it.
pub(in crate::mtu) struct Told<O> {
    /// None: it was ended before.
    pub(in crate::mtu) outcome: Option<O>,
    pub(in crate::mtu) round_trip: Option<Duration>,
    /// Why the kernel did not send the last probe that it refused.
    pub(in crate::mtu) refused: Option<io::Error>,
}

impl Talk {
    /// By the uplink, in the namespace of this thread.
    pub(super) fn open(uplink: &Link, settings: &Settings) -> Result<Self, HostError> {
        let tunnels = Tunnels {
            vtep: settings.vtep.into(),
            port: settings.tunnel_port,
            encapsulation: settings.encapsulation,
        };
        let reader = PacketReader::open(uplink, &tunnels.filter())?;
        let sockets = sockets(tunnels.vtep, settings)?;
        let port = |socket: &UdpSocket| socket.local_addr().map(|address| address.port());
        let ports: Result<Vec<u16>, io::Error> = sockets.iter().map(port).collect();
        Ok(Self {
            tunnels,
            reader,
            ports: ports.map_err(system("look at a socket"))?,
            sockets,
        })
    }

    pub(super) const fn least(&self) -> u16 {
        self.tunnels.least()
    }

    /// Runs all inquiries to their end, or until `stop` has something to read.
    pub(super) fn run<I: Inquiry>(
        &self,
        inquiries: Vec<(IpAddr, I)>,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<Vec<Told<I::Outcome>>, HostError> {
        let mut asked: Vec<Asked<I>> = inquiries
            .into_iter()
            .map(|(remote, inquiry)| Asked::new(remote, inquiry))
            .collect();
        let mut queue = VecDeque::new();
        for (number, one) in asked.iter_mut().enumerate() {
            one.begin(number, &mut queue);
        }
        while asked.iter().any(|one| one.outcome.is_none()) {
            self.send(&mut queue, &mut asked);
            if self.wait(&asked, !queue.is_empty(), stop)? {
                break;
            }
            self.hear(&mut asked)?;
            for (number, one) in asked.iter_mut().enumerate() {
                one.end_try(number, &mut queue);
            }
        }
        Ok(asked.into_iter().map(Asked::told).collect())
    }

    fn send<I: Inquiry>(&self, queue: &mut VecDeque<(usize, Probe)>, asked: &mut [Asked<I>]) {
        for _ in 0..BURST {
            let Some((number, probe)) = queue.pop_front() else {
                return;
            };
            let Some(one) = asked.get_mut(number) else {
                continue;
            };
            let least = self.least();
            let (size, wanted) = match probe.way {
                Way::There => (probe.size.max(least), least),
                Way::Back => (least, probe.size),
            };
            let Some(socket) = self.sockets.get(probe.flow % self.sockets.len().max(1)) else {
                continue;
            };
            let to = SocketAddr::new(one.remote, self.tunnels.port);
            let bytes = self.tunnels.probe(size, wanted, probe.id, one.cookie);
            let now = Instant::now();
            one.sent.insert(probe.id, Sent { at: now, wanted });
            one.refused = socket.send_to(&bytes, to).err();
            one.unsent -= 1;
            if one.unsent == 0 {
                one.end = Some(now + one.patience());
            }
        }
    }

    /// True: it is to stop.
    fn wait<I: Inquiry>(
        &self,
        asked: &[Asked<I>],
        more: bool,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<bool, HostError> {
        let open = asked.iter().filter(|one| one.outcome.is_none());
        let next = open.filter_map(|one| one.end).min();
        let left = next.map_or(PAUSE, |next| next.saturating_duration_since(Instant::now()));
        let left = if more { left.min(PAUSE) } else { left };
        // The rest below a millisecond is cut off.
        let timeout =
            PollTimeout::try_from(left.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX);
        let mut descriptors = vec![PollFd::new(self.reader.as_fd(), PollFlags::POLLIN)];
        descriptors.extend(stop.map(|stop| PollFd::new(stop, PollFlags::POLLIN)));
        match poll(&mut descriptors, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(HostError::system("wait for answers")(errno)),
        }
        let stop = descriptors.get(1).and_then(PollFd::revents);
        Ok(stop.is_some_and(|flags| !flags.is_empty()))
    }

    fn hear<I: Inquiry>(&self, asked: &mut [Asked<I>]) -> Result<(), HostError> {
        let mut buffer = [0; 512];
        while let Some(frame) = self.reader.receive(&mut buffer)? {
            match self.tunnels.read(frame) {
                Some(Heard::Answer {
                    from,
                    id,
                    answer,
                    cookie,
                }) => {
                    let one = asked.iter_mut().find(|one| one.remote == from);
                    let Some(one) = one.filter(|one| one.outcome.is_none()) else {
                        continue;
                    };
                    if one.take(id, &answer, cookie) && one.inquiry.answered(id, &answer) {
                        one.note_time(id);
                    }
                }
                Some(Heard::TooBig {
                    to,
                    source_port,
                    size,
                    mtu,
                    hop,
                }) => {
                    let one = asked.iter_mut().find(|one| one.remote == to);
                    let Some(one) = one.filter(|one| one.outcome.is_none()) else {
                        continue;
                    };
                    let is_it = |flow: &usize| {
                        self.ports.get(*flow % self.ports.len().max(1)) == Some(&source_port)
                    };
                    for flow in (0..FLOWS).filter(is_it) {
                        one.inquiry.refused(flow, size, mtu, hop);
                    }
                }
                None => {}
            }
        }
        Ok(())
    }
}

impl<I: Inquiry> Asked<I> {
    fn new(remote: IpAddr, inquiry: I) -> Self {
        Self {
            remote,
            inquiry,
            outcome: None,
            cookie: [0; cookie::LEN],
            sent: HashMap::new(),
            unsent: 0,
            end: None,
            shortest: None,
            longest: Duration::ZERO,
            refused: None,
        }
    }

    fn begin(&mut self, number: usize, queue: &mut VecDeque<(usize, Probe)>) {
        let probes = self.inquiry.probes();
        self.unsent = probes.len();
        self.end = probes.is_empty().then(Instant::now);
        queue.extend(probes.into_iter().map(|probe| (number, probe)));
    }

    fn end_try(&mut self, number: usize, queue: &mut VecDeque<(usize, Probe)>) {
        let Some(end) = self.end.filter(|_| self.outcome.is_none()) else {
            return;
        };
        if self.inquiry.waits() && Instant::now() < end {
            return;
        }
        self.outcome = self.inquiry.end_try();
        if self.outcome.is_none() {
            self.begin(number, queue);
        }
    }

    /// Keeps the remote's cookie. False: without it, the answer could be no longer than the probe, and says nothing.
    fn take(&mut self, id: u32, answer: &Answer, cookie: Option<[u8; cookie::LEN]>) -> bool {
        let cookie = cookie.filter(|cookie| *cookie != self.cookie);
        let (Some(cookie), Some(sent)) = (cookie, self.sent.get(&id)) else {
            return true;
        };
        self.cookie = cookie;
        answer.len >= sent.wanted
    }

    fn note_time(&mut self, id: u32) {
        let Some(sent) = self.sent.remove(&id) else {
            return;
        };
        let time = sent.at.elapsed();
        self.longest = self.longest.max(time);
        self.shortest = Some(self.shortest.map_or(time, |shortest| shortest.min(time)));
    }

    /// How long a try waits after its last probe.
    fn patience(&self) -> Duration {
        match self.shortest {
            Some(_) => (self.longest * 4).clamp(SHORTEST, LONGEST),
            None => LONGEST,
        }
    }

    fn told(self) -> Told<I::Outcome> {
        Told {
            outcome: self.outcome,
            round_trip: self.shortest,
            refused: self.refused,
        }
    }
}

/// One for each flow: source ports spread over those of the tunnel, where somebody else may have one already.
fn sockets(vtep: IpAddr, settings: &Settings) -> Result<Vec<UdpSocket>, HostError> {
    let (first, last) = (settings.source_port_min, settings.source_port_max);
    let part = (usize::from(last.saturating_sub(first)) + 1).div_ceil(FLOWS);
    let mut sockets = Vec::new();
    let mut taken: Option<NetError> = None;
    for flow in 0..FLOWS {
        let from = usize::from(first) + flow * part;
        let ports = (from..from + part).filter_map(|port| u16::try_from(port).ok());
        for port in ports.take_while(|port| *port <= last) {
            match datagram::unfragmented(SocketAddr::new(vtep, port)) {
                Ok(socket) => {
                    sockets.push(socket);
                    break;
                }
                Err(error) if error.is_in_use() => taken = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
    }
    match taken {
        Some(error) if sockets.is_empty() => Err(error.into()),
        _ => Ok(sockets),
    }
}

fn system(operation: &'static str) -> impl FnOnce(io::Error) -> HostError {
    move |source| HostError::System { operation, source }
}
