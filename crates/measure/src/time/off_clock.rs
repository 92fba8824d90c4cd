//! The time of a call: from the start of the clock to the end of the call, and all the time that its process executed
//! since the first byte of its inputs existed.
//!
//! The supervisor cannot keep a process from working between two calls for certain, and cannot blame a program for
//! every microsecond there: machines are busy. But such work does not pay. A process that sleeps while its inputs are
//! made uses no processor time; any time that it uses is part of the call, from the first nanosecond on. On a busy
//! machine that costs an honest program some samples, which are lost to the floor anyway. A process that is awake when
//! the clock starts gets the core about a microsecond sooner than one that is woken up then. It gains nothing by that:
//! all the time in which its inputs were made is part of its call, unless it shares its only core with the supervisor
//! (`supervise::filler`). Its clock has no hand-shake either, so none is taken off, and where waking up takes longer than the
//! inputs, the call has that time instead.
//!
//! Where both sides sleep, nothing is taken off the calls of the others: waking up is part of them. A process that need not
//! be woken up then pays for both, the time of its inputs and the waking up that it saves. Empty calls say too little
//! about the latter, since a core sleeps deeper the longer it has nothing to do. The baseline's calls say more: the clock's
//! reading less the processor time of the process is the time in which neither side worked on the call.
//!
//! The end of a call is the process's own word, and a process may go on after it. Processor time from the start of the
//! clock to the moment at which the process leaves the core shows that. An honest process uses some microseconds there
//! that are not on the clock, to report and to fall asleep, and the clock has some in which the process waits. The
//! difference is nearly the same for all programs with the same data, so the baseline's calls give it; what a candidate
//! uses beyond that is part of its call.

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

/// Calls of the baseline that are remembered for what they used after their answers.
const AFTER: usize = 64;
/// The share of these calls that used at most what is usual.
const USUAL: f64 = 0.75;
/// Time that a candidate uses beyond that is part of its call if it is more than the length of an empty call divided by this:
/// the times of honest programs differ by that much (0.4 µs where an empty call takes 6.5 µs).
const GRACE: u32 = 16;

/// Accounts for the time that processes use before the calls of one measurement.
#[derive(Debug)]
pub struct OffClock {
    /// The clock's reading for a call that does nothing.
    least: Duration,
    /// The newest readings of such calls in this measurement, seconds.
    empty: VecDeque<f64>,
    /// Processor time less the clock's reading, seconds: of such calls, and of the newest calls of the baseline.
    after_empty: VecDeque<f64>,
    after_baseline: VecDeque<f64>,
    /// The clock's reading less processor time, seconds: of the newest calls of the baseline.
    waking: VecDeque<f64>,
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
            after_empty: VecDeque::new(),
            after_baseline: VecDeque::new(),
            waking: VecDeque::new(),
            pauses: 0,
            without_sleep: 0,
            charged: Duration::ZERO,
        }
    }

    /// Records a call that did nothing, between the others, and the processor time that it used from the start of the
    /// clock on, if that is known.
    pub fn saw_empty(&mut self, empty: Called, used: Option<Duration>) {
        keep_newest(&mut self.empty, EMPTY, empty.clocked.as_secs_f64());
        if let Some(used) = used {
            keep_newest(&mut self.after_empty, AFTER, after(empty, used));
        }
        if self.empty.len() >= LEAST_EMPTY
            && let Some(floor) = stats::floor(self.empty.make_contiguous())
        {
            self.least = Duration::from_secs_f64(floor);
        }
    }

    /// Seconds of a call of the baseline. `used` is the processor time from the start of the clock on, if it is known.
    pub fn of_baseline(&mut self, called: Called, used: Option<Duration>) -> f64 {
        if let Some(used) = used {
            keep_newest(&mut self.after_baseline, AFTER, after(called, used));
            if !called.not_woken {
                keep_newest(&mut self.waking, AFTER, -after(called, used));
            }
        }
        if called.not_woken {
            return (called.clocked + self.before(called)).as_secs_f64();
        }
        self.on_the_clock(called)
    }

    /// Seconds of a call of the candidate. `used` is the processor time from the start of the clock on, if it is known.
    pub fn of_candidate(&mut self, called: Called, used: Option<Duration>) -> f64 {
        // A process that sleeps waits for the core while the filler leaves it; that wait is on the clock.
        let queued = called.queued.saturating_sub(called.clocked);
        self.pauses += 1;
        self.without_sleep += u32::from(called.ran + queued > NO_REASON);
        let late = used.map_or(0.0, |used| self.late(called, used));
        let before = self.before(called);
        self.charged += before + Duration::from_secs_f64(late);
        if called.not_woken {
            return (called.clocked + before).as_secs_f64() + late;
        }
        self.on_the_clock(called) + late
    }

    /// The part of a call that comes before its clock. A process that need not be woken up saves the hand-shake of the others,
    /// and pays the wait of the baseline's calls as far as it is not taken off, which also holds the supervisor's own waking up.
    fn before(&self, called: Called) -> Duration {
        if !called.not_woken {
            return called.ran;
        }
        let hand_shake = usual(&self.empty).map_or(self.least, Duration::from_secs_f64);
        let waking = usual(&self.waking).unwrap_or(0.0).max(0.0);
        let not_taken_off = Duration::from_secs_f64(waking).saturating_sub(self.least);
        (called.ran + not_taken_off).max(hand_shake)
    }

    /// Seconds that a process used after its answer, beyond what honest processes use.
    fn late(&self, called: Called, used: Duration) -> f64 {
        // The baseline's calls may be so long that interrupts take more of them than they use after their answers.
        let honest = [&self.after_empty, &self.after_baseline]
            .into_iter()
            .filter_map(usual)
            .reduce(f64::max);
        let grace = (self.least / GRACE).as_secs_f64();
        honest.map_or(0.0, |honest| {
            (after(called, used) - honest - grace).max(0.0)
        })
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

    /// Seconds that are in the candidate's times because its process used them before the clock started or after its
    /// answers.
    pub fn charged(&self) -> f64 {
        self.charged.as_secs_f64()
    }
}

/// Processor time of a call less the clock's reading, seconds.
fn after(called: Called, used: Duration) -> f64 {
    used.as_secs_f64() - called.clocked.as_secs_f64()
}

/// The upper quartile of what honest calls needed.
fn usual(seen: &VecDeque<f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = seen.iter().copied().collect();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * USUAL) as usize;
    sorted.get(at).copied()
}

/// Appends a value, and drops the oldest of more than `most`.
fn keep_newest(seen: &mut VecDeque<f64>, most: usize, value: f64) {
    if seen.len() == most {
        seen.pop_front();
    }
    seen.push_back(value);
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
            ..Called::default()
        }
    }

    #[test]
    fn honest_calls_cost_what_they_take() {
        let mut off_clock = OffClock::new(LEAST);
        for n in 1..100 {
            let seconds = off_clock.of_candidate(called(n, 0, 0), None);
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
        assert!((off_clock.of_candidate(quick, None) - shortest).abs() < 1e-12);
    }

    #[test]
    fn empty_calls_between_the_others_are_taken_off() {
        let mut off_clock = OffClock::new(LEAST);
        let clocked = |call: Called| called(10, 0, 0).clocked - LEAST + call.clocked;
        let slower = called(1, 0, 0);
        for n in 0..2 * EMPTY {
            // Now and then an empty call is interrupted.
            let pause = Duration::from_micros(if n % 7 == 0 { 40 } else { 0 });
            let empty = Called {
                clocked: slower.clocked + pause,
                ..Called::default()
            };
            off_clock.saw_empty(empty, None);
        }
        let call = Called {
            clocked: clocked(slower),
            ..Called::default()
        };
        let seconds = off_clock.of_baseline(call, None);
        assert!((seconds - 10e-6).abs() < 1e-9, "{seconds}");
    }

    #[test]
    fn a_busy_machine_costs_samples_and_blames_nobody() {
        let mut off_clock = OffClock::new(LEAST);
        for _ in 0..100 {
            off_clock.of_candidate(called(9_000, 0, 0), None);
            off_clock.of_candidate(called(4, 5, 3), None);
        }
        assert!(off_clock.judge().is_ok());
        // Two pauses without sleep may be an accident.
        let mut off_clock = OffClock::new(LEAST);
        for _ in 0..2 {
            off_clock.of_candidate(called(4, 4_000, 0), None);
        }
        assert!(off_clock.judge().is_ok());
    }

    #[test]
    fn work_or_waiting_for_the_core_in_every_second_pause_is_refused() {
        for (ran, queued) in [(150, 0), (0, 150)] {
            let mut off_clock = OffClock::new(LEAST);
            for _ in 0..10 {
                off_clock.of_candidate(called(4, 0, 0), None);
                off_clock.of_candidate(called(4, ran, queued), None);
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

    #[test]
    fn a_process_that_need_not_be_woken_up_pays_what_waking_up_takes() {
        let mut off_clock = OffClock::new(LEAST);
        let work = Duration::from_micros(13);
        let of = |ran: u64, clocked: Duration| Called {
            clocked,
            ran: Duration::from_micros(ran),
            not_woken: true,
            ..Called::default()
        };
        // Before any empty call is known, the least one counts.
        let seconds = off_clock.of_candidate(of(1, work), None);
        assert!((seconds - (work + LEAST).as_secs_f64()).abs() < 1e-12);
        let wakes = [20, 50, 50, 60].map(Duration::from_micros);
        for n in 0..EMPTY {
            let empty = Called {
                clocked: wakes[n % wakes.len()],
                ..Called::default()
            };
            off_clock.saw_empty(empty, None);
        }
        let early = off_clock.of_candidate(of(25, Duration::ZERO), None);
        let busy = off_clock.of_candidate(of(90, Duration::ZERO), None);
        assert!((busy - 90e-6).abs() < 1e-12, "{busy}");
        for wake in wakes {
            let honest = Called {
                clocked: wake + work,
                ..Called::default()
            };
            let honest = off_clock.of_candidate(honest, None);
            assert!(early > honest, "{early} instead of {honest}");
        }
    }

    /// Both sides sleep: nothing is taken off, empty calls wake up fast, and the baseline's calls show what waking up takes.
    #[test]
    fn a_process_that_need_not_be_woken_up_pays_the_waking_up_of_the_baseline() {
        let mut off_clock = OffClock::new(Duration::ZERO);
        let empty = Called {
            clocked: Duration::from_micros(8),
            ..Called::default()
        };
        off_clock.saw_empty(empty, Some(Duration::from_micros(2)));
        let early = Called {
            clocked: Duration::from_micros(6),
            ran: Duration::from_micros(20),
            not_woken: true,
            ..Called::default()
        };
        assert!((off_clock.of_candidate(early, None) - 26e-6).abs() < 1e-12);
        // Three quarters of these calls wait for 40 µs, and some are interrupted.
        let body = Duration::from_micros(70);
        for n in 0..AFTER {
            let wait = Duration::from_micros(if n % 8 == 0 { 4_000 } else { 40 });
            let call = Called {
                clocked: body + wait,
                ..Called::default()
            };
            off_clock.of_baseline(call, Some(body));
        }
        let seconds = off_clock.of_candidate(early, None);
        assert!((seconds - 66e-6).abs() < 1e-12, "{seconds}");
        // A process that was woken up has its waking up on the clock.
        let woken = Called {
            not_woken: false,
            ran: Duration::ZERO,
            ..early
        };
        assert!((off_clock.of_candidate(woken, None) - 6e-6).abs() < 1e-12);
        // Where hand-shakes are taken off all calls, only the rest of the waking up is missing.
        let mut spinning = OffClock::new(Duration::from_micros(30));
        for _ in 0..AFTER {
            let call = Called {
                clocked: body + Duration::from_micros(40),
                ..Called::default()
            };
            spinning.of_baseline(call, Some(body));
        }
        let longer = Called {
            ran: Duration::from_micros(25),
            ..early
        };
        let seconds = spinning.of_candidate(longer, None);
        assert!((seconds - 41e-6).abs() < 1e-12, "{seconds}");
        // A call of the baseline that was not woken up has no hand-shake that could be taken off.
        let seconds = spinning.of_baseline(longer, None);
        assert!((seconds - 41e-6).abs() < 1e-12, "{seconds}");
    }

    proptest! {
        /// Both sides sleep. A process that need not be woken up may do any part of a call before its clock, and takes no less
        /// than most calls of the same program that sleeps.
        #[test]
        fn a_process_that_stays_awake_gains_nothing_where_both_sides_sleep(
            call_ns in 100u64..100_000_000,
            early in 0.0f64..1.0,
            filling_ns in 0u64..100_000,
            waits in prop::collection::vec(1_000u64..100_000, 1..100),
        ) {
            let mut off_clock = OffClock::new(Duration::ZERO);
            let honest = |wait: &u64| Called {
                clocked: Duration::from_nanos(call_ns + wait),
                ..Called::default()
            };
            let body = Duration::from_nanos(call_ns);
            let known = &waits[waits.len().saturating_sub(AFTER)..];
            for wait in &waits {
                off_clock.of_baseline(honest(wait), Some(body));
            }
            let hidden = (call_ns as f64 * early) as u64;
            let awake = Called {
                clocked: Duration::from_nanos(call_ns - hidden),
                ran: Duration::from_nanos(filling_ns + hidden),
                not_woken: true,
                ..Called::default()
            };
            let seconds = off_clock.of_candidate(awake, None);
            let slower = known.iter().filter(|wait| off_clock.on_the_clock(honest(wait)) > seconds + 1e-12);
            prop_assert!(slower.count() * 4 <= known.len());
        }

        /// However short a call is and whatever part of it is done before: the program gains nothing.
        #[test]
        fn work_before_the_clock_starts_gains_nothing(call_ns in 100u64..100_000_000, early in 0.0f64..1.0) {
            let mut off_clock = OffClock::new(LEAST);
            let hidden = (call_ns as f64 * early) as u64;
            let call = Called {
                clocked: LEAST + Duration::from_nanos(call_ns - hidden),
                ran: Duration::from_nanos(hidden),
                queued: QUEUED,
                ..Called::default()
            };
            let seconds = off_clock.of_candidate(call, None);
            prop_assert!(seconds > call_ns as f64 * 1e-9 - 1e-12, "{seconds}");
        }

        /// However short a call is and whatever part of it is done after the answer: the program gains nothing. An honest
        /// program loses nothing.
        #[test]
        fn work_after_the_answer_gains_nothing(
            call_ns in 100u64..100_000_000,
            late in 0.0f64..1.0,
            baseline_ns in prop::collection::vec(100u64..100_000_000, 1..100),
        ) {
            let mut off_clock = OffClock::new(LEAST);
            // Every process reports and falls asleep, which is not on the clock.
            let own = Duration::from_nanos(1_300);
            let of = |ns: u64, hidden: u64| {
                let body = Duration::from_nanos(ns);
                let call = Called {
                    clocked: LEAST + body - Duration::from_nanos(hidden),
                    queued: QUEUED,
                    ..Called::default()
                };
                (call, Some(body + own))
            };
            for ns in baseline_ns {
                let (call, used) = of(ns, 0);
                off_clock.of_baseline(call, used);
            }
            let hidden = (call_ns as f64 * late) as u64;
            let shortest = LEAST.as_secs_f64() / f64::from(SCATTER);
            let grace = LEAST.as_secs_f64() / f64::from(GRACE);
            for (hidden, gain) in [(0, 0.0), (hidden, grace)] {
                let (call, used) = of(call_ns, hidden);
                let more = off_clock.of_candidate(call, used) - call_ns as f64 * 1e-9;
                prop_assert!(more > -gain - 1e-12 && more < shortest + 1e-12, "{more}");
            }
        }
    }
}
