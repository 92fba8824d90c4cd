//! The secret cases of a verifier, and which of them one candidate meets, in which order.
//!
//! Every candidate meets the smallest size, one from each third of what lies below the timed one, the timed size twice
//! with different inputs, one of them in a process whose buffers are those of timed calls, and one larger size. Cheap
//! ones come first, so that wrong programs cost little. Whoever is verified in full meets the largest size besides, the
//! timed one where certifications have their arrays, and then the sizes of a [`Sweep`](super::sweep::Sweep).

use flopsmith_problem::{Distribution, Params, Problem};
use rand::Rng;
use rand::seq::SliceRandom;
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
    /// Before a program counts, as an elite or in a report: nothing is left to the draw that would be dear, and it is called
    /// with every size of up to a thousand, else with so many that [`VerifiedSizes`](flopsmith_protocol::VerifiedSizes) says
    /// what they show.
    Full,
    /// The same program with its code at another place: as in full, with fewer sizes where there are many.
    Elsewhere,
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

    /// A case of this size.
    pub fn of_size(&self, params: &Params) -> Option<&Case> {
        self.cases
            .iter()
            .flatten()
            .find(|case| case.params == *params)
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

/// Which buffers a candidate finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffers {
    /// Those that hold every case, between inaccessible pages.
    Guarded,
    /// Those of timed calls, in a process of its own.
    AsTimed,
}

/// A case as one candidate meets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Its group.
    pub group: Group,
    /// Its number in the group.
    pub number: usize,
    /// What they lie in.
    pub buffers: Buffers,
    /// Where the arrays lie.
    pub placing: Placing,
    /// Where they lie when it is called once more with the same inputs.
    pub again: Option<Again>,
    /// Must that give the same bits, not only a right result?
    pub same_bits: bool,
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
    let mut chosen: Vec<(Group, usize, Option<Placing>)> = Vec::new();
    // Where there are few sizes, some of these are the same.
    let drawn = [Group::Edge, Group::Smallest, Group::Mixed];
    let drawn = drawn.map(|group| any(group, of(group).len(), rng));
    let small = (0..of(Group::Small).len()).map(|n| (Group::Small, n));
    for (group, n) in small.chain(drawn.into_iter().flatten()) {
        let params = of(group)[n];
        if !met.contains(&params) {
            met.push(params);
            chosen.push((group, n, None));
        }
    }
    let denormal = any(Group::Denormal, of(Group::Denormal).len(), rng).filter(|&(group, n)| {
        problem.work_flops(of(group)[n]) <= LITTLE_WORK || rng.random_range(0..DENORMAL_ONE_IN) == 0
    });
    chosen.extend(denormal.map(|(group, n)| (group, n, None)));
    let full = thoroughness != Thoroughness::Screening;
    let mut timed = vec![(Group::Timed, 0, None)];
    timed.extend(as_timed(problem, of(Group::Timed), full, rng));
    // Their work is the same, so this is the order in which they come.
    timed.shuffle(rng);
    chosen.extend(timed);
    let largest = rng.random_range(0..LARGEST_ONE_IN) == 0;
    if largest || full {
        let largest = any(Group::Largest, of(Group::Largest).len(), rng);
        chosen.extend(largest.map(|(group, n)| (group, n, None)));
    }
    if (!largest || full) && !of(Group::Large).is_empty() {
        let number = large(rng) % of(Group::Large).len();
        chosen.push((Group::Large, number, None));
    }

    let work = |group: Group, n: usize| problem.work_flops(of(group)[n]);
    chosen.sort_by(|x, y| work(x.0, x.1).total_cmp(&work(y.0, y.1)));
    let steps = chosen.into_iter().enumerate();
    steps
        .map(|(step, (group, number, as_timed))| {
            let place = rng.random_range(0..PLACES.len());
            let placing = match (as_timed, step) {
                (Some(placing), _) => placing,
                // Bands tell how far outside a program writes; inaccessible pages only kill it.
                (None, 0) => Placing::Between,
                (None, _) => PLACES[place],
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
                buffers: match as_timed {
                    Some(_) => Buffers::AsTimed,
                    None => Buffers::Guarded,
                },
                placing,
                again: again.filter(|_| problem.deterministic),
                same_bits: true,
            }
        })
        .collect()
}

/// Calls that find their arrays where timed ones do, with inputs that those do not have. `sizes` are those of the cases of
/// [`Group::Timed`], of which visible ones may have another size: they do not fit there, and are met beside the others.
fn as_timed(
    problem: &Problem,
    sizes: &[&Params],
    full: bool,
    rng: &mut ChaCha8Rng,
) -> Vec<(Group, usize, Option<Placing>)> {
    let fits = |n: &usize| *sizes[*n] == problem.timed;
    let (here, others): (Vec<usize>, Vec<usize>) = (1..sizes.len()).partition(fits);
    let mut calls = Vec::new();
    for (number, placing) in [
        (one_in(&here, rng), Some(Placing::Fixed)),
        // Those of a certification lie there.
        (
            one_in(&here, rng).filter(|_| full),
            Some(Placing::Elsewhere),
        ),
        (one_in(&others, rng), None),
    ] {
        calls.extend(number.map(|number| (Group::Timed, number, placing)));
    }
    calls
}

/// One of these numbers; none where there are none.
fn one_in(numbers: &[usize], rng: &mut ChaCha8Rng) -> Option<usize> {
    (!numbers.is_empty()).then(|| numbers[rng.random_range(0..numbers.len())])
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

/// Where there are fewer kinds of inputs than these beside uniform ones, uniform ones are drawn like them.
const FEW: usize = 3;

/// What inputs may look like that timed calls never have. Denormal ones have cases of their own. Where there are few such kinds, the
/// inputs may be uniform as well: each kind leaves some part of the work without weight.
pub fn other_distribution(problem: &Problem, rng: &mut ChaCha8Rng) -> Distribution {
    let other = |d: Distribution| !matches!(d, Distribution::Uniform | Distribution::Denormal);
    let known = problem.verify.distributions.iter();
    let few = known.filter(|d| other(**d)).count() < FEW;
    one_of(problem, rng, |d| {
        other(d) || few && d == Distribution::Uniform
    })
    .unwrap_or(Distribution::Uniform)
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
mod tests;
