//! Numbers that hold elsewhere: the code at other places, each in a process of its own, and the data in no cache.

use flopsmith_harness::memory::CAN_FLUSH;
use flopsmith_protocol::{Certificate, InfrastructureCause};
use serde::Serialize;

use super::decision::{Limits, Purpose};
use super::session::Trial;
use super::{Caches, Timed, Timer};
use crate::Failure;
use crate::environment::Surroundings;
use crate::stats::Estimate;

/// Bytes before the code in each layout: none, and others that move it to other lines and other halves of its page.
pub const PADDINGS: [u32; 5] = [0, 64, 448, 1344, 2752];

/// 97.5 % quantile of Student's t with 4 degrees of freedom, for the mean over five layouts.
const T_OF_LAYOUTS: f64 = 2.776;

/// Time for calls without caches.
const COLD: Limits = Limits {
    min: std::time::Duration::from_millis(40),
    max: std::time::Duration::from_millis(200),
    target_log_se: 0.01,
};

/// What was measured beside the first layout.
#[derive(Serialize)]
pub(super) struct Elsewhere {
    /// The samples of the other layouts.
    layouts: Vec<Trial>,
    /// Samples of calls that found nothing in a cache.
    cold: Option<Trial>,
}

impl Timer {
    /// Measures a verified candidate for a report: `layouts` are objects of it whose code lies at different places
    /// ([`crate::Compiler::layouts`] with [`PADDINGS`]). The time of a certification is shared among them; the number is their geometric
    /// mean, and its interval covers what they differ by.
    ///
    /// # Errors
    /// As [`Timer::measure`].
    pub fn certify(&mut self, layouts: &[Vec<u8>], seed: u64) -> Result<Timed, Failure> {
        let limits = shared(&self.limits[Purpose::Certify as usize], layouts.len());
        self.meanwhile = Surroundings::default();
        let mut trials = Vec::with_capacity(layouts.len());
        for (n, object) in (0u64..).zip(layouts) {
            let candidate = self.start_candidate(object)?;
            let seed = seed.wrapping_add(n);
            trials.push(self.try_out(candidate, &limits, None, seed, Caches::Warm)?);
        }
        let mut trials = trials.into_iter();
        let Some(mut first) = trials.next() else {
            return Err(Failure::infrastructure(
                InfrastructureCause::Harness,
                "nothing to certify",
            ));
        };
        let others: Vec<Trial> = trials.collect();
        let cold = match layouts.first() {
            Some(object) if CAN_FLUSH => {
                let candidate = self.start_candidate(object)?;
                Some(self.try_out(candidate, &COLD, None, !seed, Caches::Cold)?)
            }
            _ => None,
        };
        let estimates: Vec<Estimate> = std::iter::once(&first)
            .chain(&others)
            .map(|trial| trial.estimate)
            .collect();
        let mean = over_layouts(&estimates);
        let gflops = self.plausible(self.work_flops / mean.candidate / 1e9)?;
        let own = first.estimate;
        first.estimate = mean;
        let mut measurement = self.measurement(&first, gflops);
        first.estimate = own;
        let ratios: Vec<f64> = estimates
            .iter()
            .map(|e| (e.log_ratio + self.chain.log_ratio).exp())
            .collect();
        let largest = ratios.iter().copied().fold(f64::MIN, f64::max);
        let smallest = ratios.iter().copied().fold(f64::MAX, f64::min);
        measurement.calls += others
            .iter()
            .flat_map(|t| &t.candidate)
            .map(|b| b.seconds.len() as u32)
            .sum::<u32>();
        measurement.blocks += others
            .iter()
            .map(|t| (t.candidate.len() + t.baseline.len()) as u32)
            .sum::<u32>();
        measurement.certificate = Some(Certificate {
            layout_ratios: ratios,
            layout_spread: largest / smallest - 1.0,
            cold_seconds_per_call: cold.as_ref().map(|t| t.estimate.candidate),
        });
        let elsewhere = Elsewhere {
            layouts: others,
            cold,
        };
        let raw = self.raw(Purpose::Certify, seed, &first, Some(&elsewhere))?;
        // Calls without caches are no part of it: they take longer on any machine.
        self.note(mean.baseline);
        Ok(Timed { measurement, raw })
    }
}

/// The limits of one of several layouts that share the time of a certification.
pub(super) fn shared(whole: &Limits, layouts: usize) -> Limits {
    let parts = layouts.max(1) as u32;
    Limits {
        min: whole.min / parts,
        max: whole.max / parts,
        // Errors of the parts average out.
        target_log_se: whole.target_log_se * f64::from(parts).sqrt(),
    }
}

/// One estimate of several layouts: geometric means, and an interval that covers both the errors of the measurements and what
/// the layouts differ by.
pub(super) fn over_layouts(estimates: &[Estimate]) -> Estimate {
    let n = estimates.len() as f64;
    let mean = |value: &dyn Fn(&Estimate) -> f64| estimates.iter().map(value).sum::<f64>() / n;
    let log_ratio = mean(&|e| e.log_ratio);
    let within = mean(&|e| e.log_se * e.log_se) / n;
    let between = if estimates.len() > 1 {
        mean(&|e| (e.log_ratio - log_ratio).powi(2)) * n / (n - 1.0) / n
    } else {
        0.0
    };
    let half = (1.96 * within.sqrt()).max(T_OF_LAYOUTS * between.sqrt());
    Estimate {
        candidate: mean(&|e| e.candidate.ln()).exp(),
        baseline: mean(&|e| e.baseline.ln()).exp(),
        log_ratio,
        log_se: within.max(between).sqrt(),
        low: log_ratio - half,
        high: log_ratio + half,
        sampling_log_se: (mean(&|e| e.sampling_log_se.powi(2)) / n).sqrt(),
        rounds: estimates.iter().map(|e| e.rounds).sum(),
        outlying: estimates.iter().map(|e| e.outlying).sum(),
        supported: estimates.iter().all(|e| e.supported),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(log_ratio: f64, log_se: f64) -> Estimate {
        Estimate {
            candidate: 1e-3 * (-log_ratio).exp(),
            baseline: 1e-3,
            log_ratio,
            log_se,
            low: log_ratio - 2.0 * log_se,
            high: log_ratio + 2.0 * log_se,
            sampling_log_se: log_se,
            rounds: 10,
            outlying: 0,
            supported: true,
        }
    }

    #[test]
    fn layouts_that_differ_widen_the_interval() {
        let alike = over_layouts(&[0.5; 5].map(|r| estimate(r, 0.002)));
        assert!((alike.log_ratio - 0.5).abs() < 1e-12);
        assert!((alike.high - alike.low - 2.0 * 1.96 * 0.002 / 5f64.sqrt()).abs() < 1e-9);
        let apart = over_layouts(&[0.4, 0.45, 0.5, 0.55, 0.6].map(|r| estimate(r, 0.002)));
        assert!((apart.log_ratio - 0.5).abs() < 1e-12);
        assert!(apart.low < 0.41 && apart.high > 0.59, "{apart:?}");
        let alone = over_layouts(&[estimate(0.3, 0.01)]);
        assert!((alone.log_se - 0.01).abs() < 1e-12);
        assert!((alone.candidate - 1e-3 * (-0.3f64).exp()).abs() < 1e-12);
    }
}
