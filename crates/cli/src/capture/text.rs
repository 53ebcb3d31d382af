//! A packet as a line for people, a line of JSON for programs, and a comment in a capture file.

use overlane_host::capture::{Packet, Phase};
use overlane_model::{Verdict, escaped};
use serde::Serialize;

use super::frame::Headers;
use super::summary;

/// Places differ in length; this is what most need.
const PLACE_WIDTH: usize = 18;
const VERDICT_WIDTH: usize = 12;

/// `08:34:14.123456  from_port a1       encap         IP 198.18.100.1 > …`
pub(crate) fn line(packet: &Packet, headers: &Headers<'_>, macs: bool, colour: bool) -> String {
    let time = time_of_day(packet.time_unix_ns);
    let mut place = packet.interface.clone();
    if let Some(remote) = &packet.remote {
        place.push_str(&format!(" ({remote})"));
    }
    let place = escaped(&place);
    let verdict = format!("{:VERDICT_WIDTH$}", packet.verdict.name());
    let verdict = match (colour, packet.verdict.is_drop()) {
        (true, true) => format!("\x1b[31m{verdict}\x1b[0m"),
        (true, false) => format!("\x1b[32m{verdict}\x1b[0m"),
        (false, _) => verdict,
    };
    let summary = summary::line(headers, macs || is_about_macs(packet.verdict));
    let mut line = format!("{time}  {place:PLACE_WIDTH$}  {verdict}  {summary}");
    if packet.segments > 1 {
        line.push_str(&format!(", {} segments", packet.segments));
    }
    line
}

/// The reason cannot be understood without the Ethernet addresses.
const fn is_about_macs(verdict: Verdict) -> bool {
    matches!(
        verdict,
        Verdict::SourceMac
            | Verdict::SpoofedMac
            | Verdict::SpoofedArp
            | Verdict::SpoofedNd
            | Verdict::MacLimit
            | Verdict::UnknownUnicast
            | Verdict::Hairpin
    )
}

/// `verdict: spoofed_ip — port security: …; from port a1; switch blue; as it entered`
pub(crate) fn comment(packet: &Packet) -> String {
    let mut parts = vec![format!(
        "verdict: {} — {}",
        packet.verdict,
        packet.verdict.meaning()
    )];
    for (what, name) in [
        ("from port", &packet.from_port),
        ("to port", &packet.to_port),
        ("remote", &packet.remote),
        ("switch", &packet.switch),
    ] {
        parts.extend(name.as_ref().map(|name| format!("{what} {name}")));
    }
    parts.push(format!("hook {}", packet.hook));
    if packet.segments > 1 {
        parts.push(format!("{} segments", packet.segments));
    }
    parts.push(format!("as it {}", packet.phase.name()));
    parts.join("; ")
}

/// A packet for programs.
#[derive(Debug, Serialize)]
pub(crate) struct Json<'a> {
    time_unix_ns: u64,
    hook: &'static str,
    phase: &'static str,
    interface: &'a str,
    verdict: &'static str,
    drop: bool,
    meaning: &'static str,
    switch: Option<&'a str>,
    from_port: Option<&'a str>,
    to_port: Option<&'a str>,
    remote: Option<&'a str>,
    length: u32,
    segments: u32,
    summary: String,
    bytes: String,
}

impl<'a> Json<'a> {
    pub(crate) fn of(packet: &'a Packet, headers: &Headers<'_>) -> Self {
        Self {
            time_unix_ns: packet.time_unix_ns,
            hook: packet.hook.name(),
            phase: packet.phase.name(),
            interface: &packet.interface,
            verdict: packet.verdict.name(),
            drop: packet.verdict.is_drop(),
            meaning: packet.verdict.meaning(),
            switch: packet.switch.as_deref(),
            from_port: packet.from_port.as_deref(),
            to_port: packet.to_port.as_deref(),
            remote: packet.remote.as_deref(),
            length: packet.len,
            segments: packet.segments,
            summary: summary::line(headers, true),
            bytes: packet
                .bytes
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
        }
    }
}

/// Whether the packet went out of this host's path here.
pub(crate) fn is_outbound(packet: &Packet) -> bool {
    packet.phase == Phase::Left
}

/// `08:34:14.123456`, UTC.
pub(crate) fn time_of_day(unix_ns: u64) -> String {
    let microseconds = unix_ns / 1000;
    let seconds = microseconds / 1_000_000 % 86_400;
    format!(
        "{:02}:{:02}:{:02}.{:06}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        microseconds % 1_000_000
    )
}
