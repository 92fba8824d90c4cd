//! One measurement: bursts of candidate and baseline in random order, until it is enough.

use std::time::Duration;

use flopsmith_harness::Waiting;
use flopsmith_protocol::{CandidateFault, InfrastructureCause, StopReason};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::check::Check;
use super::decision::{self, Limits, Progress, SLOW_CALL};
use crate::Failure;
use crate::stats::{self, Burst, Estimate};
use crate::supervise::{Process, judge_stillness};

/// One fast call in so many is checked in full.
const FULL_CHECK_ONE_IN: u32 = 24;
/// Time for checking what is left when a measurement ends.
const REST: Duration = Duration::from_millis(20);
/// Bootstrap rounds while deciding, and for the result.
const RESAMPLES: (u32, u32) = (60, 300);
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
    /// The two floors.
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

/// The samples of one side so far.
#[derive(Default)]
struct Side {
    bursts: Vec<Burst>,
    prepares: Vec<f64>,
    call: Duration,
    spent: Duration,
}

impl Side {
    /// The call time to plan with: the fastest seen.
    fn saw(&mut self, call: Duration) {
        self.spent += call;
        self.call = if self.call.is_zero() {
            call
        } else {
            self.call.min(call)
        };
    }

    fn fastest_prepare(&self) -> f64 {
        self.prepares
            .iter()
            .copied()
            .reduce(f64::min)
            .unwrap_or(0.0)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Who {
    Candidate,
    Baseline,
}

impl Session<'_> {
    /// Measures until it is enough.
    pub fn run(&mut self, request: &Request) -> Result<Trial, Failure> {
        let mut ours = Side::default();
        let mut theirs = Side::default();
        let mut checked = 0;
        // The first call of each side tells how long calls take; it warms up unless it is slow.
        self.burst(Who::Candidate, 1, &mut ours, &mut checked)?;
        self.burst(Who::Baseline, 1, &mut theirs, &mut checked)?;
        for side in [&mut ours, &mut theirs] {
            let slow = side.call >= SLOW_CALL;
            side.bursts[0].warm_up = usize::from(!slow);
            side.spent = if slow { side.spent } else { Duration::ZERO };
        }
        let (estimate, stop) = loop {
            let mut order = [Who::Candidate, Who::Baseline];
            if self.rng.random() {
                order.reverse();
            }
            for who in order {
                let side = if who == Who::Candidate {
                    &mut ours
                } else {
                    &mut theirs
                };
                let luck = self.rng.random();
                let calls = decision::burst_calls(&request.limits, side.call, luck);
                self.burst(who, calls, side, &mut checked)?;
            }
            let seed = self.rng.random();
            let progress = Progress {
                spent: ours.spent + theirs.spent,
                calls: ours.bursts.iter().map(|b| b.counted().len() as u32).sum(),
                estimate: stats::estimate(&ours.bursts, &theirs.bursts, RESAMPLES.0, seed),
                best_log_ratio: request.best_log_ratio,
            };
            if let (Some(stop), Some(_)) = (
                decision::stop(&request.limits, &progress),
                progress.estimate,
            ) {
                let result = stats::estimate(&ours.bursts, &theirs.bursts, RESAMPLES.1, seed);
                break (result.or(progress.estimate), stop);
            }
        };
        if ours.call < SLOW_CALL {
            self.last_call(&mut checked)?;
        }
        let stillness = self.candidate.settle()?;
        judge_stillness(stillness, self.threads)?;
        self.settle_the_rest(theirs.call)?;
        let (candidate_prepare, baseline_prepare) =
            (ours.fastest_prepare(), theirs.fastest_prepare());
        if self.waiting == Waiting::Spin && !self.trusted {
            judge_prepares(&ours, &theirs)?;
        }
        let estimate = estimate.ok_or_else(|| Failure::Unknown {
            detail: "a measurement ended without samples".into(),
        })?;
        Ok(Trial {
            candidate: ours.bursts,
            baseline: theirs.bursts,
            estimate,
            stop,
            candidate_prepare,
            baseline_prepare,
            checked_in_full: checked,
        })
    }

    fn process(&mut self, who: Who) -> &mut Process {
        match who {
            Who::Candidate => &mut self.candidate,
            Who::Baseline => &mut self.baseline,
        }
    }

    fn burst(
        &mut self,
        who: Who,
        calls: u32,
        side: &mut Side,
        checked: &mut u32,
    ) -> Result<(), Failure> {
        let mut parked = None;
        let mut burst = Burst {
            seconds: Vec::new(),
            warm_up: decision::warm_up(calls),
        };
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
            side.saw(call);
            burst.seconds.push(call.as_secs_f64());
            // The first preparation after a pause finds the other side's data in the caches.
            if n > 0 {
                side.prepares.push(prepared.as_secs_f64());
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
        side.bursts.push(burst);
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
        Ok(())
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

/// Refuses a program in whose process even the fastest preparation of the inputs is slow: it works then, when nobody
/// takes the time. One that does so in some of the preparations only is not found by this; a quantile would find it, and
/// blame honest programs on busy machines.
fn judge_prepares(ours: &Side, theirs: &Side) -> Result<(), Failure> {
    let slower = |ours: f64, theirs: f64| ours > PREPARE_FACTOR * theirs + PREPARE_SLACK;
    let words = |ours: f64, theirs: f64| {
        format!(
            "preparing the inputs took {:.0} µs in this program's process and {:.0} µs beside it",
            ours * 1e6,
            theirs * 1e6
        )
    };
    let enough = |a: &[f64], b: &[f64]| a.len().min(b.len()) >= ENOUGH_PREPARES;
    let (fast, their_fast) = (ours.fastest_prepare(), theirs.fastest_prepare());
    if enough(&ours.prepares, &theirs.prepares) && slower(fast, their_fast) {
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
