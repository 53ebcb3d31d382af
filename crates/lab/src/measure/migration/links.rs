//! The cables that memory travels over: what they carried, and the proof that it was the migration's own connections.

use crate::error::LabError;
use crate::proof::capture::Capture;
use crate::proof::frames;
use crate::topology::{Topology, layout};
use overlane_analysis::record::{Migration, Setting};
use overlane_net::LinkStats;
use std::net::IpAddr;

/// Ethernet's header on a frame that a device counts.
const ETHERNET_BYTES: f64 = 14.0;
/// The least share of all bytes that each of several links carries.
const LEAST_SHARE: f64 = 0.2;

/// Where the machines of a host are sent to: an address on each link.
pub(super) fn addresses(to: usize, links: u32) -> Vec<IpAddr> {
    (0..links)
        .map(|link| layout::link_address(link, to))
        .collect()
}

/// The links while machines move.
pub(super) struct Links {
    from: usize,
    devices: Vec<String>,
    before: Vec<LinkStats>,
    /// On each link, where the path is to be proven.
    captures: Vec<Capture>,
}

/// What the links carried from the source.
pub(super) struct Carried {
    /// On each link.
    pub(super) bytes: Vec<u64>,
    pub(super) packets: u64,
    /// What it was, in words; empty where nothing was captured.
    pub(super) words: String,
    /// Something that was captured went neither to nor from the other end of its link.
    stranger: Option<String>,
}

impl Links {
    pub(super) fn open(
        topology: &Topology,
        from: usize,
        links: u32,
        proves: bool,
    ) -> Result<Self, LabError> {
        let devices: Vec<String> = topology.links().take(links as usize).collect();
        let host = &topology.hosts[from];
        let capture = |device: &String| Capture::open(host, device);
        let captured = devices.iter().filter(|_| proves);
        let captures = captured.map(capture).collect::<Result<_, _>>()?;
        Ok(Self {
            before: stats(topology, from, &devices)?,
            from,
            captures,
            devices,
        })
    }

    pub(super) fn close(self, topology: &Topology) -> Result<Carried, LabError> {
        let after = stats(topology, self.from, &self.devices)?;
        let mut carried = Carried {
            bytes: Vec::new(),
            packets: 0,
            words: String::new(),
            stranger: None,
        };
        for (before, after) in self.before.iter().zip(&after) {
            carried
                .bytes
                .push(after.tx_bytes.saturating_sub(before.tx_bytes));
            carried.packets += after.tx_packets.saturating_sub(before.tx_packets);
        }
        let mut words = Vec::new();
        for (link, capture) in self.captures.iter().enumerate() {
            let ends = [0, 1].map(|host| layout::link_address(link as u32, host));
            let mut seen = 0_u64;
            capture.drain(|bytes| {
                // What is no IP asks for an address.
                let Some(frame) = frames::read(bytes) else {
                    return;
                };
                let own = ends.contains(&frame.source) && ends.contains(&frame.destination);
                if own && frame.tunnel.is_none() && frame.udp_source.is_none() {
                    seen += 1;
                } else {
                    let stranger = || format!("{} to {}", frame.source, frame.destination);
                    carried.stranger.get_or_insert_with(stranger);
                }
            })?;
            if seen == 0 {
                return Err(LabError::Migration {
                    reason: format!(
                        "path proof: no packet of the migration was captured on link{link}"
                    ),
                });
            }
            words.push(format!(
                "link{link}: the first {seen} packets of the migration between {} and {}",
                ends[0], ends[1]
            ));
        }
        carried.words = words.join(" | ");
        Ok(carried)
    }
}

impl Carried {
    /// The memory went over these links, in packets as the MTU lets them be.
    pub(super) fn hold(&self, migration: &Migration, setting: Setting) -> Result<(), LabError> {
        let failed = |reason: String| {
            Err(LabError::Migration {
                reason: format!("path proof of the migration: {reason}"),
            })
        };
        let bytes: u64 = self.bytes.iter().sum();
        let sent = migration.transferred_bytes();
        if bytes < sent {
            return failed(format!(
                "QEMU sent {sent} bytes, and the links carried {bytes}"
            ));
        }
        let least = bytes as f64 * LEAST_SHARE;
        if self.bytes.len() > 1 && self.bytes.iter().any(|link| (*link as f64) < least) {
            return failed(format!(
                "the links carried {:?} bytes: one did next to nothing",
                self.bytes
            ));
        }
        let most = f64::from(setting.mtu_class.link_mtu()) + ETHERNET_BYTES;
        let mean = bytes as f64 / self.packets.max(1) as f64;
        if !setting.offload && mean > most {
            return failed(format!(
                "packets of {mean:.0} bytes on a wire that segments to {most:.0}"
            ));
        }
        match &self.stranger {
            Some(stranger) => failed(format!("a packet from {stranger} is not the migration's")),
            None => Ok(()),
        }
    }
}

fn stats(topology: &Topology, host: usize, devices: &[String]) -> Result<Vec<LinkStats>, LabError> {
    let netlink = &topology.hosts[host].netlink;
    devices
        .iter()
        .map(|device| Ok(netlink.link(device)?.stats))
        .collect()
}
