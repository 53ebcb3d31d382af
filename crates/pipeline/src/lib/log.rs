//! The log of the firewall: `struct log_record` of `bpf/lib/abi_firewall.h`.

use overlane_model::{Direction, Name, Verdict};

use crate::lib::key::ConnectionKey;

/// A packet that a rule with `log: true` decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogRecord {
    /// When.
    pub time_ns: u64,
    /// Its port and ends, as those of a connection. Of an ICMP message that belongs to none, the type is the
    /// peer's port.
    pub packet: ConnectionKey,
    /// From the port or to it.
    pub direction: Direction,
    /// Which.
    pub rule: Name,
    /// Why it was dropped; `None`: it passed.
    pub reason: Option<Verdict>,
    /// Of the frame; 65 535: that or more.
    pub len: u16,
}
