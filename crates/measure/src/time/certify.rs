//! Certified numbers, which hold for other layouts of code and data, each measured in fresh processes, and for data in
//! no cache.

use flopsmith_harness::memory::CAN_FLUSH;
use flopsmith_machine::environment::Surroundings;
use flopsmith_problem::Caches as Wanted;
use flopsmith_protocol::{Certificate, Failure, InfrastructureCause, Interval, StopReason};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::combine::{look_repeatedly, over_layouts, over_looks, worst};
use super::decision::{Limits, Purpose};
use super::numbers::{minimum, stopped};
use super::recheck::held_against;
use super::session::Trial;
use super::workload::WorkloadTimer;
use super::{Caches, Timed};
use crate::stats::{Estimate, median};
use crate::supervise::{PLACES, Placing};

/// Bytes before the code in each layout: none, and numbers that move the code to other lines and other halves of its
/// page.
pub const PADDINGS: [u32; 5] = [0, 64, 448, 1344, 2752];

// Each layout has a data placement of its own.
const _: () = assert!(PADDINGS.len() as u64 == PLACES);

/// Time for calls without caches if only their seconds are reported.
const COLD: Limits = Limits {
    min: std::time::Duration::from_millis(40),
    max: std::time::Duration::from_millis(200),
    target_log_se: 0.01,
    usable_log_se: 0.25,
};
/// Time for calls without caches if their ratio is reported.
const COLD_RATIO: Limits = Limits {
    min: std::time::Duration::from_millis(100),
    max: std::time::Duration::from_millis(400),
    target_log_se: 0.004,
    usable_log_se: 0.008,
};
/// Bytes of a page, for the offsets of arrays in their pages.
const PAGE: usize = 4096;

/// The measurements of a certification after its first process.
#[derive(Serialize)]
pub(super) struct FurtherProcesses {
    /// The samples of the other layouts, then those of all layouts once or twice more.
    layouts: Vec<Trial>,
    /// Offsets of the arrays in their pages in each process, the first one included, bytes.
    page_offsets: Vec<Vec<usize>>,
    /// Samples of calls that found none of their data in a cache.
    cold: Option<Trial>,
    /// Such samples of further processes, with other objects in other layouts.
    cold_again: Vec<Trial>,
}

/// The number of a certified program without caches.
struct Cold {
    seconds: f64,
    stop: StopReason,
    /// The ratio to the plain reference, if the problem asks for it.
    ratio: Option<(f64, Interval)>,
    /// The samples, one trial for each process; empty if they are those of the layouts.
    trials: Vec<Trial>,
}

impl WorkloadTimer {
    /// Measures a verified candidate for a report, see [`Timer::certify`](super::Timer::certify).
    pub fn certify(&mut self, layouts: &[Vec<u8>], seed: u64) -> Result<Timed, Failure> {
        let timed = self.certify_layouts(layouts, seed);
        // The next measurement finds the data at their usual places.
        self.lay_out(Placing::Fixed, seed)?;
        timed
    }

    fn certify_layouts(&mut self, layouts: &[Vec<u8>], seed: u64) -> Result<Timed, Failure> {
        let whole = self.limits[Purpose::Certify as usize];
        let limits = shared(&whole, layouts.len());
        self.renew_tolerances()?;
        self.renew_adversarial()?;
        self.meanwhile = Surroundings::default();
        let mut trials = Vec::new();
        let mut page_offsets = Vec::new();
        let estimates = look_repeatedly(layouts, |n, object| {
            let seed = seed.wrapping_add(trials.len() as u64);
            self.lay_out(Placing::Numbered(n), seed)?;
            page_offsets.push(self.page_offsets());
            let candidate = self.start_candidate(object)?;
            let trial = self.try_out(candidate, &limits, None, seed, self.caches)?;
            let estimate = trial.estimate;
            trials.push(trial);
            Ok(estimate)
        })?;
        let mdape = trials.iter().map(Trial::mdape).fold(0.0, f64::max);
        let mean = over_layouts(&estimates);
        let stop = worst(&limits, &whole, &estimates, &mean);
        let mut trials = trials.into_iter();
        let (Some(first), Some(stop)) = (trials.next(), stop) else {
            return Err(Failure::infrastructure(
                InfrastructureCause::Harness,
                "nothing to certify",
            ));
        };
        let others: Vec<Trial> = trials.collect();
        let recheck = self.slowed(&mean)?;
        let held = |estimate: &Estimate| match &recheck {
            Some(recheck) => held_against(estimate, recheck),
            None => *estimate,
        };
        let mean = held(&mean);
        self.chain.saw(mean.baseline);
        let believed = self.believed(&mean)?;
        let stop = if believed.log_se > mean.log_se {
            stopped(stop, &whole, believed.log_se)
        } else {
            stop
        };
        let mean = believed;
        let mut measurement = self.measurement(&first, &mean);
        measurement.stop = stop;
        let all = || {
            std::iter::once(&first)
                .chain(&others)
                .flat_map(Trial::counted)
        };
        measurement.minimum_seconds = minimum(all());
        measurement.median_seconds = median(all());
        measurement.mdape = mdape;
        measurement.calls += others
            .iter()
            .flat_map(|t| &t.candidate)
            .map(|b| b.seconds.len() as u32)
            .sum::<u32>();
        measurement.blocks += others
            .iter()
            .map(|t| (t.candidate.len() + t.baseline.len()) as u32)
            .sum::<u32>();
        let cold = self.cold(layouts, seed, &mean, stop)?;
        let ratios: Vec<f64> = estimates
            .iter()
            .map(|e| (held(e).log_ratio + self.chain.log_ratio).exp())
            .collect();
        let largest = ratios.iter().copied().fold(f64::MIN, f64::max);
        let smallest = ratios.iter().copied().fold(f64::MAX, f64::min);
        measurement.certificate = Some(Certificate {
            layout_ratios: ratios,
            layout_spread: largest / smallest - 1.0,
            // In proportion to the time with caches, since disturbances affected both floors alike.
            cold_seconds_per_call: cold
                .as_ref()
                .map(|c| measurement.seconds_per_call * (c.seconds / mean.candidate)),
            cold_ratio: cold.as_ref().and_then(|c| c.ratio).map(|r| r.0),
            cold_interval: cold.as_ref().and_then(|c| c.ratio).map(|r| r.1),
            cold_stop: cold.as_ref().map(|c| c.stop),
        });
        let mut without_caches = cold.map(|c| c.trials).unwrap_or_default().into_iter();
        let further_processes = FurtherProcesses {
            layouts: others,
            page_offsets,
            cold: without_caches.next(),
            cold_again: without_caches.collect(),
        };
        let recheck = recheck.as_ref();
        let floor = mean.baseline;
        let raw = self.raw(
            Purpose::Certify,
            seed,
            &first,
            recheck,
            floor,
            Some(&further_processes),
        )?;
        // Calls without caches are left out: they take longer on any machine.
        self.note(mean.baseline);
        Ok(Timed { measurement, raw })
    }

    /// The number of the program without caches, if the problem asks for it. `mean` is the estimate over the layouts,
    /// and `stop` the reason why their measurements ended.
    fn cold(
        &mut self,
        layouts: &[Vec<u8>],
        seed: u64,
        mean: &Estimate,
        stop: StopReason,
    ) -> Result<Option<Cold>, Failure> {
        if self.caches == Caches::Cold {
            self.plausible_without_caches(mean.candidate)?;
            return Ok(Some(Cold {
                seconds: mean.candidate,
                stop,
                ratio: Some(self.chain.to_reference(mean)),
                trials: Vec::new(),
            }));
        }
        if !CAN_FLUSH {
            return Ok(None);
        }
        let (limits, chain, processes) = if self.problem.caches == Wanted::Both {
            (COLD_RATIO, Some(self.cold_chain()?), 3)
        } else {
            (COLD, None, 2)
        };
        let limits = limits.divided(self.divisor);
        let mut trials = Vec::with_capacity(processes);
        // Every other object, each with its own data placement.
        let objects = (0u64..).zip(layouts).cycle().step_by(2).take(processes);
        for (n, object) in objects {
            let seed = !seed.wrapping_add(n);
            self.lay_out(Placing::Numbered(n), seed)?;
            let candidate = self.start_candidate(object)?;
            trials.push(self.try_out(candidate, &limits, None, seed, Caches::Cold)?);
        }
        let estimates: Vec<Estimate> = trials.iter().map(|t| t.estimate).collect();
        let stop = trials.iter().map(|t| t.stop).max();
        let (Some(estimate), Some(stop)) = (over_looks(&estimates), stop) else {
            return Ok(None);
        };
        self.plausible_without_caches(estimate.candidate)?;
        Ok(Some(Cold {
            seconds: estimate.candidate,
            stop,
            ratio: chain.map(|chain| chain.to_reference(&estimate)),
            trials,
        }))
    }

    /// Moves the data. The trusted processes know the old places, so they are started anew for the next measurement,
    /// which also gives them other addresses of their own.
    pub(super) fn lay_out(&mut self, placing: Placing, seed: u64) -> Result<(), Failure> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let placement = self
            .arena
            .place(&self.specification.arrays, placing, &mut rng)
            .ok_or_else(|| {
                Failure::infrastructure(
                    InfrastructureCause::Resources,
                    "cannot place the arrays at other addresses in shared memory: they do not fit",
                )
            })?;
        if let Some(baseline) = self.baseline.take() {
            // A process that does not end by itself is killed.
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

/// The limits of one process if all places share the time of one look.
pub(super) fn shared(whole: &Limits, layouts: usize) -> Limits {
    let parts = layouts.max(1) as u32;
    Limits {
        min: whole.min / parts,
        max: whole.max / parts,
        // Errors of the single processes average out.
        target_log_se: whole.target_log_se * f64::from(parts).sqrt(),
        usable_log_se: whole.usable_log_se * f64::from(parts).sqrt(),
    }
}
