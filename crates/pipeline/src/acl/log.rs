//! The log of the firewall: `struct log_record` of `bpf/lib/abi_firewall.h`. What leaves here is what the data path
//! writes into its ring while that has room.

use std::ops::ControlFlow;

use overlane_model::{Direction, Name, RuleTable, Verdict};

use super::Packet;
use crate::conntrack::{ConnectionKey, Sender};
use crate::context::Stage;

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

impl Packet<'_> {
    pub(super) fn record(&self, time_ns: u64, rule: &RuleTable, ended: Stage) -> LogRecord {
        LogRecord {
            time_ns,
            packet: self.logged(),
            direction: self.direction,
            rule: rule.name.clone(),
            reason: match ended {
                ControlFlow::Continue(()) => None,
                ControlFlow::Break(reason) => Some(reason),
            },
            len: u16::try_from(self.len).unwrap_or(u16::MAX),
        }
    }

    /// The key of the packet, or what would be one.
    fn logged(&self) -> ConnectionKey {
        let zone = self.zone;
        let sender = Sender::from(self.direction);
        let (ends, icmp) = (&self.l4.ends, self.l4.icmp);
        ConnectionKey::of(zone, sender, ends).unwrap_or_else(|| ConnectionKey {
            peer_port: icmp.map_or(0, |(kind, _)| kind.into()),
            ..ConnectionKey::bare(zone, sender, ends)
        })
    }
}
