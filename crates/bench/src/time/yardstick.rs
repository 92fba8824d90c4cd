//! What ratios are told to: the plain reference, measured against the baseline.

use std::time::Duration;

use flopsmith_protocol::Interval;
use serde::{Deserialize, Serialize};

use super::alone::Alone;
use super::decision::Limits;
use super::{Caches, Timer, own_fault};
use crate::Failure;
use crate::stats::Estimate;

/// How well reference and baseline are compared when a timer starts.
pub(super) const CHAIN: Limits = Limits {
    min: Duration::from_millis(150),
    max: Duration::from_millis(400),
    target_log_se: 0.004,
    usable_log_se: 0.008,
};
/// The same for numbers that are reported.
const CHAIN_REFINED: Limits = Limits {
    min: Duration::from_secs(1),
    max: Duration::from_secs(6),
    target_log_se: 0.003,
    usable_log_se: 0.006,
};

/// The plain reference against the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Chain {
    /// ln(reference seconds / baseline seconds).
    pub log_ratio: f64,
    /// Its standard error.
    pub log_se: f64,
    /// Floor of the reference, seconds.
    pub reference_seconds: f64,
    /// Floor of the baseline, seconds.
    pub baseline_seconds: f64,
}

impl Chain {
    /// A ratio to the baseline as one to the plain reference, and its 95 % interval, which holds this chain's error as well.
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
    /// Measures the plain reference once more and for longer: what is reported as a ratio to it is only as sure as this.
    /// Takes some seconds; ordering programs does not need it.
    pub fn refine_reference(&mut self) -> Result<(), Failure> {
        if self.problem.baseline_source.is_none() {
            return Ok(());
        }
        self.measure_chain(&CHAIN_REFINED)
    }

    pub(super) fn measure_chain(&mut self, limits: &Limits) -> Result<(), Failure> {
        self.chain = self.compare_reference(limits, self.caches)?;
        let limit = Duration::from_secs_f64(20.0 * self.chain.reference_seconds);
        self.call_limit = limit.max(Duration::from_secs(1));
        Ok(())
    }

    /// The plain reference against the baseline where neither finds anything in a cache: measured when it is first asked for,
    /// and once.
    pub(super) fn cold_chain(&mut self) -> Result<Chain, Failure> {
        if let Some(chain) = self.cold_chain {
            return Ok(chain);
        }
        let chain = self.compare_reference(&CHAIN, Caches::Cold)?;
        self.cold_chain = Some(chain);
        Ok(chain)
    }

    fn compare_reference(&mut self, limits: &Limits, caches: Caches) -> Result<Chain, Failure> {
        let process = self
            .start(&self.reference_object, &self.problem.entry.name, None)
            .map_err(own_fault)?;
        self.measuring_own = true;
        let trial = self.try_out(process, limits, None, 1, caches);
        self.measuring_own = false;
        let trial = trial.map_err(own_fault)?;
        // What it takes without caches, candidates that find theirs are not held against.
        if caches == self.caches {
            self.alone = Alone::new(trial.estimate.baseline);
        }
        let same = self.problem.baseline_source.is_none();
        Ok(Chain {
            log_ratio: if same { 0.0 } else { -trial.estimate.log_ratio },
            log_se: if same { 0.0 } else { trial.estimate.log_se },
            reference_seconds: trial.estimate.candidate,
            baseline_seconds: trial.estimate.baseline,
        })
    }
}
