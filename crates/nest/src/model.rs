//! A model of the speed of programs, which a search learns as it goes.
//!
//! The model is a ridge regression of the logarithm of the speed on features of the programs (Hoerl and Kennard, 1970). Before anything is
//! measured its weights are rules of thumb, and the regression draws them back to these.

/// Number of measured programs from which on the model is fitted.
const FITTED_FROM: usize = 24;
/// The weight of the rules of thumb in the regression.
const RIDGE: f64 = 3.0;

/// A linear model.
#[derive(Debug, Clone)]
pub struct Model {
    prior: Vec<f64>,
    weights: Vec<f64>,
    fitted: usize,
}

impl Model {
    /// A model with these weights before anything is measured.
    pub fn new(prior: Vec<f64>) -> Self {
        Self {
            weights: prior.clone(),
            prior,
            fitted: 0,
        }
    }

    /// The logarithm of the speed that a program may have, up to a constant.
    pub fn estimate(&self, features: &[f64]) -> f64 {
        features.iter().zip(&self.weights).map(|(f, w)| f * w).sum()
    }

    /// True if so many measured programs are a quarter more than those that the model was fitted to.
    pub fn is_due(&self, measured: usize) -> bool {
        measured >= FITTED_FROM && measured >= self.fitted + self.fitted / 4
    }

    /// Fits the model to all measured programs: their features and their speeds.
    pub fn fit<'a>(&mut self, measured: impl IntoIterator<Item = (&'a [f64], f64)>) {
        let measured: Vec<(&[f64], f64)> = measured
            .into_iter()
            .map(|(features, speed)| (features, speed.max(1e-9).ln()))
            .collect();
        self.fitted = measured.len();
        let mean = measured.iter().map(|(_, y)| y).sum::<f64>() / measured.len().max(1) as f64;
        let count = self.prior.len();
        let mut matrix = vec![vec![0.0; count + 1]; count];
        for (n, row) in matrix.iter_mut().enumerate() {
            row[n] = RIDGE;
            row[count] = RIDGE * self.prior[n];
        }
        for (features, y) in &measured {
            for (row, f) in matrix.iter_mut().zip(features.iter()) {
                // Many features of a program are 0.
                if *f == 0.0 {
                    continue;
                }
                for (cell, other) in row.iter_mut().zip(features.iter()) {
                    *cell += f * other;
                }
                row[count] += f * (y - mean);
            }
        }
        if let Some(weights) = solved(matrix) {
            self.weights = weights;
        }
    }
}

/// Solves a symmetric positive definite system, whose right side is the last column, by elimination.
fn solved(mut matrix: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let count = matrix.len();
    for n in 0..count {
        let pivot = matrix[n][n];
        if pivot.is_nan() || pivot <= 1e-12 {
            return None;
        }
        let row = matrix[n].clone();
        for other in matrix.iter_mut().skip(n + 1) {
            let factor = other[n] / pivot;
            for (cell, value) in other.iter_mut().zip(&row).skip(n) {
                *cell -= factor * value;
            }
        }
    }
    let mut solution = vec![0.0; count];
    for n in (0..count).rev() {
        let known: f64 = (n + 1..count).map(|m| matrix[n][m] * solution[m]).sum();
        solution[n] = (matrix[n][count] - known) / matrix[n][n];
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elimination_solves_what_it_is_given() {
        let count = 22;
        let mut matrix = vec![vec![0.0; count + 1]; count];
        for (n, row) in matrix.iter_mut().enumerate() {
            for (m, cell) in row.iter_mut().enumerate().take(count) {
                *cell = 1.0 / (1.0 + n as f64 + m as f64) + if n == m { 1.0 } else { 0.0 };
            }
            row[count] = n as f64;
        }
        let solution = solved(matrix.clone()).expect("it is definite");
        for row in matrix {
            let product: f64 = row.iter().zip(&solution).map(|(a, x)| a * x).sum();
            assert!((product - row[count]).abs() < 1e-9);
        }
    }

    #[test]
    fn rules_of_thumb_count_until_measurements_say_otherwise() {
        let mut model = Model::new(vec![0.0, 1.0, -1.0]);
        let (first, second) = ([1.0, 1.0, 0.0], [1.0, 0.0, 1.0]);
        assert!(model.estimate(&first) > model.estimate(&second));
        assert!(!model.is_due(FITTED_FROM - 1) && model.is_due(FITTED_FROM));
        let measured = (0..40).map(|n| match n % 2 {
            0 => (first.as_slice(), 1.0),
            _ => (second.as_slice(), 10.0),
        });
        model.fit(measured);
        assert!(model.estimate(&first) < model.estimate(&second));
        assert!(!model.is_due(41) && model.is_due(50));
    }
}
