//! The course of one measurement: the next turn, its number of calls, and the end. Pure: no process, no clock.
//!
//! A driver makes the calls and times them: a session with its processes, or in tests a simulated machine. The tests of
//! the stopping rules and of the intervals under noise therefore test the code that measures.

use std::time::Duration;

use flopsmith_protocol::StopReason;
use rand::Rng;

use super::decision::{self, Limits, Progress, SLOW_CALL};
use super::resolution::Resolution;
use crate::stats::{self, Burst, Estimate};

/// A measurement of many rounds pays for its preparations, which renew and compare arrays: its budget is spent at the
/// latest when it has taken this many times the budget in all. Calls of microseconds beside megabytes of arrays would
/// take minutes otherwise.
const PREPARING: u32 = 8;
/// Rounds before preparations are paid for: fewer would say too little.
const MANY_ROUNDS: u32 = 24;

/// A side of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// The program that is measured.
    Candidate,
    /// The program that it is compared with.
    Baseline,
}

/// The next burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The side that makes it.
    pub who: Who,
    /// Number of calls in it.
    pub calls: u32,
}

/// A measurement that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// Bursts of the candidate.
    pub candidate: Vec<Burst>,
    /// Bursts of the baseline.
    pub baseline: Vec<Burst>,
    /// The estimate from these bursts.
    pub estimate: Estimate,
    /// The reason why the measurement ended.
    pub stop: StopReason,
}

/// The bursts of one side so far.
#[derive(Default)]
struct Side {
    bursts: Vec<Burst>,
    /// The call time for planning: the fastest seen.
    call: Option<Duration>,
    spent: Duration,
}

/// A measurement under way.
pub struct Course {
    limits: Limits,
    best_log_ratio: Option<f64>,
    /// Time that each call takes in addition to its own.
    hand_shake: Duration,
    /// The error that hand-shakes leave in every comparison.
    resolution: Resolution,
    ours: Side,
    theirs: Side,
    /// Time that the turns took in all.
    taken: Duration,
    /// Number of rounds begun.
    rounds: u32,
    /// The remaining turns of the present round, the next one at the end.
    turns: Vec<Who>,
    /// The number of rounds at which [`Course::enough`] looks next.
    look: u32,
    end: Option<(StopReason, Estimate)>,
}

impl Course {
    /// A course before the first call. `best_log_ratio` is the speed of the best program known, for a screening that
    /// may give up early.
    pub fn new(limits: Limits, best_log_ratio: Option<f64>) -> Self {
        Self {
            limits,
            best_log_ratio,
            hand_shake: Duration::ZERO,
            resolution: Resolution::default(),
            ours: Side::default(),
            theirs: Side::default(),
            taken: Duration::ZERO,
            rounds: 0,
            turns: Vec::new(),
            look: 2,
            end: None,
        }
    }

    /// The same course where each call takes `hand_shake` in addition to its own time. The budget pays for that as
    /// well: otherwise a measurement of calls of some nanoseconds would not end.
    pub fn with_hand_shake(self, hand_shake: Duration) -> Self {
        Self { hand_shake, ..self }
    }

    /// The same course where hand-shakes differ from process to process: it takes samples until their scatter is small
    /// compared with that difference, since more samples cannot make the comparison more certain.
    pub fn with_resolution(self, resolution: Resolution) -> Self {
        Self { resolution, ..self }
    }

    /// The burst to make now, or none once the measurement is complete. The caller answers every turn with
    /// [`Course::saw`].
    pub fn next_turn<R: Rng>(&mut self, rng: &mut R) -> Option<Turn> {
        if self.turns.is_empty() {
            self.end = self.enough();
            if self.end.is_some() {
                return None;
            }
            self.turns = vec![Who::Baseline, Who::Candidate];
            // The first round only warms up, so its order does not matter.
            if self.rounds > 0 && rng.random() {
                self.turns.reverse();
            }
            self.rounds += 1;
        }
        let who = self.turns.pop()?;
        // The first call of each side shows how long its calls take.
        let calls = match self.call(who) {
            None => 1,
            Some(call) => decision::burst_calls(&self.limits, call, rng.random()),
        };
        Some(Turn { who, calls })
    }

    /// Records that the calls of a turn took `seconds`, and the turn with its preparations `taken`.
    pub fn saw(&mut self, turn: Turn, seconds: Vec<f64>, taken: Duration) {
        self.taken += taken;
        let first = self.rounds == 1;
        let side = match turn.who {
            Who::Candidate => &mut self.ours,
            Who::Baseline => &mut self.theirs,
        };
        let mut spent = Duration::ZERO;
        for call in seconds.iter().map(|s| Duration::from_secs_f64(*s)) {
            spent += call + self.hand_shake;
            side.call = Some(side.call.map_or(call, |fastest| fastest.min(call)));
        }
        let slow = side.call.is_some_and(|call| call >= SLOW_CALL);
        // The first call warms up unless it is slow.
        let warms = first && !slow;
        side.bursts.push(Burst {
            warm_up: if warms {
                seconds.len()
            } else {
                decision::warm_up(turn.calls)
            },
            seconds,
        });
        if !warms {
            side.spent += spent;
        }
    }

    /// The fastest call of a side so far.
    pub fn call(&self, who: Who) -> Option<Duration> {
        match who {
            Who::Candidate => self.ours.call,
            Who::Baseline => self.theirs.call,
        }
    }

    /// The result. None before [`Course::next_turn`] has returned none.
    pub fn finish(self) -> Option<Finished> {
        let (stop, estimate) = self.end?;
        Some(Finished {
            candidate: self.ours.bursts,
            baseline: self.theirs.bursts,
            estimate,
            stop,
        })
    }

    /// The stop reason and the estimate if the rounds so far are enough. Called only between rounds. Each look is a
    /// chance to stop at an interval that is narrow by luck, so looks become rarer as rounds become many.
    fn enough(&mut self) -> Option<(StopReason, Estimate)> {
        let spent = self.ours.spent + self.theirs.spent;
        let prepared = match self.rounds >= MANY_ROUNDS {
            true => self.taken / PREPARING,
            false => Duration::ZERO,
        };
        let due = self.rounds >= self.look && spent >= self.limits.min;
        let over = spent.max(prepared) >= self.limits.max;
        if self.rounds < 2 || !(due || over) {
            return None;
        }
        let spent = if over { spent.max(prepared) } else { spent };
        self.look = self.rounds + (self.rounds / 8).max(1);
        let calls = self.ours.bursts.iter().map(|b| b.counted().len() as u32);
        let progress = Progress {
            spent,
            calls: calls.sum(),
            estimate: stats::estimate(&self.ours.bursts, &self.theirs.bursts)?,
            best_log_ratio: self.best_log_ratio,
        };
        let hidden = self
            .resolution
            .log_se(progress.estimate.candidate, progress.estimate.baseline);
        let limits = self.limits.beside(hidden);
        let stop = decision::stop(&limits, &progress)?;
        Some(match stop {
            StopReason::Precise | StopReason::Decided => (stop, progress.estimate),
            StopReason::Budget | StopReason::Unconverged => {
                let (ours, theirs) = (&self.ours.bursts, &self.theirs.bursts);
                let estimate = stats::last_resort(ours, theirs, progress.estimate);
                (self.limits.at_the_end(estimate.log_se), estimate)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::super::decision::Purpose;
    use super::*;

    /// Drives a measurement of calls that always take the same time.
    fn drive(ours: f64, theirs: f64, purpose: Purpose, seed: u64) -> (Finished, Vec<Turn>) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut course = Course::new(purpose.limits(), None);
        let mut turns = Vec::new();
        while let Some(turn) = course.next_turn(&mut rng) {
            let call = if turn.who == Who::Candidate {
                ours
            } else {
                theirs
            };
            let seconds = vec![call; turn.calls as usize];
            course.saw(turn, seconds, Duration::ZERO);
            turns.push(turn);
            assert!(turns.len() < 10_000, "it does not end");
        }
        (course.finish().expect("it has ended"), turns)
    }

    #[test]
    fn calls_of_some_nanoseconds_come_to_an_end() {
        let (hand_shake, call) = (Duration::from_micros(5), 50e-9);
        let limits = Purpose::Rank.limits();
        let mut course = Course::new(limits, None).with_hand_shake(hand_shake);
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut calls: u32 = 0;
        while let Some(turn) = course.next_turn(&mut rng) {
            calls += turn.calls;
            // No estimate of such calls is ever certain.
            let seconds = (0..turn.calls).map(|_| call * rng.random_range(0.1..10.0));
            let seconds = seconds.collect();
            course.saw(turn, seconds, Duration::ZERO);
        }
        assert!(hand_shake * calls < 2 * limits.max, "{calls} calls");
    }

    #[test]
    fn calls_with_long_preparations_come_to_an_end_after_many_rounds() {
        let limits = Purpose::Rank.limits();
        let rounds = |preparing: Duration| {
            let mut course = Course::new(limits, None);
            let mut rng = ChaCha8Rng::seed_from_u64(2);
            let mut taken = Duration::ZERO;
            while let Some(turn) = course.next_turn(&mut rng) {
                // No estimate of such calls is ever certain.
                let seconds = (0..turn.calls).map(|_| 1e-5 * rng.random_range(0.1..10.0));
                let seconds: Vec<f64> = seconds.collect();
                taken += preparing * turn.calls;
                course.saw(turn, seconds, preparing * turn.calls);
            }
            (
                course.finish().expect("it has ended").candidate.len(),
                taken,
            )
        };
        let (without, _) = rounds(Duration::ZERO);
        let (short, _) = rounds(Duration::from_micros(50));
        assert_eq!(short, without, "the budget is spent by calls");
        let (some, taken) = rounds(Duration::from_millis(1));
        assert!(
            some < without && some > MANY_ROUNDS as usize,
            "{some} rounds"
        );
        assert!(taken < 2 * PREPARING * limits.max, "{taken:?}");
        let (least, _) = rounds(Duration::from_secs(1));
        assert_eq!(least, MANY_ROUNDS as usize);
    }

    /// Measures calls of about 10 µs, each one or two per cent off, if hand-shakes differ by `error_seconds`. Returns
    /// the number of rounds, the stop reason and the standard error.
    fn short_calls(error_seconds: f64) -> (usize, StopReason, f64) {
        let resolution = Resolution {
            error_seconds,
            ..Resolution::default()
        };
        let limits = Limits::SECOND_LOOK;
        let mut course = Course::new(limits, None).with_resolution(resolution);
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        while let Some(turn) = course.next_turn(&mut rng) {
            // The machine keeps its state for a while, so the effective number of calls is smaller than their count.
            let state = 1.0 + 0.3 * rng.random::<f64>();
            let seconds =
                (0..turn.calls).map(|_| 1e-5 * state * (1.0 + 0.02 * rng.random::<f64>()));
            let seconds = seconds.collect();
            course.saw(turn, seconds, Duration::ZERO);
        }
        let finished = course.finish().expect("it has ended");
        (
            finished.candidate.len(),
            finished.stop,
            finished.estimate.log_se,
        )
    }

    #[test]
    fn nothing_is_measured_finer_than_hand_shakes_let_it_be_known() {
        let (exact, _, _) = short_calls(0.0);
        let (some, _, _) = short_calls(1e-9);
        assert_eq!(exact, some, "a nanosecond of ten microseconds is nothing");
        // An error of 2.8 % in a comparison is hidden; a quarter of it adds almost nothing.
        let (rounds, stop, log_se) = short_calls(2e-7);
        assert_eq!(stop, StopReason::Precise);
        assert!(log_se <= 0.25 * 2f64.sqrt() * 2e-2 * 1.05, "{log_se}");
        assert!(2 * rounds < exact, "{rounds} rounds instead of {exact}");
    }

    #[test]
    fn both_sides_have_a_turn_in_every_round_and_in_random_order() {
        let (finished, turns) = drive(3e-4, 4e-4, Purpose::Certify, 1);
        let rounds: Vec<_> = turns.chunks(2).collect();
        assert!(rounds.iter().all(|r| r.len() == 2 && r[0].who != r[1].who));
        let ours_first = rounds.iter().filter(|r| r[0].who == Who::Candidate).count();
        assert!(ours_first > rounds.len() / 4 && ours_first < rounds.len() * 3 / 4);
        assert_eq!(finished.candidate.len(), rounds.len());
        assert_eq!(finished.stop, StopReason::Precise);
        assert!((finished.estimate.log_ratio - (4.0f64 / 3.0).ln()).abs() < 1e-9);
    }

    #[test]
    fn the_first_call_warms_up_unless_it_is_slow() {
        let (quick, turns) = drive(3e-4, 4e-4, Purpose::Rank, 2);
        assert_eq!((turns[0].calls, turns[1].calls), (1, 1));
        assert!(quick.candidate[0].counted().is_empty());
        let (slow, _) = drive(0.2, 4e-4, Purpose::Screen, 2);
        assert_eq!(slow.candidate[0].counted().len(), 1);
        assert_eq!(slow.stop, StopReason::Budget, "a short look was asked for");
        assert_eq!(
            slow.candidate
                .iter()
                .map(|b| b.seconds.len())
                .sum::<usize>(),
            2,
            "a call that takes more than the budget is made twice and not more often"
        );
    }

    #[test]
    fn nothing_is_finished_before_it_is_enough() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut course = Course::new(Purpose::Rank.limits(), None);
        let turn = course.next_turn(&mut rng).expect("a first turn");
        course.saw(turn, vec![1e-3], Duration::ZERO);
        assert_eq!(course.call(Who::Candidate), Some(Duration::from_millis(1)));
        assert_eq!(course.finish(), None);
    }
}
