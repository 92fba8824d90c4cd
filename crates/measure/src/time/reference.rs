//! The plain reference, to which ratios are reported, compared with the baseline.

use std::time::Duration;

use flopsmith_protocol::{Failure, Interval};
use serde::{Deserialize, Serialize};

use super::combine::{PROCESSES, over_processes};
use super::decision::Limits;
use super::recheck::Alone;
use super::{Caches, Timer, own_fault};
use crate::stats::Estimate;
use crate::supervise::Placing;

/// The program named in a failure while the reference was timed against a separate baseline: either may have failed.
const BESIDE: &str = "reference.c, or the baseline.c that it was timed beside,";

/// Precision of the comparison of reference and baseline when a timer starts.
pub(super) const CHAIN: Limits = Limits {
    min: Duration::from_millis(150),
    max: Duration::from_millis(400),
    target_log_se: 0.004,
    usable_log_se: 0.008,
};
/// The same in each process, for numbers that are reported.
const CHAIN_REFINED: Limits = Limits {
    min: Duration::from_millis(150),
    max: Duration::from_millis(850),
    target_log_se: 0.006,
    usable_log_se: 0.012,
};

/// If a call of the reference takes longer than this, seconds, one process measures it, with the limits below: seven
/// processes would take minutes.
const SLOW: f64 = 0.25;
const CHAIN_OF_ONE: Limits = Limits {
    min: Duration::from_secs(1),
    max: Duration::from_secs(6),
    target_log_se: 0.003,
    usable_log_se: 0.006,
};

/// The ratio of the plain reference to the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Chain {
    /// ln(reference seconds / baseline seconds).
    pub log_ratio: f64,
    /// Its standard error.
    pub log_se: f64,
    /// Time of an undisturbed call of the reference, seconds: `baseline_seconds` times exp(`log_ratio`).
    pub reference_seconds: f64,
    /// Fastest floor of the baseline, seconds.
    pub baseline_seconds: f64,
}

impl Chain {
    /// Converts a ratio to the baseline into one to the plain reference, with its 95 % interval, which includes this
    /// chain's error.
    pub(super) fn to_reference(self, estimate: &Estimate) -> (f64, Interval) {
        let total = estimate.log_ratio + self.log_ratio;
        let own = 1.96 * self.log_se;
        let below = (estimate.log_ratio - estimate.low).hypot(own);
        let above = (estimate.high - estimate.log_ratio).hypot(own);
        let interval = Interval {
            low: (total - below).exp(),
            high: (total + above).exp(),
            confidence: 0.95,
        };
        (total.exp(), interval)
    }
}

impl Timer {
    /// Measures the plain reference once more and for longer, in several processes, each with a baseline that is
    /// started anew: a reported ratio to the reference is only as certain as this, and single processes of plain loops
    /// differ by per cents. Takes some seconds; ordering programs does not need it. A reference whose calls take long
    /// is measured in one process nevertheless.
    pub fn refine_reference(&mut self) -> Result<(), Failure> {
        if self.problem.baseline_source.is_none() {
            return Ok(());
        }
        if self.chain.reference_seconds > SLOW {
            return self.measure_chain(&CHAIN_OF_ONE);
        }
        if let Some(estimate) = self.try_reference_repeatedly(&CHAIN_REFINED, self.caches)? {
            self.set_chain(&estimate);
        }
        Ok(())
    }

    fn try_reference_repeatedly(
        &mut self,
        limits: &Limits,
        caches: Caches,
    ) -> Result<Option<Estimate>, Failure> {
        let mut all = Vec::with_capacity(PROCESSES);
        for seed in (1u64..).take(PROCESSES) {
            self.lay_out(Placing::Fixed, seed)?;
            all.push(self.try_reference(limits, caches, seed)?);
        }
        Ok(over_processes(&all))
    }

    pub(super) fn measure_chain(&mut self, limits: &Limits) -> Result<(), Failure> {
        let estimate = self.try_reference(limits, self.caches, 1)?;
        self.set_chain(&estimate);
        Ok(())
    }

    fn set_chain(&mut self, estimate: &Estimate) {
        // The chain without caches does not change this: candidates that find their arrays in caches are not compared
        // with the baseline's time without caches.
        self.alone = Alone::new(estimate.baseline);
        self.chain = self.chain_of(estimate);
        let limit = Duration::from_secs_f64(20.0 * self.chain.reference_seconds);
        self.call_limit = limit.max(Duration::from_secs(1));
    }

    /// The plain reference compared with the baseline if neither finds anything in a cache: measured once, when it is
    /// first needed.
    pub(super) fn cold_chain(&mut self) -> Result<Chain, Failure> {
        if let Some(chain) = self.cold_chain {
            return Ok(chain);
        }
        let estimate = match self.try_reference_repeatedly(&CHAIN, Caches::Cold)? {
            Some(estimate) => estimate,
            None => self.try_reference(&CHAIN, Caches::Cold, 1)?,
        };
        let chain = self.chain_of(&estimate);
        self.cold_chain = Some(chain);
        Ok(chain)
    }

    fn try_reference(
        &mut self,
        limits: &Limits,
        caches: Caches,
        seed: u64,
    ) -> Result<Estimate, Failure> {
        let process = self
            .start(&self.reference_object, &self.problem.entry.name, None)
            .map_err(own_fault("reference.c"))?;
        self.measuring_own = true;
        let trial = self.try_out(process, limits, None, seed, caches);
        self.measuring_own = false;
        let trial = trial.map_err(|failure| match self.problem.baseline_source {
            Some(_) => own_fault(BESIDE)(failure),
            None => own_fault("reference.c")(failure),
        })?;
        Ok(trial.estimate)
    }

    fn chain_of(&self, estimate: &Estimate) -> Chain {
        let same = self.problem.baseline_source.is_none();
        if same {
            let seconds = estimate.candidate.min(estimate.baseline);
            return Chain {
                log_ratio: 0.0,
                log_se: 0.0,
                reference_seconds: seconds,
                baseline_seconds: seconds,
            };
        }
        Chain {
            log_ratio: -estimate.log_ratio,
            log_se: estimate.log_se,
            reference_seconds: estimate.baseline * (-estimate.log_ratio).exp(),
            baseline_seconds: estimate.baseline,
        }
    }
}
