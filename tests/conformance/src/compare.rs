//! The differences between what must become of a packet and what did, in words. No words: none.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::net::IpAddr;

use overlane_ebpf::test_run::Action;
use overlane_model::{DeviceName, Hook, Name, Tables, Verdict};
use overlane_pipeline::{Counter, Counters, Outcome, Output, Packet};

use crate::Count;
use crate::case::{Case, Counted, Destination, Left, Step};
use crate::dissect::{difference, dissect, text};
use crate::logged::Logged;
use crate::test_runner::{Device, LeftBy, Observed};
use crate::wire_runner::carries_ip;

/// What a test says of a case whose packet `index` differs from what it must be.
pub fn failure(case: &Case, index: usize, found: &[String], outcome: &Outcome) -> String {
    let line = case.steps.get(index).map_or(0, |step| step.line);
    let rules: Vec<_> = case.rules.iter().map(ToString::to_string).collect();
    format!(
        "case {} ({}; {}), packet {} ({}:{line}):\n  {}\nThe reference executor says:\n{}",
        case.name,
        case.title,
        rules.join(", "),
        index + 1,
        case.path.display(),
        found.join("\n  "),
        outcome_text(outcome)
    )
}

/// What the reference executor made of a case's packet, against the case.
pub fn with_case(step: &Step, outcome: &Outcome) -> Vec<String> {
    let mut found = decided(step, outcome);
    if outcome.outputs.len() != step.out.len() {
        found.push(format!(
            "{} packets leave and not {}",
            outcome.outputs.len(),
            step.out.len()
        ));
    }
    found.extend(probe_otherwise(&step.probe, &outcome.probe));
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
    found
}

fn probe_otherwise(expected: &[Left], probe: &[Output]) -> Vec<String> {
    let is_same = expected.len() == probe.len();
    if is_same
        && expected
            .iter()
            .zip(probe)
            .all(|(left, output)| left.is(output))
    {
        return Vec::new();
    }
    let expected = expected
        .iter()
        .map(|left| (left.to.to_string(), &left.packet));
    let probe = probe
        .iter()
        .map(|output| (place(output), packet_of(output)));
    let [expected, probe] = [expected.collect(), probe.collect()].map(all_text);
    vec![format!("a copy becomes\n{probe}\nand not\n{expected}")]
}

fn all_text(left: Vec<(String, &Packet)>) -> String {
    let texts = left
        .iter()
        .map(|(to, packet)| format!("  to {to}\n{}", text(&dissect(packet), "    ")));
    match left.is_empty() {
        true => "  nothing".into(),
        false => texts.collect(),
    }
}

/// The same without what leaves: the verdict, what is counted and what is logged.
pub fn decided(step: &Step, outcome: &Outcome) -> Vec<String> {
    let mut found = Vec::new();
    if outcome.verdict != step.verdict {
        found.push(format!(
            "verdict {} and not {}",
            outcome.verdict, step.verdict
        ));
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

/// What the kernel made of a packet, against the reference executor. What it counted: [`counters`].
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
    let logged: Vec<_> = outcome.log.iter().map(Logged::ours).collect();
    if observed.log != logged {
        found.push(format!(
            "log: reference {logged:?}, eBPF {:?}",
            observed.log
        ));
    }
    // What the host keeps leaves by no device.
    let leaves = |output: &&Output| !matches!(output, Output::Host { .. });
    let outputs: Vec<_> = outcome.outputs.iter().filter(leaves).collect();
    let is_for_host = outputs.len() < outcome.outputs.len();
    if is_for_host && !is_same(entered, &observed.packet) {
        found.push(changed(entered, &observed.packet));
    }
    let action = match observed.redirected {
        true => Action::Redirect,
        false if is_for_host => Action::Next,
        false => Action::Drop,
    };
    if observed.action != action {
        found.push(format!("action: {action:?}, eBPF {:?}", observed.action));
    }
    let mut left = &observed.left[..];
    // Of a neighbour behind a device that is gone nobody is asked: the copy ends behind the segmenter.
    let is_lost = outcome.verdict == Verdict::DeviceGone && outcome.asked.is_some();
    if !outcome.probe.is_empty() || is_lost {
        // What becomes of the copy is for the hook behind the segmenter.
        match left.split_first() {
            Some((copy, rest)) if copy.is_copy && copy.device == Device::Segmenter => left = rest,
            _ if is_lost => {}
            _ => found.push("eBPF: no copy that becomes a question".into()),
        }
    }
    if outputs.len() != left.len() {
        let (expected, devices) = (outputs.len(), left.iter().map(|left| &left.device));
        let devices: Vec<_> = devices.collect();
        found.push(format!(
            "packets that leave: reference {expected}, eBPF {}: {devices:?}",
            devices.len()
        ));
    }
    for (output, left) in outputs.into_iter().zip(left) {
        found.extend(left_otherwise(tables, outcome.hook, output, left));
        if matches!(output, Output::Segmenter { .. }) && packet_of(output) != entered {
            found.push("reference: the packet did not stay as it came".into());
        }
    }
    found
}

fn left_otherwise(tables: &Tables, hook: Hook, output: &Output, left: &LeftBy) -> Vec<String> {
    let mut found = Vec::new();
    if !is_device(tables, hook, output, left) {
        found.push(format!(
            "device: reference {}, eBPF {:?}",
            place(output),
            left.device
        ));
    }
    // Of a copy only the first bytes are known.
    let (mut expected, len) = (packet_of(output).clone(), packet_of(output).bytes.len());
    expected.bytes.truncate(left.packet.bytes.len());
    if len != left.len {
        found.push(format!("length: reference {len}, eBPF {}", left.len));
    } else if !is_same(&expected, &left.packet) {
        found.push(changed(&expected, &left.packet));
    }
    found
}

/// What makes a super-packet is not seen of one that left.
fn is_same(expected: &Packet, observed: &Packet) -> bool {
    (&expected.bytes, expected.tag) == (&observed.bytes, observed.tag)
}

fn changed(expected: &Packet, observed: &Packet) -> String {
    let mut diff = difference(expected, observed);
    if expected.tag != observed.tag {
        diff += &format!("  tag {:?} and not {:?}\n", observed.tag, expected.tag);
    }
    format!("packet (- reference, + eBPF):\n{diff}")
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
    if !outcome.probe.is_empty() {
        out += "    probe:\n";
    }
    for probe in &outcome.probe {
        out += &format!("      - to: {}\n        packet:\n", place(probe));
        out += &text(&dissect(packet_of(probe)), "          ");
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

fn is_device(tables: &Tables, hook: Hook, output: &Output, left: &LeftBy) -> bool {
    match (output, &left.device) {
        // The kernel has to receive it anew where the protocol that it knows is not the outer header's: that of
        // the frame that came, or what decap made of it (IPv4 unless it is IPv6).
        (
            Output::Underlay {
                remote: Some(remote),
                packet,
            },
            found,
        ) => {
            let from_tunnel = hook == Hook::FromUnderlay && remote.is_ipv4();
            let tunnel = tables.tunnel.encapsulation;
            let anew = left.is_copy || !from_tunnel && !carries_ip(&packet.bytes, tunnel);
            *found
                == if anew {
                    Device::Segmenter
                } else {
                    Device::Uplink
                }
        }
        (Output::Underlay { .. }, Device::Uplink)
        | (Output::Segmenter { .. }, Device::Segmenter) => true,
        (Output::Port { port, .. }, Device::Port(device)) => {
            device_of(tables, port) == Some(device)
        }
        (Output::Leg { device, .. }, Device::Leg(found)) => device == found,
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
            packets(counters.port_untold.get(port)),
            0,
        ],
        Counted::Remote(remote) => [
            packets(counters.from_remote.get(remote)),
            packets(counters.to_remote.get(remote)),
            packets(counters.remote_dropped.get(remote)),
            0,
            0,
        ],
        Counted::Rule(rule) => [0, 0, 0, 0, packets(counters.rules.get(rule))],
    };
    let wanted = [
        ("from", count.from),
        ("to", count.to),
        ("dropped", count.dropped),
        ("untold", count.untold),
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
pub fn counters(reference: &Counters, ebpf: &Counters) -> Vec<String> {
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
        "untold of port",
        &reference.port_untold,
        &ebpf.port_untold,
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
