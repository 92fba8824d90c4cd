//! The weight of the divergence from the reference in a policy's reward.
//!
//! The weight is fixed, or follows the measured divergence (Ziegler et al., 2019, section 2.2): with the divergence d
//! of a batch of n answers and the target d*, e = clip(d/d* − 1, −0.2, 0.2) and β ← β·(1 + e·n/h). After about h
//! answers, the horizon, the weight has made most of the correction.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bound of the proportional error of one batch.
const LARGEST_ERROR: f64 = 0.2;

/// Control of the weight over the steps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum KlControl {
    /// The weight is constant.
    Fixed {
        /// The weight.
        weight: f64,
    },
    /// The weight follows the measured divergence.
    Adaptive {
        /// The weight in the first batch.
        start: f64,
        /// The target of the divergence, nats per answer.
        target: f64,
        /// The horizon h, answers.
        horizon: f64,
    },
}

impl Default for KlControl {
    /// Weight 0.1 to begin with (Nichols et al.), target 6 nats and horizon 10 000 (Ziegler et al.).
    fn default() -> Self {
        KlControl::Adaptive {
            start: 0.1,
            target: 6.0,
            horizon: 10_000.0,
        }
    }
}

impl KlControl {
    /// The weight in the first batch.
    pub fn start(&self) -> f64 {
        match *self {
            KlControl::Fixed { weight } => weight,
            KlControl::Adaptive { start, .. } => start,
        }
    }

    /// The weight after a batch of `answers` answers with this mean divergence, nats per answer; `weight` is the
    /// batch's own.
    ///
    /// If the divergence is not finite, the weight stays.
    pub fn next(&self, weight: f64, divergence: f64, answers: usize) -> f64 {
        match *self {
            KlControl::Fixed { weight } => weight,
            KlControl::Adaptive { .. } if !divergence.is_finite() => weight,
            KlControl::Adaptive {
                target, horizon, ..
            } => {
                let error = (divergence / target - 1.0).clamp(-LARGEST_ERROR, LARGEST_ERROR);
                // A batch longer than five horizons would make the weight negative.
                let share = (answers as f64 / horizon).min(1.0);
                weight * (1.0 + error * share)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ADAPTIVE: KlControl = KlControl::Adaptive {
        start: 0.1,
        target: 6.0,
        horizon: 1000.0,
    };

    proptest! {
        /// If more weight means less divergence, the weight converges to the target.
        #[test]
        fn it_settles_at_the_target(free in 0.5f64..50.0, answers in 50usize..1000) {
            let mut weight = ADAPTIVE.start();
            for _ in 0..20_000 {
                weight = ADAPTIVE.next(weight, free / weight, answers);
            }
            prop_assert!((free / weight / 6.0 - 1.0).abs() < 0.02, "{}", free / weight);
        }

        #[test]
        fn it_stays_positive_and_moves_at_most_a_fifth(weight in 1e-6f64..10.0, divergence in -5.0f64..1e6, answers in 0usize..1_000_000) {
            let next = ADAPTIVE.next(weight, divergence, answers);
            prop_assert!(next >= weight * 0.8 - 1e-12 && next <= weight * 1.2 + 1e-12);
        }

        #[test]
        fn a_fixed_weight_is_fixed(weight in 0.0f64..10.0, divergence in -5.0f64..1e6) {
            let fixed = KlControl::Fixed { weight };
            prop_assert_eq!(fixed.start(), weight);
            prop_assert_eq!(fixed.next(weight, divergence, 100), weight);
        }
    }

    #[test]
    fn a_non_finite_divergence_leaves_the_weight_alone() {
        assert_eq!(ADAPTIVE.next(0.3, f64::NAN, 10), 0.3);
        assert_eq!(ADAPTIVE.next(0.3, f64::INFINITY, 10), 0.3);
    }
}
