//! The step size of the optimizer, controlled by the divergence that its steps cause.
//!
//! AdamW's steps have a length in the space of weights. Their effect on the distribution over programs depends on how
//! sharp that distribution is, and changes during training. Too long a step ruins a policy within one update; too short
//! a step wastes the time of a run. The length therefore follows the measured divergence: if a step moved the policy by
//! more than twice the target, the next is 1.5 times shorter, below half the target 1.5 times longer (the rule of Rudin
//! et al., 2021, "Learning to walk in minutes", after Schulman et al., 2017).

/// Factor of one change.
const CHANGE: f64 = 1.5;
/// Bounds of the whole factor.
const BOUNDS: (f64, f64) = (1.0 / 64.0, 64.0);

/// The factor of the step size after a step whose divergence was `kl`, for the divergence `target`.
pub fn next(factor: f64, kl: f64, target: f64) -> f64 {
    // After a step far beyond the target the factor falls by three notches at once.
    let next = if kl > 8.0 * target {
        factor / (CHANGE * CHANGE * CHANGE)
    } else if kl > 2.0 * target {
        factor / CHANGE
    } else if kl < target / 2.0 {
        factor * CHANGE
    } else {
        factor
    };
    next.clamp(BOUNDS.0, BOUNDS.1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// If the divergence grows with the square of the step size, the rule settles within its band.
        #[test]
        fn it_settles_within_its_band(unit in 1e-7f64..1e-2, target in 1e-5f64..1e-2) {
            let at = |factor: f64| unit * factor * factor;
            let mut factor = 1.0;
            for _ in 0..60 {
                factor = next(factor, at(factor), target);
            }
            let reached = at(factor);
            let bound = factor == BOUNDS.0 || factor == BOUNDS.1;
            prop_assert!(bound || (reached >= target / 2.0 && reached <= 2.0 * target), "{factor} {reached} {target}");
        }

        #[test]
        fn more_divergence_never_means_longer_steps(factor in 0.02f64..60.0, a in 0.0f64..1.0, b in 0.0f64..1.0, target in 1e-5f64..1e-1) {
            let (less, more) = if a < b { (a, b) } else { (b, a) };
            prop_assert!(next(factor, more, target) <= next(factor, less, target));
        }
    }
}
