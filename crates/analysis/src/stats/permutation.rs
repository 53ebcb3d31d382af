//! Permutation tests: how often would chance alone part two rows as far as they are?
//!
//! Without a difference the two sides of a pair could be swapped, and the samples of two rows dealt out anew, and
//! nothing would tell. So the share of all swaps (or deals) that part the rows at least as far is the p-value; no shape of the
//! noise is assumed. Where there are too many to count, a fixed sequence of pseudo-random ones stands for them, so that the
//! same samples always give the same p.

/// Most swaps or deals that are counted one by one: all sign patterns of 16 pairs.
const MOST_EXACT: usize = 1 << 16;

/// Swaps or deals that are drawn where there are more. With 20 000 a p of 0.05 is off by 0.0015 (standard error).
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
    if n <= MOST_EXACT.ilog2() as usize {
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

/// Share of all sign patterns whose sum reaches `limit`. One sign changes from pattern to pattern (Gray code).
fn exact_flips(differences: &[f64], limit: f64) -> f64 {
    let patterns = 1_u32 << differences.len();
    let mut signed = differences.to_vec();
    let mut hits = 0_u32;
    for pattern in 1..=patterns {
        // Summed anew: a sum carried along would gather rounding over 65 536 steps.
        hits += u32::from(signed.iter().sum::<f64>().abs() >= limit);
        if let Some(value) = signed.get_mut(pattern.trailing_zeros() as usize) {
            *value = -*value;
        }
    }
    f64::from(hits) / f64::from(patterns)
}

/// Two-sided p-value of the difference of two rows' means: all values dealt out anew.
///
/// `None` when a row is empty.
pub fn two_sample(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() || a.iter().chain(b).any(|v| !v.is_finite()) {
        return None;
    }
    let centre = a.iter().chain(b).sum::<f64>() / (a.len() + b.len()) as f64;
    // About the centre the sum of one side tells the difference of the means.
    let pool: Vec<f64> = a.iter().chain(b).map(|v| v - centre).collect();
    let reach: f64 = pool.iter().map(|v| v.abs()).sum();
    let limit = pool.iter().take(a.len()).sum::<f64>().abs() - SAME * reach;
    if let Some(deals) = choose(pool.len(), a.len()) {
        let hits = count_deals(&pool, a.len(), 0.0, limit);
        return Some(hits as f64 / deals as f64);
    }
    let mut draw = Sequence::new(pool.len() as u64);
    let mut pool = pool;
    let mut hits = 0;
    for _ in 0..DRAWS {
        for i in 0..a.len() {
            let j = i + draw.below(pool.len() - i);
            pool.swap(i, j);
        }
        let sum: f64 = pool.iter().take(a.len()).sum();
        hits += usize::from(sum.abs() >= limit);
    }
    Some(drawn(hits))
}

/// How many ways of taking `take` of `pool` bring the sum to `limit`, on either side.
fn count_deals(pool: &[f64], take: usize, sum: f64, limit: f64) -> usize {
    if take == 0 {
        return usize::from(sum.abs() >= limit);
    }
    let Some((first, rest)) = pool.split_first() else {
        return 0;
    };
    let with = count_deals(rest, take - 1, sum + first, limit);
    if rest.len() < take {
        return with;
    }
    with + count_deals(rest, take, sum, limit)
}

/// n over k, where it is no more than is counted one by one.
fn choose(n: usize, k: usize) -> Option<usize> {
    let mut ways = 1_usize;
    for i in 0..k.min(n - k) {
        ways = ways * (n - i) / (i + 1);
        if ways > MOST_EXACT {
            return None;
        }
    }
    Some(ways)
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

    /// A number below `limit`, which is far below 2³²: what the division leaves uneven is below 10⁻⁶.
    fn below(&mut self, limit: usize) -> usize {
        (((self.next() >> 32) * limit as u64) >> 32) as usize
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
    fn deals_by_hand() {
        // 1 2 3 against 4 5 6: the most extreme of 20 deals, and its mirror.
        assert_eq!(
            two_sample(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]),
            Some(2.0 / 20.0)
        );
        // 1 against 2 3: first value smallest or largest: sums about the mean −1, 0, 1.
        assert_eq!(two_sample(&[1.0], &[2.0, 3.0]), Some(2.0 / 3.0));
        assert_eq!(two_sample(&[2.0; 4], &[2.0; 4]), Some(1.0));
        assert_eq!(two_sample(&[], &[1.0]), None);
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
        let (a, b) = near.split_at(50);
        let p = two_sample(a, b).unwrap();
        assert!(p > 0.05, "{p}");
        assert_eq!(two_sample(a, b), Some(p));
        let moved: Vec<f64> = b.iter().map(|v| v + 10.0).collect();
        assert!(two_sample(a, &moved).unwrap() < 0.001);
    }

    #[test]
    fn binomials_end_where_counting_does() {
        assert_eq!(choose(12, 6), Some(924));
        assert_eq!(choose(18, 9), Some(48_620));
        assert_eq!(choose(20, 10), None);
        assert_eq!(choose(5, 5), Some(1));
    }
}
