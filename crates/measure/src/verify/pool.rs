//! The secret cases of a verifier, and the choice of cases for one candidate, in their order.
//!
//! Every candidate meets the smallest size, one from each third of the sizes below the timed one, the timed size twice
//! with different inputs, one of them in a process whose buffers are those of timed calls, and one larger size. Cheap
//! cases come first, so that wrong programs cost little. A program that is verified in full also meets the largest
//! size, the timed size with the arrays at the places of a certification, and then the sizes of a
//! [`Sweep`](super::sweep::Sweep).
//!
//! Of several workloads, the first one is the timed size that is meant here. The sizes of the others are met as it is: twice
//! with different inputs, in both kinds of buffers, and at the places of a certification.

use flopsmith_problem::{Distribution, Params, Problem};
use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::cases::Case;
use super::sizes::{PARTS, Sizes, largest};
use crate::supervise::Placing;

/// One candidate in this many meets the largest size in a screening, which costs as much as all other cases together;
/// the rest meet one between the timed and the largest size.
const LARGEST_ONE_IN: u32 = 6;
/// Weights with which candidates meet the thirds between the timed and the largest size: the most expensive third is
/// met least often.
const LARGE_WEIGHTS: [u32; PARTS] = [3, 2, 1];
/// One candidate in this many meets denormal inputs if a call has more than [`LITTLE_WORK`]; below that all do.
const DENORMAL_ONE_IN: u32 = 3;
/// Number of operations that may each take a hundred times as long as usual without a noticeable delay.
const LITTLE_WORK: f64 = 100_000.0;
/// The part of the sizes below the timed one in which every program is called twice in the same place.
const REPEATED_PART: usize = PARTS / 2;
/// Problems name one visible size or a few; at most this many of them are kept.
const VISIBLE: usize = 2;

/// Cases of each workload but the first: a case with uniform inputs, and one with uneven inputs. The reference may need
/// seconds for each.
const OF_WORKLOAD: usize = 2;

/// The number of the workload, among the timed sizes of the problem, of the `n`th case of [`Group::Workloads`].
fn workload_of(n: usize) -> usize {
    1 + n / OF_WORKLOAD
}

/// Places of the arrays of a case for which the place does not matter.
const PLACES: [Placing; 3] = [Placing::Between, Placing::AtStart, Placing::AtEnd];

/// Depth of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thoroughness {
    /// A first look at a fresh program: only some programs meet the expensive cases.
    Screening,
    /// Before a program counts, as an elite or in a report: the program always meets the expensive sizes. If there are
    /// at most a thousand sizes, it is called with each of them; otherwise it is called with a sample large enough for
    /// the statement that [`VerifiedSizes`](flopsmith_protocol::VerifiedSizes) makes.
    Full,
    /// The same program in another code layout: as in full, with fewer sizes if there are many.
    OtherLayout,
}

/// Purpose of cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// The smallest size.
    Smallest,
    /// Hardly larger than the smallest, where loops do not fill a vector or do not run at all.
    Edge,
    /// Below the timed size, a case from each third: wrong programs fail here within a millisecond.
    Small,
    /// Some parameters below and some above their timed size, if there are several parameters.
    Mixed,
    /// Inputs so small that they have lost digits, if the problem has such inputs.
    Denormal,
    /// The timed size. The first case has uniform inputs, as timed calls have except for the graded rows of products;
    /// the others have uneven inputs if the problem has such. Every candidate meets one of each.
    Timed,
    /// The timed sizes of further workloads, [`OF_WORKLOAD`] cases for each: the first with uniform inputs, the other with
    /// uneven ones. Every candidate meets all of them.
    Workloads,
    /// Between the timed and the largest size, a case from each third.
    Large,
    /// The largest size.
    Largest,
}

impl Group {
    /// Every group.
    pub const ALL: [Group; 9] = [
        Group::Smallest,
        Group::Edge,
        Group::Small,
        Group::Mixed,
        Group::Denormal,
        Group::Timed,
        Group::Workloads,
        Group::Large,
        Group::Largest,
    ];

    /// Number of cases in the group.
    pub fn count(self, problem: &Problem) -> usize {
        let verify = &problem.verify;
        match self {
            Group::Smallest => 2,
            Group::Edge | Group::Small | Group::Large => PARTS,
            Group::Mixed if verify.hidden.len() > 1 => PARTS,
            Group::Denormal if verify.distributions.contains(&Distribution::Denormal) => 2,
            Group::Mixed | Group::Denormal => 0,
            Group::Timed => 3 + verify.visible.len().min(VISIBLE),
            Group::Workloads => OF_WORKLOAD * (problem.timed_sizes().len() - 1),
            Group::Largest => 1,
        }
    }

    /// Draws size and content of the group's `n`th case. Another draw is as good.
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
            Group::Workloads => problem.timed_sizes()[workload_of(n)].clone(),
            Group::Large => sizes.above(n, rng),
            Group::Largest => largest(problem),
        };
        let content = match self {
            Group::Denormal => Distribution::Denormal,
            Group::Timed if n > 0 => uneven_distribution(problem, share_of(n), rng),
            Group::Workloads if !n.is_multiple_of(OF_WORKLOAD) => {
                uneven_distribution(problem, rng.random_range(0..SHARES), rng)
            }
            Group::Timed | Group::Workloads | Group::Largest => Distribution::Uniform,
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

    /// Adds a case to a group.
    pub fn add(&mut self, group: Group, case: Case) {
        self.cases[group as usize].push(case);
    }

    /// Replaces the `n`th case of a group.
    pub fn replace(&mut self, group: Group, n: usize, case: Case) {
        if let Some(old) = self.cases[group as usize].get_mut(n) {
            *old = case;
        }
    }

    /// Chooses the cases of one candidate.
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

/// The buffers of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffers {
    /// The buffers that hold every case, between inaccessible pages.
    Guarded,
    /// The buffers of timed calls at the timed size with this number, in a process of its own.
    AsTimed(usize),
}

/// A case for one candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Its group.
    pub group: Group,
    /// Its number in the group.
    pub number: usize,
    /// The buffers that the arrays lie in.
    pub buffers: Buffers,
    /// The places of the arrays.
    pub placing: Placing,
    /// Places of the arrays in a second call with the same inputs, if there is one.
    pub again: Option<Again>,
    /// True if the second call must give the same bits, not only a right result.
    pub same_bits: bool,
}

/// The places of the arrays in a second call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Their places in the first call.
    Here,
    /// Other places than in the first call.
    Moved(Placing),
}

/// The cases of a candidate, cheapest first. `sizes` holds the sizes of the cases of each group.
fn choose(
    problem: &Problem,
    sizes: &[Vec<&Params>; Group::ALL.len()],
    thoroughness: Thoroughness,
    rng: &mut ChaCha8Rng,
) -> Vec<Step> {
    let of = |group: Group| &sizes[group as usize];
    let mut met: Vec<&Params> = problem.timed_sizes();
    let mut chosen: Vec<(Group, usize, Option<Placing>)> = Vec::new();
    // If there are few sizes, some of these are the same.
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
    // These cases have the same work, so the sort below keeps this order.
    timed.shuffle(rng);
    chosen.extend(timed);
    let mut workloads = at_workloads(of(Group::Workloads).len(), full);
    workloads.shuffle(rng);
    chosen.extend(workloads);
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
                // A band shows how far outside of an array a program writes; an inaccessible page only kills it.
                (None, 0) => Placing::Between,
                (None, _) => PLACES[place],
            };
            let again = match group {
                Group::Small if number == REPEATED_PART => Some(Again::Here),
                Group::Timed if number == 0 => moved(place, placing),
                Group::Workloads if number.is_multiple_of(OF_WORKLOAD) => moved(place, placing),
                _ => None,
            };
            Step {
                group,
                number,
                buffers: match (as_timed, group) {
                    (None, _) => Buffers::Guarded,
                    (Some(_), Group::Workloads) => Buffers::AsTimed(workload_of(number)),
                    (Some(_), _) => Buffers::AsTimed(0),
                },
                placing,
                again: again.filter(|_| problem.deterministic),
                same_bits: true,
            }
        })
        .collect()
}

/// Calls that find their arrays at the places of timed calls, with inputs that timed calls do not have. `sizes` are
/// those of the cases of [`Group::Timed`]. Visible cases among them may have another size: they do not fit those
/// buffers, and are met in addition.
fn as_timed(
    problem: &Problem,
    sizes: &[&Params],
    full: bool,
    rng: &mut ChaCha8Rng,
) -> Vec<(Group, usize, Option<Placing>)> {
    let fits = |n: &usize| *sizes[*n] == problem.timed;
    let (here, others): (Vec<usize>, Vec<usize>) = (1..sizes.len()).partition(fits);
    let mut calls = Vec::new();
    let fixed = one_in(&here, rng);
    let of_another_share = |n: &usize| Some(share_of(*n)) != fixed.map(share_of);
    let elsewhere: Vec<usize> = here.iter().copied().filter(of_another_share).collect();
    for (number, placing) in [
        (fixed, Some(Placing::Fixed)),
        // The arrays of a certification lie there.
        (
            one_in(&elsewhere, rng).filter(|_| full),
            Some(Placing::OtherLines),
        ),
        (one_in(&others, rng), None),
    ] {
        calls.extend(number.map(|number| (Group::Timed, number, placing)));
    }
    calls
}

/// The calls of all `cases` of [`Group::Workloads`], as those of the first workload: uniform inputs in guarded buffers,
/// uneven ones in the buffers of timed calls, and `full`, at the places of a certification as well.
fn at_workloads(cases: usize, full: bool) -> Vec<(Group, usize, Option<Placing>)> {
    let mut calls = Vec::new();
    for number in 0..cases {
        if number.is_multiple_of(OF_WORKLOAD) {
            calls.push((Group::Workloads, number, None));
            continue;
        }
        calls.push((Group::Workloads, number, Some(Placing::Fixed)));
        if full {
            calls.push((Group::Workloads, number, Some(Placing::OtherLines)));
        }
    }
    calls
}

/// Another place than `placing` for a second call, the next one after the `place`th.
fn moved(place: usize, placing: Placing) -> Option<Again> {
    let mut next = PLACES.into_iter().cycle().skip(place + 1);
    next.find(|p| *p != placing).map(Again::Moved)
}

/// One of these, drawn at random; none if there are none.
fn one_in<T: Copy>(these: &[T], rng: &mut ChaCha8Rng) -> Option<T> {
    (!these.is_empty()).then(|| these[rng.random_range(0..these.len())])
}

/// One of the thirds above the timed size, drawn by [`LARGE_WEIGHTS`].
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

/// One of `count` cases of a group, drawn at random; none if there are none.
fn any(group: Group, count: usize, rng: &mut ChaCha8Rng) -> Option<(Group, usize)> {
    (count > 0).then(|| (group, rng.random_range(0..count)))
}

/// If a problem has fewer kinds of inputs than this, apart from uniform and denormal ones, uniform inputs are drawn as
/// well.
const FEW: usize = 3;

/// A kind of inputs that timed calls never have. Denormal inputs have cases of their own. If there are few other kinds,
/// the inputs may be uniform as well: each kind leaves some part of the work without weight.
pub fn other_distribution(problem: &Problem, rng: &mut ChaCha8Rng) -> Distribution {
    let other = |d: Distribution| !matches!(d, Distribution::Uniform | Distribution::Denormal);
    let known = problem.verify.distributions.iter();
    let few = known.filter(|d| other(**d)).count() < FEW;
    one_of(problem, rng, |d| {
        other(d) || few && d == Distribution::Uniform
    })
    .unwrap_or(Distribution::Uniform)
}

/// The uneven kinds of inputs of a problem are dealt out into this many shares. A full verification meets a case of each
/// share where timed calls find their arrays: a program that is right for one kind only there, by the places, is refused.
const SHARES: usize = 2;

/// The share of the uneven kinds from which the `n`th case is drawn.
fn share_of(n: usize) -> usize {
    n % SHARES
}

/// A kind of inputs on which methods fail whose errors are in proportion to the largest element, from this share of the
/// problem's uneven kinds.
fn uneven_distribution(problem: &Problem, share: usize, rng: &mut ChaCha8Rng) -> Distribution {
    let known = problem.verify.distributions.iter().copied();
    let uneven: Vec<Distribution> = known.filter(|d| d.is_uneven()).collect();
    let dealt = uneven.iter().copied().skip(share).step_by(SHARES);
    // A problem may have one uneven kind only.
    let first = uneven.first().copied();
    one_in(&dealt.collect::<Vec<_>>(), rng)
        .or(first)
        .unwrap_or_else(|| other_distribution(problem, rng))
}

fn one_of(
    problem: &Problem,
    rng: &mut ChaCha8Rng,
    wanted: impl Fn(Distribution) -> bool,
) -> Option<Distribution> {
    let known = problem.verify.distributions.iter().copied();
    let fit: Vec<Distribution> = known.filter(|d| wanted(*d)).collect();
    one_in(&fit, rng)
}

#[cfg(test)]
mod tests;
