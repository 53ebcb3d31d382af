//! One trial: what was asked of the traffic generator and what arrived.
//!
//! Made by the measurement, read by [`super::classify()`] and by the report.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One trial at one load.
///
/// Load and duration are the *intended* ones: a trial of 60 s that took 59.9999 s of real time is
/// a trial of 60 s, or it could never satisfy a goal of 60 s.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// Frames per second that the generator was asked to send.
    pub load_pps: f64,
    /// How long it was asked to send, in whole nanoseconds.
    #[serde(rename = "duration_ns", with = "nanoseconds")]
    pub duration: Duration,
    /// Frames that this load and duration mean.
    pub intended: u64,
    /// Frames that the generator really sent.
    pub sent: u64,
    /// Different frames that arrived, in any order; a duplicate is not counted here.
    pub received: u64,
}

impl Trial {
    /// Share of the intended frames that did not arrive, from 0 to 1.
    ///
    /// A frame that the generator could not send counts as lost, for the load was not offered. More
    /// frames out than in (duplicates, foreign traffic) is as wrong as too few and counts likewise.
    /// A trial that intended no frame shows nothing and counts as lost.
    pub fn loss_ratio(&self) -> f64 {
        if self.intended == 0 {
            return 1.0;
        }
        // A generator that sent more than intended must not hide real loss behind the surplus.
        let dropped = self.sent.saturating_sub(self.received);
        let lost = self.intended.abs_diff(self.received).max(dropped);
        (lost as f64 / self.intended as f64).min(1.0)
    }

    /// Frames per second that came through: load × (1 − loss ratio).
    pub fn forwarding_pps(&self) -> f64 {
        self.load_pps * (1.0 - self.loss_ratio())
    }
}

/// Durations as whole nanoseconds, the unit in which they are compared.
mod nanoseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        u64::try_from(value.as_nanos())
            .map_err(serde::ser::Error::custom)?
            .serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(intended: u64, sent: u64, received: u64) -> Trial {
        Trial {
            load_pps: 1000.0,
            duration: Duration::from_millis(400),
            intended,
            sent,
            received,
        }
    }

    #[test]
    fn loss_is_of_the_intended_frames() {
        assert_eq!(trial(1000, 1000, 1000).loss_ratio(), 0.0);
        assert_eq!(trial(1000, 1000, 995).loss_ratio(), 0.005);
        assert_eq!(trial(1000, 1000, 0).loss_ratio(), 1.0);
        assert_eq!(trial(1000, 1000, 995).forwarding_pps(), 995.0);
    }

    #[test]
    fn a_frame_never_sent_is_lost() {
        assert_eq!(trial(1000, 900, 900).loss_ratio(), 0.1);
    }

    #[test]
    fn duplicates_and_surplus_are_loss() {
        assert_eq!(trial(1000, 1000, 1010).loss_ratio(), 0.01);
        assert_eq!(trial(1000, 1100, 1000).loss_ratio(), 0.1);
        assert_eq!(trial(10, 10, 100).loss_ratio(), 1.0);
    }

    #[test]
    fn no_frame_shows_nothing() {
        assert_eq!(trial(0, 0, 0).loss_ratio(), 1.0);
    }

    #[test]
    fn durations_are_written_in_nanoseconds() {
        let text = serde_json::to_string(&trial(4, 3, 2)).unwrap();
        assert!(text.contains("\"duration_ns\":400000000"), "{text}");
        assert_eq!(
            serde_json::from_str::<Trial>(&text).unwrap(),
            trial(4, 3, 2)
        );
    }
}
