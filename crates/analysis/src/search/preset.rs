//! Ready-made goals by name, with the words that a report prints about them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::goal::{Goal, GoalParts, SearchError};

/// A named set of goals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// The throughput of RFC 2544.
    Rfc2544,
    /// ETSI GS NFV-TST 009, binary search with loss verification, max(r) = 2.
    Tst009,
    /// Many short trials for no loss and for 0.5 % of loss, as FD.io CSIT does.
    Quick,
    /// A few seconds for each search, to fit a whole matrix into minutes.
    Brief,
}

impl Preset {
    /// All presets, the strictest first.
    pub const ALL: [Self; 4] = [Self::Rfc2544, Self::Tst009, Self::Quick, Self::Brief];

    /// The name in a study file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rfc2544 => "rfc2544",
            Self::Tst009 => "tst009",
            Self::Quick => "quick",
            Self::Brief => "brief",
        }
    }

    /// The goals, those with less loss first.
    pub fn goals(self) -> Vec<Goal> {
        let seconds = |trial: u64, sum: u64, loss_ratio, exceed_ratio| {
            Goal(GoalParts {
                initial_trial: Duration::from_secs(trial),
                final_trial: Duration::from_secs(trial),
                duration_sum: Duration::from_secs(sum),
                loss_ratio,
                exceed_ratio,
                width: 0.005,
            })
        };
        match self {
            Self::Rfc2544 => vec![seconds(60, 60, 0.0, 0.0)],
            Self::Tst009 => vec![seconds(60, 120, 0.0, 0.5)],
            Self::Quick => vec![seconds(1, 21, 0.0, 0.5), seconds(1, 21, 0.005, 0.5)],
            Self::Brief => vec![Goal(GoalParts {
                initial_trial: Duration::from_millis(400),
                final_trial: Duration::from_millis(400),
                duration_sum: Duration::from_millis(1200),
                loss_ratio: 0.0,
                exceed_ratio: 0.5,
                width: 0.05,
            })],
        }
    }

    /// What is searched for and how it deviates from the trials of RFC 2544, for the report.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Rfc2544 => {
                "Throughput by the goal of RFC 2544: trials of 60 s without one lost frame, bounds \
                 within 0.5 %. The trial length is that of RFC 2544 section 24; loads are chosen by \
                 RFC 9971, which leaves the result the same."
            }
            Self::Tst009 => {
                "Loss verification of ETSI GS NFV-TST 009: trials of 60 s, a load passes when one of \
                 two trials loses no frame, bounds within 0.5 %. Deviates from RFC 2544: a trial \
                 that lost frames may be repeated once."
            }
            Self::Quick => {
                "No loss (NDR) and at most 0.5 % of loss (PDR): up to 21 trials of 1 s at a load, of \
                 which 10 may be worse, bounds within 0.5 %. Deviates from RFC 2544: trials of 1 s \
                 instead of at least 60 s, so buffers can hide loss that a longer trial would show; \
                 nearly half of the trials may lose frames; PDR accepts loss."
            }
            Self::Brief => {
                "No loss, roughly: up to 3 trials of 0.4 s at a load, of which one may lose frames, \
                 bounds within 5 %. Deviates from RFC 2544: trials of 0.4 s instead of at least \
                 60 s, so buffers can hide loss that a longer trial would show, and rare events are \
                 hardly ever met; one trial of three may lose frames; the result is coarse. Good \
                 for comparing systems, not for stating the throughput of one."
            }
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Preset {
    type Err = SearchError;

    fn from_str(name: &str) -> Result<Self, SearchError> {
        Self::ALL
            .into_iter()
            .find(|preset| preset.name() == name)
            .ok_or_else(|| SearchError::UnknownPreset(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_pass_their_own_check() {
        for preset in Preset::ALL {
            for goal in preset.goals() {
                assert_eq!(Goal::new(*goal.parts()), Ok(goal), "{preset}");
            }
        }
    }

    #[test]
    fn one_name_everywhere() {
        for preset in Preset::ALL {
            assert_eq!(preset.to_string().parse(), Ok(preset));
            assert_eq!(
                serde_json::to_string(&preset).unwrap(),
                format!("\"{preset}\"")
            );
        }
        let error = "rfc-2544".parse::<Preset>().unwrap_err().to_string();
        for preset in Preset::ALL {
            assert!(error.contains(preset.name()), "{error}");
        }
    }

    #[test]
    fn words_name_every_deviation() {
        for preset in Preset::ALL {
            let deviates = preset.describe().contains("Deviates from RFC 2544");
            assert_eq!(deviates, preset != Preset::Rfc2544, "{preset}");
        }
    }
}
