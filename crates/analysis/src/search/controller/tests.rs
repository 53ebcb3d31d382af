//! Simulated systems: what the search promises for every one of them, and what it costs for some.

use std::convert::Infallible;

use proptest::prelude::*;

use super::*;
use crate::search::Preset;
use crate::search::goal::GoalParts;

const MIN_PPS: f64 = 100.0;
const MAX_PPS: f64 = 1_000_000.0;
const HOURS: Duration = Duration::from_secs(1_000_000);

fn limits() -> Limits {
    Limits::new(MIN_PPS, MAX_PPS).unwrap()
}

/// A trial of which this share is lost.
fn trial(load_pps: f64, duration: Duration, loss_ratio: f64) -> Trial {
    let intended = (load_pps * duration.as_secs_f64()).round() as u64;
    let lost = (intended as f64 * loss_ratio).ceil() as u64;
    Trial {
        load_pps,
        duration,
        intended,
        sent: intended,
        received: intended.saturating_sub(lost),
    }
}

/// Loss of a system that forwards everything up to its capacity and drops the rest.
fn tail_drop(load_pps: f64, capacity_pps: f64) -> f64 {
    (1.0 - capacity_pps / load_pps).max(0.0)
}

/// Searches in a system whose loss ratio is a function of load and number of the trial.
fn run(goals: &[Goal], budget: Duration, mut loss: impl FnMut(f64, u64) -> f64) -> Outcome {
    let mut count = 0;
    let result: Result<_, Infallible> = search(goals, limits(), budget, |load, duration| {
        count += 1;
        Ok(trial(load, duration, loss(load, count).clamp(0.0, 1.0)))
    });
    result.unwrap()
}

fn trial_time(outcome: &Outcome) -> Duration {
    outcome.trials.iter().map(|trial| trial.duration).sum()
}

/// A number from 0 to 1 that looks random but depends on the arguments only.
fn noise(seed: u64, n: u64) -> f64 {
    let mut x = seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for _ in 0..3 {
        x = (x ^ (x >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    (x >> 11) as f64 / (1_u64 << 53) as f64
}

#[test]
fn the_largest_load_is_the_bound() {
    for preset in Preset::ALL {
        let outcome = run(&preset.goals(), HOURS, |_, _| 0.0);
        for result in &outcome.goals {
            assert!(result.regular && result.at_max_load && !result.is_regular_by_rfc9971());
            assert_eq!(result.relevant_lower_bound_pps, Some(MAX_PPS));
            assert_eq!(result.relevant_upper_bound_pps, None);
            assert_eq!(result.conditional_throughput_pps, Some(MAX_PPS));
            assert_eq!((result.width(), &result.why_irregular), (None, &None));
        }
        assert!(outcome.trials.iter().all(|trial| trial.load_pps == MAX_PPS));
    }
}

#[test]
fn a_dead_path_is_soon_known() {
    let outcome = run(&Preset::Quick.goals(), HOURS, |_, _| 1.0);
    for result in &outcome.goals {
        assert!(!result.regular && !result.at_max_load);
        assert_eq!(result.relevant_lower_bound_pps, None);
        assert_eq!(result.conditional_throughput_pps, None);
        assert!(
            result
                .why_irregular
                .as_ref()
                .unwrap()
                .contains("smallest load")
        );
    }
    // The smallest load must fail in more than half of 21 s.
    assert!(
        trial_time(&outcome) <= Duration::from_secs(13),
        "{outcome:?}"
    );
}

#[test]
fn brief_takes_seconds() {
    for capacity in [150.0, 2_000.0, 54_321.0, 400_000.0, 990_000.0] {
        let outcome = run(&Preset::Brief.goals(), HOURS, |load, _| {
            tail_drop(load, capacity)
        });
        assert!(outcome.goals[0].is_regular_by_rfc9971());
        let time = trial_time(&outcome);
        assert!(time <= Duration::from_secs(4), "{time:?} for {capacity}");
    }
}

#[test]
fn rfc2544_takes_few_trials() {
    for capacity in [150.0, 2_000.0, 54_321.0, 400_000.0, 990_000.0] {
        let outcome = run(&Preset::Rfc2544.goals(), HOURS, |load, _| {
            tail_drop(load, capacity)
        });
        assert!(outcome.goals[0].is_regular_by_rfc9971());
        let count = outcome.trials.len();
        assert!(count <= 6, "{count} for {capacity}");
    }
}

#[test]
fn each_goal_has_its_own_threshold() {
    // 0.2 % of loss from 300 000 on, tail drop from 500 000 on.
    let loss = |load: f64, _| match load {
        load if load <= 300_000.0 => 0.0,
        load => tail_drop(load, 500_000.0).max(0.002),
    };
    let outcome = run(&Preset::Quick.goals(), HOURS, loss);
    let [ndr, pdr] = &outcome.goals[..] else {
        panic!("{outcome:?}")
    };
    assert!(ndr.is_regular_by_rfc9971() && pdr.is_regular_by_rfc9971());
    let between = |value: Option<f64>, low: f64, high: f64| {
        assert!(
            (low..=high).contains(&value.unwrap()),
            "{value:?} {low} {high}"
        );
    };
    between(ndr.relevant_lower_bound_pps, 298_400.0, 300_000.0);
    between(ndr.relevant_upper_bound_pps, 300_000.0, 301_600.0);
    between(pdr.relevant_lower_bound_pps, 499_900.0, 502_600.0);
    between(pdr.relevant_upper_bound_pps, 502_400.0, 505_100.0);
    between(pdr.conditional_throughput_pps, 498_900.0, 500_100.0);
}

#[test]
fn results_keep_the_order_of_the_goals() {
    let mut goals = Preset::Quick.goals();
    goals.extend(Preset::Brief.goals());
    goals.reverse();
    let outcome = run(&goals, HOURS, |load, _| tail_drop(load, 250_000.0));
    let found: Vec<Goal> = outcome.goals.iter().map(|result| result.goal).collect();
    assert_eq!(found, goals);
    assert!(outcome.goals.iter().all(|result| result.regular));
    // The search itself begins with the shortest trials.
    assert_eq!(outcome.trials[0].duration, Duration::from_millis(400));
    assert!(outcome.trials.is_sorted_by_key(|trial| trial.duration));
}

#[test]
fn a_goal_unsettled_by_a_later_one_is_searched_again() {
    let goal = |seconds, width| {
        Goal::new(GoalParts {
            initial_trial: Duration::from_secs(seconds),
            final_trial: Duration::from_secs(seconds),
            duration_sum: Duration::from_secs(seconds),
            loss_ratio: 0.0,
            exceed_ratio: 0.0,
            width,
        })
    };
    let goals = [goal(1, 0.005).unwrap(), goal(2, 0.3).unwrap()];
    // The system becomes slower once the first goal is settled, after three trials.
    let outcome = run(&goals, HOURS, |load, n| {
        tail_drop(load, if n <= 3 { 500_000.0 } else { 200_000.0 })
    });
    assert_eq!(outcome.trials[3].duration, Duration::from_secs(2));
    for result in &outcome.goals {
        assert!(result.is_regular_by_rfc9971(), "{result:?}");
        assert!(result.relevant_lower_bound_pps.unwrap() <= 200_000.0);
        assert!(result.relevant_upper_bound_pps.unwrap() > 200_000.0);
    }
}

#[test]
fn rare_hiccups_are_forgiven_only_by_an_exceed_ratio() {
    // Each fifth trial loses a third, whatever the load.
    let hiccups = |load: f64, n: u64| match n % 5 {
        4 => 0.3,
        _ => tail_drop(load, 250_000.0),
    };
    let quick = run(&Preset::Quick.goals(), HOURS, hiccups);
    let lower = quick.goals[0].relevant_lower_bound_pps.unwrap();
    assert!((247_000.0..=250_000.0).contains(&lower), "{lower}");
}

#[test]
fn used_up_budget_is_said() {
    let goals = Preset::Rfc2544.goals();
    let minutes = |n: u64| Duration::from_secs(60 * n);
    let loss = |load: f64, _| tail_drop(load, 250_000.0);

    let none = run(&goals, minutes(1) - Duration::from_nanos(1), loss);
    assert!(none.trials.is_empty());
    let why = none.goals[0].why_irregular.as_ref().unwrap();
    assert!(why.contains("without any load decided"), "{why}");

    let two = run(&goals, minutes(2), loss);
    assert_eq!(two.trials.len(), 2);
    let why = two.goals[0].why_irregular.as_ref().unwrap();
    assert!(why.contains("within 75.0 %"), "{why}");
    // What was found is told, though irregular.
    assert_eq!(two.goals[0].relevant_lower_bound_pps, Some(250_000.0));
    assert_eq!(two.goals[0].conditional_throughput_pps, Some(250_000.0));
    assert!(!two.goals[0].regular);

    assert!(run(&goals, minutes(3), loss).goals[0].regular);
}

#[test]
fn asked_load_and_duration_are_entered() {
    let outcome: Result<_, Infallible> = search(
        &Preset::Rfc2544.goals(),
        limits(),
        HOURS,
        |load, duration| {
            let measured = trial(load, duration, tail_drop(load, 250_000.0));
            Ok(Trial {
                load_pps: load * 0.99,
                duration: duration.mul_f64(0.999),
                ..measured
            })
        },
    );
    let outcome = outcome.unwrap();
    assert!(outcome.goals[0].regular);
    assert_eq!(outcome.trials[0].load_pps, MAX_PPS);
    assert_eq!(outcome.trials[0].duration, Duration::from_secs(60));
}

#[test]
fn errors_come_through_and_no_goal_means_no_trial() {
    let failed = search(&Preset::Brief.goals(), limits(), HOURS, |_, _| {
        Err("generator died")
    });
    assert_eq!(failed, Err("generator died"));
    let empty = search(&[], limits(), HOURS, |_, _| Err("never called")).unwrap();
    assert_eq!((empty.trials.len(), empty.goals.len()), (0, 0));
}

#[test]
fn outcome_is_read_back_as_written() {
    let outcome = run(&Preset::Quick.goals(), Duration::from_secs(7), |load, _| {
        tail_drop(load, 123_456.7)
    });
    let text = serde_json::to_string(&outcome).unwrap();
    assert!(text.contains("\"relevant_lower_bound_pps\":"), "{text}");
    assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome);
}

fn any_goal() -> impl Strategy<Value = Goal> {
    (
        1..1000_u64,
        1..20_u32,
        1..5_u32,
        prop_oneof![Just(0.0), 0.0..0.05],
        0.0..0.8,
        0.001..0.3,
    )
        .prop_map(|(ms, longer, sum, loss_ratio, exceed_ratio, width)| {
            let initial_trial = Duration::from_millis(ms);
            Goal::new(GoalParts {
                initial_trial,
                final_trial: initial_trial * longer,
                duration_sum: initial_trial * longer * sum,
                loss_ratio,
                exceed_ratio,
                width,
            })
            .unwrap()
        })
}

/// Checks what must hold for every system, however it behaves.
fn check_promises(
    outcome: &Outcome,
    goals: &[Goal],
    budget: Duration,
) -> Result<(), TestCaseError> {
    prop_assert!(trial_time(outcome) <= budget);
    prop_assert_eq!(outcome.goals.len(), goals.len());
    for trial in &outcome.trials {
        prop_assert!((MIN_PPS..=MAX_PPS).contains(&trial.load_pps), "{trial:?}");
    }
    for result in &outcome.goals {
        let (lower, upper) = (
            result.relevant_lower_bound_pps,
            result.relevant_upper_bound_pps,
        );
        prop_assert_eq!(result.regular, result.why_irregular.is_none());
        prop_assert_eq!(lower.is_some(), result.conditional_throughput_pps.is_some());
        if let (Some(lower), Some(upper)) = (lower, upper) {
            prop_assert!(lower < upper);
        }
        if result.at_max_load {
            prop_assert!(result.regular && lower == Some(MAX_PPS) && upper.is_none());
        } else if result.regular {
            let width = result.goal.parts().width;
            prop_assert!(
                result.width().unwrap() <= width * (1.0 + 1e-6),
                "{result:?}"
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn deterministic_thresholds_are_bracketed(
        capacity in 150.0..900_000.0_f64, goals in prop::collection::vec(any_goal(), 1..4)
    ) {
        let goals: Vec<Goal> = goals
            .into_iter()
            .map(|goal| Goal::new(GoalParts { loss_ratio: 0.0, ..*goal.parts() }).unwrap())
            .collect();
        // One lost frame at least above the threshold, none below.
        let outcome = run(&goals, HOURS, |load, _| tail_drop(load, capacity));
        check_promises(&outcome, &goals, HOURS)?;
        for result in &outcome.goals {
            let bounds = (result.relevant_lower_bound_pps, result.relevant_upper_bound_pps);
            let shortest = goals.iter().map(|g| g.parts().initial_trial).min().unwrap();
            if capacity < 1.0 / shortest.as_secs_f64() {
                continue;
            }
            prop_assert!(result.is_regular_by_rfc9971(), "{result:?}");
            prop_assert!(bounds.0.unwrap() <= capacity * (1.0 + 1e-12));
            prop_assert!(bounds.1.unwrap() > capacity);
        }
    }

    #[test]
    fn a_threshold_for_every_loss_ratio(
        capacity in 20_000.0..900_000.0_f64, goals in prop::collection::vec(any_goal(), 1..4)
    ) {
        let outcome = run(&goals, HOURS, |load, _| tail_drop(load, capacity));
        check_promises(&outcome, &goals, HOURS)?;
        for result in &outcome.goals {
            let threshold = capacity / (1.0 - result.goal.parts().loss_ratio);
            // Lost frames are whole: one frame of the shortest trial is the resolution.
            let shortest = outcome.trials.iter().map(|t| t.duration).min().unwrap();
            let frame = 2.0 / shortest.as_secs_f64();
            prop_assert!(result.relevant_lower_bound_pps.unwrap() <= threshold + frame);
            prop_assert!(result.relevant_upper_bound_pps.is_none_or(|pps| pps > threshold - frame));
        }
    }

    #[test]
    fn any_noise_ends_within_the_budget(
        seed in any::<u64>(),
        goals in prop::collection::vec(any_goal(), 1..4),
        budget_s in 0..2_000_u64,
        capacity in 1.0..2_000_000.0_f64,
        amount in prop_oneof![Just(0.001), Just(0.1), Just(1.0)],
    ) {
        let budget = Duration::from_secs(budget_s);
        let noisy = run(&goals, budget, |load, n| {
            tail_drop(load, capacity) + amount * (noise(seed, n) - 0.3)
        });
        check_promises(&noisy, &goals, budget)?;
    }

    #[test]
    fn loss_may_fall_with_the_load(
        seed in any::<u64>(), goals in prop::collection::vec(any_goal(), 1..4)
    ) {
        // Each load has its own loss, without any order; every second one has none.
        let outcome = run(&goals, HOURS, |load, _| noise(seed, load.to_bits()) - 0.5);
        check_promises(&outcome, &goals, HOURS)?;
        // The system is steady, so the search comes to an end by itself.
        for result in &outcome.goals {
            prop_assert!(result.regular || result.relevant_lower_bound_pps.is_none(), "{result:?}");
        }
    }
}
