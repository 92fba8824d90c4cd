use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flopsmith_measure::{Limits, Purpose};
use flopsmith_problem::Formula;
use flopsmith_protocol::{
    CandidateFault as F, Failure, InfrastructureCause, StopReason, UnknownCause,
};
use flopsmith_test_support::skipped;

use crate::fixtures::{self, alone, fault, program, timer};

#[test]
fn a_fast_kernel_is_measured_beside_a_slow_one() {
    let _alone = alone();
    let mut timer = timer();
    let fast = timer
        .measure(&program("fast.c"), Purpose::Rank, 1, None)
        .unwrap()
        .measurement;
    let slow = timer
        .measure(&program("naive.c"), Purpose::Screen, 2, None)
        .unwrap()
        .measurement;
    eprintln!(
        "peak {:.1}, fast {fast:?}, slow {slow:?}",
        timer.peak_gflops()
    );
    assert!(fast.gflops > 3.0 * slow.gflops);
    assert!(fast.share_of_peak < 1.02 && fast.share_of_peak > 0.05);
    assert!(fast.interval.low <= fast.ratio && fast.ratio <= fast.interval.high);
    assert!(slow.calls >= 2);
    // The naive program is the reference. The precision depends on other processes on the machine; the example
    // `self_ratio` shows it.
    assert!((0.1..10.0).contains(&slow.ratio), "{}", slow.ratio);
    assert_eq!(fast.attestation, timer.attestation().digest());
    let gflops = 2.0 * 256f64.powi(3) / fast.seconds_per_call / 1e9;
    assert!((gflops / fast.gflops - 1.0).abs() < 1e-9);
    // The numbers of a program agree with each other.
    let told = slow.ratio * timer.reference_gflops();
    assert!((told / slow.gflops - 1.0).abs() < 1e-9);
    assert!(slow.median_seconds.is_some_and(|s| s > 1e-4));
    assert!(slow.minimum_seconds <= slow.median_seconds && slow.minimum_seconds > Some(0.0));
    let hidden = timer.resolution();
    assert!(hidden.hand_shake_seconds > 0.0 && hidden.error_seconds > 0.0);
    assert!(!hidden.hides(slow.seconds_per_call), "{hidden:?}");
}

#[test]
fn ratios_of_a_later_session_rest_on_the_first_ones_reference() {
    let _alone = alone();
    let mut timer = timer();
    // As if the reference were 20 times as slow, and measured imprecisely.
    let first = flopsmith_measure::Chain {
        log_ratio: timer.chain().log_ratio + 20f64.ln(),
        log_se: 0.5,
        ..timer.chain()
    };
    let object = program("fast.c");
    let own = timer.measure(&object, Purpose::Rank, 1, None).unwrap();
    timer.go_on_with(&first.into());
    let later = timer.measure(&object, Purpose::Rank, 2, None).unwrap();
    let (own, later) = (own.measurement, later.measurement);
    let raised = later.ratio / own.ratio;
    assert!((10.0..40.0).contains(&raised), "{raised}");
    // The error that all programs share widens the shown interval, but not the program's own error, by which programs
    // are compared and rewards are weighted.
    assert!(later.interval.high / later.interval.low > 4.0);
    assert!(later.log_ratio_se < 0.1, "{}", later.log_ratio_se);
    assert!(own.gflops / later.gflops < 2.0 && later.gflops / own.gflops < 2.0);
}

#[test]
fn programs_faster_than_the_machine_get_no_number_and_no_blame() {
    let _alone = alone();
    let mut problem = (*fixtures::problem()).clone();
    problem.work = Formula::parse("2000*n*n*n").unwrap();
    let mut timer = fixtures::timer_of(problem.into());
    let failure = timer
        .measure(&program("fast.c"), Purpose::Screen, 1, None)
        .unwrap_err();
    let Failure::Infrastructure { cause, detail } = failure else {
        panic!("{failure:?}");
    };
    assert_eq!(cause, InfrastructureCause::Implausible);
    assert!(detail.contains("measured peak"), "{detail}");
}

/// All shortest paths, with distances whose sums fit a byte, in arrays of bytes.
fn paths_in_bytes() -> Arc<flopsmith_problem::Problem> {
    let ints = "const int *weight, int *length";
    let bytes = "const uint8_t *weight, uint8_t *length";
    // The plain loop is the baseline, too.
    let shipped = flopsmith_test_support::shipped::problem("floyd_warshall");
    let reference = std::fs::read_to_string(shipped.join("reference.c")).unwrap();
    assert!(reference.contains(ints));
    let reference = format!("#include <stdint.h>\n{}", reference.replace(ints, bytes));
    let edited = fixtures::edited("floyd_warshall", |file, mut text| {
        if file != "problem.toml" {
            return reference.clone();
        }
        for (from, to) in [
            (ints, bytes),
            ("\"i32\"", "\"u8\""),
            (
                "{ kind = \"distances\", high = \"1000000000\" }",
                "{ kind = \"range\", low = \"1\", high = \"100\" }",
            ),
            ("[[timed]]\nn = 160", "[[timed]]\nn = 192"),
            ("2*n*n*4", "2*n*n"),
        ] {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        text
    });
    Arc::new(edited.only_first())
}

/// Vectors hold eight times as many bytes as doubles. Here the program does more than twice as many operations as the
/// peak of doubles permits.
#[test]
fn a_program_with_bytes_may_be_faster_than_any_with_floats() {
    let _alone = alone();
    let problem = paths_in_bytes();
    let mut timer = fixtures::timer_of(Arc::clone(&problem));
    let object = fixtures::program_of(&problem, "floyd_warshall_of_bytes.c");
    let measured = timer.measure(&object, Purpose::Screen, 1, None).unwrap();
    let gops = measured.measurement.gflops;
    let doubles = timer.attestation().peak.gflops;
    assert!(gops > doubles, "{gops} of {doubles}");
    assert!(measured.measurement.share_of_peak < 1.5);
}

#[test]
fn a_clearly_slower_program_is_decided_early_and_raw_samples_are_kept() {
    let _alone = alone();
    let mut timer = timer();
    // Only the decision ends it before its time budget, which is large.
    let limits = Limits {
        max: Duration::from_secs(2),
        target_log_se: 1e-9,
        ..Purpose::Screen.limits()
    };
    timer.set_limits(Purpose::Screen, limits);
    let timed = timer
        .measure(&program("ikj.c"), Purpose::Screen, 3, Some(1000.0))
        .unwrap();
    let m = &timed.measurement;
    assert_eq!(m.stop, StopReason::Decided, "{m:?}");
    assert_eq!(m.converged(), m.stop != StopReason::Unconverged);
    assert!(m.outlying <= m.rounds && m.rounds >= 1, "{m:?}");
    let raw: serde_json::Value = serde_json::from_slice(&timed.raw).unwrap();
    let bursts = raw["candidate"].as_array().unwrap();
    let calls: usize = bursts
        .iter()
        .map(|b| b["seconds"].as_array().unwrap().len())
        .sum();
    assert_eq!(calls, timed.measurement.calls as usize);
    assert!(raw["baseline"].as_array().unwrap().len() >= 2);
    // The roof of this measurement's share, which a run may have raised since the attestation.
    let roof = raw["peak"]["gflops"].as_f64().unwrap();
    let share = timed.measurement.gflops / roof;
    assert!((share / timed.measurement.share_of_peak - 1.0).abs() < 1e-9);
}

#[test]
fn a_measurement_says_what_went_on_around_it_and_how_the_baseline_did() {
    let _alone = alone();
    let mut timer = timer();
    let object = program("fast.c");
    let mut conditions = |seed| -> serde_json::Value {
        let timed = timer.measure(&object, Purpose::Screen, seed, None).unwrap();
        let raw: serde_json::Value = serde_json::from_slice(&timed.raw).unwrap();
        raw["conditions"].clone()
    };
    let first = conditions(1);
    assert!(first["baseline_drift"].is_null(), "{first}");
    for seed in 2..=5 {
        conditions(seed);
    }
    let later = conditions(6);
    // The noise depends on other processes; the test only checks that it is known.
    assert!(later["baseline_drift"].as_f64().unwrap() > -1.0, "{later}");
    let meanwhile = &later["meanwhile"];
    assert!(meanwhile["core_seconds"].as_f64().unwrap() > 0.0, "{later}");
    for share in ["stolen", "others"] {
        let share = meanwhile[share].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&share), "{later}");
    }
    timer.canary().unwrap();
    timer.go_on();
    assert!(!timer.quarantine_state().is_quarantine());
}

#[test]
fn timed_calls_that_do_not_do_their_work_are_found() {
    let _alone = alone();
    let mut timer = timer();
    let zoo = [
        ("nothing.c", vec![F::SkippedWork]),
        ("nan.c", vec![F::SkippedWork]),
        ("cached_by_pointer.c", vec![F::SkippedWork]),
        ("cached_by_fingerprint.c", vec![F::SkippedWork]),
        ("skips_after_some_calls.c", vec![F::SkippedWork]),
        ("skips_a_part.c", vec![F::SkippedWork]),
        ("says_done_early.c", vec![F::SkippedWork]),
        ("single_precision.c", vec![F::SkippedWork]),
        ("behind_the_end.c", vec![F::OutOfBounds]),
        ("changes_input.c", vec![F::InputModified]),
        ("loops.c", vec![F::Timeout]),
        ("crashes.c", vec![F::Crash]),
        ("exits.c", vec![F::Exited]),
        ("forks.c", vec![F::ForbiddenSyscall]),
        ("thread_left_running.c", vec![F::ForbiddenSyscall]),
    ];
    for (name, expected) in zoo {
        let result = timer
            .measure(&program(name), Purpose::Screen, 5, None)
            .map(|t| t.measurement);
        let (found, detail) = fault(result, name);
        eprintln!("{name}: {found}: {detail}");
        assert!(expected.contains(&found), "{name}: {found} ({detail})");
    }
    // The baseline survives, and the killed programs do not harm the next one.
    timer
        .measure(&program("fast.c"), Purpose::Screen, 6, None)
        .unwrap();
}

/// A timer of the usual problem on these cores.
fn timer_on(cores: flopsmith_machine::Cores, threads: u32) -> flopsmith_measure::Timer {
    let (problem, toolchain) = (fixtures::problem(), fixtures::toolchain());
    fixtures::rough_timer(problem, &toolchain, cores, threads, fixtures::ROUGH).unwrap()
}

#[test]
fn one_core_is_enough_for_a_sleeping_hand_shake() {
    let _alone = alone();
    let mut cores = crate::fixtures::cores();
    cores.supervisor = None;
    let mut timer = timer_on(cores, 1);
    let timed = timer
        .measure(&program("fast.c"), Purpose::Screen, 1, None)
        .unwrap();
    assert!(timed.measurement.gflops > 0.1);
    assert_eq!(timer.attestation().hand_shake, "sleep");
    assert!(
        timer
            .attestation()
            .advice()
            .iter()
            .any(|a| a.contains("supervisor"))
    );
}

/// Reports that it is over, also if a test fails.
struct Raises<'a>(&'a AtomicBool);

impl Drop for Raises<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// On a single core, a process that has answered may have to wait for the core before it can sleep.
#[test]
fn nobody_is_blamed_for_not_sleeping_on_one_busy_core() {
    let _alone = alone();
    let core = flopsmith_machine::pinning::allowed_cores()[0];
    let cores = flopsmith_machine::Cores {
        supervisor: None,
        kernel: vec![core],
    };
    let _pinned = flopsmith_machine::pinning::Pinned::to(Some(core)).unwrap();
    let mut timer = timer_on(cores, 1);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // It inherits the core.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let _end = Raises(&over);
        let (mut measured, mut much) = (0, Vec::new());
        for seed in 0..4 {
            match timer.measure(&program("fast.c"), Purpose::Screen, seed, None) {
                Ok(timed) => {
                    let raw: serde_json::Value = serde_json::from_slice(&timed.raw).unwrap();
                    let charged = raw["charged_seconds"].as_f64().unwrap();
                    let bursts = raw["candidate"].as_array().unwrap().iter();
                    let calls = bursts.map(|burst| burst["seconds"].as_array().unwrap().len());
                    let calls: usize = calls.sum();
                    // Going to sleep late takes some microseconds; making the inputs of one call takes more than 150.
                    let late = 60e-6 + 2e-6 * calls as f64;
                    much.extend((charged >= late).then(|| format!("{charged} s in {calls} calls")));
                    measured += 1;
                }
                // The machine may be too busy, which is not the program's fault.
                Err(Failure::Infrastructure { detail, .. }) => {
                    assert!(detail.contains("too busy"), "{detail}");
                    eprintln!("{detail}");
                }
                Err(Failure::Candidate { fault, detail }) => {
                    panic!("an honest program is blamed: {fault:?}, {detail}")
                }
                // On the only core, the busy loop may keep a harness from starting in time. That blames nobody either.
                Err(Failure::Unknown { detail, .. }) => {
                    assert!(detail.contains("not ready in time"), "{detail}");
                    eprintln!("{detail}");
                }
            }
        }
        // Now and then the busy loop takes the core for its whole slice of some milliseconds before a process can sleep,
        // and one call is charged for it. Charges for all inputs would show in every measurement.
        if measured == 0 {
            return skipped("the busy loop left the measured processes nothing of the only core");
        }
        assert!(much.len() < measured, "{much:?}");
    });
}

#[test]
fn two_threads_are_timed_and_none_may_stay_behind() {
    let _alone = alone();
    let allowed = flopsmith_machine::pinning::allowed_cores();
    if allowed.len() < 2 {
        skipped("two threads need two cores");
        return;
    }
    let cores = flopsmith_machine::Cores {
        supervisor: None,
        kernel: allowed[..2].to_vec(),
    };
    let mut timer = timer_on(cores, 2);
    let timed = timer
        .measure(&program("openmp.c"), Purpose::Screen, 1, None)
        .unwrap();
    assert!(timed.measurement.gflops > 0.1);
    let raw: serde_json::Value = serde_json::from_slice(&timed.raw).unwrap();
    let threads: Vec<Vec<usize>> = serde_json::from_value(raw["thread_cores"].clone()).unwrap();
    let each_its_own: Vec<Vec<usize>> = allowed[..2].iter().map(|&core| vec![core]).collect();
    assert_eq!(threads, each_its_own, "none may migrate");
    // It would crash if it ran while inputs are made.
    timer
        .measure(
            &program("helper_waits_for_inputs.c"),
            Purpose::Screen,
            2,
            None,
        )
        .unwrap();
    let left = timer.measure(&program("thread_left_running.c"), Purpose::Screen, 1, None);
    assert_eq!(
        fault(left.map(|t| t.measurement), "thread_left_running.c").0,
        F::LeftRunning
    );
}

#[test]
fn a_harness_that_is_told_to_sleep_holds_nobody_up() {
    let _alone = alone();
    let mut timer = timer();
    let started = std::time::Instant::now();
    timer
        .measure(
            &program("tells_the_harness_to_sleep.c"),
            Purpose::Screen,
            1,
            None,
        )
        .unwrap();
    assert!(started.elapsed() < std::time::Duration::from_secs(20));
    let started = std::time::Instant::now();
    let never = timer.measure(&program("sleeps_for_ever.c"), Purpose::Screen, 2, None);
    assert_eq!(
        fault(never.map(|t| t.measurement), "sleeps_for_ever.c").0,
        F::Timeout
    );
    // The limit of a call is at least a second. Waiting for a processor may take longer, sleeping may not.
    assert!(started.elapsed() < std::time::Duration::from_secs(6));
}

#[test]
fn unexpectedly_fast_programs_are_measured_again_at_length() {
    let _alone = alone();
    let mut timer = timer();
    let mut purpose = |best_known: f64| {
        let timed = timer.measure(&program("fast.c"), Purpose::Screen, 9, Some(best_known));
        let raw: serde_json::Value = serde_json::from_slice(&timed.unwrap().raw).unwrap();
        raw["purpose"].as_str().unwrap().to_owned()
    };
    assert_eq!(purpose(0.001), "rank");
    assert_eq!(purpose(1000.0), "screen");
}

#[test]
fn hand_shakes_of_a_busy_moment_make_no_program_faster() {
    let _alone = alone();
    let problem = fixtures::timed_at("dgemm", "n = 64");
    let toolchain = flopsmith_compile::Toolchain::detect(None, &problem).unwrap();
    let new = || {
        flopsmith_measure::Timer::new(
            fixtures::sandbox(),
            fixtures::harness(),
            Arc::clone(&problem),
            &toolchain,
            fixtures::cores(),
            1,
        )
    };
    let over = AtomicBool::new(false);
    let busy = std::thread::scope(|scope| {
        for core in flopsmith_machine::pinning::allowed_cores() {
            let over = &over;
            for _ in 0..2 {
                scope.spawn(move || {
                    let _pinned = flopsmith_machine::pinning::Pinned::to(Some(core)).unwrap();
                    while !over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
        }
        let _end = Raises(&over);
        new()
    });
    let mut timer = match busy {
        Ok(timer) => timer,
        Err(failure) if lacks_processor_time(&failure) => {
            return skipped(&format!("the machine was too busy: {failure}"));
        }
        Err(failure) => panic!("{failure}"),
    };
    let before = timer.resolution().taken_off_seconds;
    let quiet = new().unwrap().resolution().taken_off_seconds;
    if before < 1.3 * quiet {
        return skipped("busy cores did not lengthen the hand-shakes");
    }
    // A screening sees enough hand-shakes, unless something else disturbs them.
    for seed in 0..12 {
        let _measured = timer
            .measure(&program("fast.c"), Purpose::Screen, seed, None)
            .unwrap();
        if timer.resolution().taken_off_seconds < 1.1 * quiet {
            break;
        }
    }
    let after = timer.resolution().taken_off_seconds;
    // Two timers in quiet may differ by more than a tenth.
    let again = new().unwrap().resolution().taken_off_seconds;
    assert!(
        after < 1.15 * quiet.max(again),
        "{before} s, then {after} s; {quiet} s and {again} s in quiet"
    );
}

/// True if a timer failed because its own processes did not get the cores in time: a process did not fall asleep or
/// answer within its limit, or a measurement got no sample.
fn lacks_processor_time(failure: &Failure) -> bool {
    match failure {
        Failure::Infrastructure { cause, detail } => {
            let late = ["too busy", "cannot measure the hand-shake", "(timeout)"];
            matches!(
                cause,
                InfrastructureCause::Baseline | InfrastructureCause::Resources
            ) && late.iter().any(|words| detail.contains(words))
        }
        Failure::Unknown { cause, .. } => *cause == UnknownCause::NoSamples,
        Failure::Candidate { .. } => false,
    }
}
