//! Numbers that hold elsewhere: code and data at other places, each time in fresh processes, and the data in no cache.

use flopsmith_harness::memory::CAN_FLUSH;
use flopsmith_problem::Caches as Wanted;
use flopsmith_protocol::{Certificate, InfrastructureCause, Interval, StopReason};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::alone::held_against;
use super::decision::{Limits, Purpose};
use super::session::Trial;
use super::{Caches, Timed, Timer};
use crate::Failure;
use crate::environment::Surroundings;
use crate::stats::{Estimate, SYSTEMATIC_LOG_SE};
use crate::supervise::{PLACES, Placing};

/// Bytes before the code in each layout: none, and others that move it to other lines and other halves of its page.
pub const PADDINGS: [u32; 5] = [0, 64, 448, 1344, 2752];

// Each layout has data of its own.
const _: () = assert!(PADDINGS.len() as u64 == PLACES);

/// 97.5 % quantile of Student's t with 4 degrees of freedom, for the mean over five layouts.
const T_OF_LAYOUTS: f64 = 2.776;
/// The same of the normal distribution. A standard error is half of an interval divided by this, here as in [`Estimate`].
const NORMAL: f64 = 1.96;

/// Time for calls without caches where only their seconds are told.
const COLD: Limits = Limits {
    min: std::time::Duration::from_millis(40),
    max: std::time::Duration::from_millis(200),
    target_log_se: 0.01,
    usable_log_se: 0.25,
};
/// The same where their ratio is.
const COLD_RATIO: Limits = Limits {
    min: std::time::Duration::from_millis(100),
    max: std::time::Duration::from_millis(400),
    target_log_se: 0.004,
    usable_log_se: 0.008,
};
/// Pages, and the offsets of arrays in them.
const PAGE: usize = 4096;

/// What was measured beside the first layout.
#[derive(Serialize)]
pub(super) struct Elsewhere {
    /// The samples of the other layouts.
    layouts: Vec<Trial>,
    /// Where in their pages the arrays lay in each layout, the first one included, bytes.
    page_offsets: Vec<Vec<usize>>,
    /// Samples of calls that found nothing in a cache.
    cold: Option<Trial>,
}

/// A certified number without its caches.
struct Cold {
    seconds: f64,
    stop: StopReason,
    /// The ratio to the plain reference, where it is wanted.
    ratio: Option<(f64, Interval)>,
    /// Its samples, unless they are those of the layouts.
    trial: Option<Trial>,
}

impl Timer {
    /// Measures a verified candidate for a report: `layouts` are objects of it whose code lies at different places
    /// ([`crate::Compiler::layouts`] with [`PADDINGS`]). The time of a certification is shared among them; the number is their geometric
    /// mean, and its interval covers what they differ by. For each of them the baseline is started anew as well, and the data of
    /// both sides move to other lines of their pages, the same ones in every certification.
    ///
    /// # Errors
    /// As [`Timer::measure`].
    pub fn certify(&mut self, layouts: &[Vec<u8>], seed: u64) -> Result<Timed, Failure> {
        let timed = self.certify_elsewhere(layouts, seed);
        // Whoever is measured next finds the data where they always lie.
        self.lay_out(Placing::Fixed, seed)?;
        timed
    }

    fn certify_elsewhere(&mut self, layouts: &[Vec<u8>], seed: u64) -> Result<Timed, Failure> {
        let limits = shared(&self.limits[Purpose::Certify as usize], layouts.len());
        self.renew_tolerances()?;
        self.renew_hard()?;
        self.meanwhile = Surroundings::default();
        let mut trials = Vec::with_capacity(layouts.len());
        let mut page_offsets = Vec::with_capacity(layouts.len());
        for (n, object) in (0u64..).zip(layouts) {
            let seed = seed.wrapping_add(n);
            self.lay_out(Placing::Numbered(n), seed)?;
            page_offsets.push(self.page_offsets());
            let candidate = self.start_candidate(object)?;
            trials.push(self.try_out(candidate, &limits, None, seed, self.caches)?);
        }
        let estimates: Vec<Estimate> = trials.iter().map(|trial| trial.estimate).collect();
        let worst = Worst::of(&trials);
        let mut trials = trials.into_iter();
        let (Some(first), Some(object), Some(worst)) = (trials.next(), layouts.first(), worst)
        else {
            return Err(Failure::infrastructure(
                InfrastructureCause::Harness,
                "nothing to certify",
            ));
        };
        let others: Vec<Trial> = trials.collect();
        let mean = over_layouts(&estimates);
        let alone = self.slowed(&mean)?;
        let held = |estimate: &Estimate| match &alone {
            Some(alone) => held_against(estimate, alone),
            None => *estimate,
        };
        let mean = held(&mean);
        let gflops = self.plausible(self.work_flops / mean.candidate / 1e9)?;
        let mut measurement = self.measurement(&first, &mean, gflops);
        measurement.stop = worst.stop;
        measurement.mdape = worst.mdape;
        measurement.calls += others
            .iter()
            .flat_map(|t| &t.candidate)
            .map(|b| b.seconds.len() as u32)
            .sum::<u32>();
        measurement.blocks += others
            .iter()
            .map(|t| (t.candidate.len() + t.baseline.len()) as u32)
            .sum::<u32>();
        let cold = self.cold(object, seed, &mean, worst.stop)?;
        let ratios: Vec<f64> = estimates
            .iter()
            .map(|e| (held(e).log_ratio + self.chain.log_ratio).exp())
            .collect();
        let largest = ratios.iter().copied().fold(f64::MIN, f64::max);
        let smallest = ratios.iter().copied().fold(f64::MAX, f64::min);
        measurement.certificate = Some(Certificate {
            layout_ratios: ratios,
            layout_spread: largest / smallest - 1.0,
            cold_seconds_per_call: cold.as_ref().map(|c| c.seconds),
            cold_ratio: cold.as_ref().and_then(|c| c.ratio).map(|r| r.0),
            cold_interval: cold.as_ref().and_then(|c| c.ratio).map(|r| r.1),
            cold_stop: cold.as_ref().map(|c| c.stop),
        });
        let elsewhere = Elsewhere {
            layouts: others,
            page_offsets,
            cold: cold.and_then(|c| c.trial),
        };
        let alone = alone.as_ref();
        let raw = self.raw(Purpose::Certify, seed, &first, alone, Some(&elsewhere))?;
        // Calls without caches are no part of it: they take longer on any machine.
        self.note(mean.baseline);
        Ok(Timed { measurement, raw })
    }

    /// How the program does without its caches, as far as the problem wants to know. `mean` is what its layouts say, and `stop`
    /// why they ended.
    fn cold(
        &mut self,
        object: &[u8],
        seed: u64,
        mean: &Estimate,
        stop: StopReason,
    ) -> Result<Option<Cold>, Failure> {
        if self.caches == Caches::Cold {
            return Ok(Some(Cold {
                seconds: mean.candidate,
                stop,
                ratio: Some(self.chain.to_reference(mean)),
                trial: None,
            }));
        }
        if !CAN_FLUSH {
            return Ok(None);
        }
        let (limits, chain) = if self.problem.caches == Wanted::Both {
            (COLD_RATIO, Some(self.cold_chain()?))
        } else {
            (COLD, None)
        };
        let candidate = self.start_candidate(object)?;
        let trial = self.try_out(candidate, &limits, None, !seed, Caches::Cold)?;
        Ok(Some(Cold {
            seconds: trial.estimate.candidate,
            stop: trial.stop,
            ratio: chain.map(|chain| chain.to_reference(&trial.estimate)),
            trial: Some(trial),
        }))
    }

    /// Moves the data. The trusted processes know where they were, so they are started anew for the next measurement, which also
    /// gives them other addresses of their own.
    fn lay_out(&mut self, placing: Placing, seed: u64) -> Result<(), Failure> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let placement = self
            .arena
            .place(&self.specification.arrays, placing, &mut rng)
            .ok_or_else(|| {
                Failure::infrastructure(
                    InfrastructureCause::Resources,
                    "no shared memory for the buffers: the arrays do not fit elsewhere",
                )
            })?;
        if let Some(baseline) = self.baseline.take() {
            // What does not end by itself is killed.
            let _ended = baseline.exit();
        }
        self.filler = None;
        self.arena.restore(&self.placement);
        self.placement = placement;
        Ok(())
    }

    fn page_offsets(&self) -> Vec<usize> {
        let arrays = self.placement.arrays.iter();
        arrays.map(|(offset, _)| offset % PAGE).collect()
    }
}

/// What is said of all layouts together where there is no mean: the worst of them.
#[derive(Debug, PartialEq)]
struct Worst {
    stop: StopReason,
    mdape: f64,
}

impl Worst {
    /// None of nothing.
    fn of(trials: &[Trial]) -> Option<Self> {
        Self::over(trials.iter().map(|trial| (trial.stop, trial.mdape())))
    }

    fn over(all: impl Iterator<Item = (StopReason, f64)>) -> Option<Self> {
        // Reasons to stop stand in the order of how little they promise.
        all.map(|(stop, mdape)| Self { stop, mdape })
            .reduce(|a, b| Self {
                stop: a.stop.max(b.stop),
                mdape: a.mdape.max(b.mdape),
            })
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
        usable_log_se: whole.usable_log_se * f64::from(parts).sqrt(),
    }
}

/// One estimate of several layouts: geometric means, and an interval that covers both the errors of the measurements and what
/// the layouts differ by. Its standard error is that interval's, so that who takes it for a normal distribution's gets the
/// interval back.
pub(super) fn over_layouts(estimates: &[Estimate]) -> Estimate {
    let n = estimates.len() as f64;
    let mean = |value: &dyn Fn(&Estimate) -> f64| estimates.iter().map(value).sum::<f64>() / n;
    let log_ratio = mean(&|e| e.log_ratio);
    // What no scatter shows is in part the same for all layouts, and does not average out.
    let within = (mean(&|e| e.log_se * e.log_se) / n).max(SYSTEMATIC_LOG_SE.powi(2));
    let between = if estimates.len() > 1 {
        mean(&|e| (e.log_ratio - log_ratio).powi(2)) * n / (n - 1.0) / n
    } else {
        0.0
    };
    let half = (NORMAL * within.sqrt()).max(T_OF_LAYOUTS * between.sqrt());
    Estimate {
        candidate: mean(&|e| e.candidate.ln()).exp(),
        baseline: mean(&|e| e.baseline.ln()).exp(),
        log_ratio,
        log_se: half / NORMAL,
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
        for e in [alike, apart] {
            // Whoever goes by the standard error alone gets the interval back.
            assert!(
                (e.high - e.low - 2.0 * NORMAL * e.log_se).abs() < 1e-12,
                "{e:?}"
            );
        }
        let alone = over_layouts(&[estimate(0.3, 0.01)]);
        assert!((alone.log_se - 0.01).abs() < 1e-12);
        assert!((alone.candidate - 1e-3 * (-0.3f64).exp()).abs() < 1e-12);
    }

    #[test]
    fn what_no_scatter_shows_is_not_averaged_away() {
        let sure = over_layouts(&[0.5; 5].map(|r| estimate(r, SYSTEMATIC_LOG_SE)));
        assert!((sure.log_se - SYSTEMATIC_LOG_SE).abs() < 1e-12, "{sure:?}");
    }

    #[test]
    fn one_bad_layout_is_said_of_all() {
        use StopReason as S;
        let said = |all: &[(S, f64)]| Worst::over(all.iter().copied());
        let worst = said(&[
            (S::Precise, 0.01),
            (S::Unconverged, 0.002),
            (S::Budget, 0.03),
        ]);
        let expected = Worst {
            stop: S::Unconverged,
            mdape: 0.03,
        };
        assert_eq!(worst, Some(expected));
        assert_eq!(
            said(&[(S::Budget, 0.1), (S::Precise, 0.1)]).map(|w| w.stop),
            Some(S::Budget)
        );
        assert_eq!(said(&[]), None);
    }
}
