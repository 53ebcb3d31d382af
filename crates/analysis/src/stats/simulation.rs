//! Does the verdict keep its promise? Thousands of simulated comparisons, of networks that do not differ and of some that
//! do, under noise of the shapes that machines have.

use super::*;

/// A/A comparisons in all.
const COMPARISONS: usize = 20_000;

/// Pseudo-random numbers (xorshift64*), the same in every run of the test.
struct Random(u64);

impl Random {
    /// From 0 to 1.
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Mean 0, deviation 1: Box and Muller.
    fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Bell-shaped, 3 %.
    Normal,
    /// A tail of slow samples.
    Skewed,
    /// The machine warms up, and wanders besides.
    Drifting,
    /// Every third sample is a quarter slower.
    Bimodal,
    /// A neighbour comes and goes and stays for some samples.
    Sticky,
}

const SHAPES: [Shape; 5] = [
    Shape::Normal,
    Shape::Skewed,
    Shape::Drifting,
    Shape::Bimodal,
    Shape::Sticky,
];

/// A machine that is sampled once a moment.
struct Machine {
    shape: Shape,
    random: Random,
    moment: f64,
    wander: f64,
    disturbed: bool,
}

impl Machine {
    fn new(shape: Shape, seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // The first numbers of neighbouring seeds are alike.
        for _ in 0..8 {
            random.uniform();
        }
        Self {
            shape,
            random,
            moment: 0.0,
            wander: 0.0,
            disturbed: false,
        }
    }

    fn sample(&mut self) -> f64 {
        self.moment += 1.0;
        let random = &mut self.random;
        match self.shape {
            Shape::Normal => 10.0 * (1.0 + 0.03 * random.normal()),
            Shape::Skewed => 10.0 / (1.0 - 0.08 * (1.0 - random.uniform()).ln()),
            Shape::Drifting => {
                self.wander += 0.01 * random.normal();
                10.0 * (1.0 - 0.01 * self.moment + self.wander) * (1.0 + 0.01 * random.normal())
            }
            Shape::Bimodal => {
                let slow = if random.uniform() < 0.33 { 0.75 } else { 1.0 };
                10.0 * slow * (1.0 + 0.02 * random.normal())
            }
            Shape::Sticky => {
                self.disturbed ^= random.uniform() < 0.2;
                let slow = if self.disturbed { 0.7 } else { 1.0 };
                10.0 * slow * (1.0 + 0.02 * random.normal())
            }
        }
    }

    /// Two networks sampled in turn, the order rotated, as the bench does it; the second is `factor` times as fast.
    fn in_turn(&mut self, rounds: u32, factor: f64) -> Comparison {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for round in 1..=rounds {
            let (first, second) = (self.sample(), self.sample());
            let (x, y) = if round % 2 == 0 {
                (first, second)
            } else {
                (second, first)
            };
            a.push((round, x * factor));
            b.push((round, y));
        }
        compare(&a, &b, Better::Higher)
    }

    /// Two networks one after the other.
    fn one_after_the_other(&mut self, samples: usize) -> Comparison {
        let a: Vec<f64> = (0..samples).map(|_| self.sample()).collect();
        let b: Vec<f64> = (0..samples).map(|_| self.sample()).collect();
        unpaired(&a, &b, Better::Higher)
    }
}

/// The promised 5 %, and three standard errors of the simulation itself.
fn most_false(comparisons: usize) -> usize {
    let n = comparisons as f64;
    (0.05 * n + 3.0 * (0.05 * 0.95 * n).sqrt()) as usize
}

fn is_verdict(comparison: &Comparison) -> bool {
    comparison.verdict != Verdict::CannotTell
}

#[test]
fn a_network_against_itself_is_seldom_different() {
    let each = COMPARISONS / SHAPES.len();
    let mut all = 0;
    for shape in SHAPES {
        let differs = |seed: usize| {
            let rounds = 6 + (seed % 5) as u32;
            is_verdict(&Machine::new(shape, 1 + seed as u64).in_turn(rounds, 1.0))
        };
        let wrong = (0..each).filter(|&seed| differs(seed)).count();
        assert!(wrong <= most_false(each), "{shape:?}: {wrong} of {each}");
        all += wrong;
    }
    assert!(all <= most_false(COMPARISONS), "{all} of {COMPARISONS}");
    // A verdict that never comes would keep the promise as well.
    assert!(all > COMPARISONS / 200, "{all} of {COMPARISONS}");
}

#[test]
fn without_pairs_as_seldom_where_nothing_drifts() {
    let shapes = [Shape::Normal, Shape::Skewed, Shape::Bimodal];
    let each = 2_000;
    for shape in shapes {
        let differs = |seed: usize| {
            let samples = 5 + seed % 4;
            is_verdict(&Machine::new(shape, 1 + seed as u64).one_after_the_other(samples))
        };
        let wrong = (0..each).filter(|&seed| differs(seed)).count();
        assert!(wrong <= most_false(each), "{shape:?}: {wrong} of {each}");
        assert!(wrong > 0, "{shape:?}");
    }
}

#[test]
fn two_hundred_at_once_stay_below_nineteen() {
    let differs = |seed: usize| {
        let shape = SHAPES[seed % SHAPES.len()];
        is_verdict(&Machine::new(shape, 77_000 + seed as u64).in_turn(6, 1.0))
    };
    let wrong = (0..200).filter(|&seed| differs(seed)).count();
    assert!(wrong <= 18, "{wrong} of 200");
}

#[test]
fn ten_per_cent_in_three_per_cent_noise_are_found() {
    for (rounds, least_percent) in [(6, 88), (10, 96)] {
        let found = (0..500)
            .filter(|&seed| {
                let mut machine = Machine::new(Shape::Normal, 1 + seed);
                let found = machine.in_turn(rounds, 1.1);
                assert_ne!(found.verdict, Verdict::Worse);
                found.verdict == Verdict::Better
            })
            .count();
        assert!(
            found >= 5 * least_percent,
            "{found} of 500 in {rounds} rounds"
        );
    }
}

#[test]
fn drift_that_hides_a_difference_from_means_does_not_hide_it_from_pairs() {
    // Over 10 rounds the machine loses a fifth of its speed: twice the difference.
    let found = (0..500)
        .filter(|&seed| {
            let mut machine = Machine::new(Shape::Drifting, 1 + seed);
            machine.in_turn(10, 1.1).verdict == Verdict::Better
        })
        .count();
    assert!(found >= 480, "{found} of 500");
}

#[test]
fn the_interval_holds_the_ratio_as_often_as_it_says() {
    let each = 4_000;
    let missed = (0..each)
        .filter(|&seed| {
            let rounds = 6 + (seed % 5) as u32;
            let factor = 1.25;
            let found = Machine::new(Shape::Skewed, 1 + seed as u64).in_turn(rounds, factor);
            let [low, high] = found.ci95.unwrap();
            factor < low || factor > high
        })
        .count();
    assert!(missed <= most_false(each), "{missed} of {each}");
}
