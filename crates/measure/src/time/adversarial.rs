//! Calls with hard inputs, unannounced and untimed, between the timed ones.
//!
//! Timed inputs are made in microseconds and are all of one kind, and what a
//! timer's process is like can be told from within: who verifies has other
//! buffers, other company and few calls. So being right in verification says
//! nothing of a program that waits for its second call, or its fortieth, and then
//! takes a method that is right for easy inputs only. Here a session lets it have,
//! now and then, the inputs that verification is hard by, and judges the result in
//! the same way. Such a call cannot be told from the others but by looking at the
//! inputs, and whoever looks at them and is right is right.

use flopsmith_problem::Distribution;
use flopsmith_protocol::Failure;
use rand::Rng;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::{Timer, own_fault};
use crate::verify::cases::{Case, Yardstick};

/// Cases that are held ready. No process meets one twice.
const HELD: usize = 5;
/// They do not need more memory than about this ...
const MOST_BYTES: usize = 96 << 20;
/// ... where each input and output takes so many times its size.
const COPIES: usize = 4;
/// Measurements between two renewals.
const RENEW_EVERY: u32 = 16;

/// The cases of a timer.
#[derive(Default)]
pub struct Hard {
    cases: Vec<Case>,
    measurements: u32,
}

impl Hard {
    /// The calls of one measurement.
    pub fn calls(&self, rng: &mut ChaCha8Rng) -> HardCalls<'_> {
        let (mut certain, mut others): (Vec<&Case>, Vec<&Case>) = self
            .cases
            .iter()
            .partition(|case| is_certain(case.distribution));
        if certain.is_empty() {
            std::mem::swap(&mut certain, &mut others);
        }
        certain.shuffle(rng);
        others.shuffle(rng);
        HardCalls {
            certain,
            others,
            bursts: 0,
        }
    }
}

/// What is left of the cases for one process.
pub struct HardCalls<'a> {
    /// All of these are met by whoever is not slow: what they are for is found by nothing else.
    certain: Vec<&'a Case>,
    /// And of these as many as it comes.
    others: Vec<&'a Case>,
    bursts: u32,
}

impl<'a> HardCalls<'a> {
    /// None at all, for programs of our own.
    pub fn none() -> Self {
        Self {
            certain: Vec::new(),
            others: Vec::new(),
            bursts: 0,
        }
    }

    /// Which call of a burst has another one before it, and with what. The first burst has one, the `n`th one in `n`, as long as there are
    /// cases: so there is no part of a measurement, however long it is, in which a program is safe. A `slow` one has one only, as all of its
    /// calls are checked in full.
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
        // One is left for the end.
        let case = match first || self.certain.len() > 1 {
            true => self.certain.pop(),
            false => self.others.pop(),
        };
        Some((rng.random_range(0..calls), case?))
    }

    /// Those at the end.
    pub fn rest(&mut self) -> Vec<&'a Case> {
        std::mem::take(&mut self.certain)
    }
}

impl Timer {
    /// Draws the cases when the first candidate comes, and the oldest anew now and then. No candidate may be there.
    pub(super) fn renew_hard(&mut self) -> Result<(), Failure> {
        self.hard.measurements = self.hard.measurements.wrapping_add(1);
        if self.hard.cases.is_empty() {
            self.hard.cases = self.draw_hard(None)?;
        } else if self.hard.measurements.is_multiple_of(RENEW_EVERY) {
            let oldest = self.hard.cases.remove(0).distribution;
            let mut kinds = vec![oldest];
            if oldest == Distribution::Checkered {
                // The other one is its mirror image.
                let others = self.hard.cases.len();
                self.hard.cases.retain(|case| case.distribution != oldest);
                kinds.resize(1 + others - self.hard.cases.len(), oldest);
            }
            let fresh = self.draw_hard(Some(kinds))?;
            self.hard.cases.extend(fresh);
        }
        Ok(())
    }

    /// As many cases as are held, of different kinds, or those of these kinds. The second checkered one is the first with all signs
    /// turned, so that no sign of a number keeps a program safe from both.
    fn draw_hard(&self, these: Option<Vec<Distribution>>) -> Result<Vec<Case>, Failure> {
        let mut rng = ChaCha8Rng::seed_from_u64(rand::rng().random());
        let bytes: usize = self.specification.arrays.iter().map(|a| a.bytes()).sum();
        let held = (MOST_BYTES / (COPIES * bytes.max(1))).clamp(1, HELD);
        let kinds =
            these.unwrap_or_else(|| kinds(&self.problem.verify.distributions, held, &mut rng));
        let start = |object: &[u8], entry: &str, name: &'static str| {
            self.start(object, entry, None).map_err(own_fault(name))
        };
        let mut yardstick = Yardstick {
            reference: start(
                &self.reference_object,
                &self.problem.entry.name,
                "reference.c",
            )?,
            magnitude: self
                .magnitude
                .as_ref()
                .map(|object| start(&object.bytes, &object.entry, "magnitude.c"))
                .transpose()?,
        };
        // The arrays of these lie elsewhere, where there are bands around those of timed calls.
        self.arena.restore(&self.placement);
        let mut checkered: Option<u64> = None;
        let cases = kinds
            .into_iter()
            .map(|kind| {
                let fresh = rng.random();
                let twin = checkered.filter(|_| kind == Distribution::Checkered);
                if kind == Distribution::Checkered {
                    checkered = Some(fresh);
                }
                Case::draw_from(
                    &self.problem,
                    self.problem.timed.clone(),
                    kind,
                    twin.is_some(),
                    &self.arena,
                    &mut yardstick,
                    &mut ChaCha8Rng::seed_from_u64(twin.unwrap_or(fresh)),
                )
            })
            .collect();
        yardstick.exit().map_err(own_fault("reference.c"))?;
        cases
    }
}

/// What the inputs of `held` cases look like: those that are met for certain first, and none that may be slow.
fn kinds(all: &[Distribution], held: usize, rng: &mut ChaCha8Rng) -> Vec<Distribution> {
    let mut kinds: Vec<Distribution> = all
        .iter()
        .copied()
        .filter(|kind| !matches!(kind, Distribution::Uniform | Distribution::Denormal))
        .collect();
    kinds.shuffle(rng);
    if kinds.contains(&Distribution::Checkered) {
        // Nothing undoes this, so there is one for the beginning and one for later.
        kinds.push(Distribution::Checkered);
    }
    kinds.sort_by_key(|kind| !is_certain(*kind));
    kinds.truncate(held);
    if kinds.is_empty() {
        kinds.push(Distribution::Uniform);
    }
    kinds
}

/// Those that less exact methods fail by.
fn is_certain(kind: Distribution) -> bool {
    kind.is_uneven() && kind != Distribution::ZeroRows
}

#[cfg(test)]
mod tests {
    use super::*;
    use Distribution as D;

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
