//! What must come out of a host on the wire, and what it must count: the reference executor's words for one
//! packet, carried on through what lies between the hooks and is the kernel's.
//!
//! - A super-packet that leaves whole is as good as its segments: all is compared by segments.
//! - What goes into the segmenter (verdict `segment`) comes back as segments, each with a verdict of its own.
//! - A super-packet from a TAP does not know how many segments it is (`SKB_GSO_DODGY`): before `parse` has seen
//!   its transport header it counts as one. From Linux 6.19 on the kernel counts them before the hook
//!   (net/core/dev.c, `qdisc_pkt_len_segs_init`).
//! - An encapsulated packet whose `skb->protocol` still is the inner one (anything but IP, and every copy of
//!   a flooded frame) is received anew by way of the segmenter's devices, and counted there as `encap`.

use std::collections::BTreeMap;

use overlane_model::{DeviceName, Encapsulation, Hook, Tables, Verdict};
use overlane_pipeline::{Counter, Counters, Entry, Host, Outcome, Output, Packet, State};

use super::frame;
use crate::counted::{add, plus};

/// Where packets come out.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Place {
    /// The far end of the uplink.
    Wire,
    /// The guest's end of a device.
    Guest(DeviceName),
    /// The host's own stack.
    Host,
}

/// All that must come of one packet.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Expected {
    pub(super) packets: BTreeMap<Place, Vec<Packet>>,
    pub(super) counters: Counters,
}

/// The reference executor, walking on to the wire.
pub(super) struct Walk<'a> {
    pub(super) host: &'a Host,
    pub(super) state: &'a mut State,
    pub(super) now_ns: u64,
    /// Whether the kernel counts the segments of a super-packet from a TAP.
    pub(super) kernel_counts: bool,
}

impl Walk<'_> {
    /// What the packet's hook must do, and everything that must come of it.
    pub(super) fn expect(&mut self, entry: &Entry, packet: &Packet) -> (Outcome, Expected) {
        let mut expected = Expected::default();
        let outcome = self.enter(entry, packet, &mut expected);
        // What rules count is read in a test run only.
        expected.counters.rules.clear();
        (outcome, expected)
    }

    fn enter(&mut self, entry: &Entry, packet: &Packet, into: &mut Expected) -> Outcome {
        let mut outcome = self.host.run(self.state, self.now_ns, entry, packet);
        if *entry == Entry::Underlay && !self.kernel_counts && is_uncounted(&outcome) {
            one_segment(&mut outcome.counters);
        }
        add(&mut into.counters, &outcome.counters);
        for output in &outcome.outputs {
            self.leaves(entry, &outcome, output, into);
        }
        if !outcome.probe.is_empty() {
            into.count_probe(packet);
        }
        for probe in &outcome.probe {
            self.leaves(entry, &outcome, probe, into);
        }
        outcome
    }

    fn leaves(&mut self, entry: &Entry, outcome: &Outcome, output: &Output, into: &mut Expected) {
        match output {
            Output::Port { port, packet } => {
                if let Some(device) = device_of(self.host.tables(), port.as_str()) {
                    into.put(Place::Guest(device.clone()), packet.segments());
                }
            }
            Output::Underlay {
                remote: None,
                packet,
            } => {
                into.put(Place::Wire, packet.segments());
            }
            Output::Underlay {
                remote: Some(_),
                packet,
            } => {
                let tunnel = self.host.tables().tunnel.encapsulation;
                if is_received_anew(outcome, packet, tunnel) {
                    into.count_anew(packet);
                }
                into.put(Place::Wire, packet.segments_in(tunnel));
            }
            Output::Segmenter { packet } => {
                if let Entry::Port(device) = entry {
                    let back = Entry::Segmenter(device.clone());
                    for segment in packet.segments() {
                        self.enter(&back, &segment, into);
                    }
                }
            }
            // No host here has a leg.
            Output::Leg { .. } => {}
            // Before its protocol handlers the kernel forgets a tag that no device of it stands for.
            Output::Host { packet } => {
                let untagged = Packet {
                    tag: None,
                    ..packet.clone()
                };
                into.put(Place::Host, untagged.segments());
            }
        }
    }
}

impl Expected {
    fn put(&mut self, place: Place, packets: Vec<Packet>) {
        self.packets.entry(place).or_default().extend(packets);
    }

    fn count_anew(&mut self, packet: &Packet) {
        self.count_behind_segmenter(Verdict::Encap, packet);
    }

    /// The copy of a packet that becomes a question.
    fn count_probe(&mut self, packet: &Packet) {
        self.count_behind_segmenter(Verdict::Probe, packet);
    }

    fn count_behind_segmenter(&mut self, verdict: Verdict, packet: &Packet) {
        let once = Counter {
            packets: 1,
            segments: 1,
            bytes: packet.bytes.len() as u64,
        };
        let key = (Hook::FromSegmenter, verdict);
        plus(self.counters.verdicts.entry(key).or_default(), once);
    }
}

/// Of a flooded frame even a copy that is IP: the skb is not told where its inner headers are. What leaves for a
/// remote although the packet of a port was dropped are copies, too: those that were not too large.
fn is_received_anew(outcome: &Outcome, packet: &Packet, tunnel: Encapsulation) -> bool {
    let is_from_port = matches!(outcome.hook, Hook::FromPort | Hook::FromSegmenter);
    let verdict = outcome.verdict;
    let is_copied = matches!(
        verdict,
        Verdict::Flood | Verdict::ToRouter | Verdict::Resolving
    );
    let is_copy = is_copied || is_from_port && verdict.is_drop();
    is_copy || !frame::carries_ip(&packet.bytes, tunnel)
}

fn is_uncounted(outcome: &Outcome) -> bool {
    let last = outcome.steps.last().map(|step| step.stage);
    let ended = outcome.verdict.is_drop() || outcome.verdict == Verdict::ToHost;
    ended && matches!(last, Some("vtep_check" | "tunnel" | "parse"))
}

fn one_segment(counters: &mut Counters) {
    let verdicts = counters.verdicts.values_mut();
    let remotes = counters
        .from_remote
        .values_mut()
        .chain(counters.remote_dropped.values_mut());
    for counter in verdicts.chain(remotes) {
        counter.segments = counter.packets;
    }
}

fn device_of<'a>(tables: &'a Tables, port: &str) -> Option<&'a DeviceName> {
    let found = tables
        .ports
        .iter()
        .find(|known| known.name.as_str() == port);
    found.map(|port| &port.attachment.device)
}
