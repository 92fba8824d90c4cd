//! What a program did in its process before the clock started: added to the time of the call that it was done for.
//!
//! Nobody can be kept from working between two calls for certain, and nobody can be blamed for every microsecond there:
//! machines are busy. But it need not pay. A process that sleeps while its inputs are made uses no processor time at all,
//! and one that is woken up stands ready after a few microseconds; what goes beyond is part of the call. On a busy machine
//! that costs an honest program some samples, which are lost to the floor anyway.

use std::time::Duration;

use flopsmith_protocol::CandidateFault;

use crate::Failure;
use crate::supervise::Between;

/// Standing by may take this much longer than it usually does in the baseline's process.
const SLACK: f64 = 2e-6;
/// The same before it is known what is usual.
const UNKNOWN: f64 = 50e-6;
/// Processor time of a process that has to sleep, for which there is no honest reason. Falling asleep takes some.
const NO_REASON: Duration = Duration::from_micros(100);
/// So many pauses without sleep, and so great a share of them, are no accident.
const ENOUGH: u32 = 3;
const ONE_IN: u32 = 4;

/// Counts what was done before the calls of one measurement.
#[derive(Debug, Default)]
pub struct Unclocked {
    /// Seconds in which the baseline's process stood ready, in ascending order.
    usual: Vec<f64>,
    pauses: u32,
    without_sleep: u32,
    charged: f64,
}

impl Unclocked {
    /// Seconds to add to the baseline's next call: its own processor time, and never what it waited for the core. A candidate
    /// could make it wait, and would seem the faster for it.
    pub fn before_baseline(&mut self, between: Between) -> f64 {
        let seconds = between.stood_by.as_secs_f64();
        let place = self.usual.partition_point(|x| *x < seconds);
        self.usual.insert(place, seconds);
        between.ran.as_secs_f64()
    }

    /// Seconds to add to the candidate's next call.
    pub fn before_candidate(&mut self, between: Between) -> f64 {
        self.pauses += 1;
        self.without_sleep += u32::from(between.ran > NO_REASON);
        let seconds = self.excess(between);
        self.charged += seconds;
        seconds
    }

    /// Refuses a program that was at work in many of the pauses in which its process had to sleep.
    pub fn judge(&self) -> Result<(), Failure> {
        if self.without_sleep < ENOUGH || self.without_sleep * ONE_IN < self.pauses {
            return Ok(());
        }
        Err(Failure::candidate(
            CandidateFault::LeftRunning,
            format!(
                "the program was at work in {} of the {} pauses in which the inputs of its calls were made",
                self.without_sleep, self.pauses
            ),
        ))
    }

    /// Median of the seconds in which the baseline's process stood ready; 0 before any is known.
    pub fn usual(&self) -> f64 {
        self.usual.get(self.usual.len() / 2).copied().unwrap_or(0.0)
    }

    /// Seconds that were added to the candidate's calls.
    pub fn charged(&self) -> f64 {
        self.charged
    }

    fn excess(&self, between: Between) -> f64 {
        let allowed = if self.usual.is_empty() {
            UNKNOWN
        } else {
            self.usual() + SLACK
        };
        between.ran.as_secs_f64() + (between.stood_by.as_secs_f64() - allowed).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn between(ran_us: u64, stood_by_us: u64) -> Between {
        Between {
            ran: Duration::from_micros(ran_us),
            stood_by: Duration::from_micros(stood_by_us),
        }
    }

    fn usual() -> Unclocked {
        let mut unclocked = Unclocked::default();
        for n in 0..9 {
            unclocked.before_baseline(between(0, 3 + n % 3));
        }
        unclocked
    }

    #[test]
    fn honest_calls_cost_what_they_take() {
        let mut unclocked = usual();
        assert!((unclocked.usual() - 4e-6).abs() < 1e-12);
        for n in 0..100 {
            assert!(unclocked.before_candidate(between(0, 3 + n % 4)) < 1e-12);
        }
        assert!(unclocked.judge().is_ok());
    }

    #[test]
    fn whoever_makes_the_baseline_wait_gains_nothing() {
        let mut unclocked = usual();
        for _ in 0..4 {
            let charged = unclocked.before_baseline(between(1, 5_000));
            assert!(charged < 1.5e-6, "{charged}");
        }
    }

    #[test]
    fn a_busy_machine_costs_samples_and_blames_nobody() {
        let mut unclocked = usual();
        for _ in 0..100 {
            unclocked.before_baseline(between(0, 5));
            unclocked.before_candidate(between(0, 9_000));
            unclocked.before_candidate(between(5, 4));
        }
        assert!(unclocked.judge().is_ok());
        // Two accidents are none.
        let mut unclocked = usual();
        for _ in 0..2 {
            unclocked.before_candidate(between(4_000, 4));
        }
        assert!(unclocked.judge().is_ok());
    }

    #[test]
    fn work_in_every_second_pause_is_refused() {
        let mut unclocked = usual();
        for _ in 0..10 {
            unclocked.before_candidate(between(0, 4));
            unclocked.before_candidate(between(150, 4));
        }
        assert!(matches!(
            unclocked.judge(),
            Err(Failure::Candidate {
                fault: CandidateFault::LeftRunning,
                ..
            })
        ));
    }

    proptest! {
        /// Whatever part of a call's work is done before it, and in whichever way: beyond some microseconds nothing is gained.
        #[test]
        fn work_before_the_clock_starts_gains_nothing(call_us in 20u64..100_000, early in 0.0f64..1.0, asleep: bool) {
            let mut unclocked = usual();
            let hidden = (call_us as f64 * early) as u64;
            let before = if asleep { between(hidden, 4) } else { between(0, 4 + hidden) };
            let sample = (call_us - hidden) as f64 * 1e-6 + unclocked.before_candidate(before);
            prop_assert!(sample > call_us as f64 * 1e-6 - SLACK - 1e-9, "{sample}");
        }
    }
}
