//! The time of a call: from the start of the clock to the end of the call, and all the time that its process executed
//! since the first byte of its inputs existed.
//!
//! The supervisor cannot keep a process from working between two calls for certain, and cannot blame a program for
//! every microsecond there: machines are busy. But such work does not pay. A process that sleeps while its inputs are
//! made uses no processor time; any time that it uses is part of the call, from the first nanosecond on. On a busy
//! machine that costs an honest program some samples, which are lost to the floor anyway. A process that is awake when
//! the clock starts gets the core about a microsecond sooner than one that is woken up then. It gains nothing by that:
//! all the time in which its inputs were made is part of its call, unless it shares its only core with the supervisor
//! (`supervise::filler`).

use std::collections::VecDeque;
use std::time::Duration;

use flopsmith_protocol::{CandidateFault, Failure};

use crate::stats;
use crate::supervise::Called;

/// Processor time, or waiting for the core, above which a process that has to sleep has no honest reason. Falling
/// asleep takes some time.
const NO_REASON: Duration = Duration::from_micros(100);
/// Times below the length of an empty call divided by this cannot be measured.
const SCATTER: u32 = 50;
/// At least this many pauses without sleep, and at least one in [`ONE_IN`], are no accident.
const ENOUGH: u32 = 3;
const ONE_IN: u32 = 4;

/// Empty calls that are remembered. Their length changes with the clock rate of the core, so the newest count.
const EMPTY: usize = 64;
/// Least number of empty calls whose floor is used.
const LEAST_EMPTY: usize = 8;

/// Accounts for the time that processes use before the calls of one measurement.
#[derive(Debug)]
pub struct OffClock {
    /// The clock's reading for a call that does nothing.
    least: Duration,
    /// The newest readings of such calls in this measurement, seconds.
    empty: VecDeque<f64>,
    pauses: u32,
    without_sleep: u32,
    charged: Duration,
}

impl OffClock {
    /// `least` is the clock's reading for a call that does nothing.
    pub fn new(least: Duration) -> Self {
        Self {
            least,
            empty: VecDeque::new(),
            pauses: 0,
            without_sleep: 0,
            charged: Duration::ZERO,
        }
    }

    /// Records a call that did nothing, between the others.
    pub fn saw_empty(&mut self, clocked: Duration) {
        if self.empty.len() == EMPTY {
            self.empty.pop_front();
        }
        self.empty.push_back(clocked.as_secs_f64());
        if self.empty.len() >= LEAST_EMPTY
            && let Some(floor) = stats::floor(self.empty.make_contiguous())
        {
            self.least = Duration::from_secs_f64(floor);
        }
    }

    /// Seconds of a call of the baseline.
    pub fn of_baseline(&self, called: Called) -> f64 {
        self.on_the_clock(called)
    }

    /// Seconds of a call of the candidate.
    pub fn of_candidate(&mut self, called: Called) -> f64 {
        // A process that sleeps waits for the core while the filler leaves it; that wait is on the clock.
        let queued = called.queued.saturating_sub(called.clocked);
        self.pauses += 1;
        self.without_sleep += u32::from(called.ran + queued > NO_REASON);
        self.charged += called.ran;
        self.on_the_clock(called)
    }

    fn on_the_clock(&self, called: Called) -> f64 {
        let call = called.clocked.saturating_sub(self.least);
        // The least time is the scatter of empty calls, since no call takes no time.
        (call.max(self.least / SCATTER) + called.ran).as_secs_f64()
    }

    /// Refuses a program that did not sleep in many of the pauses in which its process had to.
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

    /// The clock's reading for a call that does nothing, seconds.
    pub fn least(&self) -> f64 {
        self.least.as_secs_f64()
    }

    /// Seconds that are in the candidate's times because its process used them before the clock started.
    pub fn charged(&self) -> f64 {
        self.charged.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEAST: Duration = Duration::from_micros(3);
    /// A process that is woken up waits this long while the filler leaves.
    const QUEUED: Duration = Duration::from_nanos(500);

    fn called(clocked_us: u64, ran_us: u64, queued_us: u64) -> Called {
        Called {
            clocked: LEAST + Duration::from_micros(clocked_us),
            ran: Duration::from_micros(ran_us),
            queued: QUEUED + Duration::from_micros(queued_us),
        }
    }

    #[test]
    fn honest_calls_cost_what_they_take() {
        let mut off_clock = OffClock::new(LEAST);
        for n in 1..100 {
            let seconds = off_clock.of_candidate(called(n, 0, 0));
            assert!((seconds - n as f64 * 1e-6).abs() < 1e-12);
        }
        assert!(off_clock.judge().is_ok());
        assert!(off_clock.charged() < 1e-12);
        // The least time of empty calls may exceed the time of a single call.
        let quick = Called {
            clocked: LEAST / 2,
            ..Called::default()
        };
        let shortest = (LEAST / SCATTER).as_secs_f64();
        assert!((off_clock.of_candidate(quick) - shortest).abs() < 1e-12);
    }

    #[test]
    fn empty_calls_between_the_others_are_taken_off() {
        let mut off_clock = OffClock::new(LEAST);
        let clocked = |call: Called| called(10, 0, 0).clocked - LEAST + call.clocked;
        let slower = called(1, 0, 0);
        for n in 0..2 * EMPTY {
            // Now and then an empty call is interrupted.
            let pause = Duration::from_micros(if n % 7 == 0 { 40 } else { 0 });
            off_clock.saw_empty(slower.clocked + pause);
        }
        let seconds = off_clock.of_baseline(Called {
            clocked: clocked(slower),
            ..Called::default()
        });
        assert!((seconds - 10e-6).abs() < 1e-9, "{seconds}");
    }

    #[test]
    fn a_busy_machine_costs_samples_and_blames_nobody() {
        let mut off_clock = OffClock::new(LEAST);
        for _ in 0..100 {
            off_clock.of_candidate(called(9_000, 0, 0));
            off_clock.of_candidate(called(4, 5, 3));
        }
        assert!(off_clock.judge().is_ok());
        // Two pauses without sleep may be an accident.
        let mut off_clock = OffClock::new(LEAST);
        for _ in 0..2 {
            off_clock.of_candidate(called(4, 4_000, 0));
        }
        assert!(off_clock.judge().is_ok());
    }

    #[test]
    fn work_or_waiting_for_the_core_in_every_second_pause_is_refused() {
        for (ran, queued) in [(150, 0), (0, 150)] {
            let mut off_clock = OffClock::new(LEAST);
            for _ in 0..10 {
                off_clock.of_candidate(called(4, 0, 0));
                off_clock.of_candidate(called(4, ran, queued));
            }
            assert!(matches!(
                off_clock.judge(),
                Err(Failure::Candidate {
                    fault: CandidateFault::LeftRunning,
                    ..
                })
            ));
        }
    }

    proptest! {
        /// However short a call is and whatever part of it is done before: the program gains nothing.
        #[test]
        fn work_before_the_clock_starts_gains_nothing(call_ns in 100u64..100_000_000, early in 0.0f64..1.0) {
            let mut off_clock = OffClock::new(LEAST);
            let hidden = (call_ns as f64 * early) as u64;
            let seconds = off_clock.of_candidate(Called {
                clocked: LEAST + Duration::from_nanos(call_ns - hidden),
                ran: Duration::from_nanos(hidden),
                queued: QUEUED,
            });
            prop_assert!(seconds > call_ns as f64 * 1e-9 - 1e-12, "{seconds}");
        }
    }
}
