//! A packet that no rule admits: where a firewall is measured, it has to be dropped, and by the firewall. What is admitted
//! would pass without one as well.

use super::{Proof, probe};
use crate::backends::Backend;
use crate::error::LabError;
use crate::proof::capture::Capture;
use crate::session::Session;
use crate::topology::{Pair, Topology};
use std::time::{Duration, Instant};

/// "Use for experimentation and testing" (RFC 3692); the rules admit TCP and UDP.
const PROTOCOL: u8 = 253;
/// What counts it, after the host's name.
const COUNTER: &str = " overlane firewall_drop";
const LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// Sends one from the sender of each pair, and looks for them in the backend's counters.
pub(super) fn prove(
    session: &Session,
    topology: &Topology,
    backend: &dyn Backend,
) -> Result<Proof, LabError> {
    let dropped = || -> Result<u64, LabError> {
        let counters = backend.counters(session, topology)?;
        let counts = counters.iter().filter(|(name, _)| name.ends_with(COUNTER));
        Ok(counts.map(|(_, count)| count).sum())
    };
    let before = dropped()?;
    topology.pairs.iter().try_for_each(send)?;
    let sent = topology.pairs.len() as u64;
    let end = Instant::now() + LIMIT;
    let seen = loop {
        let seen = dropped()?.saturating_sub(before);
        if seen >= sent || Instant::now() >= end {
            break seen;
        }
        session.interrupts.wait(PAUSE)?;
    };
    Ok(Proof {
        holds: seen >= sent,
        detail: format!(
            "of {sent} packets that no rule admits (protocol {PROTOCOL}) the firewall dropped {seen}"
        ),
        outer_checksum: None,
        around: None,
    })
}

fn send(pair: &Pair) -> Result<(), LabError> {
    let Some((lane, _)) = pair.lanes().next() else {
        return Ok(());
    };
    let (from, to) = (&pair.sender, &pair.receiver);
    let packet = probe::packet(from.address, to.address, PROTOCOL, b"no rule");
    let socket = Capture::open(&from.node, lane.device)?;
    socket.send(&probe::tagged(&lane, from, &packet))
}
