//! The expected results of a timed call if no formula gives them: the baseline's results from the same inputs.
//!
//! Every call gets inputs that were never seen before, so there is no stored result to look up. The baseline is called
//! as often as the candidate anyway: it gets the seeds that the candidate had, and the two results are compared at
//! places which are drawn for each call.

use std::collections::VecDeque;
use std::fmt;

use flopsmith_harness::control::Element;
use flopsmith_harness::half;
use flopsmith_harness::inputs::{POISON_BF16, POISON_F16, POISON_F32, POISON_F64};
use flopsmith_protocol::{CandidateFault, Failure};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::tolerance::{KnownSeed, Tolerances};
use crate::supervise::{Arena, Array, Placement, Specification};

/// Elements of the outputs that are compared after each timed call.
const PLACES: usize = 48;

/// Results of a candidate's call, kept until the baseline has had the same inputs.
struct Pending {
    seed: u64,
    /// The seed, if its tolerances are known.
    known: Option<KnownSeed>,
    /// Output array, element and value.
    places: Vec<(usize, usize, Number)>,
    /// The bytes of each output array, for calls that are checked in full.
    all: Option<Vec<Vec<u8>>>,
}

/// A value, and what it is if it is a 64-bit integer: doubles do not hold all of these.
#[derive(Debug, Clone, Copy)]
struct Number {
    value: f64,
    integer: Option<i64>,
}

impl Number {
    /// A float, or an integer that a double holds.
    fn plain(value: f64) -> Self {
        Self {
            value,
            integer: None,
        }
    }

    /// True if two values differ by at most `most`. NaN is near nothing.
    fn near(self, other: Self, most: f64) -> bool {
        match (self.integer, other.integer) {
            (Some(x), Some(y)) => x == y,
            _ => self.value == other.value || (self.value - other.value).abs() <= most,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.integer {
            Some(integer) => write!(f, "{integer}"),
            None => write!(f, "{:e}", self.value),
        }
    }
}

impl Pending {
    /// False if the call is only a sample that is compared roughly.
    fn matters(&self) -> bool {
        self.known.is_some() || self.all.is_some()
    }
}

/// Compares results of the candidate with those of the baseline.
pub struct BaselineOracle<'a> {
    tolerances: &'a Tolerances,
    /// Output, element and value: what the present call is checked by.
    drawn: Box<[(usize, usize, Option<Number>); PLACES]>,
    pending: VecDeque<Pending>,
}

/// The results of a call in the buffers.
#[derive(Clone, Copy)]
pub struct Results<'a> {
    /// The buffers.
    pub arena: &'a Arena,
    /// The places of the arrays.
    pub placement: &'a Placement,
    /// The arguments.
    pub specification: &'a Specification,
}

impl Results<'_> {
    fn array(&self, n: usize) -> &Array {
        &self.specification.arrays[n]
    }

    /// One element; none if no program has written to it.
    fn element(&self, n: usize, index: usize) -> Option<Number> {
        let element = self.array(n).element;
        let offset = self.placement.arrays[n].0 + element.bytes() * index;
        let mapping = self.arena.mapping();
        let float = |poisoned: bool, value: f64| (!poisoned).then_some(Number::plain(value));
        match element {
            Element::F64 => {
                let x: f64 = mapping.get(offset);
                float(x.to_bits() == POISON_F64, x)
            }
            Element::F32 => {
                let x: f32 = mapping.get(offset);
                float(x.to_bits() == POISON_F32, x.into())
            }
            Element::F16 => {
                let bits: u16 = mapping.get(offset);
                float(bits == POISON_F16, half::from_f16(bits).into())
            }
            Element::Bf16 => {
                let bits: u16 = mapping.get(offset);
                float(bits == POISON_BF16, half::from_bf16(bits).into())
            }
            // Any integer may be a result, so there is no poison to recognise.
            Element::I32 => Some(Number::plain(mapping.get::<i32>(offset).into())),
            Element::U8 => Some(Number::plain(mapping.get::<u8>(offset).into())),
            Element::I64 => {
                let x: i64 = mapping.get(offset);
                Some(Number {
                    value: x as f64,
                    integer: Some(x),
                })
            }
        }
    }

    /// The bytes of an array.
    fn bytes(&self, n: usize) -> Vec<u8> {
        let (offset, bytes) = self.placement.arrays[n];
        let mut found = vec![0u8; bytes];
        self.arena.mapping().read(offset, &mut found);
        found
    }

    /// All elements of an array.
    pub fn all(&self, n: usize) -> Vec<f64> {
        self.array(n).values(&self.bytes(n))
    }
}

/// The elements of an array with these bytes.
fn numbers(array: &Array, bytes: &[u8]) -> Vec<Number> {
    let values = array.values(bytes).into_iter();
    match array.integers(bytes) {
        None => values.map(Number::plain).collect(),
        Some(integers) => values
            .zip(integers)
            .map(|(value, integer)| Number {
                value,
                integer: Some(integer),
            })
            .collect(),
    }
}

fn skipped(detail: String) -> Failure {
    Failure::candidate(CandidateFault::SkippedWork, detail)
}

impl<'a> BaselineOracle<'a> {
    /// An oracle before the first call.
    pub fn new(tolerances: &'a Tolerances) -> Self {
        Self {
            tolerances,
            drawn: Box::new([(0, 0, None); PLACES]),
            pending: VecDeque::new(),
        }
    }

    /// Draws the elements that the next call of the candidate is checked by.
    pub fn draw(&mut self, results: Results, rng: &mut ChaCha8Rng) {
        for (n, place) in self.drawn.iter_mut().enumerate() {
            let output = n % self.tolerances.outputs();
            let count = results.array(self.tolerances.array(output)).count().max(1);
            *place = (output, rng.random_range(0..count), None);
        }
    }

    /// Reads the elements that were drawn.
    pub fn snap(&mut self, results: Results) {
        for (output, index, value) in self.drawn.iter_mut() {
            *value = results.element(self.tolerances.array(*output), *index);
        }
    }

    /// Keeps the elements that were read at the answer of the candidate's call.
    pub fn keep(&mut self, results: Results, seed: u64) -> Result<(), Failure> {
        let mut places = Vec::with_capacity(PLACES);
        for (output, index, value) in *self.drawn {
            let Some(value) = value else {
                return Err(skipped(format!(
                    "when a timed call returned, element {index} of {} had not been written",
                    results
                        .specification
                        .argument(self.tolerances.array(output))
                )));
            };
            places.push((output, index, value));
        }
        self.pending.push_back(Pending {
            seed,
            known: self.tolerances.find(seed),
            places,
            all: None,
        });
        Ok(())
    }

    /// Keeps every element of the results that were kept last.
    pub fn keep_all(&mut self, results: Results) {
        let outputs = 0..self.tolerances.outputs();
        let all = outputs
            .map(|output| results.bytes(self.tolerances.array(output)))
            .collect();
        if let Some(last) = self.pending.back_mut() {
            last.all = Some(all);
        }
    }

    /// The seed with which the baseline has to be called next.
    pub fn due(&self) -> Option<u64> {
        self.pending.get(self.foremost()).map(|p| p.seed)
    }

    /// The index of the pending call that says most about the candidate, as a slow baseline may never come to the
    /// others.
    fn foremost(&self) -> usize {
        self.pending.iter().position(Pending::matters).unwrap_or(0)
    }

    /// Compares the results, after the baseline's call with the seed of [`BaselineOracle::due`].
    pub fn settle(&mut self, results: Results) -> Result<(), Failure> {
        let Some(pending) = self.pending.remove(self.foremost()) else {
            return Ok(());
        };
        let (known, tolerances) = (pending.known, self.tolerances);
        for (output, index, value) in pending.places {
            let expected = results.element(tolerances.array(output), index);
            let expected = expected.unwrap_or(Number::plain(f64::NAN));
            if !value.near(expected, tolerances.most(output, index, known)) {
                return Err(self.differ(results, output, index, value, expected));
            }
        }
        for (output, found) in pending.all.into_iter().flatten().enumerate() {
            let array = tolerances.array(output);
            let found = numbers(results.array(array), &found);
            let expected = numbers(results.array(array), &results.bytes(array));
            let wrong = found
                .iter()
                .zip(&expected)
                .enumerate()
                .position(|(at, (x, y))| !x.near(*y, tolerances.most(output, at, known)));
            if let Some(at) = wrong {
                return Err(self.differ(results, output, at, found[at], expected[at]));
            }
        }
        Ok(())
    }

    /// Drops pending calls that need not be compared any more. Calls that were checked in full or can be checked
    /// closely stay, and `some` others, drawn at random.
    pub fn thin_out(&mut self, some: usize, rng: &mut ChaCha8Rng) {
        let (kept, mut rest): (Vec<Pending>, Vec<Pending>) =
            self.pending.drain(..).partition(Pending::matters);
        while rest.len() > some {
            let at = rng.random_range(0..rest.len());
            rest.swap_remove(at);
        }
        self.pending.extend(kept.into_iter().chain(rest));
    }

    fn differ(
        &self,
        results: Results,
        output: usize,
        index: usize,
        found: Number,
        expected: Number,
    ) -> Failure {
        skipped(format!(
            "after a timed call, element {index} of {} held {found}, and the baseline computes {expected} from the same inputs",
            results
                .specification
                .argument(self.tolerances.array(output))
        ))
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn pending(seed: u64, full: bool) -> Pending {
        Pending {
            seed,
            known: None,
            places: Vec::new(),
            all: full.then(Vec::new),
        }
    }

    #[test]
    fn integers_that_are_one_double_are_not_near_each_other() {
        let number = |integer: i64| Number {
            value: integer as f64,
            integer: Some(integer),
        };
        let (x, y) = (number(i64::MAX), number(i64::MAX - 1));
        assert!(x.near(x, 0.0) && !x.near(y, 0.0) && !x.near(y, 1e9));
        assert_eq!(y.to_string(), "9223372036854775806");
        let plain = Number::plain;
        assert!(plain(1.0).near(plain(1.5), 0.5) && !plain(1.0).near(plain(1.6), 0.5));
        assert!(!plain(f64::NAN).near(plain(f64::NAN), f64::INFINITY));
    }

    #[test]
    fn the_most_telling_cases_are_settled_first_and_never_dropped() {
        let tolerances = Tolerances::default();
        let mut oracle = BaselineOracle::new(&tolerances);
        assert_eq!(oracle.due(), None);
        for seed in 0..20 {
            oracle
                .pending
                .push_back(pending(seed, seed == 7 || seed == 9));
        }
        assert_eq!(oracle.due(), Some(7));
        oracle.pending.remove(oracle.foremost());
        assert_eq!(oracle.due(), Some(9));
        oracle.thin_out(3, &mut ChaCha8Rng::seed_from_u64(1));
        assert_eq!((oracle.pending.len(), oracle.due()), (4, Some(9)));
        oracle.pending.remove(oracle.foremost());
        assert!(oracle.due().is_some_and(|seed| seed != 7 && seed != 9));
    }
}
