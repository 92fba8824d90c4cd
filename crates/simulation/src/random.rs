//! The only source of randomness of a run.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::message::Micros;

/// A random number generator. Numbers are drawn in the order of the events.
#[derive(Debug)]
pub(crate) struct Chance(ChaCha8Rng);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// True with a probability of `cases` in a million. Draws no number if `cases` is 0.
    pub fn one_in_million(&mut self, cases: u32) -> bool {
        cases > 0 && self.0.random_range(0..1_000_000) < cases
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: Micros, high: Micros) -> Micros {
        self.0.random_range(low..=high.max(low))
    }

    /// A number below `many`, which must not be 0.
    pub fn below(&mut self, many: usize) -> usize {
        self.0.random_range(0..many.max(1))
    }

    /// A time between `low` and `high` with a log-uniform distribution.
    pub fn spread(&mut self, low: Micros, high: Micros) -> Micros {
        let (low, high) = (low.max(1) as f64, high.max(low).max(1) as f64);
        let drawn: f64 = self.0.random();
        (low * (high / low).powf(drawn)) as Micros
    }
}
