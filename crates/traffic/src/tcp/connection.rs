//! Connections of a job: how a driver opens one, how a server knows whose it is, how both end it.
//!
//! ```text
//! driver                                server
//!   │ ── connect, greeting (8 bytes) ──►  │   instance and direction
//!   │ ◄──────── the same 8 bytes ───────  │   it is one of this job's
//! ```
//!
//! Transactions with a connection each (`crr`) have no greeting: it would be measured.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, connect, listen, setsockopt,
    socket, sockopt,
};

use crate::error::TrafficError;
use crate::message::TcpState;
use crate::{socket as buffers, sys};

/// How long a driver waits for a server when it connects.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than a job has connections; the kernel's own limit is net.core.somaxconn.
const BACKLOG: i32 = 4096;
const MAGIC: u32 = 0x4f56_5443;

/// How sockets of a job are set up.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) buffer_bytes: Option<u32>,
    pub(super) congestion: Option<String>,
    /// TCP_NODELAY: for transactions. Streams are what any program's are.
    pub(super) no_delay: bool,
}

/// Where a driver connects from and to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endpoints {
    pub(super) from: IpAddr,
    pub(super) to: SocketAddr,
}

impl Endpoints {
    pub(super) fn place(self) -> String {
        format!("from {} to {}", self.from, self.to)
    }
}

/// What a driver says first on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) instance: u16,
    /// The server sends.
    pub(super) reverse: bool,
}

impl Greeting {
    pub(super) const BYTES: usize = 8;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let [m0, m1, m2, m3] = MAGIC.to_be_bytes();
        let [i0, i1] = self.instance.to_be_bytes();
        [m0, m1, m2, m3, 0, u8::from(self.reverse), i0, i1]
    }

    pub(super) fn from_bytes(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let [m0, m1, m2, m3, 0, reverse @ (0 | 1), i0, i1] = bytes else {
            return None;
        };
        (u32::from_be_bytes([m0, m1, m2, m3]) == MAGIC).then_some(Self {
            instance: u16::from_be_bytes([i0, i1]),
            reverse: reverse == 1,
        })
    }
}

/// One connection, shared between its thread and whoever ends it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    /// The other side, for errors.
    pub(super) peer: String,
    /// This side sends (streams).
    pub(super) sends: bool,
    ending: AtomicBool,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, peer: SocketAddr, sends: bool) -> Self {
        Self {
            stream,
            peer: peer.to_string(),
            sends,
            ending: AtomicBool::new(false),
        }
    }

    /// A driver's connection, greeted.
    pub(super) fn drive(
        endpoints: Endpoints,
        options: &Options,
        greeting: Greeting,
    ) -> Result<Self, TrafficError> {
        let stream = open(endpoints, options)?;
        let refused = |error| TrafficError::refused("greet", endpoints.place(), error);
        let no_agent = |why: &'static str| TrafficError::NotAnAgent {
            peer: endpoints.to.to_string(),
            why: why.into(),
        };
        stream.set_read_timeout(Some(PATIENCE)).map_err(refused)?;
        (&stream).write_all(&greeting.to_bytes()).map_err(refused)?;
        let mut echo = [0; Greeting::BYTES];
        (&stream)
            .read_exact(&mut echo)
            .map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => no_agent("silence"),
                io::ErrorKind::UnexpectedEof => {
                    no_agent("it hung up: more instances, or other work")
                }
                _ => refused(error),
            })?;
        if echo != greeting.to_bytes() {
            return Err(no_agent("another greeting"));
        }
        stream.set_read_timeout(None).map_err(refused)?;
        Ok(Self::new(stream, endpoints.to, !greeting.reverse))
    }

    /// Whether this side is to send no more.
    #[inline]
    pub(super) fn ending(&self) -> bool {
        self.ending.load(Relaxed)
    }

    /// Sends no more; what the kernel has still goes out, then the end. Wakes a thread that waits to send, and
    /// asks a peer that sends to end.
    pub(super) fn end_sending(&self) {
        self.ending.store(true, Relaxed);
        // Not connected any more: as good.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Ends both ways and wakes whoever waits.
    pub(super) fn cut(&self) {
        self.ending.store(true, Relaxed);
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    pub(super) fn retransmits(&self) -> u64 {
        retransmits(&self.stream)
    }

    /// What the kernel knows of it.
    pub(super) fn state(&self) -> Option<TcpState> {
        let words = sys::tcp_info(&self.stream).ok()?;
        Some(TcpState {
            send_mss_bytes: words[4],
            rtt_us: words[17],
            rtt_deviation_us: words[18],
            congestion_window: words[20],
            retransmits: words[RETRANSMITS_WORD],
            rtt_min_us: words[37],
        })
    }
}

/// How a connection broke in the middle of the traffic.
pub(super) fn broken(operation: &'static str, peer: &str, error: io::Error) -> TrafficError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::WriteZero => TrafficError::PeerEnded {
            peer: peer.to_owned(),
        },
        _ => TrafficError::refused(operation, format!("peer {peer}"), error),
    }
}

/// `tcpi_total_retrans`, linux/tcp.h.
const RETRANSMITS_WORD: usize = 25;

/// Segments that a connection sent again; 0 for one that is not there any more.
pub(super) fn retransmits(stream: &TcpStream) -> u64 {
    sys::tcp_info(stream).map_or(0, |words| u64::from(words[RETRANSMITS_WORD]))
}

/// Listens on a port that the kernel chooses.
pub(super) fn listen_on(address: IpAddr, options: &Options) -> Result<TcpListener, TrafficError> {
    let refused =
        |errno| TrafficError::refused("listen", format!("{address}, TCP, any port"), errno);
    let socket = make(address, options, SockFlag::empty())?;
    bind(
        socket.as_raw_fd(),
        &SockaddrStorage::from(SocketAddr::new(address, 0)),
    )
    .map_err(refused)?;
    listen(&socket, Backlog::new(BACKLOG).map_err(refused)?).map_err(refused)?;
    Ok(TcpListener::from(socket))
}

/// A connection; waits until it is there.
pub(super) fn open(endpoints: Endpoints, options: &Options) -> Result<TcpStream, TrafficError> {
    let refused = |error| TrafficError::refused("connect", endpoints.place(), error);
    let stream = TcpStream::from(bound(endpoints, options, SockFlag::empty())?);
    // It bounds connect(2) as well, which then says EINPROGRESS.
    stream.set_write_timeout(Some(PATIENCE)).map_err(refused)?;
    begin_connect(&stream, endpoints).map_err(refused)?;
    stream.set_write_timeout(None).map_err(refused)?;
    Ok(stream)
}

/// connect(2).
pub(super) fn begin_connect(stream: &TcpStream, endpoints: Endpoints) -> io::Result<()> {
    let to = SockaddrStorage::from(endpoints.to);
    Ok(connect(stream.as_raw_fd(), &to)?)
}

/// A socket with the source address. The port is chosen when it connects: free towards that peer is enough.
pub(super) fn bound(
    endpoints: Endpoints,
    options: &Options,
    flags: SockFlag,
) -> Result<OwnedFd, TrafficError> {
    let refused = |error| TrafficError::refused("send from there", endpoints.place(), error);
    let socket = make(endpoints.from, options, flags)?;
    sys::set_option(&socket, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1).map_err(refused)?;
    bind(
        socket.as_raw_fd(),
        &SockaddrStorage::from(SocketAddr::new(endpoints.from, 0)),
    )
    .map_err(|errno| refused(errno.into()))?;
    Ok(socket)
}

fn make(address: IpAddr, options: &Options, flags: SockFlag) -> Result<OwnedFd, TrafficError> {
    let refused = |errno| TrafficError::refused("make a TCP socket", address.to_string(), errno);
    let family = match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    };
    let flags = flags | SockFlag::SOCK_CLOEXEC;
    let made = socket(family, SockType::Stream, flags, None).map_err(refused)?;
    if options.no_delay {
        setsockopt(&made, sockopt::TcpNoDelay, &true).map_err(refused)?;
    }
    if let Some(bytes) = options.buffer_bytes {
        buffers::set_buffers(&made, bytes)?;
    }
    if let Some(congestion) = &options.congestion {
        setsockopt(&made, sockopt::TcpCongestion, &congestion.into()).map_err(|_| {
            TrafficError::Invalid {
                what: "congestion",
                value: format!("{congestion:?}"),
                wanted: "one of net.ipv4.tcp_available_congestion_control in this guest".into(),
            }
        })?;
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_says_whose_the_connection_is() {
        for (instance, reverse) in [(0, false), (255, true)] {
            let greeting = Greeting { instance, reverse };
            assert_eq!(Greeting::from_bytes(greeting.to_bytes()), Some(greeting));
        }
        assert_eq!(Greeting::from_bytes(*b"GET / HT"), None);
        let mut damaged = Greeting {
            instance: 1,
            reverse: false,
        }
        .to_bytes();
        damaged[5] = 2;
        assert_eq!(Greeting::from_bytes(damaged), None);
    }

    #[test]
    fn nothing_listening_is_said_with_place_and_advice() {
        let listener = listen_on("127.0.0.1".parse().unwrap(), &Options::default()).unwrap();
        let to = listener.local_addr().unwrap();
        drop(listener);
        let endpoints = Endpoints {
            from: "127.0.0.1".parse().unwrap(),
            to,
        };
        let error = open(endpoints, &Options::default())
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            format!(
                "cannot connect (from 127.0.0.1 to {to}): Connection refused; nothing listens there: \
                 prepare the serving side first"
            )
        );
    }

    #[test]
    fn an_unknown_congestion_control_is_named() {
        let options = Options {
            congestion: Some("no-such".to_owned()),
            ..Options::default()
        };
        let error = listen_on("127.0.0.1".parse().unwrap(), &options).unwrap_err();
        assert!(error.to_string().starts_with("congestion is \"no-such\""));
    }

    #[test]
    fn buffers_are_what_was_asked_for() {
        let options = Options {
            buffer_bytes: Some(8 << 20),
            ..Options::default()
        };
        let listener = listen_on("::1".parse().unwrap(), &options).unwrap();
        let kept = sys::option(&listener, libc::SOL_SOCKET, libc::SO_RCVBUF).unwrap();
        assert_eq!(kept, 16 << 20);
    }
}
