//! Raw tagged frames between the guests of a pair, for paths that no socket of the guests' kernels can
//! use: trunks, and testers behind a VLAN. Each network that is tried has a UDP source port of its own, so
//! that a frame which arrives says which network it was sent in, whatever is around it.

use crate::error::LabError;
use crate::proof::capture::Capture;
use crate::proof::frames;
use crate::session::Session;
use crate::topology::{Guest, Lane, Pair, Topology};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// UDP source port of network 0.
const FIRST_PORT: u16 = 10_000;
/// "Discard" (RFC 863).
const PORT: u16 = 9;
/// A userspace switch loses the first packets.
const LIMIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
const PAYLOAD: &[u8] = b"path proof";
const UDP: u8 = 17;

/// The UDP source port of a network's frames.
pub(super) fn mark(network: u32) -> u16 {
    FIRST_PORT.saturating_add(u16::try_from(network).unwrap_or(u16::MAX))
}

/// The lanes that are tried: the first and the last of each of the guests' devices, and one between.
pub(super) fn chosen(pair: &Pair) -> Vec<(Lane<'_>, Lane<'_>)> {
    let ends = |guest: &Guest| -> Vec<u32> {
        guest
            .ports
            .iter()
            .flat_map(|port| {
                let (first, end) = (port.networks.start, port.networks.end);
                [first, first + (end - first) / 2, end - 1]
            })
            .collect()
    };
    let wanted = [ends(&pair.sender), ends(&pair.receiver)].concat();
    pair.lanes()
        .filter(|(lane, _)| wanted.contains(&lane.network))
        .collect()
}

/// Sends frames on the chosen lanes both ways until one of each has arrived on the lane where it should.
pub(super) fn send(session: &Session, topology: &Topology, pair: &Pair) -> Result<(), LabError> {
    let lanes = chosen(pair);
    let sender = Sockets::open(&pair.sender)?;
    let receiver = Sockets::open(&pair.receiver)?;
    // Of each lane: arrived at the receiver, and back at the sender.
    let mut arrived = vec![[false; 2]; lanes.len()];
    let end = Instant::now() + LIMIT;
    loop {
        for ((near, far), arrived) in lanes.iter().zip(&arrived) {
            if !arrived[0] {
                sender.send(near, &pair.sender, &pair.receiver)?;
            }
            if !arrived[1] {
                receiver.send(far, &pair.receiver, &pair.sender)?;
            }
        }
        session.interrupts.wait(PAUSE)?;
        let there = receiver.heard(&pair.sender)?;
        let back = sender.heard(&pair.receiver)?;
        for ((near, far), arrived) in lanes.iter().zip(&mut arrived) {
            arrived[0] |= there.contains_key(&(far.device, far.vlan, mark(far.network)));
            arrived[1] |= back.contains_key(&(near.device, near.vlan, mark(near.network)));
        }
        if arrived.iter().flatten().all(|arrived| *arrived) {
            return Ok(());
        }
        if Instant::now() >= end {
            return Err(missing(topology, pair, &lanes, &arrived, (&there, &back)));
        }
    }
}

/// Where frames were heard: device, tag, mark → how many.
type Heard<'a> = BTreeMap<(&'a str, Option<u16>, u16), u64>;

fn missing(
    topology: &Topology,
    pair: &Pair,
    lanes: &[(Lane<'_>, Lane<'_>)],
    arrived: &[[bool; 2]],
    (there, back): (&Heard<'_>, &Heard<'_>),
) -> LabError {
    let lost = lanes
        .iter()
        .zip(arrived)
        .find_map(|((near, far), [to, from])| {
            let (sender, receiver) = (&pair.sender.node.place, &pair.receiver.node.place);
            match (to, from) {
                (false, _) => Some((sender, near, receiver, far, there)),
                (_, false) => Some((receiver, far, sender, near, back)),
                _ => None,
            }
        });
    let detail = lost.map_or(String::new(), |(from, by, to, at, heard)| {
        let marked = mark(by.network);
        let elsewhere = heard.keys().find(|(_, _, mark)| *mark == marked);
        let elsewhere = elsewhere.map_or(String::new(), |(device, vlan, _)| {
            format!(", it came on {device} with tag {vlan:?}")
        });
        format!(
            "a frame sent by {from} on {} with tag {:?} did not arrive at {to} on {} with tag {:?}{elsewhere}",
            by.device, by.vlan, at.device, at.vlan
        )
    });
    LabError::System {
        action: format!("path proof of {}: {detail}", topology.backend),
        source: std::io::ErrorKind::TimedOut.into(),
    }
}

/// A packet socket on each device of a guest.
struct Sockets<'a> {
    devices: BTreeMap<&'a str, Capture>,
}

impl<'a> Sockets<'a> {
    fn open(guest: &'a Guest) -> Result<Self, LabError> {
        let open = |port: &'a crate::topology::GuestPort| {
            let capture = Capture::open(&guest.node, &port.device)?;
            Ok((port.device.as_str(), capture))
        };
        let devices = guest.ports.iter().map(open);
        Ok(Self {
            devices: devices.collect::<Result<_, LabError>>()?,
        })
    }

    fn send(&self, lane: &Lane<'_>, from: &Guest, to: &Guest) -> Result<(), LabError> {
        match self.devices.get(lane.device) {
            Some(socket) => socket.send(&frame(lane, from, to)),
            None => Ok(()),
        }
    }

    /// What has come of this guest's.
    fn heard(&self, from: &Guest) -> Result<Heard<'a>, LabError> {
        let mut heard = Heard::new();
        for (device, socket) in &self.devices {
            socket.drain(|bytes| {
                if let Some(frame) = frames::read(bytes)
                    && frame.tunnel.is_none()
                    && frame.source == from.address
                    && let Some(mark) = frame.udp_source
                {
                    *heard.entry((*device, frame.vlan, mark)).or_insert(0) += 1;
                }
            })?;
        }
        Ok(heard)
    }
}

/// A UDP packet in an Ethernet frame, with the lane's tag.
fn frame(lane: &Lane<'_>, from: &Guest, to: &Guest) -> Vec<u8> {
    tagged(
        lane,
        from,
        &udp(from.address, to.address, mark(lane.network)),
    )
}

/// A packet in an Ethernet frame, with the lane's tag; the packet begins with its EtherType.
pub(super) fn tagged(lane: &Lane<'_>, from: &Guest, packet: &[u8]) -> Vec<u8> {
    let mut frame = [from.next_mac, from.mac].concat();
    if let Some(vlan) = lane.vlan {
        frame.extend([0x81, 0x00]);
        frame.extend(vlan.to_be_bytes());
    }
    frame.extend(packet);
    frame
}

fn udp(from: IpAddr, to: IpAddr, source_port: u16) -> Vec<u8> {
    let length = (8 + PAYLOAD.len()) as u16;
    let mut udp = Vec::new();
    for word in [source_port, PORT, length, 0] {
        udp.extend(word.to_be_bytes());
    }
    udp.extend(PAYLOAD);
    // Over IPv4 UDP may go without a checksum (RFC 768).
    if let (IpAddr::V6(from), IpAddr::V6(to)) = (from, to) {
        let pseudo = [
            &[from.octets(), to.octets()].concat()[..],
            &[0, 0],
            &length.to_be_bytes(),
            &[0, 0, 0, UDP],
        ]
        .concat();
        let sum = checksum(&[pseudo, udp.clone()].concat());
        udp[6..8].copy_from_slice(&sum.to_be_bytes());
    }
    packet(from, to, UDP, &udp)
}

/// An IP packet from the EtherType on.
pub(super) fn packet(from: IpAddr, to: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u16;
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let [high, low] = (20 + length).to_be_bytes();
            let mut header = vec![0x45, 0, high, low, 0, 0, 0x40, 0, 64, protocol, 0, 0];
            header.extend(from.octets());
            header.extend(to.octets());
            let sum = checksum(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            [&[0x08, 0x00][..], &header, payload].concat()
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let [high, low] = length.to_be_bytes();
            let header = [0x60, 0, 0, 0, high, low, protocol, 64];
            let addresses = [from.octets(), to.octets()].concat();
            [&[0x86, 0xdd][..], &header, &addresses, payload].concat()
        }
        _ => Vec::new(), // a laboratory has one family of guests
    }
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_have_right_checksums_and_their_mark() {
        let ipv4 = udp([198, 18, 100, 1].into(), [198, 18, 100, 2].into(), mark(7));
        assert_eq!(checksum(&ipv4[2..22]), 0);
        let address = |last| IpAddr::from([0x2001, 2, 0, 0x100, 0, 0, 0, last]);
        let ipv6 = udp(address(1), address(2), mark(7));
        let length = ipv6.len() - 42;
        let pseudo = [
            &ipv6[10..42],
            &[0, 0, 0, length as u8, 0, 0, 0, 17],
            &ipv6[42..],
        ]
        .concat();
        assert_eq!(checksum(&pseudo), 0);
        for packet in [ipv4, ipv6] {
            let frame = frames::read(&[vec![2; 12], packet].concat()).unwrap();
            assert_eq!((frame.udp_source, frame.vlan), (Some(10_007), None));
        }
    }
}
