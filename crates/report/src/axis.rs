//! Scales of drawings: the coordinate of a number on an axis, and the numbers at the ticks.

/// A linear scale from numbers to coordinates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// A scale that puts `low` at coordinate `from` and `high` at `to`; an empty range is widened.
    pub fn new(low: f64, high: f64, from: f64, to: f64) -> Self {
        let (low, high) =
            if low.is_finite() && high.is_finite() && low < high && (high - low).is_finite() {
                (low, high)
            } else if low.is_finite() && low.abs() < 1e300 {
                (low, low + 1.0f64.max(low.abs()))
            } else {
                (0.0, 1.0)
            };
        Self {
            low,
            high,
            from,
            to,
        }
    }

    /// The coordinate of a number; numbers outside the range are drawn at its ends.
    pub fn at(&self, value: f64) -> f64 {
        let share = (value - self.low) / (self.high - self.low);
        let share = if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.0
        };
        self.from + share * (self.to - self.from)
    }

    /// Round numbers inside the range, about `wanted` of them.
    pub fn ticks(&self, wanted: usize) -> Vec<f64> {
        let step = round_step((self.high - self.low) / wanted.max(1) as f64);
        let first = (self.low / step).ceil();
        (0..=2 * wanted.max(1) + 2)
            .map(|i| (first + i as f64) * step)
            .filter(|t| t.is_finite() && *t <= self.high + 1e-9 * step)
            // Otherwise the zero tick may print as −0.
            .map(|t| if t == 0.0 { 0.0 } else { t })
            .collect()
    }
}

/// The next number of the form 1, 2 or 5 times a power of ten.
fn round_step(raw: f64) -> f64 {
    if !(raw.is_finite() && raw > 1e-300) {
        return 1.0;
    }
    let power = 10f64.powf(raw.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|f| f * power >= raw * (1.0 - 1e-9))
        .unwrap_or(10.0);
    factor * power
}

/// The range of the finite numbers among `values`.
pub fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values
        .filter(|v| v.is_finite())
        .fold(None, |range, v| match range {
            None => Some((v, v)),
            Some((low, high)) => Some((f64::min(low, v), f64::max(high, v))),
        })
}

/// Moves positions apart until adjacent ones differ by at least `gap`, all within `low..high` if they fit. The order
/// stays. Returns the new positions in the order of the input.
pub fn spread(positions: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..positions.len()).collect();
    order.sort_by(|a, b| positions[*a].total_cmp(&positions[*b]));
    let mut placed = positions.to_vec();
    let mut next = low;
    for &i in &order {
        placed[i] = placed[i].max(next);
        next = placed[i] + gap;
    }
    let mut limit = high;
    for &i in order.iter().rev() {
        placed[i] = placed[i].min(limit);
        limit = placed[i] - gap;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn steps_are_round() {
        for (raw, step) in [
            (0.9, 1.0),
            (1.1, 2.0),
            (2.0, 2.0),
            (2.1, 5.0),
            (7.0, 10.0),
            (0.013, 0.02),
            (430.0, 500.0),
        ] {
            assert!(
                (round_step(raw) - step).abs() < 1e-9 * step,
                "{raw}: {}",
                round_step(raw)
            );
        }
    }

    #[test]
    fn ticks_of_a_common_range() {
        assert_eq!(Scale::new(0.0, 51.6, 0.0, 1.0).ticks(5), [0.0, 20.0, 40.0]);
        assert_eq!(Scale::new(0.0, 1.0, 0.0, 1.0).ticks(4), [0.0, 0.5, 1.0]);
    }

    proptest! {
        #[test]
        fn every_number_has_a_place(low in prop::num::f64::ANY, high in prop::num::f64::ANY, value in prop::num::f64::ANY) {
            let scale = Scale::new(low, high, 200.0, 10.0);
            prop_assert!((10.0..=200.0).contains(&scale.at(value)));
            prop_assert!(scale.ticks(5).len() <= 13);
        }

        #[test]
        fn order_is_kept(a in -1e6..1e6f64, b in -1e6..1e6f64) {
            let scale = Scale::new(-1e6, 1e6, 0.0, 100.0);
            prop_assert!((a <= b) == (scale.at(a) <= scale.at(b)) || (a - b).abs() < 1e-6);
        }

        #[test]
        fn spread_labels_do_not_touch(positions in prop::collection::vec(0.0..200.0f64, 0..12)) {
            let placed = spread(&positions, 12.0, 0.0, 200.0);
            for (i, a) in placed.iter().enumerate() {
                prop_assert!(*a >= -1e-9 && *a <= 200.0 + 1e-9);
                for b in &placed[i + 1..] {
                    prop_assert!((a - b).abs() >= 12.0 - 1e-6);
                }
            }
        }
    }
}
