//! What became of a packet, and why.

use std::collections::BTreeMap;
use std::net::IpAddr;

use overlane_model::{DeviceName, Hook, Name, Verdict};

use crate::lib::log::LogRecord;
use crate::lib::packet::Packet;
use crate::lib::state::NeighbourId;

/// What became of one packet at one hook.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Where it was seen.
    pub hook: Hook,
    /// Its only verdict.
    pub verdict: Verdict,
    /// What left, in the order of leaving.
    pub outputs: Vec<Output>,
    /// What a copy of it became: a question to the neighbour that it goes to, or to everybody about it. It left behind
    /// the segmenter.
    pub probe: Vec<Output>,
    /// The neighbour whose answer it lacks (`resolving`, `no_neighbour`, `ask_limit`), or that the probe asks.
    pub asked: Option<NeighbourId>,
    /// What was counted.
    pub counters: Counters,
    /// What rules of the firewall wrote into the log.
    pub log: Vec<LogRecord>,
    /// What each stage did, in their order.
    pub steps: Vec<Step>,
}

/// A packet that left a hook.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// To a port of this host, its own included (an answer).
    Port {
        /// Which.
        port: Name,
        /// As its device gets it.
        packet: Packet,
    },
    /// To the underlay. The outer Ethernet header of a tunnel packet has zero addresses: the kernel's
    /// neighbours fill it in.
    Underlay {
        /// The VTEP it is for; `None`: plain, with the VLAN tag of its switch.
        remote: Option<IpAddr>,
        /// As the uplink gets it.
        packet: Packet,
    },
    /// Into the segmenter, as it came.
    Segmenter {
        /// As it came.
        packet: Packet,
    },
    /// Out of a gateway's leg, into the physical network.
    Leg {
        /// The leg.
        device: DeviceName,
        /// Whose MAC the frame is for; `None`: an answer, or a question.
        next_hop: Option<IpAddr>,
        /// As the leg gets it.
        packet: Packet,
    },
    /// To the host's own stack, as it came.
    Host {
        /// As it came.
        packet: Packet,
    },
}

/// Packets, segments and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counter {
    /// As the kernel hands them over.
    pub packets: u64,
    /// What they are worth on a wire without super-packets.
    pub segments: u64,
    /// Of the frame without its tag; a verdict on a tunnel packet counts the outer header too.
    pub bytes: u64,
}

/// What one packet added to the counters of the data path (the verdict's included). What stayed zero
/// is absent.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// By hook and verdict.
    pub verdicts: BTreeMap<(Hook, Verdict), Counter>,
    /// By port: from it.
    pub from_port: BTreeMap<Name, Counter>,
    /// By port: to it.
    pub to_port: BTreeMap<Name, Counter>,
    /// By port: dropped of what came from it.
    pub port_dropped: BTreeMap<Name, Counter>,
    /// By port: of that, what its guest was not told of, because it had been told enough.
    pub port_untold: BTreeMap<Name, Counter>,
    /// By VTEP: sent to it.
    pub to_remote: BTreeMap<IpAddr, Counter>,
    /// By VTEP: from it.
    pub from_remote: BTreeMap<IpAddr, Counter>,
    /// By VTEP: for it or from it, and dropped.
    pub remote_dropped: BTreeMap<IpAddr, Counter>,
    /// By rule of the firewall: let pass or stopped, packets of its connections included.
    pub rules: BTreeMap<Name, Counter>,
}

/// One stage's decision, for `overlane trace`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The stage: `parse`, `port_security`, `l2_lookup` and so on.
    pub stage: &'static str,
    /// What it found and did, in one sentence without a full stop.
    pub found: String,
    /// The thing of the fabric that decided, if one did.
    pub by: Option<By>,
}

/// A thing of the fabric, which has a line in its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum By {
    /// A logical port.
    Port(Name),
    /// A logical switch.
    Switch(Name),
    /// A host.
    Host(Name),
    /// A logical router.
    Router(Name),
    /// A rule of the firewall.
    Rule(Name),
    /// The settings of the tunnels.
    Tunnel,
}
