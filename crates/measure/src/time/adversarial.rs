//! Unannounced, untimed calls with adversarial inputs between the timed calls.
//!
//! Timed inputs are made in microseconds and are all of one kind, and a program can tell from within that it runs in a
//! timer's process: the verifier has other buffers, other processes and few calls. A correct verification therefore
//! says nothing about a program that waits for its second call, or its fortieth, and then switches to a method that is
//! right for easy inputs only. Now and then a session gives the program adversarial inputs, as verification does, and judges
//! the result in the same way. A program can tell such a call from the others only by looking at the inputs, and a
//! program that looks at them and computes the right result is right.

use std::time::{Duration, Instant};

use flopsmith_problem::Distribution;
use flopsmith_protocol::Failure;
use rand::Rng;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::workload::{WorkloadTimer, own_fault};
use crate::verify::cases::{Case, ReferenceProcesses};

/// Cases of different kinds that are held ready. No process meets a case twice.
const HELD: usize = 5;
/// Cases of each certain kind, if drawing them takes no longer than [`DRAWING`]. Each process meets one of them by chance. A program
/// that is wrong where one bit of its inputs permits it is right in half of the cases, and the processes of a certification
/// meet most of them.
const OF_A_KIND: usize = 8;
/// Time for cases beyond [`HELD`]: each is a call of the reference.
const DRAWING: Duration = Duration::from_millis(250);
/// The cases need at most about this much memory ...
const MOST_BYTES: usize = 96 << 20;
/// ... where each input and output takes this many times its size.
const COPIES: usize = 4;
/// Measurements between two renewals of a case.
const RENEW_EVERY: u32 = 16;

/// The cases of a timer.
#[derive(Default)]
pub struct AdversarialCases {
    cases: Vec<Case>,
    measurements: u32,
}

impl AdversarialCases {
    /// The calls of one process: one case of each kind, by chance. Mirror images stay together.
    pub fn calls(&self, rng: &mut ChaCha8Rng) -> AdversarialCalls<'_> {
        let mut cases: Vec<&Case> = self.cases.iter().collect();
        cases.shuffle(rng);
        let mut met = Vec::new();
        cases.retain(|case| {
            let kind = case.distribution;
            let is_new = kind == Distribution::Checkered || !met.contains(&kind);
            met.push(kind);
            is_new
        });
        let (mut certain, mut others): (Vec<&Case>, Vec<&Case>) = cases
            .into_iter()
            .partition(|case| is_certain(case.distribution));
        if certain.is_empty() {
            std::mem::swap(&mut certain, &mut others);
        }
        AdversarialCalls {
            certain,
            others,
            bursts: 0,
        }
    }
}

/// The remaining cases of one process.
pub struct AdversarialCalls<'a> {
    /// Every program that is not slow meets all of these: no other check finds the faults that they reveal.
    certain: Vec<&'a Case>,
    /// A program meets as many of these as chance brings.
    others: Vec<&'a Case>,
    bursts: u32,
}

impl<'a> AdversarialCalls<'a> {
    /// No cases, for programs of our own.
    pub fn none() -> Self {
        Self {
            certain: Vec::new(),
            others: Vec::new(),
            bursts: 0,
        }
    }

    /// The number of the call in a burst before which an adversarial call is made, and its case. The first burst has one hard
    /// call, and the `n`th burst has one with a chance of 1 in `n`, as long as there are cases: a program is safe in no
    /// part of a measurement, however long. A `slow` program meets one adversarial call only, as all of its calls are checked
    /// in full.
    pub fn in_burst<R: Rng>(
        &mut self,
        calls: u32,
        slow: bool,
        rng: &mut R,
    ) -> Option<(u32, &'a Case)> {
        self.bursts += 1;
        let first = self.bursts == 1;
        if calls == 0 || slow && !first || !rng.random_ratio(1, self.bursts) {
            return None;
        }
        // One case is left for the end.
        let case = match first || self.certain.len() > 1 {
            true => self.certain.pop(),
            false => self.others.pop(),
        };
        Some((rng.random_range(0..calls), case?))
    }

    /// The cases that are called at the end.
    pub fn rest(&mut self) -> Vec<&'a Case> {
        std::mem::take(&mut self.certain)
    }
}

impl WorkloadTimer {
    /// Draws the cases when the first candidate comes, and replaces the oldest one now and then. No candidate's process
    /// may exist then.
    pub(super) fn renew_adversarial(&mut self) -> Result<(), Failure> {
        self.adversarial.measurements = self.adversarial.measurements.wrapping_add(1);
        if self.adversarial.cases.is_empty() {
            self.adversarial.cases = self.draw_adversarial(None)?;
        } else if self.adversarial.measurements.is_multiple_of(RENEW_EVERY) {
            let oldest = self.adversarial.cases.remove(0).distribution;
            let mut kinds = vec![oldest];
            if oldest == Distribution::Checkered {
                // The other checkered case is the mirror image of this one, so it is replaced as well.
                let others = self.adversarial.cases.len();
                self.adversarial
                    .cases
                    .retain(|case| case.distribution != oldest);
                kinds.resize(1 + others - self.adversarial.cases.len(), oldest);
            }
            let fresh = self.draw_adversarial(Some(kinds))?;
            self.adversarial.cases.extend(fresh);
        }
        Ok(())
    }

    /// Draws as many cases as are held, of different kinds, or cases of the kinds in `these`. The second checkered case
    /// is the first with all signs turned, so that no sign of a number keeps a program safe from both.
    fn draw_adversarial(&self, these: Option<Vec<Distribution>>) -> Result<Vec<Case>, Failure> {
        let mut rng = ChaCha8Rng::seed_from_u64(rand::rng().random());
        let bytes: usize = self.specification.arrays.iter().map(|a| a.bytes()).sum();
        let room = (MOST_BYTES / (COPIES * bytes.max(1))).max(1);
        let all = &self.problem.verify.distributions;
        let (kinds, more) = match these {
            Some(these) => (these, Vec::new()),
            None => {
                let kinds = kinds(all, room.min(HELD), &mut rng);
                let more = repeated(&kinds, room);
                (kinds, more)
            }
        };
        let start = |object: &[u8], entry: &str, name: &'static str| {
            self.start(object, entry, None).map_err(own_fault(name))
        };
        let mut references = ReferenceProcesses {
            reference: start(
                &self.equipment.reference_object,
                &self.problem.entry.name,
                "reference.c",
            )?,
            magnitude: self
                .equipment
                .magnitude
                .as_ref()
                .map(|object| start(&object.bytes, &object.entry, "magnitude.c"))
                .transpose()?,
        };
        // The arrays of these cases lie at other places, so the places of the timed calls' arrays become bands first.
        self.arena.restore(&self.placement);
        let mut checkered: Option<u64> = None;
        let began = Instant::now();
        let needed = kinds.into_iter().map(|kind| (kind, true));
        let more = more.into_iter().map(|kind| (kind, false));
        let cases = needed
            .chain(more)
            .take_while(|(_, needed)| *needed || began.elapsed() < DRAWING)
            .map(|(kind, _)| {
                let fresh = rng.random();
                let mirrored = checkered.filter(|_| kind == Distribution::Checkered);
                if kind == Distribution::Checkered {
                    checkered = Some(fresh);
                }
                Case::draw_from(
                    &self.problem,
                    self.problem.timed.clone(),
                    kind,
                    mirrored.is_some(),
                    &self.arena,
                    &mut references,
                    &mut ChaCha8Rng::seed_from_u64(mirrored.unwrap_or(fresh)),
                )
            })
            .collect();
        references.exit().map_err(own_fault("reference.c"))?;
        cases
    }
}

/// The kinds of the inputs of `held` cases. Kinds that every program meets come first, and kinds that may be slow are
/// left out.
fn kinds(all: &[Distribution], held: usize, rng: &mut ChaCha8Rng) -> Vec<Distribution> {
    let mut kinds: Vec<Distribution> = all
        .iter()
        .copied()
        .filter(|kind| !matches!(kind, Distribution::Uniform | Distribution::Denormal))
        .collect();
    kinds.shuffle(rng);
    if kinds.contains(&Distribution::Checkered) {
        // No other kind replaces this one, so there is one for the beginning and one for later.
        kinds.push(Distribution::Checkered);
    }
    kinds.sort_by_key(|kind| !is_certain(*kind));
    kinds.truncate(held);
    if kinds.is_empty() {
        kinds.push(Distribution::Uniform);
    }
    kinds
}

/// The kinds of further cases, for which there is `room` with those of `kinds`: each certain kind again and again, in turns.
/// Checkered cases have a mirror image, which makes up for more of them.
fn repeated(kinds: &[Distribution], room: usize) -> Vec<Distribution> {
    let certain = kinds.iter().copied();
    let certain: Vec<Distribution> = certain
        .filter(|kind| is_certain(*kind) && *kind != Distribution::Checkered)
        .collect();
    let count = certain.len() * (OF_A_KIND - 1);
    let turns = certain.into_iter().cycle().take(count);
    turns.take(room.saturating_sub(kinds.len())).collect()
}

/// True for the kinds on which less exact methods fail.
fn is_certain(kind: Distribution) -> bool {
    kind.is_uneven() && kind != Distribution::ZeroRows
}

#[cfg(test)]
mod tests {
    use super::*;
    use Distribution as D;

    #[test]
    fn certain_kinds_are_repeated_in_turns_as_far_as_there_is_room() {
        let kinds = [
            D::Checkered,
            D::Checkered,
            D::ScaledRows,
            D::ScaledColumns,
            D::Huge,
        ];
        let all = repeated(&kinds, 1000);
        assert_eq!(all.len(), 2 * (OF_A_KIND - 1));
        assert_eq!(all[..3], [D::ScaledRows, D::ScaledColumns, D::ScaledRows]);
        assert_eq!(repeated(&kinds, 7), [D::ScaledRows, D::ScaledColumns]);
        assert_eq!(repeated(&kinds, 3), []);
        assert_eq!(repeated(&[D::Uniform, D::ZeroOne], 100), []);
    }

    #[test]
    fn kinds_that_less_exact_methods_fail_by_come_first() {
        let all = [
            D::Uniform,
            D::ZeroOne,
            D::ScaledRows,
            D::Denormal,
            D::Negated,
            D::Checkered,
            D::ScaledColumns,
            D::Huge,
        ];
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for _ in 0..50 {
            let found = kinds(&all, 5, &mut rng);
            assert_eq!(found.len(), 5);
            assert!(found[..4].iter().all(|kind| is_certain(*kind)), "{found:?}");
            assert!(matches!(found[4], D::ZeroOne | D::Negated | D::Huge));
            let checkered = found.iter().filter(|kind| **kind == D::Checkered);
            assert_eq!(checkered.count(), 2);
        }
        assert_eq!(kinds(&[D::Uniform], 4, &mut rng), [D::Uniform]);
        let few = kinds(&[D::Uniform, D::Few, D::Ascending], 4, &mut rng);
        assert_eq!(few.len(), 2);
    }
}
