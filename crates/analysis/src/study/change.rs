//! What the command line changes in a study. The changed study stands in the record, so that a report shows what was measured.

use super::check::Found;
use super::{GroupAxes, Matrix, Study, rules};
use crate::error::AnalysisError;
use crate::record::{BackendName, Family, FarEnd, GuestKind, MtuClass, Tuning};

/// What the command line changes in a study.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// The backends to compare, in place of the study's own.
    pub backends: Option<Vec<BackendName>>,
    /// Number of hosts everywhere but where machines move.
    pub hosts: Option<u32>,
    /// Pairs of guests everywhere.
    pub pairs: Option<u32>,
    /// What the guests are, everywhere but where machines move.
    pub guests: Option<Vec<GuestKind>>,
    /// Size classes of the MTU everywhere.
    pub mtu: Option<Vec<MtuClass>>,
    /// How the networks are set, everywhere.
    pub tuning: Option<Vec<Tuning>>,
    /// Family of the guests' addresses everywhere but where machines move.
    pub inner: Option<Family>,
    /// Family of the underlay everywhere.
    pub underlay: Option<Family>,
    /// Samples per cell.
    pub samples: Option<u32>,
    /// Length of a sample.
    pub seconds: Option<f64>,
    /// Each backend against itself.
    pub against_itself: bool,
    /// Rounds beside other programs count.
    pub busy_machine: bool,
    /// Memory of the machines that move.
    pub guest_memory_mib: Option<Vec<u32>>,
    /// How fast they write it.
    pub dirty_mib_per_second: Option<Vec<u32>>,
    /// Cables that it travels over.
    pub links: Option<Vec<u32>>,
    /// Postcopy in place of precopy.
    pub postcopy: bool,
}

impl Overrides {
    /// The options that are about machines that move, and about nothing else.
    fn of_machines(&self) -> impl Iterator<Item = &'static str> {
        [
            ("--guest-memory", self.guest_memory_mib.is_some()),
            ("--dirty-rate", self.dirty_mib_per_second.is_some()),
            ("--links", self.links.is_some()),
            ("--postcopy", self.postcopy),
        ]
        .into_iter()
        .filter_map(|(option, given)| given.then_some(option))
    }
}

impl Study {
    /// Applies `overrides` to both matrices and checks what comes out.
    pub fn change(&mut self, overrides: &Overrides) -> Result<(), AnalysisError> {
        if *overrides == Overrides::default() {
            return Ok(());
        }
        let of_machines = overrides.of_machines().filter(|_| !self.moves());
        let mut found: Vec<Found> = of_machines.map(moves_nothing).collect();
        for matrix in [&mut self.matrix, &mut self.quick] {
            matrix.change(overrides);
        }
        // Views and published ratios stay as they are: a report shows those that find their cells.
        found.extend(rules::unmeasurable(self));
        if found.is_empty() {
            return Ok(());
        }
        let mistakes = found.into_iter().map(|found| found.of_command(&self.name));
        Err(AnalysisError::Mistakes {
            mistakes: mistakes.collect(),
        })
    }
}

impl Study {
    /// Some group of it measures how machines move.
    fn moves(&self) -> bool {
        let matrices = [&self.matrix, &self.quick].into_iter();
        let mut groups = matrices.flat_map(|matrix| &matrix.groups);
        groups.any(GroupAxes::moves)
    }
}

/// An option that has nothing to change.
fn moves_nothing(option: &str) -> Found {
    let shipped = Study::all_shipped().unwrap_or_default();
    let moving: Vec<String> = shipped
        .into_iter()
        .filter(Study::moves)
        .map(|study| format!("`{}`", study.name))
        .collect();
    let help = match moving.as_slice() {
        [] => "leave it out, or add a group with the test `migration`".to_owned(),
        names => format!("leave it out, or run {}, which does", names.join(" or ")),
    };
    Found::of(option, "no test of this study moves a machine", help)
}

impl Matrix {
    fn change(&mut self, overrides: &Overrides) {
        if let Some(backends) = &overrides.backends {
            self.compare_only(backends);
        }
        if let Some(samples) = overrides.samples {
            self.samples = samples;
        }
        if let Some(seconds) = overrides.seconds {
            self.seconds = seconds;
        }
        self.against_itself |= overrides.against_itself;
        self.busy_machine |= overrides.busy_machine;
        for group in &mut self.groups {
            group.change(overrides);
        }
    }

    /// Puts other backends in place of its own, in the order in which tables show them. A group with backends of its own keeps
    /// its kind: with or without a tunnel, Overlane's where it has routers or a firewall; it goes if none of that kind is left.
    fn compare_only(&mut self, backends: &[BackendName]) {
        let all = BackendName::ALL.into_iter();
        let wanted: Vec<_> = all.filter(|name| backends.contains(name)).collect();
        self.groups.retain_mut(|group| {
            let Some(own) = &mut group.backends else {
                return true;
            };
            let services = group.feature.iter().any(|feature| feature.is_service());
            let kind = |name: &BackendName| {
                let tunnel = own.iter().any(|own| own.is_overlay() == name.is_overlay());
                tunnel && (name.is_overlane() || !services)
            };
            let left: Vec<_> = wanted.iter().copied().filter(kind).collect();
            *own = left;
            !own.is_empty()
        });
        self.backends = wanted;
    }
}

impl GroupAxes {
    fn change(&mut self, overrides: &Overrides) {
        if let Some(mtu) = &overrides.mtu {
            self.mtu.clone_from(mtu);
        }
        if self.moves() {
            self.change_machines(overrides);
        } else {
            self.change_guests(overrides);
        }
        if let Some(tuning) = &overrides.tuning {
            self.tuning.clone_from(tuning);
        }
        if let Some(underlay) = overrides.underlay {
            self.underlay = vec![underlay];
        }
        if overrides.samples.is_some() {
            self.samples = None;
        }
    }

    /// Machines that move are between two hosts, and what they are is the test's own.
    fn change_machines(&mut self, overrides: &Overrides) {
        if let Some(pairs) = overrides.pairs {
            self.pairs = vec![pairs];
        }
        for (axis, values) in [
            (&mut self.guest_memory_mib, &overrides.guest_memory_mib),
            (
                &mut self.dirty_mib_per_second,
                &overrides.dirty_mib_per_second,
            ),
            (&mut self.links, &overrides.links),
        ] {
            if let Some(values) = values {
                axis.clone_from(values);
            }
        }
        if overrides.postcopy {
            self.postcopy = vec![true];
            if overrides.links.is_none() {
                // It has one connection.
                self.links = vec![1];
            }
        }
    }

    fn change_guests(&mut self, overrides: &Overrides) {
        // A tester at the far end is one guest, in the place of the second host; so is a physical host behind that one.
        let gateway = self.feature.iter().any(|feature| feature.has_gateway());
        if !gateway && !self.far_end.contains(&FarEnd::Tester) {
            if let Some(hosts) = overrides.hosts {
                self.hosts = vec![hosts];
            }
            if let Some(pairs) = overrides.pairs {
                self.pairs = vec![pairs];
            }
        }
        if let Some(guests) = &overrides.guests {
            self.guests.clone_from(guests);
        }
        if let Some(inner) = overrides.inner {
            self.inner = vec![inner];
            self.raise_frames(inner);
        }
    }

    /// Frames too small for a number over this family get the smallest size that there is: the study's own sizes were for IPv4.
    fn raise_frames(&mut self, inner: Family) {
        if self.tests.iter().any(|test| test.is_frames()) {
            let least = rules::least_frame_bytes(inner);
            self.bytes
                .iter_mut()
                .for_each(|bytes| *bytes = least.max(*bytes));
            self.bytes.dedup();
        }
    }
}
