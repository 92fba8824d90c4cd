//! Timing: calls of the candidate and of a baseline in turn, by this process' clock.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use flopsmith_measure::time::{Course, Finished, Limits, MemoryRoof, Resolution, Turn, Who};
use flopsmith_protocol::CandidateFault;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use crate::baseline::Baseline;
use crate::error::Error;
use crate::outcome::{Failure, Speed, Timed};
use crate::problem::Problem;
use crate::reference::{Layout, Reference};
use crate::verify::{Bench, inputs_are_whole, judge, outputs, prepare};
use crate::worker::{SLOW, Stop, Worker};

/// Empty calls that measure a hand-shake.
const HAND_SHAKES: usize = 15;
/// Hand-shakes differ from process to process by about this share of their length.
const SHARE: f64 = 0.02;
/// Share of the timed calls whose results are compared in full.
const CHECKED: f64 = 0.25;
/// Results of fewer bytes may be equal by chance.
const TELLING: usize = 64;
/// Longest timed call.
const LONGEST: Duration = Duration::from_secs(20);
/// A candidate may use this much processor time outside of its calls in all, for each call to answer and to read the next
/// order, and as a share of the time in its calls.
const OFF_CLOCK: Duration = Duration::from_millis(5);
const OFF_CLOCK_CALL: Duration = Duration::from_micros(50);
const OFF_CLOCK_SHARE: f64 = 0.02;

/// Times a candidate, which was built for this workload, against every baseline.
pub(crate) fn time(
    worker: &mut Worker,
    problem: &Problem,
    bench: &mut Bench,
    limits: Limits,
    rng: &mut ChaCha8Rng,
) -> Result<Timed, Stop> {
    let eager = problem.baselines.iter().copied();
    let eager = eager.filter(|baseline| baseline.mode().is_none());
    let compiled = bench.compiled.iter().map(|(baseline, _)| *baseline);
    let baselines: Vec<Baseline> = eager.chain(compiled).collect();
    let mut speeds = Vec::new();
    for baseline in baselines {
        speeds.push(against(worker, problem, bench, baseline, limits, rng)?);
    }
    Ok(Timed {
        workload: bench.workload.name.clone(),
        speeds,
    })
}

/// Refuses times in which this machine cannot even write the results. The operations of the reference bound nothing: a
/// candidate may need fewer. Nor do the inputs: nothing says that a candidate must read all of them.
pub(crate) fn plausible(
    roof: &mut MemoryRoof,
    layout: &Layout,
    timed: &Timed,
) -> Result<(), Error> {
    let seconds = timed.speeds.iter().map(|speed| speed.candidate_seconds);
    let least = seconds.reduce(f64::min);
    let why = least.and_then(|seconds| roof.why_implausible(layout.written_bytes(), seconds));
    match why {
        None => Ok(()),
        Some(why) => Err(Error::Implausible {
            detail: format!("at {}: {why}", timed.workload),
        }),
    }
}

/// The process of a baseline.
fn process(bench: &mut Bench, baseline: Baseline) -> &mut Reference {
    let mut compiled = bench.compiled.iter_mut();
    match compiled.find(|(of, _)| *of == baseline) {
        Some((_, process)) => process,
        None => &mut bench.eager,
    }
}

fn against(
    worker: &mut Worker,
    problem: &Problem,
    bench: &mut Bench,
    baseline: Baseline,
    limits: Limits,
    rng: &mut ChaCha8Rng,
) -> Result<Speed, Stop> {
    let resolution = resolution(worker, bench, baseline)?;
    let hand_shake = Duration::from_secs_f64(resolution.hand_shake_seconds);
    let mut course = Course::new(limits, None)
        .with_hand_shake(hand_shake)
        .with_resolution(resolution);
    let mut watch = Watch::default();
    while let Some(turn) = course.next_turn(rng) {
        let began = Instant::now();
        let mut seconds = Vec::with_capacity(turn.calls as usize);
        for _ in 0..turn.calls {
            let took = match turn {
                Turn {
                    who: Who::Candidate,
                    ..
                } => candidate_call(worker, problem, bench, &mut watch, rng)?,
                Turn {
                    who: Who::Baseline, ..
                } => baseline_call(bench, baseline, rng)?,
            };
            seconds.push(took.as_secs_f64());
        }
        course.saw(turn, seconds, began.elapsed());
    }
    watch.judge()?;
    let finished: Finished = course.finish().ok_or_else(|| Error::Process {
        process: "the stopwatch",
        detail: "a measurement ended without a result".into(),
    })?;
    let estimate = finished.estimate;
    let hidden = resolution.log_se(estimate.candidate, estimate.baseline);
    Ok(Speed::of(baseline.name(), &finished, hidden))
}

/// One timed call of the candidate on fresh inputs and parameters, so that nothing derived from either serves two calls.
/// Every call must leave its inputs alone, and the results of some, which are drawn after the call, are compared in full.
fn candidate_call(
    worker: &mut Worker,
    problem: &Problem,
    bench: &mut Bench,
    watch: &mut Watch,
    rng: &mut ChaCha8Rng,
) -> Result<Duration, Stop> {
    let state = bench.fresh(rng, "plain", true)?;
    // Parameters first: the inputs do not exist yet while the worker copies them, which takes off-clock time.
    let parameters_at = bench.loaded.layout.parameters_at;
    let parameters = state.get(parameters_at as usize..).unwrap_or_default();
    worker.arena.write(parameters_at, parameters)?;
    worker.ask(&json!({"do": "parameters"}), SLOW)?;
    // Work from here on would be work before the clock.
    watch.begin(worker.used());
    prepare(&worker.arena, &bench.loaded.layout, &state)?;
    watch.before(worker.used());
    let took = worker.call(LONGEST)?;
    // The clock is read before the outputs: a candidate that answers early and works on meanwhile has used time between calls.
    watch.after(worker.used(), took);
    let found = outputs(worker, bench)?;
    watch.end(worker.used());
    inputs_are_whole(worker, bench, &state)?;
    // A timed call gives no gradients, so their bytes are the same in all.
    let length = bench.loaded.layout.results_length();
    watch.is_new(found.get(..length).unwrap_or(&found))?;
    if rng.random::<f64>() < CHECKED || !watch.checked {
        watch.checked = true;
        judge(problem, bench, &found)?;
    }
    Ok(took)
}

/// One timed call of a baseline on fresh inputs.
fn baseline_call(
    bench: &mut Bench,
    baseline: Baseline,
    rng: &mut ChaCha8Rng,
) -> Result<Duration, Error> {
    let state = bench.fresh(rng, "plain", false)?;
    let layout = bench.loaded.layout.clone();
    let side = process(bench, baseline);
    // This process writes for all sides, also what the eager process has just made, so that the bytes are equally far
    // from each side's cores.
    prepare(&side.arena, &layout, &state)?;
    side.call()
}

/// Measures the hand-shakes of both sides.
fn resolution(
    worker: &mut Worker,
    bench: &mut Bench,
    baseline: Baseline,
) -> Result<Resolution, Stop> {
    let mut ours = f64::INFINITY;
    let mut theirs = f64::INFINITY;
    for _ in 0..HAND_SHAKES {
        ours = ours.min(worker.empty_call()?.as_secs_f64());
        theirs = theirs.min(process(bench, baseline).empty_call()?.as_secs_f64());
    }
    let longest = ours.max(theirs);
    Ok(Resolution {
        hand_shake_seconds: longest,
        taken_off_seconds: 0.0,
        error_seconds: SHARE * longest,
    })
}

/// The processor time of the candidate's process outside of its calls.
#[derive(Debug, Default)]
struct Watch {
    /// The processor time when the candidate last had nothing to do.
    last: Option<Duration>,
    /// Number of calls.
    calls: u32,
    /// Processor time between calls.
    outside: Duration,
    /// Time in calls.
    inside: Duration,
    /// True once a timed call was compared in full.
    checked: bool,
    /// Digests of the results so far.
    seen: BTreeSet<[u8; 32]>,
}

impl Watch {
    /// Work from now on counts as work between calls.
    fn begin(&mut self, used: Option<Duration>) {
        self.last = used;
    }

    fn count(&mut self, used: Option<Duration>) {
        if let (Some(last), Some(used)) = (self.last, used) {
            self.outside += used.saturating_sub(last);
        }
    }

    fn before(&mut self, used: Option<Duration>) {
        self.count(used);
        self.calls += 1;
    }

    fn after(&mut self, used: Option<Duration>, took: Duration) {
        self.last = used;
        self.inside += took;
    }

    fn end(&mut self, used: Option<Duration>) {
        self.count(used);
        self.last = None;
    }

    /// Refuses results that an earlier call had: fresh inputs give other ones.
    fn is_new(&mut self, results: &[u8]) -> Result<(), Failure> {
        if results.len() < TELLING || self.seen.insert(*blake3::hash(results).as_bytes()) {
            return Ok(());
        }
        Err(Failure::new(
            CandidateFault::SkippedWork,
            "a timed call gave the result of an earlier one, although its inputs were others",
        ))
    }

    /// Refuses a candidate that worked between its calls.
    fn judge(&self) -> Result<(), Failure> {
        let share = self.inside.mul_f64(OFF_CLOCK_SHARE);
        let permitted = OFF_CLOCK.max(share + OFF_CLOCK_CALL * self.calls);
        if self.outside <= permitted {
            return Ok(());
        }
        Err(Failure::new(
            CandidateFault::LeftRunning,
            format!(
                "it used {:.1} ms of processor time between its calls",
                1e3 * self.outside.as_secs_f64()
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use flopsmith_protocol::StopReason;
    use serde_json::from_value;

    use super::*;
    use crate::outcome::Samples;

    /// Results of `rows` rows of 4 KiB each, and calls that took this long beside each baseline.
    fn measured(rows: u64, seconds: [f64; 2]) -> (Layout, Timed) {
        let layout = json!({
            "outputs": [{ "offset": 0, "shape": [rows, 1024], "dtype": "float32" }],
            "expected": [],
            "parameters_at": 0,
            "upstream_at": 0,
            "outputs_at": 0,
            "expected_at": rows << 12,
            "bytes": rows << 12,
        });
        let speed = |candidate_seconds| Speed {
            baseline: "eager",
            speedup: 1.0,
            low: 1.0,
            high: 1.0,
            log_se: 0.01,
            candidate_seconds,
            baseline_seconds: 1.0,
            rounds: 10,
            stop: StopReason::Precise,
            samples: Samples::default(),
        };
        let timed = Timed {
            workload: "wide".into(),
            speeds: seconds.map(speed).into(),
        };
        (from_value(layout).expect("a layout"), timed)
    }

    #[test]
    fn results_that_cannot_be_written_in_the_time_are_implausible() {
        let mut roof = MemoryRoof::measure(&[]);
        let mut judged = |rows, seconds| {
            let (layout, timed) = measured(rows, seconds);
            assert_eq!(layout.written_bytes(), 4096 * rows);
            plausible(&mut roof, &layout, &timed)
        };
        // A GiB in a second, in a microsecond beside one of the baselines, and no results to speak of.
        assert!(judged(1 << 18, [1.0, 1.0]).is_ok());
        let error = judged(1 << 18, [1.0, 1e-6]).expect_err("no memory is so fast");
        assert!(matches!(error, Error::Implausible { .. }), "{error:?}");
        assert!(error.to_string().starts_with("at wide: "), "{error}");
        assert!(judged(0, [1e-6, 1e-6]).is_ok());
    }

    #[test]
    fn work_after_an_early_answer_counts_as_work_between_calls() {
        let ms = |n: u64| Some(Duration::from_millis(n));
        let mut early = Watch::default();
        for call in 0..10u64 {
            let start = 30 * call;
            early.begin(ms(start));
            early.before(ms(start));
            early.after(ms(start + 10), Duration::from_millis(10));
            early.end(ms(start + 13));
        }
        let failure = early.judge().expect_err("3 ms of each call are missing");
        assert_eq!(failure.fault, CandidateFault::LeftRunning);
        // Between the end of a call and the next one the supervisor asks for other things.
        let mut honest = Watch::default();
        for call in 0..10u64 {
            let start = 30 * call;
            honest.begin(ms(start));
            honest.before(ms(start));
            honest.after(ms(start + 10), Duration::from_millis(10));
            honest.end(ms(start + 10));
        }
        assert!(honest.judge().is_ok());
    }

    #[test]
    fn a_result_that_comes_again_is_refused() {
        let mut watch = Watch::default();
        assert!(watch.is_new(&[1; 128]).is_ok());
        assert!(watch.is_new(&[2; 128]).is_ok());
        let failure = watch.is_new(&[1; 128]).expect_err("it came before");
        assert_eq!(failure.fault, CandidateFault::SkippedWork);
        // A few bytes may be equal by chance.
        assert!(watch.is_new(&[3; 8]).is_ok() && watch.is_new(&[3; 8]).is_ok());
    }

    #[test]
    fn work_between_calls_is_found() {
        let ms = Duration::from_millis;
        let mut idle = Watch::default();
        let mut busy = Watch::default();
        for call in 0..20 {
            idle.before(Some(ms(10 * call)));
            idle.after(Some(ms(10 * call + 10)), ms(10));
            busy.before(Some(ms(20 * call)));
            busy.after(Some(ms(20 * call + 10)), ms(10));
        }
        assert!(idle.judge().is_ok());
        let failure = busy.judge().expect_err("it worked half of the time");
        assert_eq!(failure.fault, CandidateFault::LeftRunning);
        // A kernel that does not say how much time a process used proves nothing.
        let mut unknown = Watch::default();
        unknown.before(None);
        unknown.after(None, ms(1));
        assert!(unknown.judge().is_ok());
    }
}
