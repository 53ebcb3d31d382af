//! A trace for people: every hook with its stages, what left, and one line at the end that says what
//! became of the packet and why.

use overlane_model::Verdict;
use overlane_pipeline::{By, Outcome, Output, Step};

use super::describe::{self, Seen};
use super::expect::{self, Receiver};
use super::neighbour::Assumed;
use super::walk::Hop;
use crate::places::Places;

/// Width of the column of stages; the longest is `port_security`.
const STAGE: usize = 13;

/// The whole trace of one packet.
pub(crate) fn trace(places: &Places<'_>, hop: &Hop) -> String {
    let sent = describe::packet(places.fabric, &hop.packet);
    let mut text = String::new();
    write_hop(&mut text, places, hop, &sent);
    if let Some(not_known) = &hop.end().not_known {
        text.push_str(&format!("\nnot known: {not_known}\n"));
    }
    text
}

/// A packet before it is traced: its size and its headers.
pub(crate) fn packet(places: &Places<'_>, hop: &Hop) -> String {
    let seen = describe::packet(places.fabric, &hop.packet);
    format!("{}\n  {}", size(&seen), seen.headers.join(" | "))
}

/// The last line.
pub(crate) fn verdict(places: &Places<'_>, hop: &Hop) -> String {
    let end = hop.end();
    let verdict = end.outcome.verdict;
    let ports = hop.receivers().into_iter();
    let ports = ports.map(|(host, port)| format!("{port} on {host}"));
    let ends = expect::ends(places.fabric, hop).into_iter();
    let vlans = ends.filter_map(|end| match end {
        Receiver::Vlan(switch) => Some(format!("the physical network of switch {switch}")),
        Receiver::Port(_) | Receiver::Leg(_) | Receiver::Stack(_) => None,
    });
    let receivers: Vec<String> = ports.chain(vlans).collect();
    let receivers = match receivers.len() {
        0 => "nobody".to_owned(),
        _ => receivers.join(", "),
    };
    match verdict {
        verdict if verdict.is_drop() => {
            let why = end.reason();
            let (stage, why) = why.map_or(("", String::new()), |step| {
                (step.stage, format!(" — {}", sentence(places, step)))
            });
            format!("dropped: {verdict} at {stage} on {}{why}", end.host)
        }
        Verdict::Answer => format!("answered: {receivers}"),
        Verdict::Flood => format!("flooded: {receivers}"),
        Verdict::ToHost => format!("left to the stack of host {}", end.host),
        Verdict::VlanOut => match end.then.iter().flatten().count() {
            0 => format!("sent: to the physical network, from {}", end.host),
            _ => format!("delivered: {receivers}"),
        },
        Verdict::LegOut => format!(
            "sent: into the physical network, by the leg of {}",
            end.host
        ),
        Verdict::Encap => "sent: to a VTEP that is no host of the fabric".to_owned(),
        _ => format!("delivered: {receivers}"),
    }
}

fn write_hop(text: &mut String, places: &Places<'_>, hop: &Hop, sent: &Seen) {
    let Outcome { hook, verdict, .. } = hop.outcome;
    let alike = match hop.count {
        1 => String::new(),
        count => format!(", the first of {count} segments that fare the same"),
    };
    text.push_str(&format!("\nhost {}, {hook}{alike}\n", hop.host));
    for assumed in &hop.assumed {
        if let Some(question) = &assumed.question {
            row(text, "asks first", &sentence(places, question));
        }
        row(text, "assumed", &answer(places, assumed));
    }
    for step in &hop.outcome.steps {
        row(text, step.stage, &sentence(places, step));
    }
    row(
        text,
        "verdict",
        &format!("{verdict}: {}", verdict.meaning()),
    );
    for output in &hop.outcome.outputs {
        row(text, "out", &left(places, output, sent));
    }
    for behind in hop.then.iter().flatten() {
        write_hop(text, places, behind, sent);
    }
}

fn row(text: &mut String, name: &str, what: &str) {
    text.push_str(&format!("  {name:<STAGE$}  {what}\n"));
}

/// What a stage found, and the line that says so.
fn sentence(places: &Places<'_>, step: &Step) -> String {
    match &step.by {
        Some(by) => format!("{} ({})", step.found, places.place(&places.thing(by))),
        None => step.found.clone(),
    }
}

/// An answer that the trace takes for granted.
fn answer(places: &Places<'_>, assumed: &Assumed) -> String {
    let Assumed { addr, mac, .. } = assumed;
    let whose = match &assumed.port {
        Some(port) => {
            let thing = places.thing(&By::Port(port.clone()));
            format!("the MAC of port {port} ({})", places.place(&thing))
        }
        None => "a made-up MAC".to_owned(),
    };
    format!("{addr} answers with {mac}, {whose}")
}

/// Something that left a hook. A frame that is as the sender sent it is not written out again.
fn left(places: &Places<'_>, output: &Output, sent: &Seen) -> String {
    let (to, packet) = match output {
        Output::Port { port, packet } => (format!("port {port}"), packet),
        Output::Underlay {
            remote: None,
            packet,
        } => ("uplink".to_owned(), packet),
        Output::Underlay {
            remote: Some(remote),
            packet,
        } => {
            let mut hosts = places.fabric.hosts().values();
            let host = hosts.find(|host| host.underlay == *remote);
            let host =
                host.map_or_else(|| remote.to_string(), |host| format!("host {}", host.name));
            (host, packet)
        }
        Output::Leg {
            device,
            next_hop,
            packet,
        } => {
            let to = next_hop.map_or_else(String::new, |hop| format!(" to {hop}"));
            (format!("leg {device}{to}"), packet)
        }
        Output::Segmenter { packet } => ("segmenter".to_owned(), packet),
        Output::Host { packet } => ("the host's own stack".to_owned(), packet),
    };
    let seen = describe::packet(places.fabric, packet);
    let what = if seen.headers == sent.headers {
        "as it was sent".to_owned()
    } else {
        match &seen.outer {
            // The outer Ethernet header comes from the kernel; the frame inside follows at the next host.
            Some(_) => {
                let first = 1 + usize::from(packet.tag.is_some());
                let outer = seen.headers.iter().skip(first).take(3);
                let outer: Vec<&str> = outer.map(String::as_str).collect();
                format!("{} | the frame", outer.join(" | "))
            }
            None => seen.headers.join(" | "),
        }
    };
    format!("{to}, {}: {what}", size(&seen))
}

fn size(seen: &Seen) -> String {
    match seen.gso_size {
        None => format!("{} bytes", seen.bytes),
        Some(size) => format!(
            "{} bytes (a super-packet of {} segments, {size} bytes of payload each)",
            seen.bytes, seen.segments
        ),
    }
}
