//! Rules of a matrix: ranges, empty axes, sizes that no frame has, what contradicts each other.

mod migrations;
mod services;

use crate::record::{BackendName, Encapsulation, Family, FarEnd, MtuClass, Test};
use crate::study::check::Found;
use crate::study::limits::{
    MAX_HOSTS, MAX_INSTANCES, MAX_MESSAGE_BYTES, MAX_NETWORKS, MAX_PAIRS, SEQUENCE_BYTES,
    largest_datagram_bytes, smallest_frame_bytes,
};
use crate::study::{GroupAxes, Matrix, Repeat};
use std::fmt::Display;
use std::ops::RangeInclusive;

const MOST_SAMPLES: u32 = 1000;
const SECONDS: RangeInclusive<f64> = 0.2..=3600.0;
const WARM_UP_SECONDS: RangeInclusive<f64> = 0.1..=600.0;
const MOST_DATAGRAM_BYTES: u32 = 65_507;
const BUFFER_BYTES: RangeInclusive<u32> = 4096..=1 << 28;
/// A matrix with more is a slip of the pen.
const MOST_CELLS: u64 = 20_000;
/// Ethernet's header and FCS around the MTU.
const AROUND_MTU_BYTES: u32 = 18;
const SMALLEST_FRAME_BYTES: u32 = 64;

pub(super) fn look(path: &str, matrix: &Matrix, found: &mut Vec<Found>) {
    within(
        &format!("{path}.samples"),
        matrix.samples,
        1..=MOST_SAMPLES,
        found,
    );
    within(&format!("{path}.seconds"), matrix.seconds, SECONDS, found);
    let warm_up = format!("{path}.warm_up_seconds");
    within(&warm_up, matrix.warm_up_seconds, WARM_UP_SECONDS, found);
    axis(&format!("{path}.networks"), &matrix.backends, found);
    if let Some(repeat) = matrix.repeat {
        rule(&format!("{path}.repeat"), repeat, matrix.samples, found);
    }
    if matrix.groups.is_empty() {
        let help = "write at least `- { tests: [tcp_stream], bytes: [131072] }`";
        found.push(Found::of(
            format!("{path}.groups"),
            "the list is empty",
            help,
        ));
    }
    for (index, group) in matrix.groups.iter().enumerate() {
        Group {
            path: format!("{path}.groups[{index}]"),
            matrix,
            axes: group,
        }
        .look(found);
    }
    let cells: u64 = matrix.groups.iter().map(|group| cells(matrix, group)).sum();
    if cells > MOST_CELLS {
        let message = format!("the product of its axes has {cells} cells");
        let help = format!("at most {MOST_CELLS}; vary less in each group, or name several groups");
        found.push(Found::of(path, message, help));
    }
}

fn cells(matrix: &Matrix, group: &GroupAxes) -> u64 {
    let backends = group.backends.as_ref().unwrap_or(&matrix.backends);
    let lengths = [
        backends.len() * if matrix.against_itself { 2 } else { 1 },
        group.tests.len(),
        group.bytes.len(),
        group.instances.len(),
        group.mtu.len(),
        group.offload.len(),
        group.far_end.len(),
        group.hosts.len(),
        group.pairs.len(),
        group.guests.len(),
        group.vnis.len(),
        group.inner.len(),
        group.underlay.len(),
        group.feature.len(),
        group.tuning.len(),
        group.rate_pps.len().max(1),
        group.rate_mbps.len().max(1),
        group.guest_memory_mib.len(),
        group.dirty_percent.len(),
        group.dirty_mib_per_second.len(),
        group.links.len(),
        group.postcopy.len(),
    ];
    let lengths = lengths.into_iter().map(|length| length as u64);
    lengths.fold(1, u64::saturating_mul)
}

fn within<T: PartialOrd + Display>(
    path: &str,
    value: T,
    range: RangeInclusive<T>,
    found: &mut Vec<Found>,
) {
    if !range.contains(&value) {
        let help = format!("write {} to {}", range.start(), range.end());
        found.push(Found::of(path, format!("`{value}` is out of range"), help));
    }
}

/// A list of values that are measured: at least one, none twice.
fn axis<T: PartialEq>(path: &str, values: &[T], found: &mut Vec<Found>) {
    if values.is_empty() {
        let help = "name at least one value, or leave the key out where it has a default";
        found.push(Found::of(
            path,
            "the list is empty: nothing would be measured",
            help,
        ));
    }
    for (index, value) in values.iter().enumerate() {
        if values[..index].contains(value) {
            let path = format!("{path}[{index}]");
            found.push(Found::of(
                path,
                "the same value stands before",
                "remove one of them",
            ));
        }
    }
}

fn rule(path: &str, repeat: Repeat, samples: u32, found: &mut Vec<Found>) {
    match repeat {
        Repeat::Within {
            set,
            percent,
            attempts,
        } => {
            within(&format!("{path}.set"), set, 2..=100, found);
            within(&format!("{path}.percent"), percent, 0.1..=100.0, found);
            within(&format!("{path}.attempts"), attempts, 1..=100, found);
        }
        Repeat::Confidence {
            width_percent,
            most,
        } => {
            within(
                &format!("{path}.width_percent"),
                width_percent,
                0.1..=100.0,
                found,
            );
            within(
                &format!("{path}.most"),
                most,
                samples.clamp(2, MOST_SAMPLES)..=MOST_SAMPLES,
                found,
            );
        }
    }
}

/// The smallest frame with FCS that a numbered packet of this family has: Ethernet, IP, UDP, the number, FCS.
pub(in crate::study) fn least_frame_bytes(inner: Family) -> u32 {
    smallest_frame_bytes(inner).max(SMALLEST_FRAME_BYTES)
}

struct Group<'a> {
    path: String,
    matrix: &'a Matrix,
    axes: &'a GroupAxes,
}

impl Group<'_> {
    fn look(&self, found: &mut Vec<Found>) {
        let before = found.len();
        self.axes_in_range(found);
        self.backends_are_the_matrix(found);
        if found.len() > before {
            return;
        }
        self.sizes(found);
        self.packets_alone(found);
        self.trunks(found);
        self.tester(found);
        self.services(found);
        self.migrations(found);
    }

    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }

    fn backends(&self) -> &[BackendName] {
        self.axes.backends.as_ref().unwrap_or(&self.matrix.backends)
    }

    fn axes_in_range(&self, found: &mut Vec<Found>) {
        let axes = self.axes;
        axis(&self.key("tests"), &axes.tests, found);
        axis(&self.key("mtu"), &axes.mtu, found);
        axis(&self.key("offload"), &axes.offload, found);
        axis(&self.key("far_end"), &axes.far_end, found);
        axis(&self.key("guests"), &axes.guests, found);
        axis(&self.key("inner"), &axes.inner, found);
        axis(&self.key("underlay"), &axes.underlay, found);
        axis(&self.key("feature"), &axes.feature, found);
        axis(&self.key("tuning"), &axes.tuning, found);
        for (key, values, range) in [
            ("bytes", &axes.bytes, 1..=MAX_MESSAGE_BYTES),
            ("instances", &axes.instances, 1..=MAX_INSTANCES),
            ("hosts", &axes.hosts, 1..=MAX_HOSTS),
            ("pairs", &axes.pairs, 1..=MAX_PAIRS),
            ("vnis", &axes.vnis, 1..=MAX_NETWORKS),
        ] {
            axis(&self.key(key), values, found);
            self.each_within(key, values, &range, found);
        }
        if !axes.rate_pps.is_empty() {
            axis(&self.key("rate_pps"), &axes.rate_pps, found);
            self.each_within("rate_pps", &axes.rate_pps, &(1..=100_000_000), found);
        }
        if !axes.rate_mbps.is_empty() {
            axis(&self.key("rate_mbps"), &axes.rate_mbps, found);
            self.each_within("rate_mbps", &axes.rate_mbps, &(1..=1_000_000), found);
            if let Some(test) = axes.tests.iter().find(|test| !test.is_tcp_stream()) {
                let message = format!("{test} is no stream");
                let help = "keep tcp_stream, tcp_reverse and tcp_bidirec in a group of their own";
                found.push(Found::of(self.key("rate_mbps"), message, help));
            }
        }
        if let Some(bytes) = axes.buffer_bytes {
            within(&self.key("buffer_bytes"), bytes, BUFFER_BYTES, found);
        }
        if let Some(samples) = axes.samples {
            within(&self.key("samples"), samples, 1..=MOST_SAMPLES, found);
        }
    }

    fn each_within(
        &self,
        key: &str,
        values: &[u32],
        range: &RangeInclusive<u32>,
        found: &mut Vec<Found>,
    ) {
        for (index, value) in values.iter().enumerate() {
            within(
                &format!("{}[{index}]", self.key(key)),
                *value,
                range.clone(),
                found,
            );
        }
    }

    fn backends_are_the_matrix(&self, found: &mut Vec<Found>) {
        let Some(backends) = &self.axes.backends else {
            return;
        };
        axis(&self.key("networks"), backends, found);
        for (index, name) in backends.iter().enumerate() {
            if !self.matrix.backends.contains(name) {
                found.push(Found::of(
                    format!("{}[{index}]", self.key("networks")),
                    format!("`{name}` is not among the networks of its matrix"),
                    "add it there: that list gives the order of tables",
                ));
            }
        }
    }

    /// Messages and frames that the tests can send.
    fn sizes(&self, found: &mut Vec<Found>) {
        let tests = &self.axes.tests;
        for (index, &bytes) in self.axes.bytes.iter().enumerate() {
            let path = format!("{}[{index}]", self.key("bytes"));
            if tests.contains(&Test::UdpRr) && bytes > MOST_DATAGRAM_BYTES {
                let message = format!("udp_rr has no datagram of {bytes} bytes");
                let help = format!("at most {MOST_DATAGRAM_BYTES}");
                found.push(Found::of(path.clone(), message, help));
            }
            if tests.contains(&Test::UdpGsoStream) {
                self.datagram(&path, bytes, found);
            }
            let Some(test) = tests.iter().find(|test| test.is_frames()) else {
                continue;
            };
            let (least, most) = self.frame_bytes();
            if !(least..=most).contains(&bytes) {
                found.push(Found::of(
                    path,
                    format!("no frame of {test} has {bytes} bytes in this group"),
                    format!("{least} to {most} here: the addresses' headers, a number of {SEQUENCE_BYTES} bytes and 4 bytes of FCS have to fit, and the smallest guest MTU of the group"),
                ));
            }
        }
    }

    /// A datagram of a super-packet that has to fit in every cell of the group.
    fn datagram(&self, path: &str, bytes: u32, found: &mut Vec<Found>) {
        let inner = self.axes.inner.iter();
        let most = inner.map(|family| largest_datagram_bytes(*family, self.least_mtu()));
        let most = most.min().unwrap_or(SEQUENCE_BYTES);
        if !(SEQUENCE_BYTES..=most).contains(&bytes) {
            found.push(Found::of(
                path,
                format!("no datagram of udp_gso_stream has {bytes} bytes in this group"),
                format!("{SEQUENCE_BYTES} to {most} here: a number has to fit, and with its headers each datagram has to fit the smallest guest MTU of the group"),
            ));
        }
    }

    /// Smallest and largest frame, with FCS, that fits in every cell of the group.
    fn frame_bytes(&self) -> (u32, u32) {
        let least = self.axes.inner.iter().copied().map(least_frame_bytes);
        (
            least.max().unwrap_or(SMALLEST_FRAME_BYTES),
            self.least_mtu() + AROUND_MTU_BYTES,
        )
    }

    fn least_mtu(&self) -> u32 {
        let mtus = self.axes.mtu.iter().flat_map(|class: &MtuClass| {
            let backends = self.backends().iter();
            backends.map(|backend| class.guest_mtu(*backend))
        });
        mtus.min().unwrap_or(1500)
    }

    /// Rates belong to tests that send packets at a rate.
    fn packets_alone(&self, found: &mut Vec<Found>) {
        let other = self.axes.tests.iter().find(|test| !test.is_packets());
        let rated = [
            ("search", self.axes.search.is_some()),
            ("rate_pps", !self.axes.rate_pps.is_empty()),
        ];
        for (key, _) in rated.iter().filter(|(_, given)| *given) {
            if let Some(test) = other {
                let message = format!("{test} has no rate of packets");
                let help =
                    "keep udp_stream, udp_gso_stream and frame_stream in a group of their own";
                found.push(Found::of(self.key(key), message, help));
            }
        }
        if rated.iter().all(|(_, given)| *given) {
            let message = "the rate is searched, and given";
            found.push(Found::of(
                self.key("rate_pps"),
                message,
                "remove `rate_pps` or `search`",
            ));
        }
    }

    /// More switches than pairs of guests: trunk ports, and somebody who sends tagged frames.
    fn trunks(&self, found: &mut Vec<Found>) {
        for (index, vnis) in self.axes.vnis.iter().enumerate() {
            let path = || format!("{}[{index}]", self.key("vnis"));
            let Some(pairs) = self.axes.pairs.iter().find(|pairs| *pairs < vnis) else {
                continue;
            };
            let uneven = self
                .axes
                .pairs
                .iter()
                .find(|pairs| *pairs < vnis && vnis % *pairs != 0);
            if let Some(pairs) = uneven {
                let message =
                    format!("{vnis} switches do not spread evenly over {pairs} pairs of guests");
                found.push(Found::of(path(), message, "write a multiple of `pairs`"));
            }
            if let Some(test) = self
                .axes
                .tests
                .iter()
                .find(|test| **test != Test::FrameStream)
            {
                found.push(Found::of(
                    path(),
                    format!("{vnis} switches with {pairs} pairs of guests need tagged frames, and {test} sends none"),
                    "measure with frame_stream, or with as many pairs as switches",
                ));
            }
        }
    }

    /// A bare tester speaks no tunnel, and is no host.
    fn tester(&self, found: &mut Vec<Found>) {
        let Some(at) = self
            .axes
            .far_end
            .iter()
            .position(|end| *end == FarEnd::Tester)
        else {
            return;
        };
        let path = format!("{}[{at}]", self.key("far_end"));
        if let Some(overlay) = self.backends().iter().find(|backend| backend.is_overlay()) {
            found.push(Found::of(
                path.clone(),
                format!("a tester at the far end does not understand the tunnel of {overlay}"),
                "give this group networks without one: `networks: [bridge, overlane-vlan]`",
            ));
        }
        let tagged = |backend: &&BackendName| backend.encapsulation() == Encapsulation::Vlan;
        let whole = self.axes.tests.contains(&Test::UdpGsoStream);
        if let Some(vlan) = self.backends().iter().find(tagged).filter(|_| whole) {
            found.push(Found::of(
                path.clone(),
                format!("what arrives at a tester has the tag of {vlan}, and no socket there takes super-packets with it"),
                "measure udp_gso_stream with a host at the far end, or udp_stream here",
            ));
        }
        if self.axes.pairs != [1] {
            let message = "a tester at the far end is one guest";
            let help = "leave `pairs` at 1 in this group";
            found.push(Found::of(path.clone(), message, help));
        }
        if self.axes.hosts != [2] {
            let message = "a tester at the far end takes the place of the second host";
            found.push(Found::of(path, message, "leave `hosts` at 2 in this group"));
        }
    }
}
