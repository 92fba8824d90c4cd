//! Chooses the further sizes with which a program that is to count is called, after the cases that every program meets.
//!
//! A program that is right at every size but one passes cases with randomly drawn sizes. If a problem has few enough
//! sizes, a program that is to count is therefore called with all of them. If there are too many, all sizes are divided
//! into equal parts, and one is drawn from each: a program that is wrong at a share p of them, whichever these are, is
//! right at n such draws with a probability of at most (1 - p)ⁿ. In addition, the program meets every value of each
//! parameter that has few values.
//!
//! Pure: the verifier makes the calls.

use std::collections::BTreeSet;
use std::time::Duration;

use flopsmith_problem::{Params, Problem};
use flopsmith_protocol::VerifiedSizes;
use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::pool::Thoroughness;

/// Up to this many sizes are all met in full, as long as the time lasts: as many as factorizations, products and nbody
/// have.
const ALL_IN_FULL: u64 = 1000;
/// Up to this many sizes, or values of one parameter, are few: all of them are met, in full however long that takes,
/// and in another code layout as long as the time lasts.
const FEW: u64 = 64;
/// Sizes that are drawn if there are many: enough for a program that is wrong at one in twenty.
const DRAWN: u64 = 90;
/// Sizes drawn for a program that was verified in full before and is now in another code layout: there are five such
/// layouts.
const DRAWN_OTHER_LAYOUT: u64 = DRAWN / 5;
/// Processor time of our own work after which no further case begins, in full, if the sizes are not few, and in another
/// code layout. Problems with slower references are verified at fewer sizes, and the report says so.
const BUDGET: Duration = Duration::from_secs(10);
const BUDGET_OTHER_LAYOUT: Duration = Duration::from_secs(4);
/// The same limit for the sizes beyond [`DRAWN`] of a problem all of whose sizes are met.
const BUDGET_BEYOND_DRAWN: Duration = Duration::from_secs(4);
/// Processor time that each thread of a program may use in a sweep: a constant, plus this many times our own work,
/// which includes a call of the reference for most of the program's calls.
const CALLS_LIMIT: Duration = Duration::from_secs(5);
const CALLS_FACTOR: u32 = 10;

/// The sizes of one program's sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// The sizes with which the program is to be called, in this order.
    pub sizes: Vec<Params>,
    /// Processor time of our own work after which no further size begins.
    budget: Duration,
    /// How many of `sizes`, from the first on, come one from each of as many equal parts of all sizes, or are drawn
    /// without replacement.
    drawn: usize,
    legal: u64,
    /// The sizes with which the program was called before.
    met: BTreeSet<Params>,
}

impl Sweep {
    /// Draws the sizes for a program that has `met` some already. None for a screening.
    pub fn draw<'a>(
        problem: &Problem,
        thoroughness: Thoroughness,
        met: impl Iterator<Item = &'a Params>,
        rng: &mut ChaCha8Rng,
    ) -> Option<Self> {
        let (drawn, budget) = match thoroughness {
            Thoroughness::Screening => return None,
            Thoroughness::Full => (DRAWN, BUDGET),
            Thoroughness::OtherLayout => (DRAWN_OTHER_LAYOUT, BUDGET_OTHER_LAYOUT),
        };
        let goes_through_all = match thoroughness {
            Thoroughness::Full => ALL_IN_FULL,
            _ => FEW,
        };
        let legal = Legal::of(problem);
        let count = legal.count();
        // A skipped one of few sizes would be a large part of all, and a program could be wrong at just that one.
        let budget = match thoroughness {
            Thoroughness::Full if count <= FEW => Duration::MAX,
            _ => budget,
        };
        let met: BTreeSet<Params> = met.filter(|params| legal.has(params)).cloned().collect();
        let mut sizes: Vec<Params>;
        if count <= goes_through_all {
            sizes = (0..count).map(|n| legal.size(n)).collect();
            sizes.retain(|size| !met.contains(size));
        } else {
            let parts = drawn.min(count);
            sizes = (0..parts)
                .map(|part| legal.size(in_part(part, parts, count, rng)))
                .collect();
        }
        // The time may end before all sizes were met, and those that were must be as good as any others.
        sizes.shuffle(rng);
        let drawn = sizes.len();
        if thoroughness == Thoroughness::Full && count > goes_through_all {
            let values = legal.values_left_out(met.iter().chain(&sizes), rng);
            sizes.extend(values);
        }
        Some(Self {
            sizes,
            budget,
            drawn,
            legal: count,
            met,
        })
    }

    /// True if another size begins after `done` sizes, when our own work took `own`. The program's calls do not count,
    /// so no program ends its sweep by being slow. Always true in full if the sizes are few.
    pub fn goes_on(&self, done: usize, own: Duration) -> bool {
        let enough = done as u64 >= DRAWN && self.legal <= ALL_IN_FULL;
        let budget = if enough {
            self.budget.min(BUDGET_BEYOND_DRAWN)
        } else {
            self.budget
        };
        own <= budget
    }

    /// Processor time that a thread of the program may use if our own work took `own`.
    pub fn limit_of_calls(own: Duration) -> Duration {
        CALLS_LIMIT + own * CALLS_FACTOR
    }

    /// The sizes that are verified once the program was right at the first `done` sizes.
    pub fn verified(&self, done: usize) -> VerifiedSizes {
        let met = self.met.iter().chain(&self.sizes[..done]);
        let met = met.collect::<BTreeSet<&Params>>().len() as u64;
        VerifiedSizes::of(met, self.legal, done.min(self.drawn) as u32)
    }
}

/// A number below `count` from one of `parts` equal parts; the parts are equal even if they do not end between two
/// numbers.
fn in_part(part: u64, parts: u64, count: u64, rng: &mut ChaCha8Rng) -> u64 {
    let at = part as f64 + rng.random_range(0.0..1.0);
    ((at / parts as f64 * count as f64) as u64).min(count - 1)
}

/// Every size of a problem, by number.
struct Legal<'a> {
    problem: &'a Problem,
    /// The values of each parameter that varies.
    values: Vec<(&'a str, Vec<i64>)>,
}

impl<'a> Legal<'a> {
    fn of(problem: &'a Problem) -> Self {
        let hidden = problem.verify.hidden.iter();
        let values = hidden.map(|h| (h.param.as_str(), h.between(h.min, h.max)));
        Self {
            problem,
            values: values.collect(),
        }
    }

    fn count(&self) -> u64 {
        let counts = self.values.iter().map(|(_, values)| values.len() as u64);
        counts.fold(1, u64::saturating_mul)
    }

    fn size(&self, mut number: u64) -> Params {
        let mut params = self.problem.timed.clone();
        // The first parameter varies most slowly, so that a part of all sizes is a part of that parameter's values.
        for (param, values) in self.values.iter().rev() {
            let count = values.len().max(1) as u64;
            if let Some(value) = values.get((number % count) as usize) {
                params.insert((*param).to_owned(), *value);
            }
            number /= count;
        }
        params
    }

    /// True if this is one of the legal sizes. Visible sizes and timed ones need not be.
    fn has(&self, params: &Params) -> bool {
        params.iter().all(|(name, value)| {
            match self.values.iter().find(|(param, _)| param == name) {
                Some((_, values)) => values.binary_search(value).is_ok(),
                None => self.problem.timed.get(name) == Some(value),
            }
        })
    }

    /// For each parameter with few values, sizes with those values that no size of `met` has.
    fn values_left_out<'p>(
        &self,
        met: impl Iterator<Item = &'p Params> + Clone,
        rng: &mut ChaCha8Rng,
    ) -> Vec<Params> {
        let mut more = Vec::new();
        for (param, values) in &self.values {
            if values.len() as u64 > FEW {
                continue;
            }
            let known: BTreeSet<i64> = met.clone().filter_map(|p| p.get(*param).copied()).collect();
            for value in values.iter().filter(|value| !known.contains(value)) {
                let mut params = self.size(rng.random_range(0..self.count()));
                params.insert((*param).to_owned(), *value);
                more.push(params);
            }
        }
        more
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;

    use super::super::sizes::shipped;
    use super::*;

    fn problem(name: &str) -> &'static Problem {
        let found = shipped().iter().find(|p| p.id.as_str() == name);
        found.expect("it is shipped")
    }

    fn swept(problem: &Problem, thoroughness: Thoroughness, seed: u64) -> Sweep {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let met = [problem.timed.clone()];
        Sweep::draw(problem, thoroughness, met.iter(), &mut rng).expect("it is no first look")
    }

    #[test]
    fn calls_may_take_ten_times_our_own_work_and_a_while_more() {
        let second = Duration::from_secs(1);
        assert_eq!(Sweep::limit_of_calls(Duration::ZERO), 5 * second);
        assert_eq!(Sweep::limit_of_calls(second / 2), 10 * second);
        assert_eq!(Sweep::limit_of_calls(10 * second), 105 * second);
    }

    #[test]
    fn a_first_look_has_no_sweep() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for problem in shipped() {
            let met = std::iter::once(&problem.timed);
            assert_eq!(
                Sweep::draw(problem, Thoroughness::Screening, met, &mut rng),
                None
            );
        }
    }

    #[test]
    fn where_there_are_few_sizes_all_of_them_are_met_at_every_place() {
        for (name, count) in [("dgemm", 8), ("walsh_hadamard", 18)] {
            for thoroughness in [Thoroughness::Full, Thoroughness::OtherLayout] {
                for seed in 0..20 {
                    let problem = problem(name);
                    let sweep = swept(problem, thoroughness, seed);
                    let mut sizes: BTreeSet<i64> = sweep.sizes.iter().map(|p| p["n"]).collect();
                    sizes.insert(problem.timed["n"]);
                    let hidden = &problem.verify.hidden[0];
                    let all: BTreeSet<i64> =
                        hidden.between(hidden.min, hidden.max).into_iter().collect();
                    assert_eq!(sizes, all, "{name}");
                    let verified = sweep.verified(sweep.sizes.len());
                    assert_eq!(verified.to_string(), format!("all {count} sizes"));
                }
            }
        }
    }

    #[test]
    fn in_full_all_sizes_are_met_where_there_are_a_thousand_at_most() {
        for (name, count) in [("floyd_warshall", 200), ("sgemm", 400), ("nbody", 800)] {
            let sweep = swept(problem(name), Thoroughness::Full, 5);
            let all = sweep.met.iter().chain(&sweep.sizes);
            let sizes: BTreeSet<i64> = all.map(|p| p["n"]).collect();
            assert!(sizes.into_iter().eq(1..=count), "{name}");
            let verified = sweep.verified(sweep.sizes.len());
            assert_eq!(verified.to_string(), format!("all {count} sizes"));
        }
    }

    #[test]
    fn sizes_beyond_those_of_large_problems_have_as_much_time_as_a_place() {
        let [soon, late, end] = [4, 5, 11].map(Duration::from_secs);
        for (name, met, own, goes_on) in [
            ("sgemm", 200, soon, true),
            ("sgemm", 89, late, true),
            ("sgemm", 90, late, false),
            ("sgemm", 89, end, false),
            ("conv2d", 95, late, true),
            ("conv2d", 95, end, false),
        ] {
            let sweep = swept(problem(name), Thoroughness::Full, 1);
            assert_eq!(sweep.goes_on(met, own), goes_on, "{name}, {met}");
        }
        let other_layout = swept(problem("conv2d"), Thoroughness::OtherLayout, 1);
        assert!(other_layout.goes_on(5, soon) && !other_layout.goes_on(5, late));
    }

    #[test]
    fn few_sizes_are_all_met_in_full_whatever_the_time() {
        let hour = Duration::from_secs(3600);
        for name in ["dgemm", "walsh_hadamard"] {
            let full = swept(problem(name), Thoroughness::Full, 1);
            assert!(
                (0..full.sizes.len()).all(|done| full.goes_on(done, hour)),
                "{name}"
            );
            let other_layout = swept(problem(name), Thoroughness::OtherLayout, 1);
            assert!(!other_layout.goes_on(1, hour), "{name}");
        }
    }

    #[test]
    fn sizes_skipped_for_lack_of_time_are_not_counted_as_met() {
        let sweep = swept(problem("dgemm"), Thoroughness::OtherLayout, 1);
        let verified = sweep.verified(3);
        assert_eq!((verified.met, verified.legal), (4, 8));
        assert!(verified.one_in.is_some_and(|n| n < 3), "{verified}");
        let sweep = swept(problem("sgemm"), Thoroughness::Full, 1);
        let verified = sweep.verified(300);
        assert_eq!((verified.met, verified.legal), (301, 400));
        assert!(verified.one_in.is_some_and(|n| n < 300), "{verified}");
        let sweep = swept(problem("dot"), Thoroughness::Full, 1);
        let of = |done| sweep.verified(done).one_in.unwrap_or(0);
        assert_eq!((of(0), of(10), of(45), of(90)), (1, 2, 10, 20));
        // A result with less than a full verification proves says so.
        let says = |done| sweep.verified(done).to_string();
        assert!(
            says(45).ends_with("but not one that is wrong at 1 in 20: time ended the verification")
        );
        assert!(says(90).ends_with("with a probability of 0.99 or more"));
    }

    /// For each problem with more sizes than are met, and for programs that are wrong at one size in this many, chosen
    /// in several ways: counts how many pass.
    #[test]
    fn programs_that_are_wrong_at_the_share_that_is_named_are_met_as_often_as_is_said() {
        const PROGRAMS: u64 = 120;
        for problem in shipped() {
            let legal = Legal::of(problem);
            if legal.count() <= FEW {
                continue;
            }
            let (mut by_remainder, mut in_a_row) = (0, 0);
            for seed in 0..PROGRAMS {
                let mut sweep = swept(problem, Thoroughness::Full, seed);
                if legal.count() <= ALL_IN_FULL {
                    // The time may end after the sizes for which there is always time.
                    sweep.sizes.truncate(DRAWN as usize);
                }
                let verified = sweep.verified(sweep.sizes.len());
                let one_in = u64::from(verified.one_in.expect("not all are met"));
                assert!(one_in >= 20, "{}: {verified}", problem.id);
                let first = &problem.verify.hidden[0].param;
                let values = &legal.values[0].1;
                let place = |p: &Params| values.binary_search(&p[first]).unwrap_or(0);
                // The values of the first parameter stand for its sizes: each of them has equally many.
                let wrong = |p: &Params| (place(p) as u64 + seed).is_multiple_of(one_in);
                by_remainder += u64::from(!sweep.sizes.iter().any(wrong));
                let width = values.len().div_ceil(one_in as usize);
                let from = (seed as usize * 37) % (values.len() - width + 1);
                let wrong = |p: &Params| (from..from + width).contains(&place(p));
                in_a_row += u64::from(!sweep.sizes.iter().any(wrong));
            }
            // One in a hundred at most, plus the scatter of so few programs.
            let most = PROGRAMS / 20;
            assert!(by_remainder <= most, "{}: {by_remainder}", problem.id);
            assert!(in_a_row <= most, "{}: {in_a_row}", problem.id);
        }
    }

    #[test]
    fn every_value_of_a_parameter_of_few_is_met() {
        for (name, param, count) in [
            ("batched_dgemm", "n", 32),
            ("conv2d", "k", 7),
            ("stencil2d", "sweeps", 12),
        ] {
            for seed in 0..50 {
                let sweep = swept(problem(name), Thoroughness::Full, seed);
                let all = sweep.met.iter().chain(&sweep.sizes);
                let values: BTreeSet<i64> = all.map(|p| p[param]).collect();
                assert_eq!(values.len(), count, "{name}");
            }
        }
    }

    #[test]
    fn places_share_what_a_full_verification_draws() {
        for problem in shipped().iter().filter(|p| Legal::of(p).count() > FEW) {
            let sizes = swept(problem, Thoroughness::OtherLayout, 3).sizes.len() as u64;
            assert_eq!(sizes, DRAWN_OTHER_LAYOUT, "{}", problem.id);
        }
    }

    proptest! {
        #[test]
        fn drawn_sizes_are_legal(which in 0usize..100, seed: u64, other_layout: bool) {
            let problem = &shipped()[which % shipped().len()];
            let thoroughness = if other_layout { Thoroughness::OtherLayout } else { Thoroughness::Full };
            let sweep = swept(problem, thoroughness, seed);
            let legal = Legal::of(problem);
            for params in &sweep.sizes {
                prop_assert!(params.keys().eq(problem.timed.keys()));
                prop_assert!(legal.has(params), "{:?}", params);
            }
        }

        #[test]
        fn numbers_come_from_their_parts(parts in 1u64..200, count in 1u64..1_000_000, seed: u64) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            for part in 0..parts {
                let number = in_part(part, parts, count, &mut rng);
                prop_assert!(number < count);
                prop_assert!(number as u128 >= (part as u128 * count as u128) / parts as u128);
                prop_assert!(number as u128 * parts as u128 <= (part as u128 + 1) * count as u128);
            }
        }
    }
}
