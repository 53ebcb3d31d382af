//! What a reader has to know before believing the figures. A warning never changes a figure.

use super::{CellKey, names_of};
use crate::time;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One warning, of the run or of its cells; [`fmt::Display`] is its sentence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Warning {
    /// The run was interrupted.
    Interrupted,
    /// The run broke off; what had been measured is kept.
    BrokeOff {
        /// What happened.
        reason: String,
    },
    /// The run was broken off and went on later.
    WentOn {
        /// When, in ms since 1970 (UTC).
        at_unix_ms: u64,
    },
    /// The run went on with something else than it began with.
    Changed {
        /// What: `kernel`.
        what: String,
        /// What it was.
        then: String,
        /// What it is.
        now: String,
    },
    /// Something that the run made is still there.
    NotUndone {
        /// What.
        what: String,
    },
    /// A network did not come down in order.
    NotTakenDown {
        /// The network and its setting.
        network: String,
        /// What happened.
        reason: String,
    },
    /// The reference over one cable has no figure.
    NoReference {
        /// What was to be measured.
        of: String,
        /// What happened.
        reason: String,
    },
    /// A sample was taken again after an error.
    SampledAgain {
        /// The cell.
        cell: CellKey,
        /// The round.
        round: u32,
        /// What happened.
        reason: String,
    },
    /// Programs that are not the laboratory's used the measured CPUs.
    ForeignLoad {
        /// Mean beside the disturbed samples, in per cent of one CPU.
        percent: f64,
        /// The largest, largest first.
        programs: Vec<String>,
        /// Samples that were taken again for it.
        taken_again: usize,
        /// Samples that count all the same.
        marked: usize,
        /// Samples that count.
        counted: usize,
    },
    /// The virtual hosts share a CPU.
    SharedCpus,
    /// A fixed piece of work did not take the same time always.
    Unsteady {
        /// `before` or `after` the run.
        when: String,
        /// The CPU.
        cpu: usize,
        /// How far the times spread.
        spread_percent: f64,
    },
    /// A CPU was slower, or faster, after the run than before.
    SpeedChanged {
        /// The CPU.
        cpu: usize,
        /// Above 0: slower.
        slower_percent: f64,
    },
    /// Something is to be known of one cell.
    Cell {
        /// What was found.
        finding: Finding,
        /// The cell.
        cell: CellKey,
        /// The figures: a sentence.
        detail: String,
    },
    /// The same is to be known of many cells.
    Cells {
        /// What was found.
        finding: Finding,
        /// How many cells.
        count: usize,
        /// The first of them.
        example: CellKey,
        /// Its figures: a sentence.
        detail: String,
    },
}

impl Warning {
    /// It is about the run as a whole, not about cells.
    pub const fn is_of_the_run(&self) -> bool {
        !matches!(
            self,
            Self::Cell { .. } | Self::Cells { .. } | Self::SampledAgain { .. }
        )
    }
}

/// What may be found of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// Too few samples for a verdict.
    FewSamples,
    /// Nothing showed that the packets took the path.
    NoPathProof,
    /// Packets that no counter explains.
    UnexplainedPackets,
    /// Datagrams arrived damaged.
    DamagedDatagrams,
    /// The figure spreads widely.
    WideSpread,
    /// Samples stand far from the others, and are kept.
    FarSamples,
    /// The hypervisor took CPU time away during a sample.
    StolenTime,
    /// A search ended without a regular result.
    IrregularSearch,
    /// The study's rule of repetition was not met.
    RuleNotMet,
}

impl Finding {
    /// What the cells have in common.
    pub const fn words(self) -> &'static str {
        match self {
            Self::FewSamples => "too few samples for a verdict",
            Self::NoPathProof => "no proof of the path",
            Self::UnexplainedPackets => "packets that no counter explains",
            Self::DamagedDatagrams => "datagrams that arrived damaged",
            Self::WideSpread => "the figure spreads widely",
            Self::FarSamples => "samples that stand far from the others, and are kept",
            Self::StolenTime => "the hypervisor took CPU time away during a sample",
            Self::IrregularSearch => "a search ended without a regular result",
            Self::RuleNotMet => "the samples spread more than the study wants",
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => {
                f.write_str("The run was interrupted: some cells have fewer samples, or none.")
            }
            Self::BrokeOff { reason } => write!(
                f,
                "The run broke off: {reason}. What had been measured is kept; `overlane lab resume` goes on."
            ),
            Self::WentOn { at_unix_ms } => write!(
                f,
                "The run was broken off and went on at {}; rounds that were not complete were measured again.",
                time::utc_text(*at_unix_ms)
            ),
            Self::Changed { what, then, now } => {
                write!(
                    f,
                    "The run went on with another {what}: {now} in place of {then}."
                )
            }
            Self::NotUndone { what } => {
                write!(f, "Not undone: {what}. `overlane lab cleanup` tries again.")
            }
            Self::NotTakenDown { network, reason } => {
                write!(f, "{network} did not come down in order: {reason}")
            }
            Self::NoReference { of, reason } => {
                write!(
                    f,
                    "The reference over one cable could not be measured ({of}): {reason}"
                )
            }
            Self::SampledAgain {
                cell,
                round,
                reason,
            } => write!(f, "{cell}, round {round}: sampled again after: {reason}"),
            Self::ForeignLoad {
                percent,
                programs,
                taken_again,
                marked,
                counted,
            } => write!(
                f,
                "Other programs used {percent:.0} % of a CPU: {}. {taken_again} samples were taken again for it; \
                 {marked} of the {counted} that count were disturbed.",
                names_of(programs)
            ),
            Self::SharedCpus => f.write_str(
                "The virtual hosts share a CPU: CPU per host is not measured, only the total.",
            ),
            Self::Unsteady {
                when,
                cpu,
                spread_percent,
            } => write!(
                f,
                "The machine was unsteady {when} the run, a fixed piece of work on CPU {cpu} spread by {spread_percent:.0} %: \
                 treat differences below {spread_percent:.0} % as noise."
            ),
            Self::SpeedChanged {
                cpu,
                slower_percent,
            } => {
                let direction = if *slower_percent > 0.0 {
                    "slower"
                } else {
                    "faster"
                };
                write!(
                    f,
                    "CPU {cpu} was {:.0} % {direction} after the run than before: absolute values drifted, paired ratios hold.",
                    slower_percent.abs()
                )
            }
            Self::Cell { cell, detail, .. } => write!(f, "{cell}: {detail}"),
            Self::Cells {
                finding,
                count,
                example,
                detail,
            } => write!(
                f,
                "{count} cells: {}. For example {example}: {detail}",
                finding.words()
            ),
        }
    }
}
