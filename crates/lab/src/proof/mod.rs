//! The path proof: before a cell is measured, a capture shows that its packets travel as declared.
//! Numbers of a path that is not the one in the table would be worse than none.
//!
//! Every pair is tried, by a [`burst`] of TCP; where the guests' frames are tagged, a handful of tags each by
//! a raw [`probe`]. Behind a gateway a second capture shows what the physical network gets to see. Where there is a
//! firewall, a packet that no rule admits has to be [`refused`].

mod burst;
pub(crate) mod capture;
mod flow;
pub(crate) mod frames;
mod probe;
mod refused;

use crate::backends::Backend;
use crate::error::LabError;
use crate::flows;
use crate::proof::capture::Capture;
use crate::session::Session;
use crate::topology::{Expected, Network, Pair, Topology, UPLINK};
use flow::Flow;
use overlane_analysis::record::GuestKind;

/// More flows than this are not told one by one.
const TOLD: usize = 4;

/// What was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    pub(crate) holds: bool,
    pub(crate) detail: String,
    /// Some packet in a tunnel had an outer UDP checksum; `None` without a tunnel.
    pub(crate) outer_checksum: Option<bool>,
    /// The most that headers took of the underlay's MTU, as it was captured; none without an underlay.
    pub(crate) around: Option<u32>,
}

/// Sends between the guests of every pair and looks at the wires meanwhile.
pub(crate) fn prove(
    session: &Session,
    topology: &Topology,
    backend: &dyn Backend,
) -> Result<Proof, LabError> {
    let mut proof = prove_path(session, topology, backend.expected())?;
    // A machine sends no packets of the laboratory's own making.
    let has_machines = topology.setting.guests == GuestKind::Qemu;
    if topology.setting.feature.rules().is_some() && !has_machines {
        proof = proof.and(refused::prove(session, topology, backend)?);
    }
    Ok(proof)
}

fn prove_path(
    session: &Session,
    topology: &Topology,
    expected: Expected,
) -> Result<Proof, LabError> {
    if !topology.has_underlay() {
        return prove_without_underlay(session, topology);
    }
    let (mut flows, mut at_leg) = (Vec::new(), Vec::new());
    for pair in &topology.pairs {
        let uplink = Capture::open(&topology.hosts[0], UPLINK)?;
        let leg = topology
            .leg()
            .map(|(gateway, device)| Capture::open(gateway, device))
            .transpose()?;
        let mut seen = send(session, topology, pair)?;
        look(&uplink, expected, &mut seen)?;
        flows.extend(seen);
        if let Some(leg) = leg {
            let mut seen = [Flow::at_leg(topology, pair)];
            look(&leg, Expected::Plain, &mut seen)?;
            at_leg.extend(seen);
        }
    }
    let proof = judge("host1's uplink", expected, &flows);
    if topology.leg().is_none() {
        return Ok(proof);
    }
    Ok(proof.and(judge("the gateway's leg", Expected::Plain, &at_leg)))
}

/// Sorts what a capture saw.
fn look(capture: &Capture, expected: Expected, flows: &mut [Flow]) -> Result<(), LabError> {
    capture.drain(|bytes| {
        if let Some(frame) = frames::read(bytes) {
            for flow in &mut *flows {
                flow.add(expected, &frame);
            }
        }
    })
}

impl Proof {
    /// Both.
    fn and(self, other: Self) -> Self {
        Self {
            holds: self.holds && other.holds,
            detail: format!("{} | {}", self.detail, other.detail),
            outer_checksum: either(self.outer_checksum, other.outer_checksum),
            around: self.around.max(other.around),
        }
    }
}

/// One of both is; `None` where neither is known.
fn either(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    [a, b].into_iter().flatten().reduce(|a, b| a || b)
}

/// What a pair sent, to be looked for on the wire.
fn send(session: &Session, topology: &Topology, pair: &Pair) -> Result<Vec<Flow>, LabError> {
    let flow = |networks, tag, mark| Flow {
        networks,
        tag,
        mark,
        ..Flow::between(topology, pair)
    };
    if pair.sender.is_machine {
        flows::talk(session, pair)?;
        return Ok(vec![Flow::between(topology, pair)]);
    }
    if !pair.is_tagged() {
        burst::send(session, topology, pair)?;
        return Ok(vec![Flow::between(topology, pair)]);
    }
    probe::send(session, topology, pair)?;
    let lanes = probe::chosen(pair).into_iter();
    Ok(lanes
        .map(|(near, far)| {
            let networks =
                [far.network, near.network].map(|network| Network::of(&topology.setting, network));
            flow(networks, near.vlan, Some(probe::mark(far.network)))
        })
        .collect())
}

/// Guests on one cable, or on one host: nothing to capture; what arrived has to have left the sender.
fn prove_without_underlay(session: &Session, topology: &Topology) -> Result<Proof, LabError> {
    let wires = topology.wires();
    let sent = || -> Result<u64, LabError> {
        let bytes = wires
            .iter()
            .map(|(node, device)| Ok(node.netlink.link(device)?.stats.tx_bytes));
        bytes.sum()
    };
    let before = sent()?;
    let (mut least, mut tags) = (0, 0);
    for pair in &topology.pairs {
        let flows = send(session, topology, pair)?;
        if pair.is_tagged() {
            tags += flows.len();
        } else {
            least += burst::BURST as u64;
        }
    }
    let bytes = sent()?.saturating_sub(before);
    let place = match topology.hosts.is_empty() {
        true => "one cable a pair, no underlay",
        false => "one host, no underlay",
    };
    let detail = if tags > 0 {
        format!("{place}: frames of {tags} tags arrived with the right one, both ways")
    } else {
        format!("{place}: {bytes} bytes left the senders for {least} bytes of payload")
    };
    Ok(Proof {
        holds: bytes > 0 && bytes >= least,
        detail,
        outer_checksum: None,
        around: None,
    })
}

/// What a capture at a `place` proves.
fn judge(place: &str, expected: Expected, flows: &[Flow]) -> Proof {
    let holds =
        !flows.is_empty() && flows.iter().all(Flow::holds) && expected != Expected::NoUnderlay;
    // What does not hold is told first.
    let mut order: Vec<&Flow> = flows.iter().collect();
    order.sort_by_key(|flow| flow.holds());
    let told: Vec<_> = order
        .iter()
        .take(TOLD)
        .map(|flow| flow.detail(expected))
        .collect();
    let mut detail = format!("captured on {place}: {}", told.join(" | "));
    if flows.len() > TOLD {
        let rest = &order[TOLD..];
        let held = rest.iter().filter(|flow| flow.holds()).count();
        detail += &format!(" | of {} flows more {held} likewise", rest.len());
    }
    let checksums = flows.iter().map(|flow| flow.counts.outer_checksum);
    let outer_checksum = checksums.fold(None, either);
    detail += match outer_checksum {
        None => "",
        Some(false) => "; no outer UDP checksum",
        Some(true) => "; with outer UDP checksums",
    };
    Proof {
        holds,
        detail,
        outer_checksum,
        around: flows.iter().filter_map(|flow| flow.counts.around).max(),
    }
}

#[cfg(test)]
mod tests;
