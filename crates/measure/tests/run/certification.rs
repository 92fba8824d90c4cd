//! Certified numbers: five layouts of code and data, and calls without caches.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flopsmith_compile::{Compiler, Toolchain};
use flopsmith_measure::{Limits, PADDINGS, Purpose, Timer};
use flopsmith_problem::{Caches, Language, Problem};
use flopsmith_protocol::{CandidateFault, Failure, InfrastructureCause, Measurement, StopReason};
use flopsmith_test_support::sample::Part;
use flopsmith_test_support::skipped;
use object::{Object, ObjectSymbol};
use serde_json::Value;

use crate::fixtures::{
    alone, control_of, cores, edited, fault, program_of, rough_timer, rough_timer_of, sandbox,
    shipped,
};

/// Objects of the problem's baseline, each with another code layout.
fn layouts(problem: &Arc<Problem>, paddings: &[u32]) -> Vec<Vec<u8>> {
    let toolchain = Toolchain::detect(None, problem).unwrap();
    let source = problem.baseline_source.clone().unwrap();
    Compiler::new(sandbox(), toolchain)
        .layouts(Language::C, problem, &source, paddings)
        .unwrap()
}

/// Offset of a function in its page; a program is loaded at the start of a page.
fn place_of(object: &[u8], name: &str) -> u64 {
    let file = object::File::parse(object).unwrap();
    let symbol = file
        .dynamic_symbols()
        .find(|symbol| symbol.name().is_ok_and(|own| own == name))
        .unwrap();
    symbol.address() % 4096
}

/// Standard error that the placement of its pages adds to ln(ratio) of a single process. No certificate is asked to be
/// more precise, however well its layouts happen to agree.
const PLACED: f64 = 0.02;

/// A timer with short measurements, so that certificates are less precise. Seven processes of the reference and three of the
/// program would have half a minute for calls without caches.
fn soon(problem: Arc<Problem>) -> Timer {
    let toolchain = Toolchain::detect(None, &problem).unwrap();
    let mut timer = rough_timer(problem, &toolchain, cores(), 1, 4).unwrap();
    let limits = Limits {
        min: Duration::from_millis(60),
        max: Duration::from_millis(150),
        ..Purpose::Certify.limits()
    };
    timer.set_limits(Purpose::Certify, limits);
    timer
}

fn calls(side: &Value) -> usize {
    let bursts = side.as_array().unwrap();
    bursts
        .iter()
        .map(|burst| burst["seconds"].as_array().unwrap().len())
        .sum()
}

#[test]
fn a_certified_number_is_of_five_layouts_and_cold_calls_are_slower() {
    let _alone = alone();
    let problem = shipped("transpose");
    assert_eq!(problem.caches, Caches::Both);
    let layouts = layouts(&problem, &PADDINGS);
    let places: BTreeSet<u64> = layouts
        .iter()
        .map(|object| place_of(object, "transpose"))
        .collect();
    assert_eq!(places.len(), PADDINGS.len(), "{places:?}");

    let mut timer = soon(problem);
    let timed = timer.certify(&layouts, 1).unwrap();
    let m = timed.measurement;
    let certificate = m.certificate.as_ref().unwrap();
    assert_eq!(certificate.layout_ratios.len(), 5);
    // The candidate is the baseline itself, so ln of its ratio is the error, and the standard error states its size.
    // That rests on five layouts: by Student's t with 4 degrees of freedom, 3 standard errors are exceeded in 1.3 of 100
    // certificates. With the floor a certificate has to be 6 % off, which ten processes with `PLACED` each, 0.63 % in
    // the mean, never are (below 1e-20). If disturbances raise the spread of certificates to 1 or 2 %, it happens in
    // 2e-9 or 1e-3 of them.
    let log = (m.ratio.ln() - timer.chain().log_ratio).abs();
    match m.stop {
        // Such a certificate says itself that its figures scatter too much to be trusted.
        StopReason::Unconverged => skipped("the certificate did not converge"),
        _ => assert!(log < 3.0 * m.log_ratio_se.max(PLACED), "{m:?}"),
    }
    // 512 × 512 doubles fit a cache or not.
    let cold = certificate.cold_seconds_per_call.unwrap();
    assert!(cold > m.seconds_per_call, "{cold} {m:?}");
    let (ratio, interval) = (
        certificate.cold_ratio.unwrap(),
        certificate.cold_interval.unwrap(),
    );
    assert!(interval.low <= ratio && ratio <= interval.high);
    let cold_stop = certificate.cold_stop.unwrap();

    let raw: Value = serde_json::from_slice(&timed.raw).unwrap();
    let others = raw["layouts"].as_array().unwrap();
    // The first entry has its own check.
    let processes = others.len() + 1;
    assert!(
        processes.is_multiple_of(5) && processes >= 10,
        "{processes}: all places, twice at least"
    );
    let all = || std::iter::once(&raw).chain(others);
    for layout in all() {
        assert!(calls(&layout["candidate"]) > 1 && calls(&layout["baseline"]) > 1);
        assert!(layout["stop"].is_string(), "{}", layout["stop"]);
    }
    let kept: usize = all().map(|layout| calls(&layout["candidate"])).sum();
    assert_eq!(kept, m.calls as usize);
    let rounds: u64 = all()
        .map(|layout| layout["estimate"]["rounds"].as_u64().unwrap())
        .sum();
    assert_eq!(u64::from(m.rounds), rounds);
    assert!(calls(&raw["cold"]["candidate"]) > 1);
    let again = raw["cold_again"].as_array().unwrap();
    assert_eq!(again.len(), 2, "three processes without caches");
    let stops: Vec<_> = [&raw["cold"]].into_iter().chain(again).collect();
    assert!(stops.iter().any(|trial| trial["stop"] == cold_stop.name()));
    for trial in again {
        assert!(calls(&trial["candidate"]) > 1);
    }
    // The data of both sides had other addresses each time, and have their initial ones at the end.
    let offsets: Vec<String> = raw["page_offsets"]
        .as_array()
        .unwrap()
        .iter()
        .map(Value::to_string)
        .collect();
    assert_eq!(offsets.len(), processes);
    let different: BTreeSet<&String> = offsets.iter().collect();
    assert_eq!(different.len(), 5, "{different:?}");
    assert_eq!(offsets[..5], offsets[5..10]);
    timer
        .measure(&layouts[0], Purpose::Screen, 2, None)
        .unwrap();
}

/// Two certificates of one program differ by this factor at most, beside their intervals, which do not contain the differences
/// between processes.
const SAME: f64 = 1.05;

/// A program that knows a public formula of its inputs need not read them, which gains most where no cache holds them: up
/// to the whole time of the call. Each commit tries one of the problems.
#[test]
fn programs_that_undo_a_generator_gain_nothing_without_caches() {
    let _alone = alone();
    for name in Part::of_commit(2).of(["dot", "transpose"]) {
        let problem = shipped(name);
        assert_eq!(problem.caches, Caches::Both);
        let file = format!("from_the_generator_{name}.c");
        let control = control_of(&problem, &file);
        let attack = program_of(&problem, &file);
        let mut timer = soon(problem);
        let mut certified = |object: Vec<u8>, seed: u64| {
            let timed = timer.certify(&[object], seed);
            timed.map(|timed| timed.measurement)
        };
        let honest = certified(control, 1).unwrap();
        let found = match certified(attack, 2) {
            Ok(found) => found,
            refused => {
                let (fault, detail) = fault(refused, &file);
                let permitted = [CandidateFault::WrongResult, CandidateFault::SkippedWork];
                assert!(permitted.contains(&fault), "{detail}");
                continue;
            }
        };
        let certificate = |m: &Measurement| m.certificate.clone().unwrap();
        let (honest, found) = (certificate(&honest), certificate(&found));
        let unsure = |stop: Option<StopReason>| stop == Some(StopReason::Unconverged);
        if unsure(honest.cold_stop) || unsure(found.cold_stop) {
            skipped(&format!("{file}: calls without caches did not converge"));
            continue;
        }
        let (most, least) = (
            honest.cold_interval.unwrap().high,
            found.cold_interval.unwrap().low,
        );
        assert!(least <= SAME * most, "{file}: {least} instead of {most}");
    }
}

#[test]
fn a_problem_may_be_timed_without_caches_altogether() {
    let _alone = alone();
    let warm = Problem {
        caches: Caches::Warm,
        ..Arc::unwrap_or_clone(shipped("transpose"))
    };
    let cold = Problem {
        caches: Caches::Cold,
        ..warm.clone()
    };
    let layout = layouts(&shipped("transpose"), &PADDINGS[..1]);
    let certified = |problem: Problem| {
        let mut timer = soon(Arc::new(problem));
        let measurement = timer.certify(&layout, 3).unwrap().measurement;
        (measurement, timer.attestation().roofs.clone())
    };
    let ((warm, roofs), (cold, same)) = (certified(warm), certified(cold));
    assert_eq!(roofs, same, "they are measured once");
    assert!(cold.seconds_per_call > warm.seconds_per_call);
    let said = |m: &Measurement| m.certificate.clone().unwrap();
    assert_eq!(said(&warm).cold_ratio, None);
    assert!(said(&warm).cold_seconds_per_call.is_some());
    assert_eq!(said(&cold).cold_ratio, Some(cold.ratio));
    assert_eq!(said(&cold).cold_stop, Some(cold.stop));
    assert_eq!(
        said(&cold).cold_seconds_per_call,
        Some(cold.seconds_per_call)
    );
}

/// Transpositions of small matrices beside three mebibytes that count as written, and that every program leaves as they
/// were: all are faster than memory.
fn faster_than_memory() -> Arc<Problem> {
    const WORDS: [(&str, &str, &str); 6] = [
        ("problem.toml", "double *B);", "double *B, double *W);"),
        (
            "problem.toml",
            "\n]\n\n[[timed]]",
            "\n  { name = \"W\", element = \"f64\", role = \"inout\", shape = [\"98304\"], align = 64 },\n]\n\n[[timed]]",
        ),
        (
            "problem.toml",
            "[[timed]]\nm = 512\nn = 512",
            "[[timed]]\nm = 64\nn = 64",
        ),
        ("problem.toml", "2*m*n*8", "(m*n+98304)*8"),
        ("reference.c", "double *B)", "double *B, double *W)"),
        ("baseline.c", "double *B)", "double *B, double *W)"),
    ];
    let edited = edited("transpose", |file, mut text| {
        for (_, words, others) in WORDS.iter().filter(|(of, ..)| *of == file) {
            assert_eq!(text.matches(words).count(), 1, "{words} in {file}");
            text = text.replace(words, others);
        }
        text
    });
    Arc::new(edited.only_first())
}

/// No other check sees it: nothing of those bytes need be read, so warm calls have no roof of memory.
#[test]
fn programs_faster_than_uncached_memory_get_no_number_and_no_blame() {
    let _alone = alone();
    let problem = faster_than_memory();
    let layout = layouts(&problem, &PADDINGS[..1]);
    for caches in [Caches::Cold, Caches::Both] {
        let mut timer = rough_timer_of(Arc::new(Problem {
            caches,
            ..Problem::clone(&problem)
        }));
        // The arrays are renewed and compared at each of its calls, which take microseconds: hundreds of times in this span.
        let limits = Limits {
            min: Duration::from_micros(200),
            max: Duration::from_micros(400),
            ..Purpose::Certify.limits()
        };
        timer.set_limits(Purpose::Certify, limits);
        let failure = timer.certify(&layout, 1).unwrap_err();
        let Failure::Infrastructure { cause, detail } = failure else {
            panic!("{caches:?}: {failure:?}");
        };
        assert_eq!(cause, InfrastructureCause::Implausible, "{detail}");
        assert!(detail.contains("with cold caches"), "{caches:?}: {detail}");
    }
}
