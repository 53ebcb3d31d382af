//! The counters on the path, read before and after a sample: devices, sockets, the CPUs' queues, the backend's own.
//! [`accounting`](super::accounting) says what they add up to.

use crate::backends::Backend;
use crate::error::LabError;
use crate::session::Session;
use crate::topology::{LEG, Node, PathDevice, Topology, UPLINK};
use overlane_analysis::record::BackendName;
use overlane_net::{LinkStats, ethtool};
use std::collections::BTreeMap;
use std::fs;

const SOFTNET: &str = "/proc/net/softnet_stat";
/// `/proc/net` is that of the process's first thread; these are the entering thread's.
const SNMP: &str = "/proc/thread-self/net/snmp";
const SNMP6: &str = "/proc/thread-self/net/snmp6";

/// What a device on the path does for packets from the senders to the receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The end of a cable that packets enter.
    CableIn,
    /// The end that they leave by. `polled`: it takes packets through a ring of its own (NAPI, a TAP's), so that what is lost
    /// behind the ring is not told to the other end.
    CableOut { polled: bool },
    /// A bridge or a tunnel device within a host.
    Inner,
}

/// One device on the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    /// `host1`.
    pub(super) place: String,
    /// `host1 uplink`.
    pub(super) name: String,
    pub(super) part: Part,
    /// With [`Part::CableIn`] the name of the other end.
    pub(super) other_end: Option<String>,
    /// With [`Part::CableIn`]: packets come by `bpf_redirect_neigh`, which counts what the device did not take once more
    /// (net/core/filter.c `__bpf_redirect_neigh_v4`; as an error in older kernels, as dropped in newer ones).
    pub(super) told_twice: bool,
}

/// All counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// By the device's name.
    pub(super) devices: BTreeMap<String, LinkStats>,
    /// By place, then as the kernel names them: `Udp RcvbufErrors`, `Ip6InDiscards`.
    pub(super) sockets: BTreeMap<String, BTreeMap<String, u64>>,
    /// Packets that found a CPU's queue full, by CPU.
    pub(super) softnet: BTreeMap<u64, u64>,
    /// The backend's own, by name.
    pub(super) backend: BTreeMap<String, u64>,
}

impl Counters {
    /// Reads all of them.
    pub(super) fn read(
        session: &Session,
        topology: &Topology,
        backend: &dyn Backend,
    ) -> Result<Self, LabError> {
        let mut devices = BTreeMap::new();
        for device in topology.path() {
            let stats = device.node.netlink.link(&device.device)?.stats;
            devices.insert(device.name, stats);
        }
        let mut sockets = BTreeMap::new();
        for guest in topology.guests() {
            sockets.insert(guest.node.place.clone(), read_sockets(&guest.node)?);
        }
        let softnet =
            fs::read_to_string(SOFTNET).map_err(LabError::io("reading", SOFTNET.as_ref()))?;
        Ok(Self {
            devices,
            sockets,
            softnet: parse_softnet(&softnet)?,
            backend: backend.counters(session, topology)?,
        })
    }
}

/// The devices on the path with their parts.
pub(super) fn devices(topology: &Topology) -> Result<Vec<Device>, LabError> {
    let cables = cables(topology);
    let mut devices = Vec::new();
    for device in topology.path() {
        let outgoing = cables.iter().find(|(from, _)| *from == device.name);
        let incoming = cables.iter().find(|(_, to)| *to == device.name);
        let part = match (outgoing, incoming) {
            (Some(_), _) => Part::CableIn,
            (None, Some((from, _))) => Part::CableOut {
                polled: is_relayed(topology, &device) || is_polled(topology, from, &device.name)?,
            },
            (None, None) => Part::Inner,
        };
        devices.push(Device {
            told_twice: outgoing.is_some() && is_redirected(topology.backend, &device.device),
            place: device.node.place.clone(),
            other_end: outgoing.map(|(_, to)| to.clone()),
            name: device.name,
            part,
        });
    }
    Ok(devices)
}

/// Overlane's tunnels leave by `bpf_redirect_neigh`, and what a gateway hands to the physical network.
fn is_redirected(backend: BackendName, device: &str) -> bool {
    let tunnel = matches!(
        backend,
        BackendName::OverlaneVxlan | BackendName::OverlaneGeneve
    );
    device == LEG || device == UPLINK && tunnel
}

/// Both ends of every cable, by the devices' names, in the direction from the senders to the receivers.
fn cables(topology: &Topology) -> Vec<(String, String)> {
    let name = |node: &Node, device: &str| format!("{} {device}", node.place);
    let mut cables = Vec::new();
    let hosts = &topology.hosts;
    for pair in &topology.pairs {
        let (sender, receiver) = (&pair.sender, &pair.receiver);
        for (from, to) in sender.ports.iter().zip(&receiver.ports) {
            let (first, last) = (
                name(&sender.node, &from.device),
                name(&receiver.node, &to.device),
            );
            let host = |host: Option<usize>| host.and_then(|host| hosts.get(host));
            match (host(sender.host), host(receiver.host)) {
                (Some(host1), Some(host2)) => {
                    cables.push((first, name(host1, &from.host_device)));
                    cables.push((name(host2, &to.host_device), last));
                }
                // A bare tester holds the uplink's other end.
                (Some(host1), None) => {
                    cables.push((first, name(host1, &from.host_device)));
                    cables.push((name(host1, UPLINK), last));
                }
                (None, _) => cables.push((first, last)),
            }
        }
    }
    let uplink = |host: &Node| name(host, UPLINK);
    match hosts.as_slice() {
        [host1, host2] => cables.push((uplink(host1), uplink(host2))),
        [host1, others @ ..] if others.len() > 1 => {
            // The switch between them names its devices after the hosts.
            let port = |host: &Node| format!("underlay {}", host.place);
            cables.push((uplink(host1), port(host1)));
            cables.extend(others.iter().map(|host| (port(host), uplink(host))));
        }
        _ => {}
    }
    cables
}

/// True for the ends of a virtual machine's cables: between its TAPs are their rings and the relay.
fn is_relayed(topology: &Topology, of: &PathDevice<'_>) -> bool {
    topology
        .guests()
        .filter(|guest| topology.is_relayed(guest))
        .any(|guest| {
            guest.ports.iter().any(|port| {
                let at_host = guest.host.and_then(|host| topology.hosts.get(host));
                let is =
                    |node: &Node, device: &str| node.place == of.node.place && device == of.device;
                is(&guest.node, &port.device)
                    || at_host.is_some_and(|host| is(host, &port.host_device))
            })
        })
}

/// True when a veth takes packets through its ring: it has GRO, and the other end hands it no super-packets
/// (`veth_skb_is_eligible_for_gro`, drivers/net/veth.c).
fn is_polled(topology: &Topology, from: &str, to: &str) -> Result<bool, LabError> {
    let mut features = BTreeMap::new();
    for device in topology.path() {
        if device.name == from || device.name == to {
            let found = device
                .node
                .netns
                .run(|| ethtool::features(&device.device))??;
            features.insert(device.name, found);
        }
    }
    let has = |device: &str, wanted: &dyn Fn(&str) -> bool| {
        features.get(device).is_some_and(|features| {
            let mut on = features.iter().filter(|(_, on)| **on);
            on.any(|(name, _)| wanted(name))
        })
    };
    let segments_tcp = |name: &str| name.starts_with("tx-tcp") && name.ends_with("-segmentation");
    Ok(has(to, &|name| name == "rx-gro") && !has(from, &segments_tcp))
}

fn read_sockets(node: &Node) -> Result<BTreeMap<String, u64>, LabError> {
    let texts = node.netns.run(|| [SNMP, SNMP6].map(fs::read_to_string))?;
    let mut counters = BTreeMap::new();
    let [snmp, snmp6] = texts;
    let snmp = snmp.map_err(LabError::io("reading", SNMP.as_ref()))?;
    counters.extend(parse_snmp(&snmp));
    // A kernel without IPv6 has no such file.
    if let Ok(snmp6) = snmp6 {
        counters.extend(parse_snmp6(&snmp6));
    }
    Ok(counters)
}

/// Two lines a protocol: `Udp: InDatagrams NoPorts …` and `Udp: 12 0 …`. Values that can be negative are no counters.
fn parse_snmp(text: &str) -> BTreeMap<String, u64> {
    let lines: Vec<&str> = text.lines().collect();
    let mut counters = BTreeMap::new();
    for two in lines.chunks_exact(2) {
        let (mut names, values) = (two[0].split_whitespace(), two[1].split_whitespace());
        let protocol = names.next().unwrap_or_default().trim_end_matches(':');
        for (name, value) in names.zip(values.skip(1)) {
            if let Ok(value) = value.parse() {
                counters.insert(format!("{protocol} {name}"), value);
            }
        }
    }
    counters
}

/// A line a counter: `Udp6InErrors 0`.
fn parse_snmp6(text: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    });
    lines.collect()
}

/// A line a CPU, hexadecimal: processed, dropped, …, the 13th is the CPU (net/core/net-procfs.c).
fn parse_softnet(text: &str) -> Result<BTreeMap<u64, u64>, LabError> {
    let malformed = |line: &str| LabError::KernelFile {
        path: SOFTNET,
        reason: format!("`{line}`"),
    };
    let mut dropped = BTreeMap::new();
    for (number, line) in (0..).zip(text.lines()) {
        let words: Result<Vec<u64>, _> = line
            .split_whitespace()
            .map(|word| u64::from_str_radix(word, 16))
            .collect();
        let words = words.map_err(|_| malformed(line))?;
        let count = *words.get(1).ok_or_else(|| malformed(line))?;
        dropped.insert(words.get(12).copied().unwrap_or(number), count);
    }
    Ok(dropped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        let snmp = "Ip: Forwarding DefaultTTL InDiscards\nIp: 1 64 7\n\
            Tcp: MaxConn InErrs\nTcp: -1 2\nUdp: InDatagrams RcvbufErrors\nUdp: 12 3\n";
        let counters = parse_snmp(snmp);
        assert_eq!(counters.get("Ip InDiscards"), Some(&7));
        assert_eq!(counters.get("Udp RcvbufErrors"), Some(&3));
        assert_eq!(counters.get("Tcp MaxConn"), None);
        assert_eq!(counters.get("Tcp InErrs"), Some(&2));
        let snmp6 =
            parse_snmp6("Ip6InDiscards                   \t4\nUdp6RcvbufErrors\t5\nnonsense\n");
        assert_eq!(snmp6.get("Ip6InDiscards"), Some(&4));
        assert_eq!(snmp6.get("Udp6RcvbufErrors"), Some(&5));
    }

    #[test]
    fn softnet_is_hexadecimal_and_names_its_cpu() {
        let line = "0000a1b2 0000001f 0 0 0 0 0 0 0 0 0 0 00000003 0 0";
        assert_eq!(parse_softnet(line).unwrap(), [(3, 31)].into());
        assert_eq!(
            parse_softnet("1 2\n3 4\n").unwrap(),
            [(0, 2), (1, 4)].into()
        );
        assert!(parse_softnet("x y").is_err());
        assert!(parse_softnet("1").is_err());
        let here = fs::read_to_string(SOFTNET).unwrap();
        assert!(!parse_softnet(&here).unwrap().is_empty());
    }
}
