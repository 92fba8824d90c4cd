//! PPO's loss of one answer, with its derivatives: plain arithmetic in double precision.
//!
//! With ρ = exp(ln π − ln π_old), A a token's advantage, V its value now, V_old the value when it was drawn and R its
//! return (Schulman et al., 2017; both terms clipped as in Ziegler et al., 2019):
//!
//! max(−ρA, −clip(ρ, 1−ε, 1+ε)·A) + c · ½ · max((V − R)², (clip(V, V_old − ε_v, V_old + ε_v) − R)²).
//!
//! Each token's loss has the same weight: 1 / tokens of the minibatch.

/// The terms that all tokens share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// ε: distance of the ratio's bounds from 1.
    pub clip: f64,
    /// ε_v: how far a value may move from its number at the draw before it is pushed no further.
    pub value_clip: f64,
    /// c: weight of the values' loss.
    pub value_weight: f64,
}

/// One answer, all slices of the same length.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// ln π now.
    pub logprobs: &'a [f64],
    /// V now.
    pub values: &'a [f64],
    /// ln π_old.
    pub old_logprobs: &'a [f32],
    /// V_old.
    pub old_values: &'a [f64],
    /// A.
    pub advantages: &'a [f64],
    /// R.
    pub returns: &'a [f64],
    /// Weight of each token.
    pub weight: f64,
}

/// Sums over tokens, from which means are computed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sums {
    /// Weighted loss of the policy.
    pub policy: f64,
    /// Weighted loss of the values, with its factor c.
    pub value: f64,
    /// Divergence of the policy from the one that drew the tokens: ρ − 1 − ln ρ for each token, at least 0.
    pub kl: f64,
    /// Tokens whose ratio is out of bounds in the direction of the advantage.
    pub clipped: u64,
    /// Tokens whose value is out of bounds and therefore not trained.
    pub values_clipped: u64,
    /// Tokens.
    pub tokens: u64,
}

impl Sums {
    /// Adds another's sums.
    pub fn add(&mut self, other: &Sums) {
        self.policy += other.policy;
        self.value += other.value;
        self.kl += other.kl;
        self.clipped += other.clipped;
        self.values_clipped += other.values_clipped;
        self.tokens += other.tokens;
    }
}

/// Loss of an answer; the derivatives are written to `by_logprob` and `by_value`.
pub fn differentiate(
    terms: &Terms,
    answer: &Answer<'_>,
    by_logprob: &mut [f64],
    by_value: &mut [f64],
) -> Sums {
    let mut sums = Sums {
        tokens: answer.logprobs.len() as u64,
        ..Sums::default()
    };
    let w = answer.weight;
    for t in 0..answer.logprobs.len() {
        let log_ratio = answer.logprobs[t] - f64::from(answer.old_logprobs[t]);
        let (ratio, a) = (log_ratio.exp(), answer.advantages[t]);
        sums.kl += log_ratio.exp_m1() - log_ratio;
        let (low, high) = (1.0 - terms.clip, 1.0 + terms.clip);
        let clipped = (ratio < low && a < 0.0) || (ratio > high && a > 0.0);
        let (free, bound) = (-ratio * a, -ratio.clamp(low, high) * a);
        // A NaN ratio must give a NaN loss; `max` would drop the NaN.
        sums.policy += w * if bound > free { bound } else { free };
        by_logprob[t] = if clipped { 0.0 } else { w * free };
        sums.clipped += u64::from(clipped);

        let (v, old, target) = (answer.values[t], answer.old_values[t], answer.returns[t]);
        let bounded = v.clamp(old - terms.value_clip, old + terms.value_clip);
        let (free, bound) = ((v - target).powi(2), (bounded - target).powi(2));
        let held = bound > free;
        sums.value += w * terms.value_weight * 0.5 * if held { bound } else { free };
        // If the clipped term counts, the value is out of bounds and its derivative is 0.
        by_value[t] = if held {
            0.0
        } else {
            w * terms.value_weight * (v - target)
        };
        sums.values_clipped += u64::from(held);
    }
    sums
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TERMS: Terms = Terms {
        clip: 0.2,
        value_clip: 0.3,
        value_weight: 0.4,
    };

    #[derive(Debug, Clone)]
    struct Drawn {
        logprobs: Vec<f64>,
        values: Vec<f64>,
        old_logprobs: Vec<f32>,
        old_values: Vec<f64>,
        advantages: Vec<f64>,
        returns: Vec<f64>,
    }

    impl Drawn {
        fn answer(&self) -> Answer<'_> {
            Answer {
                logprobs: &self.logprobs,
                values: &self.values,
                old_logprobs: &self.old_logprobs,
                old_values: &self.old_values,
                advantages: &self.advantages,
                returns: &self.returns,
                weight: 0.25,
            }
        }

        fn loss(&self) -> f64 {
            let n = self.values.len();
            let sums = differentiate(&TERMS, &self.answer(), &mut vec![0.0; n], &mut vec![0.0; n]);
            sums.policy + sums.value
        }

        /// True if a token is so near a bend of the loss that a finite difference crosses the bend.
        fn is_near_a_bend(&self) -> bool {
            (0..self.values.len()).any(|t| {
                let ratio = (self.logprobs[t] - f64::from(self.old_logprobs[t])).exp();
                let (v, old, r) = (self.values[t], self.old_values[t], self.returns[t]);
                let bounded = v.clamp(old - TERMS.value_clip, old + TERMS.value_clip);
                let off = ((v - old).abs() - TERMS.value_clip).abs();
                let even = ((v - r).abs() - (bounded - r).abs()).abs();
                (ratio - 0.8).abs() < 1e-4
                    || (ratio - 1.2).abs() < 1e-4
                    || off < 1e-4
                    || (v != bounded && even < 1e-4)
            })
        }
    }

    fn drawn() -> impl Strategy<Value = Drawn> {
        (1usize..10).prop_flat_map(|n| {
            let around = |by: f64| prop::collection::vec(-by..by, n);
            (
                around(2.0),
                around(1.0),
                around(0.5),
                around(0.8),
                around(2.0),
                around(2.0),
            )
                .prop_map(|(logprobs, values, step, move_by, advantages, returns)| {
                    let logprobs: Vec<f64> = logprobs.iter().map(|x| x - 2.5).collect();
                    Drawn {
                        old_logprobs: logprobs
                            .iter()
                            .zip(&step)
                            .map(|(x, s)| (x + s) as f32)
                            .collect(),
                        old_values: values.iter().zip(&move_by).map(|(x, s)| x + s).collect(),
                        logprobs,
                        values,
                        advantages,
                        returns,
                    }
                })
        })
    }

    proptest! {
        #[test]
        fn slopes_are_those_of_finite_differences(drawn in drawn()) {
            prop_assume!(!drawn.is_near_a_bend());
            let n = drawn.values.len();
            let (mut by_logprob, mut by_value) = (vec![0.0; n], vec![0.0; n]);
            differentiate(&TERMS, &drawn.answer(), &mut by_logprob, &mut by_value);
            let h = 1e-6;
            for t in 0..n {
                let moved = |f: &dyn Fn(&mut Drawn, f64)| {
                    let (mut up, mut down) = (drawn.clone(), drawn.clone());
                    f(&mut up, h);
                    f(&mut down, -h);
                    (up.loss() - down.loss()) / (2.0 * h)
                };
                let slope = moved(&|d, h| d.logprobs[t] += h);
                prop_assert!((by_logprob[t] - slope).abs() < 1e-6, "{} {slope}", by_logprob[t]);
                let slope = moved(&|d, h| d.values[t] += h);
                prop_assert!((by_value[t] - slope).abs() < 1e-6, "{} {slope}", by_value[t]);
            }
        }

        /// Before any change, the slope is the policy gradient, and values are pulled to their returns.
        #[test]
        fn before_any_update_nothing_is_clipped(drawn in drawn()) {
            let mut drawn = drawn;
            drawn.old_logprobs = drawn.logprobs.iter().map(|x| *x as f32).collect();
            drawn.logprobs = drawn.old_logprobs.iter().map(|x| f64::from(*x)).collect();
            drawn.old_values.clone_from(&drawn.values);
            let n = drawn.values.len();
            let (mut by_logprob, mut by_value) = (vec![0.0; n], vec![0.0; n]);
            let sums = differentiate(&TERMS, &drawn.answer(), &mut by_logprob, &mut by_value);
            prop_assert_eq!((sums.clipped, sums.values_clipped, sums.kl), (0, 0, 0.0));
            for t in 0..n {
                prop_assert!((by_logprob[t] + 0.25 * drawn.advantages[t]).abs() < 1e-12);
                prop_assert!((by_value[t] - 0.25 * 0.4 * (drawn.values[t] - drawn.returns[t])).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn non_finite_values_stay_in_the_loss() {
        let drawn = Drawn {
            logprobs: vec![f64::NAN],
            values: vec![0.0],
            old_logprobs: vec![-1.0],
            old_values: vec![0.0],
            advantages: vec![1.0],
            returns: vec![1.0],
        };
        assert!(drawn.loss().is_nan());
        let drawn = Drawn {
            logprobs: vec![-1.0],
            values: vec![f64::NAN],
            ..drawn
        };
        assert!(drawn.loss().is_nan());
    }
}
