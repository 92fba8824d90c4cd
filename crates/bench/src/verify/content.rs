//! What stands in the inputs of a secret case.
//!
//! Uniform numbers alone let wrong methods pass: fast products with fewer
//! multiplications look exact on them and fail where rows differ by powers of
//! ten. Every content here keeps all products far from overflow.

use flopsmith_harness::inputs;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// A row-major matrix with random content of some kind.
pub struct Matrix<'a> {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// Elements.
    pub values: &'a mut [f64],
}

impl Matrix<'_> {
    /// Uniform in [-0.5, 0.5).
    pub fn uniform(&mut self, rng: &mut ChaCha8Rng) {
        inputs::fill_f64(rng.random(), self.values);
    }

    /// Zeros and ones: every correct program computes the product exactly.
    pub fn binary(&mut self, rng: &mut ChaCha8Rng) {
        let origin = rng.random();
        for (i, x) in self.values.iter_mut().enumerate() {
            *x = f64::from(inputs::bits(origin, i as u64) >> 63 == 1);
        }
    }

    /// Multiplies each row by a power of ten between 10^-`decades` and 10^`decades`.
    pub fn scale_rows(&mut self, decades: i32, rng: &mut ChaCha8Rng) {
        for row in self.values.chunks_exact_mut(self.columns.max(1)) {
            let factor = 10f64.powi(rng.random_range(-decades..=decades));
            row.iter_mut().for_each(|x| *x *= factor);
        }
    }

    /// Multiplies each column by a power of ten between 10^-`decades` and 10^`decades`.
    pub fn scale_columns(&mut self, decades: i32, rng: &mut ChaCha8Rng) {
        let factors: Vec<f64> = (0..self.columns)
            .map(|_| 10f64.powi(rng.random_range(-decades..=decades)))
            .collect();
        for row in self.values.chunks_exact_mut(self.columns.max(1)) {
            row.iter_mut().zip(&factors).for_each(|(x, f)| *x *= f);
        }
    }

    /// Makes about a quarter of the rows zero, one at least.
    pub fn zero_rows(&mut self, rng: &mut ChaCha8Rng) {
        let certain = rng.random_range(0..self.rows.max(1));
        for (n, row) in self
            .values
            .chunks_exact_mut(self.columns.max(1))
            .enumerate()
        {
            if n == certain || rng.random_range(0..4) == 0 {
                row.fill(0.0);
            }
        }
    }

    /// Multiplies everything.
    pub fn scale(&mut self, factor: f64) {
        self.values.iter_mut().for_each(|x| *x *= factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;

    proptest! {
        #[test]
        fn contents_are_what_they_say(rows in 1usize..20, columns in 1usize..20, seed: u64) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut values = vec![f64::NAN; rows * columns];
            let mut m = Matrix { rows, columns, values: &mut values };
            m.binary(&mut rng);
            prop_assert!(m.values.iter().all(|x| *x == 0.0 || *x == 1.0));
            m.uniform(&mut rng);
            prop_assert!(m.values.iter().all(|x| x.abs() <= 0.5));
            m.scale_rows(8, &mut rng);
            m.scale_columns(8, &mut rng);
            prop_assert!(m.values.iter().all(|x| x.abs() <= 1e16));
            m.zero_rows(&mut rng);
            let zero = m.values.chunks_exact(columns).filter(|r| r.iter().all(|x| *x == 0.0)).count();
            prop_assert!(zero >= 1);
        }
    }
}
