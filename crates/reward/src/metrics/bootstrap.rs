//! Intervals by the bootstrap: problems are drawn with replacement, and the samples of each drawn problem as well.
//!
//! A drawn problem also gets a new error of its reference, and each program a new error of its measurement, so that the
//! intervals contain the errors of the clock beside the chance of the draws.

use rand::Rng;

use super::{Metric, Sample, Samples, Tally};

/// A number with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Number of problems that it comes from.
    pub problems: usize,
}

/// Each metric over the problems, with percentile intervals over `resamples` resamples (Efron and Tibshirani, An
/// Introduction to the Bootstrap, 1993). With one problem only its samples are drawn. None for a metric that is defined
/// for no problem.
pub fn estimates(
    problems: &[&Samples],
    metrics: &[Metric],
    resamples: usize,
    rng: &mut impl Rng,
) -> Vec<Option<Estimate>> {
    let mut found: Vec<Vec<f64>> = vec![Vec::with_capacity(resamples); metrics.len()];
    let mut values: Vec<Vec<f64>> = vec![Vec::new(); metrics.len()];
    for _ in 0..resamples {
        values.iter_mut().for_each(Vec::clear);
        for n in 0..problems.len() {
            let problem = problems[picked(n, problems.len(), rng)];
            let errors = Errors::draw([problem], rng);
            let tally = errors.resampled(problem, rng);
            for (metric, values) in metrics.iter().zip(&mut values) {
                values.extend(metric.of_tally(&tally));
            }
        }
        for ((metric, values), found) in metrics.iter().zip(&values).zip(&mut found) {
            found.extend(metric.over(values));
        }
    }
    let all = metrics.iter().zip(found);
    all.map(|(metric, mut found)| {
        let values: Vec<f64> = problems.iter().filter_map(|p| metric.of(p)).collect();
        let value = metric.over(&values)?;
        let (low, high) = interval(&mut found).unwrap_or((value, value));
        Some(Estimate {
            value,
            low,
            high,
            problems: values.len(),
        })
    })
    .collect()
}

/// The problem in place `n` of a resample.
pub(super) fn picked(n: usize, problems: usize, rng: &mut impl Rng) -> usize {
    match problems {
        1 => n,
        several => rng.random_range(0..several),
    }
}

/// Errors of the measurements of one problem.
pub(super) struct Errors {
    /// Factor of the time of the reference.
    reference: f64,
    /// Factor of the speed of each program.
    programs: Vec<f64>,
}

impl Errors {
    /// Draws the errors that several models' samples of one problem have in common.
    pub fn draw<'a>(of: impl IntoIterator<Item = &'a Samples>, rng: &mut impl Rng) -> Self {
        let mut reference_log_se: f64 = 0.0;
        let mut known: Vec<f64> = Vec::new();
        for samples in of {
            reference_log_se = reference_log_se.max(samples.reference_log_se);
            for sample in &samples.samples {
                if let Sample::Correct {
                    log_se, program, ..
                } = *sample
                {
                    if known.len() <= program {
                        known.resize(program + 1, 0.0);
                    }
                    known[program] = log_se;
                }
            }
        }
        let reference = (reference_log_se * normal(rng)).exp();
        let programs = known.into_iter().map(|se| (se * normal(rng)).exp());
        Self {
            programs: programs.collect(),
            reference,
        }
    }

    /// As many samples, drawn with replacement, with these errors.
    pub fn resampled(&self, of: &Samples, rng: &mut impl Rng) -> Tally {
        let samples = &of.samples[..];
        let drawn: Vec<&Sample> = samples
            .iter()
            .map(|_| &samples[rng.random_range(0..samples.len())])
            .collect();
        let headroom = of.headroom.map(|headroom| headroom * self.reference);
        let changed =
            |speedup: f64, program: usize| speedup * self.reference * self.programs[program];
        Tally::drawn(drawn.into_iter(), headroom, of.threaded_reference, changed)
    }
}

/// A standard normal number (Box and Muller).
fn normal(rng: &mut impl Rng) -> f64 {
    let length = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    length * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

/// The ends of the middle 95 %. None without numbers.
pub(super) fn interval(found: &mut [f64]) -> Option<(f64, f64)> {
    found.sort_by(f64::total_cmp);
    Some((quantile(found, 0.025)?, quantile(found, 0.975)?))
}

/// A quantile of sorted numbers, with linear interpolation between two of them.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let at = share * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (at.floor() as usize, at.ceil() as usize);
    let part = at - at.floor();
    Some(sorted[below] * (1.0 - part) + sorted[above] * part)
}
