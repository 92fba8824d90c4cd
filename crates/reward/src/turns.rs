//! What the turns of a conversation are worth, where a model is shown what came of its program and writes another one.
//!
//! A turn without a reward (the infrastructure failed it) is no turn: it counts in no sum, and those behind it are as far from
//! those before it as if it had not been there.

/// The usual discount of [`discounted`] (Baronio et al., 2025, arXiv:2507.11948, Kevin).
pub const DISCOUNT: f64 = 0.4;

/// The usual weight of the first turn in [`first_and_best`]; taken over, and not tuned here.
pub const FIRST: f64 = 0.75;

/// R_i = Σ_{j≥i} γ^(j−i) r_j: each turn is a sample of its own, and worth what it was and a share of what came of it (the discounted sum
/// of Baronio et al., 2025, where γ is 0.4). A wrong program that leads to a fast one is worth something, and the later that
/// comes the less.
///
/// One return for each turn, in their order; none where the turn has no (finite) reward. A discount that is no number from 0 to 1
/// is taken for the nearest one, and for 0 where it is none at all.
pub fn discounted(rewards: &[Option<f64>], discount: f64) -> Vec<Option<f64>> {
    let discount = share(discount);
    let mut behind = 0.0;
    let mut returns: Vec<Option<f64>> = rewards
        .iter()
        .rev()
        .map(|reward| {
            let reward = reward.filter(|r| r.is_finite())?;
            behind = reward + discount * behind;
            Some(behind)
        })
        .collect();
    returns.reverse();
    returns
}

/// α·first + (1−α)·max: one number for the whole conversation. The first turn is what a policy is worth by itself, the best one what it
/// comes to; without the first part it pays to fail at once and to repair later.
///
/// None where no turn has a (finite) reward. α is bounded as the discount of [`discounted`].
pub fn first_and_best(rewards: &[Option<f64>], first: f64) -> Option<f64> {
    let weight = share(first);
    let mut turns = rewards.iter().flatten().copied().filter(|r| r.is_finite());
    let first = turns.next()?;
    let best = turns.fold(first, f64::max);
    Some(weight * first + (1.0 - weight) * best)
}

/// A number from 0 to 1.
fn share(number: f64) -> f64 {
    if number.is_nan() {
        0.0
    } else {
        number.clamp(0.0, 1.0)
    }
}
