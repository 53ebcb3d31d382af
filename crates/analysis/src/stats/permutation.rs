//! The permutation test: how often would chance alone part two rows as far as they are?
//!
//! Without a difference the two sides of a pair could be swapped, and nothing would tell. So the share of all swaps that part
//! the rows at least as far is the p-value; no shape of the noise is assumed. Where there are too many to count, a fixed sequence
//! of pseudo-random ones stands for them, so that the same samples always give the same p.

/// Most pairs whose swaps are counted one by one: 65 536 sign patterns.
const MOST_EXACT: usize = 16;

/// Swaps that are drawn where there are more. With 20 000 a p of 0.05 is off by 0.0015 (standard error).
const DRAWS: usize = 20_000;

/// Sums that differ by less, relative to the largest possible, are the same but for rounding.
const SAME: f64 = 1e-12;

/// Two-sided p-value of logarithms of paired ratios (or differences) against 0: signs flipped pair by pair.
///
/// `None` without pairs.
pub fn sign_flip(differences: &[f64]) -> Option<f64> {
    let n = differences.len();
    if n == 0 || differences.iter().any(|d| !d.is_finite()) {
        return None;
    }
    let reach: f64 = differences.iter().map(|d| d.abs()).sum();
    let limit = differences.iter().sum::<f64>().abs() - SAME * reach;
    if n <= MOST_EXACT {
        return Some(exact_flips(differences, limit));
    }
    let mut draw = Sequence::new(n as u64);
    let mut hits = 0;
    for _ in 0..DRAWS {
        let mut bits = 0;
        let mut sum = 0.0;
        for (i, d) in differences.iter().enumerate() {
            if i % 64 == 0 {
                bits = draw.next();
            }
            sum += if bits >> (i % 64) & 1 == 0 { *d } else { -d };
        }
        hits += usize::from(sum.abs() >= limit);
    }
    Some(drawn(hits))
}

/// Share of all sign patterns whose sum reaches `limit`. One sign changes from pattern to pattern (Gray code). The last sign
/// stays: its other half of the patterns are the mirrors of these.
fn exact_flips(differences: &[f64], limit: f64) -> f64 {
    let patterns = 1_u32 << (differences.len() - 1);
    let mut signed = differences.to_vec();
    let mut hits = 0_u32;
    for pattern in 1..=patterns {
        // Summed anew: a sum carried along would gather rounding over thousands of steps.
        hits += u32::from(signed.iter().sum::<f64>().abs() >= limit);
        if let Some(value) = signed.get_mut(pattern.trailing_zeros() as usize) {
            *value = -*value;
        }
    }
    f64::from(hits) / f64::from(patterns)
}

/// The p of drawn permutations. What was measured is one of them, so p is never 0.
fn drawn(hits: usize) -> f64 {
    (hits + 1) as f64 / (DRAWS + 1) as f64
}

/// A fixed sequence of pseudo-random numbers (SplitMix64, Steele, Lea and Flood 2014).
struct Sequence(u64);

impl Sequence {
    fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_by_hand() {
        // All alike: this pattern and its mirror, of 2ⁿ.
        assert_eq!(sign_flip(&[1.0; 6]), Some(2.0 / 64.0));
        assert_eq!(sign_flip(&[-0.1; 5]), Some(2.0 / 32.0));
        // 1 2 −3: sums of ±1 ±2 ±3 are 0 0 2 2 4 4 6 6; seen 0, so all of them.
        assert_eq!(sign_flip(&[1.0, 2.0, -3.0]), Some(1.0));
        // 1 2 3 −1: seen 5. |±1 ±2 ±3 ±1| reaches 5 with −1 in either of two places and 7 with none: 2 · 3 of 16.
        assert_eq!(sign_flip(&[1.0, 2.0, 3.0, -1.0]), Some(6.0 / 16.0));
        assert_eq!(sign_flip(&[0.0; 8]), Some(1.0));
        assert_eq!(sign_flip(&[]), None);
        assert_eq!(sign_flip(&[f64::NAN]), None);
    }

    #[test]
    fn the_published_sequence() {
        // What SplitMix64 gives from the seed 1234567.
        let mut draw = Sequence::new(1_234_567);
        let drawn = [draw.next(), draw.next(), draw.next()];
        assert_eq!(
            drawn,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn drawn_ones_come_near_the_counted() {
        // 16 pairs are counted; the same values, halved and doubled in number, are drawn.
        let values: Vec<f64> = (0..16).map(|i| f64::from(i % 7) - 2.2).collect();
        let counted = sign_flip(&values).unwrap();
        let mut draw = Sequence::new(1);
        let mut hits = 0;
        let limit = values.iter().sum::<f64>().abs() - 1e-9;
        for _ in 0..DRAWS {
            let bits = draw.next();
            let sum: f64 = values
                .iter()
                .enumerate()
                .map(|(i, v)| if bits >> i & 1 == 0 { *v } else { -v })
                .sum();
            hits += usize::from(sum.abs() >= limit);
        }
        assert!((drawn(hits) - counted).abs() < 0.01, "{counted}");
    }

    #[test]
    fn long_rows_are_drawn_and_always_the_same() {
        let far: Vec<f64> = (0..40).map(|i| 1.0 + 0.01 * f64::from(i)).collect();
        assert_eq!(sign_flip(&far), Some(1.0 / (DRAWS + 1) as f64));
        let near: Vec<f64> = (0..100).map(|i| f64::from((i * 37) % 11) - 5.0).collect();
        let p = sign_flip(&near).unwrap();
        assert!(p > 0.05 && p <= 1.0, "{p}");
        assert_eq!(sign_flip(&near), Some(p));
    }
}
