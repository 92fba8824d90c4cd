//! A small seeded generator whose sequence never changes, so that a resumed run draws the same numbers as an
//! undisturbed one.

/// SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Debug, Clone)]
pub(crate) struct Draw(u64);

impl Draw {
    /// A generator for one step of a run.
    pub(crate) fn new(seed: u64, step: u64) -> Self {
        let mut draw = Self(seed ^ step.wrapping_mul(0xD1B5_4A32_D192_ED03));
        // Seeds and steps are small numbers; one round spreads them.
        draw.0 = draw.next();
        draw
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        // 53 bits fill the mantissa.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with probability `p`.
    pub(crate) fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// A whole number with the expectation `x`: its floor or one more.
    pub(crate) fn round(&mut self, x: f64) -> usize {
        let floor = x.floor();
        floor as usize + usize::from(self.chance(x - floor))
    }

    /// A position, with probability in proportion to its weight. None if no weight is above zero.
    pub(crate) fn weighted(&mut self, weights: &[f64]) -> Option<usize> {
        let total: f64 = weights.iter().sum();
        if !(total.is_finite() && total > 0.0) {
            return None;
        }
        let mut left = self.unit() * total;
        for (i, w) in weights.iter().enumerate() {
            if *w > 0.0 && left < *w {
                return Some(i);
            }
            left -= w.max(0.0);
        }
        // Rounding may leave a remainder: it belongs to the last item that has any weight.
        weights.iter().rposition(|w| *w > 0.0)
    }

    /// Puts items in random order (Fisher and Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = (self.unit() * (i + 1) as f64) as usize;
            items.swap(i, j.min(i));
        }
    }
}
