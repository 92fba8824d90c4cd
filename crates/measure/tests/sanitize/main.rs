//! The sanitizers against real programs in the real jail. The first line of each program has the words that the report
//! must contain, or `nothing` with the reason. The programs are in C, C++ and Fortran; the test reports which languages
//! it leaves out for lack of a compiler. The verifier accepts all of them except the endless one: sanitizers exist to
//! find these.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "../run/fixtures.rs"]
#[expect(dead_code, reason = "some of it is for the tests of single stages")]
mod fixtures;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;

use flopsmith_compile::Compiler;
use flopsmith_compile::toolchain::Toolchain;
use flopsmith_measure::{Checked, Sanitizers, sanitize};
use flopsmith_problem::Language;
use flopsmith_protocol::{CandidateFault, Failure, Technique, TechniqueSet, UnknownCause};
use flopsmith_test_support::sample::Part;
use flopsmith_test_support::{shipped, skipped};

/// It also dies in the verifier.
const DOES_NOT_END: &str = "recursion_without_end.c";

fn sanitizers() -> &'static Sanitizers {
    static SANITIZERS: OnceLock<Sanitizers> = OnceLock::new();
    SANITIZERS.get_or_init(|| {
        let (sandbox, toolchain) = (fixtures::sandbox(), fixtures::toolchain());
        Sanitizers::new(sandbox, fixtures::problem(), &toolchain, 2)
    })
}

/// True if this machine has the tools; otherwise reports the reason.
fn is_here(threads: bool) -> bool {
    let mut missing = sanitize::missing_runtimes(Path::new("gcc"));
    if !threads {
        missing.retain(|name| *name != "libtsan.a");
    }
    let no_room = sanitize::no_room().filter(|_| threads);
    let why = (!missing.is_empty())
        .then(|| format!("gcc has no {}", missing.join(", ")))
        .or(no_room);
    if let Some(why) = &why {
        skipped(why);
    }
    why.is_none()
}

/// True if this machine has a compiler for a file's language; otherwise reports the reason.
fn is_built_here(name: &str) -> bool {
    let driver = fixtures::toolchain().driver(language(name));
    if let Err(why) = &driver {
        skipped(&format!("{name}: {why}"));
    }
    driver.is_ok()
}

fn language(name: &str) -> Language {
    Language::of_file(Path::new(name)).unwrap_or_else(|| panic!("{name} is in no language"))
}

/// The text after the mark of a comment.
fn comment(line: &str) -> &str {
    line.trim_start_matches(['/', '!']).trim()
}

/// The programs of a folder beside this file or of the corpus, in order: name and source.
fn programs(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    let named = files.into_iter().map(|file| {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        (name, std::fs::read_to_string(&file).unwrap())
    });
    named.collect()
}

fn one(folder: &str, name: &str) -> String {
    let all = programs(folder);
    let found = all.into_iter().find(|(file, _)| file == name);
    found.unwrap_or_else(|| panic!("there is no {name}")).1
}

/// Compiles a program like a candidate, and checks it with sanitizers.
fn look(compiler: &Compiler, name: &str, source: &str) -> (Vec<u8>, Result<Checked, Failure>) {
    let built = compiler
        .compile_as(
            language(name),
            &fixtures::problem(),
            source,
            TechniqueSet::all(),
        )
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let openmp = built.techniques.contains(Technique::Openmp);
    let checked = sanitizers().check_as(language(name), source, openmp);
    (built.object, checked)
}

fn compiler() -> Compiler {
    Compiler::new(fixtures::sandbox(), fixtures::toolchain())
}

#[test]
fn sanitizers_check_builds_of_clang_like_those_of_gcc() {
    if !is_here(false) {
        return;
    }
    let clang = match Toolchain::detect(Some("clang"), &fixtures::problem()) {
        Ok(clang) => clang,
        Err(why) => {
            skipped(&why.to_string());
            return;
        }
    };
    let sanitizers = Sanitizers::new(fixtures::sandbox(), fixtures::problem(), &clang, 1);
    let clean = sanitizers.check(&fixtures::problem().reference_source, false);
    assert!(clean.is_ok_and(|checked| checked.left_out.is_empty() && !checked.by.is_empty()));
    let found = sanitizers.check(&one("sanitize/programs", "reads_one_too_far.c"), false);
    let fault = CandidateFault::UndefinedBehaviour;
    assert!(
        matches!(&found, Err(Failure::Candidate { fault: f, .. }) if *f == fault),
        "{found:?}"
    );
}

#[test]
fn sanitizers_find_faults_that_no_result_shows() {
    if !is_here(false) {
        return;
    }
    let _alone = fixtures::alone();
    let compiler = compiler();
    let mut verifier = fixtures::verifier(50);
    let mut wrong = Vec::new();
    for (name, source) in programs("sanitize/programs") {
        let first = source.lines().next().unwrap();
        let expected = comment(first);
        if !is_built_here(&name) {
            continue;
        }
        if expected.starts_with("data race") && !is_here(true) {
            continue;
        }
        let started = Instant::now();
        let (object, looked) = look(&compiler, &name, &source);
        let seconds = started.elapsed().as_secs_f64();
        eprintln!("{name}: {looked:?}, {seconds:.2} s");
        let fault = CandidateFault::UndefinedBehaviour;
        let as_expected = match &looked {
            Ok(checked) => expected.starts_with("nothing") && !checked.by.is_empty(),
            Err(Failure::Candidate { fault: f, detail }) => {
                *f == fault && detail.contains(expected) && detail.len() < 2000
            }
            Err(_) => false,
        };
        if !as_expected {
            wrong.push(format!("{name}: expected {expected}, was {looked:?}"));
        }
        if name != DOES_NOT_END {
            let verified = verifier.verify(&object, 1);
            assert!(verified.is_ok(), "{name}: {verified:?}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_line_of_the_program_and_the_size_of_the_call_are_told() {
    if !is_here(false) {
        return;
    }
    let source = one("sanitize/programs", "reads_one_too_far.c");
    let line = source
        .lines()
        .position(|line| line.contains("= *behind"))
        .unwrap()
        + 1;
    let (_, looked) = look(&compiler(), "reads_one_too_far.c", &source);
    let (_, detail) = fixtures::fault(looked, "reads_one_too_far.c");
    let words = format!("in line {line} (called with n = 64)");
    assert!(detail.ends_with(&words), "{detail}");
}

#[test]
fn lines_are_those_of_the_programs_own_language() {
    if !is_here(false) {
        return;
    }
    for (name, word) in [
        ("behind_what_new_gave.cpp", "+ 64] = 1"),
        ("overflows.cpp", "most + n"),
        ("behind_its_workspace.f90", "y = x(m + 1)"),
        ("another_row.f90", "c(n + 1, 1)"),
        ("other_extents.f", "W(1:MIN(N,64)) ="),
    ] {
        if !is_built_here(name) {
            continue;
        }
        let source = one("sanitize/programs", name);
        let line = source.lines().position(|line| line.contains(word)).unwrap() + 1;
        let (_, detail) = fixtures::fault(look(&compiler(), name, &source).1, name);
        let words = format!("in line {line} (called with n = 64)");
        assert!(detail.ends_with(&words), "{name}: {detail}");
    }
}

#[test]
fn an_answer_is_not_asked_for_twice() {
    if !is_here(false) {
        return;
    }
    let source = one("sanitize/programs", "overflows.c");
    // Other tests use `sanitizers()` meanwhile.
    let toolchain = fixtures::toolchain();
    let own = Sanitizers::new(fixtures::sandbox(), fixtures::problem(), &toolchain, 1);
    let first = own.check(&source, false);
    // The problem's reference, which may need a second try, and the program.
    let builds = own.builds();
    assert!(builds >= 2, "{builds} builds");
    assert_eq!(own.check(&source, false), first);
    assert_eq!(own.builds(), builds);
}

/// The reason why a program could not be checked.
fn unchecked(looked: &Result<Checked, Failure>) -> Option<&str> {
    match looked {
        Err(Failure::Unknown {
            cause: UnknownCause::Unchecked,
            detail,
        }) => Some(detail),
        _ => None,
    }
}

#[test]
fn constructs_whose_order_is_not_known_are_not_believed_and_said() {
    if !is_here(true) {
        return;
    }
    let source = one("corpus/honest", "threads_in_a_taskloop.c");
    let (_, looked) = look(&compiler(), "threads_in_a_taskloop.c", &source);
    let why = unchecked(&looked);
    assert!(
        why.is_some_and(|why| why.contains("GOMP_taskloop")),
        "{looked:?}"
    );
}

/// The optimiser's knowledge must not decide which calls are checked.
#[test]
fn programs_that_ask_the_optimiser_are_not_believed() {
    if !is_here(false) {
        return;
    }
    let source = one("corpus/honest", "what_the_optimiser_may_assume.c");
    let (_, looked) = look(&compiler(), "what_the_optimiser_may_assume.c", &source);
    let why = unchecked(&looked);
    assert!(
        why.is_some_and(|why| why.contains("__builtin_constant_p")),
        "{looked:?}"
    );
}

/// One in this many honest programs of the corpus in C is checked, and all of the few in other languages. `make verify`
/// checks all.
const SAMPLED: usize = 8;

#[test]
fn honest_programs_have_nothing_to_hide() {
    if !is_here(true) {
        return;
    }
    let _alone = fixtures::alone();
    let compiler = compiler();
    let (mut clean, mut unseen, mut found) = (0, Vec::new(), Vec::new());
    let programs = programs("corpus/honest");
    // This compiler's problem excludes programs for other problems.
    let ours = programs
        .iter()
        .filter(|(_, source)| !source.lines().any(|l| comment(l).starts_with("problem: ")));
    let (in_c, others): (Vec<_>, Vec<_>) = ours.partition(|(name, _)| name.ends_with(".c"));
    let in_c = Part::of_commit(SAMPLED).of(in_c);
    for (name, source) in in_c.chain(others) {
        if !is_built_here(name) {
            continue;
        }
        if source.contains("// needs: x86_64") && !cfg!(target_arch = "x86_64") {
            continue;
        }
        let looked = look(&compiler, name, source).1;
        match (unchecked(&looked), &looked) {
            (Some(why), _) => unseen.push(format!("{name}: {why}")),
            (None, Ok(_)) => clean += 1,
            (None, Err(failure)) => found.push(format!("{name}: {failure}")),
        }
    }
    eprintln!(
        "{clean} without a finding; not to be looked at:\n{}",
        unseen.join("\n")
    );
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(unseen.len() * 8 < clean, "{}", unseen.join("\n"));
}

/// Sanitizers run on the problem's own programs first, so none of these may have a finding.
#[test]
fn the_problems_own_programs_have_nothing_to_hide() {
    if !is_here(false) {
        return;
    }
    let problem = fixtures::problem();
    let baseline = problem.baseline_source.as_ref().unwrap();
    let (_, looked) = look(&compiler(), "baseline.c", baseline);
    assert_eq!(looked.unwrap().by[0], "address and undefined");
    let (_, looked) = look(&compiler(), "reference.c", &problem.reference_source);
    assert!(looked.unwrap().left_out.is_empty());
}

/// Each commit tries one in this many problems outside suites, and other commits try others.
const SAMPLED_PROBLEMS: usize = 3;

/// If a problem's own reference has a finding, the problem loses its sanitizers, and all programs that they would
/// refuse would pass.
#[test]
fn the_references_of_shipped_problems_run_clean_and_none_is_left_out() {
    if !is_here(false) {
        return;
    }
    for folder in shipped::tried(SAMPLED_PROBLEMS) {
        let name = shipped::name(&folder);
        let problem = fixtures::shipped(name);
        let toolchain = Toolchain::detect(None, &problem).unwrap();
        let reference = problem.reference_source.clone();
        let sanitizers = Sanitizers::new(fixtures::sandbox(), problem, &toolchain, 1);
        let checked = sanitizers.check(&reference, false);
        let checked = checked.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(checked.left_out.is_empty(), "{name}: {checked:?}");
        assert!(!checked.by.is_empty(), "{name}");
    }
}
