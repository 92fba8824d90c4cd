//! The numbers of a measurement, made from one ratio.
//!
//! Ratio, GFLOPS and seconds of a call express the same quantity: the ratio of a program to the baseline, which was
//! measured at the same time. The unit of these numbers, the baseline's own seconds, is measured with every program,
//! and the fastest floor counts, so a busy moment moves none of the numbers. Two numbers of one program never
//! contradict each other, and neither do the orders of several programs.

use flopsmith_protocol::{Failure, Measurement, StopReason};

use super::Chain;
use super::decision::Limits;
use super::session::Trial;
use super::workload::WorkloadTimer;
use crate::stats::{self, Estimate};

/// Half of a 95 % interval, in standard errors.
const HALF: f64 = 1.96;
/// If a floor of the baseline is below this share of the known one, the known one was measured in a bad moment. Floors
/// nearer to the known one are scatter and do not change it.
const CLEARLY_FASTER: f64 = 0.97;

impl Chain {
    /// Records a floor of the baseline, seconds.
    pub(super) fn saw(&mut self, floor: f64) {
        if floor > 0.0 && floor < CLEARLY_FASTER * self.baseline_seconds {
            self.baseline_seconds = floor;
            self.reference_seconds = floor * self.log_ratio.exp();
        }
    }

    /// Seconds of an undisturbed call of a program with this ln(ratio) to the baseline.
    pub(super) fn seconds(&self, log_ratio: f64) -> f64 {
        self.baseline_seconds * (-log_ratio).exp()
    }
}

impl WorkloadTimer {
    /// Speed of the plain reference at the timed size, 10⁹ operations a second: a measurement's `gflops` is its `ratio`
    /// times this.
    pub fn reference_gflops(&self) -> f64 {
        self.gflops(self.chain.reference_seconds)
    }

    /// Speed of the baseline at the timed size, 10⁹ operations a second.
    pub fn baseline_gflops(&self) -> f64 {
        self.gflops(self.chain.baseline_seconds)
    }

    /// Least number of bytes that a call must move for each of its operations, by the problem's own formula.
    pub fn bytes_per_operation(&self) -> f64 {
        self.problem.moved_bytes(&self.problem.timed) / self.work_flops
    }

    pub(super) fn gflops(&self, seconds: f64) -> f64 {
        self.work_flops / seconds / 1e9
    }

    /// The numbers of a trial; `estimate` compares its two sides.
    pub(super) fn measurement(&self, trial: &Trial, estimate: &Estimate) -> Measurement {
        let (ratio, interval) = self.chain.to_reference(estimate);
        let seconds = self.chain.seconds(estimate.log_ratio);
        let gflops = self.gflops(seconds);
        Measurement {
            gflops,
            seconds_per_call: seconds,
            minimum_seconds: minimum(trial.counted()),
            median_seconds: stats::median(trial.counted()),
            ratio,
            interval,
            log_ratio_se: estimate.log_se,
            calls: trial.candidate.iter().map(|b| b.seconds.len() as u32).sum(),
            blocks: (trial.candidate.len() + trial.baseline.len()) as u32,
            mdape: trial.mdape(),
            stop: trial.stop,
            samples: None,
            attestation: self.equipment.attestation_digest.clone(),
            share_of_peak: gflops / self.roof(),
            reused: false,
            certificate: None,
            rounds: estimate.rounds,
            outlying: estimate.outlying,
            sizes: None,
            workloads: Vec::new(),
        }
    }

    /// Compares an estimate with the limits of this machine. Calls that were faster are an error of the measurement. If
    /// only the ratio is higher than possible, other processes disturbed the baseline more than the candidate; then the
    /// candidate's own floor counts, and the interval covers the difference between the two.
    pub(super) fn believed(&mut self, estimate: &Estimate) -> Result<Estimate, Failure> {
        // The error of the hand-shake may make a short call appear faster than it was.
        let hidden = HALF * self.resolution().error_seconds;
        self.plausible(self.gflops(estimate.candidate + hidden))?;
        let by_clock = self.gflops(estimate.candidate);
        let by_ratio = self.gflops(self.chain.seconds(estimate.log_ratio));
        if !self.exceeds(by_ratio) {
            return Ok(*estimate);
        }
        Ok(instead(estimate, (by_clock / self.baseline_gflops()).ln()))
    }
}

/// An estimate at `log_ratio`, in place of one that is known to be too high.
fn instead(estimate: &Estimate, log_ratio: f64) -> Estimate {
    let off = (estimate.log_ratio - log_ratio).abs();
    let log_se = estimate.log_se.max(off / HALF);
    Estimate {
        log_ratio,
        log_se,
        low: log_ratio - HALF * log_se,
        high: log_ratio + HALF * log_se,
        ..*estimate
    }
}

/// The stop reason of a measurement once its standard error is known.
pub(super) fn stopped(stop: StopReason, limits: &Limits, log_se: f64) -> StopReason {
    match limits.at_the_end(log_se) {
        StopReason::Unconverged => StopReason::Unconverged,
        _ => stop,
    }
}

/// The fastest of some calls, seconds.
pub(super) fn minimum(calls: impl Iterator<Item = f64>) -> Option<f64> {
    calls.min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::super::decision::Purpose;
    use super::*;

    #[test]
    fn a_reference_that_was_measured_in_a_bad_moment_is_mended_by_any_later_measurement() {
        let mut chain = Chain {
            log_ratio: 3.0,
            log_se: 0.01,
            reference_seconds: 3e-3 * 3f64.exp(),
            baseline_seconds: 3e-3,
        };
        chain.saw(2.95e-3);
        assert_eq!(chain.baseline_seconds, 3e-3, "so much is scatter");
        chain.saw(1e-3);
        assert_eq!(chain.baseline_seconds, 1e-3);
        assert!((chain.reference_seconds / 3f64.exp() - 1e-3).abs() < 1e-12);
        chain.saw(4e-3);
        chain.saw(0.0);
        chain.saw(f64::NAN);
        assert_eq!(chain.baseline_seconds, 1e-3);
        assert!((chain.seconds(2f64.ln()) - 0.5e-3).abs() < 1e-12);
    }

    #[test]
    fn a_ratio_that_no_machine_can_reach_gives_way_to_the_programs_own_time() {
        let estimate = Estimate {
            candidate: 1e-3,
            baseline: 3e-3,
            log_ratio: 3f64.ln(),
            log_se: 0.001,
            low: 3f64.ln() - 0.00196,
            high: 3f64.ln() + 0.00196,
            sampling_log_se: 0.001,
            rounds: 20,
            outlying: 0,
            supported: true,
        };
        let found = instead(&estimate, 0.0);
        assert_eq!(found.log_ratio, 0.0);
        assert!(found.high >= 3f64.ln() - 1e-9, "{found:?}");
        let limits = Purpose::Rank.limits();
        let stop = stopped(StopReason::Precise, &limits, found.log_se);
        assert_eq!(stop, StopReason::Unconverged);
        assert_eq!(
            stopped(StopReason::Precise, &limits, 0.001),
            StopReason::Precise
        );
    }

    #[test]
    fn the_middle_call_and_the_fastest_one_are_found() {
        assert_eq!(minimum([3.0, 1.0, 2.0].into_iter()), Some(1.0));
        assert_eq!(minimum(std::iter::empty()), None);
        assert_eq!(stats::median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(stats::median([4.0, 1.0]), Some(2.5));
        assert_eq!(stats::median([]), None);
    }
}
