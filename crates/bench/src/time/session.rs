//! One measurement: bursts of candidate and baseline in random order, until it is enough.

use std::time::Duration;

use flopsmith_harness::Waiting;
use flopsmith_protocol::{CandidateFault, InfrastructureCause, StopReason};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::check::Check;
use super::course::{Course, Turn, Who};
use super::decision::{Limits, SLOW_CALL};
use crate::Failure;
use crate::stats::{Burst, Estimate};
use crate::supervise::{Process, judge_stillness};

/// One fast call in so many is checked in full.
const FULL_CHECK_ONE_IN: u32 = 24;
/// Time for checking what is left when a measurement ends.
const REST: Duration = Duration::from_millis(20);
/// Processor time a parked candidate may use until it is called again: falling asleep takes some.
const PARKED_SLACK: Duration = Duration::from_micros(400);
/// Preparing inputs may take this many times as long as in the baseline's process, and a little more.
const PREPARE_FACTOR: f64 = 1.6;
const PREPARE_SLACK: f64 = 40e-6;
/// Fewer preparations than this say nothing about the time they take.
const ENOUGH_PREPARES: usize = 5;

/// What to measure.
pub struct Request {
    /// How long.
    pub limits: Limits,
    /// When to give up early.
    pub best_log_ratio: Option<f64>,
}

/// What came out.
#[derive(Serialize)]
pub struct Trial {
    /// Bursts of the candidate.
    pub candidate: Vec<Burst>,
    /// Bursts of the baseline.
    pub baseline: Vec<Burst>,
    /// What they say about each other.
    pub estimate: Estimate,
    /// Why it ended.
    #[serde(skip)]
    pub stop: StopReason,
    /// The fewest seconds the candidate's process took to prepare inputs; 0 where calls are too slow to say.
    #[serde(rename = "candidate_prepare_seconds")]
    pub candidate_prepare: f64,
    /// The same in the baseline's process.
    #[serde(rename = "baseline_prepare_seconds")]
    pub baseline_prepare: f64,
    /// Calls whose every element was checked.
    pub checked_in_full: u32,
}

/// The processes of one measurement.
pub struct Session<'a> {
    /// Knows what must come out.
    pub check: Check<'a>,
    /// The program that is measured.
    pub candidate: Process,
    /// What it is measured against.
    pub baseline: Process,
    /// How long a call may take.
    pub call_limit: Duration,
    /// Threads the candidate may use.
    pub threads: u32,
    /// How the processes wait.
    pub waiting: Waiting,
    /// Shall calls find none of their arrays in a cache?
    pub cold: bool,
    /// Is the candidate one of the problem's own programs?
    pub trusted: bool,
    /// Seeds and order.
    pub rng: ChaCha8Rng,
}

/// Seconds that preparing the inputs took, in order, on both sides.
#[derive(Default)]
struct Prepares {
    candidate: Vec<f64>,
    baseline: Vec<f64>,
}

impl Session<'_> {
    /// Measures until it is enough.
    pub fn run(&mut self, request: &Request) -> Result<Trial, Failure> {
        let mut course = Course::new(request.limits, request.best_log_ratio);
        let mut prepares = Prepares::default();
        let mut checked = 0;
        while let Some(turn) = course.next_turn(&mut self.rng) {
            let seconds = self.burst(turn, &mut prepares, &mut checked)?;
            course.saw(turn, seconds);
        }
        let call = |who| course.call(who).unwrap_or_default();
        let (our_call, their_call) = (call(Who::Candidate), call(Who::Baseline));
        if our_call < SLOW_CALL {
            self.last_call(&mut checked)?;
        }
        let stillness = self.candidate.settle()?;
        judge_stillness(stillness, self.threads)?;
        self.settle_the_rest(their_call)?;
        if self.waiting == Waiting::Spin && !self.trusted {
            judge_prepares(&prepares)?;
        }
        let finished = course.finish().ok_or_else(|| Failure::Unknown {
            detail: "a measurement ended without samples".into(),
        })?;
        Ok(Trial {
            candidate: finished.candidate,
            baseline: finished.baseline,
            estimate: finished.estimate,
            stop: finished.stop,
            candidate_prepare: fastest(&prepares.candidate),
            baseline_prepare: fastest(&prepares.baseline),
            checked_in_full: checked,
        })
    }

    fn process(&mut self, who: Who) -> &mut Process {
        match who {
            Who::Candidate => &mut self.candidate,
            Who::Baseline => &mut self.baseline,
        }
    }

    /// Lets one side make its calls, and says how many seconds each took.
    fn burst(
        &mut self,
        Turn { who, calls }: Turn,
        prepares: &mut Prepares,
        checked: &mut u32,
    ) -> Result<Vec<f64>, Failure> {
        let mut parked = None;
        let mut seconds = Vec::with_capacity(calls as usize);
        for n in 0..calls {
            let due = match who {
                Who::Baseline => self.check.due(),
                Who::Candidate => None,
            };
            let seed = due.unwrap_or_else(|| self.rng.random());
            let prepared = self.process(who).prepare(seed).map_err(|f| told(who, f))?;
            if self.cold {
                self.process(who).chill().map_err(|f| told(who, f))?;
            }
            if who == Who::Baseline && n == 0 {
                // Now the baseline has the core, so the candidate has left it, and the kernel has
                // booked its time; a moment earlier it might still have been on its way to sleep.
                parked = Some(self.candidate.cpu_time()?);
            }
            let limit = self.call_limit;
            let call = self.process(who).call(limit).map_err(|f| told(who, f))?;
            seconds.push(call.as_secs_f64());
            // The first preparation after a pause finds the other side's data in the caches.
            if n > 0 {
                let side = match who {
                    Who::Candidate => &mut prepares.candidate,
                    Who::Baseline => &mut prepares.baseline,
                };
                side.push(prepared.as_secs_f64());
            }
            if due.is_some() {
                self.check.settle()?;
            }
            if who == Who::Candidate {
                self.check.probe(seed, &mut self.rng)?;
                if call >= SLOW_CALL || self.rng.random_ratio(1, FULL_CHECK_ONE_IN) {
                    self.check.everything(seed)?;
                    *checked += 1;
                }
            }
        }
        if self.threads > 1 {
            // Idle threads of one side must not slow the other.
            let stillness = self.process(who).settle().map_err(|f| told(who, f))?;
            judge_stillness(stillness, self.threads).map_err(|f| told(who, f))?;
        } else {
            self.process(who).park().map_err(|f| told(who, f))?;
        }
        if let Some(before) = parked {
            let spent = self.candidate.cpu_time()?.saturating_sub(before);
            if spent > PARKED_SLACK {
                return Err(Failure::candidate(
                    CandidateFault::LeftRunning,
                    format!(
                        "the program used {:.2} ms of processor time while the baseline was measured",
                        spent.as_secs_f64() * 1e3
                    ),
                ));
            }
        }
        Ok(seconds)
    }

    /// Calls the baseline for results of the candidate that nothing has been held against yet.
    fn settle_the_rest(&mut self, baseline_call: Duration) -> Result<(), Failure> {
        let affordable = REST.as_secs_f64() / baseline_call.as_secs_f64().max(1e-6);
        self.check
            .thin_out((affordable as usize).clamp(2, 256), &mut self.rng);
        while let Some(seed) = self.check.due() {
            let told = |f| told(Who::Baseline, f);
            self.baseline.prepare(seed).map_err(told)?;
            self.baseline.call(self.call_limit).map_err(told)?;
            self.check.settle()?;
        }
        self.baseline.park().map_err(|f| told(Who::Baseline, f))
    }

    /// The last call is always checked in full; it is not timed, but nothing inside can tell.
    fn last_call(&mut self, checked: &mut u32) -> Result<(), Failure> {
        let seed = self.rng.random();
        self.candidate.prepare(seed)?;
        self.candidate.call(self.call_limit)?;
        self.check.probe(seed, &mut self.rng)?;
        self.check.everything(seed)?;
        *checked += 1;
        Ok(())
    }
}

/// The fewest seconds; 0 of none.
fn fastest(seconds: &[f64]) -> f64 {
    seconds.iter().copied().reduce(f64::min).unwrap_or(0.0)
}

/// Refuses a program in whose process even the fastest preparation of the inputs is slow: it works then, when nobody
/// takes the time. One that does so in some of the preparations only is not found by this; a quantile would find it, and
/// blame honest programs on busy machines.
fn judge_prepares(prepares: &Prepares) -> Result<(), Failure> {
    let (ours, theirs) = (&prepares.candidate, &prepares.baseline);
    let slower = |ours: f64, theirs: f64| ours > PREPARE_FACTOR * theirs + PREPARE_SLACK;
    let words = |ours: f64, theirs: f64| {
        format!(
            "preparing the inputs took {:.0} µs in this program's process and {:.0} µs beside it",
            ours * 1e6,
            theirs * 1e6
        )
    };
    let enough = ours.len().min(theirs.len()) >= ENOUGH_PREPARES;
    let (fast, their_fast) = (fastest(ours), fastest(theirs));
    if enough && slower(fast, their_fast) {
        return Err(Failure::candidate(
            CandidateFault::SkippedWork,
            format!(
                "{}: work is done outside of the timed calls",
                words(fast, their_fast)
            ),
        ));
    }
    Ok(())
}

/// Whatever the baseline does wrong is not the candidate's fault.
fn told(who: Who, failure: Failure) -> Failure {
    match (who, failure) {
        (Who::Candidate, failure) => failure,
        (Who::Baseline, failure) => Failure::infrastructure(
            InfrastructureCause::Baseline,
            format!("the baseline failed while it was measured: {failure}"),
        ),
    }
}
