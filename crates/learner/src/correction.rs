//! Importance weights for samples that were not drawn from the policy a step begins with.
//!
//! A sampler with other arithmetic, or one some versions behind, draws from a policy µ that differs from the learner's
//! π at the beginning of the step. With a correction the ratios of a step are relative to π, computed by the learner
//! itself; clipping then bounds the change that the step makes. The difference between µ and π is corrected by the
//! constant weight w = π/µ on each token's loss. A few tokens with large weights would dominate the loss. Their weights
//! are therefore capped (truncated, Yao et al., 2025) or their tokens are left out (masked), by token or by the product
//! over the sequence: the four ways of TRL.

use flopsmith_config::Correction;

/// Weights of a sequence's tokens: `now` are the log-probabilities at the beginning of the step, `drawn` those at
/// the draw.
pub fn weights(correction: Correction, cap: f64, now: &[f32], drawn: &[f32]) -> Vec<f64> {
    let gaps = now
        .iter()
        .zip(drawn)
        .map(|(n, d)| f64::from(*n) - f64::from(*d));
    let bounded = |log: f64| {
        let weight = log.exp();
        match correction {
            Correction::Auto | Correction::None => 1.0,
            Correction::TokenTruncate | Correction::SequenceTruncate => weight.min(cap),
            Correction::TokenMask | Correction::SequenceMask if weight > cap => 0.0,
            Correction::TokenMask | Correction::SequenceMask => weight,
        }
    };
    match correction {
        Correction::SequenceTruncate | Correction::SequenceMask => {
            vec![bounded(gaps.sum()); now.len()]
        }
        _ => gaps.map(bounded).collect(),
    }
}

/// Mean of |ln π/µ| over a sequence's tokens.
pub fn gap(now: &[f32], drawn: &[f32]) -> f64 {
    let gaps = now.iter().zip(drawn);
    let sum: f64 = gaps
        .map(|(n, d)| (f64::from(*n) - f64::from(*d)).abs())
        .sum();
    sum / now.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn weights_are_ratios_within_their_bounds(
            tokens in proptest::collection::vec((-6.0f32..0.0, -6.0f32..0.0), 1..20),
            cap in 0.5f64..4.0,
        ) {
            let (now, drawn): (Vec<f32>, Vec<f32>) = tokens.into_iter().unzip();
            let of = |correction: Correction| weights(correction, cap, &now, &drawn);
            let ratios: Vec<f64> = now.iter().zip(&drawn).map(|(n, d)| (f64::from(*n) - f64::from(*d)).exp()).collect();
            prop_assert!(of(Correction::None).iter().all(|w| *w == 1.0));
            for (w, r) in of(Correction::TokenTruncate).iter().zip(&ratios) {
                prop_assert!((w - r.min(cap)).abs() < 1e-9);
            }
            for (w, r) in of(Correction::TokenMask).iter().zip(&ratios) {
                let wanted = if *r > cap { 0.0 } else { *r };
                prop_assert!((w - wanted).abs() < 1e-9);
            }
            let product: f64 = ratios.iter().product();
            for w in of(Correction::SequenceTruncate) {
                prop_assert!((w - product.min(cap)).abs() < 1e-6 * product.max(1.0));
            }
            for w in of(Correction::SequenceMask) {
                prop_assert!(w == 0.0 || w <= cap);
                prop_assert_eq!(w == 0.0, product > cap || product == 0.0);
            }
            let mean: f64 = ratios.iter().map(|r| r.ln().abs()).sum::<f64>() / ratios.len() as f64;
            prop_assert!((gap(&now, &drawn) - mean).abs() < 1e-9);
        }
    }
}
