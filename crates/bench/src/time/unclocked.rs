//! What a call took: from the start of the clock to its end, and all that its process executed since the first byte of its
//! inputs existed.
//!
//! Nobody can be kept from working between two calls for certain, and nobody can be blamed for every microsecond there:
//! machines are busy. But it does not pay. A process that sleeps while its inputs are made uses no processor time and does
//! not wait for the core; whatever it uses or waits is part of the call, from the first nanosecond on. On a busy machine that
//! costs an honest program some samples, which are lost to the floor anyway.

use std::time::Duration;

use flopsmith_protocol::CandidateFault;

use crate::Failure;
use crate::supervise::Called;

/// Processor time of a process that has to sleep, for which there is no honest reason. Falling asleep takes some.
const NO_REASON: Duration = Duration::from_micros(100);
/// Waiting for the core that is on the clock as well, because it was within the call or others use the core, is charged up to this
/// much: more than a process gains that gets the core without being woken up.
const WITHOUT_WAKING: Duration = Duration::from_micros(5);
/// What is shorter than this part of an empty call cannot be told.
const SCATTER: u32 = 50;
/// So many pauses without sleep, and so great a share of them, are no accident.
const ENOUGH: u32 = 3;
const ONE_IN: u32 = 4;

/// Counts what was done before the calls of one measurement.
#[derive(Debug)]
pub struct Unclocked {
    /// What the clock shows for a call that does nothing.
    least: Duration,
    /// How long such a call usually waits for the core.
    queued: Duration,
    pauses: u32,
    without_sleep: u32,
    charged: Duration,
}

impl Unclocked {
    /// `least` is what the clock shows for a call that does nothing, and `queued` how long such a call usually waits for the core.
    pub fn new(least: Duration, queued: Duration) -> Self {
        Self {
            least,
            queued,
            pauses: 0,
            without_sleep: 0,
            charged: Duration::ZERO,
        }
    }

    /// Seconds of a call of the baseline: never what it waited for the core before. A candidate could make it wait, and would
    /// seem the faster for it.
    pub fn of_baseline(&self, called: Called) -> f64 {
        self.on_the_clock(called, called.ran)
    }

    /// Seconds of a call of the candidate.
    pub fn of_candidate(&mut self, called: Called) -> f64 {
        let charged = called.ran + self.without_sleeping(called);
        self.pauses += 1;
        self.without_sleep += u32::from(charged > NO_REASON);
        self.charged += charged;
        self.on_the_clock(called, charged)
    }

    /// A process that sleeps waits for the core while the filler leaves it. One that wanted it before waited longer: all of that
    /// counts which the clock did not show, and of the rest more than it can be good for.
    fn without_sleeping(&self, called: Called) -> Duration {
        let unseen = called.queued.saturating_sub(called.clocked);
        let seen = called.queued.saturating_sub(self.queued);
        unseen.max(seen.min(WITHOUT_WAKING))
    }

    fn on_the_clock(&self, called: Called, charged: Duration) -> f64 {
        let call = called.clocked.saturating_sub(self.least);
        // Empty calls scatter by so much, and no call takes no time.
        (call.max(self.least / SCATTER) + charged).as_secs_f64()
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

    /// Seconds that the clock shows for a call that does nothing.
    pub fn least(&self) -> f64 {
        self.least.as_secs_f64()
    }

    /// Seconds that are in the candidate's times because its process did not sleep before them.
    pub fn charged(&self) -> f64 {
        self.charged.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEAST: Duration = Duration::from_micros(3);
    const QUEUED: Duration = Duration::from_nanos(500);

    fn called(clocked_us: u64, ran_us: u64, queued_us: u64) -> Called {
        Called {
            clocked: LEAST + Duration::from_micros(clocked_us),
            ran: Duration::from_micros(ran_us),
            queued: QUEUED + Duration::from_micros(queued_us),
        }
    }

    #[test]
    fn a_process_that_wants_the_core_just_before_the_clock_gains_nothing() {
        let mut unclocked = Unclocked::new(LEAST, QUEUED);
        for early in 1..6 {
            // It is not woken up, which saves less than it waited for the core.
            let seconds = unclocked.of_candidate(called(13, 0, early));
            assert!((seconds - (13 + early) as f64 * 1e-6).abs() < 1e-12);
        }
        // Others used the core during a long call, which the clock shows.
        let seconds = unclocked.of_candidate(called(20_000, 0, 10_000));
        assert!(seconds < 20_005.1e-6, "{seconds}");
    }

    #[test]
    fn honest_calls_cost_what_they_take() {
        let mut unclocked = Unclocked::new(LEAST, QUEUED);
        for n in 1..100 {
            let seconds = unclocked.of_candidate(called(n, 0, 0));
            assert!((seconds - n as f64 * 1e-6).abs() < 1e-12);
        }
        assert!(unclocked.judge().is_ok());
        assert!(unclocked.charged() < 1e-12);
        // The least of some orders may be more than one call takes.
        let quick = Called {
            clocked: LEAST / 2,
            ..Called::default()
        };
        let shortest = (LEAST / SCATTER).as_secs_f64();
        assert!((unclocked.of_candidate(quick) - shortest).abs() < 1e-12);
    }

    #[test]
    fn whoever_makes_the_baseline_wait_gains_nothing() {
        let unclocked = Unclocked::new(LEAST, QUEUED);
        let seconds = unclocked.of_baseline(called(10, 1, 5_000));
        assert!((seconds - 11e-6).abs() < 1e-12, "{seconds}");
    }

    #[test]
    fn a_busy_machine_costs_samples_and_blames_nobody() {
        let mut unclocked = Unclocked::new(LEAST, QUEUED);
        for _ in 0..100 {
            unclocked.of_candidate(called(9_000, 0, 0));
            unclocked.of_candidate(called(4, 5, 3));
        }
        assert!(unclocked.judge().is_ok());
        // Two accidents are none.
        let mut unclocked = Unclocked::new(LEAST, QUEUED);
        for _ in 0..2 {
            unclocked.of_candidate(called(4, 4_000, 0));
        }
        assert!(unclocked.judge().is_ok());
    }

    #[test]
    fn work_or_waiting_for_the_core_in_every_second_pause_is_refused() {
        for (ran, queued) in [(150, 0), (0, 150)] {
            let mut unclocked = Unclocked::new(LEAST, QUEUED);
            for _ in 0..10 {
                unclocked.of_candidate(called(4, 0, 0));
                unclocked.of_candidate(called(4, ran, queued));
            }
            assert!(matches!(
                unclocked.judge(),
                Err(Failure::Candidate {
                    fault: CandidateFault::LeftRunning,
                    ..
                })
            ));
        }
    }

    proptest! {
        /// However short a call is and whatever part of it is done before: nothing is gained, not a nanosecond.
        #[test]
        fn work_before_the_clock_starts_gains_nothing(call_ns in 100u64..100_000_000, early in 0.0f64..1.0) {
            let mut unclocked = Unclocked::new(LEAST, QUEUED);
            let hidden = (call_ns as f64 * early) as u64;
            let seconds = unclocked.of_candidate(Called {
                clocked: LEAST + Duration::from_nanos(call_ns - hidden),
                ran: Duration::from_nanos(hidden),
                queued: QUEUED,
            });
            prop_assert!(seconds > call_ns as f64 * 1e-9 - 1e-12, "{seconds}");
        }
    }
}
