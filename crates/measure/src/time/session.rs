//! One measurement: bursts of candidate and baseline in random order, until the course ends.

use std::time::{Duration, Instant};

use flopsmith_protocol::{CandidateFault, Failure, InfrastructureCause, StopReason, UnknownCause};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::adversarial::AdversarialCalls;
use super::baseline_oracle::Results;
use super::check::Check;
use super::course::{Course, Turn, Who};
use super::decision::{Limits, SLOW_CALL};
use super::numbers::stopped;
use super::off_clock::OffClock;
use super::remaining::{Calls, settle_all};
use super::resolution::Resolution;
use super::spot_checks::SpotChecks;
use crate::stats::{self, Burst, Estimate};
use crate::supervise::{Filler, Observer, Process, judge_stillness};
use crate::verify::cases::{Case, Finding};

/// One fast call in this many is checked in full.
const FULL_CHECK_ONE_IN: u32 = 24;
/// The same for calls with seeds for which each element can be checked closely.
const CLOSE_FULL_CHECK_ONE_IN: u32 = 8;
/// Below this, seconds, the hand-shake matters: it takes some microseconds, and its length is known to some per cent.
const SHORT_CALL: f64 = 1e-3;
/// Time for the checks that are left when a measurement ends.
const REST: Duration = Duration::from_millis(20);
/// Processor time that a candidate may use while the baseline has its turn. The candidate sleeps when that turn begins,
/// so honest ones need none.
const PARKED_SLACK: Duration = Duration::from_micros(100);

/// A measurement to make.
pub struct Request {
    /// How long to measure.
    pub limits: Limits,
    /// Speed of the best program known, for giving up early.
    pub best_log_ratio: Option<f64>,
}

/// The result of a session.
#[derive(Serialize)]
pub struct Trial {
    /// Bursts of the candidate.
    pub candidate: Vec<Burst>,
    /// Bursts of the baseline.
    pub baseline: Vec<Burst>,
    /// The estimate of their ratio.
    pub estimate: Estimate,
    /// The reason for its end.
    pub stop: StopReason,
    /// Reading of the clock for a call that does nothing, which was subtracted from all other readings, seconds.
    #[serde(rename = "empty_call_seconds")]
    pub empty_call: f64,
    /// Time that the candidate's process used before the clock started and after it had answered; the candidate's times
    /// include it, seconds.
    #[serde(rename = "charged_seconds")]
    pub charged: f64,
    /// Number of calls whose every element was checked.
    pub checked_in_full: u32,
    /// Number of calls with adversarial inputs between the timed ones.
    pub adversarial_calls: u32,
    /// Cores on which each thread of the candidate was allowed to run at the end.
    pub thread_cores: Vec<Vec<usize>>,
}

impl Trial {
    /// Adds the error of clock and hand-shake, which no scatter shows. If the estimate is then too uncertain for
    /// `limits`, the measurement did not converge.
    pub fn hold(&mut self, resolution: &Resolution, limits: &Limits) {
        self.estimate = resolution.widen(&self.estimate);
        self.stop = stopped(self.stop, limits, self.estimate.log_se);
    }

    /// The candidate's calls that count, seconds.
    pub fn counted(&self) -> impl Iterator<Item = f64> + '_ {
        let bursts = self.candidate.iter();
        bursts.flat_map(|burst| burst.counted().iter().copied())
    }

    /// Median absolute deviation of the candidate's calls that count from their median, as a share of it.
    pub fn mdape(&self) -> f64 {
        stats::mdape(&self.counted().collect::<Vec<f64>>())
    }
}

/// The processes of one measurement.
pub struct Session<'a> {
    /// Knows the expected results.
    pub check: Check<'a>,
    /// The program that is measured.
    pub candidate: Process,
    /// The program that it is compared with.
    pub baseline: Process,
    /// Makes the inputs of both.
    pub filler: Filler,
    /// The times of calls, and the time used before them.
    pub off_clock: OffClock,
    /// The error that hand-shakes leave in every comparison.
    pub resolution: Resolution,
    /// How long a call may take.
    pub call_limit: Duration,
    /// Threads the candidate may use.
    pub threads: u32,
    /// True if calls shall find none of their arrays in a cache.
    pub cold: bool,
    /// True if the candidate is one of the problem's own programs.
    pub trusted: bool,
    /// The calls that can be checked closely.
    pub spot_checks: SpotChecks,
    /// The calls that are not timed.
    pub adversarial: AdversarialCalls<'a>,
    /// Source of the seeds and of the order.
    pub rng: ChaCha8Rng,
}

impl<'a> Calls<'a> for Session<'a> {
    fn check(&mut self) -> &mut Check<'a> {
        &mut self.check
    }

    fn call_baseline(&mut self, seed: u64) -> Result<(), Failure> {
        self.call(Who::Baseline, seed, true).map(|_| ())
    }
}

impl Session<'_> {
    /// Measures until the course ends.
    pub fn run(&mut self, request: &Request) -> Result<Trial, Failure> {
        let mut course = Course::new(request.limits, request.best_log_ratio)
            .with_hand_shake(Duration::from_secs_f64(self.off_clock.least()))
            .with_resolution(self.resolution);
        let (mut checked, mut adversarial_calls) = (0, 0);
        // The first turn may be the candidate's. The time that a call uses after its answer must be known by then.
        self.empty_call()?;
        while let Some(turn) = course.next_turn(&mut self.rng) {
            let slow = course
                .call(Who::Candidate)
                .is_some_and(|call| call >= SLOW_CALL);
            let adversarial = match turn.who {
                Who::Candidate => self.adversarial.in_burst(turn.calls, slow, &mut self.rng),
                Who::Baseline => None,
            };
            adversarial_calls += u32::from(adversarial.is_some());
            let began = Instant::now();
            let (seconds, untimed) = self.burst(turn, adversarial, &mut checked)?;
            // A program must not end its measurement sooner by calls that do not count.
            let taken = began.elapsed().saturating_sub(untimed);
            // For longer calls the hand-shake is negligible. A burst of the baseline has replaced the candidate's data
            // in the caches.
            let short = seconds.iter().all(|&s| s < SHORT_CALL);
            if turn.who == Who::Baseline && short && self.filler.spins() {
                self.empty_call()?;
            }
            self.spot_checks.spent(seconds.iter().sum());
            course.saw(turn, seconds, taken);
        }
        let call = |who| course.call(who).unwrap_or_default();
        let (our_call, their_call) = (call(Who::Candidate), call(Who::Baseline));
        if our_call < SLOW_CALL {
            let adversarial = self.adversarial.rest();
            adversarial_calls += adversarial.len() as u32;
            self.last_calls(&adversarial, &mut checked)?;
        }
        let stillness = self.candidate.settle()?;
        judge_stillness(stillness, self.threads)?;
        let thread_cores = self.candidate.thread_cores();
        self.settle_the_rest(their_call)?;
        if !self.trusted {
            self.off_clock.judge()?;
        }
        let finished = course.finish().ok_or_else(|| {
            Failure::unknown(
                UnknownCause::NoSamples,
                "the measurement ended without samples",
            )
        })?;
        Ok(Trial {
            candidate: finished.candidate,
            baseline: finished.baseline,
            estimate: finished.estimate,
            stop: finished.stop,
            empty_call: self.off_clock.least(),
            charged: self.off_clock.charged(),
            checked_in_full: checked,
            adversarial_calls,
            thread_cores,
        })
    }

    /// Processor time that the session's processes have used so far, all together.
    pub fn processor_time(&mut self) -> Result<Duration, Failure> {
        let called = self.candidate.cpu_time()? + self.baseline.cpu_time()?;
        Ok(called + self.filler.cpu_time()?)
    }

    fn process(&mut self, who: Who) -> &mut Process {
        match who {
            Who::Candidate => &mut self.candidate,
            Who::Baseline => &mut self.baseline,
        }
    }

    /// Brings the process that is called next to rest, and its threads as well: they must neither slow the other side
    /// nor see the inputs of the next call before its time starts.
    fn rest(&mut self, who: Who) -> Result<(), Failure> {
        let threads = self.threads;
        let process = self.process(who);
        let rested = if threads > 1 {
            process
                .settle()
                .and_then(|stillness| judge_stillness(stillness, threads))
        } else {
            process.park()
        };
        rested.map_err(|f| told(who, f))
    }

    /// Calls one side with inputs that are made while its process sleeps. Returns the seconds that count, and the time
    /// on the clock. Before the `last` call of a burst the sleeps of the process are counted.
    fn call(&mut self, who: Who, seed: u64, last: bool) -> Result<(f64, Duration), Failure> {
        self.rest(who)?;
        if last {
            self.process(who).before_last_call();
        }
        let scalars = self.check.results().specification.registers_of(seed);
        let process = match who {
            Who::Candidate => &mut self.candidate,
            Who::Baseline => &mut self.baseline,
        };
        process.set_scalars(scalars);
        let check = &mut self.check;
        let mut observer: Box<dyn Observer + '_> = match who {
            Who::Candidate => {
                check.draw(&mut self.rng);
                Box::new(OfCandidate(check))
            }
            Who::Baseline => Box::new(OfBaseline { check, seed }),
        };
        let called = self
            .filler
            .call(process, seed, self.cold, self.call_limit, &mut *observer)
            .map_err(|f| told(who, f))?;
        drop(observer);
        let used = self.filler.used_since(process, &called);
        let used = used.map_err(|f| told(who, f))?;
        let seconds = match who {
            Who::Candidate => self.off_clock.of_candidate(called, used),
            Who::Baseline => self.off_clock.of_baseline(called, used),
        };
        Ok((seconds, called.clocked))
    }

    /// Lets the process of the baseline do nothing, in the same way as for a call.
    fn empty_call(&mut self) -> Result<(), Failure> {
        self.rest(Who::Baseline)?;
        let seed = self.rng.random();
        let empty = self.filler.empty_call(&mut self.baseline, seed);
        let empty = empty.map_err(|f| told(Who::Baseline, f))?;
        let used = self.filler.used_since(&mut self.baseline, &empty)?;
        self.off_clock.saw_empty(empty, used);
        self.filler.park()
    }

    /// Lets one side make its calls. Returns the seconds of each, and the time of calls that are not timed.
    fn burst(
        &mut self,
        Turn { who, calls }: Turn,
        adversarial: Option<(u32, &Case)>,
        checked: &mut u32,
    ) -> Result<(Vec<f64>, Duration), Failure> {
        let mut untimed = Duration::ZERO;
        // A candidate that does not sleep takes its share of the core, and slows the baseline. For a candidate that
        // sleeps, the kernel has booked all the time used so far.
        let parked = match who {
            Who::Candidate => None,
            Who::Baseline => {
                judge_stillness(self.candidate.settle()?, self.threads)?;
                Some(self.candidate.cpu_time()?)
            }
        };
        let mut close = match who {
            Who::Candidate => self.spot_checks.burst(calls, &mut self.rng),
            Who::Baseline => Vec::new(),
        }
        .into_iter();
        let mut seconds = Vec::with_capacity(calls as usize);
        for number in 0..calls {
            if let Some((_, case)) = adversarial.filter(|(before, _)| *before == number) {
                let began = Instant::now();
                self.adversarial_call(case)?;
                untimed += began.elapsed();
            }
            let (due, close) = match who {
                Who::Baseline => (self.check.due(), None),
                Who::Candidate => (None, close.next().flatten()),
            };
            let seed = due.or(close).unwrap_or_else(|| self.rng.random());
            let last = number + 1 == calls;
            let (counted, call) = self.call(who, seed, last)?;
            seconds.push(counted);
            if who == Who::Baseline {
                // The candidate sleeps, or should: it maps the same buffers.
                self.check.some_inputs_of_baseline(seed, &mut self.rng)?;
                if due.is_some() || self.rng.random_ratio(1, FULL_CHECK_ONE_IN) {
                    self.check.inputs_of_baseline(seed)?;
                }
                if due.is_some() {
                    self.check.settle()?;
                }
            } else {
                self.check.probe(seed)?;
                let one_in = if close.is_some() {
                    CLOSE_FULL_CHECK_ONE_IN
                } else {
                    FULL_CHECK_ONE_IN
                };
                if call >= SLOW_CALL || self.rng.random_ratio(1, one_in) {
                    self.check.everything(seed)?;
                    *checked += 1;
                }
            }
        }
        self.filler.park()?;
        self.rest(who)?;
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
        Ok((seconds, untimed))
    }

    /// Calls the baseline for results of the candidate that have not been compared yet.
    fn settle_the_rest(&mut self, baseline_call: Duration) -> Result<(), Failure> {
        let affordable = REST.as_secs_f64() / baseline_call.as_secs_f64().max(1e-6);
        self.check
            .thin_out((affordable as usize).clamp(2, 256), &mut self.rng);
        settle_all(self)?;
        self.filler.park()?;
        self.rest(Who::Baseline)
    }

    /// Calls the candidate with adversarial inputs and judges the result, as verification does. The candidate finds them in
    /// the caches of its core, as those of timed calls.
    fn adversarial_call(&mut self, case: &Case) -> Result<(), Failure> {
        self.rest(Who::Candidate)?;
        let Results {
            arena, placement, ..
        } = self.check.results();
        case.fill(arena, placement);
        // Those of the timed calls are other ones each time as well.
        self.candidate.set_scalars(case.specification.registers());
        self.filler
            .call_with_given(&mut self.candidate, self.cold, self.call_limit)?;
        let finding = case.judge(arena, placement);
        let fault = match finding {
            Finding::Right(_) => return Ok(()),
            // The program was right when it was verified.
            Finding::Wrong(_) => CandidateFault::SkippedWork,
            Finding::InputChanged { .. } => CandidateFault::InputModified,
            Finding::BandBroken { .. } => CandidateFault::OutOfBounds,
        };
        arena.repair(placement);
        Err(Failure::candidate(
            fault,
            format!(
                "between timed calls ({}): {}",
                case.name(),
                case.words(&finding)
            ),
        ))
    }

    /// Makes the last calls, which are not timed, though no code in the jail can tell: the remaining adversarial cases, and
    /// among them one call like the timed ones that is always checked in full, and closely.
    fn last_calls(&mut self, adversarial: &[&Case], checked: &mut u32) -> Result<(), Failure> {
        let before = self.rng.random_range(0..=adversarial.len());
        for case in &adversarial[..before] {
            self.adversarial_call(case)?;
        }
        self.last_call(checked)?;
        for case in &adversarial[before..] {
            self.adversarial_call(case)?;
        }
        Ok(())
    }

    fn last_call(&mut self, checked: &mut u32) -> Result<(), Failure> {
        let seed = match self.spot_checks.last(&mut self.rng) {
            Some(seed) => seed,
            None => self.rng.random(),
        };
        self.call(Who::Candidate, seed, true)?;
        self.check.probe(seed)?;
        self.check.everything(seed)?;
        *checked += 1;
        self.filler.park()
    }
}

/// Reads the drawn results at the answer of a call of the candidate.
struct OfCandidate<'a, 'b>(&'a mut Check<'b>);

impl Observer for OfCandidate<'_, '_> {
    fn filling(&mut self) {}

    fn answered(&mut self) {
        self.0.snap();
    }
}

/// Makes the inputs that a call of the baseline will be checked by while the filler makes those of the call.
struct OfBaseline<'a, 'b> {
    check: &'a mut Check<'b>,
    seed: u64,
}

impl Observer for OfBaseline<'_, '_> {
    fn filling(&mut self) {
        if self.check.due() == Some(self.seed) {
            self.check.expect(self.seed);
        }
    }

    fn answered(&mut self) {}
}

/// Passes on a failure of the candidate; a failure of the baseline is not the candidate's fault.
fn told(who: Who, failure: Failure) -> Failure {
    match (who, failure) {
        (Who::Candidate, failure) => failure,
        (Who::Baseline, failure) => Failure::infrastructure(
            InfrastructureCause::Baseline,
            format!("the baseline failed while it was measured: {failure}"),
        ),
    }
}
