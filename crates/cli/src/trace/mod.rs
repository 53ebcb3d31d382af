//! `overlane trace FILE …`: what becomes of a packet, and which line of the fabric file decides it. The
//! reference executor decides; needs no rights, no devices and nothing that runs. The way through here:
//! [`expression`] or [`pcap`] → [`build`] → [`walk`] → [`render`] or [`json`]. How to read it:
//! docs/trace.md.

mod build;
mod describe;
mod error;
mod expect;
mod expression;
pub(crate) mod fields;
mod json;
mod machine;
mod neighbour;
mod pcap;
mod render;
mod stations;
mod transport;
mod unreachable;
mod walk;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use overlane_model::{CompileError, DeviceName, Fabric, Name, Port, Router};
use overlane_pipeline::{Entry, Packet};
use overlane_wire::ethernet::Tag;
use overlane_wire::{EtherType, Mac};

use self::expression::Wish;
use self::json::Traced;
use self::pcap::Captured;
use self::stations::Sender;
use self::unreachable::Unreachable;
use self::walk::Network;
use crate::args::Trace;
use crate::check;
use crate::failure::Failure;
use crate::output::Output;
use crate::places::Places;

pub(crate) use self::error::{PacketError, did_you_mean, printable};
pub(crate) use self::expect::{Expectation, ExpectationParser};

pub(crate) fn run(args: &Trace, output: Output) -> Result<(), Failure> {
    let fabric = check::load(&args.file)?;
    let places = Places {
        fabric: &fabric,
        file: &args.file,
    };
    let start = Start::of(args, &fabric)?;
    if let Some(expected) = &args.expect {
        expected.check(&fabric)?;
    }
    let packets = match packets(args, &fabric, &start, output) {
        Err(PacketError::Unreachable(end)) => {
            return nowhere(args, &places, &start, &end, output);
        }
        other => other?,
    };
    if packets.is_empty() {
        output.note("there is no packet in the capture");
    }
    let mut network = Network::new(&fabric, args.mtu);
    let mut notes = BTreeSet::new();
    let mut json = Vec::new();
    let mut as_expected = true;
    for (index, sent) in packets.into_iter().enumerate() {
        let entry = start.entry();
        let hop = network.follow(start.host(), sent.at, entry, sent.packet)?;
        notes.extend(network.notes(&hop));
        let number = index + 1;
        if let Some(expected) = &args.expect
            && let Some(found) = expected.missed(&fabric, &hop)
        {
            output.note(format!(
                "packet {number}: expected {expected}, found {found}"
            ));
            as_expected = false;
        }
        if args.json {
            let at_ns = sent.at.as_nanos();
            json.push(Traced::new(&places, number, at_ns, sent.cut, &hop));
            continue;
        }
        if index > 0 {
            output.line("")?;
        }
        let from = start.describe(&places);
        let heading = match &args.pcap {
            Some(_) => format!("packet {number}, {:.6} s: {from}", sent.at.as_secs_f64()),
            None => from,
        };
        output.line(format!("{heading}, {}", render::packet(&places, &hop)))?;
        if sent.cut {
            output.line("  the capture has not the whole packet")?;
        }
        output.line(render::trace(&places, &hop))?;
        let well = !hop.end().outcome.verdict.is_drop();
        output.outcome(render::verdict(&places, &hop), well)?;
    }
    if args.json {
        output.json(&json)?;
    }
    for note in notes {
        output.note(note);
    }
    if as_expected {
        Ok(())
    } else {
        Err(Failure::Negative)
    }
}

/// The packet that never leaves.
fn nowhere(
    args: &Trace,
    places: &Places<'_>,
    start: &Start<'_>,
    end: &Unreachable,
    output: Output,
) -> Result<(), Failure> {
    if args.json {
        output.json(&[end.json(places)])?;
    } else {
        output.line(start.describe(places))?;
        if let Some(not_known) = end.not_known() {
            output.line(not_known)?;
        }
        output.line("")?;
        output.outcome(end.verdict(places), false)?;
    }
    let missed = args.expect.as_ref();
    let missed = missed.and_then(|expected| Some((expected, expected.missed_unreachable()?)));
    match missed {
        None => Ok(()),
        Some((expected, found)) => {
            output.note(format!("packet 1: expected {expected}, found {found}"));
            Err(Failure::Negative)
        }
    }
}

/// Where packets enter the fabric.
enum Start<'f> {
    Port(&'f Port),
    Underlay(&'f Name),
    Leg(Leg<'f>),
}

/// A router's gateway and its device in the physical network.
struct Leg<'f> {
    router: &'f Router,
    host: &'f Name,
    device: &'f DeviceName,
}

impl<'f> Start<'f> {
    fn of(args: &Trace, fabric: &'f Fabric) -> Result<Self, Failure> {
        if let Some(host) = &args.from_underlay {
            let found = fabric.hosts().get(host.as_str());
            return match found {
                Some(host) => Ok(Self::Underlay(&host.name)),
                None => Err(CompileError::UnknownHost {
                    host: host.to_string(),
                    known: fabric.hosts().keys().cloned().collect(),
                }
                .into()),
            };
        }
        if let Some(router) = &args.from_leg {
            return Ok(Self::Leg(leg(fabric, router.as_str())?));
        }
        let name = args.port.as_ref().map_or("", Name::as_str);
        let found = fabric.ports().get(name).map(Self::Port);
        found.ok_or_else(|| {
            let known = fabric.ports().keys().map(Name::as_str);
            PacketError::UnknownPort {
                name: printable(name),
                help: did_you_mean(name, known),
            }
            .into()
        })
    }

    fn host(&self) -> &'f Name {
        match self {
            Self::Port(port) => &port.host,
            Self::Underlay(host) => host,
            Self::Leg(leg) => leg.host,
        }
    }

    fn entry(&self) -> Entry {
        match self {
            Self::Port(port) => Entry::Port(port.attachment.device.clone()),
            Self::Underlay(_) => Entry::Underlay,
            Self::Leg(leg) => Entry::Leg(leg.device.clone()),
        }
    }

    fn describe(&self, places: &Places<'_>) -> String {
        match self {
            Self::Port(port) => format!(
                "from port {} of switch {} on host {} ({})",
                port.name,
                port.switch,
                port.host,
                places.line(port.line)
            ),
            Self::Underlay(host) => format!("from the underlay to host {host}"),
            Self::Leg(leg) => format!(
                "from outside to the leg of router {} on host {} ({})",
                leg.router.name,
                leg.host,
                places.line(leg.router.line)
            ),
        }
    }
}

fn leg<'f>(fabric: &'f Fabric, name: &str) -> Result<Leg<'f>, PacketError> {
    let leg = |router: &'f Router| {
        let (host, device) = router.leg()?;
        Some(Leg {
            router,
            host,
            device,
        })
    };
    let mut legs = fabric.routers().values().filter_map(leg);
    legs.find(|leg| leg.router.name.as_str() == name)
        .ok_or_else(|| {
            let known = fabric.routers().values().filter_map(leg);
            PacketError::UnknownLeg {
                name: printable(name),
                help: did_you_mean(name, known.map(|leg| leg.router.name.as_str())),
            }
        })
}

/// A packet to trace.
struct Sent {
    at: Duration,
    cut: bool,
    packet: Packet,
}

fn packets(
    args: &Trace,
    fabric: &Fabric,
    start: &Start<'_>,
    output: Output,
) -> Result<Vec<Sent>, PacketError> {
    if let Some(path) = &args.pcap {
        return captured(path, start, output);
    }
    let sender = match start {
        Start::Port(port) => Sender::Port(port),
        Start::Leg(leg) => Sender::Outside(leg.router),
        Start::Underlay(_) => return Ok(Vec::new()),
    };
    let wish = Wish::parse(&args.packet.join(" "))?;
    Ok(vec![Sent {
        at: Duration::ZERO,
        cut: false,
        packet: build::packet(fabric, sender, &wish)?,
    }])
}

fn captured(path: &Path, start: &Start<'_>, output: Output) -> Result<Vec<Sent>, PacketError> {
    let port = match start {
        Start::Port(port) => Some(*port),
        Start::Underlay(_) | Start::Leg(_) => None,
    };
    let capture = pcap::read(path)?;
    if let Some(cut) = capture.cut {
        output.note(format!("{}: {cut}", path.display()));
    }
    let frames = capture.frames.into_iter();
    let mut all: Vec<Sent> = frames.map(|frame| sent(frame, port)).collect();
    if let Start::Leg(leg) = start {
        for sent in &mut all {
            to_leg(&mut sent.packet, leg.router);
        }
    }
    Ok(all)
}

/// The file does not say which MAC the leg has: what was for a station was for the leg.
fn to_leg(packet: &mut Packet, router: &Router) {
    if let Some(destination) = packet.bytes.first_chunk_mut::<6>()
        && !Mac::new(*destination).is_group()
    {
        *destination = *router.mac.bytes();
    }
}

/// A frame of a capture as the kernel would hand it over: the outermost tag beside the bytes. What a
/// trunk port is said to send without a tag gets the port's.
fn sent(frame: Captured, port: Option<&Port>) -> Sent {
    let Captured { at, bytes, length } = frame;
    let cut = u64::from(length) > bytes.len() as u64;
    let mut packet = Packet::new(bytes);
    packet.tag = Tag::take(&mut packet.bytes).or_else(|| {
        let vlan = port?.attachment.vlan?;
        Tag::of(EtherType::VLAN, vlan.get())
    });
    Sent { at, cut, packet }
}
