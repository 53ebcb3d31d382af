//! Which loads are asked for, one by one, in systems whose loss is known.

use super::*;
use crate::search::{Preset, Trial};

const LIMITS: (f64, f64) = (10.0, 1000.0);

fn limits() -> Limits {
    Limits::new(LIMITS.0, LIMITS.1).unwrap()
}

fn trial(ask: Ask, loss_ratio: f64) -> Trial {
    let intended = 1_000_000;
    Trial {
        load_pps: ask.load_pps,
        duration: ask.duration,
        intended,
        sent: intended,
        received: intended - (intended as f64 * loss_ratio) as u64,
    }
}

/// The loads asked for when every load above `threshold` loses what is above it.
fn loads(preset: Preset, threshold: f64) -> Vec<f64> {
    loads_for(preset.goals()[0], |load| (1.0 - threshold / load).max(0.0))
}

/// The loads asked for by the goal of RFC 2544 when the loss is a function of the load.
fn loads_losing(loss_ratio: impl Fn(f64) -> f64) -> Vec<f64> {
    loads_for(Preset::Rfc2544.goals()[0], loss_ratio)
}

fn loads_for(goal: Goal, loss_ratio: impl Fn(f64) -> f64) -> Vec<f64> {
    let mut seeker = Seeker::new(&goal, None);
    let mut book = Book::default();
    let mut loads = Vec::new();
    while let Some(ask) = seeker.next(&book, limits()) {
        loads.push(ask.load_pps);
        book.add(trial(ask, loss_ratio(ask.load_pps)));
    }
    loads
}

#[test]
fn begins_at_the_largest_load_then_at_what_came_through() {
    let found = loads(Preset::Rfc2544, 250.0);
    assert_eq!(found[..2], [1000.0, 250.0]);
    // That rate passes and one step above fails.
    assert_eq!(found.len(), 3, "{found:?}");
    assert!((found[2] - 250.0 / 0.995).abs() < 1e-6, "{found:?}");
}

#[test]
fn the_largest_load_may_be_all_there_is() {
    assert_eq!(loads(Preset::Rfc2544, 1000.0), [1000.0]);
}

#[test]
fn nothing_passes_and_it_is_soon_known() {
    assert_eq!(loads(Preset::Rfc2544, 0.0), [1000.0, 10.0]);
}

#[test]
fn collapse_under_overload_does_not_mislead() {
    // Above 400 almost nothing comes through, so the rate at the largest load says little.
    let found = loads_losing(|load| if load > 400.0 { 0.98 } else { 0.0 });
    assert_eq!(found[1], 20.0);
    assert!(found.len() < 25, "{found:?}");
}

#[test]
fn even_loss_at_all_loads_does_not_make_it_creep() {
    // The rate that comes through is always a little less; growing steps take over.
    let found = loads_losing(|load| if load > 50.0 { 0.1 } else { 0.0 });
    assert_eq!(found[..3], [1000.0, 900.0, 810.0]);
    assert!(found.len() < 25, "{found:?}");
}

#[test]
fn bounds_of_a_goal_before_are_tried_smaller_first() {
    let near = Bounds {
        lower: Some(200.0),
        upper: Some(200.5),
    };
    let mut seeker = Seeker::new(&Preset::Rfc2544.goals()[0], Some(near));
    let mut book = Book::default();
    for load in [200.0, 200.5] {
        let ask = seeker.next(&book, limits()).unwrap();
        assert_eq!(ask.load_pps, load);
        book.add(trial(ask, (ask.load_pps - 200.0) / 100.0));
    }
    assert_eq!(seeker.next(&book, limits()), None);
}

#[test]
fn stages_grow_to_the_goal() {
    for preset in Preset::ALL {
        for goal in preset.goals() {
            let stages = stages(&goal);
            assert_eq!(stages.last(), Some(&goal));
            for pair in stages.windows(2) {
                let (before, after) = (pair[0].parts(), pair[1].parts());
                assert!(before.duration_sum < after.duration_sum);
                assert!(before.width > after.width);
            }
            for stage in &stages {
                assert_eq!(Goal::new(*stage.parts()), Ok(*stage));
            }
        }
    }
    let lengths = Preset::ALL.map(|preset| stages(&preset.goals()[0]).len());
    assert_eq!(lengths, [1, 2, 3, 2]);
}

#[test]
fn one_trial_is_enough_in_the_first_stage() {
    for (initial_ns, times) in [
        (1_000_003, 3),
        (400_000_000, 3),
        (700_000_001, 7),
        (9_999_999, 13),
    ] {
        let initial_trial = Duration::from_nanos(initial_ns);
        let goal = Goal::new(GoalParts {
            initial_trial,
            final_trial: initial_trial,
            duration_sum: initial_trial * times,
            ..*Preset::Brief.goals()[0].parts()
        });
        let first = stages(&goal.unwrap())[0];
        assert_eq!(first.parts().duration_sum, initial_trial);
    }
}

#[test]
fn a_stage_confirms_the_bounds_of_the_one_before() {
    // 1000, the rate that came through, one (doubled) width above it: the coarse bounds are
    // 250 and 277. Their middle fails twice and takes the place of 277; 250 passes once more.
    let found = loads(Preset::Brief, 250.0).into_iter().map(f64::round);
    assert!(found.eq([1000.0, 250.0, 277.0, 263.0, 263.0, 250.0]));
}

#[test]
fn loads_are_short_numbers() {
    assert_eq!(tidy(123.456_789_012_345, f64::floor), 123.456_789_0);
    assert_eq!(tidy(123.456_789_012_345, f64::ceil), 123.456_789_1);
    assert_eq!(tidy(98_765_432_101.5, f64::floor), 98_765_432_101.0);
    for load in loads(Preset::Rfc2544, 123.4) {
        let digits = load.to_string().bytes().filter(u8::is_ascii_digit).count();
        assert!(digits <= 10, "{load}");
    }
}
