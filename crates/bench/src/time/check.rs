//! Was a timed call's work done? Judged from the buffers and the seed alone.

use flopsmith_harness::inputs::{self, POISON_F64};
use flopsmith_protocol::CandidateFault;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use crate::Failure;
use crate::supervise::{Arena, Placement, Product, Specification};
use crate::verify::oracle;

/// Elements that are recomputed after each timed call.
const PROBES: usize = 6;
/// Elements that are only looked at: has anything been written there?
const GLANCES: usize = 48;

/// Knows the inputs of every call by their seed, and so what must come out.
pub struct Check<'a> {
    /// The buffers.
    pub arena: &'a Arena,
    /// Where the arrays lie.
    pub placement: &'a Placement,
    /// The arguments.
    pub specification: &'a Specification,
    /// The matrix product among them.
    pub product: Product,
}

fn skipped(detail: String) -> Failure {
    Failure::candidate(CandidateFault::SkippedWork, detail)
}

impl Check<'_> {
    fn origins(&self, seed: u64) -> (u64, u64) {
        let stream = |n: usize| self.specification.arrays[n].stream;
        (
            inputs::origin(seed, stream(self.product.a)),
            inputs::origin(seed, stream(self.product.b)),
        )
    }

    /// What belongs into an element, and how far off it may be.
    fn exact(&self, seed: u64, row: usize, column: usize) -> (f64, f64) {
        let Product {
            shape, constant, ..
        } = self.product;
        let (a, b) = self.origins(seed);
        let (value, magnitude) = oracle::exact_dot((0..shape.k).map(|l| {
            (
                inputs::element(a, (row * shape.k + l) as u64),
                inputs::element(b, (l * shape.n + column) as u64),
            )
        }));
        (value, oracle::tolerance(constant, shape.k, magnitude))
    }

    /// Looks at some random elements right after a call. All are read before anything is computed, so that work
    /// that is still going on has no time to finish.
    pub fn probe(&self, seed: u64, rng: &mut ChaCha8Rng) -> Result<(), Failure> {
        let shape = self.product.shape;
        let (offset, _) = self.placement.arrays[self.product.c];
        let cells = shape.m * shape.n;
        let mut places = [0usize; PROBES + GLANCES];
        let mut values = [0.0f64; PROBES + GLANCES];
        for place in &mut places {
            *place = rng.random_range(0..cells);
        }
        for (value, place) in values.iter_mut().zip(&places) {
            *value = self.arena.mapping().get(offset + 8 * place);
        }
        if let Some(at) = values.iter().position(|v| v.to_bits() == POISON_F64) {
            let (row, column) = (places[at] / shape.n, places[at] % shape.n);
            return Err(skipped(format!(
                "when a timed call returned, row {row}, column {column} had not been written"
            )));
        }
        for (&value, &place) in values.iter().zip(&places).take(PROBES) {
            let (row, column) = (place / shape.n, place % shape.n);
            let (expected, tolerance) = self.exact(seed, row, column);
            if oracle::error_share(value, expected, tolerance) > 1.0 {
                return Err(skipped(format!(
                    "after a timed call row {row}, column {column} held {value:e} instead of {expected:e}: the result of this call's inputs was not computed"
                )));
            }
        }
        Ok(())
    }

    /// Checks every output element, every input element and every byte around them after a call.
    pub fn everything(&self, seed: u64) -> Result<(), Failure> {
        let Product {
            shape,
            a,
            b,
            c,
            constant,
        } = self.product;
        let mapping = self.arena.mapping();
        let mut found = vec![0.0; shape.m * shape.n];
        mapping.read(self.placement.arrays[c].0, &mut found);
        let (a_origin, b_origin) = self.origins(seed);
        let mut left = vec![0.0; shape.m * shape.k];
        let mut right = vec![0.0; shape.k * shape.n];
        inputs::fill_f64(a_origin, &mut left);
        inputs::fill_f64(b_origin, &mut right);
        if let Some((array, distance)) = self.arena.broken_band(self.placement) {
            self.arena.repair(self.placement);
            return Err(Failure::candidate(
                CandidateFault::OutOfBounds,
                format!(
                    "a timed call wrote {distance} bytes outside array argument {}",
                    array + 1
                ),
            ));
        }
        for (array, values) in [(a, &left), (b, &right)] {
            let same = mapping.with_slice(
                self.placement.arrays[array].0,
                values.len(),
                |x: &mut [f64]| {
                    x.iter()
                        .zip(values.iter())
                        .fold(0, |d, (p, q)| d | (p.to_bits() ^ q.to_bits()))
                        == 0
                },
            );
            if !same {
                return Err(Failure::candidate(
                    CandidateFault::InputModified,
                    format!("a timed call changed array argument {}", array + 1),
                ));
            }
        }
        let expected = oracle::product(shape, &left, &right);
        // |A||B| of these inputs is about k/16. What exceeds half of the bound for that is judged by
        // the real one, so this only saves the time to compute it for every element.
        let cheap = oracle::tolerance(constant, shape.k, shape.k as f64 / 32.0);
        let tolerances = vec![cheap; expected.len()];
        oracle::compare(shape, &found, &expected, &tolerances, |row, column| {
            self.exact(seed, row, column)
        })
        .map(|_| ())
        .map_err(|mismatch| skipped(format!("after a timed call {mismatch}")))
    }
}
