//! Why most comparisons of a run cannot tell, and what helps.

use crate::record::names_of;
use crate::report::page::Report;
use crate::results::{Compared, Metric, resolution_percent};
use crate::stats::{Verdict, Why};
use crate::study::Study;

use super::trust::spread_percent;

/// Two sentences; `None` where most comparisons of a figure can tell.
pub(super) fn doubt(r: &Report<'_>) -> Option<String> {
    let comparable = r.analysis.comparisons.iter().filter(|c| judged(c));
    let all = comparable.clone().count();
    let cannot_tell = |c: &&Compared| c.result.verdict == Verdict::CannotTell;
    let open: Vec<&Compared> = comparable.filter(cannot_tell).collect();
    let count = open.len();
    if count * 2 <= all {
        return None;
    }
    let why = why(r, &open);
    let what = what_helps(r);
    Some(format!(
        "{count} of {all} comparisons cannot tell, because {why}. {what}"
    ))
}

/// A comparison of the figure itself, of two cells on the same footing.
fn judged(c: &Compared) -> bool {
    let primary = Metric::primary(c.a.group.workload.test);
    c.metric == primary && c.result.verdict != Verdict::NotComparable
}

fn why(r: &Report<'_>, open: &[&Compared]) -> String {
    let few = |c: &&&Compared| c.result.reason == Some(Why::FewPairs);
    if open.iter().filter(few).count() * 2 > open.len() {
        return format!("they have {}", Why::FewPairs.words());
    }
    let least = resolution_percent(r.analysis.run);
    let is_small = |c: &&&Compared| c.result.within_percent().is_some_and(|far| far < least);
    if open.iter().filter(is_small).count() * 2 > open.len() {
        return format!("these networks differ by less than the {least} % that such a run judges");
    }
    let mut seen = Vec::new();
    if let Some(load) = r.analysis.foreign.as_ref() {
        let percent = load.percent;
        seen.push(format!("other programs used {percent:.0} % of a CPU"));
    }
    if spread_percent(r).is_some() {
        seen.push("the machine was unsteady".to_owned());
    }
    if seen.is_empty() {
        seen.push("the samples of a network differ more than the networks do".to_owned());
    }
    seen.join(" and ")
}

fn what_helps(r: &Report<'_>) -> String {
    let run = r.analysis.run;
    let longer = match run.quick {
        true if Study::shipped(&run.study.name).is_ok() => {
            format!("the whole study (overlane lab run {})", run.study.name)
        }
        true => "the whole study (the same command without --quick)".to_owned(),
        false => format!(
            "a run with more samples (--samples {})",
            run.matrix().samples * 2
        ),
    };
    let longer = format!("{longer} takes longer and sees smaller differences");
    match r.analysis.foreign.as_ref() {
        Some(load) => format!(
            "What helps: close other programs ({}); {longer}.",
            names_of(&load.programs)
        ),
        None if spread_percent(r).is_some() => format!(
            "What helps: close other programs, on a virtual machine also those of its host; {longer}."
        ),
        None => format!("What helps: {longer}."),
    }
}

#[cfg(test)]
mod tests {
    use crate::record::{BackendName, Foreign, MtuClass, Program, Run};
    use crate::report::Answer;
    use crate::results::{Analysis, fixture};

    /// A run in which all networks are alike but for their noise. Jumbo frames are faster by `step`, but for one overlay, which is
    /// faster without.
    fn alike(noise: f64, step: f64) -> Run {
        let mut run = fixture::guests();
        run.env.noise.clear();
        run.warnings.clear();
        for (place, cell) in run.cells.iter_mut().enumerate() {
            for sample in &mut cell.samples {
                let turn = (place * 7 + sample.round as usize * 5) % 11;
                let is_jumbo = cell.key.group.setting.mtu_class == MtuClass::Jumbo;
                let faster = u8::from(is_jumbo != (cell.key.backend == BackendName::OverlaneVxlan));
                sample.goodput_gbps =
                    Some(10.0 + step * f64::from(faster) + noise * (turn as f64 - 5.0));
                sample.started_unix_ms = fixture::STARTED + u64::from(sample.round) * 60_000;
            }
        }
        run
    }

    fn said(run: &Run) -> Option<String> {
        Answer::of(&Analysis::of(run)).doubt
    }

    #[test]
    fn where_comparisons_can_tell_nothing_is_said() {
        assert_eq!(said(&fixture::run()), None);
    }

    #[test]
    fn noise_is_named_with_what_helps() {
        let mut run = alike(0.9, 0.0);
        let text = said(&run).unwrap_or_default();
        assert!(
            text.contains(
                "because the samples of a network differ more than the networks do. What helps: "
            ),
            "{text}"
        );
        run.env.noise = fixture::run().env.noise;
        let text = said(&run).unwrap_or_default();
        assert!(
            text.contains("because the machine was unsteady. "),
            "{text}"
        );
        assert!(text.contains("close other programs, "), "{text}");
    }

    #[test]
    fn too_few_pairs_are_no_noise() {
        let mut run = alike(0.9, 0.0);
        run.cells
            .iter_mut()
            .for_each(|cell| cell.samples.truncate(4));
        let text = said(&run).unwrap_or_default();
        assert!(
            text.contains("because they have fewer than 6 pairs. "),
            "{text}"
        );
    }

    #[test]
    fn a_difference_too_small_for_the_run_is_no_noise() {
        let text = said(&alike(0.01, 0.75)).unwrap_or_default();
        assert!(
            text.contains(
                "because these networks differ by less than the 10 % that such a run judges. "
            ),
            "{text}"
        );
    }

    #[test]
    fn other_programs_are_named_with_what_they_used() {
        let mut run = alike(0.9, 0.0);
        for sample in run.cells.iter_mut().flat_map(|cell| &mut cell.samples) {
            sample.foreign = Some(Foreign {
                percent: 41.0,
                programs: vec![Program {
                    name: "cargo".to_owned(),
                    percent: 41.0,
                }],
                ..Foreign::default()
            });
        }
        let text = said(&run).unwrap_or_default();
        let words =
            "because other programs used 41 % of a CPU. What helps: close other programs (cargo); ";
        assert!(text.contains(words), "{text}");
    }
}
