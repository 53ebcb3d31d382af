//! A trace for programs. Names of hooks, stages and verdicts are those of docs/semantics.md; a line is
//! one of the fabric file.

use std::net::IpAddr;

use overlane_model::Name;
use overlane_pipeline::{Entry, Output, Step};
use serde::Serialize;

use super::describe::{self, Seen};
use super::expect;
use super::neighbour::Assumed;
use super::walk::Hop;
use crate::places::{Places, Thing};

/// One packet and what became of it.
#[derive(Serialize)]
pub(crate) struct Traced {
    /// Place in the capture, from 1.
    number: usize,
    /// When, counted from the first packet of the capture.
    at_ns: u128,
    /// The capture has not the whole packet.
    cut: bool,
    packet: Seen,
    result: Fate,
    hop: Node,
}

/// What became of it in the end.
#[derive(Serialize)]
struct Fate {
    verdict: &'static str,
    drop: bool,
    host: String,
    hook: &'static str,
    /// The stage that decided, what it found, and by what in the fabric file.
    stage: Option<&'static str>,
    found: Option<String>,
    by: Option<Thing>,
    receivers: Vec<Receiver>,
    /// Everybody who got something, as `--expect` names them.
    ends: Vec<String>,
}

#[derive(Serialize)]
struct Receiver {
    host: String,
    port: String,
}

/// One hook.
#[derive(Serialize)]
struct Node {
    host: String,
    hook: &'static str,
    device: Option<String>,
    verdict: &'static str,
    drop: bool,
    /// Segments that fared the same; this is the first.
    count: usize,
    /// Neighbours that a router asked for first, and whose answers are taken for granted.
    assumed: Vec<Answered>,
    steps: Vec<Found>,
    /// What nobody said of a neighbour, where the packet ends at the question.
    not_known: Option<String>,
    outputs: Vec<Left>,
}

#[derive(Serialize)]
struct Answered {
    address: IpAddr,
    mac: String,
    /// Whose MAC it is; none: it is made up.
    port: Option<String>,
    /// What the router did first.
    question: Option<Found>,
}

#[derive(Serialize)]
struct Found {
    stage: &'static str,
    found: String,
    by: Option<Thing>,
}

/// What left, and what became of it.
#[derive(Serialize)]
struct Left {
    to: &'static str,
    port: Option<String>,
    remote: Option<String>,
    leg: Option<String>,
    /// Of what left by a leg; none: whoever sent what it answers.
    next_hop: Option<String>,
    packet: Seen,
    then: Vec<Node>,
}

impl Traced {
    pub(crate) fn new(
        places: &Places<'_>,
        number: usize,
        at_ns: u128,
        cut: bool,
        hop: &Hop,
    ) -> Self {
        let end = hop.end();
        let verdict = end.outcome.verdict;
        let last = end.reason();
        let receivers = hop.receivers();
        let receivers = receivers.iter().map(|(host, port)| Receiver {
            host: host.to_string(),
            port: port.to_string(),
        });
        Self {
            number,
            at_ns,
            cut,
            packet: describe::packet(places.fabric, &hop.packet),
            result: Fate {
                verdict: verdict.name(),
                drop: verdict.is_drop(),
                host: end.host.to_string(),
                hook: end.outcome.hook.name(),
                stage: last.map(|step| step.stage),
                found: last.map(|step| step.found.clone()),
                by: last
                    .and_then(|step| step.by.as_ref())
                    .map(|by| places.thing(by)),
                receivers: receivers.collect(),
                ends: expect::ends(places.fabric, hop)
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
            },
            hop: node(places, hop),
        }
    }
}

fn node(places: &Places<'_>, hop: &Hop) -> Node {
    let outputs = hop.outcome.outputs.iter().zip(&hop.then);
    Node {
        host: hop.host.to_string(),
        hook: hop.outcome.hook.name(),
        device: match &hop.entry {
            Entry::Port(device) | Entry::Segmenter(device) | Entry::Leg(device) => {
                Some(device.to_string())
            }
            Entry::Underlay => None,
        },
        verdict: hop.outcome.verdict.name(),
        drop: hop.outcome.verdict.is_drop(),
        count: hop.count,
        assumed: hop.assumed.iter().map(|it| answered(places, it)).collect(),
        steps: hop
            .outcome
            .steps
            .iter()
            .map(|step| found(places, step))
            .collect(),
        not_known: hop.not_known.clone(),
        outputs: outputs
            .map(|(output, then)| left(places, output, then))
            .collect(),
    }
}

fn answered(places: &Places<'_>, assumed: &Assumed) -> Answered {
    Answered {
        address: assumed.addr,
        mac: assumed.mac.to_string(),
        port: assumed.port.as_ref().map(Name::to_string),
        question: assumed.question.as_ref().map(|step| found(places, step)),
    }
}

fn found(places: &Places<'_>, step: &Step) -> Found {
    Found {
        stage: step.stage,
        found: step.found.clone(),
        by: step.by.as_ref().map(|by| places.thing(by)),
    }
}

fn left(places: &Places<'_>, output: &Output, then: &[Hop]) -> Left {
    let (mut leg, mut next_hop) = (None, None);
    let (to, port, remote, packet) = match output {
        Output::Port { port, packet } => ("port", Some(port.to_string()), None, packet),
        Output::Leg {
            device,
            next_hop: hop,
            packet,
        } => {
            leg = Some(device.to_string());
            next_hop = hop.map(|hop| hop.to_string());
            ("leg", None, None, packet)
        }
        Output::Underlay { remote, packet } => (
            "underlay",
            None,
            remote.map(|remote| remote.to_string()),
            packet,
        ),
        Output::Segmenter { packet } => ("segmenter", None, None, packet),
        Output::Host { packet } => ("host", None, None, packet),
    };
    Left {
        to,
        port,
        remote,
        leg,
        next_hop,
        packet: describe::packet(places.fabric, packet),
        then: then.iter().map(|hop| node(places, hop)).collect(),
    }
}
