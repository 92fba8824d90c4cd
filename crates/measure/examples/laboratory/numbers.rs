//! Small statistics.

use flopsmith_measure::stats;

/// The mean.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Standard deviation as a share of the mean, in %.
pub fn variation_percent(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    let freedom = values.len().saturating_sub(1) as f64;
    (squares / freedom).sqrt() / mean * 100.0
}

/// A quantile; NaN for no values.
pub fn quantile(values: &[f64], q: f64) -> f64 {
    let mut ascending = values.to_vec();
    ascending.sort_by(f64::total_cmp);
    stats::quantile(&ascending, q).unwrap_or(f64::NAN)
}

/// The median.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The smallest.
pub fn smallest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The largest.
pub fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}
