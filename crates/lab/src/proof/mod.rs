//! The path proof: before a cell is measured, a capture shows that its packets travel as declared.
//! Numbers of a path that is not the one in the table would be worse than none.
//!
//! Every pair is tried, by a [`burst`] of TCP; where the guests' frames are tagged, a handful of tags each by
//! a raw [`probe`].

mod burst;
mod probe;

use crate::capture::Capture;
use crate::error::LabError;
use crate::frames::{self, Frame, Tunnel};
use crate::session::Session;
use crate::topology::{Network, Pair, Topology, UPLINK};
use std::net::IpAddr;

/// More flows than this are not told one by one.
const TOLD: usize = 4;

/// How the guests' packets have to look on the underlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// There is no underlay: the guests' own cable.
    NoUnderlay,
    /// As the guests sent them.
    Plain,
    /// With an 802.1Q tag of the network's VLAN, in no tunnel.
    Vlan,
    /// VXLAN with the VNI of the network.
    Vxlan,
    /// Geneve with the VNI of the network; with `ovn` OVN's option too.
    Geneve { ovn: bool },
}

/// What was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    pub(crate) holds: bool,
    pub(crate) detail: String,
}

/// Sends between the guests of every pair and looks at the wire meanwhile.
pub(crate) fn prove(
    session: &Session,
    topology: &Topology,
    expected: Expected,
) -> Result<Proof, LabError> {
    if !topology.has_underlay() {
        return prove_without_underlay(session, topology);
    }
    let mut flows = Vec::new();
    for pair in &topology.pairs {
        let capture = Capture::open(&topology.hosts[0], UPLINK)?;
        let mut seen = send(session, topology, pair)?;
        capture.drain(|bytes| {
            if let Some(frame) = frames::read(bytes) {
                for flow in &mut seen {
                    flow.add(expected, &frame);
                }
            }
        })?;
        flows.extend(seen);
    }
    Ok(judge(expected, &flows))
}

/// What a pair sent, to be looked for on the wire.
fn send(session: &Session, topology: &Topology, pair: &Pair) -> Result<Vec<Flow>, LabError> {
    let names = [&pair.sender.node.place, &pair.receiver.node.place].map(String::clone);
    let flow = |network: u32, tag, mark| Flow {
        names: names.clone(),
        network: Network::of(&topology.setting, network),
        tag,
        mark,
        sender: pair.sender.address,
        receiver: pair.receiver.address,
        counts: Counts::default(),
    };
    if !pair.is_tagged() {
        burst::send(session, topology, pair)?;
        let network = pair.sender.ports[0].networks.start;
        return Ok(vec![flow(network, None, None)]);
    }
    probe::send(session, topology, pair)?;
    let lanes = probe::chosen(pair).into_iter();
    Ok(lanes
        .map(|(lane, _)| flow(lane.network, lane.vlan, Some(probe::mark(lane.network))))
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
    })
}

/// The packets of one network between the guests of a pair.
struct Flow {
    /// Of the sending and the receiving guest.
    names: [String; 2],
    network: Network,
    /// What the sending guest's frames are tagged with.
    tag: Option<u16>,
    /// The UDP source port that tells them from those of other networks; `None`: everything between these
    /// guests.
    mark: Option<u16>,
    sender: IpAddr,
    receiver: IpAddr,
    counts: Counts,
}

/// What was seen of a flow, by direction.
#[derive(Debug, Default)]
struct Counts {
    there: u64,
    back: u64,
    /// The guests' packets in any other form.
    otherwise: u64,
    example: Option<Frame>,
    ovn: Option<(u16, u16)>,
}

impl Flow {
    fn add(&mut self, expected: Expected, frame: &Frame) {
        let there = match (frame.source, frame.destination) {
            way if way == (self.sender, self.receiver) => true,
            way if way == (self.receiver, self.sender) => false,
            _ => return,
        };
        if self.mark.is_some() && self.mark != frame.udp_source {
            return;
        }
        if let Some(Tunnel::Geneve { ovn, .. }) = frame.tunnel {
            self.counts.ovn = self.counts.ovn.or(ovn);
        }
        match (self.has_form(expected, frame), there) {
            (true, true) => self.counts.there += 1,
            (true, false) => self.counts.back += 1,
            (false, _) => {
                self.counts.otherwise += 1;
                self.counts.example.get_or_insert_with(|| frame.clone());
            }
        }
    }

    /// Is this how a packet of the flow has to look?
    fn has_form(&self, expected: Expected, frame: &Frame) -> bool {
        let Network { vni, vlan, .. } = self.network;
        match (expected, frame.vlan, frame.tunnel, frame.inner_vlan) {
            (Expected::Plain, tag, None, None) => tag == self.tag,
            (Expected::Vlan, Some(tag), None, None) => tag == vlan,
            (Expected::Vxlan, None, Some(Tunnel::Vxlan { vni: seen }), None) => seen == vni,
            (
                Expected::Geneve { ovn },
                None,
                Some(Tunnel::Geneve {
                    vni: seen,
                    ovn: option,
                }),
                None,
            ) => seen == vni && option.is_some() == ovn,
            _ => false,
        }
    }

    fn holds(&self) -> bool {
        self.counts.there > 0 && self.counts.back > 0 && self.counts.otherwise == 0
    }

    /// The form in words.
    fn form(&self, expected: Expected) -> String {
        let Network { vni, vlan, .. } = self.network;
        match expected {
            Expected::NoUnderlay => "on no underlay".to_owned(),
            Expected::Plain => match self.tag {
                None => "plain, in no tunnel".to_owned(),
                Some(tag) => format!("with their own 802.1Q tag, VLAN {tag}, in no tunnel"),
            },
            Expected::Vlan => format!("with an 802.1Q tag, VLAN {vlan}, in no tunnel"),
            Expected::Vxlan => format!("in VXLAN (UDP 4789, I flag), VNI {vni}"),
            Expected::Geneve { ovn: false } => format!("in Geneve (UDP 6081), VNI {vni}"),
            Expected::Geneve { ovn: true } => {
                let ports = self.counts.ovn;
                let ports = ports.map_or(String::new(), |(from, to)| format!(" {from} to {to}"));
                format!("in Geneve (UDP 6081), VNI {vni}, with OVN's option (logical ports{ports})")
            }
        }
    }

    fn detail(&self, expected: Expected) -> String {
        let Counts {
            there,
            back,
            otherwise,
            example,
            ..
        } = &self.counts;
        let [sender, receiver] = &self.names;
        let tag = match self.tag {
            Some(tag) => format!(" (tag {tag})"),
            None => String::new(),
        };
        let form = self.form(expected);
        let mut detail =
            format!("{there} packets from {sender}{tag} and {back} from {receiver} {form}");
        if *otherwise > 0 {
            let example = example.as_ref();
            let example = example.map_or(String::new(), |frame| format!(", the first: {frame:?}"));
            detail += &format!("; {otherwise} in another form{example}");
        } else {
            detail += "; none in another form";
        }
        detail
    }
}

fn judge(expected: Expected, flows: &[Flow]) -> Proof {
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
    let mut detail = format!("captured on host1's uplink: {}", told.join(" | "));
    if flows.len() > TOLD {
        let rest = &order[TOLD..];
        let held = rest.iter().filter(|flow| flow.holds()).count();
        detail += &format!(" | of {} flows more {held} likewise", rest.len());
    }
    Proof { holds, detail }
}

#[cfg(test)]
mod tests;
