//! The one error type of this crate: what could not be done, where, why, and what to do about it.
//! The agent turns it into [`crate::message::Answer::Failed`].

use std::borrow::Cow;
use std::io;

use thiserror::Error;

/// An order that cannot be carried out, or a job that broke.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrafficError {
    /// The kernel refused an operation, or the other side is not there.
    #[error("cannot {operation} ({place}): {}{}", answer(.source), advice(.help))]
    Refused {
        /// What was wanted, as a verb phrase.
        operation: Cow<'static, str>,
        /// Where: addresses and ports, a device.
        place: String,
        /// The kernel's answer.
        source: io::Error,
        /// What to do; empty where the answer says it all.
        help: Cow<'static, str>,
    },
    /// A number in an order is too small or too large.
    #[error("{what} is {value}; allowed are {least} to {most}")]
    OutOfRange {
        /// Name of the field.
        what: &'static str,
        /// What it was.
        value: u64,
        /// Smallest value.
        least: u64,
        /// Largest value.
        most: u64,
    },
    /// A value in an order makes no sense.
    #[error("{what} is {value}; it must be {wanted}")]
    Invalid {
        /// Name of the field.
        what: &'static str,
        /// What it was.
        value: String,
        /// What it must be.
        wanted: Cow<'static, str>,
    },
    /// This work has no such side.
    #[error("the work {work} has no side {side}; use {wanted}")]
    WrongRole {
        /// The work, as in an order.
        work: &'static str,
        /// The side, as in an order.
        side: &'static str,
        /// The sides that it has.
        wanted: &'static str,
    },
    /// The other side ended a connection before this one was told to stop.
    #[error("{peer} ended the connection; stop drivers before servers, or see why its agent ended")]
    PeerEnded {
        /// The other side's address.
        peer: String,
    },
    /// The other side is no agent of this job.
    #[error(
        "{peer} does not answer as an agent does ({why}); are address and port those of `ready`?"
    )]
    NotAnAgent {
        /// The other side's address.
        peer: String,
        /// What was seen.
        why: Cow<'static, str>,
    },
    /// An order names a job that is there already.
    #[error("job {0} is there already; stop it first, or use another number")]
    JobTaken(u32),
    /// An order names a job that is not there.
    #[error("there is no job {0}; prepare it first")]
    NoJob(u32),
    /// A driver was told twice to begin, or a server to begin.
    #[error("job {0} does not wait for `go`: servers begin with `prepare`, drivers once")]
    NotWaiting(u32),
    /// A line of input is no order.
    #[error("not an order: {0}; docs/traffic.md lists the orders")]
    Malformed(#[source] serde_json::Error),
    /// A line of input has no end.
    #[error("a line of more than {most_bytes} bytes; an order is one line")]
    LineTooLong {
        /// Longest line.
        most_bytes: u64,
    },
    /// The orders cannot be read.
    #[error("cannot read orders from standard input: {0}")]
    Input(#[source] io::Error),
    /// The answers cannot be written.
    #[error("cannot write answers to standard output: {0}")]
    Output(#[source] io::Error),
}

impl TrafficError {
    /// The kernel refused an operation.
    pub(crate) fn refused(
        operation: impl Into<Cow<'static, str>>,
        place: impl Into<String>,
        source: impl Into<io::Error>,
    ) -> Self {
        let source = source.into();
        let help = help(&source);
        Self::Refused {
            operation: operation.into(),
            place: place.into(),
            source,
            help: help.into(),
        }
    }
}

/// Checks a number of an order.
pub(crate) fn in_range(
    what: &'static str,
    value: u64,
    least: u64,
    most: u64,
) -> Result<(), TrafficError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(TrafficError::OutOfRange {
        what,
        value,
        least,
        most,
    })
}

/// The kernel's words, without the number that the standard library appends.
fn answer(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(code) => nix::errno::Errno::from_raw(code).desc().to_owned(),
        None => error.to_string(),
    }
}

fn advice(help: &str) -> String {
    if help.is_empty() {
        String::new()
    } else {
        format!("; {help}")
    }
}

/// What usually stands behind an answer of the kernel.
fn help(error: &io::Error) -> &'static str {
    match error.raw_os_error().unwrap_or(0) {
        libc::ECONNREFUSED => "nothing listens there: prepare the serving side first",
        libc::ECONNRESET | libc::EPIPE => "the other side is gone: see why its agent ended",
        libc::EHOSTUNREACH | libc::ENETUNREACH => {
            "no way leads there: see addresses, routes and neighbours of this guest"
        }
        libc::ETIMEDOUT | libc::EINPROGRESS => {
            "nothing came back: see whether `ping` from this guest gets there"
        }
        libc::EADDRNOTAVAIL => "the address must be one of this guest's, and a port must be free",
        libc::EADDRINUSE => "another program has the port",
        libc::EMFILE | libc::ENFILE => "raise `ulimit -n`, or use fewer instances",
        libc::EPERM | libc::EACCES => "run it as root",
        libc::ENODEV | libc::ENXIO => "see `ip link` in this guest",
        _ => "",
    }
}
