//! Flows to a machine that moves: datagrams and messages over one TCP connection, paced, each of which the machine sends
//! back. What they notice of the move is their longest gap, and what was lost.

use crate::error::LabError;
use crate::machine::cpus::pin_thread;
use crate::session::Session;
use crate::topology::{Guest, Pair};
use overlane_analysis::record::Flow;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Until the flows have had answers: the machine's first question for an address is in it.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);
/// "Echo" (RFC 862).
const PORT: u16 = 7;
/// Between two messages.
const PACE: Duration = Duration::from_millis(5);
/// Until the connection is open, and until the last message is back: the connection's own time-outs double meanwhile.
const LIMIT: Duration = Duration::from_secs(20);
/// So long datagrams under way are waited for at the end.
const STRAGGLERS: Duration = Duration::from_millis(300);
/// Bytes of a message's number.
const NUMBER_BYTES: usize = 8;

/// Talks with the machine of a pair, both ways and by both protocols: that it answers is seen.
pub(crate) fn talk(session: &Session, pair: &Pair) -> Result<(), LabError> {
    let flows = Flows::start(pair, 64)?;
    let what = format!("an answer of {}", pair.sender.node.place);
    let run = session.wait_until(&what, ANSWER, || Ok(flows.run()));
    let ended = flows.stop();
    run?;
    ended.map(drop)
}

/// Both flows of one machine, while they run.
pub(crate) struct Flows {
    machine: String,
    stop: Stop,
    /// The window has begun.
    window: Arc<AtomicBool>,
    /// How much came back so far, of each.
    returned: [Arc<AtomicU64>; 2],
    udp: JoinHandle<Result<Flow, String>>,
    tcp: JoinHandle<Result<Flow, String>>,
}

/// Ends both when it goes, also where nobody waits for them.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Flows {
    /// Starts both, from the receiver of a pair to its machine, with messages of so many bytes.
    pub(crate) fn start(pair: &Pair, bytes: u32) -> Result<Self, LabError> {
        let (from, to) = (&pair.receiver, &pair.sender);
        let machine = to.node.place.clone();
        let failed = |what: &str| {
            let action = format!("{what} to {machine}");
            LabError::system::<std::io::Error>(&action)
        };
        let address = SocketAddr::from((to.address, PORT));
        let own = from.address;
        let datagrams = from.node.netns.run(|| {
            let socket = UdpSocket::bind((own, 0))?;
            socket.connect(address)?;
            Ok(socket)
        })?;
        let datagrams = datagrams.map_err(failed("opening a flow of datagrams"))?;
        let stream = from
            .node
            .netns
            .run(|| TcpStream::connect_timeout(&address, LIMIT))?;
        let stream = stream.map_err(failed("opening a connection"))?;
        let [stop, window] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let returned = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let [of_udp, of_tcp] = &returned;
        let size = bytes as usize;
        let udp = Side::new(from, [&stop, &window], of_udp, size)
            .spawn(move |side| side.send_datagrams(&datagrams));
        let tcp = Side::new(from, [&stop, &window], of_tcp, size)
            .spawn(move |side| side.send_messages(stream));
        Ok(Self {
            machine,
            stop: Stop(stop),
            window,
            returned,
            udp,
            tcp,
        })
    }

    /// Both have had answers.
    pub(crate) fn run(&self) -> bool {
        let mut all = self.returned.iter();
        all.all(|count| count.load(Ordering::Relaxed) > 0)
    }

    /// What has been until now is of no interest: gaps are looked for from here on.
    pub(crate) fn begin_window(&self) {
        self.window.store(true, Ordering::Relaxed);
    }

    /// How many messages of each came back.
    pub(crate) fn returned(&self) -> [u64; 2] {
        [0, 1].map(|flow| self.returned[flow].load(Ordering::Relaxed))
    }

    /// Ends both: what the datagrams and the messages came to.
    pub(crate) fn stop(self) -> Result<[Flow; 2], LabError> {
        drop(self.stop);
        let machine = &self.machine;
        let ended = [("UDP", self.udp), ("TCP", self.tcp)].map(|(name, thread)| {
            let said = thread.join();
            let said = said.unwrap_or_else(|_| Err("its thread ended".to_owned()));
            said.map_err(|reason| LabError::Generator {
                reason: format!("the {name} flow to {machine}: {reason}"),
            })
        });
        let [udp, tcp] = ended;
        Ok([udp?, tcp?])
    }
}

/// One flow, in its thread.
struct Side {
    cpus: Vec<usize>,
    stop: Arc<AtomicBool>,
    window: Arc<AtomicBool>,
    returned: Arc<AtomicU64>,
    size: usize,
}

impl Side {
    fn new(
        from: &Guest,
        [stop, window]: [&Arc<AtomicBool>; 2],
        returned: &Arc<AtomicU64>,
        size: usize,
    ) -> Self {
        Self {
            cpus: from.node.cpus.clone(),
            stop: Arc::clone(stop),
            window: Arc::clone(window),
            returned: Arc::clone(returned),
            size: size.max(NUMBER_BYTES),
        }
    }

    fn spawn(
        self,
        flow: impl FnOnce(&Self) -> Result<Flow, String> + Send + 'static,
    ) -> JoinHandle<Result<Flow, String>> {
        thread::spawn(move || {
            pin_thread(&self.cpus)
                .map_err(|errno| format!("its thread cannot be bound to its CPUs: {errno}"))?;
            flow(&self)
        })
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Every datagram is a number, and the number again and again up to its size.
    fn send_datagrams(&self, socket: &UdpSocket) -> Result<Flow, String> {
        let mut seen = Seen::new(&self.window);
        let mut buffer = vec![0; self.size + 1];
        let mut due = Instant::now();
        let mut over = None;
        loop {
            if over.is_none() && self.is_over() {
                over = Some(Instant::now() + STRAGGLERS);
                seen.look_at_the_gap();
            }
            match over {
                Some(end) if Instant::now() >= end || seen.all_are_back() => break,
                None if Instant::now() >= due => {
                    // What the device refuses is lost, like what the network loses.
                    let _ = socket.send(&message(seen.flow.sent, self.size));
                    seen.flow.sent += 1;
                    due += PACE;
                }
                _ => {}
            }
            let wait = due.saturating_duration_since(Instant::now()).min(PACE);
            let wait = wait.max(Duration::from_micros(100));
            let timed = socket.set_read_timeout(Some(wait));
            timed.map_err(|error| format!("it cannot be told how long to wait: {error}"))?;
            match socket.recv(&mut buffer) {
                Ok(length) => {
                    let got = buffer.get(..length).unwrap_or_default();
                    let number = read(got, self.size)
                        .ok_or("a datagram came back otherwise than it was sent")?;
                    seen.take(number)?;
                    if over.is_none() {
                        seen.look_at_the_gap();
                    }
                    self.returned.store(seen.flow.returned, Ordering::Relaxed);
                }
                Err(error) if is_late(&error) => {}
                // The machine's own answer that nobody listens yet.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(format!("no datagram can be received: {error}")),
            }
        }
        Ok(seen.flow)
    }

    /// One message after the other, each when the one before is back, and not before its time.
    fn send_messages(&self, mut stream: TcpStream) -> Result<Flow, String> {
        let set = |done: std::io::Result<()>| {
            done.map_err(|error| format!("its connection cannot be set: {error}"))
        };
        set(stream.set_nodelay(true))?;
        set(stream.set_read_timeout(Some(LIMIT)))?;
        set(stream.set_write_timeout(Some(LIMIT)))?;
        let mut seen = Seen::new(&self.window);
        let mut buffer = vec![0; self.size];
        let mut due = Instant::now();
        while !self.is_over() {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            due = Instant::now() + PACE;
            let number = seen.flow.sent;
            let sent = stream.write_all(&message(number, self.size));
            seen.flow.sent += 1;
            sent.and_then(|()| stream.read_exact(&mut buffer))
                .map_err(|error| format!("message {number} did not come back: {error}"))?;
            if read(&buffer, self.size) != Some(number) {
                return Err(format!(
                    "message {number} came back otherwise than it was sent"
                ));
            }
            seen.take(number)?;
            seen.look_at_the_gap();
            self.returned.store(seen.flow.returned, Ordering::Relaxed);
        }
        Ok(seen.flow)
    }
}

fn is_late(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// What came back so far.
struct Seen {
    flow: Flow,
    /// The window has begun.
    window: Arc<AtomicBool>,
    last: Instant,
    /// Of each number.
    back: Vec<bool>,
}

impl Seen {
    fn new(window: &Arc<AtomicBool>) -> Self {
        Self {
            flow: Flow::default(),
            window: Arc::clone(window),
            last: Instant::now(),
            back: Vec::new(),
        }
    }

    /// A message came back.
    fn take(&mut self, number: u64) -> Result<(), String> {
        let known = usize::try_from(number)
            .ok()
            .filter(|_| number < self.flow.sent);
        let at = known.ok_or_else(|| format!("number {number} came back, which was never sent"))?;
        if self.back.len() <= at {
            self.back.resize(at + 1, false);
        }
        if std::mem::replace(&mut self.back[at], true) {
            return Err(format!("number {number} came back twice"));
        }
        self.flow.returned += 1;
        Ok(())
    }

    /// Nothing came back since the last one, until now.
    fn look_at_the_gap(&mut self) {
        let gap = self.last.elapsed().as_millis();
        let gap = u64::try_from(gap).unwrap_or(u64::MAX);
        if self.window.load(Ordering::Relaxed) {
            self.flow.longest_gap_ms = self.flow.longest_gap_ms.max(gap);
        }
        self.last = Instant::now();
    }

    fn all_are_back(&self) -> bool {
        self.flow.sent == self.flow.returned
    }
}

/// A message: its number, again and again.
fn message(number: u64, size: usize) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    bytes.iter().copied().cycle().take(size).collect()
}

/// The number of a message that is as it was sent.
fn read(bytes: &[u8], size: usize) -> Option<u64> {
    let number = bytes.get(..NUMBER_BYTES)?.try_into().ok()?;
    let number = u64::from_be_bytes(number);
    (bytes == message(number, size)).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_only_as_it_was_sent() {
        let sent = message(7, 20);
        assert_eq!(read(&sent, 20), Some(7));
        assert_eq!(read(&sent[..19], 20), None);
        let mut torn = sent.clone();
        torn[13] ^= 1;
        assert_eq!(read(&torn, 20), None);
        assert_eq!(read(&sent[..7], 7), None);
    }

    #[test]
    fn what_comes_twice_or_was_never_sent_is_an_error() {
        let mut seen = Seen::new(&Arc::default());
        seen.flow.sent = 3;
        seen.take(1).unwrap();
        assert!(seen.take(1).unwrap_err().contains("twice"));
        assert!(seen.take(3).unwrap_err().contains("never sent"));
        seen.take(0).unwrap();
        assert!(!seen.all_are_back());
        assert_eq!((seen.flow.returned, seen.flow.lost()), (2, 1));
    }
}
