//! Metrics of models: how many of a model's programs build, are correct and are fast.
//!
//! A model answers each problem several times. [`Samples`] are the answers to one problem, and a [`Metric`] turns them
//! into a number, then the numbers of several problems into one. [`estimates`] adds intervals, and [`differences`]
//! compares two models.
//!
//! Invariants, each with a property test:
//! - the estimators of k draws equal the mean over all subsets of k samples;
//! - with k = 1 they equal plain means;
//! - the same seed gives the same intervals and the same chances.

mod bootstrap;
mod compare;
mod estimators;

pub use bootstrap::{Estimate, estimates};
pub use compare::{Difference, Pair, differences, holm};
pub use estimators::{at_least_one, expected_best, pareval_compat, sol_score};

/// One answer of a model that this machine could evaluate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sample {
    /// The answer has no program, or its program failed.
    Failed {
        /// True if the program was built before it failed.
        built: bool,
    },
    /// The program is correct.
    Correct {
        /// Time of the reference divided by the time of the program.
        speedup: f64,
        /// Standard error of ln(speedup), without the error of the reference, which all programs of a problem share.
        log_se: f64,
        /// The measurement that the number comes from. Samples with identical programs share one, and its error.
        program: usize,
    },
}

/// The answers of a model to one problem. Answers that the machine failed to evaluate are not among them: an
/// infrastructure failure says nothing about a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    /// The answers.
    pub samples: Vec<Sample>,
    /// Standard error of ln(time of the reference), which all speedups of the problem have in common.
    pub reference_log_se: f64,
    /// Time of the reference divided by the time of a program at the roof of the roofline model, if it is known.
    pub headroom: Option<f64>,
    /// True if the reference runs on several threads, as many as the programs.
    pub threaded_reference: bool,
}

/// A number for the answers to one problem. `k` is a number of draws.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Metric {
    /// Probability that at least one of `k` answers builds.
    Build(u32),
    /// Probability that at least one of `k` answers is correct (Chen et al., arXiv:2107.03374).
    Pass(u32),
    /// Expected speedup of the fastest of `k` answers (Nichols et al., arXiv:2401.12554), where failed answers count 0.
    Speedup(u32),
    /// The number that ParEval's released code prints as `speedup@k`; it equals the expected speedup only for k = 1,
    /// and failed answers are dropped.
    ParevalSpeedup(u32),
    /// [`Metric::Speedup`] divided by the number of threads. The reference must run on one thread: a speedup over a
    /// reference on several says nothing of the share of their work that is useful.
    Efficiency(u32, u32),
    /// Share of the answers that are correct and more than this many times as fast as the reference (KernelBench,
    /// arXiv:2502.10517).
    Fast(f64),
    /// Geometric mean of the speedups of the correct answers.
    GeometricMean,
    /// Harmonic mean of the speedups of the correct answers.
    HarmonicMean,
    /// Mean share of the roof that the answers reach, where failed answers count 0.
    ShareOfRoof,
    /// Mean [`sol_score`] of the answers, where failed answers count 0.
    SolScore,
}

/// The limits of [`Metric::Fast`].
pub const FAST: [f64; 3] = [1.0, 1.5, 2.0];

impl Metric {
    /// All metrics, with these numbers of draws.
    pub fn all(draws: &[u32], threads: u32) -> Vec<Self> {
        let draws = || draws.iter().copied();
        let mut all: Vec<Metric> = draws().map(Metric::Build).collect();
        all.extend(draws().map(Metric::Pass));
        all.extend(draws().map(Metric::Speedup));
        all.extend(draws().map(|k| Metric::Efficiency(k, threads)));
        all.extend(draws().map(Metric::ParevalSpeedup));
        all.extend(FAST.map(Metric::Fast));
        all.extend([
            Metric::GeometricMean,
            Metric::HarmonicMean,
            Metric::ShareOfRoof,
            Metric::SolScore,
        ]);
        all
    }

    /// Its name in files: n stands for the number of threads.
    pub fn name(self) -> String {
        match self {
            Metric::Build(k) => format!("build@{k}"),
            Metric::Pass(k) => format!("pass@{k}"),
            Metric::Speedup(k) => format!("speedup_n@{k}"),
            Metric::ParevalSpeedup(k) => format!("pareval_compat_speedup_n@{k}"),
            Metric::Efficiency(k, _) => format!("efficiency_n@{k}"),
            Metric::Fast(limit) => format!("fast_{limit}"),
            Metric::GeometricMean => "geometric_mean_speedup".into(),
            Metric::HarmonicMean => "harmonic_mean_speedup".into(),
            Metric::ShareOfRoof => "share_of_roof".into(),
            Metric::SolScore => "sol_score".into(),
        }
    }

    /// The number of one problem; none where it is not defined: without samples, with fewer than `k` of them, for means
    /// over correct answers without a correct one, for shares of an unknown roof, and for the efficiency over a reference on
    /// several threads.
    pub fn of(self, samples: &Samples) -> Option<f64> {
        self.of_tally(&Tally::of(samples))
    }

    fn of_tally(self, tally: &Tally) -> Option<f64> {
        let &Tally { samples, built, .. } = tally;
        let speedups = &tally.speedups[..];
        let correct = speedups.len();
        let share = |sum: f64| (samples > 0).then(|| sum / samples as f64);
        let any = |sum: f64| (correct > 0).then(|| sum / correct as f64);
        match self {
            Metric::Build(k) => at_least_one(samples, built, k as usize),
            Metric::Pass(k) => at_least_one(samples, correct, k as usize),
            Metric::Speedup(k) => expected_best(samples, speedups, k as usize),
            Metric::ParevalSpeedup(k) => pareval_compat(speedups, k as usize),
            Metric::Efficiency(..) if tally.threaded_reference => None,
            Metric::Efficiency(k, threads) => {
                let speedup = expected_best(samples, speedups, k as usize)?;
                Some(speedup / f64::from(threads))
            }
            Metric::Fast(limit) => share(speedups.iter().filter(|s| **s > limit).count() as f64),
            Metric::GeometricMean => any(speedups.iter().map(|s| s.ln()).sum()).map(f64::exp),
            Metric::HarmonicMean => any(speedups.iter().map(|s| s.recip()).sum()).map(f64::recip),
            Metric::ShareOfRoof if correct == 0 => share(0.0),
            Metric::ShareOfRoof => {
                let headroom = tally.headroom?;
                share(speedups.iter().map(|s| s / headroom).sum())
            }
            Metric::SolScore if correct == 0 => share(0.0),
            Metric::SolScore => {
                let headroom = tally.headroom?;
                let scores: Option<f64> = speedups.iter().map(|s| sol_score(*s, headroom)).sum();
                share(scores?)
            }
        }
    }

    /// One number from those of several problems, each with the same weight: the mean of its own kind. None without
    /// any.
    pub fn over(self, values: &[f64]) -> Option<f64> {
        if values.is_empty() {
            return None;
        }
        let mean = |of: &dyn Fn(f64) -> f64| {
            values.iter().map(|value| of(*value)).sum::<f64>() / values.len() as f64
        };
        Some(match self {
            Metric::GeometricMean => mean(&f64::ln).exp(),
            Metric::HarmonicMean => mean(&f64::recip).recip(),
            _ => mean(&|value| value),
        })
    }
}

/// The part of [`Samples`] that metrics need.
struct Tally {
    samples: usize,
    built: usize,
    /// The speedups of the correct answers, the slowest first.
    speedups: Vec<f64>,
    headroom: Option<f64>,
    threaded_reference: bool,
}

impl Tally {
    fn of(samples: &Samples) -> Self {
        Self::drawn(
            samples.samples.iter(),
            samples.headroom,
            samples.threaded_reference,
            |speedup, _| speedup,
        )
    }

    /// The tally of some samples, whose speedups `changed` changes by the number of their program.
    fn drawn<'a>(
        samples: impl Iterator<Item = &'a Sample>,
        headroom: Option<f64>,
        threaded_reference: bool,
        changed: impl Fn(f64, usize) -> f64,
    ) -> Self {
        let mut tally = Self {
            samples: 0,
            built: 0,
            speedups: Vec::new(),
            headroom,
            threaded_reference,
        };
        for sample in samples {
            tally.samples += 1;
            match *sample {
                Sample::Failed { built } => tally.built += usize::from(built),
                Sample::Correct {
                    speedup, program, ..
                } => {
                    tally.built += 1;
                    tally.speedups.push(changed(speedup, program));
                }
            }
        }
        tally.speedups.sort_by(f64::total_cmp);
        tally
    }
}
