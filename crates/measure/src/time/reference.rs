//! The plain reference, to which ratios are reported, compared with the baseline.

use std::time::Duration;

use flopsmith_protocol::{Failure, Interval, geometric};
use serde::{Deserialize, Serialize};

use super::Caches;
use super::combine::{PROCESSES, over_processes};
use super::decision::Limits;
use super::recheck::RecheckedBaseline;
use super::workload::{WorkloadTimer, own_fault};
use crate::stats::Estimate;
use crate::supervise::Placing;

/// The program named in a failure while the reference was timed against a separate baseline: either may have failed.
const BESIDE: &str = "reference.c, or the baseline.c that it was timed beside,";

/// Largest standard error of a chain that has converged when a timer starts.
pub const USABLE_LOG_SE: f64 = 0.008;
/// The same once [`Timer::refine_reference`](super::Timer::refine_reference) has measured it in several processes.
pub const REFINED_USABLE_LOG_SE: f64 = 0.012;

/// Precision of the comparison of reference and baseline when a timer starts.
pub(super) const CHAIN: Limits = Limits {
    min: Duration::from_millis(150),
    max: Duration::from_millis(400),
    target_log_se: 0.004,
    usable_log_se: USABLE_LOG_SE,
};
/// The same in each process, for numbers that are reported.
const CHAIN_REFINED: Limits = Limits {
    min: Duration::from_millis(150),
    max: Duration::from_millis(850),
    target_log_se: 0.006,
    usable_log_se: REFINED_USABLE_LOG_SE,
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

/// The chains of all workloads of a timer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chains {
    /// The mean over the workloads, to which the ratios of measurements refer.
    #[serde(flatten)]
    whole: Chain,
    /// The chain of each workload, in the problem's order; empty where there is one only, whose chain is `whole`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    workloads: Vec<Chain>,
}

impl From<Chain> for Chains {
    /// The chain of the only workload.
    fn from(whole: Chain) -> Self {
        Self {
            whole,
            workloads: Vec::new(),
        }
    }
}

impl Chains {
    /// The chains of workloads, in the problem's order; none of no workload. Each was measured by itself, so the errors are
    /// independent.
    pub fn of_each(all: &[Chain]) -> Option<Self> {
        let (first, rest) = all.split_first()?;
        if rest.is_empty() {
            return Some((*first).into());
        }
        let count = all.len() as f64;
        let squares: f64 = all.iter().map(|chain| chain.log_se.powi(2)).sum();
        let whole = Chain {
            log_ratio: all.iter().map(|chain| chain.log_ratio).sum::<f64>() / count,
            log_se: squares.sqrt() / count,
            reference_seconds: geometric(all.iter().map(|chain| chain.reference_seconds))?,
            baseline_seconds: geometric(all.iter().map(|chain| chain.baseline_seconds))?,
        };
        Some(Self {
            whole,
            workloads: all.to_vec(),
        })
    }

    /// The mean over all workloads; the chain itself where there is one.
    pub fn whole(&self) -> Chain {
        self.whole
    }

    /// True if no workload's chain has a larger standard error than this.
    pub fn converged(&self, usable_log_se: f64) -> bool {
        let mut each = self.each().iter();
        each.all(|chain| chain.log_se <= usable_log_se)
    }

    /// The chain of each workload.
    pub fn each(&self) -> &[Chain] {
        if self.workloads.is_empty() {
            std::slice::from_ref(&self.whole)
        } else {
            &self.workloads
        }
    }
}

impl WorkloadTimer {
    /// Measures the plain reference once more and for longer, see
    /// [`Timer::refine_reference`](super::Timer::refine_reference).
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
        self.rechecked = RecheckedBaseline::new(estimate.baseline);
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
            .start(
                &self.equipment.reference_object,
                &self.problem.entry.name,
                None,
            )
            .map_err(own_fault("reference.c"))?;
        self.measuring_own = true;
        let limits = limits.divided(self.divisor);
        let trial = self.try_out(process, &limits, None, seed, caches);
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn chain(log_ratio: f64, log_se: f64, baseline_seconds: f64) -> Chain {
        Chain {
            log_ratio,
            log_se,
            reference_seconds: baseline_seconds * log_ratio.exp(),
            baseline_seconds,
        }
    }

    #[test]
    fn one_chain_is_written_as_before_there_were_several() {
        let one = chain(1.5, 0.01, 1e-3);
        let chains = Chains::of_each(&[one]).unwrap();
        assert_eq!((chains.whole(), chains.each()), (one, &[one][..]));
        let text = serde_json::to_string(&chains).unwrap();
        assert_eq!(text, serde_json::to_string(&one).unwrap());
        assert_eq!(serde_json::from_str::<Chains>(&text).unwrap(), chains);
        assert_eq!(Chains::of_each(&[]), None);
    }

    #[test]
    fn the_chain_of_several_workloads_is_their_mean() {
        let all = [chain(1.0, 0.03, 1e-3), chain(2.0, 0.04, 4e-3)];
        let chains = Chains::of_each(&all).unwrap();
        let whole = chains.whole();
        assert!((whole.log_ratio - 1.5).abs() < 1e-12);
        assert!((whole.log_se - 0.025).abs() < 1e-12);
        assert!(chains.converged(0.04) && !chains.converged(0.03));
        assert!(!Chains::from(chain(1.0, f64::NAN, 1e-3)).converged(1.0));
        assert!((whole.baseline_seconds - 2e-3).abs() < 1e-12);
        let by_ratio = whole.baseline_seconds * whole.log_ratio.exp();
        assert!((whole.reference_seconds / by_ratio - 1.0).abs() < 1e-12);
        let text = serde_json::to_string(&chains).unwrap();
        let read: Chains = serde_json::from_str(&text).unwrap();
        assert_eq!(read.each(), all);
        assert_eq!(read, chains);
    }
}
