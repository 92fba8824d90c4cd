//! Two models on the same problems.

use rand::Rng;
use rand::seq::SliceRandom;

use super::bootstrap::{Errors, interval, picked};
use super::{Metric, Sample, Samples, Tally};

/// The samples of two models of one problem. Their [`Sample::Correct::program`] count measurements of both together.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// The samples of the first model.
    pub a: &'a Samples,
    /// The samples of the second model.
    pub b: &'a Samples,
}

/// The difference between two models in one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// The metric of the first model.
    pub a: f64,
    /// The metric of the second model.
    pub b: f64,
    /// `b` less `a`.
    pub difference: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end of its 95 % interval.
    pub high: f64,
    /// The chance of so large a difference between equal models; see [`differences`].
    pub chance: f64,
    /// Number of problems that both models have the metric for.
    pub problems: usize,
}

/// The differences between two models in each metric, paired by problem. None for a metric that no problem has of both.
///
/// The interval is that of a bootstrap in which both models get the same problems and the same errors of measurement.
/// The chance is the larger one of two. One is that of a permutation test, which exchanges the samples of the models
/// within each problem: it is exact for any number of samples, but knows no errors of measurement. The other is twice the
/// share of bootstrap differences on the other side of zero, which knows these errors, but is too small for few samples.
pub fn differences(
    pairs: &[Pair<'_>],
    metrics: &[Metric],
    resamples: usize,
    rng: &mut impl Rng,
) -> Vec<Option<Difference>> {
    let observed: Vec<Option<Observed>> = metrics
        .iter()
        .map(|metric| {
            Observed::of(
                *metric,
                pairs.iter().map(|p| (Tally::of(p.a), Tally::of(p.b))),
            )
        })
        .collect();
    let mut drawn: Vec<Vec<f64>> = vec![Vec::with_capacity(resamples); metrics.len()];
    let mut as_large = vec![0usize; metrics.len()];
    for _ in 0..resamples {
        let resample: Vec<(Tally, Tally)> = (0..pairs.len())
            .map(|n| {
                let pair = &pairs[picked(n, pairs.len(), rng)];
                let errors = Errors::draw([pair.a, pair.b], rng);
                (errors.resampled(pair.a, rng), errors.resampled(pair.b, rng))
            })
            .collect();
        let exchanged: Vec<(Tally, Tally)> = pairs.iter().map(|p| exchanged(p, rng)).collect();
        for (n, metric) in metrics.iter().enumerate() {
            let Some(real) = &observed[n] else { continue };
            let tallies = |of: &[(Tally, Tally)]| Observed::of_slice(*metric, of);
            drawn[n].extend(tallies(&resample).map(|found| found.difference()));
            let by_chance = tallies(&exchanged).map_or(0.0, |found| found.difference());
            // Sums of the same numbers in another order may differ in their last bits.
            let least = real.difference().abs() * (1.0 - 1e-9) - 1e-12;
            as_large[n] += usize::from(by_chance.abs() >= least);
        }
    }
    observed
        .into_iter()
        .zip(drawn)
        .zip(as_large)
        .map(|((observed, mut drawn), as_large)| {
            let observed = observed?;
            let difference = observed.difference();
            let (low, high) = interval(&mut drawn).unwrap_or((difference, difference));
            let share = |count: usize, of: usize| (count + 1) as f64 / (of + 1) as f64;
            let below = drawn.iter().filter(|d| **d <= 0.0).count();
            let above = drawn.iter().filter(|d| **d >= 0.0).count();
            let beyond = (2.0 * share(below.min(above), drawn.len())).min(1.0);
            Some(Difference {
                a: observed.a,
                b: observed.b,
                difference,
                low,
                high,
                chance: share(as_large, resamples).max(beyond),
                problems: observed.problems,
            })
        })
        .collect()
}

/// A metric of both models.
struct Observed {
    a: f64,
    b: f64,
    problems: usize,
}

impl Observed {
    fn of(metric: Metric, pairs: impl Iterator<Item = (Tally, Tally)>) -> Option<Self> {
        Self::of_slice(metric, &pairs.collect::<Vec<_>>())
    }

    /// Over the problems that have the metric for both models.
    fn of_slice(metric: Metric, pairs: &[(Tally, Tally)]) -> Option<Self> {
        let both = pairs
            .iter()
            .filter_map(|(a, b)| Some((metric.of_tally(a)?, metric.of_tally(b)?)));
        let (a, b): (Vec<f64>, Vec<f64>) = both.unzip();
        Some(Self {
            problems: a.len(),
            a: metric.over(&a)?,
            b: metric.over(&b)?,
        })
    }

    fn difference(&self) -> f64 {
        self.b - self.a
    }
}

/// The samples of both models, dealt to the two anew.
fn exchanged(pair: &Pair<'_>, rng: &mut impl Rng) -> (Tally, Tally) {
    let both = pair.a.samples.iter().chain(&pair.b.samples);
    let mut both: Vec<&Sample> = both.collect();
    both.shuffle(rng);
    let (a, b) = both.split_at(pair.a.samples.len());
    let tally = |samples: &[&Sample], of: &Samples| {
        let samples = samples.iter().copied();
        Tally::drawn(samples, of.headroom, of.threaded_reference, |speedup, _| {
            speedup
        })
    };
    (tally(a, pair.a), tally(b, pair.b))
}

/// Chances that are corrected for the number of comparisons by Holm's procedure (S. Holm, A Simple Sequentially
/// Rejective Multiple Test Procedure, 1979). If each comparison whose corrected chance is at most 5 % is called a
/// difference, any of them is wrong in at most one of twenty families.
pub fn holm(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|a, b| chances[*a].total_cmp(&chances[*b]));
    let mut corrected = vec![1.0; chances.len()];
    let mut largest: f64 = 0.0;
    for (rank, n) in order.into_iter().enumerate() {
        let chance = chances[n] * (chances.len() - rank) as f64;
        largest = largest.max(chance).min(1.0);
        corrected[n] = largest;
    }
    corrected
}
