//! Runs cases through the real thing: programs that `apply` attached to the devices of a host in a network
//! namespace, packets that travel through the kernel, and everything that comes out of it.
//!
//! A test run of the programs ([`test_runner`](crate::test_runner)) tells them of tags and super-packets, and
//! never shows what the kernel itself does: tags beside the bytes, routes, neighbours, copies, segmentation,
//! delivery into a guest's namespace. This does; it cannot turn the clock.

mod cookies;
mod expected;
mod frame;
#[expect(
    unsafe_code,
    reason = "packet sockets have no safe wrapper with all that is needed here"
)]
mod sys;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use overlane_ebpf::preflight::{self, KernelVersion};
use overlane_ebpf::{DataPath, EbpfError};
use overlane_host::{HostError, paths};
use overlane_model::{DeviceName, GatewayPlace, Hook, Tables};
use overlane_net::NetError;
use overlane_pipeline::{Counters, Entry, GsoKind, Host, Outcome, Packet, State};
use overlane_wire::{EtherType, ethernet};
use thiserror::Error;

use crate::case::{Case, Step};
use crate::compare;
use crate::counted::added;
use crate::dissect::{difference, dissect, text};
use crate::test_runner::data_path;

use cookies::Cookies;
use expected::{Expected, Place, Walk};
pub(crate) use frame::carries_ip;
use world::{Mtus, World};

/// Everything that must come has come by then.
const PATIENCE: Duration = Duration::from_secs(2);
/// Nothing else comes after so long.
const QUIET: Duration = Duration::from_millis(5);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(1);
/// Fewest bytes of a frame that packet sockets and TAPs take.
const FRAME_LEN_MIN: usize = 14;
/// Most: behind a virtual wire, and of a super-packet what a socket's send buffer holds by default.
const FRAME_LEN_MAX: usize = 65_535 + ethernet::LEN;
const SUPER_PACKET_LEN_MAX: usize = 190_000;
/// Bytes that must follow a tag, or the kernel drops the frame before the hook (`skb_vlan_untag`).
const TAGGED_LEN_MIN: usize = 16;

/// Why a case could not be run.
#[derive(Debug, Error)]
pub enum WireError {
    /// Namespaces and devices.
    #[error(transparent)]
    Net(#[from] NetError),
    /// `apply`.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The maps.
    #[error(transparent)]
    Ebpf(#[from] EbpfError),
    /// A socket or the TAP.
    #[error("cannot {what}: {source}")]
    Io {
        /// As a verb.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// What became of one packet of a case.
#[derive(Debug)]
pub struct Ran {
    /// What the reference executor says of it.
    pub outcome: Outcome,
    /// The differences, in words. None: none.
    pub found: Vec<String>,
}

/// Hosts on this machine, one at a time.
pub struct WireRunner {
    data_path: DataPath<'static>,
    kernel_counts: bool,
    built: u32,
    world: Option<World>,
}

/// Why this machine cannot run cases on a wire; `None`: it can.
pub fn obstacle() -> Option<String> {
    let bpffs = || preflight::check_bpffs(Path::new(paths::BPFFS));
    let tap = || Path::new("/dev/net/tun").exists();
    let checks = [
        preflight::check_kernel(),
        preflight::check_rights(),
        bpffs(),
    ];
    let found = checks
        .into_iter()
        .find_map(|check| check.err().map(|error| error.to_string()));
    found.or_else(|| (!tap()).then(|| "no TAP devices (/dev/net/tun)".into()))
}

/// Why this case cannot be run on a wire; `None`: it can.
pub fn cannot_run(case: &Case) -> Option<&'static str> {
    let first = case.steps.first()?;
    if case.steps.iter().any(|step| step.now_ns != first.now_ns) {
        return Some("time passes");
    }
    if case.changed.is_some() {
        return Some("the fabric changes");
    }
    if case.steps.iter().any(|step| !step.gone.is_empty()) {
        return Some("a device goes");
    }
    if case.moved.is_some() {
        return Some("connections come from another host");
    }
    if case.machine.port_shared {
        return Some("another device has the tunnel's port");
    }
    if !case.machine.whole_udp {
        return Some("it has no unmarker");
    }
    let gateways = case
        .tables
        .routers
        .iter()
        .filter_map(|it| it.gateway.as_ref());
    let has_leg = |place: &GatewayPlace| matches!(place, GatewayPlace::Here { leg: Some(_) });
    if gateways.map(|gateway| &gateway.place).any(has_leg) {
        return Some("it needs a leg");
    }
    case.steps
        .iter()
        .find_map(|step| cannot_send(&case.tables, case.machine.port_mtu, step))
}

fn cannot_send(tables: &Tables, port_mtu: u32, step: &Step) -> Option<&'static str> {
    let packet = &step.packet;
    let is_tagged = packet.tag.is_some();
    let kind = frame::be16(&packet.bytes, 12).map(EtherType);
    let has_ports = |device: &DeviceName| {
        tables
            .ports
            .iter()
            .any(|port| port.attachment.device == *device)
    };
    match &step.entry {
        Entry::Port(device) if !has_ports(device) => return Some("no program on that device"),
        Entry::Underlay if cookies::have_checksum(&packet.bytes) => {
            return Some("a checksum covers its cookies");
        }
        Entry::Segmenter(_) if packet.gso.is_some() => return Some("the segmenter cuts it"),
        _ if !is_length_of_a_device(packet) => return Some("no device takes that length"),
        Entry::Port(_)
            if packet.gso.is_none() && packet.bytes.len() > ethernet::LEN + port_mtu as usize =>
        {
            return Some("the device of a port is smaller than the frame");
        }
        _ if is_tagged && packet.bytes.len() < TAGGED_LEN_MIN => {
            return Some("too short behind its tag");
        }
        _ if !is_tagged && kind.is_some_and(EtherType::is_vlan) => {
            return Some("the kernel takes the tag out of the bytes");
        }
        _ if packet.gso.is_some_and(|gso| gso.kind == GsoKind::Sctp) => {
            return Some("virtio has no SCTP super-packets");
        }
        _ => {}
    }
    match to_send(tables, step) {
        None => Some("virtio cannot describe that super-packet"),
        Some(sent) if sent.header.is_in_tunnel() && !taps_take_tunnels() => {
            Some("TAPs take super-packets in tunnels from Linux 6.17 on")
        }
        Some(_) => None,
    }
}

fn to_send(tables: &Tables, step: &Step) -> Option<frame::ToSend> {
    let is_underlay = step.entry == Entry::Underlay;
    frame::to_send(
        &step.packet,
        is_underlay.then_some(tables.tunnel.encapsulation),
    )
}

fn taps_take_tunnels() -> bool {
    kernel_is_at_least(KernelVersion(6, 17, 0))
}

fn kernel_counts_segments() -> bool {
    kernel_is_at_least(KernelVersion(6, 19, 0))
}

fn kernel_is_at_least(version: KernelVersion) -> bool {
    preflight::running_kernel().is_ok_and(|release| KernelVersion::of(&release) >= version)
}

const fn is_length_of_a_device(packet: &Packet) -> bool {
    let longest = if packet.gso.is_some() {
        SUPER_PACKET_LEN_MAX
    } else {
        FRAME_LEN_MAX
    };
    FRAME_LEN_MIN <= packet.bytes.len() && packet.bytes.len() <= longest
}

impl WireRunner {
    /// No host yet. Takes away what a killed run left behind.
    pub fn new() -> Result<Self, WireError> {
        world::remove_left_over()?;
        Ok(Self {
            data_path: data_path()?,
            kernel_counts: kernel_counts_segments(),
            built: 0,
            world: None,
        })
    }

    /// Runs a case that [can run](cannot_run). Cases of one VTEP, uplink and MTU that follow each other share the
    /// host: the tables of the next case are applied over those of the last one.
    pub fn run_case(&mut self, case: &Case) -> Result<Vec<Ran>, WireError> {
        let mut world = self.world_of(case)?;
        let ran = self.run_steps(&mut world, case)?;
        self.world = Some(world);
        Ok(ran)
    }

    fn run_steps(&self, world: &mut World, case: &Case) -> Result<Vec<Ran>, WireError> {
        let host = Host::new(case.tables.clone(), case.machine.underlay_mtu);
        let host = host.with_port_mtu(case.machine.port_mtu);
        let mut state = State::new();
        let mut ran = Vec::new();
        for step in &case.steps {
            let walk = Walk {
                host: &host,
                state: &mut state,
                now_ns: step.now_ns,
                kernel_counts: self.kernel_counts,
            };
            ran.push(run_step(world, walk, step)?);
        }
        Ok(ran)
    }

    /// After an error there is none, and the next case gets a new one.
    fn world_of(&mut self, case: &Case) -> Result<World, WireError> {
        let mtus = Mtus {
            uplink: case.machine.underlay_mtu,
            port: case.machine.port_mtu,
        };
        let tables = &case.tables;
        let world = self.world.take();
        if let Some(mut world) = world.filter(|world| world.can_take(tables, mtus)) {
            world.change(tables)?;
            return Ok(world);
        }
        self.built += 1;
        World::build(self.built, tables, mtus, &self.data_path)
    }
}

fn run_step(world: &mut World, mut walk: Walk<'_>, step: &Step) -> Result<Ran, WireError> {
    let tables = walk.host.tables();
    let packet = to_send(tables, step);
    let mut packet = packet
        .ok_or_else(|| io_error("describe the packet")(io::ErrorKind::InvalidInput.into()))?;
    let cookies = world.cookies(step.now_ns)?;
    if step.entry == Entry::Underlay {
        world.listen_as_host(&step.packet)?;
        cookies.as_on_wire(&mut packet.bytes);
    }
    let (outcome, expected) = walk.expect(&step.entry, &as_it_comes(step));

    let before = world.counters()?;
    world.send(&step.entry, &packet)?;
    let sent = Instant::now();
    let mut packets = BTreeMap::new();
    loop {
        receive(world, &cookies, LOOK, &mut packets)?;
        let counters = without_detours(added(tables, &before, &world.counters()?));
        let here = difference_of(&expected, &packets, &counters).is_empty();
        if here || sent.elapsed() > PATIENCE {
            break;
        }
    }
    receive(world, &cookies, QUIET, &mut packets)?;
    let counters = without_detours(added(tables, &before, &world.counters()?));
    let found = difference_of(&expected, &packets, &counters);
    Ok(Ran { outcome, found })
}

fn receive(
    world: &World,
    cookies: &Cookies,
    quiet: Duration,
    into: &mut BTreeMap<Place, Vec<Packet>>,
) -> Result<(), WireError> {
    world.receive(quiet, into)?;
    let packets = into.values_mut().flatten();
    packets.for_each(|packet| cookies.as_in_case(packet));
    Ok(())
}

/// A guest's super-packet has the sum of the pseudo header for a checksum: an ICMP error quotes that.
fn as_it_comes(step: &Step) -> Packet {
    let mut packet = step.packet.clone();
    if let (Entry::Port(_), Some(gso)) = (&step.entry, packet.gso) {
        frame::leave_checksum(&mut packet.bytes, gso);
    }
    packet
}

/// Whether a frame goes through the unmarker is the kernel's matter, and none of the meaning.
fn without_detours(mut counters: Counters) -> Counters {
    counters
        .verdicts
        .retain(|(hook, _), _| *hook != Hook::FromUnmarker);
    counters
}

fn difference_of(
    expected: &Expected,
    packets: &BTreeMap<Place, Vec<Packet>>,
    counters: &Counters,
) -> Vec<String> {
    let mut found = compare::counters(&expected.counters, counters);
    let places: BTreeSet<_> = expected.packets.keys().chain(packets.keys()).collect();
    for place in places {
        let packets_at =
            |all: &BTreeMap<Place, Vec<Packet>>| all.get(place).cloned().unwrap_or_default();
        differences_at(
            place,
            packets_at(&expected.packets),
            packets_at(packets),
            &mut found,
        );
    }
    found
}

/// In any order: copies of one frame may overtake each other.
fn differences_at(
    place: &Place,
    mut expected: Vec<Packet>,
    mut packets: Vec<Packet>,
    found: &mut Vec<String>,
) {
    expected.retain(|wanted| {
        let same = packets.iter().position(|packet| packet == wanted);
        same.map(|index| packets.remove(index)).is_none()
    });
    let both = expected.len().min(packets.len());
    let extra = packets.split_off(both);
    let missing = expected.split_off(both);
    for (wanted, packet) in expected.iter().zip(&packets) {
        let differs = difference(wanted, packet);
        found.push(format!(
            "{place:?}: packet (- reference, + wire):\n{differs}"
        ));
    }
    for packet in missing {
        found.push(format!(
            "{place:?}: missing:\n{}",
            text(&dissect(&packet), "    ")
        ));
    }
    for packet in extra {
        found.push(format!(
            "{place:?}: nothing was expected:\n{}",
            text(&dissect(&packet), "    ")
        ));
    }
}

fn io_error(what: &'static str) -> impl FnOnce(io::Error) -> WireError {
    move |source| WireError::Io { what, source }
}

#[cfg(test)]
mod tests {
    use overlane_model::{Hook, Verdict};
    use overlane_pipeline::Counter;

    use super::*;

    fn packet(last: u8) -> Packet {
        Packet::new([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5, last])
    }

    fn found(expected: &[(Place, Packet)], packets: &[(Place, Packet)]) -> Vec<String> {
        let sorted = |packets: &[(Place, Packet)]| {
            let mut sorted: BTreeMap<_, Vec<_>> = BTreeMap::new();
            for (place, packet) in packets {
                sorted
                    .entry(place.clone())
                    .or_default()
                    .push(packet.clone());
            }
            sorted
        };
        let expected = Expected {
            packets: sorted(expected),
            counters: Counters::default(),
        };
        difference_of(&expected, &sorted(packets), &Counters::default())
    }

    #[test]
    fn every_packet_is_one_that_was_expected() {
        let (wire, host) = (Place::Wire, Place::Host);
        let one = [(wire.clone(), packet(1))];
        let two = [(wire.clone(), packet(1)), (wire.clone(), packet(2))];
        let turned = [(wire.clone(), packet(2)), (wire.clone(), packet(1))];
        assert_eq!(found(&two, &turned), Vec::<String>::new());
        for (expected, packets, words) in [
            (&two[..], &one[..], "missing"),
            (&one[..], &two[..], "nothing was expected"),
            (&[], &one[..], "nothing was expected"),
            (
                &one[..],
                &[(wire.clone(), packet(2))],
                "- reference, + wire",
            ),
            (
                &one[..],
                &[(wire, packet(1)), (host, packet(1))],
                "Host: nothing was expected",
            ),
        ] {
            let found = found(expected, packets);
            assert!(
                found.len() == 1 && found[0].contains(words),
                "{words}: {found:?}"
            );
        }
    }

    #[test]
    fn a_counter_too_many_is_found() {
        let mut counters = Counters::default();
        let key = (Hook::FromSegmenter, Verdict::Encap);
        counters.verdicts.insert(
            key,
            Counter {
                packets: 1,
                segments: 1,
                bytes: 60,
            },
        );
        let found = difference_of(&Expected::default(), &BTreeMap::new(), &counters);
        assert!(found.len() == 1 && found[0].contains("Encap"), "{found:?}");
    }
}
