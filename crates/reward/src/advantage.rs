//! Turns the rewards of a group into advantages.
//!
//! Formulas as in TRL, except for the measurement-aware kind, which is our own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Added to every standard deviation that divides, as in TRL.
pub const EPSILON: f64 = 1e-4;

/// The standard deviation that the centred rewards are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// The group's own.
    #[default]
    Group,
    /// That of all rewards of the batch, each group still centred on its own mean.
    Batch,
    /// None (as in Dr. GRPO): hard and easy prompts weigh as their rewards say.
    None,
}

/// How a reward is compared with its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdvantageKind {
    /// A = (R − mean) / (std + ε).
    #[default]
    MeanStd,
    /// Each reward against the mean of the others: N/(N−1)·(R − mean), divided as [`Scale`] says.
    LeaveOneOut,
    /// A = (R − mean) / (√(std² + s²) + ε) with s the standard error of the reward's own
    /// measurement, so that differences smaller than the noise teach little.
    /// Unscaled, the centred reward is shrunk by std / √(std² + s²).
    MeasurementAware,
}

/// The advantages of every group of a batch, in the same order.
///
/// A group consists of its rewards and the standard error of each reward. There is one reward per sample, `None` for a
/// sample that is left out; a missing standard error counts as 0.
///
/// Samples without a (finite) reward leave their group: they have no advantage and count in no mean or deviation.
/// Standard deviations are the unbiased ones (N − 1). A group with one remaining sample, or with equal rewards, has
/// advantages of 0.
pub fn group_advantages<R, S>(
    groups: &[(R, S)],
    scale: Scale,
    kind: AdvantageKind,
) -> Vec<Vec<Option<f64>>>
where
    R: AsRef<[Option<f64>]>,
    S: AsRef<[f64]>,
{
    let all: Vec<Option<f64>> = groups
        .iter()
        .flat_map(|(rewards, _)| rewards.as_ref().iter().copied())
        .collect();
    let batch_std = std(&all);
    groups
        .iter()
        .map(|(rewards, se)| one(rewards.as_ref(), se.as_ref(), scale, kind, batch_std))
        .collect()
}

/// True if no two rewards differ. Such a group teaches nothing.
pub fn is_flat(rewards: &[Option<f64>]) -> bool {
    let mut present = finite(rewards);
    present
        .next()
        .is_none_or(|first| present.all(|r| r == first))
}

/// The advantages of one group.
fn one(
    rewards: &[Option<f64>],
    se: &[f64],
    scale: Scale,
    kind: AdvantageKind,
    batch_std: f64,
) -> Vec<Option<f64>> {
    let flat = is_flat(rewards);
    let n = finite(rewards).count() as f64;
    let mean = finite(rewards).sum::<f64>() / n;
    let spread = match scale {
        Scale::Group | Scale::None => std(rewards),
        Scale::Batch => batch_std,
    };
    let advantage = |i: usize, reward: f64| {
        // Otherwise the rounding error in the mean of equal rewards would be divided by a deviation that is a rounding
        // error, too.
        if flat {
            return 0.0;
        }
        let centred = reward - mean;
        match kind {
            AdvantageKind::MeanStd => centred / divisor(scale, spread),
            AdvantageKind::LeaveOneOut => n / (n - 1.0) * centred / divisor(scale, spread),
            AdvantageKind::MeasurementAware => {
                let s = se.get(i).copied().filter(|s| s.is_finite()).unwrap_or(0.0);
                let widened = spread.hypot(s);
                match scale {
                    Scale::None => centred * spread / widened,
                    Scale::Group | Scale::Batch => centred / (widened + EPSILON),
                }
            }
        }
    };
    rewards
        .iter()
        .enumerate()
        .map(|(i, r)| r.filter(|r| r.is_finite()).map(|r| advantage(i, r)))
        .collect()
}

fn divisor(scale: Scale, spread: f64) -> f64 {
    match scale {
        Scale::Group | Scale::Batch => spread + EPSILON,
        Scale::None => 1.0,
    }
}

fn finite(rewards: &[Option<f64>]) -> impl Iterator<Item = f64> + '_ {
    rewards.iter().flatten().copied().filter(|r| r.is_finite())
}

/// Unbiased standard deviation of the present rewards; 0 for fewer than two.
fn std(rewards: &[Option<f64>]) -> f64 {
    let n = finite(rewards).count();
    if n < 2 {
        return 0.0;
    }
    let mean = finite(rewards).sum::<f64>() / n as f64;
    let squares: f64 = finite(rewards).map(|r| (r - mean).powi(2)).sum();
    (squares / (n - 1) as f64).sqrt()
}
