//! Tests of the stopping rules and of the intervals on simulated machines whose true ratio is known.
//!
//! The tests run [`Course`], as a session does, with simulated calls instead of timed ones. They count twice which
//! share of intervals holds the truth: for the stated intervals, and for the part of them that comes from the rounds
//! alone. The other part, for errors that no scatter shows, is small on loud machines, so there both have to hold the
//! truth in 93 to 97 % of all cases. On quiet machines, where that part is large, the stated interval holds the truth
//! more often, and only the part from the rounds has an upper limit.
//!
//! Of all intervals on loud machines together 93 to 97 % have to hold the truth, with no allowance: there are tens of
//! thousands. On a single machine there are fewer, so each machine is allowed the deviation of such a count in one of
//! two hundred tries: with 2400 intervals 91.6 to 97.9 %.

mod models;
mod pauses;
mod ranking;
mod world;

use std::convert::Infallible;
use std::time::Duration;

use flopsmith_protocol::StopReason;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::certify::{PADDINGS, shared};
use super::combine::{look_repeatedly, over_layouts};
use super::course::{Course, Finished, Who};
use super::decision::{Limits, Purpose};
use crate::stats::{Estimate, SYSTEMATIC_LOG_SE};
use models::{MODELS, Model};
use world::{Part, World};

/// Seconds of a candidate's call unless a test says otherwise.
const CALL: f64 = 3e-4;
/// ln(baseline / candidate) unless a test says otherwise.
const TRUTH: f64 = 0.25;
/// Two-sided 95 % quantile of a normal distribution.
const NORMAL: f64 = 1.959_964;

/// Measurements in each model.
const RUNS: u32 = 2400;

/// The allowed share of `runs` intervals that hold the truth: 93 to 97 %, give or take the deviation of such a count in
/// one of two hundred tries, since some sixty are made here.
fn allowed(runs: u32) -> std::ops::RangeInclusive<f64> {
    let off = |share: f64| 2.6 * (share * (1.0 - share) / f64::from(runs)).sqrt();
    0.93 - off(0.93)..=0.97 + off(0.97)
}

/// Measures a program in a world. `call` holds the seconds of candidate and baseline.
fn measure(
    world: &mut World,
    call: (f64, f64),
    limits: Limits,
    best: Option<f64>,
    seed: u64,
) -> Finished {
    let mut rng = ChaCha8Rng::seed_from_u64(!seed);
    let mut course = Course::new(limits, best);
    while let Some(turn) = course.next_turn(&mut rng) {
        let base = match turn.who {
            Who::Candidate => call.0,
            Who::Baseline => call.1,
        };
        let seconds = world.burst(turn.who, base, turn.calls);
        course.saw(turn, seconds, Duration::ZERO);
    }
    course.finish().expect("a measurement that has ended")
}

/// A candidate whose calls take `call` seconds, and ln(baseline / candidate).
#[derive(Debug, Clone, Copy)]
struct Program {
    call: f64,
    truth: f64,
}

impl Program {
    /// A program with calls of this many seconds that is faster than the baseline by [`TRUTH`].
    fn of(call: f64) -> Self {
        Self { call, truth: TRUTH }
    }
}

/// Measures a program in a fresh world.
fn once(parts: &[Part], program: Program, limits: Limits, seed: u64) -> Finished {
    let mut world = World::new(parts, seed);
    let calls = (program.call, program.call * program.truth.exp());
    measure(&mut world, calls, limits, None, seed)
}

/// How many of some intervals hold the truth, as shares.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Coverage {
    /// Share of the intervals that users are shown.
    stated: f64,
    /// Share of the intervals that the rounds alone would give.
    shown: f64,
}

impl Coverage {
    /// The coverage of some estimates of one truth.
    fn of(estimates: &[Estimate], truth: f64) -> Self {
        let share = |holds: &dyn Fn(&Estimate) -> bool| {
            estimates.iter().filter(|e| holds(e)).count() as f64 / estimates.len() as f64
        };
        let stated = |e: &Estimate| e.low <= truth && truth <= e.high;
        Self {
            stated: share(&stated),
            shown: share(&|e| {
                // With fewer than three rounds the rounds alone give no interval.
                if e.rounds < 3 {
                    stated(e)
                } else {
                    (e.log_ratio - truth).abs() <= NORMAL * e.sampling_log_se
                }
            }),
        }
    }

    /// The mean of coverages over equally many intervals each.
    fn mean(all: &[Coverage]) -> Self {
        let n = all.len() as f64;
        Self {
            stated: all.iter().map(|c| c.stated).sum::<f64>() / n,
            shown: all.iter().map(|c| c.shown).sum::<f64>() / n,
        }
    }
}

/// How many of `runs` measurements have an interval that holds the truth.
fn coverage(parts: &[Part], program: Program, limits: Limits, runs: u32) -> Coverage {
    let estimates: Vec<Estimate> = (0..u64::from(runs))
        .map(|seed| once(parts, program, limits, seed).estimate)
        .collect();
    Coverage::of(&estimates, program.truth)
}

/// Compares the coverage by the rounds in each model with the allowed range, and reports all models outside of it at
/// once. Returns the coverage of each model.
fn hold(models: &[Model], program: Program, limits: Limits, runs: u32) -> Vec<(Model, Coverage)> {
    let allowed = allowed(runs);
    let all: Vec<(Model, Coverage)> = models
        .iter()
        .map(|model| (*model, coverage(model.parts, program, limits, runs)))
        .collect();
    let mut off = Vec::new();
    for (model, found) in &all {
        eprintln!(
            "{}: {:.1} %, by the rounds alone {:.1} %",
            model.name,
            100.0 * found.stated,
            100.0 * found.shown
        );
        if !allowed.contains(&found.shown) {
            off.push((model.name, *found));
        }
    }
    assert!(
        off.is_empty(),
        "{program:?}: {off:?} are not in {allowed:?}"
    );
    all
}

/// The coverages of the loud models.
fn loud(all: &[(Model, Coverage)]) -> Vec<Coverage> {
    let loud = all.iter().filter(|(model, _)| !model.quiet);
    loud.map(|(_, found)| *found).collect()
}

/// Compares the coverage of all loud machines together, with equally many measurements on each, with 93 to 97 %.
fn hold_pooled(loud: &[Coverage]) {
    let Coverage { stated, shown } = Coverage::mean(loud);
    let words = format!(
        "{:.2} % of the intervals on loud machines hold the truth, by the rounds alone {:.2} %",
        100.0 * stated,
        100.0 * shown
    );
    eprintln!("{words}");
    assert!(
        (0.93..=0.97).contains(&stated) && (0.93..=0.97).contains(&shown),
        "{words}"
    );
}

/// Some of the models.
fn named(names: &[&str]) -> Vec<Model> {
    let models = MODELS.into_iter().filter(|m| names.contains(&m.name));
    let models: Vec<Model> = models.collect();
    assert_eq!(models.len(), names.len(), "no such model");
    models
}

#[test]
fn intervals_of_rankings_hold_the_truth_in_every_model() {
    intervals_hold_the_truth(Purpose::Rank.limits());
}

#[test]
fn so_do_those_of_second_looks() {
    intervals_hold_the_truth(Limits::SECOND_LOOK);
}

fn intervals_hold_the_truth(limits: Limits) {
    let all = hold(&MODELS, Program::of(CALL), limits, RUNS);
    let allowed = allowed(RUNS);
    for (model, found) in &all {
        if model.quiet {
            assert!(found.stated >= 0.93, "{}: {found:?}", model.name);
        } else {
            let fits = allowed.contains(&found.stated);
            assert!(fits, "{}: {found:?}, not in {allowed:?}", model.name);
        }
    }
    hold_pooled(&loud(&all));
}

#[test]
fn intervals_of_screenings_hold_the_truth() {
    let limits = Purpose::Screen.limits();
    // A handful of rounds shows too little of the memory that one side keeps from one round to the next, and if every
    // other burst is spoilt the intervals of the rounds are too narrow.
    let others = ["loaded", "memories of their own"];
    let models: Vec<Model> = MODELS
        .into_iter()
        .filter(|m| !others.contains(&m.name))
        .collect();
    assert_eq!(models.len() + others.len(), MODELS.len());
    let program = Program::of(CALL);
    let all = hold(&models, program, limits, RUNS);
    for (model, found) in &all {
        assert!(found.stated >= 0.93, "{}: {found:?}", model.name);
    }
    let [loaded, own] = others.map(|name| coverage(named(&[name])[0].parts, program, limits, RUNS));
    assert!(loaded.stated >= 0.93, "loaded: {loaded:?}");
    assert!(own.stated >= 0.90, "memories of their own: {own:?}");
    // Together with the two models that are exempt.
    let mut loud = loud(&all);
    loud.extend([loaded, own]);
    hold_pooled(&loud);
}

#[test]
fn so_they_do_for_shorter_and_longer_calls() {
    let models = named(&["white", "neighbour of one", "middling clock", "tail"]);
    for call in [4e-5, 2e-3, 6e-3] {
        hold(&models, Program::of(call), Limits::SECOND_LOOK, RUNS / 2);
    }
}

#[test]
fn so_they_do_where_one_side_is_eight_times_as_slow() {
    // The bursts of the slow side have two calls, and those of the other side ten. Machines whose state changes within
    // such a burst are left out: there two calls in a row correlate on one side only, and no ratio of quantiles aims at
    // the truth.
    let names = [
        "white",
        "neighbour of one",
        "tail",
        "random walk",
        "slow clock",
    ];
    let models = named(&names);
    let far = 8f64.ln();
    for program in [
        Program {
            call: CALL,
            truth: far,
        },
        Program {
            call: 8.0 * CALL,
            truth: -far,
        },
    ] {
        hold(&models, program, Limits::SECOND_LOOK, RUNS / 2);
    }
}

#[test]
fn certified_intervals_hold_the_truth_in_every_model() {
    // A certified interval is the wider of two: from the differences between the layouts, and from the errors of each.
    // If the layouts do not differ both estimate one spread; one alone would miss the truth in 5 % of all cases, both
    // miss it in 1 to 2 %.
    let runs = 300;
    let least = *allowed(runs).start();
    let (mut off, mut all, mut loud) = (Vec::new(), Vec::new(), Vec::new());
    for model in MODELS {
        let share = certified(model.parts, runs);
        eprintln!("{}: {:.1} % certified", model.name, 100.0 * share);
        if share < least {
            off.push((model.name, share));
        }
        if !model.quiet {
            loud.push(share);
        }
        all.push(share);
    }
    assert!(off.is_empty(), "{off:?} are below {least}");
    assert!(mean(&all) >= 0.93, "{all:?}");
    // On quiet machines the errors that no scatter shows make the intervals wider still.
    let together = mean(&loud);
    eprintln!("all loud machines: {:.2} % certified", 100.0 * together);
    assert!(together <= 0.995, "too wide: {together} in {loud:?}");
}

fn mean(shares: &[f64]) -> f64 {
    shares.iter().sum::<f64>() / shares.len() as f64
}

/// The share of certifications whose interval holds the truth. Each look at a layout has fresh processes, and so a
/// world of its own.
fn certified(parts: &[Part], runs: u32) -> f64 {
    let limits = shared(&Purpose::Certify.limits(), PADDINGS.len());
    // More worlds than a certification has processes.
    const WORLDS: u64 = 32;
    let held = (0..u64::from(runs)).filter(|run| {
        let mut world = run * WORLDS;
        let looked = look_repeatedly(&PADDINGS, |_, _| {
            world += 1;
            Ok::<_, Infallible>(once(parts, Program::of(CALL), limits, world).estimate)
        });
        let Ok(estimates) = looked;
        let e = over_layouts(&estimates);
        e.low <= TRUTH && TRUTH <= e.high
    });
    held.count() as f64 / f64::from(runs)
}

#[test]
fn stated_intervals_cover_systematic_errors_without_much_excess() {
    // Both sides have an error that is the same in all their calls. Such a measurement is one layout of a
    // certification, the longest there is: shorter ones have a larger allowance for few calls.
    let limits = shared(&Purpose::Certify.limits(), PADDINGS.len());
    let with = |log_se: f64| {
        let parts = [
            Part::Jitter(0.003),
            Part::Process(log_se / std::f64::consts::SQRT_2),
        ];
        coverage(&parts, Program::of(CALL), limits, RUNS)
    };
    let promised = with(SYSTEMATIC_LOG_SE);
    assert!(promised.stated >= 0.95, "{promised:?}");
    assert!(
        promised.shown < 0.85,
        "the rounds cannot know it: {promised:?}"
    );
    let twice = with(2.0 * SYSTEMATIC_LOG_SE);
    assert!(twice.stated < 0.9, "it is wider than it says: {twice:?}");
}

#[test]
fn stopping_at_a_narrow_interval_does_not_ruin_it() {
    // The worst case for a rule that stops once an interval is narrow: it looks from the first moment on, and the
    // target is reached somewhere between a quarter and the whole of the budget, mostly where the interval is narrow by
    // luck.
    let limits = |target_log_se| Limits {
        min: Duration::ZERO,
        max: Duration::from_millis(250),
        target_log_se,
        usable_log_se: 2.0 * target_log_se,
    };
    for (name, target) in [("white", 0.002), ("skewed", 0.0028), ("warming up", 0.0025)] {
        let model = named(&[name])[0];
        let runs = 400;
        let early = (0..u64::from(runs))
            .filter(|&seed| {
                once(model.parts, Program::of(CALL), limits(target), seed).stop
                    == StopReason::Precise
            })
            .count();
        assert!(
            early > 200,
            "{name}: only {early} of {runs} end before the budget does"
        );
        hold(&[model], Program::of(CALL), limits(target), runs);
    }
}

#[test]
fn programs_one_percent_apart_are_ordered_rightly_on_quiet_machines() {
    let limits = Purpose::Rank.limits();
    for model in MODELS.iter().filter(|m| m.quiet) {
        let runs = 200u64;
        let right = (0..runs)
            .filter(|&run| {
                let log_ratio = |call: f64, seed: u64| {
                    let mut world = World::new(model.parts, seed);
                    let calls = (call, CALL * TRUTH.exp());
                    measure(&mut world, calls, limits, None, seed)
                        .estimate
                        .log_ratio
                };
                log_ratio(CALL, 2 * run) > log_ratio(CALL * 1.01, 2 * run + 1)
            })
            .count();
        eprintln!("{}: {right} of {runs}", model.name);
        assert!(
            right as u64 * 100 >= 95 * runs,
            "{}: {right} of {runs} are ordered rightly",
            model.name
        );
    }
}

#[test]
fn screenings_drop_what_is_clearly_slower_and_hardly_ever_the_best() {
    let limits = Purpose::Screen.limits();
    let runs = 200u64;
    for model in MODELS {
        let screened = |slower: f64, seed: u64| {
            let mut world = World::new(model.parts, seed);
            let calls = (CALL * slower, CALL * TRUTH.exp());
            measure(&mut world, calls, limits, Some(TRUTH), seed)
        };
        let dropped = |f: &Finished| f.stop == StopReason::Decided || f.estimate.high < TRUTH;
        let best = (0..runs)
            .filter(|&seed| screened(1.0, seed).stop == StopReason::Decided)
            .count();
        let slow = (0..runs)
            .filter(|&seed| dropped(&screened(1.3, !seed)))
            .count();
        eprintln!("{}: {best} of the best, {slow} slow ones", model.name);
        assert!(
            best <= 4,
            "{}: {best} of {runs} of the best are dropped",
            model.name
        );
        assert!(
            !model.quiet || slow as u64 * 100 >= 95 * runs,
            "{}: {slow} of {runs} slow ones are dropped",
            model.name
        );
    }
}

#[test]
fn unconverged_measurements_are_marked() {
    let limits = Limits::SECOND_LOOK;
    let seconds = |f: &Finished| -> f64 {
        let sides = f.candidate.iter().chain(&f.baseline);
        sides.flat_map(|b| &b.seconds).sum()
    };
    for model in MODELS {
        for seed in 0..30 {
            let f = once(model.parts, Program::of(CALL), limits, seed);
            let e = f.estimate;
            assert_ne!(f.stop, StopReason::Decided, "nothing was to be decided");
            if f.stop == StopReason::Precise {
                assert!(e.log_se <= limits.target_log_se && e.supported, "{e:?}");
                assert!(seconds(&f) >= limits.min.as_secs_f64());
            } else {
                let far = e.log_se > limits.usable_log_se;
                let expected = if far {
                    StopReason::Unconverged
                } else {
                    StopReason::Budget
                };
                assert_eq!(f.stop, expected, "{e:?}");
                assert!(seconds(&f) >= limits.max.as_secs_f64());
            }
        }
    }
    let noisy = named(&["noisy"])[0];
    let precise = (0..30).filter(|&seed| {
        once(noisy.parts, Program::of(CALL), limits, seed).stop == StopReason::Precise
    });
    assert!(
        precise.count() <= 2,
        "so much noise is not overcome in time"
    );
    let coarse = [Part::Jitter(0.2)];
    let lost = (0..30).filter(|&seed| {
        once(&coarse, Program::of(CALL), limits, seed).stop == StopReason::Unconverged
    });
    assert!(
        lost.count() >= 28,
        "and a number in much more of it is no result"
    );
}

#[test]
fn errors_constant_in_a_process_take_several_processes_to_see() {
    let parts = [Part::Jitter(0.01), Part::Process(0.006)];
    let one = coverage(&parts, Program::of(CALL), Limits::SECOND_LOOK, 400);
    assert!(
        one.stated < 0.7,
        "an interval from one process cannot know what is constant in it: {one:?}"
    );
    let runs = 300;
    let share = certified(&parts, runs);
    assert!(allowed(runs).contains(&share), "certified: {share}");
}

#[test]
fn spoilt_rounds_are_kept_and_counted() {
    let model = named(&["neighbour of one"])[0];
    let counted = (0..50).filter(|&seed| {
        let f = once(model.parts, Program::of(CALL), Limits::SECOND_LOOK, seed);
        let e = f.estimate;
        assert!(e.outlying <= e.rounds / 2);
        // The first call of each side only warms up; every other burst is part of a round.
        assert_eq!(e.rounds as usize, f.candidate.len() - 1);
        e.outlying > 0
    });
    let counted = counted.count();
    assert!(counted > 35, "{counted} of 50 have rounds without weight");
}

#[test]
fn worlds_and_measurements_repeat() {
    for model in MODELS {
        let limits = Purpose::Screen.limits();
        assert_eq!(
            once(model.parts, Program::of(CALL), limits, 7),
            once(model.parts, Program::of(CALL), limits, 7),
            "{}",
            model.name
        );
    }
}
