//! Secret cases: inputs, expected outputs, and the tolerances of the outputs.

mod words;

use std::cell::OnceCell;
use std::time::Duration;

use flopsmith_harness::control::Element;
use flopsmith_harness::half;
use flopsmith_problem::{Distribution, ErrorBound, Params, Problem};
use flopsmith_protocol::{Failure, InfrastructureCause};
use rand_chacha::ChaCha8Rng;

use super::content;
use super::oracle::{self, Mismatch, Shape};
use crate::supervise::{
    Arena, Array, Placement, Placing, Process, Product, Specification, plan, poison, specify,
};

/// A case whose content candidates never see.
pub struct Case {
    /// The parameters.
    pub params: Params,
    /// The kind of its inputs.
    pub distribution: Distribution,
    /// The arguments.
    pub specification: Specification,
    /// Time limit of one call.
    pub limit: Duration,
    /// The matrix product among the arguments, if the problem is one.
    product: Option<Product>,
    /// The constant of the bound, for messages.
    constant: Option<f64>,
    /// Number and bytes, before a call, of each array that a call reads.
    pub(super) inputs: Vec<(usize, Vec<u8>)>,
    outputs: Vec<Expected>,
}

/// The expected content of an array that a call writes.
struct Expected {
    results: Results,
    /// Largest absolute error of each element.
    tolerances: Vec<f64>,
}

/// The content, after a call, of an array that the call writes.
struct Results {
    /// Its number among the arrays.
    array: usize,
    values: Vec<f64>,
    /// The same as 64-bit integers, if that is what they are: these are compared, since doubles do not hold all of them.
    integers: Option<Vec<i64>>,
}

/// The problem's own programs, each in a process of its own.
pub struct ReferenceProcesses {
    /// The reference.
    pub reference: Process,
    /// The program that computes the magnitudes of a scaled bound.
    pub magnitude: Option<Process>,
}

impl ReferenceProcesses {
    /// Processor time that the processes have used so far.
    pub fn cpu_time(&mut self) -> Result<Duration, Failure> {
        let magnitude = self.magnitude.as_mut().map(Process::cpu_time);
        Ok(self.reference.cpu_time()? + magnitude.transpose()?.unwrap_or_default())
    }

    /// Ends the processes.
    pub fn exit(self) -> Result<(), Failure> {
        self.reference.exit()?;
        self.magnitude.map_or(Ok(()), Process::exit)
    }
}

/// The effect of one call on the buffers.
#[derive(Debug, Clone, PartialEq)]
pub enum Finding {
    /// Results, inputs and bands are right; the worst error as a share of the bound.
    Right(f64),
    /// Elements are wrong.
    Wrong(Mismatch),
    /// An array (by number) that a call must leave alone has another value at an element.
    InputChanged {
        /// The number of the array argument.
        array: usize,
        /// The number of the element.
        element: usize,
    },
    /// Bytes outside the arrays were written.
    BandBroken {
        /// Next to this array argument.
        array: usize,
        /// Bytes behind its end, or before its start if negative.
        distance: isize,
    },
}

impl Case {
    /// Draws inputs and calls the reference for the expected results.
    pub fn draw(
        problem: &Problem,
        params: Params,
        distribution: Distribution,
        arena: &Arena,
        references: &mut ReferenceProcesses,
        rng: &mut ChaCha8Rng,
    ) -> Result<Self, Failure> {
        Self::draw_from(problem, params, distribution, false, arena, references, rng)
    }

    /// Draws as [`Case::draw`] does from the same generator, with the signs of all numbers turned if `mirrored`.
    pub fn draw_from(
        problem: &Problem,
        params: Params,
        distribution: Distribution,
        mirrored: bool,
        arena: &Arena,
        references: &mut ReferenceProcesses,
        rng: &mut ChaCha8Rng,
    ) -> Result<Self, Failure> {
        let mut specification = specify(problem, &params)?;
        let mut inputs = content::draw_all(&mut specification, distribution, rng);
        if mirrored {
            content::negate_all(&specification, &mut inputs);
        }
        let product = specification.product(&problem.bound)?;
        let constant = match problem.bound {
            ErrorBound::Gemm { c } | ErrorBound::Scaled { c, .. } => Some(c),
            ErrorBound::Exact => None,
        };
        let mut case = Self {
            params,
            distribution,
            specification,
            limit: Duration::from_secs(60),
            product,
            constant,
            inputs,
            outputs: Vec::new(),
        };
        let (results, time) = case.ask(REFERENCE, &mut references.reference, arena, rng)?;
        let tolerances = match &problem.bound {
            ErrorBound::Gemm { .. } => vec![case.check_product(&results)?],
            ErrorBound::Exact => results.iter().map(|x| vec![0.0; x.values.len()]).collect(),
            ErrorBound::Scaled { c, operations } => {
                let operations = operations.value(&case.params).unwrap_or(f64::NAN);
                let magnitude = references.magnitude.as_mut().ok_or_else(|| {
                    weak("the problem has a `scaled` bound and no magnitude.c".into())
                })?;
                let (sizes, _) = case.ask("magnitude.c", magnitude, arena, rng)?;
                case.scaled(*c, operations, &sizes)?
            }
        };
        for (results, tolerances) in results.into_iter().zip(tolerances) {
            let values = &results.values;
            if let Some(at) = values.iter().position(|x| !x.is_finite()) {
                return Err(weak(format!(
                    "the problem's own reference.c leaves {} in element {at} of {} ({})",
                    values[at],
                    case.specification.argument(results.array),
                    case.name()
                )));
            }
            case.outputs.push(Expected {
                results,
                tolerances,
            });
        }
        case.limit = (time * 20).max(Duration::from_secs(1));
        Ok(case)
    }

    /// Calls one of the problem's own programs, the file `program`. Returns the results, and the time of the call.
    fn ask(
        &self,
        program: &'static str,
        process: &mut Process,
        arena: &Arena,
        rng: &mut ChaCha8Rng,
    ) -> Result<(Vec<Results>, Duration), Failure> {
        let placement = self
            .lay_out(arena, Placing::Between, rng)
            .ok_or_else(too_large)?;
        process
            .plan(&plan(&self.specification, &placement))
            .map_err(|failure| own_failed(program, failure))?;
        let time = process
            .call(self.limit)
            .map_err(|failure| own_failed(program, failure))?;
        let results = self.snapshot(arena, &placement);
        let finding = self.intact(arena, &placement);
        arena.repair(&placement);
        arena.restore(&placement);
        match finding {
            None => Ok((results, time)),
            Some(other) => Err(weak(format!(
                "the problem's own {program} fails a case ({}): {}",
                self.name(),
                self.words(&other)
            ))),
        }
    }

    /// The content of the arrays that a call writes.
    fn snapshot(&self, arena: &Arena, placement: &Placement) -> Vec<Results> {
        let numbers = self.specification.written();
        let read = |n: usize| {
            let (bytes, array) = (
                self.bytes(n, arena, placement),
                &self.specification.arrays[n],
            );
            Results {
                array: n,
                values: array.values(&bytes),
                integers: array.integers(&bytes),
            }
        };
        numbers.into_iter().map(read).collect()
    }

    fn bytes(&self, n: usize, arena: &Arena, placement: &Placement) -> Vec<u8> {
        let (offset, bytes) = placement.arrays[n];
        let mut found = vec![0u8; bytes];
        arena.mapping().read(offset, &mut found);
        found
    }

    /// Compares the reference of a matrix product with exact arithmetic. Returns the tolerances if the reference is
    /// right.
    fn check_product(&self, results: &[Results]) -> Result<Vec<f64>, Failure> {
        let (Some(product), [Results { values: found, .. }]) = (self.product, results) else {
            return Err(weak(
                "the problem has the error bound of a matrix product and is no matrix product"
                    .into(),
            ));
        };
        let Product {
            shape, constant, ..
        } = product;
        let (a, b) = (self.input(product.a), self.input(product.b));
        let tolerances: Vec<f64> = oracle::magnitudes(shape, &a, &b)
            .into_iter()
            .map(|magnitude| oracle::tolerance(constant, shape.k, magnitude))
            .collect();
        let expected = oracle::product(shape, &a, &b);
        let exact = |row, column| exact(&product, &a, &b, row, column);
        match oracle::compare(shape, found, &expected, &tolerances, exact) {
            Ok(_) => Ok(tolerances),
            Err(mismatch) => Err(weak(format!(
                "the problem's own reference.c fails a case ({}): {}",
                self.name(),
                self.words(&Finding::Wrong(mismatch))
            ))),
        }
    }

    /// The tolerances of a scaled bound.
    fn scaled(&self, c: f64, operations: f64, sizes: &[Results]) -> Result<Vec<Vec<f64>>, Failure> {
        let tolerance = |sizes: &Results| {
            let precision = precision(self.specification.arrays[sizes.array].element);
            let tolerances: Vec<f64> = sizes
                .values
                .iter()
                .map(|size| oracle::scaled_tolerance(c, operations, precision, *size))
                .collect();
            // An infinite tolerance would let everything pass.
            match tolerances
                .iter()
                .position(|t| !(t.is_finite() && *t >= 0.0))
            {
                None => Ok(tolerances),
                Some(at) => Err(weak(format!(
                    "magnitude.c leaves {} in element {at} of {}, with {operations} operations ({})",
                    sizes.values[at],
                    self.specification.argument(sizes.array),
                    self.name()
                ))),
            }
        };
        sizes.iter().map(tolerance).collect()
    }

    /// The values of an array before a call.
    fn input(&self, number: usize) -> Vec<f64> {
        self.inputs
            .iter()
            .find(|(n, _)| *n == number)
            .map(|(n, bytes)| self.specification.arrays[*n].values(bytes))
            .unwrap_or_default()
    }

    /// Writes inputs and poison into the buffers. None if the arrays do not fit.
    pub fn lay_out(
        &self,
        arena: &Arena,
        placing: Placing,
        rng: &mut ChaCha8Rng,
    ) -> Option<Placement> {
        let placement = arena.place(&self.specification.arrays, placing, rng)?;
        self.fill(arena, &placement);
        Some(placement)
    }

    /// Writes inputs and poison to where the arrays lie.
    pub fn fill(&self, arena: &Arena, placement: &Placement) {
        for (n, bytes) in &self.inputs {
            arena.mapping().write(placement.arrays[*n].0, bytes);
        }
        for (array, &(offset, _)) in self.specification.arrays.iter().zip(&placement.arrays) {
            if !array.role.is_read() {
                let bytes = poison(array.element).repeat(array.count());
                arena.mapping().write(offset, &bytes);
            }
        }
    }

    /// Makes the arrays that a call writes what they were before it.
    pub fn renew(&self, arena: &Arena, placement: &Placement) {
        for n in self.specification.written() {
            let array = &self.specification.arrays[n];
            let before = self.inputs.iter().find(|(number, _)| *number == n);
            let bytes = match before {
                Some((_, bytes)) => bytes,
                None => &poison(array.element).repeat(array.count()),
            };
            arena.mapping().write(placement.arrays[n].0, bytes);
        }
    }

    /// Checks everything a call may have touched. The results are read first, so that work which still goes on cannot
    /// change them.
    pub fn judge(&self, arena: &Arena, placement: &Placement) -> Finding {
        let found = self.snapshot(arena, placement);
        if let Some(broken) = self.intact(arena, placement) {
            return broken;
        }
        let mut worst: f64 = 0.0;
        for (expected, found) in self.outputs.iter().zip(&found) {
            match self.compare(expected, found) {
                Ok(share) => worst = worst.max(share),
                Err(mismatch) => return Finding::Wrong(mismatch),
            }
        }
        Finding::Right(worst)
    }

    /// Checks everything a second call with the same inputs may have touched. Returns how many elements have other bits
    /// than after the `first` call, or the finding if something is wrong.
    pub fn judge_again(
        &self,
        arena: &Arena,
        placement: &Placement,
        first: &[u8],
    ) -> Result<usize, Finding> {
        let again = self.output(arena, placement);
        if again == first {
            // Equal bytes are as right as those of the first call.
            return self.intact(arena, placement).map_or(Ok(0), Err);
        }
        match self.judge(arena, placement) {
            Finding::Right(_) => Ok(self.differing(first, &again)),
            other => Err(other),
        }
    }

    /// Number of elements of the outputs that have other bits.
    fn differing(&self, first: &[u8], again: &[u8]) -> usize {
        let mut from = 0;
        let mut differ = 0;
        for n in self.specification.written() {
            let array = &self.specification.arrays[n];
            let (until, width) = (from + array.bytes(), array.element.bytes());
            let pairs = first[from..until]
                .chunks_exact(width)
                .zip(again[from..until].chunks_exact(width));
            differ += pairs.filter(|(x, y)| x != y).count();
            from = until;
        }
        differ
    }

    /// The error shares of results that differ from the reference's own by `change`, which gets an element's type,
    /// place and value. Returns number and largest share of each output array. Results with a share above 1 would be
    /// refused.
    pub fn shares(&self, change: impl Fn(Element, usize, f64) -> f64) -> Vec<(usize, f64)> {
        let share = |expected: &Expected| {
            let Results { array, values, .. } = &expected.results;
            let element = self.specification.arrays[*array].element;
            let values = values.iter().enumerate();
            let found = Results {
                array: *array,
                values: values.map(|(at, x)| change(element, at, *x)).collect(),
                integers: None,
            };
            let share = match self.compare(expected, &found) {
                Ok(share) => share,
                Err(mismatch) => mismatch.share,
            };
            (*array, share)
        };
        self.outputs.iter().map(share).collect()
    }

    /// The largest error of the outputs as a share of the bound, whatever the inputs hold.
    pub fn worst_share(&self, arena: &Arena, placement: &Placement) -> f64 {
        let found = self.snapshot(arena, placement);
        let pairs = self.outputs.iter().zip(&found);
        let shares = pairs.map(|(expected, found)| match self.compare(expected, found) {
            Ok(share) => share,
            Err(mismatch) => mismatch.share,
        });
        shares.fold(0.0, f64::max)
    }

    /// The share of the outputs' elements that are right, whatever the inputs hold.
    pub fn right_share(&self, arena: &Arena, placement: &Placement) -> f64 {
        let found = self.snapshot(arena, placement);
        let (mut all, mut wrong) = (0usize, 0usize);
        for (expected, found) in self.outputs.iter().zip(&found) {
            all += expected.results.values.len();
            let mismatch = self.compare(expected, found).err();
            wrong += mismatch.map_or(0, |mismatch| mismatch.wrong);
        }
        1.0 - wrong as f64 / all.max(1) as f64
    }

    /// The finding if bands or inputs were changed.
    fn intact(&self, arena: &Arena, placement: &Placement) -> Option<Finding> {
        if let Some((array, distance)) = arena.broken_band(placement) {
            return Some(Finding::BandBroken { array, distance });
        }
        let kept = |(n, _): &&(usize, Vec<u8>)| {
            // Results may stand where a call has read.
            !self.specification.arrays[*n].role.is_written()
        };
        self.inputs.iter().filter(kept).find_map(|(array, bytes)| {
            let (offset, count) = placement.arrays[*array];
            let changed = arena
                .mapping()
                .with_slice(offset, count, |x: &mut [u8]| first_difference(x, bytes))?;
            let width = self.specification.arrays[*array].element.bytes();
            Some(Finding::InputChanged {
                array: *array,
                element: changed / width,
            })
        })
    }

    fn compare(&self, expected: &Expected, found: &Results) -> Result<f64, Mismatch> {
        let Expected {
            results,
            tolerances,
        } = expected;
        let (values, found_values) = (&results.values, &found.values);
        if let Some(product) = self.product {
            // Seldom needed: only if an element differs too much from the reference's own value.
            let inputs = OnceCell::new();
            return oracle::compare(
                product.shape,
                found_values,
                values,
                tolerances,
                |row, column| {
                    let (a, b) =
                        inputs.get_or_init(|| (self.input(product.a), self.input(product.b)));
                    exact(&product, a, b, row, column)
                },
            );
        }
        let shape = rows_and_columns(&self.specification.arrays[results.array]);
        if let (Some(expected), Some(found)) = (&results.integers, &found.integers) {
            return oracle::compare_integers(shape, found, expected);
        }
        oracle::compare(shape, found_values, values, tolerances, |row, column| {
            let at = row * shape.n + column;
            (values[at], tolerances[at])
        })
    }

    /// The bytes of the outputs.
    pub fn output(&self, arena: &Arena, placement: &Placement) -> Vec<u8> {
        let mut all = Vec::new();
        for n in self.specification.written() {
            all.append(&mut self.bytes(n, arena, placement));
        }
        all
    }
}

/// The exact value of an element of a matrix product, and its tolerance.
fn exact(product: &Product, a: &[f64], b: &[f64], row: usize, column: usize) -> (f64, f64) {
    let Product {
        shape, constant, ..
    } = *product;
    let pairs = (0..shape.k).map(|l| (a[row * shape.k + l], b[l * shape.n + column]));
    let (value, magnitude) = oracle::exact_dot(pairs);
    (value, oracle::tolerance(constant, shape.k, magnitude))
}

/// An array as a matrix, for naming the place of an element.
pub(crate) fn rows_and_columns(array: &Array) -> Shape {
    let n = array.columns();
    Shape {
        m: array.count() / n,
        n,
        k: 0,
    }
}

/// The relative error of one rounding, and the smallest number above 0.
///
/// In double and single precision the first is the distance of 1 to the next number. Of the types of sixteen bits it is
/// half of that, the unit roundoff: 2^-11 for binary16, which has 11 digits (IEEE 754-2019, table 3.5), and 2^-8 for
/// bfloat16, which has 8. Programs compute in single precision there and round once, when they store a result.
pub(crate) fn precision(element: Element) -> (f64, f64) {
    match element {
        Element::F64 => (f64::EPSILON, f64::from_bits(1)),
        Element::F32 => (f64::from(f32::EPSILON), f64::from(f32::from_bits(1))),
        Element::F16 => (1.0 / 2048.0, f64::from(half::from_f16(1))),
        Element::Bf16 => (1.0 / 256.0, f64::from(half::from_bf16(1))),
        Element::I32 | Element::I64 | Element::U8 => (0.0, 0.0),
    }
}

/// The index of the first byte that differs. Bytes are compared, so that even a NaN or the sign of a zero counts.
fn first_difference(x: &[u8], y: &[u8]) -> Option<usize> {
    const CHUNK: usize = 4096;
    x.chunks(CHUNK)
        .zip(y.chunks(CHUNK))
        .enumerate()
        .find_map(|(n, (x, y))| {
            if x == y {
                return None;
            }
            x.iter()
                .zip(y)
                .position(|(p, q)| p != q)
                .map(|at| n * CHUNK + at)
        })
}

/// The failure of a definition that is not fit to judge programs.
fn weak(detail: String) -> Failure {
    Failure::infrastructure(InfrastructureCause::Baseline, detail)
}

pub(super) fn too_large() -> Failure {
    Failure::infrastructure(
        InfrastructureCause::Baseline,
        "a case is larger than the problem's largest hidden size",
    )
}

/// The file of the reference.
const REFERENCE: &str = "reference.c";

/// A reference that dies or hangs is the problem's mistake.
pub(super) fn reference_failed(failure: Failure) -> Failure {
    own_failed(REFERENCE, failure)
}

/// The same of any of the problem's own programs.
fn own_failed(program: &'static str, failure: Failure) -> Failure {
    match failure {
        Failure::Candidate { fault, detail } => Failure::infrastructure(
            InfrastructureCause::Baseline,
            format!("the problem's own {program} failed ({fault}): {detail}"),
        ),
        other => other,
    }
}
