//! A record of a rule's log, and what names a connection, in words that both executors know.

use std::net::IpAddr;

use overlane_ebpf::abi::{Addr, firewall as abi};
use overlane_model::{Direction, Name, Verdict};
use overlane_pipeline::{ConnectionKey, LogRecord, Zone};

/// Number of the zone and key of the port; protocol; ends.
pub(crate) type Key = (u32, u16, u8, (IpAddr, u16), (IpAddr, u16));

pub(crate) fn our_key(key: &ConnectionKey) -> Key {
    let (zone, port) = match key.zone {
        Zone::Port(switch, port) => (switch.number(), port.get()),
        Zone::Router(router) => (abi::ZONE_ROUTER | router.get(), 0),
    };
    let (local, peer) = ((key.local, key.local_port), (key.peer, key.peer_port));
    (zone, port, key.protocol, local, peer)
}

pub(crate) fn their_key(key: &abi::ConnectionKey) -> Key {
    // An IPv6 address may look like a mapped one.
    let addr = |addr: Addr| match key.family {
        4 => addr.into(),
        _ => IpAddr::from(addr.bytes),
    };
    (
        key.switch_id,
        key.key,
        key.protocol,
        (addr(key.local), u16::from_be(key.local_port)),
        (addr(key.peer), u16::from_be(key.peer_port)),
    )
}

/// What a rule wrote about a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Logged {
    time_ns: u64,
    packet: Key,
    is_from_port: bool,
    rule: Option<Name>,
    reason: Option<Verdict>,
    len: u16,
}

impl Logged {
    /// By the reference executor.
    pub fn ours(record: &LogRecord) -> Self {
        Self {
            time_ns: record.time_ns,
            packet: our_key(&record.packet),
            is_from_port: record.direction == Direction::FromPort,
            rule: Some(record.rule.clone()),
            reason: record.reason,
            len: record.len,
        }
    }

    /// By the eBPF programs, which know a rule by its number.
    pub fn theirs(record: &abi::LogRecord, rule: Option<Name>) -> Self {
        let reason = Some(record.verdict_reason).filter(|reason| *reason != 0);
        Self {
            time_ns: record.time,
            packet: their_key(&record.packet),
            is_from_port: record.from_port != 0,
            rule,
            reason: reason.and_then(|reason| Verdict::from_number(reason.into())),
            len: record.len,
        }
    }
}
