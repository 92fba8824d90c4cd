//! Several workloads of a problem: each is verified and timed, and the number is their geometric mean.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flopsmith_compile::{Compiler, Toolchain};
use flopsmith_measure::{
    Limits, Listener, Purpose, State, Step, Thoroughness, Timer, Verifier, Work,
};
use flopsmith_problem::{ErrorBound, Finding, Language, Problem};
use flopsmith_protocol::{CandidateFault as F, Failure, InfrastructureCause};
use flopsmith_test_support::skipped;
use serde_json::Value;

use crate::fixtures::{
    self, alone, built, cores, fault, harness, program, rough_timer_of, sandbox, toolchain,
    with_timed,
};

const SQUARES: &str = "[[timed]]\nn = 128\n[[timed]]\nname = \"larger\"\nn = 192\n";

fn squares() -> Arc<Problem> {
    with_timed("dgemm", SQUARES)
}

fn close(x: f64, y: f64) -> bool {
    (x / y - 1.0).abs() < 1e-9
}

/// The textbook, with other words behind the loops.
fn textbook_and(rest: &str) -> Vec<u8> {
    let text = format!(
        "void dgemm(int n, const double *A, const double *B, double *C)\n{{\n\
         for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) {{\n\
         double s = 0; for (int k = 0; k < n; k++) s += A[i * n + k] * B[k * n + j]; C[i * n + j] = s; }}\n\
         {rest}\n}}\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program.c");
    std::fs::write(&file, text).unwrap();
    built(&fixtures::problem(), &file)
}

#[test]
fn a_number_is_the_geometric_mean_over_all_workloads() {
    let _alone = alone();
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let listener = Listener::new(move |step: Step<'_>| {
        let workload = step.workload.to_owned();
        let place = (step.number, step.of);
        heard.lock().unwrap().push((step.work, workload, place));
    });
    let mut timer = fixtures::rough_timer_with(squares(), listener);
    let object = program("fast.c");
    let timed = timer.measure(&object, Purpose::Rank, 1, None).unwrap();
    // The listener is told of each workload, in the timer's start and in the measurement.
    let steps = [Work::Reference, Work::Program].map(|work| {
        let at = |name: &str, number: usize| (work, name.to_owned(), (number, 2));
        [at("n=128", 1), at("larger", 2)]
    });
    assert_eq!(*told.lock().unwrap(), steps.concat());
    let m = &timed.measurement;
    let names: Vec<&str> = m.workloads.iter().map(|w| w.name.as_str()).collect();
    assert_eq!(names, ["n=128", "larger"]);
    let root = |of: fn(&flopsmith_protocol::WorkloadMeasurement) -> f64| {
        m.workloads.iter().map(of).product::<f64>().sqrt()
    };
    assert!(close(m.ratio, root(|w| w.ratio)), "{m:?}");
    assert!(close(m.gflops, root(|w| w.gflops)), "{m:?}");
    assert!(close(m.seconds_per_call, root(|w| w.seconds_per_call)));
    assert!(close(m.share_of_peak, m.gflops / timer.peak_gflops()));
    assert_eq!(m.calls, m.workloads.iter().map(|w| w.calls).sum::<u32>());
    for (workload, n) in m.workloads.iter().zip([128.0f64, 192.0]) {
        let gflops = 2.0 * n.powi(3) / workload.seconds_per_call / 1e9;
        assert!(close(gflops, workload.gflops), "{workload:?}");
        // A product of matrices that fit a cache is bound by arithmetic.
        assert_eq!(workload.gb_per_second, None);
        assert!(workload.interval.low <= workload.ratio);
        assert!(workload.ratio <= workload.interval.high);
    }
    // The numbers of a program say the same, each workload's as well as the mean.
    assert!(close(m.ratio * timer.reference_gflops(), m.gflops));
    let each = timer.reference_gflops_of_each();
    for (workload, reference) in m.workloads.iter().zip(each) {
        assert!(close(workload.ratio * reference, workload.gflops));
    }
    assert_eq!(timer.places(m).len(), 2);
    assert!(timer.place(m).is_some_and(|place| place.share > 0.0));
    assert!(timer.hidden_log_se(m) > 0.0);
    let raw: Value = serde_json::from_slice(&timed.raw).unwrap();
    for (n, name) in names.iter().enumerate() {
        let kept = &raw["workloads"][n];
        assert_eq!(kept["name"], *name);
        assert!(kept["samples"]["candidate"].is_array());
    }
    assert!(!matches!(
        timer.canary().unwrap(),
        State::Quarantined { .. }
    ));
    // The chains of a later session on this machine.
    let chains = timer.chains();
    let mut later = rough_timer_of(squares());
    later.go_on_with(&chains);
    assert!((later.chain().log_ratio - chains.whole().log_ratio).abs() < 1e-12);
}

#[test]
fn one_selected_workload_is_measured_as_the_only_one_is() {
    let _alone = alone();
    let one = squares().select(&["larger"]).unwrap();
    let mut timer = rough_timer_of(Arc::new(one));
    let timed = timer
        .measure(&program("fast.c"), Purpose::Screen, 1, None)
        .unwrap();
    let m = timed.measurement;
    assert!(m.workloads.is_empty());
    let gflops = 2.0 * 192f64.powi(3) / m.seconds_per_call / 1e9;
    assert!(close(gflops, m.gflops));
    assert!(timer.reference_gflops_of_each().is_empty());
    let raw: Value = serde_json::from_slice(&timed.raw).unwrap();
    assert!(raw["candidate"].is_array() && raw.get("workloads").is_none());
}

#[test]
fn a_screening_ends_early_at_each_workload_by_what_was_seen_there() {
    let _alone = alone();
    let mut timer = rough_timer_of(squares());
    let limits = Limits {
        max: Duration::from_secs(4),
        target_log_se: 1e-9,
        ..Purpose::Screen.limits()
    };
    timer
        .measure(&program("fast.c"), Purpose::Screen, 1, None)
        .unwrap();
    timer.set_limits(Purpose::Screen, limits);
    let slow = timer.measure(&program("naive.c"), Purpose::Screen, 2, Some(1e6));
    let slow = slow.unwrap().measurement;
    let mut all = true;
    for workload in &slow.workloads {
        if workload.log_ratio_se > DECIDING {
            skipped(&format!("{}: calls scatter too much", workload.name));
            all = false;
        } else {
            assert_eq!(workload.stop.name(), "decided", "{workload:?}");
        }
    }
    assert!(!all || slow.stop.name() == "decided", "{slow:?}");
}

/// A screening decides once the standard error of ln(ratio) is no larger than this.
const DECIDING: f64 = 0.02;

#[test]
fn a_certificate_holds_for_every_workload() {
    let _alone = alone();
    let problem = squares();
    let toolchain = Toolchain::detect(None, &problem).unwrap();
    let source = problem.baseline_source.clone().unwrap();
    let layouts = Compiler::new(sandbox(), toolchain)
        .layouts(Language::C, &problem, &source, &[0, 64])
        .unwrap();
    let mut timer = rough_timer_of(problem);
    let limits = Limits {
        min: Duration::from_millis(60),
        max: Duration::from_millis(200),
        ..Purpose::Certify.limits()
    };
    timer.set_limits(Purpose::Certify, limits);
    let timed = timer.certify(&layouts, 1).unwrap();
    let m = timed.measurement;
    let whole = m.certificate.as_ref().unwrap();
    assert_eq!(whole.layout_ratios.len(), 2);
    let each: Vec<_> = m
        .workloads
        .iter()
        .map(|w| w.certificate.clone().unwrap())
        .collect();
    assert_eq!(each.len(), 2);
    for (n, ratio) in whole.layout_ratios.iter().enumerate() {
        let root = each
            .iter()
            .map(|c| c.layout_ratios[n])
            .product::<f64>()
            .sqrt();
        assert!(close(*ratio, root));
    }
    // The candidate is the baseline itself.
    let log = (m.ratio.ln() - timer.chain().log_ratio).abs();
    assert!(log < 0.5, "{m:?}");
}

#[test]
fn a_fault_at_one_workload_names_it() {
    let _alone = alone();
    let mut timer = rough_timer_of(squares());
    let object = textbook_and("if (n == 192) __builtin_trap();");
    let failed = timer.measure(&object, Purpose::Screen, 1, None);
    let (found, detail) = fault(failed.map(|t| t.measurement), "traps at 192");
    assert_eq!(found, F::Crash);
    assert!(detail.contains("(at the workload `larger`)"), "{detail}");
    // The timer goes on with the next program.
    timer
        .measure(&program("fast.c"), Purpose::Screen, 2, None)
        .unwrap();
}

/// 640 lies beyond the hidden sizes, so nothing but the workload meets it.
#[test]
fn every_candidate_is_verified_at_the_size_of_every_workload() {
    let _alone = alone();
    let problem = with_timed("dgemm", "[[timed]]\nn = 128\n[[timed]]\nn = 640\n");
    let toolchain = toolchain();
    let mut verifier = Verifier::new(sandbox(), harness(), problem, &toolchain, [9; 32]).unwrap();
    verifier.verify(&program("fast.c"), 1).unwrap();
    let wrong = textbook_and("if (n == 640) C[7] += 1e-9;");
    for seed in 0..3 {
        let (found, detail) = fault(verifier.verify(&wrong, seed), "wrong at 640");
        assert_eq!(found, F::WrongResult);
        assert!(detail.contains("n = 640"), "{detail}");
    }
    // It is right for even inputs.
    let uneven = textbook_and("if (n == 640) for (int i = 0; i < n * n; i++) C[i] += 1e-15;");
    let found = verifier.verify_to(&uneven, 5, Thoroughness::Full);
    assert_eq!(fault(found, "wrong for uneven inputs").0, F::WrongResult);
}

#[test]
fn a_workload_that_does_not_fit_into_memory_is_named_with_its_bytes() {
    let _alone = alone();
    let problem = with_timed("dgemm", "[[timed]]\nn = 128\n[[timed]]\nn = 1000000\n");
    let toolchain = toolchain();
    let timer = Timer::new(
        sandbox(),
        harness(),
        Arc::clone(&problem),
        &toolchain,
        cores(),
        1,
    );
    let verifier = Verifier::new(sandbox(), harness(), problem, &toolchain, [9; 32]);
    for failure in [
        timer.map(drop).unwrap_err(),
        verifier.map(drop).unwrap_err(),
    ] {
        let Failure::Infrastructure { cause, detail } = failure else {
            panic!("{failure:?}");
        };
        assert_eq!(cause, InfrastructureCause::Resources);
        let says = "the arrays of the workload `n=1000000` take 24000000000000 bytes";
        assert!(detail.starts_with(says), "{detail}");
    }
}

#[test]
fn weaknesses_are_found_at_every_workload() {
    let _alone = alone();
    let mut loose = Arc::unwrap_or_clone(with_timed("dgemm", SQUARES));
    loose.bound = ErrorBound::Gemm { c: 1e9 };
    let toolchain = Toolchain::detect(None, &loose).unwrap();
    let mut verifier =
        Verifier::new(sandbox(), harness(), Arc::new(loose), &toolchain, [5; 32]).unwrap();
    let findings = verifier.weaknesses(&toolchain, 3).unwrap();
    let bad = |f: &&Finding| f.is_error() || f.is_warning();
    let told: Vec<String> = findings
        .iter()
        .filter(bad)
        .map(ToString::to_string)
        .collect();
    for size in ["n = 128", "n = 192"] {
        let here = told
            .iter()
            .filter(|t| t.ends_with(&format!("(timed at {size})")));
        assert_eq!(here.count(), 3, "{size}: {told:?}");
    }
    assert_eq!(told.len(), 6, "{told:?}");
}

/// The definition of dgemm itself, of which other tests time the first workload only.
#[test]
fn the_shipped_product_is_timed_at_three_sizes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemm");
    let problem = Problem::load(&folder).unwrap();
    let sizes: Vec<i64> = problem.timed_sizes().iter().map(|p| p["n"]).collect();
    assert_eq!(sizes, [256, 512, 1024]);
}
