//! The baseline's time without a candidate that slows it.
//!
//! A ratio grows if the program is fast, but also if the baseline is slow. A candidate mostly pays itself for the state
//! it leaves behind (empty caches, a lowered clock), but not always, and honest programs leave such a state too: so no
//! program is refused for it. If the baseline was clearly slower than it is alone in the same moments, and is so again
//! with the same candidate, the ratio rests on the baseline's time alone. A smaller slowdown is not corrected: by
//! slowing the baseline a program can raise its ratio by as much as [`SLOWED`] permits, and not by more.

use flopsmith_protocol::Failure;

use super::idle::CANARY;
use super::workload::{WorkloadTimer, own_fault};
use crate::stats::Estimate;

/// A floor this many times the baseline's time alone exceeds the scatter of short measurements.
const SLOWED: f64 = 1.08;
/// Share of the difference by which the known time follows a shorter one. A longer one is believed only if the baseline
/// is timed alone.
const FOLLOWS: f64 = 0.25;

/// The floor of the baseline without a candidate that slows it, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RecheckedBaseline {
    seconds: f64,
}

impl RecheckedBaseline {
    /// The floor as just measured, seconds.
    pub(super) fn new(seconds: f64) -> Self {
        Self { seconds }
    }

    /// True if a floor measured together with a candidate, seconds, is clearly longer.
    fn is_exceeded_by(self, floor: f64) -> bool {
        floor.is_finite() && floor > SLOWED * self.seconds
    }

    /// Records a floor measured together with a candidate that does not slow the baseline, seconds.
    fn saw(&mut self, floor: f64) {
        if floor > 0.0 && floor < self.seconds {
            self.seconds += FOLLOWS * (floor - self.seconds);
        }
    }
}

/// The estimate if the candidate is compared with the baseline's time alone, where that is shorter. The candidate's own
/// time does not change.
pub(super) fn held_against(estimate: &Estimate, recheck: &Estimate) -> Estimate {
    let shift = (recheck.baseline / estimate.baseline).ln();
    if !shift.is_finite() || shift >= 0.0 {
        return *estimate;
    }
    // The agreement of the baseline with itself shows how well the shorter time is known.
    let width = 1.96 * recheck.log_se;
    let log_ratio = estimate.log_ratio + shift;
    Estimate {
        baseline: recheck.baseline,
        log_ratio,
        log_se: estimate.log_se.hypot(recheck.log_se),
        low: log_ratio - (estimate.log_ratio - estimate.low).hypot(width),
        high: log_ratio + (estimate.high - estimate.log_ratio).hypot(width),
        ..*estimate
    }
}

impl WorkloadTimer {
    /// The baseline timed against itself, right after a measurement in which it was slow together with a candidate;
    /// none if it was not slow, or if it is as slow without the candidate.
    pub(super) fn slowed(&mut self, beside: &Estimate) -> Result<Option<Estimate>, Failure> {
        if !self.is_slow(beside) {
            self.rechecked.saw(beside.baseline);
            return Ok(None);
        }
        // Disturbances during this check belong to no measurement.
        let meanwhile = std::mem::take(&mut self.meanwhile);
        let recheck = self.recheck_baseline();
        self.meanwhile = meanwhile;
        let recheck = recheck?;
        self.rechecked = RecheckedBaseline::new(recheck.baseline);
        Ok(self.is_slow(beside).then_some(recheck))
    }

    /// True if the baseline is slower together with this candidate than it is known to be alone.
    pub(super) fn is_slow(&self, beside: &Estimate) -> bool {
        self.rechecked.is_exceeded_by(beside.baseline)
    }

    /// Times the baseline against itself for a moment.
    pub(super) fn recheck_baseline(&mut self) -> Result<Estimate, Failure> {
        let process = self
            .start(
                &self.equipment.baseline_object,
                &self.problem.entry.name,
                None,
            )
            .map_err(own_fault(self.baseline_name()))?;
        self.measuring_own = true;
        let trial = self.try_out(process, &CANARY, None, 2, self.caches);
        self.measuring_own = false;
        Ok(trial.map_err(own_fault(self.baseline_name()))?.estimate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn estimate(candidate: f64, baseline: f64, log_se: f64) -> Estimate {
        let log_ratio = (baseline / candidate).ln();
        Estimate {
            candidate,
            baseline,
            log_ratio,
            log_se,
            low: log_ratio - 1.96 * log_se,
            high: log_ratio + 1.96 * log_se,
            sampling_log_se: log_se,
            rounds: 10,
            outlying: 0,
            supported: true,
        }
    }

    #[test]
    fn slowing_the_baseline_gains_no_more_than_is_not_told_from_chance() {
        let recheck = RecheckedBaseline::new(1e-3);
        let slowing = estimate(0.5e-3, 1.3e-3, 0.005);
        assert!(recheck.is_exceeded_by(slowing.baseline));
        let held = held_against(&slowing, &estimate(1e-3, 1e-3, 0.003));
        assert!((held.log_ratio.exp() - 2.0).abs() < 1e-9, "{held:?}");
        assert!((held.candidate - slowing.candidate).abs() < 1e-18);
        assert!(held.high - held.low > slowing.high - slowing.low);
        // A slowdown within the scatter of short measurements is believed.
        assert!(!recheck.is_exceeded_by(0.999 * SLOWED * 1e-3));
        assert!(recheck.is_exceeded_by(1.001 * SLOWED * 1e-3));
    }

    #[test]
    fn a_program_beside_which_the_baseline_is_as_usual_keeps_its_ratio() {
        let mut recheck = RecheckedBaseline::new(1e-3);
        for floor in [1.01e-3, 1.06e-3, 0.97e-3, 1.03e-3] {
            assert!(!recheck.is_exceeded_by(floor), "{floor}");
            recheck.saw(floor);
        }
        let honest = estimate(0.5e-3, 1.02e-3, 0.005);
        let slower_recheck = held_against(&honest, &estimate(1.1e-3, 1.1e-3, 0.003));
        assert_eq!(slower_recheck, honest);
    }

    #[test]
    fn a_machine_that_became_faster_is_noticed_and_no_single_floor_is_believed() {
        let mut recheck = RecheckedBaseline::new(1e-3);
        recheck.saw(0.5e-3);
        assert!(!recheck.is_exceeded_by(0.9e-3));
        for _ in 0..20 {
            recheck.saw(0.8e-3);
        }
        assert!(recheck.is_exceeded_by(0.9e-3));
        // Floors measured together with candidates never raise the known time: otherwise a cheat could raise it.
        for _ in 0..20 {
            recheck.saw(0.9e-3);
        }
        assert!(recheck.is_exceeded_by(0.9e-3));
        recheck.saw(f64::NAN);
        assert!(!recheck.is_exceeded_by(f64::NAN));
    }

    proptest! {
        #[test]
        fn no_ratio_grows(candidate in 1e-6f64..1.0, baseline in 1e-6f64..1.0, recheck in 1e-6f64..1.0, log_se in 0.0f64..0.1) {
            let (found, quiet) = (estimate(candidate, baseline, log_se), estimate(recheck, recheck, log_se));
            let held = held_against(&found, &quiet);
            prop_assert!(held.log_ratio <= found.log_ratio);
            prop_assert!(held.low <= held.log_ratio && held.log_ratio <= held.high);
            prop_assert!(held.baseline <= found.baseline);
            prop_assert!(held.log_ratio <= (recheck / candidate).ln().max(found.log_ratio) + 1e-9);
        }
    }
}
