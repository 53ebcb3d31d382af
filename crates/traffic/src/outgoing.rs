//! What senders of numbered packets have in common: when they send, and what the kernel's refusals
//! mean. Used by udp::send and frames::send.

use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};

use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};

use crate::error::TrafficError;
use crate::pacing::{Rate, now_ns, sharpen_sleep, sleep_until};
use crate::sys::SendBatch;
use crate::workers::Hand;

/// Messages that are sent at most before the sender looks at the clock and for an order to stop.
pub(crate) const MOST_MESSAGES: usize = 64;

/// Sends the packets of one thread, in messages.
pub(crate) trait Outgoing {
    /// How many messages [`Self::send`] takes.
    fn most(&self) -> usize;

    /// Packets in each message.
    fn packets_each(&self) -> u64 {
        1
    }

    /// Sends the next `count` messages, each with the time at which it should have been sent.
    fn send(
        &mut self,
        count: usize,
        intended_ns: impl FnMut() -> u64,
        hand: &Hand,
    ) -> Result<(), TrafficError>;
}

/// Sends at a rate of messages, or without one as fast as it goes, until the job ends.
pub(crate) fn run(
    outgoing: &mut impl Outgoing,
    rate: Option<Rate>,
    hand: &Hand,
) -> Result<(), TrafficError> {
    let Some(rate) = rate else {
        while !hand.stopping() {
            let now_ns = now_ns();
            outgoing.send(outgoing.most(), || now_ns, hand)?;
        }
        return Ok(());
    };
    sharpen_sleep();
    let each = outgoing.packets_each();
    let mut pacer = rate.begin(now_ns());
    while !hand.stopping() {
        let now_ns = now_ns();
        let count = usize::try_from(pacer.wake(now_ns)).unwrap_or(usize::MAX);
        note_due(pacer.due() * each, hand);
        if count == 0 {
            sleep_until(now_ns, pacer.next_ns());
        } else {
            outgoing.send(count.min(outgoing.most()), || pacer.take(), hand)?;
        }
    }
    note_due(pacer.finish(now_ns()) * each, hand);
    Ok(())
}

fn note_due(due: u64, hand: &Hand) {
    let total = &hand.tally.due_packets;
    total.add(due.saturating_sub(total.get()));
}

/// Sends these messages. Those that the kernel refuses are not sent again: `refused` learns of each. An
/// error is one that sending again does not mend, and at which message.
pub(crate) fn send_all(
    batch: &mut SendBatch,
    socket: &impl AsFd,
    messages: Range<usize>,
    hand: &Hand,
    mut refused: impl FnMut(usize),
) -> Result<(), (usize, io::Error)> {
    let Range { mut start, end } = messages;
    let mut repeated = false;
    while start < end {
        match batch.send(socket, start..end) {
            Ok(sent) => {
                start += sent;
                repeated = false;
                if start < end {
                    // A batch that ends early does not say why; what a peer or a router answered is
                    // still to be had, everything else is a refusal.
                    if let Some(error) = queued_error(socket) {
                        return Err((start, error));
                    }
                    refused(start);
                    start += 1;
                }
            }
            Err(error) => match error.raw_os_error().unwrap_or(0) {
                libc::EINTR => {}
                libc::ENOBUFS | libc::ENOMEM => {
                    refused(start);
                    start += 1;
                }
                libc::EAGAIN if hand.stopping() => {
                    (start..end).for_each(&mut refused);
                    return Ok(());
                }
                libc::EAGAIN => {}
                // The first time it may be the path MTU that just became known.
                libc::EMSGSIZE if !repeated => repeated = true,
                _ => return Err((start, error)),
            },
        }
    }
    Ok(())
}

/// What the error queue of a socket says (IP_RECVERR, ip(7)): why the peer cannot be reached.
fn queued_error(socket: &impl AsFd) -> Option<io::Error> {
    let mut payload = [0; 64];
    let mut payload = [IoSliceMut::new(&mut payload)];
    let mut control = cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let socket = socket.as_fd().as_raw_fd();
    let message = recvmsg::<()>(socket, &mut payload, Some(&mut control), flags).ok()?;
    message.cmsgs().ok()?.find_map(|control| match control {
        ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _)
            if error.ee_errno != libc::EMSGSIZE as u32 =>
        {
            Some(io::Error::from_raw_os_error(error.ee_errno as i32))
        }
        _ => None,
    })
}
