//! Coordinates of the charts: from a value to a place, and which values the axis names.

/// Width of a chart, in its own units.
pub(in crate::report) const WIDTH: f64 = 440.0;
/// Where the axis begins; names stand before it.
pub(super) const LEFT: f64 = 128.0;
/// Where the axis ends; figures stand behind it.
pub(super) const RIGHT: f64 = 384.0;

/// A bar beyond this multiple of the median bar is cut, so that the others stay readable.
const CUT_ABOVE: f64 = 4.0;

/// A number without zeros at the end of its decimals.
pub(super) fn trimmed(number: String) -> String {
    if number.contains('.') {
        number
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned()
    } else {
        number
    }
}

/// A coordinate with one decimal, without a trailing zero.
pub(super) fn px(v: f64) -> String {
    trimmed(format!("{v:.1}"))
}

/// A linear scale from 0.
pub(super) struct Scale {
    /// The value at the right end.
    pub(super) top: f64,
    /// A bar is longer than the axis.
    pub(super) cut: bool,
}

impl Scale {
    /// A scale that ends at `highest`.
    pub(super) fn up_to(highest: f64) -> Self {
        let top = if highest.is_finite() && highest > 0.0 {
            highest
        } else {
            1.0
        };
        Self { top, cut: false }
    }

    /// The scale for bars that reach to `ends`.
    pub(super) fn for_bars(ends: &[f64]) -> Self {
        let limit = crate::stats::median(ends).map_or(0.0, |m| m * CUT_ABOVE);
        let short = ends
            .iter()
            .copied()
            .filter(|&v| v <= limit)
            .fold(0.0, f64::max);
        let longest = ends.iter().copied().fold(0.0, f64::max);
        if longest > limit {
            // The cut bar fills the axis, the others keep two thirds of it.
            return Self {
                cut: true,
                ..Self::up_to(short * 1.5)
            };
        }
        Self::up_to(longest * 1.02)
    }

    /// The coordinate of a value.
    pub(super) fn x(&self, v: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * (v / self.top).clamp(0.0, 1.0)
    }

    /// Three to six round numbers from 0.
    pub(super) fn ticks(&self) -> Vec<f64> {
        self.ticks_about(4.0)
    }

    /// About `count` round numbers from 0.
    pub(super) fn ticks_about(&self, count: f64) -> Vec<f64> {
        let rough = self.top / count;
        let power = 10.0_f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
        let step = steps
            .into_iter()
            .find(|s| s * power >= rough)
            .unwrap_or(10.0)
            * power;
        (0..=8)
            .map(|i| f64::from(i) * step)
            .take_while(|&v| v <= self.top)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_few_and_round() {
        assert_eq!(Scale::up_to(45.0).ticks(), [0.0, 20.0, 40.0]);
        assert_eq!(Scale::up_to(9.0).ticks(), [0.0, 2.5, 5.0, 7.5]);
        assert_eq!(Scale::up_to(f64::NAN).ticks().len(), 5);
        for top in [0.003, 0.9, 1.0, 7.7, 12.0, 99.0, 400_000.0] {
            let ticks = Scale::up_to(top).ticks();
            assert!((3..=6).contains(&ticks.len()), "{top}: {ticks:?}");
        }
    }

    #[test]
    fn coordinates() {
        assert_eq!(px(12.0), "12");
        assert_eq!(px(12.34), "12.3");
        assert_eq!(Scale::up_to(10.0).x(1e9), RIGHT);
    }
}
