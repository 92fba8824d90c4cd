//! Secret cases: inputs, what belongs into the output, and how far it may be off.

use std::time::Duration;

use flopsmith_harness::inputs::POISON_F64;
use flopsmith_problem::{Distribution, Params, Problem};
use flopsmith_protocol::InfrastructureCause;
use rand_chacha::ChaCha8Rng;

use super::content::Matrix;
use super::oracle::{self, Mismatch};
use crate::Failure;
use crate::supervise::{Arena, Placement, Placing, Process, Product, Specification, plan, specify};

/// Powers of ten by which scaled rows and columns differ: from −7 to 7.
const DECADES: i32 = 7;

/// A case that candidates never see the inside of.
pub struct Case {
    /// The parameters.
    pub params: Params,
    /// What the inputs look like.
    pub distribution: Distribution,
    /// The arguments.
    pub specification: Specification,
    /// The matrix product among them.
    pub product: Product,
    /// How long one call may take.
    pub limit: Duration,
    inputs: Vec<Vec<f64>>,
    expected: Vec<f64>,
    tolerances: Vec<f64>,
}

/// What one call did to the buffers.
#[derive(Debug, Clone, PartialEq)]
pub enum Finding {
    /// Everything is as it should be; the worst error as a share of the bound.
    Right(f64),
    /// Elements are wrong.
    Wrong(Mismatch),
    /// An input (by number) has another value at an element.
    InputChanged {
        /// Which array argument.
        array: usize,
        /// Which element.
        element: usize,
    },
    /// Bytes outside the arrays were written.
    BandBroken {
        /// Next to which array argument.
        array: usize,
        /// Bytes behind its end, or before its start where negative.
        distance: isize,
    },
}

impl Case {
    /// Draws inputs and asks the reference, which runs in `process`, for the result.
    pub fn draw(
        problem: &Problem,
        params: Params,
        distribution: Distribution,
        arena: &Arena,
        process: &mut Process,
        rng: &mut ChaCha8Rng,
    ) -> Result<Self, Failure> {
        let specification = specify(problem, &params)?;
        let product = specification.product(problem.bound)?;
        let inputs: Vec<Vec<f64>> = [product.a, product.b]
            .iter()
            .map(|&n| {
                let dims = &specification.arrays[n].dims;
                let mut values = vec![0.0; specification.arrays[n].count()];
                fill(
                    distribution,
                    Matrix {
                        rows: dims[0],
                        columns: dims[1],
                        values: &mut values,
                    },
                    rng,
                );
                values
            })
            .collect();
        let (a, b) = (&inputs[0], &inputs[1]);
        let tolerances = oracle::magnitudes(product.shape, a, b)
            .into_iter()
            .map(|magnitude| oracle::tolerance(product.constant, product.shape.k, magnitude))
            .collect();
        let expected = oracle::product(product.shape, a, b);
        let mut case = Self {
            params,
            distribution,
            specification,
            product,
            limit: Duration::from_secs(60),
            inputs,
            expected,
            tolerances,
        };
        let placement = case
            .lay_out(arena, Placing::Between, rng)
            .ok_or_else(too_large)?;
        process
            .plan(&plan(&case.specification, &placement))
            .map_err(reference_failed)?;
        let time = process.call(case.limit).map_err(reference_failed)?;
        let mut result = vec![0.0; case.expected.len()];
        arena
            .mapping()
            .read(placement.arrays[product.c].0, &mut result);
        let finding = case.judge(arena, &placement);
        arena.repair(&placement);
        arena.restore(&placement);
        match finding {
            Finding::Right(_) => {}
            other => {
                return Err(Failure::infrastructure(
                    InfrastructureCause::Baseline,
                    format!(
                        "the problem's own reference fails a case ({}): {}",
                        case.name(),
                        case.words(&other)
                    ),
                ));
            }
        }
        // The reference is right within the bound, so it is what candidates are held against.
        case.expected = result;
        case.limit = (time * 20).max(Duration::from_secs(1));
        Ok(case)
    }

    /// Writes inputs and poison into the buffers. None when they do not fit.
    pub fn lay_out(
        &self,
        arena: &Arena,
        placing: Placing,
        rng: &mut ChaCha8Rng,
    ) -> Option<Placement> {
        let placement = arena.place(&self.specification.arrays, placing, rng)?;
        for (n, values) in [self.product.a, self.product.b]
            .into_iter()
            .zip(&self.inputs)
        {
            arena.mapping().write(placement.arrays[n].0, values);
        }
        self.poison(arena, &placement);
        Some(placement)
    }

    /// Poisons the output.
    pub fn poison(&self, arena: &Arena, placement: &Placement) {
        let (offset, bytes) = placement.arrays[self.product.c];
        arena
            .mapping()
            .with_slice(offset, bytes / 8, |x: &mut [u64]| x.fill(POISON_F64));
    }

    /// Looks at everything a call may have touched. Cheapest first; wrong results outrank the rest, because
    /// they say more about the program.
    pub fn judge(&self, arena: &Arena, placement: &Placement) -> Finding {
        let Product {
            a,
            b,
            c,
            shape,
            constant,
        } = self.product;
        let mut found = vec![0.0; self.expected.len()];
        arena.mapping().read(placement.arrays[c].0, &mut found);
        if let Some((array, distance)) = arena.broken_band(placement) {
            return Finding::BandBroken { array, distance };
        }
        for (array, values) in [a, b].into_iter().zip(&self.inputs) {
            let changed = arena.mapping().with_slice(
                placement.arrays[array].0,
                values.len(),
                |x: &mut [f64]| first_difference(x, values),
            );
            if let Some(element) = changed {
                return Finding::InputChanged { array, element };
            }
        }
        let exact = |i: usize, j: usize| {
            let pairs = (0..shape.k).map(|l| {
                (
                    self.inputs[0][i * shape.k + l],
                    self.inputs[1][l * shape.n + j],
                )
            });
            let (value, magnitude) = oracle::exact_dot(pairs);
            (value, oracle::tolerance(constant, shape.k, magnitude))
        };
        match oracle::compare(shape, &found, &self.expected, &self.tolerances, exact) {
            Ok(share) => Finding::Right(share),
            Err(mismatch) => Finding::Wrong(mismatch),
        }
    }

    /// The output's bits.
    pub fn output(&self, arena: &Arena, placement: &Placement) -> Vec<u64> {
        let mut bits = vec![0u64; self.expected.len()];
        arena
            .mapping()
            .read(placement.arrays[self.product.c].0, &mut bits);
        bits
    }

    /// The case for people: its parameters and its content.
    pub fn name(&self) -> String {
        let params: Vec<String> = self
            .params
            .iter()
            .map(|(k, v)| format!("{k} = {v}"))
            .collect();
        let content = match self.distribution {
            Distribution::Uniform => "uniform inputs",
            Distribution::ScaledRows => "rows scaled by powers of ten",
            Distribution::ScaledColumns => "columns scaled by powers of ten",
            Distribution::ZeroOne => "inputs of zeros and ones",
            Distribution::ZeroRows => "some rows zero",
            Distribution::Negated => "negated inputs",
            Distribution::Tiny => "tiny inputs",
            Distribution::Huge => "huge inputs",
        };
        format!("{}, {content}", params.join(", "))
    }

    /// A finding in words.
    pub fn words(&self, finding: &Finding) -> String {
        match finding {
            Finding::Right(share) => format!("right, worst error {share:.3} of the bound"),
            Finding::Wrong(mismatch) => {
                let cells = self.product.shape.m * self.product.shape.n;
                let passes = mismatch.share * self.product.constant;
                let mut text = format!("of {cells} elements {mismatch}");
                if passes.is_finite() {
                    text.push_str(&format!(
                        "; it would pass with a bound of {passes:.3e}·k·eps·(|A||B|) instead of {}",
                        self.product.constant
                    ));
                }
                text
            }
            Finding::InputChanged { array, element } => {
                format!(
                    "array argument {} was changed at element {element}",
                    array + 1
                )
            }
            Finding::BandBroken { array, distance } if *distance < 0 => {
                format!(
                    "memory was written {} bytes before array argument {}",
                    -distance,
                    array + 1
                )
            }
            Finding::BandBroken { array, distance } => {
                format!(
                    "memory was written {distance} bytes behind the end of array argument {}",
                    array + 1
                )
            }
        }
    }
}

fn fill(distribution: Distribution, mut matrix: Matrix, rng: &mut ChaCha8Rng) {
    matrix.uniform(rng);
    match distribution {
        Distribution::Uniform => {}
        Distribution::ScaledRows => matrix.scale_rows(DECADES, rng),
        Distribution::ScaledColumns => matrix.scale_columns(DECADES, rng),
        Distribution::ZeroOne => matrix.binary(rng),
        Distribution::ZeroRows => matrix.zero_rows(rng),
        Distribution::Negated => matrix.scale(-1.0),
        Distribution::Tiny => matrix.scale(1e-60),
        Distribution::Huge => matrix.scale(1e60),
    }
}

/// Compares bits, so that even a NaN or the sign of a zero counts.
fn first_difference(x: &[f64], y: &[f64]) -> Option<usize> {
    const CHUNK: usize = 512;
    x.chunks(CHUNK)
        .zip(y.chunks(CHUNK))
        .enumerate()
        .find_map(|(n, (x, y))| {
            let differs = x
                .iter()
                .zip(y)
                .fold(0, |acc, (p, q)| acc | (p.to_bits() ^ q.to_bits()));
            if differs == 0 {
                return None;
            }
            x.iter()
                .zip(y)
                .position(|(p, q)| p.to_bits() != q.to_bits())
                .map(|at| n * CHUNK + at)
        })
}

pub(super) fn too_large() -> Failure {
    Failure::infrastructure(
        InfrastructureCause::Baseline,
        "a case is larger than the problem's largest hidden size",
    )
}

/// A reference that dies or hangs is the problem's mistake.
pub(super) fn reference_failed(failure: Failure) -> Failure {
    match failure {
        Failure::Candidate { fault, detail } => Failure::infrastructure(
            InfrastructureCause::Baseline,
            format!("the problem's own reference failed ({fault}): {detail}"),
        ),
        other => other,
    }
}
