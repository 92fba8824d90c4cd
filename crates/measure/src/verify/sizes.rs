//! The sizes of secret cases.
//!
//! Every legal size can be drawn. On both sides of the timed size the sizes are drawn from thirds of the range, so that
//! the cases of one candidate do not lie close together by chance.

use flopsmith_problem::{HiddenSizes, Params, Problem};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// Parts into which a range of sizes is divided: a case is drawn from each.
pub const PARTS: usize = 3;
/// Number of sizes that count as the smallest ones: more than the lanes of a vector, so that cases cover every
/// remainder.
const FEW: usize = 20;
/// Sizes with denormal inputs, if the problem has such: a few short sums, since processors may need a hundred times as
/// long for each term, but not so short that the roundings of two programs use up what a bound grants to underflow.
const LITTLE: (i64, i64) = (16, 24);

/// Draws sizes for one problem. Parameters that are not hidden keep their timed value.
pub struct Sizes<'a> {
    /// The problem.
    pub problem: &'a Problem,
}

impl Sizes<'_> {
    /// The smallest size in every hidden parameter.
    pub fn smallest(&self) -> Params {
        self.each(|hidden, _| hidden.min)
    }

    /// A size hardly larger than the smallest.
    pub fn edge(&self, rng: &mut ChaCha8Rng) -> Params {
        self.each(|hidden, timed| {
            let sizes = hidden.between(hidden.min, (timed / 2).max(hidden.min));
            sizes[rng.random_range(0..sizes.len().min(FEW))]
        })
    }

    /// A size as small as denormal inputs need.
    pub fn little(&self, rng: &mut ChaCha8Rng) -> Params {
        self.each(|hidden, _| one(&hidden.between(LITTLE.0, LITTLE.1), rng))
    }

    /// A size below the timed one: the first hidden parameter in this `part` of the range, the others anywhere.
    pub fn below(&self, part: usize, rng: &mut ChaCha8Rng) -> Params {
        self.in_part(part, rng, below)
    }

    /// A size with each hidden parameter anywhere, so that one may be above its timed value and another one below.
    pub fn mixed(&self, part: usize, rng: &mut ChaCha8Rng) -> Params {
        self.in_part(part, rng, |hidden, _| {
            hidden.between(hidden.min, hidden.max)
        })
    }

    /// A size above the timed one in every parameter that allows it, and below the largest.
    pub fn above(&self, part: usize, rng: &mut ChaCha8Rng) -> Params {
        self.in_part(part, rng, above)
    }

    fn in_part(
        &self,
        part: usize,
        rng: &mut ChaCha8Rng,
        sizes: impl Fn(&HiddenSizes, i64) -> Vec<i64>,
    ) -> Params {
        let mut first = true;
        self.each(|hidden, timed| {
            let all = sizes(hidden, timed);
            let few = if first { third(&all, part) } else { &all[..] };
            first = false;
            one(few, rng)
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

/// Every size below the timed one; the smallest if there is none.
fn below(hidden: &HiddenSizes, timed: i64) -> Vec<i64> {
    hidden.between(hidden.min, timed.saturating_sub(1))
}

/// Every size above the timed one except the largest, which has cases of its own, unless there is no other.
fn above(hidden: &HiddenSizes, timed: i64) -> Vec<i64> {
    let mut sizes = hidden.between(timed.saturating_add(1), hidden.max);
    if sizes.len() > 1 {
        sizes.pop();
    }
    sizes
}

/// One of [`PARTS`] equal parts of `sizes`; none is empty, and together they are all sizes.
fn third(sizes: &[i64], part: usize) -> &[i64] {
    let end = |part: usize| sizes.len() * part / PARTS;
    let from = end(part % PARTS);
    &sizes[from..end(part % PARTS + 1).max(from + 1)]
}

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

/// The problems that are shipped, each at its first workload alone.
#[cfg(test)]
pub(super) fn shipped() -> &'static [Problem] {
    static SHIPPED: std::sync::OnceLock<Vec<Problem>> = std::sync::OnceLock::new();
    SHIPPED.get_or_init(|| {
        let folders = flopsmith_test_support::shipped::problems();
        folders
            .iter()
            .map(|path| Problem::load(path).expect("a shipped problem is sound"))
            .map(|problem| problem.only_first())
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn every_legal_size_of_every_shipped_problem_can_be_drawn() {
        for problem in shipped() {
            for hidden in &problem.verify.hidden {
                let timed = problem.timed[&hidden.param];
                let mut drawn = BTreeSet::from([timed, hidden.max]);
                for part in 0..PARTS {
                    drawn.extend(third(&below(hidden, timed), part));
                    drawn.extend(third(&above(hidden, timed), part));
                }
                let legal = hidden.between(hidden.min, hidden.max);
                let never: Vec<&i64> = legal.iter().filter(|s| !drawn.contains(*s)).collect();
                assert!(
                    never.is_empty(),
                    "{}: {} never {never:?}",
                    problem.id,
                    hidden.param
                );
            }
        }
    }

    #[test]
    fn the_sizes_of_dgemm_below_the_timed_one_are_all_there() {
        let problem = shipped().iter().find(|p| p.id.as_str() == "dgemm");
        let problem = problem.expect("dgemm is shipped");
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let sizes = Sizes { problem };
        let of = |params: Params| params["n"];
        let below: Vec<i64> = (0..PARTS).map(|p| of(sizes.below(p, &mut rng))).collect();
        assert_eq!(below, [64, 128, 192]);
        let above: Vec<i64> = (0..PARTS).map(|p| of(sizes.above(p, &mut rng))).collect();
        assert_eq!(above, [320, 384, 448]);
        assert_eq!(of(sizes.little(&mut rng)), 64);
        assert_eq!(of(largest(problem)), 512);
    }

    proptest! {
        #[test]
        fn parts_are_never_empty_and_leave_nothing_out(count in 1usize..50) {
            let sizes: Vec<i64> = (0..count as i64).collect();
            let mut all: BTreeSet<i64> = BTreeSet::new();
            for part in 0..PARTS {
                prop_assert!(!third(&sizes, part).is_empty());
                all.extend(third(&sizes, part).iter().copied());
            }
            prop_assert_eq!(all.len(), count);
        }

        #[test]
        fn drawn_sizes_are_legal(which in 0usize..100, part in 0usize..PARTS, seed: u64) {
            let problem = &shipped()[which % shipped().len()];
            let sizes = Sizes { problem };
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let drawn = [
                sizes.smallest(), sizes.edge(&mut rng), sizes.little(&mut rng), sizes.below(part, &mut rng),
                sizes.mixed(part, &mut rng), sizes.above(part, &mut rng), largest(problem),
            ];
            for params in &drawn {
                prop_assert!(params.keys().eq(problem.timed.keys()));
                for hidden in &problem.verify.hidden {
                    let size = params[&hidden.param];
                    prop_assert!(hidden.fits(size) && (hidden.min..=hidden.max).contains(&size), "{}: {}", hidden.param, size);
                }
            }
        }
    }
}
