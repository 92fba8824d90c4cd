//! Problems with every kind of argument and of element, and programs for them: each says on its first line whether it is
//! right, or as what it is refused and by whom.
//!
//! - `right`: it passes all stages.
//! - `verified: FAULT`: the verifier refuses it.
//! - `timed: FAULT`: it is right for its first calls, and the timer refuses it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "../run/fixtures.rs"]
#[expect(dead_code, reason = "the other tests use the rest")]
mod fixtures;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flopsmith_compile::Compiler;
use flopsmith_compile::toolchain::Toolchain;
use flopsmith_measure::verify::soundness;
use flopsmith_measure::{Limits, Purpose, Sanitizers, Thoroughness, Verifier, sanitize};
use flopsmith_problem::{Finding, Language, Problem};
use flopsmith_protocol::{Failure, TechniqueSet};
use flopsmith_test_support::skipped;

/// The problems, and the one that needs `_Float16`.
const PROBLEMS: [&str; 9] = [
    "axpby", "bsquare", "cgemv", "gemver", HALF, "invert", "many", "mix64", "zmul",
];
const HALF: &str = "haxpy";
/// Problems whose programs are timed: with scalars, arrays in place, integers that no double holds, and a short type.
const TIMED: [&str; 5] = ["axpby", "bsquare", "gemver", HALF, "mix64"];

/// Long enough for some tens of calls.
const LONG: Limits = Limits {
    min: Duration::from_millis(60),
    max: Duration::from_millis(120),
    target_log_se: 0.0,
    usable_log_se: 1.0,
};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/arguments")
        .join(name)
}

/// A problem; none where the compiler lacks its type, which is said.
fn problem(name: &str) -> Option<Arc<Problem>> {
    let problem = Problem::load(&folder(name)).unwrap_or_else(|e| panic!("{e}"));
    if name == HALF
        && let Some(why) = half_is_missing(&problem)
    {
        skipped(&format!("{name}: {why}"));
        return None;
    }
    Some(Arc::new(problem))
}

fn half_is_missing(problem: &Problem) -> Option<String> {
    let toolchain = Toolchain::detect(None, problem).unwrap();
    let compiler = Compiler::new(fixtures::sandbox(), toolchain);
    let built = compiler.compile_as(
        Language::C,
        problem,
        &problem.reference_source,
        TechniqueSet::all(),
    );
    match built {
        Err(Failure::Infrastructure { detail, .. }) => {
            // No program is blamed for a type that is missing.
            assert!(detail.contains("_Float16"), "{detail}");
            Some(detail)
        }
        Err(other) => panic!("{other}"),
        Ok(_) => None,
    }
}

/// The stage that decides about a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Verifier,
    Timer,
    /// Neither refuses it.
    None,
}

/// How a program ends that is right.
const RIGHT: &str = "right";

struct Program {
    name: String,
    path: PathBuf,
    language: Language,
    source: String,
    stage: Stage,
    /// [`RIGHT`], or the name of a fault.
    ends: String,
}

/// The programs for a problem, in order.
fn programs(problem: &str) -> Vec<Program> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder(problem).join("programs"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let source = std::fs::read_to_string(&path).unwrap();
        let first = source.lines().next().unwrap();
        let first = first.trim_start_matches(['/', '!', ' ']).trim();
        let (stage, ends) = match first.split_once(": ") {
            None if first == RIGHT => (Stage::None, RIGHT),
            Some(("verified", fault)) => (Stage::Verifier, fault),
            Some(("timed", fault)) => (Stage::Timer, fault),
            _ => panic!("{}: {first}", path.display()),
        };
        let file = path.file_name().unwrap().to_string_lossy();
        Program {
            name: format!("{problem}, {file}"),
            language: Language::of_file(&path).unwrap(),
            stage,
            ends: ends.to_owned(),
            source: source.clone(),
            path: path.clone(),
        }
    };
    paths.into_iter().map(read).collect()
}

fn compiler(problem: &Problem) -> Compiler {
    let toolchain = Toolchain::detect(None, problem).unwrap();
    Compiler::new(fixtures::sandbox(), toolchain)
}

fn verifier(problem: &Arc<Problem>) -> Verifier {
    let toolchain = Toolchain::detect(None, problem).unwrap();
    Verifier::new(
        fixtures::sandbox(),
        fixtures::harness(),
        Arc::clone(problem),
        &toolchain,
        [3; 32],
    )
    .unwrap_or_else(|e| panic!("{}: {e}", problem.id))
}

/// An object: of a right program by the compile stage, of another one without its checks, which may refuse it. None where
/// there is no compiler for the language.
fn built(problem: &Problem, program: &Program) -> Option<Vec<u8>> {
    if program.stage != Stage::None {
        return Some(fixtures::built(problem, &program.path));
    }
    let compiler = compiler(problem);
    if let Err(why) = compiler.toolchain().driver(program.language) {
        skipped(&format!("{}: {why}", program.name));
        return None;
    }
    let built = compiler.compile_as(
        program.language,
        problem,
        &program.source,
        TechniqueSet::all(),
    );
    Some(
        built
            .unwrap_or_else(|e| panic!("{}: {e}", program.name))
            .object,
    )
}

/// How a program ended: [`RIGHT`], the name of a fault, or another failure in words.
fn ended<T>(result: Result<T, Failure>) -> String {
    match result {
        Ok(_) => RIGHT.to_owned(),
        Err(Failure::Candidate { fault, .. }) => fault.to_string(),
        Err(other) => other.to_string(),
    }
}

#[test]
fn the_references_keep_the_laws_and_their_bounds_are_tight() {
    let _alone = fixtures::alone();
    for problem in PROBLEMS.into_iter().filter_map(problem) {
        let toolchain = Toolchain::detect(None, &problem).unwrap();
        let examined = soundness::examine(
            &fixtures::sandbox(),
            &fixtures::harness(),
            &problem,
            &toolchain,
            1,
        )
        .unwrap();
        assert!(examined.ran, "{}: {:?}", problem.id, examined.findings);
        let weak = verifier(&problem).weaknesses(&toolchain, 2).unwrap();
        let found = examined.findings.into_iter().chain(weak);
        let errors: Vec<Finding> = found
            .chain(flopsmith_problem::check(&problem))
            .filter(Finding::is_error)
            .collect();
        assert_eq!(errors, [], "{}", problem.id);
    }
}

#[test]
fn laws_that_only_these_arguments_have_are_told() {
    let _alone = fixtures::alone();
    let axpby = problem("axpby").unwrap();
    let entry = "void axpby(int n, double alpha, const double *x, float beta, double *y)";
    for (body, says) in [
        ("y[i] = x[i] + beta * y[i]", "`alpha` does not matter"),
        ("y[i] = alpha * x[i] + y[i]", "`beta` does not matter"),
        (
            "y[i] = alpha * x[i] + beta",
            "what `y` holds before a call does not matter",
        ),
        (
            "y[i] += 0 * (alpha * x[i] + beta)",
            "is the same before and after a call",
        ),
    ] {
        let mut changed = Problem::clone(&axpby);
        changed.reference_source =
            format!("{entry}\n{{\n  for (int i = 0; i < n; i++) {body};\n}}\n");
        let toolchain = Toolchain::detect(None, &changed).unwrap();
        let examined = soundness::examine(
            &fixtures::sandbox(),
            &fixtures::harness(),
            &changed,
            &toolchain,
            1,
        )
        .unwrap();
        let errors = examined.findings.iter().filter(|f| f.is_error());
        let errors: Vec<String> = errors.map(ToString::to_string).collect();
        assert!(
            errors.iter().any(|error| error.contains(says)),
            "{body}: {errors:?}"
        );
    }
}

#[test]
fn right_programs_pass_and_wrong_ones_do_not() {
    let _alone = fixtures::alone();
    let mut wrong = Vec::new();
    let mut tried = 0;
    for name in PROBLEMS {
        let Some(problem) = problem(name) else {
            continue;
        };
        let mut verifier = verifier(&problem);
        for program in programs(name) {
            let Some(object) = built(&problem, &program) else {
                continue;
            };
            for seed in 0..3 {
                let thoroughness = if seed == 0 {
                    Thoroughness::Full
                } else {
                    Thoroughness::Screening
                };
                let found = verifier.verify_to(&object, seed, thoroughness);
                let text = format!("{}: {found:?}", program.name);
                if program.stage != Stage::Timer && ended(found) != program.ends {
                    wrong.push(text);
                }
            }
            tried += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried > 30, "{tried}");
}

#[test]
fn timed_calls_are_checked_whatever_their_arguments_are() {
    let _alone = fixtures::alone();
    let mut wrong = Vec::new();
    let mut tried = 0;
    for name in TIMED {
        let Some(problem) = problem(name) else {
            continue;
        };
        let toolchain = Toolchain::detect(None, &problem).unwrap();
        let (cores, part) = (fixtures::cores(), fixtures::ROUGH);
        let timer = fixtures::rough_timer(Arc::clone(&problem), &toolchain, cores, 1, part);
        let mut timer = timer.unwrap_or_else(|e| panic!("{name}: {e}"));
        timer.set_limits(Purpose::Screen, LONG);
        // The timer need not find what the verifier refuses before.
        let timed = programs(name).into_iter();
        for program in timed.filter(|program| program.stage != Stage::Verifier) {
            let Some(object) = built(&problem, &program) else {
                continue;
            };
            tried += 1;
            for seed in 0..2 {
                let found = timer.measure(&object, Purpose::Screen, seed, None);
                let found = found.map(|timed| timed.measurement);
                let text = format!("{}: {found:?}", program.name);
                if ended(found) != program.ends {
                    wrong.push(text);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // A machine may lack compilers of other languages, and a short type.
    assert!(tried >= 12, "{tried}");
}

#[test]
fn sanitized_programs_get_the_same_arguments() {
    if !sanitize::missing_runtimes(Path::new("gcc")).is_empty() {
        skipped("gcc has no static sanitizers");
        return;
    }
    let _alone = fixtures::alone();
    for name in PROBLEMS {
        let Some(problem) = problem(name) else {
            continue;
        };
        let toolchain = Toolchain::detect(None, &problem).unwrap();
        let sanitizers = Sanitizers::new(fixtures::sandbox(), Arc::clone(&problem), &toolchain, 1);
        let reference = sanitizers.check(&problem.reference_source, false);
        let reference = reference.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(
            reference.left_out.is_empty() && !reference.by.is_empty(),
            "{name}: {reference:?}"
        );
    }
    // It reads as many elements as a scalar says, so it is caught unless it gets that scalar.
    let many = problem("many").unwrap();
    let toolchain = Toolchain::detect(None, &many).unwrap();
    let sanitizers = Sanitizers::new(fixtures::sandbox(), Arc::clone(&many), &toolchain, 1);
    let source = many.reference_source.replacen(
        "for (int i = 0;",
        "if (p < 0.5 || p >= 2 || q < 0.5f || q >= 2 || d != 3 * n + 7 || w > n || w < -n) out[n] = 1;\n  for (int i = 0;",
        1,
    );
    let checked = sanitizers.check(&source, false);
    assert!(checked.is_ok(), "{checked:?}");
}

/// A kernel whose results say with which arguments it was called, so that the order of registers shows.
#[test]
fn values_stay_between_their_bounds_in_every_call() {
    let _alone = fixtures::alone();
    let problem = problem("axpby").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("axpby.c");
    // A value out of range would leave the result as it is, and that is wrong.
    let text = format!(
        "static double last;\n{}",
        problem.reference_source.replacen(
            "for (int i",
            "if (alpha < 0.5 || alpha >= 2 || beta < -1 || beta >= 1 || alpha == last) return;\n  last = alpha;\n  for (int i",
            1
        )
    );
    std::fs::write(&path, text).unwrap();
    let object = fixtures::built(&problem, &path);
    let mut timer = fixtures::rough_timer_of(problem);
    let measured = timer.measure(&object, Purpose::Screen, 1, None);
    assert!(measured.is_ok(), "{:?}", measured.map(|m| m.measurement));
}
