//! Checks whether a timed call's work was done.
//!
//! For a matrix product any element follows from the seed alone and is computed at once; for every other problem the
//! baseline computes the expected results ([`BaselineOracle`]).

use flopsmith_harness::Content;
use flopsmith_harness::inputs::{POISON_F64, Stream};
use flopsmith_harness::memory::SharedMemory;
use flopsmith_protocol::{CandidateFault, Failure, InfrastructureCause};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::baseline_oracle::{BaselineOracle, Results};
use super::tolerance::Tolerances;
use crate::supervise::{Arena, Placement, Product, Specification};
use crate::verify::oracle;

/// Alignment of arrays, bytes.
const LINE: usize = 64;
/// Elements that are recomputed after each timed call.
const PROBES: usize = 6;
/// Elements that are only checked for having been written.
const GLANCES: usize = 48;

/// Elements of each factor that are compared after each call of the baseline.
const INPUTS: usize = 12;
const BASELINE_ENDED: &str = "after a call of the baseline,";

/// Checks calls: the seed of a call gives its inputs, and therefore the expected results.
pub struct Check<'a> {
    results: Results<'a>,
    truth: Truth<'a>,
    /// Memory for the inputs that a call must leave alone; none before they are first needed.
    expected: Option<Expected>,
}

/// The inputs that a call must leave alone, made again from their seed in memory that no other process has.
struct Expected {
    memory: SharedMemory,
    /// Number of each array, and its offset in the memory.
    places: Vec<(usize, usize)>,
    seed: Option<u64>,
}

impl Expected {
    fn new(specification: &Specification) -> Result<Self, Failure> {
        let mut places = Vec::new();
        let mut end = 0usize;
        for n in specification.kept() {
            places.push((n, end));
            end = (end + specification.arrays[n].bytes()).next_multiple_of(LINE);
        }
        let memory = SharedMemory::create("flopsmith-expected", end.max(LINE)).map_err(|e| {
            Failure::infrastructure(
                InfrastructureCause::Resources,
                format!("no memory for the inputs to compare with: {e}"),
            )
        })?;
        Ok(Self {
            memory,
            places,
            seed: None,
        })
    }

    /// Makes the inputs of this seed, unless they are there.
    fn make(&mut self, specification: &Specification, seed: u64) {
        if self.seed == Some(seed) {
            return;
        }
        for &(n, offset) in &self.places {
            let array = &specification.arrays[n];
            let stream = Stream::new(seed, array.stream);
            let place = (offset, array.count());
            let content = array.content;
            content.fill(&stream, array.element, self.memory.mapping(), place);
        }
        self.seed = Some(seed);
    }

    /// The number of an array that differs in the buffers.
    fn differs(&self, results: Results) -> Option<usize> {
        let differs = |&(n, offset): &(usize, usize)| {
            let (found, bytes) = results.placement.arrays[n];
            let mapping = results.arena.mapping();
            let expected = self.memory.mapping();
            let same = mapping.with_slice(found, bytes, |x: &mut [u8]| {
                expected.with_slice(offset, bytes, |y: &mut [u8]| x == y)
            });
            (!same).then_some(n)
        };
        self.places.iter().find_map(differs)
    }
}

enum Truth<'a> {
    Product(Product, Box<Probes>),
    Baseline(BaselineOracle<'a>),
}

/// Elements of a product that are read at the answer of a call.
struct Probes {
    places: [usize; PROBES + GLANCES],
    values: [f64; PROBES + GLANCES],
}

impl Default for Probes {
    fn default() -> Self {
        Self {
            places: [0; PROBES + GLANCES],
            values: [0.0; PROBES + GLANCES],
        }
    }
}

impl<'a> Check<'a> {
    /// A check of calls with these arguments: by exact arithmetic if they are a matrix product, and otherwise by the
    /// baseline, from which results may differ by `tolerances`.
    pub fn new(results: Results<'a>, product: Option<Product>, tolerances: &'a Tolerances) -> Self {
        let truth = match product {
            Some(product) => Truth::Product(product, Box::default()),
            None => Truth::Baseline(BaselineOracle::new(tolerances)),
        };
        Self {
            results,
            truth,
            expected: None,
        }
    }

    /// The results of a call in the buffers.
    pub fn results(&self) -> Results<'a> {
        self.results
    }

    /// Draws the elements that the next call of the candidate is checked by.
    pub fn draw(&mut self, rng: &mut ChaCha8Rng) {
        match &mut self.truth {
            Truth::Product(product, probes) => {
                let cells = product.shape.m * product.shape.n;
                for place in &mut probes.places {
                    *place = rng.random_range(0..cells);
                }
            }
            Truth::Baseline(oracle) => oracle.draw(self.results, rng),
        }
    }

    /// Reads the elements that were drawn, at the answer of the candidate. Nothing comes between the answer and these
    /// reads, so that work which is still going on has no time to finish.
    pub fn snap(&mut self) {
        match &mut self.truth {
            Truth::Product(product, probes) => {
                let (offset, _) = self.results.placement.arrays[product.c];
                let mapping = self.results.arena.mapping();
                for (value, place) in probes.values.iter_mut().zip(&probes.places) {
                    *value = mapping.get(offset + 8 * place);
                }
            }
            Truth::Baseline(oracle) => oracle.snap(self.results),
        }
    }

    /// Judges the elements that were read at the answer of the candidate's call with this seed.
    pub fn probe(&mut self, seed: u64) -> Result<(), Failure> {
        match &mut self.truth {
            Truth::Product(product, probes) => {
                self.results.by_arithmetic(product).probe(seed, probes)
            }
            Truth::Baseline(oracle) => oracle.keep(self.results, seed),
        }
    }

    /// Checks every element of a result, of an input that a call must leave alone, and every byte around them after a call
    /// that was probed.
    pub fn everything(&mut self, seed: u64) -> Result<(), Failure> {
        self.untouched(seed, "after a timed call,")?;
        match &mut self.truth {
            Truth::Product(product, _) => self.results.by_arithmetic(product).everything(seed),
            Truth::Baseline(oracle) => {
                oracle.keep_all(self.results);
                Ok(())
            }
        }
    }

    /// The seed with which the baseline has to be called next, if it matters.
    pub fn due(&self) -> Option<u64> {
        match &self.truth {
            Truth::Product(..) => None,
            Truth::Baseline(oracle) => oracle.due(),
        }
    }

    /// Compares the results, after the baseline's call with the seed of [`Check::due`].
    pub fn settle(&mut self) -> Result<(), Failure> {
        match &mut self.truth {
            Truth::Product(..) => Ok(()),
            Truth::Baseline(oracle) => oracle.settle(self.results),
        }
    }

    /// Refuses a candidate if the inputs of the baseline's call with this seed, or the bands around the arrays, were
    /// changed: both processes have the same buffers, and the baseline changes none of this.
    pub fn inputs_of_baseline(&mut self, seed: u64) -> Result<(), Failure> {
        self.untouched(seed, BASELINE_ENDED)
    }

    /// Makes the inputs of a seed, which [`Check::inputs_of_baseline`] then only compares. A lack of memory shows there.
    pub fn expect(&mut self, seed: u64) {
        let _lacking = self.expected(seed);
    }

    fn expected(&mut self, seed: u64) -> Result<&Expected, Failure> {
        let specification = self.results.specification;
        let expected = match self.expected.take() {
            Some(expected) => expected,
            None => Expected::new(specification)?,
        };
        let expected = self.expected.insert(expected);
        expected.make(specification, seed);
        Ok(expected)
    }

    /// Refuses a call after which inputs or bands around the arrays have changed; `when` begins the message.
    fn untouched(&mut self, seed: u64, when: &str) -> Result<(), Failure> {
        let results = self.results;
        if let Some((array, distance)) = results.arena.broken_band(results.placement) {
            results.arena.repair(results.placement);
            return Err(Failure::candidate(
                CandidateFault::OutOfBounds,
                format!(
                    "{when} the memory {distance} bytes outside {} had been changed",
                    results.specification.argument(array)
                ),
            ));
        }
        match self.expected(seed)?.differs(results) {
            Some(n) => Err(changed(when, results.specification, n)),
            None => Ok(()),
        }
    }

    /// The same check for some random elements, which costs so little that it can follow every call. It applies only to
    /// a product, whose factors are known element by element; for other problems the baseline's calls settle the
    /// candidate's results.
    pub fn some_inputs_of_baseline(&self, seed: u64, rng: &mut ChaCha8Rng) -> Result<(), Failure> {
        match &self.truth {
            Truth::Product(product, _) => self.results.by_arithmetic(product).inputs(seed, rng),
            Truth::Baseline(_) => Ok(()),
        }
    }

    /// Drops pending calls, except `some` of them and those that are checked in full or closely.
    pub fn thin_out(&mut self, some: usize, rng: &mut ChaCha8Rng) {
        if let Truth::Baseline(oracle) = &mut self.truth {
            oracle.thin_out(some, rng);
        }
    }
}

impl<'a> Results<'a> {
    fn by_arithmetic(self, product: &Product) -> Arithmetic<'a> {
        Arithmetic {
            arena: self.arena,
            placement: self.placement,
            specification: self.specification,
            product: *product,
        }
    }
}

/// Judges a matrix product by its definition.
struct Arithmetic<'a> {
    arena: &'a Arena,
    placement: &'a Placement,
    specification: &'a Specification,
    product: Product,
}

/// The failure for a changed input; `when` begins the message.
fn changed(when: &str, specification: &Specification, array: usize) -> Failure {
    Failure::candidate(
        CandidateFault::InputModified,
        format!("{when} {} had been changed", specification.argument(array)),
    )
}

fn skipped(detail: String) -> Failure {
    Failure::candidate(CandidateFault::SkippedWork, detail)
}

impl Arithmetic<'_> {
    /// The streams of both factors.
    fn streams(&self, seed: u64) -> [Stream; 2] {
        [self.product.a, self.product.b]
            .map(|n| Stream::new(seed, self.specification.arrays[n].stream))
    }

    /// The factor by which a row of A, and therefore of C, is multiplied.
    fn grade(&self, left: &Stream, row: usize) -> f64 {
        match self.specification.arrays[self.product.a].content {
            Content::Graded { binades, .. } => left.grade(row as u64, binades),
            _ => 1.0,
        }
    }

    /// The exact value of an element, and its tolerance.
    fn exact(&self, [left, right]: &[Stream; 2], row: usize, column: usize) -> (f64, f64) {
        let Product {
            shape, constant, ..
        } = self.product;
        let a = left.elements((0..shape.k).map(|l| (row * shape.k + l) as u64));
        let b = right.elements((0..shape.k).map(|l| (l * shape.n + column) as u64));
        let (value, magnitude) = oracle::exact_dot(a.into_iter().zip(b));
        // Grades are powers of two, so no digit is lost.
        let grade = self.grade(left, row);
        let tolerance = oracle::tolerance(constant, shape.k, grade * magnitude);
        (grade * value, tolerance)
    }

    /// Refuses a candidate if random elements of the factors differ from those that the seed gives.
    fn inputs(&self, seed: u64, rng: &mut ChaCha8Rng) -> Result<(), Failure> {
        let Product { shape, a, b, .. } = self.product;
        let [left, right] = self.streams(seed);
        for (number, stream, rows, columns) in
            [(a, &left, shape.m, shape.k), (b, &right, shape.k, shape.n)]
        {
            let (offset, _) = self.placement.arrays[number];
            for _ in 0..INPUTS {
                let place = rng.random_range(0..rows * columns);
                let grade = match number == a {
                    true => self.grade(stream, place / columns),
                    false => 1.0,
                };
                let found: f64 = self.arena.mapping().get(offset + 8 * place);
                if found != grade * stream.element(place as u64) {
                    return Err(changed(BASELINE_ENDED, self.specification, number));
                }
            }
        }
        Ok(())
    }

    /// Judges the elements that were read at the answer of a call.
    fn probe(&self, seed: u64, Probes { places, values }: &Probes) -> Result<(), Failure> {
        let shape = self.product.shape;
        if let Some(at) = values.iter().position(|v| v.to_bits() == POISON_F64) {
            let (row, column) = (places[at] / shape.n, places[at] % shape.n);
            return Err(skipped(format!(
                "when a timed call returned, row {row}, column {column} had not been written"
            )));
        }
        let streams = self.streams(seed);
        for (&value, &place) in values.iter().zip(places).take(PROBES) {
            let (row, column) = (place / shape.n, place % shape.n);
            let (expected, tolerance) = self.exact(&streams, row, column);
            if oracle::error_share(value, expected, tolerance) > 1.0 {
                return Err(skipped(format!(
                    "after a timed call, row {row}, column {column} held {value:e} instead of {expected:e}: the program did not compute the result for the inputs of this call"
                )));
            }
        }
        Ok(())
    }

    /// Checks every output element.
    fn everything(&self, seed: u64) -> Result<(), Failure> {
        let Product {
            shape, c, constant, ..
        } = self.product;
        let mut found = vec![0.0; shape.m * shape.n];
        self.arena
            .mapping()
            .read(self.placement.arrays[c].0, &mut found);
        let streams = self.streams(seed);
        let mut left = vec![0.0; shape.m * shape.k];
        let mut right = vec![0.0; shape.k * shape.n];
        streams[0].fill_f64(&mut left);
        streams[1].fill_f64(&mut right);
        let mut expected = oracle::product(shape, &left, &right);
        // |A||B| of these inputs is about k/16. Errors above half of the bound for that are judged by the exact bound
        // of the element, so this only saves the time to compute the exact bound for every element.
        let cheap = oracle::tolerance(constant, shape.k, shape.k as f64 / 32.0);
        let mut tolerances = vec![cheap; expected.len()];
        let rows = expected
            .chunks_exact_mut(shape.n)
            .zip(tolerances.chunks_exact_mut(shape.n));
        for (row, (expected, tolerances)) in rows.enumerate() {
            let grade = self.grade(&streams[0], row);
            for x in expected.iter_mut().chain(tolerances) {
                *x *= grade;
            }
        }
        oracle::compare(shape, &found, &expected, &tolerances, |row, column| {
            self.exact(&streams, row, column)
        })
        .map(|_| ())
        .map_err(|mismatch| skipped(format!("after a timed call, {mismatch}")))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use flopsmith_problem::Problem;
    use flopsmith_test_support::shipped;
    use rand::SeedableRng;

    use super::*;
    use crate::supervise::{Placing, specify};

    /// Gives the inputs their content of this seed.
    pub(crate) fn fill(results: Results, seed: u64) {
        for n in results.specification.read() {
            let filled = results.specification.arrays[n].filled(seed);
            let (offset, bytes) = results.placement.arrays[n];
            let write = |x: &mut [u8]| x.copy_from_slice(&filled);
            results.arena.mapping().with_slice(offset, bytes, write);
        }
    }

    #[test]
    fn a_change_of_any_input_is_seen_whatever_its_elements_are() {
        for name in ["prefix_sum", "spmv", "sgemm", "histogram"] {
            let folder = format!("{}/../../problems/{name}", env!("CARGO_MANIFEST_DIR"));
            let problem = Problem::load(folder.as_ref()).expect("a shipped problem");
            let specification = specify(&problem, &problem.timed).expect("sound");
            let arena = Arena::timed(&specification.arrays).expect("there is memory");
            let mut rng = ChaCha8Rng::seed_from_u64(1);
            let placement = arena
                .place(&specification.arrays, Placing::Fixed, &mut rng)
                .expect("there is room");
            let results = Results {
                arena: &arena,
                placement: &placement,
                specification: &specification,
            };
            let tolerances = Tolerances::default();
            let mut check = Check::new(results, None, &tolerances);
            let seed = 7;
            fill(results, seed);
            check.expect(seed);
            check.inputs_of_baseline(seed).expect("nothing was changed");
            for n in specification.kept() {
                let (offset, bytes) = placement.arrays[n];
                let at = offset + rng.random_range(0..bytes);
                let flip = |x: &mut [u8]| x[0] ^= 1;
                arena.mapping().with_slice(at, 1, flip);
                let seen = check.inputs_of_baseline(seed);
                let modified = matches!(
                    seen,
                    Err(Failure::Candidate {
                        fault: CandidateFault::InputModified,
                        ..
                    })
                );
                assert!(modified, "{name}, argument {n}: {seen:?}");
                arena.mapping().with_slice(at, 1, flip);
            }
            check.inputs_of_baseline(seed).expect("all was put back");
            check
                .inputs_of_baseline(seed + 1)
                .expect_err("these are the inputs of another seed");
        }
    }

    #[test]
    fn inputs_of_the_baseline_that_were_changed_are_seen_after_a_call() {
        let problem = Problem::load(&shipped::at("dgemm")).expect("the shipped problem");
        let mut specification = specify(&problem, &problem.timed).expect("sound");
        let product = specification.product(&problem.bound).expect("sound");
        specification.grade(&problem, product.as_ref());
        let arena = Arena::timed(&specification.arrays).expect("there is memory");
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let placement = arena
            .place(&specification.arrays, Placing::Fixed, &mut rng)
            .expect("there is room");
        let seed = 7;
        let results = Results {
            arena: &arena,
            placement: &placement,
            specification: &specification,
        };
        fill(results, seed);
        let tolerances = Tolerances::default();
        let check = Check::new(results, product, &tolerances);
        for _ in 0..20 {
            let looked = check.some_inputs_of_baseline(seed, &mut rng);
            assert!(looked.is_ok(), "{looked:?}");
        }

        // Half of one factor: to slow the baseline, a program has to change much of it.
        for n in specification.read() {
            let (offset, bytes) = placement.arrays[n];
            let halve = |x: &mut [u8]| {
                let (half, _) = x.split_at_mut(bytes / 2);
                let before = half.to_vec();
                half.fill(0);
                before
            };
            let before = arena.mapping().with_slice(offset, bytes, halve);
            let seen = (0..20).filter(|_| {
                let looked = check.some_inputs_of_baseline(seed, &mut rng);
                matches!(
                    looked,
                    Err(Failure::Candidate {
                        fault: CandidateFault::InputModified,
                        ..
                    })
                )
            });
            // Each look misses one change in 4096.
            assert!(seen.count() >= 18);
            let restore = |x: &mut [u8]| x[..before.len()].copy_from_slice(&before);
            arena.mapping().with_slice(offset, bytes, restore);
        }
    }
}
