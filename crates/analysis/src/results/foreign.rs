//! What other programs did to a run: the load beside its samples, over all of them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::record::{Discard, Run, Sample};

/// So many programs are named.
const NAMED: usize = 3;

/// Load that was not the laboratory's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ForeignLoad {
    /// Samples that were taken again for it, with their rounds, and do not count.
    pub taken_again: usize,
    /// Samples that were disturbed and count all the same: there were no more tries.
    pub marked: usize,
    /// Samples that count.
    pub counted: usize,
    /// What other programs used beside the disturbed samples: mean, in per cent of one CPU.
    pub percent: f64,
    /// The largest of them, largest first.
    pub programs: Vec<String>,
}

impl ForeignLoad {
    /// `None`: no sample was disturbed.
    pub(super) fn of(run: &Run) -> Option<Self> {
        let samples = || run.cells.iter().flat_map(|cell| &cell.samples);
        let disturbed: Vec<&Sample> = samples()
            .filter(|sample| sample.round > 0 && sample.is_disturbed())
            .collect();
        if disturbed.is_empty() {
            return None;
        }
        let mut used: BTreeMap<&str, f64> = BTreeMap::new();
        let foreign = || {
            disturbed
                .iter()
                .filter_map(|sample| sample.foreign.as_ref())
        };
        for program in foreign().flat_map(|foreign| &foreign.programs) {
            *used.entry(&program.name).or_default() += program.percent;
        }
        let mut programs: Vec<(&str, f64)> = used.into_iter().collect();
        programs.sort_by(|a, b| b.1.total_cmp(&a.1));
        let marked = disturbed.iter().filter(|sample| sample.discarded.is_none());
        let again = samples()
            .filter(|sample| matches!(sample.discarded, Some(Discard::OtherPrograms { .. })));
        Some(Self {
            taken_again: again.count(),
            marked: marked.count(),
            counted: samples()
                .filter(|sample| sample.discarded.is_none())
                .count(),
            percent: foreign().map(|foreign| foreign.percent).sum::<f64>() / disturbed.len() as f64,
            programs: programs
                .into_iter()
                .take(NAMED)
                .map(|(name, _)| name.to_owned())
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Discard, Foreign, Program};
    use crate::results::fixture;

    fn load(names: &[(&str, f64)]) -> Option<Foreign> {
        let programs = names.iter().map(|&(name, percent)| Program {
            name: name.to_owned(),
            percent,
        });
        Some(Foreign {
            percent: names.iter().map(|(_, percent)| percent).sum(),
            programs: programs.collect(),
            ..Foreign::default()
        })
    }

    #[test]
    fn the_largest_programs_of_disturbed_samples_are_named() {
        let mut run = fixture::run();
        assert_eq!(ForeignLoad::of(&run), None);
        let mut samples = run.cells.iter_mut().flat_map(|cell| &mut cell.samples);
        let mut next = |names: &[(&str, f64)], discarded: bool| {
            let sample = samples
                .find(|s| s.round > 0 && s.discarded.is_none())
                .unwrap();
            sample.foreign = load(names);
            sample.discarded = discarded.then(|| Discard::OtherPrograms {
                words: "other programs".to_owned(),
            });
        };
        next(&[("cargo", 30.0), ("node", 2.0)], false);
        next(&[("node", 3.0), ("chrome", 15.0)], true);
        next(&[("sshd", 2.9)], false);
        next(&[("a", 1.0), ("b", 2.5)], false);
        let found = ForeignLoad::of(&run).unwrap();
        assert_eq!((found.marked, found.taken_again), (2, 1));
        assert_eq!(found.programs, ["cargo", "chrome", "node"]);
        assert!((found.percent - 53.5 / 3.0).abs() < 1e-9, "{found:?}");
    }
}
