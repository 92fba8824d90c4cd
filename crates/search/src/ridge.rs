//! Ridge regression: a linear model whose weights are drawn towards a prior.

/// The weight of the prior in the regression.
const RIDGE: f64 = 3.0;

/// A model of the logarithm of a program's speed, up to a constant.
#[derive(Debug, Clone)]
pub(crate) struct Ridge {
    prior: Vec<f64>,
    weights: Vec<f64>,
}

impl Ridge {
    /// A model that knows nothing but its prior.
    pub(crate) fn new(prior: Vec<f64>) -> Self {
        Self {
            weights: prior.clone(),
            prior,
        }
    }

    /// The logarithm of the speed that a program may have, up to a constant.
    pub(crate) fn estimate(&self, features: &[f64]) -> f64 {
        features.iter().zip(&self.weights).map(|(f, w)| f * w).sum()
    }

    /// Fits the weights to the features and the logarithms of the speeds of programs.
    pub(crate) fn fit(&mut self, measured: &[(&[f64], f64)]) {
        let features = self.prior.len();
        let mean = measured.iter().map(|(_, y)| y).sum::<f64>() / measured.len().max(1) as f64;
        let mut matrix = vec![vec![0.0; features + 1]; features];
        for (n, row) in matrix.iter_mut().enumerate() {
            row[n] = RIDGE;
            row[features] = RIDGE * self.prior[n];
        }
        for (of_it, y) in measured {
            for (row, f) in matrix.iter_mut().zip(of_it.iter()) {
                for (cell, other) in row.iter_mut().zip(of_it.iter()) {
                    *cell += f * other;
                }
                row[features] += f * (y - mean);
            }
        }
        if let Some(weights) = solved(matrix) {
            self.weights = weights;
        }
    }
}

/// Solves a symmetric positive definite system by elimination. Each row holds its equation and, last, its right side.
fn solved(mut matrix: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let size = matrix.len();
    for n in 0..size {
        let pivot = matrix[n][n];
        if pivot.is_nan() || pivot <= 1e-12 {
            return None;
        }
        let (above, below) = matrix.split_at_mut(n + 1);
        let row = &above[n];
        for other in below {
            let factor = other[n] / pivot;
            for (cell, value) in other.iter_mut().zip(row).skip(n) {
                *cell -= factor * value;
            }
        }
    }
    let mut solution = vec![0.0; size];
    for n in (0..size).rev() {
        let known: f64 = (n + 1..size).map(|m| matrix[n][m] * solution[m]).sum();
        solution[n] = (matrix[n][size] - known) / matrix[n][n];
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn elimination_solves_what_it_is_given() {
        let size = 22;
        let mut matrix = vec![vec![0.0; size + 1]; size];
        for (n, row) in matrix.iter_mut().enumerate() {
            for (m, cell) in row.iter_mut().enumerate().take(size) {
                *cell = 1.0 / (1.0 + n as f64 + m as f64) + if n == m { 1.0 } else { 0.0 };
            }
            row[size] = n as f64;
        }
        let solution = solved(matrix.clone()).expect("it is definite");
        for row in matrix {
            let product: f64 = row.iter().zip(&solution).map(|(a, x)| a * x).sum();
            assert!((product - row[size]).abs() < 1e-9);
        }
    }

    proptest! {
        /// Enough samples of a linear law outweigh any prior.
        #[test]
        fn a_linear_law_is_found(a in -2.0f64..2.0, b in -2.0f64..2.0, prior in -1.0f64..1.0) {
            let mut model = Ridge::new(vec![prior; 3]);
            let features: Vec<[f64; 3]> = (0..40_000u32)
                .map(|n| [1.0, f64::from(n % 7) - 3.0, f64::from(n % 5) - 2.0])
                .collect();
            let measured: Vec<(&[f64], f64)> = features
                .iter()
                .map(|f| (&f[..], a * f[1] + b * f[2]))
                .collect();
            model.fit(&measured);
            let of = |x: f64, y: f64| model.estimate(&[1.0, x, y]) - model.estimate(&[1.0, 0.0, 0.0]);
            prop_assert!((of(1.0, 0.0) - a).abs() < 1e-2 && (of(0.0, 1.0) - b).abs() < 1e-2);
        }
    }
}
