//! Rewards and advantages of the tokens of an answer.
//!
//! PPO on language models (Ziegler et al., 2019; Nichols et al., equation 6) rewards every token for staying near the
//! reference and the last one for the whole answer: r_t = −β·(ln π(t) − ln π_ref(t)), plus the answer's score at its
//! end. Generalised advantage estimation (Schulman et al., 2016) turns the rewards into advantages: with the values V_t
//! predicted before token t, and V = 0 after the last one, δ_t = r_t + γ·V_{t+1} − V_t and A_t = δ_t + γλ·A_{t+1}. The
//! values are trained on the returns A_t + V_t.

/// Added to the variance before advantages are divided by its root.
const LEAST_VARIANCE: f64 = 1e-8;

/// The discounts of future rewards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Horizon {
    /// γ: the discount of a reward for each token of delay.
    pub discount: f64,
    /// λ: 0 uses the values alone, 1 the rewards alone.
    pub lambda: f64,
}

/// The rewards of an answer's tokens: −`weight` times each token's log-ratio to the reference, plus `score` at the last
/// one.
pub fn token_rewards(logprobs: &[f32], reference: &[f32], weight: f64, score: f64) -> Vec<f64> {
    let mut rewards: Vec<f64> = logprobs
        .iter()
        .zip(reference)
        .map(|(own, other)| -weight * (f64::from(*own) - f64::from(*other)))
        .collect();
    if let Some(last) = rewards.last_mut() {
        *last += score;
    }
    rewards
}

/// Advantages of an answer's tokens, from their `rewards` and the `values` predicted before each.
pub fn advantages(rewards: &[f64], values: &[f64], horizon: Horizon) -> Vec<f64> {
    let mut advantages = vec![0.0; rewards.len()];
    let (mut next_value, mut next_advantage) = (0.0, 0.0);
    for t in (0..rewards.len()).rev() {
        let delta = rewards[t] + horizon.discount * next_value - values[t];
        next_advantage = delta + horizon.discount * horizon.lambda * next_advantage;
        next_value = values[t];
        advantages[t] = next_advantage;
    }
    advantages
}

/// Shifts and scales the advantages of all answers of a batch, as one set of numbers, to mean 0 and variance 1.
///
/// The variance is the unbiased one, divided by n − 1, as in torch. A single number becomes 0.
pub fn whiten(answers: &mut [Vec<f64>]) {
    let count = answers.iter().map(Vec::len).sum::<usize>();
    let all = || answers.iter().flatten();
    let mean = all().sum::<f64>() / count.max(1) as f64;
    let squares = all().map(|a| (a - mean) * (a - mean)).sum::<f64>();
    let variance = squares / count.saturating_sub(1).max(1) as f64;
    let scale = 1.0 / (variance + LEAST_VARIANCE).sqrt();
    for advantage in answers.iter_mut().flatten() {
        *advantage = (*advantage - mean) * scale;
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn drawn() -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
        (1usize..20).prop_flat_map(|n| {
            let numbers = || prop::collection::vec(-3.0f64..3.0, n);
            (numbers(), numbers())
        })
    }

    proptest! {
        /// A_t is Σ (γλ)^k δ_{t+k}, computed without the recursion.
        #[test]
        fn advantages_are_the_discounted_sum_of_surprises((rewards, values) in drawn(), discount in 0.5f64..1.0, lambda in 0.0f64..1.0) {
            let found = advantages(&rewards, &values, Horizon { discount, lambda });
            let n = rewards.len();
            let delta = |t: usize| rewards[t] + discount * values.get(t + 1).copied().unwrap_or(0.0) - values[t];
            for (t, found) in found.iter().enumerate() {
                let wanted: f64 = (t..n).map(|k| (discount * lambda).powi((k - t) as i32) * delta(k)).sum();
                prop_assert!((found - wanted).abs() < 1e-9);
            }
        }

        /// With γ = λ = 1 the return is the sum of the rewards to come, for any values.
        #[test]
        fn without_discount_returns_are_sums_of_rewards((rewards, values) in drawn()) {
            let found = advantages(&rewards, &values, Horizon { discount: 1.0, lambda: 1.0 });
            for t in 0..rewards.len() {
                let wanted: f64 = rewards[t..].iter().sum();
                prop_assert!((found[t] + values[t] - wanted).abs() < 1e-9);
            }
        }

        #[test]
        fn values_that_foresee_everything_leave_no_advantage((rewards, _) in drawn(), lambda in 0.0f64..1.0) {
            let values: Vec<f64> = (0..rewards.len()).map(|t| rewards[t..].iter().sum()).collect();
            let found = advantages(&rewards, &values, Horizon { discount: 1.0, lambda });
            prop_assert!(found.iter().all(|a| a.abs() < 1e-9));
        }

        #[test]
        fn whitened_advantages_have_mean_0_and_variance_1(answers in prop::collection::vec(prop::collection::vec(-5.0f64..5.0, 1..9), 2..9)) {
            let mut white = answers.clone();
            whiten(&mut white);
            let (all, before) = (white.concat(), answers.concat());
            let moments = |numbers: &[f64]| {
                let n = numbers.len() as f64;
                let mean = numbers.iter().sum::<f64>() / n;
                (mean, numbers.iter().map(|a| (a - mean).powi(2)).sum::<f64>() / (n - 1.0))
            };
            let (mean, variance) = moments(&all);
            // A variance far above the constant is hardly reduced.
            let own = moments(&before).1;
            let wanted = own / (own + LEAST_VARIANCE);
            prop_assert!(mean.abs() < 1e-6 && (variance - wanted).abs() < 1e-6, "{mean} {variance} {wanted}");
            // The order is kept.
            for (i, j) in [(0, all.len() - 1), (0, all.len() / 2)] {
                prop_assert_eq!(before[i] < before[j], all[i] < all[j]);
            }
        }

        /// The rewards of an answer sum to its score less the cost of its divergence.
        #[test]
        fn rewards_add_up(pairs in prop::collection::vec((-4.0f32..0.0, -4.0f32..0.0), 1..12), weight in 0.0f64..1.0, score in -2.0f64..2.0) {
            let (own, other): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            let rewards = token_rewards(&own, &other, weight, score);
            let divergence: f64 = own.iter().zip(&other).map(|(a, b)| f64::from(*a) - f64::from(*b)).sum();
            prop_assert!((rewards.iter().sum::<f64>() - (score - weight * divergence)).abs() < 1e-9);
        }
    }

    #[test]
    fn one_number_or_equal_ones_become_0() {
        let mut one = vec![vec![3.0]];
        whiten(&mut one);
        assert_eq!(one, [[0.0]]);
        let mut equal = vec![vec![2.0, 2.0], vec![2.0]];
        whiten(&mut equal);
        assert_eq!(equal.concat(), [0.0; 3]);
        whiten(&mut []);
        assert_eq!(
            *token_rewards(&[], &[], 0.1, 5.0).last().unwrap_or(&0.0),
            0.0
        );
        assert_eq!(
            *token_rewards(&[-1.0], &[-1.0], 0.1, 5.0).last().unwrap(),
            5.0
        );
    }
}
