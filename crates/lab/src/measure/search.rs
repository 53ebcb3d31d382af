//! The search of a rate: each trial is a job of the agents of its own; at the rate that was found an ordinary sample
//! is taken, which says what that rate costs.

use super::figures::{self, Offered};
use super::traffic::Traffic;
use super::{Place, Request, finish, pairs};
use crate::agents::Agents;
use crate::error::LabError;
use crate::machine::cpu_time::CpuTimes;
use crate::watch::Live;
use overlane_analysis::record::{Bound, Sample, SearchRecord, TrialCpu};
use overlane_analysis::search::{Limits, Outcome, Preset, Trial, search};
use std::time::{Duration, Instant};

/// Length of the trial as fast as it goes, which comes first: it warms up, and shows what the sender reaches.
const FREE_TRIAL: Duration = Duration::from_millis(500);
/// The largest load is above that, so that one trial that was slow by chance does not cut the search short: what the
/// sender cannot send is lost.
const HEADROOM: f64 = 1.1;
/// The smallest load is this part of the largest.
const RANGE: f64 = 1e4;
/// Trial time of a search, in duration sums of its goals: loads are decided one after another, each within one.
const BUDGET_SUMS: u32 = 20;

/// Searches, then samples at the highest rate that met the first goal.
pub(super) fn sample(
    place: &Place<'_>,
    agents: &mut Agents,
    request: &Request,
    preset: Preset,
    live: &mut dyn FnMut(Live),
) -> Result<Sample, LabError> {
    let mut trials = Trials {
        place,
        agents,
        request,
        live,
        began: Instant::now(),
        cpu_percent: Vec::new(),
    };
    let max_pps = trials.free_rate()? * HEADROOM;
    let limits = Limits::new(max_pps / RANGE, max_pps).map_err(|error| LabError::Unable {
        reason: format!("no rate can be searched: {error}"),
    })?;
    let goals = preset.goals();
    let sums = goals.iter().map(|goal| goal.parts().duration_sum);
    let budget = sums.sum::<Duration>() * BUDGET_SUMS;
    let outcome = search(&goals, limits, budget, |load_pps, duration| {
        trials.paced(load_pps, duration)
    })?;
    let cpu_percent = trials.cpu_percent;
    let (found_pps, by_sender) = found(&outcome);
    // Where no rate met the goal the smallest is sampled: it says at least what the network does then.
    let rate_pps = found_pps.unwrap_or(limits.min_pps()) / pairs(place.topology);
    let taken = place.take(agents, request, Some(rate_pps), live)?;
    let throughput_pps = outcome
        .goals
        .first()
        .and_then(|goal| goal.conditional_throughput_pps);
    let record = SearchRecord {
        outcome,
        cpu_percent,
    };
    let mut sample = finish(place, request, taken, Some(record), None)?;
    sample.rate_pps = throughput_pps.or(found_pps);
    if by_sender {
        sample.bound = Bound::Tool;
    }
    Ok(sample)
}

/// The highest rate that met the first goal, and whether the sender kept it from being higher: no load was too much for
/// the network, or the first that failed did because more was not sent than was lost.
fn found(outcome: &Outcome) -> (Option<f64>, bool) {
    let Some(first) = outcome.goals.first() else {
        return (None, false);
    };
    let upper = first.relevant_upper_bound_pps;
    let failed = outcome.trials.iter().filter(|trial| {
        // The very load, as it was handed to the trial.
        upper.is_some_and(|upper| trial.load_pps.to_bits() == upper.to_bits())
    });
    let (unsent, lost) = failed.fold((0, 0), |(unsent, lost), trial| {
        (
            unsent + trial.intended.saturating_sub(trial.sent),
            lost + trial.sent.saturating_sub(trial.received),
        )
    });
    let by_sender = first.at_max_load || unsent > lost;
    (first.relevant_lower_bound_pps, by_sender)
}

/// The trials of one search.
struct Trials<'a, 'b> {
    place: &'a Place<'b>,
    agents: &'a mut Agents,
    request: &'a Request,
    live: &'a mut dyn FnMut(Live),
    began: Instant,
    cpu_percent: Vec<TrialCpu>,
}

impl Trials<'_, '_> {
    /// What the senders reach through this network, whatever arrives.
    fn free_rate(&mut self) -> Result<f64, LabError> {
        let Place {
            session, topology, ..
        } = *self.place;
        let cell = &self.request.cell;
        let mut traffic = Traffic::prepare(session, topology, self.agents, cell, None)?;
        traffic.go()?;
        session.interrupts.wait(super::RAMP)?;
        let first = traffic.mark()?;
        session.interrupts.wait(FREE_TRIAL)?;
        let last = traffic.mark()?;
        traffic.stop()?;
        Ok(figures::rate(&first.senders, &last.senders, |counters| {
            counters.sent_packets
        }))
    }

    /// One trial at a load of all pairs together.
    fn paced(&mut self, load_pps: f64, duration: Duration) -> Result<Trial, LabError> {
        let Place {
            session, topology, ..
        } = *self.place;
        let cell = &self.request.cell;
        let rate_pps = Some(load_pps / pairs(topology));
        let mut traffic = Traffic::prepare(session, topology, self.agents, cell, rate_pps)?;
        let before = CpuTimes::now()?;
        let began = Instant::now();
        traffic.go()?;
        session.interrupts.wait(duration)?;
        let lasted = began.elapsed();
        let cpu = CpuTimes::now()?.since(&before, &session.cpus);
        let totals = traffic.stop()?;
        let busy = |host: &Option<overlane_analysis::record::CpuUse>| {
            let host = host.as_ref();
            host.map(|host| host.busy_percent)
        };
        let cpu = TrialCpu {
            sender: busy(&cpu.sender),
            receiver: busy(&cpu.receiver),
            total: cpu.total.busy_percent,
        };
        self.cpu_percent.push(cpu);
        let offered = Offered::of(&totals, true);
        (self.live)(Live {
            rate_pps: Some(offered.received as f64 / lasted.as_secs_f64()),
            cpu_sender_percent: cpu.sender,
            cpu_receiver_percent: cpu.receiver,
            elapsed_seconds: self.began.elapsed().as_secs_f64(),
            ..Live::default()
        });
        Ok(trial(load_pps, duration, offered))
    }
}

/// A trial ends when the order to stop is read, some microseconds early or late: what the pacing wanted sent by then is
/// what was intended, and anything of it that did not arrive is loss.
fn trial(load_pps: f64, duration: Duration, offered: Offered) -> Trial {
    Trial {
        load_pps,
        duration,
        intended: offered.due,
        sent: offered.sent,
        received: offered.received,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_pacing_wanted_is_what_was_intended() {
        let offered = Offered {
            due: 4010,
            sent: 4000,
            received: 3999,
            missed: 10,
        };
        let trial = trial(10_000.0, Duration::from_millis(400), offered);
        assert_eq!(
            (trial.intended, trial.sent, trial.received),
            (4010, 4000, 3999)
        );
        assert!((trial.loss_ratio() - 11.0 / 4010.0).abs() < 1e-12);
        let whole = Offered {
            sent: 4010,
            received: 4010,
            ..offered
        };
        assert_eq!(super::trial(1.0, Duration::ZERO, whole).loss_ratio(), 0.0);
    }

    #[test]
    fn the_first_goal_is_the_one_that_is_sampled() {
        let limits = Limits::new(1.0, 1000.0).unwrap();
        let goals = Preset::Brief.goals();
        let budget = Duration::from_secs(60);
        let of = |capacity_pps: f64, sender_pps: f64| {
            search(&goals, limits, budget, |load_pps, duration| {
                let seconds = duration.as_secs_f64();
                let packets = |rate_pps: f64| (rate_pps * seconds).ceil() as u64;
                let sent = packets(load_pps.min(sender_pps));
                let offered = Offered {
                    due: packets(load_pps),
                    sent,
                    received: sent.min(packets(capacity_pps)),
                    missed: packets(load_pps) - sent,
                };
                Ok::<_, ()>(trial(load_pps, duration, offered))
            })
            .unwrap()
        };
        let (rate_pps, by_sender) = found(&of(500.0, 1e9));
        assert!((440.0..=510.0).contains(&rate_pps.unwrap()), "{rate_pps:?}");
        assert!(!by_sender);
        let (rate_pps, by_sender) = found(&of(900.0, 500.0));
        assert!((440.0..=510.0).contains(&rate_pps.unwrap()), "{rate_pps:?}");
        assert!(by_sender);
        assert_eq!(found(&of(2000.0, 1e9)), (Some(1000.0), true));
        assert_eq!(found(&of(0.0, 1e9)), (None, false));
    }
}
