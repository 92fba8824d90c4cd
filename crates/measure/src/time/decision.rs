//! How long to measure: pure decisions, no clock.

use std::time::Duration;

use flopsmith_protocol::StopReason;
use serde::{Deserialize, Serialize};

use crate::stats::Estimate;

/// Purposes of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A first look at every correct program.
    Screen,
    /// Precise enough to order programs.
    Rank,
    /// For the archive's best and for reports.
    Certify,
}

/// Limits of one measurement. Times are sums of the timed calls of both sides, with the hand-shake of each.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Least time, even if the interval is already narrow enough.
    pub min: Duration,
    /// Greatest time, but always two calls of the candidate. After many rounds an eighth of the time of all turns with
    /// their preparations counts if it is more than that of the calls.
    pub max: Duration,
    /// Standard error of ln(ratio) at which the measurement ends early.
    pub target_log_se: f64,
    /// Largest standard error of a measurement that has converged. A measurement above it when the budget is spent has
    /// not converged.
    pub usable_log_se: f64,
}

impl Limits {
    /// For a second measurement within a run. It has to tell luck from speed, not programs of adjacent ranks from each
    /// other: on a shared machine most second measurements miss the target, and longer ones would cost more than they
    /// show.
    pub const SECOND_LOOK: Limits = Limits {
        min: Duration::from_millis(60),
        max: Duration::from_millis(250),
        target_log_se: 0.003,
        usable_log_se: DECIDED_LOG_SE,
    };
}

impl Purpose {
    /// The default limits.
    pub fn limits(self) -> Limits {
        let (min, max, target_log_se, usable_log_se) = match self {
            // A screening is rough by intention. With calls of some milliseconds its time holds two rounds, which on a
            // shared machine differ by ten per cent.
            Purpose::Screen => (12, 30, 0.006, 0.25),
            // Programs one per cent apart shall come in the right order in 95 of 100 pairs. The differences between
            // processes, which longer measurements do not reduce, leave this much for the other errors. Most of the
            // time is needed on noisy machines only; on quiet ones precision ends the measurement sooner. Programs are
            // compared by their own intervals, so a measurement has converged as soon as it can tell any programs
            // apart.
            Purpose::Rank => (60, 600, 0.002, DECIDED_LOG_SE),
            // The limits of one look at all places together; there are two or three looks (`combine`).
            Purpose::Certify => (600, 1500, 0.0015, 0.003),
        };
        Limits {
            min: Duration::from_millis(min),
            max: Duration::from_millis(max),
            target_log_se,
            usable_log_se,
        }
    }
}

/// A program whose speed is less certain than this is not yet called slower than another.
const DECIDED_LOG_SE: f64 = 0.02;
/// A call that lasts at least this long gets fewer repetitions and needs no warming up.
pub const SLOW_CALL: Duration = Duration::from_millis(10);

/// Longest burst. Shorter bursts make more rounds in the same time, and in each the machine is more likely to stay
/// unchanged until the other side's turn; with much shorter bursts most of the time would go into changes of the turn.
const BURST: Duration = Duration::from_millis(3);
/// A burst is planned to take about the budget divided by this, or [`BURST`] if that is shorter.
const BURSTS: u32 = 20;
/// Rounds before a measurement may be called precise, and the number for a budget below [`SMALL_BUDGET`]. The spread of
/// a handful of rounds is too often small by chance.
const ROUNDS: u32 = 10;
const FEW_ROUNDS: u32 = 6;
const SMALL_BUDGET: Duration = Duration::from_millis(50);
/// Rounds before a program may be called slower: one long interruption can use up all the time of a screening.
const DECIDING_ROUNDS: u32 = 3;

/// Rounds before a measurement may be called precise.
fn least_rounds(limits: &Limits) -> u32 {
    if limits.max < SMALL_BUDGET {
        FEW_ROUNDS
    } else {
        ROUNDS
    }
}

/// Number of calls in the next burst of a side whose call takes `call`. `luck` in [0, 1) varies the length, so that
/// code in the jail cannot rely on it.
pub fn burst_calls(limits: &Limits, call: Duration, luck: f64) -> u32 {
    if call >= SLOW_CALL {
        return 1;
    }
    let burst = (limits.max / BURSTS).min(BURST);
    let fits = burst.as_secs_f64() / call.as_secs_f64().max(1e-7);
    let calls = fits * (0.7 + 0.6 * luck);
    (calls as u32).clamp(2, 16)
}

/// How many first calls of a burst of `calls` do not count. In short bursts all calls count: a floor suffers less from
/// a cold call than from a lost one.
pub fn warm_up(calls: u32) -> usize {
    usize::from(calls >= 5) + usize::from(calls >= 10)
}

/// The state of a measurement so far.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Sum of all timed calls of both sides, or the time that [`Limits::max`] counts where that is spent.
    pub spent: Duration,
    /// Counted calls of the candidate.
    pub calls: u32,
    /// The estimate from the calls so far.
    pub estimate: Estimate,
    /// Speed of the best program known, as ln of the ratio to the baseline; for screening only.
    pub best_log_ratio: Option<f64>,
}

/// If the scatter of samples is this share of an error that more samples cannot reduce, it adds 3 % to that error.
const BESIDE: f64 = 0.25;

impl Limits {
    /// The same precision in a part of the time.
    pub(super) fn divided(self, divisor: u32) -> Self {
        Self {
            min: self.min / divisor,
            max: self.max / divisor,
            ..self
        }
    }

    /// These limits if every comparison contains a standard error `hidden` of ln(ratio), however many samples it has.
    pub fn beside(self, hidden: f64) -> Self {
        Self {
            target_log_se: self.target_log_se.max(BESIDE * hidden),
            ..self
        }
    }

    /// The stop reason of a measurement whose budget is spent and whose standard error of ln(ratio) is `log_se`.
    pub fn at_the_end(&self, log_se: f64) -> StopReason {
        // A standard error of NaN is not usable.
        if log_se <= self.usable_log_se {
            StopReason::Budget
        } else {
            StopReason::Unconverged
        }
    }
}

/// The reason to stop now, if there is one. [`Limits::at_the_end`] decides whether a spent budget was enough.
pub fn stop(limits: &Limits, progress: &Progress) -> Option<StopReason> {
    let estimate = progress.estimate;
    if progress.calls < 2 {
        return None;
    }
    if progress.spent >= limits.min {
        let enough_rounds = estimate.rounds >= least_rounds(limits);
        if enough_rounds && estimate.supported && estimate.log_se <= limits.target_log_se {
            return Some(StopReason::Precise);
        }
        let slower = progress
            .best_log_ratio
            .is_some_and(|best| estimate.log_ratio + 3.0 * estimate.log_se < best - 0.05);
        let rounds = estimate.rounds >= DECIDING_ROUNDS;
        if slower && rounds && estimate.log_se <= DECIDED_LOG_SE {
            return Some(StopReason::Decided);
        }
    }
    (progress.spent >= limits.max).then_some(StopReason::Budget)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn estimate(log_ratio: f64, log_se: f64, supported: bool) -> Estimate {
        Estimate {
            candidate: 1.0,
            baseline: log_ratio.exp(),
            log_ratio,
            log_se,
            low: log_ratio - 2.0 * log_se,
            high: log_ratio + 2.0 * log_se,
            sampling_log_se: log_se,
            rounds: 12,
            outlying: 0,
            supported,
        }
    }

    fn progress(spent_ms: u64, e: Estimate, best: Option<f64>) -> Progress {
        Progress {
            spent: Duration::from_millis(spent_ms),
            calls: 8,
            estimate: e,
            best_log_ratio: best,
        }
    }

    #[test]
    fn precision_ends_a_measurement_only_after_the_minimum() {
        let limits = Purpose::Screen.limits();
        let sure = estimate(0.0, 0.001, true);
        assert_eq!(stop(&limits, &progress(1, sure, None)), None);
        assert_eq!(
            stop(&limits, &progress(20, sure, None)),
            Some(StopReason::Precise)
        );
        assert_eq!(
            stop(&limits, &progress(20, estimate(0.0, 0.001, false), None)),
            None
        );
    }

    #[test]
    fn a_part_of_the_time_demands_the_same_precision() {
        let whole = Purpose::Rank.limits();
        assert_eq!(whole.divided(1), whole);
        let part = whole.divided(4);
        assert_eq!((part.min * 4, part.max * 4), (whole.min, whole.max));
        let precision = |limits: Limits| (limits.target_log_se, limits.usable_log_se);
        assert_eq!(precision(part), precision(whole));
    }

    #[test]
    fn a_handful_of_rounds_is_not_precise() {
        let limits = Limits::SECOND_LOOK;
        let few = Estimate {
            rounds: 9,
            ..estimate(0.0, 0.001, true)
        };
        assert_eq!(stop(&limits, &progress(100, few, None)), None);
        assert_eq!(
            stop(&limits, &progress(250, few, None)),
            Some(StopReason::Budget)
        );
    }

    #[test]
    fn a_clearly_slower_program_is_decided_and_a_close_one_is_not() {
        let limits = Purpose::Screen.limits();
        let unsure = estimate(0.0, 0.015, false);
        assert_eq!(
            stop(&limits, &progress(20, unsure, Some(1.0))),
            Some(StopReason::Decided)
        );
        assert_eq!(stop(&limits, &progress(20, unsure, Some(0.06))), None);
        assert_eq!(
            stop(
                &limits,
                &progress(20, estimate(0.0, 0.05, false), Some(1.0))
            ),
            None
        );
    }

    #[test]
    fn a_budget_that_leaves_a_number_far_from_sure_did_not_converge() {
        for purpose in [Purpose::Screen, Purpose::Rank, Purpose::Certify] {
            let limits = purpose.limits();
            let largest = match purpose {
                Purpose::Screen => 0.25,
                Purpose::Rank => 0.02,
                Purpose::Certify => 2.0 * limits.target_log_se,
            };
            let ends = |times: f64| limits.at_the_end(times * largest);
            assert_eq!(ends(0.6), StopReason::Budget);
            assert_eq!(ends(0.99), StopReason::Budget);
            assert_eq!(ends(1.01), StopReason::Unconverged);
            assert_eq!(ends(f64::NAN), StopReason::Unconverged);
        }
    }

    proptest! {
        #[test]
        fn every_measurement_ends(log_ratio in -4.0f64..4.0, log_se in 0.0f64..1.0, supported: bool, best in prop::option::of(-4.0f64..4.0)) {
            for purpose in [Purpose::Screen, Purpose::Rank, Purpose::Certify] {
                let limits = purpose.limits();
                let done = progress(limits.max.as_millis() as u64, estimate(log_ratio, log_se, supported), best);
                prop_assert!(stop(&limits, &done).is_some());
            }
        }

        #[test]
        fn bursts_fit_the_budget(call_us in 1u64..2_000_000, luck in 0.0f64..1.0) {
            let call = Duration::from_micros(call_us);
            for purpose in [Purpose::Screen, Purpose::Rank, Purpose::Certify] {
                let limits = purpose.limits();
                let calls = burst_calls(&limits, call, luck);
                prop_assert!((1..=16).contains(&calls));
                prop_assert!(warm_up(calls) < calls as usize);
                prop_assert!(calls == 1 || call * calls <= limits.max);
            }
        }
    }
}
