//! The growth of the logits towards the end of a run, in addition to learning.
//!
//! A policy gradient raises the probability of a good program as a whole. It hardly changes the far tail: tokens that
//! the policy considers nearly impossible and still draws, once in some thousands. A program has hundreds of tokens;
//! one sample in fifteen of a small policy is spoilt by such a token, after training as before. While a run explores,
//! new programs come from the tail. Towards the end of the run no exploration is left to do, and the factor closes the
//! tail: with a factor of 1.15 a token of probability 10⁻⁶ becomes eight times as rare, and a token of probability 0.25
//! stays about as likely as it was. The policy that samples, the policy that is trained and the saved policy are the
//! same throughout, at the same temperature.

/// Shares of the budget at which the logits begin to grow, and at which they have grown by the whole factor.
const SPAN: (f64, f64) = (0.65, 0.95);

/// The factor of the logits after a step that ended when `progress` (0 to 1) of the budget was spent. `grown` is the
/// product of the earlier factors, and `whole` the product at the end, reached in even parts. Never below 1: a run that
/// is given more budget keeps its present factor until the schedule catches up.
pub fn next(grown: f64, whole: f64, progress: f64) -> f64 {
    let share = ((progress - SPAN.0) / (SPAN.1 - SPAN.0)).clamp(0.0, 1.0);
    (whole.powf(share) / grown).max(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// For any steps, nothing grows early, nothing shrinks, and the whole factor is reached.
        #[test]
        fn the_parts_make_the_whole(whole in 1.0f64..3.0, mut steps in prop::collection::vec(0.0f64..1.0, 0..60)) {
            steps.sort_by(f64::total_cmp);
            steps.push(1.0);
            let mut grown = 1.0;
            for progress in steps {
                let factor = next(grown, whole, progress);
                prop_assert!(factor >= 1.0 && (progress > SPAN.0 || factor == 1.0));
                grown *= factor;
            }
            prop_assert!((grown / whole - 1.0).abs() < 1e-9, "{grown} of {whole}");
        }

        /// A run that continues with more budget neither loses sharpness nor gains more than the whole factor.
        #[test]
        fn more_budget_later_adds_nothing_twice(whole in 1.0f64..3.0, back in 0.0f64..1.0) {
            let grown = next(1.0, whole, 1.0);
            prop_assert!((next(grown, whole, back) - 1.0).abs() < 1e-12);
            prop_assert!((next(grown, whole, 1.0) - 1.0).abs() < 1e-12);
        }
    }
}
