//! Sends numbered frames, paced or as fast as it goes; their other end is [`super::receive`].
//!
//! Each message of the batch belongs to one path for good and holds a copy of its template, so that
//! sending means to write the numbered header and to go round.

use std::os::fd::OwnedFd;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::SendTimeout;
use nix::sys::time::{TimeVal, TimeValLike};

use crate::error::TrafficError;
use crate::outgoing::{self, MOST_MESSAGES, Outgoing, send_all};
use crate::pacing::Rate;
use crate::sequence::Header;
use crate::socket::set_buffers;
use crate::sys::{SendBatch, set_option};
use crate::workers::{Hand, Worker};

use super::{Path, packet_socket};

/// Bytes of a frame that each message has for itself: the headers are in there. What follows is zeros,
/// which all messages share.
const OWN_BYTES: usize = 128;

/// What the socket may have under way: enough for a batch of large frames.
const BUFFER_BYTES: u32 = 1 << 20;

/// How long the kernel may keep the sender waiting before it looks whether the job is to end.
const PATIENCE_MS: i64 = 100;

/// One thread's paths, which it serves in turn.
pub(super) struct Sender {
    rate: Option<Rate>,
    paths: Vec<Path>,
    socket: OwnedFd,
}

impl Sender {
    pub(super) fn new(rate: Option<Rate>, paths: Vec<Path>) -> Result<Self, TrafficError> {
        let refused = |operation: &'static str| {
            move |error| TrafficError::refused(operation, "AF_PACKET", error)
        };
        let socket = packet_socket().map_err(refused("open a packet socket"))?;
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)
            .map_err(refused("go past the queueing discipline"))?;
        set_buffers(&socket, BUFFER_BYTES)?;
        setsockopt(&socket, SendTimeout, &TimeVal::milliseconds(PATIENCE_MS))
            .map_err(|errno| refused("set the time-out of a socket")(errno.into()))?;
        Ok(Self {
            rate,
            paths,
            socket,
        })
    }
}

impl Worker for Sender {
    fn run(self: Box<Self>, hand: &Hand) -> Result<(), TrafficError> {
        outgoing::run(
            &mut Sending::new(&self.paths, &self.socket),
            self.rate,
            hand,
        )
    }
}

struct Sending<'a> {
    paths: &'a [Path],
    socket: &'a OwnedFd,
    /// Number of the next frame of each path.
    numbers: Vec<u32>,
    /// Each message belongs to the path at its own position modulo their number.
    batch: SendBatch,
    /// The message whose turn it is.
    turn: usize,
}

impl<'a> Sending<'a> {
    fn new(paths: &'a [Path], socket: &'a OwnedFd) -> Self {
        let lengths = || paths.iter().map(|path| path.template.bytes().len());
        // A frame of IPv6 that is shorter than OWN_BYTES is wholly its own.
        let longest = lengths().max().unwrap_or(0);
        let own = longest.min(OWN_BYTES);
        let rounds = MOST_MESSAGES.div_ceil(paths.len());
        let mut batch = SendBatch::new(rounds * paths.len(), own, longest - own);
        for message in 0..batch.len() {
            let bytes = paths[message % paths.len()].template.bytes();
            let begin = bytes.len().min(own);
            batch.slot(message)[..begin].copy_from_slice(&bytes[..begin]);
            batch.set_length(message, bytes.len());
        }
        batch.set_devices(paths.iter().map(|path| path.device_index).cycle());
        Self {
            paths,
            socket,
            numbers: vec![0; paths.len()],
            batch,
            turn: 0,
        }
    }
}

impl Outgoing for Sending<'_> {
    fn most(&self) -> usize {
        // Not past the end: the next call begins again with the first message.
        MOST_MESSAGES.min(self.batch.len() - self.turn)
    }

    fn send(
        &mut self,
        count: usize,
        mut intended_ns: impl FnMut() -> u64,
        hand: &Hand,
    ) -> Result<(), TrafficError> {
        let paths = self.paths;
        let messages = self.turn..self.turn + count;
        self.turn = messages.end % self.batch.len();
        let mut bytes = 0;
        for message in messages.clone() {
            let position = message % paths.len();
            let (path, number) = (&paths[position], &mut self.numbers[position]);
            let header = Header {
                stream: path.stream,
                number: *number,
                intended_ns: intended_ns(),
            };
            *number = number.wrapping_add(1);
            path.template.number(self.batch.slot(message), header);
            bytes += path.template.payload_bytes();
        }
        let (mut refused, mut refused_bytes) = (0, 0);
        let path = |message: usize| &paths[message % paths.len()];
        send_all(&mut self.batch, self.socket, messages, hand, |message| {
            refused += 1;
            refused_bytes += path(message).template.payload_bytes();
        })
        .map_err(|(message, error)| {
            TrafficError::refused("send a frame", &path(message).device, error)
        })?;
        let tally = &hand.tally;
        tally.refused_packets.add(refused);
        tally.sent_packets.add(count as u64 - refused);
        tally.sent_bytes.add((bytes - refused_bytes) as u64);
        Ok(())
    }
}
