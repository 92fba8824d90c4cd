//! The sizes of secret cases.

use flopsmith_problem::{HiddenSizes, Params, Problem};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// Draws sizes for one problem. Parameters that are not hidden keep their timed value.
pub struct Sizes<'a> {
    /// The problem.
    pub problem: &'a Problem,
}

impl Sizes<'_> {
    /// The smallest sizes of all, or some that are hardly larger.
    pub fn edge(&self, smallest: bool, rng: &mut ChaCha8Rng) -> Params {
        self.each(|hidden, timed| {
            let sizes = hidden.between(hidden.min, (timed / 2).max(hidden.min));
            let few = if smallest { 1 } else { sizes.len().min(FEW) };
            sizes[rng.random_range(0..few)]
        })
    }

    /// Up to half of the timed size.
    pub fn below(&self, rng: &mut ChaCha8Rng) -> Params {
        self.each(|hidden, timed| one(&hidden.between(hidden.min, timed / 2), rng))
    }

    /// Above the timed size, in all parameters that can be: at most `steps` sizes further.
    pub fn above(&self, steps: usize, rng: &mut ChaCha8Rng) -> Params {
        self.each(|hidden, timed| {
            let sizes = hidden.between(timed.saturating_add(1), hidden.max);
            one(&sizes[..steps.clamp(1, sizes.len())], rng)
        })
    }

    fn each(&self, mut size: impl FnMut(&HiddenSizes, i64) -> i64) -> Params {
        let mut params = self.problem.timed.clone();
        for hidden in &self.problem.verify.hidden {
            let timed = params.get(&hidden.param).copied().unwrap_or(hidden.min);
            params.insert(hidden.param.clone(), size(hidden, timed));
        }
        params
    }
}

/// Sizes that count as the smallest ones: more than the lanes of a vector, so that every remainder is met.
const FEW: usize = 20;

fn one(sizes: &[i64], rng: &mut ChaCha8Rng) -> i64 {
    sizes[rng.random_range(0..sizes.len())]
}

/// The largest size in every hidden parameter.
pub fn largest(problem: &Problem) -> Params {
    let mut params = problem.timed.clone();
    for hidden in &problem.verify.hidden {
        params.insert(hidden.param.clone(), hidden.max);
    }
    params
}
