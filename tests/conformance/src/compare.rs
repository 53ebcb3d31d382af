//! The differences between what must become of a packet and what did, in words. No words: none.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::net::IpAddr;

use overlane_model::{DeviceName, Name, Tables, Verdict};
use overlane_pipeline::{Counter, Counters, Outcome, Output, Packet};

use crate::Count;
use crate::case::{Case, Counted, Destination, Left, Step};
use crate::dissect::{difference, dissect, text};
use crate::test_runner::{Device, Observed};

/// What a test says of a case whose packet `index` differs from what it must be.
pub fn failure(case: &Case, index: usize, found: &[String], outcome: &Outcome) -> String {
    let line = case.steps.get(index).map_or(0, |step| step.line);
    format!(
        "case {} ({}), packet {} ({}:{line}):\n  {}\nThe reference executor says:\n{}",
        case.name,
        case.title,
        index + 1,
        case.path.display(),
        found.join("\n  "),
        outcome_text(outcome)
    )
}

/// What the reference executor made of a case's packet, against the case.
pub fn with_case(step: &Step, outcome: &Outcome) -> Vec<String> {
    let mut found = Vec::new();
    if outcome.verdict != step.verdict {
        found.push(format!(
            "verdict {} and not {}",
            outcome.verdict, step.verdict
        ));
    }
    if outcome.outputs.len() != step.out.len() {
        found.push(format!(
            "{} packets leave and not {}",
            outcome.outputs.len(),
            step.out.len()
        ));
    }
    for (index, (expected, output)) in step.out.iter().zip(&outcome.outputs).enumerate() {
        let packet = packet_of(output);
        if !goes_to(output, &expected.to) {
            found.push(format!(
                "packet {} leaves to {} and not to {}",
                index + 1,
                place(output),
                expected.to
            ));
        }
        if *packet != expected.packet {
            found.push(format!(
                "packet {} leaves otherwise (- case, + executor):\n{}",
                index + 1,
                difference(&expected.packet, packet)
            ));
        }
    }
    let once = outcome
        .counters
        .verdicts
        .iter()
        .map(|(key, counter)| (*key, counter.packets));
    let once: Vec<_> = once.collect();
    if once != [((outcome.hook, outcome.verdict), 1)] {
        found.push(format!("verdict counters {once:?}"));
    }
    for (what, count) in &step.counts {
        found.extend(counted(what, count, &outcome.counters));
    }
    let logged: Vec<_> = outcome.log.iter().map(|record| &record.rule).collect();
    if let Some(log) = &step.log
        && !log.iter().eq(logged.iter().copied())
    {
        found.push(format!("rules {logged:?} wrote into the log, not {log:?}"));
    }
    found
}

/// What the kernel made of a packet, against the reference executor.
pub fn with_reference(
    tables: &Tables,
    entered: &Packet,
    outcome: &Outcome,
    observed: &Observed,
) -> Vec<String> {
    let mut found = Vec::new();
    if observed.verdict != Some(outcome.verdict) {
        let verdict = observed.verdict.map_or("none", Verdict::name);
        found.push(format!(
            "verdict: reference {}, eBPF {verdict}",
            outcome.verdict
        ));
    }
    found.extend(counters(&outcome.counters, &observed.counters));
    let logged: Vec<_> = outcome.log.iter().map(|record| &record.rule).collect();
    if !observed.log.iter().eq(logged.iter().copied()) {
        found.push(format!(
            "log: reference {logged:?}, eBPF {:?}",
            observed.log
        ));
    }
    // What is dropped with an answer leaves as the answer.
    let answered = outcome.outputs.len() == 1 && observed.copies == 0;
    let flooded = outcome.verdict == Verdict::Flood || outcome.verdict.is_drop() && !answered;
    if flooded {
        // A flooded frame ends at the hook; what travels are copies, which a test run counts.
        if observed.copies as usize != outcome.outputs.len() {
            found.push(format!(
                "copies: reference {}, eBPF {}",
                outcome.outputs.len(),
                observed.copies
            ));
        }
        if observed.to.is_some() {
            found.push(format!("device: reference none, eBPF {:?}", observed.to));
        }
        return found;
    }
    let Some(output) = outcome.outputs.first() else {
        // An answer to somebody whom nobody knows.
        if observed.to.is_some() {
            found.push(format!("device: reference none, eBPF {:?}", observed.to));
        }
        return found;
    };
    if !is_device(tables, output, outcome.verdict, observed.to.as_ref()) {
        found.push(format!(
            "device: reference {}, eBPF {:?}",
            place(output),
            observed.to
        ));
    }
    let expected = packet_of(output);
    if expected.bytes != observed.packet.bytes || expected.tag != observed.packet.tag {
        let mut diff = difference(expected, &observed.packet);
        if expected.tag != observed.packet.tag {
            diff += &format!(
                "  tag {:?} and not {:?}\n",
                observed.packet.tag, expected.tag
            );
        }
        found.push(format!("packet (- reference, + eBPF):\n{diff}"));
    }
    if matches!(output, Output::Host { .. } | Output::Segmenter { .. }) && expected != entered {
        found.push("reference: the packet did not stay as it came".into());
    }
    found
}

/// What a failure shows of an outcome: as a case would write it.
pub fn outcome_text(outcome: &Outcome) -> String {
    let mut out = format!("    verdict: {}\n", outcome.verdict);
    if !outcome.outputs.is_empty() {
        out += "    out:\n";
    }
    for output in &outcome.outputs {
        out += &format!("      - to: {}\n        packet:\n", place(output));
        out += &text(&dissect(packet_of(output)), "          ");
    }
    out
}

/// The packet that left.
pub const fn packet_of(output: &Output) -> &Packet {
    match output {
        Output::Port { packet, .. }
        | Output::Underlay { packet, .. }
        | Output::Leg { packet, .. }
        | Output::Segmenter { packet }
        | Output::Host { packet } => packet,
    }
}

fn goes_to(output: &Output, expected: &Destination) -> bool {
    match (output, expected) {
        (Output::Port { port, .. }, Destination::Port(name)) => port == name,
        (Output::Underlay { .. }, Destination::Underlay(None))
        | (Output::Segmenter { .. }, Destination::Segmenter)
        | (Output::Host { .. }, Destination::Host) => true,
        (Output::Underlay { remote, .. }, Destination::Underlay(Some(addr))) => {
            *remote == Some(*addr)
        }
        (
            Output::Leg {
                device, next_hop, ..
            },
            Destination::Leg(leg, by),
        ) => device == leg && next_hop == by,
        _ => false,
    }
}

/// As a case writes it; a remote is a comment, for a case names hosts.
pub fn place(output: &Output) -> String {
    match output {
        Output::Port { port, .. } => format!("port {port}"),
        Output::Underlay {
            remote: Some(remote),
            ..
        } => format!("underlay # {remote}"),
        Output::Underlay { remote: None, .. } => "underlay".into(),
        Output::Segmenter { .. } => "segmenter".into(),
        Output::Host { .. } => "host".into(),
        Output::Leg {
            device, next_hop, ..
        } => leg(device, next_hop.as_ref()),
    }
}

fn leg(device: &DeviceName, next_hop: Option<&IpAddr>) -> String {
    next_hop.map_or_else(
        || format!("leg {device}"),
        |next_hop| format!("leg {device} {next_hop}"),
    )
}

impl Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Underlay(None) => f.write_str("underlay"),
            Self::Underlay(Some(remote)) => write!(f, "underlay # {remote}"),
            Self::Port(port) => write!(f, "port {port}"),
            Self::Segmenter => f.write_str("segmenter"),
            Self::Host => f.write_str("host"),
            Self::Leg(device, next_hop) => f.write_str(&leg(device, next_hop.as_ref())),
        }
    }
}

impl Left {
    /// Whether an output is this.
    pub fn is(&self, output: &Output) -> bool {
        goes_to(output, &self.to) && *packet_of(output) == self.packet
    }
}

fn is_device(tables: &Tables, output: &Output, verdict: Verdict, found: Option<&Device>) -> bool {
    match (output, found) {
        (Output::Host { .. }, None)
        | (Output::Underlay { .. }, Some(Device::Uplink))
        | (Output::Segmenter { .. }, Some(Device::Segmenter)) => true,
        // To be received anew: its protocol is still the inner frame's.
        (Output::Underlay { .. }, Some(Device::Segmenter)) => {
            matches!(verdict, Verdict::Encap | Verdict::Answer)
        }
        (Output::Port { port, .. }, Some(Device::Port(device))) => {
            device_of(tables, port) == Some(device)
        }
        (Output::Leg { device, .. }, Some(Device::Leg(found))) => device == found,
        _ => false,
    }
}

fn device_of<'a>(tables: &'a Tables, port: &Name) -> Option<&'a DeviceName> {
    let found = tables.ports.iter().find(|known| known.name == *port);
    found.map(|port| &port.attachment.device)
}

fn counted(what: &Counted, count: &Count, counters: &Counters) -> Vec<String> {
    let packets = |counter: Option<&Counter>| counter.map_or(0, |counter| counter.packets);
    let found = match what {
        Counted::Port(port) => [
            packets(counters.from_port.get(port)),
            packets(counters.to_port.get(port)),
            packets(counters.port_dropped.get(port)),
            0,
        ],
        Counted::Remote(remote) => [
            packets(counters.from_remote.get(remote)),
            packets(counters.to_remote.get(remote)),
            packets(counters.remote_dropped.get(remote)),
            0,
        ],
        Counted::Rule(rule) => [0, 0, 0, packets(counters.rules.get(rule))],
    };
    let wanted = [
        ("from", count.from),
        ("to", count.to),
        ("dropped", count.dropped),
        ("packets", count.packets),
    ];
    let wrong = wanted
        .iter()
        .zip(found)
        .filter(|((_, wanted), found)| wanted.is_some_and(|wanted| wanted != *found));
    wrong
        .map(|((which, wanted), found)| {
            let wanted = wanted.unwrap_or_default();
            format!("counter {which} of {what:?}: {found} and not {wanted}")
        })
        .collect()
}

/// The counters in which two executors differ.
pub(crate) fn counters(reference: &Counters, ebpf: &Counters) -> Vec<String> {
    let mut found = Vec::new();
    map("verdict", &reference.verdicts, &ebpf.verdicts, &mut found);
    map(
        "from port",
        &reference.from_port,
        &ebpf.from_port,
        &mut found,
    );
    map("to port", &reference.to_port, &ebpf.to_port, &mut found);
    map(
        "dropped of port",
        &reference.port_dropped,
        &ebpf.port_dropped,
        &mut found,
    );
    map(
        "to remote",
        &reference.to_remote,
        &ebpf.to_remote,
        &mut found,
    );
    map(
        "from remote",
        &reference.from_remote,
        &ebpf.from_remote,
        &mut found,
    );
    map(
        "dropped of remote",
        &reference.remote_dropped,
        &ebpf.remote_dropped,
        &mut found,
    );
    map("rule", &reference.rules, &ebpf.rules, &mut found);
    found
}

fn map<K: Ord + Debug>(
    what: &str,
    reference: &BTreeMap<K, Counter>,
    ebpf: &BTreeMap<K, Counter>,
    found: &mut Vec<String>,
) {
    let keys = reference
        .keys()
        .chain(ebpf.keys().filter(|key| !reference.contains_key(key)));
    for key in keys {
        let (expected, counted) = (reference.get(key), ebpf.get(key));
        if expected != counted {
            let (expected, counted) = (show(expected), show(counted));
            found.push(format!(
                "counter {what} {key:?}: reference {expected}, eBPF {counted}"
            ));
        }
    }
}

fn show(counter: Option<&Counter>) -> String {
    counter.map_or_else(
        || "nothing".into(),
        |c| {
            format!(
                "{} packets, {} segments, {} bytes",
                c.packets, c.segments, c.bytes
            )
        },
    )
}
