//! Where the packets of a sample stayed: sent = received + named counters on the path + the unexplained rest.
//!
//! One lost packet may show in several counters, and is to be counted once:
//!
//! ```text
//!  sender      cable in ─────────── cable out     CPU's queue      tunnel device
//!  (socket)    tx_dropped           rx_dropped    softnet dropped  tx_dropped
//!
//!  ordinary veth, the receiving CPU's queue is full: all of
//!     [OutDiscards] tx_dropped  =   rx_dropped  =  dropped    [= tx_dropped of the tunnel above the cable]
//!  veth with a ring of its own (NAPI): the ring is full
//!     [OutDiscards] tx_dropped                                [= tx_dropped of the tunnel above the cable]
//!  …and behind the ring the CPU's queue is full
//!                                   rx_dropped  =  dropped
//!  by bpf_redirect_neigh (Overlane's tunnels) the sending end counts each once more: see `Device::told_twice`
//! ```
//!
//! A device counts a super-packet once, whole, and its segments one by one: a counter of n explains n datagrams at least
//! and n super-packets at most.
//!
//! (drivers/net/veth.c `veth_xmit`, net/core/dev.c `enqueue_to_backlog`, include/net/ip_tunnels.h
//! `iptunnel_xmit_stats`; a tunnel over IPv6 counts in tx_errors.) Packets that the first cable does not take are
//! told to their sender (packet sockets, IP_RECVERR): it counts them as refused, not as sent.

use super::counters::{Counters, Device, Part};
use overlane_analysis::record::Accounting;
use overlane_net::LinkStats;
use overlane_traffic::message;
use std::collections::BTreeMap;

/// Counters of the receiving guests' kernels for datagrams that no program got. `Udp InErrors` has those that follow it
/// in it.
const IPV4_RECEIVE: [&str; 6] = [
    "Ip InHdrErrors",
    "Ip InAddrErrors",
    "Ip InUnknownProtos",
    "Ip InDiscards",
    "Ip ReasmFails",
    "Udp NoPorts",
];
const IPV6_RECEIVE: [&str; 6] = [
    "Ip6InHdrErrors",
    "Ip6InAddrErrors",
    "Ip6InUnknownProtos",
    "Ip6InDiscards",
    "Ip6ReasmFails",
    "Udp6NoPorts",
];
/// Reasons that are part of the counter of errors, which is named where none of them is.
const UDP_ERRORS: [(&str, [&str; 3]); 2] = [
    (
        "Udp InErrors",
        ["Udp RcvbufErrors", "Udp InCsumErrors", "Udp MemErrors"],
    ),
    (
        "Udp6InErrors",
        ["Udp6RcvbufErrors", "Udp6InCsumErrors", "Udp6MemErrors"],
    ),
];
/// Datagrams that a sending guest's kernel gave up.
const SEND: [&str; 4] = [
    "Ip OutDiscards",
    "Ip OutNoRoutes",
    "Ip6OutDiscards",
    "Ip6OutNoRoutes",
];

/// Datagrams that were lost with others which a counter saw as one packet.
const SAME_SUPER_PACKETS: &str = "further datagrams of the same super-packets";

/// Whether the packets were datagrams of sockets, many of them in one super-packet, or raw frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Datagrams,
    SuperPackets { datagrams: u64 },
    Frames,
}

/// Who sent and who received, as the devices name places, with the totals of their agents.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    pub(super) senders: Vec<(String, message::Counters)>,
    pub(super) receivers: Vec<(String, message::Counters)>,
}

/// Adds up what happened between two readings.
pub(super) fn account(
    kind: Kind,
    ends: &Ends,
    devices: &[Device],
    before: &Counters,
    after: &Counters,
) -> Accounting {
    let mut lost = Lost {
        since: Since { before, after },
        devices,
        kind,
        named: BTreeMap::new(),
    };
    lost.count_cables(ends);
    lost.count_inner_devices();
    lost.count_sockets(ends);
    for (name, count) in rises(&before.backend, &after.backend) {
        lost.add(name, count);
    }
    let sum = |of: &dyn Fn(&message::Counters) -> u64, side: &[(String, message::Counters)]| {
        side.iter().map(|(_, counters)| of(counters)).sum::<u64>()
    };
    let (senders, receivers) = (&ends.senders, &ends.receivers);
    let sent = sum(&|counters| counters.sent_packets, senders);
    let received = sum(&|counters| counters.received_packets, receivers);
    let due = sum(&|counters| counters.due_packets, senders);
    let refused = sum(&|counters| counters.refused_packets, senders);
    let explained = received + lost.sum();
    lost.count_queues(sent.saturating_sub(explained));
    let explained = received + lost.sum();
    lost.count_together(sent.saturating_sub(explained));
    let explained = received + lost.sum();
    Accounting {
        sent,
        received,
        unexplained: difference(sent, explained),
        lost: lost.named,
        refused,
        not_sent: due.saturating_sub(sent + refused),
        reordered: sum(&|counters| counters.reordered_packets, receivers),
        duplicates: sum(&|counters| counters.duplicate_packets, receivers),
        corrupt: sum(&|counters| counters.corrupt_packets, receivers),
    }
}

fn difference(a: u64, b: u64) -> i64 {
    let size = i64::try_from(a.abs_diff(b)).unwrap_or(i64::MAX);
    if a < b { -size } else { size }
}

/// A counter of a device, with its name.
type NamedCounter = (&'static str, fn(&LinkStats) -> u64);

/// Two readings.
#[derive(Clone, Copy)]
struct Since<'a> {
    before: &'a Counters,
    after: &'a Counters,
}

impl Since<'_> {
    fn device(&self, name: &str, counter: fn(&LinkStats) -> u64) -> u64 {
        let read = |at: &Counters| at.devices.get(name).map_or(0, counter);
        read(self.after).saturating_sub(read(self.before))
    }

    /// Packets that a cable's end did not take.
    fn told(&self, device: &Device) -> u64 {
        let dropped = self.device(&device.name, |stats| stats.tx_dropped);
        if !device.told_twice {
            return dropped;
        }
        let again = self.device(&device.name, |stats| stats.tx_errors);
        (dropped + again).div_ceil(2)
    }

    fn socket(&self, place: &str, counter: &str) -> u64 {
        let read = |at: &Counters| {
            let of_place = at.sockets.get(place);
            of_place.and_then(|counters| counters.get(counter).copied())
        };
        let (after, before) = (read(self.after), read(self.before));
        after.unwrap_or(0).saturating_sub(before.unwrap_or(0))
    }
}

/// Lost packets by counter, as they are found.
struct Lost<'a> {
    since: Since<'a>,
    devices: &'a [Device],
    kind: Kind,
    named: BTreeMap<String, u64>,
}

impl Lost<'_> {
    fn add(&mut self, name: String, count: u64) {
        if count > 0 {
            *self.named.entry(name).or_default() += count;
        }
    }

    fn sum(&self) -> u64 {
        self.named.values().sum()
    }

    /// Each cable once, whichever of its ends knows more.
    fn count_cables(&mut self, ends: &Ends) {
        // What the first cable did not take the sender was told at once: it is not in `sent`.
        let mut refused: BTreeMap<&str, u64> = BTreeMap::new();
        for (place, totals) in &ends.senders {
            *refused.entry(place).or_default() += totals.refused_packets;
        }
        for device in self.devices {
            let (Part::CableIn, Some(other)) = (device.part, &device.other_end) else {
                continue;
            };
            let told = self.since.told(device);
            let behind = self.since.device(other, |stats| stats.rx_dropped);
            let polled = self.devices.iter().any(|device| {
                device.name == *other && device.part == Part::CableOut { polled: true }
            });
            // What the sending end was told of is at the receiving end too, unless that has a ring between.
            let behind = if polled {
                behind
            } else {
                behind.saturating_sub(told)
            };
            let known = refused.get_mut(device.place.as_str()).map_or(0, |refused| {
                let known = told.min(*refused);
                *refused -= known;
                known
            });
            self.add(format!("{} tx_dropped", device.name), told - known);
            self.add(format!("{other} rx_dropped"), behind);
            if !device.told_twice {
                self.count_errors(&device.name, &[("tx_errors", |stats| stats.tx_errors)]);
            }
            self.count_errors(
                other,
                &[
                    ("rx_errors", |stats| stats.rx_errors),
                    ("rx_missed_errors", |stats| stats.rx_missed_errors),
                    ("rx_nohandler", |stats| stats.rx_nohandler),
                ],
            );
        }
    }

    fn count_errors(&mut self, name: &str, counters: &[NamedCounter]) {
        for (counter, read) in counters {
            let count = self.since.device(name, *read);
            self.add(format!("{name} {counter}"), count);
        }
    }

    /// Bridges and tunnels: what they sent in vain beyond what the cables of their host were told of.
    fn count_inner_devices(&mut self) {
        for device in self.devices.iter().filter(|of| of.part == Part::Inner) {
            let cables: u64 = self
                .devices
                .iter()
                .filter(|of| of.place == device.place && of.part == Part::CableIn)
                .map(|of| self.since.told(of))
                .sum();
            let name = &device.name;
            let dropped = self.since.device(name, |stats| stats.tx_dropped);
            let errors = self.since.device(name, |stats| stats.tx_errors);
            // Over IPv4 a tunnel counts what its cable did not take as dropped, over IPv6 as an error.
            let left = cables.saturating_sub(dropped);
            self.add(format!("{name} tx_dropped"), dropped.saturating_sub(cables));
            self.add(format!("{name} tx_errors"), errors.saturating_sub(left));
            self.count_errors(
                name,
                &[
                    ("rx_dropped", |stats| stats.rx_dropped),
                    ("rx_errors", |stats| stats.rx_errors),
                ],
            );
        }
    }

    /// A packet that finds a CPU's queue full shows at the device that it came by. What no device on the path shows
    /// was lost at one beside it, or was none of the sample's: it explains no more than is `missing`.
    fn count_queues(&mut self, missing: u64) {
        let on_devices: u64 = self
            .devices
            .iter()
            .map(|device| self.since.device(&device.name, |stats| stats.rx_dropped))
            .sum();
        let cpus = rises(&self.since.before.softnet, &self.since.after.softnet);
        let all: u64 = cpus.iter().map(|(_, count)| count).sum();
        let beside = all.saturating_sub(on_devices).min(missing);
        // The CPU that lost most names them: which of them lost those is not known.
        if let Some((cpu, _)) = cpus.iter().max_by_key(|(_, count)| *count) {
            self.add(format!("cpu{cpu} softnet dropped"), beside);
        }
    }

    /// What is `missing` went with what the counters saw, as far as so many super-packets hold it.
    fn count_together(&mut self, missing: u64) {
        if let Kind::SuperPackets { datagrams } = self.kind {
            let most = self.sum().saturating_mul(datagrams.saturating_sub(1));
            self.add(SAME_SUPER_PACKETS.to_owned(), missing.min(most));
        }
    }

    fn count_sockets(&mut self, ends: &Ends) {
        for (place, totals) in &ends.receivers {
            if self.kind == Kind::Frames {
                // Packet sockets get their copy before the guest's IP, whose counters mean nothing here.
                self.add(
                    format!("{place} packet socket full"),
                    totals.receiver_dropped_packets,
                );
                continue;
            }
            for counter in IPV4_RECEIVE.into_iter().chain(IPV6_RECEIVE) {
                self.add(
                    format!("{place} {counter}"),
                    self.since.socket(place, counter),
                );
            }
            for (all, reasons) in UDP_ERRORS {
                let mut rest = self.since.socket(place, all);
                for reason in reasons {
                    let count = self.since.socket(place, reason);
                    rest = rest.saturating_sub(count);
                    self.add(format!("{place} {reason}"), count);
                }
                self.add(format!("{place} {all}"), rest);
            }
        }
        if self.kind == Kind::Frames {
            return;
        }
        for (place, _) in &ends.senders {
            // The kernel counts a datagram as given up when its cable did not take it: those are counted there.
            let mut told: u64 = self
                .devices
                .iter()
                .filter(|device| device.place == *place && device.part == Part::CableIn)
                .map(|device| self.since.told(device))
                .sum();
            for counter in SEND {
                let count = self.since.socket(place, counter);
                self.add(format!("{place} {counter}"), count.saturating_sub(told));
                told = told.saturating_sub(count);
            }
        }
    }
}

/// What rose, and by how much.
fn rises<K: Ord + Clone>(before: &BTreeMap<K, u64>, after: &BTreeMap<K, u64>) -> Vec<(K, u64)> {
    let all = after.iter().map(|(key, now)| {
        let then = before.get(key).copied().unwrap_or(0);
        (key.clone(), now.saturating_sub(then))
    });
    all.filter(|(_, rise)| *rise > 0).collect()
}

#[cfg(test)]
mod tests;
