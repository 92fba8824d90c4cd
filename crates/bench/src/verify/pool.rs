//! The secret cases of a verifier, and which of them one candidate meets, in which order.
//!
//! Every candidate meets the smallest size, one from each third of what lies below the timed one, the timed size twice
//! with different inputs, and one larger size. Cheap ones come first, so that wrong programs cost little. Whoever is
//! verified in full meets the largest size besides.

use flopsmith_problem::{Distribution, Params, Problem};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::cases::Case;
use super::sizes::{PARTS, Sizes, largest};
use crate::supervise::Placing;

/// One candidate in so many meets the largest size at its first look, which costs as much as all others together; the
/// rest meet one between the timed and the largest size.
const LARGEST_ONE_IN: u32 = 6;
/// Of the thirds between the timed and the largest size, how many candidates in so many meet which: the dearest is met least.
const LARGE_WEIGHTS: [u32; PARTS] = [3, 2, 1];
/// One candidate in so many meets denormal inputs where a call has more than [`LITTLE_WORK`], the others all do.
const DENORMAL_ONE_IN: u32 = 3;
/// Operations of which each may take a hundred times as long as usual without anyone noticing.
const LITTLE_WORK: f64 = 100_000.0;
/// The part of the sizes below the timed one in which every program is called twice in the same place.
const REPEATED_PART: usize = PARTS / 2;
/// Problems name one visible size, or a few of which these many are kept.
const VISIBLE: usize = 2;

/// Where the arrays of a case may lie when it does not matter.
const PLACES: [Placing; 3] = [Placing::Between, Placing::AtStart, Placing::AtEnd];

/// How much a verification looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thoroughness {
    /// A first look at a fresh program: what is dear is met by some programs only.
    Screening,
    /// Before a program counts, as an elite or in a report: nothing is left to the draw that would be dear.
    Full,
}

/// What cases are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// The smallest size.
    Smallest,
    /// Hardly larger, where loops do not fill a vector or do not run at all.
    Edge,
    /// Below the timed size, a case from each third: wrong programs fail here within a millisecond.
    Small,
    /// Some parameters below and some above their timed size, where there are several.
    Mixed,
    /// Inputs so small that they have lost digits, where the problem has such.
    Denormal,
    /// The timed size; the first has uniform inputs, as timed calls have but for the graded rows of products, the others uneven
    /// ones where the problem has such: every candidate meets one of each.
    Timed,
    /// Between the timed and the largest size, a case from each third.
    Large,
    /// The largest size.
    Largest,
}

impl Group {
    /// Every group.
    pub const ALL: [Group; 8] = [
        Group::Smallest,
        Group::Edge,
        Group::Small,
        Group::Mixed,
        Group::Denormal,
        Group::Timed,
        Group::Large,
        Group::Largest,
    ];

    /// How many cases it has.
    pub fn count(self, problem: &Problem) -> usize {
        let verify = &problem.verify;
        match self {
            Group::Smallest => 2,
            Group::Edge | Group::Small | Group::Large => PARTS,
            Group::Mixed if verify.hidden.len() > 1 => PARTS,
            Group::Denormal if verify.distributions.contains(&Distribution::Denormal) => 2,
            Group::Mixed | Group::Denormal => 0,
            Group::Timed => 3 + verify.visible.len().min(VISIBLE),
            Group::Largest => 1,
        }
    }

    /// Draws what its `n`th case shall be. Another draw is as good.
    pub fn draw(self, n: usize, problem: &Problem, rng: &mut ChaCha8Rng) -> (Params, Distribution) {
        let sizes = Sizes { problem };
        let params = match self {
            Group::Smallest => sizes.smallest(),
            Group::Edge => sizes.edge(rng),
            Group::Small => sizes.below(n, rng),
            Group::Mixed => sizes.mixed(n, rng),
            Group::Denormal => sizes.little(rng),
            Group::Timed => n
                .checked_sub(1)
                .and_then(|n| problem.verify.visible.iter().take(VISIBLE).nth(n))
                .unwrap_or(&problem.timed)
                .clone(),
            Group::Large => sizes.above(n, rng),
            Group::Largest => largest(problem),
        };
        let content = match self {
            Group::Denormal => Distribution::Denormal,
            Group::Timed if n > 0 => uneven_distribution(problem, rng),
            Group::Timed | Group::Largest => Distribution::Uniform,
            _ => other_distribution(problem, rng),
        };
        (params, content)
    }
}

/// The secret cases.
#[derive(Default)]
pub struct Pool {
    cases: [Vec<Case>; Group::ALL.len()],
}

impl Pool {
    /// The cases of a group.
    pub fn of(&self, group: Group) -> &[Case] {
        &self.cases[group as usize]
    }

    /// One more case of a group.
    pub fn add(&mut self, group: Group, case: Case) {
        self.cases[group as usize].push(case);
    }

    /// Another case in the place of the `n`th of a group.
    pub fn replace(&mut self, group: Group, n: usize, case: Case) {
        if let Some(old) = self.cases[group as usize].get_mut(n) {
            *old = case;
        }
    }

    /// The cases of one candidate.
    pub fn choose(
        &self,
        problem: &Problem,
        thoroughness: Thoroughness,
        rng: &mut ChaCha8Rng,
    ) -> Vec<Step> {
        let params = |group| -> Vec<&Params> { self.of(group).iter().map(|c| &c.params).collect() };
        let sizes = Group::ALL.map(params);
        choose(problem, &sizes, thoroughness, rng)
    }
}

/// A case as one candidate meets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Its group.
    pub group: Group,
    /// Its number in the group.
    pub number: usize,
    /// Where the arrays lie.
    pub placing: Placing,
    /// Where they lie when it is called once more with the same inputs, which must give the same bits.
    pub again: Option<Again>,
}

/// Where the arrays of a second call lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Where they lay at the first call.
    Here,
    /// Somewhere else.
    Elsewhere(Placing),
}

/// Which cases a candidate meets, cheapest first. `sizes` are those of the cases of each group.
fn choose(
    problem: &Problem,
    sizes: &[Vec<&Params>; Group::ALL.len()],
    thoroughness: Thoroughness,
    rng: &mut ChaCha8Rng,
) -> Vec<Step> {
    let of = |group: Group| &sizes[group as usize];
    let mut met: Vec<&Params> = vec![&problem.timed];
    let mut chosen: Vec<(Group, usize)> = Vec::new();
    // Where there are few sizes, some of these are the same.
    let drawn = [Group::Edge, Group::Smallest, Group::Mixed];
    let drawn = drawn.map(|group| any(group, of(group).len(), rng));
    let small = (0..of(Group::Small).len()).map(|n| (Group::Small, n));
    for (group, n) in small.chain(drawn.into_iter().flatten()) {
        let params = of(group)[n];
        if !met.contains(&params) {
            met.push(params);
            chosen.push((group, n));
        }
    }
    chosen.extend(
        any(Group::Denormal, of(Group::Denormal).len(), rng).filter(|&(group, n)| {
            problem.work_flops(of(group)[n]) <= LITTLE_WORK
                || rng.random_range(0..DENORMAL_ONE_IN) == 0
        }),
    );
    chosen.push((Group::Timed, 0));
    let uneven = of(Group::Timed).len().saturating_sub(1);
    chosen.extend(any(Group::Timed, uneven, rng).map(|(group, n)| (group, n + 1)));
    let full = thoroughness == Thoroughness::Full;
    let largest = rng.random_range(0..LARGEST_ONE_IN) == 0;
    if largest || full {
        chosen.extend(any(Group::Largest, of(Group::Largest).len(), rng));
    }
    if (!largest || full) && !of(Group::Large).is_empty() {
        chosen.push((Group::Large, large(rng) % of(Group::Large).len()));
    }

    let work = |(group, n): (Group, usize)| problem.work_flops(of(group)[n]);
    chosen.sort_by(|x, y| work(*x).total_cmp(&work(*y)));
    let steps = chosen.into_iter().enumerate();
    steps
        .map(|(step, (group, number))| {
            let place = rng.random_range(0..PLACES.len());
            let placing = match (group, step) {
                // Where timed calls find their arrays, with inputs that they do not have.
                (Group::Timed, _) if number > 0 => Placing::Fixed,
                // Bands tell how far outside a program writes; inaccessible pages only kill it.
                (_, 0) => Placing::Between,
                _ => PLACES[place],
            };
            let again = match group {
                Group::Small if number == REPEATED_PART => Some(Again::Here),
                Group::Timed if number == 0 => PLACES
                    .into_iter()
                    .cycle()
                    .skip(place + 1)
                    .find(|p| *p != placing)
                    .map(Again::Elsewhere),
                _ => None,
            };
            Step {
                group,
                number,
                placing,
                again: again.filter(|_| problem.deterministic),
            }
        })
        .collect()
}

/// One of the thirds above the timed size.
fn large(rng: &mut ChaCha8Rng) -> usize {
    let mut left = rng.random_range(0..LARGE_WEIGHTS.iter().sum());
    LARGE_WEIGHTS
        .iter()
        .position(|&weight| {
            let here = left < weight;
            left = left.saturating_sub(weight);
            here
        })
        .unwrap_or(0)
}

/// One of so many cases of a group; none where there are none.
fn any(group: Group, count: usize, rng: &mut ChaCha8Rng) -> Option<(Group, usize)> {
    (count > 0).then(|| (group, rng.random_range(0..count)))
}

/// What inputs may look like that timed calls never have. Denormal ones have cases of their own.
fn other_distribution(problem: &Problem, rng: &mut ChaCha8Rng) -> Distribution {
    let other = |d: Distribution| !matches!(d, Distribution::Uniform | Distribution::Denormal);
    one_of(problem, rng, other).unwrap_or(Distribution::Uniform)
}

/// One that methods with errors in proportion to the largest element fail on.
fn uneven_distribution(problem: &Problem, rng: &mut ChaCha8Rng) -> Distribution {
    one_of(problem, rng, Distribution::is_uneven)
        .unwrap_or_else(|| other_distribution(problem, rng))
}

fn one_of(
    problem: &Problem,
    rng: &mut ChaCha8Rng,
    wanted: impl Fn(Distribution) -> bool,
) -> Option<Distribution> {
    let known = problem.verify.distributions.iter().copied();
    let fit: Vec<Distribution> = known.filter(|d| wanted(*d)).collect();
    (!fit.is_empty()).then(|| fit[rng.random_range(0..fit.len())])
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use rand::SeedableRng;

    use super::super::sizes::shipped;
    use super::*;

    const CANDIDATES: u64 = 64;

    /// What a fresh candidate meets: the steps with their sizes. Each seed has a pool of its own.
    fn met(problem: &Problem, seed: u64) -> Vec<(Step, Params)> {
        met_in(Thoroughness::Screening, problem, seed)
    }

    fn met_in(thoroughness: Thoroughness, problem: &Problem, seed: u64) -> Vec<(Step, Params)> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let pool = Group::ALL.map(|group| {
            let draw = |n| group.draw(n, problem, &mut rng).0;
            (0..group.count(problem)).map(draw).collect::<Vec<_>>()
        });
        let sizes = Group::ALL.map(|group| pool[group as usize].iter().collect::<Vec<_>>());
        choose(problem, &sizes, thoroughness, &mut rng)
            .into_iter()
            .map(|step| (step, pool[step.group as usize][step.number].clone()))
            .collect()
    }

    fn dgemm() -> &'static Problem {
        let found = shipped().iter().find(|p| p.id.as_str() == "dgemm");
        found.expect("dgemm is shipped")
    }

    #[test]
    fn cases_come_in_the_order_of_their_work_and_the_timed_size_is_always_there() {
        for problem in shipped() {
            for seed in 0..CANDIDATES {
                let steps = met(problem, seed);
                let work: Vec<f64> = steps.iter().map(|(_, p)| problem.work_flops(p)).collect();
                assert!(work.is_sorted(), "{}: {work:?}", problem.id);
                let first = steps[0].0;
                assert_eq!(first.placing, Placing::Between, "{}: {first:?}", problem.id);
                let timed = |n: &dyn Fn(usize) -> bool| {
                    let mut found = steps
                        .iter()
                        .filter(|(step, _)| step.group == Group::Timed && n(step.number));
                    let step = found.next().expect("it is there").0;
                    assert!(found.next().is_none(), "{}: twice", problem.id);
                    step
                };
                let Some(Again::Elsewhere(place)) = timed(&|n| n == 0).again else {
                    unreachable!("{}: the timed size is not called again", problem.id);
                };
                assert_ne!(place, timed(&|n| n == 0).placing, "{}", problem.id);
                assert_eq!(timed(&|n| n > 0).placing, Placing::Fixed, "{}", problem.id);
            }
        }
    }

    /// Whoever is right on one side of a size only, whichever size that is, meets one on the other side.
    #[test]
    fn the_ends_of_every_range_of_sizes_are_met() {
        for problem in shipped() {
            let mut most: BTreeMap<&str, u64> = BTreeMap::new();
            for seed in 0..CANDIDATES {
                let steps = met(problem, seed);
                for hidden in &problem.verify.hidden {
                    let sizes: BTreeSet<i64> =
                        steps.iter().map(|(_, p)| p[&hidden.param]).collect();
                    assert_eq!(sizes.first(), Some(&hidden.min), "{}", problem.id);
                    assert!(sizes.len() >= 2, "{}: {sizes:?}", problem.id);
                    let timed = problem.timed[&hidden.param];
                    assert!(sizes.contains(&timed), "{}: {sizes:?}", problem.id);
                    assert!(
                        timed == hidden.max || sizes.last() > Some(&timed),
                        "{}: {sizes:?}",
                        problem.id
                    );
                    *most.entry(&hidden.param).or_default() +=
                        u64::from(sizes.last() == Some(&hidden.max));
                }
            }
            // A sixth of the candidates, give or take some; all of them where there is only one size above the timed one.
            assert_eq!(most.len(), problem.verify.hidden.len());
            for (param, count) in most {
                assert!(count >= CANDIDATES / 16, "{} {param}: {count}", problem.id);
            }
        }
    }

    #[test]
    fn whoever_is_verified_in_full_meets_the_largest_size_whatever_is_drawn() {
        for problem in shipped() {
            for seed in 0..CANDIDATES {
                let steps = met_in(Thoroughness::Full, problem, seed);
                let of = |group| steps.iter().filter(|(s, _)| s.group == group).count();
                assert_eq!(of(Group::Largest), 1, "{}", problem.id);
                assert_eq!(of(Group::Large), 1, "{}", problem.id);
                for hidden in &problem.verify.hidden {
                    let sizes = steps.iter().map(|(_, p)| p[&hidden.param]);
                    assert_eq!(sizes.max(), Some(hidden.max), "{}", problem.id);
                }
            }
        }
    }

    #[test]
    fn one_candidate_of_dgemm_meets_every_cheap_size_and_many_meet_all() {
        let problem = dgemm();
        let mut all = BTreeSet::new();
        let mut work = 0.0;
        let mut denormal = 0;
        for seed in 0..CANDIDATES {
            let steps = met(problem, seed);
            let sizes: BTreeSet<i64> = steps.iter().map(|(_, p)| p["n"]).collect();
            assert!(
                [64, 128, 192, 256].iter().all(|n| sizes.contains(n)),
                "{sizes:?}"
            );
            all.extend(sizes);
            for (step, params) in &steps {
                let calls = if step.again.is_some() { 2.0 } else { 1.0 };
                work += calls * problem.work_flops(params);
                denormal += u64::from(step.group == Group::Denormal);
            }
        }
        let expected: BTreeSet<i64> = (1..=8).map(|n| n * 64).collect();
        assert_eq!(all, expected);
        // What verifying costs: that of eight calls of the timed size.
        let timed = problem.work_flops(&problem.timed);
        let each = work / CANDIDATES as f64 / timed;
        assert!((6.0..9.0).contains(&each), "{each} timed calls");
        assert!(
            (CANDIDATES / 8..CANDIDATES * 5 / 8).contains(&denormal),
            "{denormal}"
        );
    }

    #[test]
    fn every_combination_of_sides_is_met_where_several_parameters_vary() {
        for problem in shipped().iter().filter(|p| p.verify.hidden.len() == 2) {
            let mut sides = BTreeSet::new();
            for seed in 0..CANDIDATES {
                for (_, params) in met(problem, seed) {
                    let side = |h: &flopsmith_problem::HiddenSizes| {
                        params[&h.param].cmp(&problem.timed[&h.param])
                    };
                    let hidden = problem.verify.hidden.iter();
                    sides.insert(hidden.map(side).collect::<Vec<_>>());
                }
            }
            use std::cmp::Ordering::{Greater, Less};
            for wanted in [
                [Less, Less],
                [Less, Greater],
                [Greater, Less],
                [Greater, Greater],
            ] {
                assert!(
                    sides.contains(&wanted[..]),
                    "{}: never {wanted:?}",
                    problem.id
                );
            }
        }
    }

    #[test]
    fn denormal_inputs_are_met_by_all_where_they_are_cheap_and_never_at_large_sizes() {
        for problem in shipped() {
            let has = problem
                .verify
                .distributions
                .contains(&Distribution::Denormal);
            for seed in 0..CANDIDATES {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                for group in Group::ALL {
                    for n in 0..group.count(problem) {
                        let (params, content) = group.draw(n, problem, &mut rng);
                        let denormal = content == Distribution::Denormal;
                        assert_eq!(denormal, group == Group::Denormal, "{}", problem.id);
                        let work = problem.work_flops(&params);
                        assert!(!denormal || work <= 1e6, "{}: {work}", problem.id);
                    }
                }
                let meets = met(problem, seed)
                    .iter()
                    .any(|(s, _)| s.group == Group::Denormal);
                if ["sgemm", "dgemv", "dot", "walsh_hadamard"].contains(&problem.id.as_str()) {
                    assert!(has && meets, "{}", problem.id);
                }
            }
        }
    }
}
