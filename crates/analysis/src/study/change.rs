//! What the command line changes in a study. The changed study stands in the record, so that a report shows what was measured.

use super::{GroupAxes, Matrix, Study, rules};
use crate::error::AnalysisError;
use crate::record::{BackendName, Family, FarEnd, GuestKind, Tuning};

/// What the command line changes in a study.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// The backends to compare, in place of the study's own.
    pub backends: Option<Vec<BackendName>>,
    /// Number of hosts everywhere.
    pub hosts: Option<u32>,
    /// Pairs of guests everywhere.
    pub pairs: Option<u32>,
    /// What the guests are, everywhere.
    pub guests: Option<Vec<GuestKind>>,
    /// How the networks are set, everywhere.
    pub tuning: Option<Vec<Tuning>>,
    /// Family of the guests' addresses everywhere.
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
}

impl Study {
    /// Applies `overrides` to both matrices and checks what comes out.
    pub fn change(&mut self, overrides: &Overrides) -> Result<(), AnalysisError> {
        if *overrides == Overrides::default() {
            return Ok(());
        }
        for matrix in [&mut self.matrix, &mut self.quick] {
            matrix.change(overrides);
        }
        // Views and published ratios stay as they are: a report shows those that find their cells.
        let found = rules::unmeasurable(self);
        if found.is_empty() {
            return Ok(());
        }
        let mistakes = found.into_iter().map(|found| found.of_command(&self.name));
        Err(AnalysisError::Mistakes {
            mistakes: mistakes.collect(),
        })
    }
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
        if let Some(tuning) = &overrides.tuning {
            self.tuning.clone_from(tuning);
        }
        if let Some(inner) = overrides.inner {
            self.inner = vec![inner];
            self.raise_frames(inner);
        }
        if let Some(underlay) = overrides.underlay {
            self.underlay = vec![underlay];
        }
        if overrides.samples.is_some() {
            self.samples = None;
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
