//! Rewards of the turns of a conversation, in which a model sees the outcome of its program and writes another one.
//!
//! A turn without a reward (an infrastructure failure) is left out: it counts in no sum, and does not add to the
//! distance between the turns before and after it.

/// The usual discount of [`discounted`] (Baronio et al., 2025, arXiv:2507.11948, Kevin).
pub const DISCOUNT: f64 = 0.4;

/// The usual weight of the first turn in [`first_and_best`]; taken from other work and not tuned here.
pub const FIRST: f64 = 0.75;

/// R_i = Σ_{j≥i} γ^(j−i) r_j: each turn is a separate sample, rewarded for itself and for a share of the turns that
/// follow (the discounted sum of Baronio et al., 2025, where γ is 0.4). A wrong program that leads to a fast one gets a
/// part of that reward, which falls with the number of turns between them.
///
/// One return for each turn, in the order of the turns; `None` if the turn has no (finite) reward. A discount outside 0
/// to 1 is clamped to that range, and NaN counts as 0.
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

/// α·first + (1−α)·max: one number for the whole conversation. The first turn is the policy's result without feedback,
/// and the best turn its result with feedback. Without the first term a policy could gain by failing at first and
/// repairing later.
///
/// `None` if no turn has a (finite) reward. α is bounded as the discount of [`discounted`].
pub fn first_and_best(rewards: &[Option<f64>], first: f64) -> Option<f64> {
    let weight = share(first);
    let mut turns = rewards.iter().flatten().copied().filter(|r| r.is_finite());
    let first = turns.next()?;
    let best = turns.fold(first, f64::max);
    Some(weight * first + (1.0 - weight) * best)
}

/// The standard errors of the returns of [`discounted`] from those of the rewards, which are independent of each other:
/// √Σ_{j≥i} γ^(2(j−i)) s_j². One for each turn; that of a turn without a reward is 0. A missing or non-finite standard
/// error counts as 0.
pub fn discounted_se(rewards: &[Option<f64>], errors: &[f64], discount: f64) -> Vec<f64> {
    let squares: Vec<Option<f64>> = rewards
        .iter()
        .enumerate()
        .map(|(turn, reward)| {
            reward.filter(|r| r.is_finite())?;
            Some(error_of(errors, turn).powi(2))
        })
        .collect();
    let summed = discounted(&squares, share(discount).powi(2));
    let roots = summed.into_iter().map(|sum| sum.unwrap_or(0.0).sqrt());
    roots.collect()
}

/// The standard error of the return of [`first_and_best`], with the best turn taken as known: that of the first turn where
/// the first turn is the best, else √((α s_first)² + ((1−α) s_best)²). 0 if no turn has a reward.
pub fn first_and_best_se(rewards: &[Option<f64>], errors: &[f64], first: f64) -> f64 {
    let weight = share(first);
    let mut turns = rewards
        .iter()
        .enumerate()
        .filter_map(|(turn, reward)| Some((turn, reward.filter(|r| r.is_finite())?)));
    let Some(begun) = turns.next() else {
        return 0.0;
    };
    // The first of several equal ones.
    let best = turns.fold(begun, |best, turn| match turn.1 > best.1 {
        true => turn,
        false => best,
    });
    let (of_first, of_best) = (error_of(errors, begun.0), error_of(errors, best.0));
    match best.0 == begun.0 {
        true => of_first,
        false => (weight * of_first).hypot((1.0 - weight) * of_best),
    }
}

/// The standard error of a turn's reward.
fn error_of(errors: &[f64], turn: usize) -> f64 {
    let error = errors.get(turn).copied();
    error.filter(|s| s.is_finite()).unwrap_or(0.0)
}

/// The number clamped to 0 to 1; NaN gives 0.
fn share(number: f64) -> f64 {
    if number.is_nan() {
        0.0
    } else {
        number.clamp(0.0, 1.0)
    }
}
