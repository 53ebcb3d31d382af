//! How far to trust an answer: what was seen while its cells were measured.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::record::{Bound, CellStatus, Finding, Sample, Warning, names_of};
use crate::results::CellFigures;
use crate::stats::MIN_PAIRS;

use crate::report::names::counted;
use crate::report::page::Report;

/// How far an answer may be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Nothing was seen that speaks against it.
    Good,
    /// Something was: the reasons say what.
    Limited,
    /// Most of it rests on too little.
    Poor,
}

impl Level {
    /// The level in a word.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Limited => "limited",
            Self::Poor => "poor",
        }
    }
}

/// A level with its reasons.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trust {
    /// The lowest that a reason gives.
    pub level: Level,
    /// A sentence each; the first says how many samples there are.
    pub reasons: Vec<String>,
}

/// One reason: what it makes of the level, and its sentence.
type Reason = (Level, String);

/// How far the answer that rests on `cells` may be trusted. Each of the functions below looks at one thing.
pub(super) fn trust(r: &Report<'_>, cells: &[&CellFigures<'_>]) -> Trust {
    let all: Vec<Reason> = [samples(cells), foreign(r, cells), unproven(cells)]
        .into_iter()
        .chain([unsteady(r), stolen(r), by_tool(cells)])
        .chain([unfinished(r), unmeasured(r), quick(r), virtual_machine(r)])
        .flatten()
        .collect();
    let level = all.iter().map(|(level, _)| *level).max();
    Trust {
        level: level.unwrap_or(Level::Poor),
        reasons: all.into_iter().map(|(_, text)| text).collect(),
    }
}

fn samples(cells: &[&CellFigures<'_>]) -> Option<Reason> {
    let counts = || cells.iter().map(|figures| figures.samples());
    let (Some(least), Some(most)) = (counts().min(), counts().max()) else {
        return Some((Level::Poor, "Nothing was measured.".to_owned()));
    };
    let few = counts().filter(|count| *count < MIN_PAIRS).count();
    let each = if least == most {
        format!("{} each, in turn.", counted(least as u32, "sample"))
    } else {
        format!("{least} to {most} samples each, in turn.")
    };
    let short = format!(
        "{each} {few} of {} cells have fewer than the {MIN_PAIRS} that a verdict needs.",
        cells.len()
    );
    Some(match few {
        0 => (Level::Good, each),
        few if few * 2 > cells.len() => (Level::Poor, short),
        _ => (Level::Limited, short),
    })
}

/// What other programs did meanwhile; nothing is said where nobody looked.
fn foreign(r: &Report<'_>, cells: &[&CellFigures<'_>]) -> Option<Reason> {
    let disturbed = |f: &&&CellFigures<'_>| f.cell.counted().any(Sample::is_disturbed);
    let hits = cells.iter().filter(disturbed).count();
    let load = r.analysis.foreign.as_ref();
    if let Some(load) = load.filter(|_| hits > 0) {
        let text = format!(
            "Other programs used {:.0} % of a CPU in {hits} of {} cells: {}.",
            load.percent,
            cells.len(),
            names_of(&load.programs)
        );
        return Some((Level::Limited, text));
    }
    if let Some(load) = load.filter(|load| load.taken_again > 0) {
        let text = format!(
            "{} taken again, because other programs ran beside: {}.",
            match load.taken_again {
                1 => "One sample was".to_owned(),
                many => format!("{many} samples were"),
            },
            names_of(&load.programs)
        );
        return Some((Level::Good, text));
    }
    let mut samples = cells.iter().flat_map(|f| f.cell.counted());
    let looked = !cells.is_empty() && samples.all(|sample| sample.foreign.is_some());
    looked.then(|| (Level::Good, "Nothing else ran.".to_owned()))
}

fn unproven(cells: &[&CellFigures<'_>]) -> Option<Reason> {
    let hits = cells.iter().filter(|f| !f.cell.path_proof).count();
    let text = format!(
        "In {hits} of {} cells no capture proved the path of the packets.",
        cells.len()
    );
    (hits > 0).then_some((Level::Poor, text))
}

fn unsteady(r: &Report<'_>) -> Option<Reason> {
    if let Some(spread) = spread_percent(r) {
        let text = format!("The machine was unsteady: fixed work spread by {spread:.0} %.");
        return Some((Level::Limited, text));
    }
    let mut warnings = r.analysis.warnings.iter();
    let changed = warnings.find_map(|warning| match warning {
        Warning::SpeedChanged { slower_percent, .. } => Some(slower_percent.abs()),
        _ => None,
    })?;
    let text = format!(
        "The machine changed its speed by {changed:.0} % during the run: ratios hold, absolute values drifted."
    );
    Some((Level::Limited, text))
}

/// How far the fixed piece of work spread, if the run warns of it.
pub(super) fn spread_percent(r: &Report<'_>) -> Option<f64> {
    let mut warnings = r.analysis.warnings.iter();
    warnings.find_map(|warning| match warning {
        Warning::Unsteady { spread_percent, .. } => Some(*spread_percent),
        _ => None,
    })
}

fn stolen(r: &Report<'_>) -> Option<Reason> {
    let hits = r.analysis.warnings.iter().map(|warning| match warning {
        Warning::Cell {
            finding: Finding::StolenTime,
            ..
        } => 1,
        Warning::Cells {
            finding: Finding::StolenTime,
            count,
            ..
        } => *count,
        _ => 0,
    });
    let (hits, all) = (hits.sum::<usize>(), r.analysis.cells.len());
    let text = format!("The hypervisor took CPU time away in {hits} of {all} cells.");
    (hits > 0).then_some((Level::Limited, text))
}

fn by_tool(cells: &[&CellFigures<'_>]) -> Option<Reason> {
    let hits = cells.iter().filter(|f| f.bound == Bound::Tool).count();
    let text = format!(
        "The traffic tool was the bound in {hits} of {} cells: differences between networks are hidden there.",
        cells.len()
    );
    (hits > 0).then_some((Level::Limited, text))
}

fn unfinished(r: &Report<'_>) -> Option<Reason> {
    let open = |f: &&CellFigures<'_>| f.cell.status == CellStatus::Open;
    let hits = r.analysis.cells.iter().filter(open).count();
    let text = format!(
        "The run was broken off: {hits} of {} cells lack samples.",
        r.analysis.cells.len()
    );
    r.analysis.run.interrupted.then_some((Level::Limited, text))
}

/// Networks that are missing altogether weaken no other figure; they are named.
fn unmeasured(r: &Report<'_>) -> Option<Reason> {
    let missing = |f: &&CellFigures<'_>| {
        matches!(
            f.cell.status,
            CellStatus::Unavailable { .. } | CellStatus::Failed { .. }
        )
    };
    let cells: Vec<_> = r.analysis.cells.iter().filter(missing).collect();
    let names: BTreeSet<_> = cells.iter().map(|f| f.cell.key.backend).collect();
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let text = format!(
        "{} could not be measured: {}.",
        counted(cells.len() as u32, "cell"),
        names.join(", ")
    );
    (!cells.is_empty()).then_some((Level::Good, text))
}

fn quick(r: &Report<'_>) -> Option<Reason> {
    let text = "A quick run: believe differences of 10 % and more.";
    let quick = r.analysis.run.quick;
    quick.then(|| (Level::Good, text.to_owned()))
}

fn virtual_machine(r: &Report<'_>) -> Option<Reason> {
    let text =
        "The laboratory is itself a virtual machine: ratios carry over, absolute values do not.";
    let inside = r.analysis.run.env.virtualised;
    inside.then(|| (Level::Good, text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Foreign, Program, Run};
    use crate::report::Answer;
    use crate::results::{Analysis, fixture};

    /// What spoils a run, and what is said of it.
    type Case = (fn(&mut Run), Level, &'static str);

    /// A run of which nothing speaks against the answer.
    fn sound() -> Run {
        let mut run = fixture::guests();
        run.env.noise.clear();
        run
    }

    fn of(run: &Run) -> (Level, String) {
        let trust = Answer::of(&Analysis::of(run)).trust;
        (trust.level, trust.reasons.join(" "))
    }

    #[test]
    fn nothing_speaks_against_a_sound_run() {
        let said = "6 samples each, in turn. Nothing else ran. A quick run: believe differences of 10 % and more. The laboratory is itself a \
                    virtual machine: ratios carry over, absolute values do not.";
        assert_eq!(of(&sound()), (Level::Good, said.to_owned()));
    }

    #[test]
    fn other_programs_are_named() {
        let mut run = sound();
        let foreign = |percent| {
            let program = Program {
                name: "cargo".to_owned(),
                percent,
            };
            Some(Foreign {
                percent,
                programs: vec![program],
                ..Foreign::default()
            })
        };
        for sample in run.cells.iter_mut().flat_map(|cell| &mut cell.samples) {
            sample.foreign = foreign(0.5);
        }
        let (level, said) = of(&run);
        assert!(said.starts_with("6 samples each, in turn. Nothing else ran. "));
        assert_eq!(level, Level::Good);
        let sample = &mut run.cells[0].samples[3];
        (sample.foreign, sample.discarded) = (
            foreign(41.0),
            Some(crate::record::Discard::OtherPrograms {
                words: "again".to_owned(),
            }),
        );
        let again = run.cells[0].samples[4].clone();
        run.cells[0].samples.push(again);
        let (level, said) = of(&run);
        let words = "One sample was taken again, because other programs ran beside: cargo.";
        assert!(said.contains(words), "{said}");
        assert_eq!(level, Level::Good);
        run.cells[0].samples[3].discarded = None;
        let (level, said) = of(&run);
        let words = "Other programs used 41 % of a CPU in 1 of 24 cells: cargo.";
        assert!(said.contains(words), "{said}");
        assert_eq!(level, Level::Limited);
        if let Some(foreign) = &mut run.cells[0].samples[3].foreign {
            foreign.programs.clear();
        }
        let (_, said) = of(&run);
        let words = "in 1 of 24 cells: too short-lived to be named.";
        assert!(said.contains(words), "{said}");
    }

    #[test]
    fn what_speaks_against_an_answer_is_named() {
        let cases: [Case; 7] = [
            (
                |run| run.env.noise = fixture::run().env.noise,
                Level::Limited,
                "The machine was unsteady: fixed work spread by 12 %.",
            ),
            (
                |run| run.interrupted = true,
                Level::Limited,
                "The run was broken off: 0 of 24 cells lack samples.",
            ),
            (
                |run| run.cells[0].samples.truncate(4),
                Level::Limited,
                "3 to 6 samples each, in turn. 1 of 24 cells have fewer than the 6 that a verdict needs.",
            ),
            (
                |run| {
                    run.cells
                        .iter_mut()
                        .for_each(|cell| cell.samples.truncate(4))
                },
                Level::Poor,
                "3 samples each, in turn. 24 of 24 cells have fewer than the 6 that a verdict needs.",
            ),
            (
                |run| run.cells[0].path_proof = false,
                Level::Poor,
                "In 1 of 24 cells no capture proved the path of the packets.",
            ),
            (
                |run| {
                    let samples = &mut run.cells[0].samples;
                    samples.iter_mut().for_each(|s| s.bound = Bound::Tool);
                },
                Level::Limited,
                "The traffic tool was the bound in 1 of 24 cells: differences between networks are hidden there.",
            ),
            (
                |run| {
                    let samples = &mut run.cells[0].samples;
                    samples
                        .iter_mut()
                        .for_each(|s| s.cpu.total.steal_percent = 9.0);
                },
                Level::Limited,
                "The hypervisor took CPU time away in 1 of 24 cells.",
            ),
        ];
        for (spoil, level, words) in cases {
            let mut run = sound();
            spoil(&mut run);
            let (found, said) = of(&run);
            assert_eq!(found, level, "{said}");
            assert!(said.contains(words), "{said}");
        }
    }
}
