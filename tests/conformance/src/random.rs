//! Random numbers that a seed repeats: splitmix64 (Steele, Lea, Flood 2014).

/// A source of numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 to `limit` - 1; 0 where `limit` is.
    pub const fn below(&mut self, limit: usize) -> usize {
        if limit == 0 {
            return 0;
        }
        (self.number() >> 11) as usize % limit
    }

    /// True `percent` times of a hundred.
    pub const fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of some things.
    pub fn pick<'a, T>(&mut self, things: &'a [T]) -> Option<&'a T> {
        things.get(self.below(things.len()))
    }

    /// One of some values.
    pub const fn of<T: Copy, const N: usize>(&mut self, values: [T; N]) -> T {
        values[self.below(N)]
    }

    /// `value`, `percent` times of a hundred.
    pub fn some<T>(&mut self, percent: usize, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.percent(percent).then(|| value(self))
    }
}
