//! Shared parts of the tests: the jail, the problem, and programs compiled without the compile stage's scans, so that
//! the tests can run programs that the scans would refuse.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use flopsmith_compile::toolchain::Toolchain;
use flopsmith_machine::Cores;
use flopsmith_machine::attest::Attestation;
use flopsmith_measure::{Calibration, Listener, Timer, Verifier};
use flopsmith_problem::Problem;
use flopsmith_protocol::{CandidateFault, Failure};
use flopsmith_sandbox::{Options, Sandbox};

/// Permits one measurement at a time, and no verification beside it.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn sandbox() -> Arc<Sandbox> {
    static SANDBOX: OnceLock<Arc<Sandbox>> = OnceLock::new();
    let made = || {
        // These tests judge verifier and timer; the sandbox's own tests judge the jail's protection.
        let sandbox = Sandbox::new(Options {
            allow_weaker: true,
            ..Options::default()
        })
        .unwrap();
        if !sandbox.protection().full() {
            let missing = sandbox.protection().missing();
            flopsmith_test_support::skipped(&format!("full protection: {missing}"));
        }
        Arc::new(sandbox)
    };
    Arc::clone(SANDBOX.get_or_init(made))
}

pub fn problem() -> Arc<Problem> {
    shipped("dgemm")
}

/// A shipped problem at its first workload.
pub fn shipped(name: &str) -> Arc<Problem> {
    let folder = flopsmith_test_support::shipped::problem(name);
    Arc::new(Problem::load(&folder).unwrap().only_first())
}

/// The harness beside this test's folder. Cargo does not build another package's program for the tests of this package
/// alone, so this builds it if it is missing or older than its source.
pub fn harness() -> PathBuf {
    static HARNESS: OnceLock<PathBuf> = OnceLock::new();
    let find = || {
        let folder = std::env::current_exe()
            .unwrap()
            .parent()
            .unwrap()
            .parent()
            .unwrap()
            .to_owned();
        let program = folder.join("flopsmith-harness");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../harness/src");
        let changed = std::fs::read_dir(source)
            .unwrap()
            .map(|file| file.unwrap().metadata().unwrap().modified().unwrap())
            .max();
        if program.metadata().ok().and_then(|m| m.modified().ok()) < changed {
            let mut build = Command::new(option_env!("CARGO").unwrap_or("cargo"));
            build
                .args(["build", "-p", "flopsmith-harness"])
                .current_dir(env!("CARGO_MANIFEST_DIR"));
            if folder.ends_with("release") {
                build.arg("--release");
            }
            assert!(
                build.status().unwrap().success(),
                "the harness cannot be built"
            );
        }
        program
    };
    HARNESS.get_or_init(find).clone()
}

pub fn toolchain() -> Toolchain {
    Toolchain::detect(None, &problem()).unwrap()
}

pub fn verifier(seed: u8) -> Verifier {
    Verifier::new(sandbox(), harness(), problem(), &toolchain(), [seed; 32]).unwrap()
}

/// The last permitted core for the kernel and the first for the supervisor, if there are two.
pub fn cores() -> Cores {
    let allowed = flopsmith_machine::pinning::allowed_cores();
    Cores {
        supervisor: (allowed.len() > 1).then(|| allowed[0]),
        kernel: vec![*allowed.last().unwrap()],
    }
}

pub fn timer() -> Timer {
    rough_timer_of(problem())
}

pub fn timer_of(problem: Arc<Problem>) -> Timer {
    let toolchain = Toolchain::detect(None, &problem).unwrap();
    Timer::new(sandbox(), harness(), problem, &toolchain, cores(), 1).unwrap()
}

/// A timer for a test whose ratios to the reference need not be precise.
pub fn rough_timer_of(problem: Arc<Problem>) -> Timer {
    rough_timer_with(problem, Listener::default())
}

/// The same; `listener` is told of its steps.
pub fn rough_timer_with(problem: Arc<Problem>, listener: Listener) -> Timer {
    let toolchain = Toolchain::detect(None, &problem).unwrap();
    let calibration = Calibration::default()
        .in_a_part_of_the_time(ROUGH)
        .telling(listener);
    timer_with_known_roofs(problem, &toolchain, cores(), 1, calibration).unwrap()
}

/// A rough timer takes one in this many parts of the usual time for its reference.
pub const ROUGH: u32 = 16;

/// A timer that takes one in `divisor` parts of the usual time for its reference.
pub fn rough_timer(
    problem: Arc<Problem>,
    toolchain: &Toolchain,
    cores: Cores,
    threads: u32,
    divisor: u32,
) -> Result<Timer, Failure> {
    let calibration = Calibration::default().in_a_part_of_the_time(divisor);
    timer_with_known_roofs(problem, toolchain, cores, threads, calibration)
}

/// The first timer on some cores measures their roofs, for all others in this process.
fn timer_with_known_roofs(
    problem: Arc<Problem>,
    toolchain: &Toolchain,
    cores: Cores,
    threads: u32,
    mut calibration: Calibration,
) -> Result<Timer, Failure> {
    static KNOWN: Mutex<Vec<Attestation>> = Mutex::new(Vec::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |a: &&Attestation| a.kernel_cores == cores.kernel && a.threads == threads;
    let before = known().iter().find(same).cloned();
    if let Some(attestation) = &before {
        calibration = calibration.with_roofs_of(attestation);
    }
    let timer = Timer::calibrated(
        sandbox(),
        harness(),
        problem,
        toolchain,
        cores,
        threads,
        &calibration,
    )?;
    if before.is_none() {
        known().push(timer.attestation().clone());
    }
    Ok(timer)
}

/// A shipped problem with another timed size, only for timers.
pub fn timed_at(name: &str, sizes: &str) -> Arc<Problem> {
    with_timed(name, &format!("[timed]\n{sizes}\n"))
}

/// A shipped problem with these workloads instead of its own.
pub fn with_timed(name: &str, timed: &str) -> Arc<Problem> {
    edited(name, |file, text| {
        if file != "problem.toml" {
            return text;
        }
        let (before, rest) = text.split_once("[timed]").unwrap();
        // Several workloads begin with two brackets.
        let before = before.trim_end_matches('[');
        let (_, behind) = rest.split_once("[verify]").unwrap();
        format!("{before}{timed}\n[verify]{behind}")
    })
}

/// A shipped problem whose files `edit` changes; it gets the name and the text of each.
pub fn edited(name: &str, edit: impl Fn(&str, String) -> String) -> Arc<Problem> {
    let shipped = flopsmith_test_support::shipped::problem(name);
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join(name);
    std::fs::create_dir(&folder).unwrap();
    for file in std::fs::read_dir(shipped).unwrap() {
        let path = file.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(folder.join(file), edit(file, text)).unwrap();
    }
    Arc::new(Problem::load(&folder).unwrap())
}

/// A shared object of one of the programs beside this file, or of the corpus.
pub fn program(name: &str) -> Vec<u8> {
    program_of(&problem(), name)
}

/// The same for another problem.
pub fn program_of(problem: &Problem, name: &str) -> Vec<u8> {
    built(problem, &source(name))
}

/// The text of such a program.
pub fn text_of(name: &str) -> String {
    std::fs::read_to_string(source(name)).unwrap()
}

fn source(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    ["run/programs", "corpus/attacks", "corpus/honest"]
        .iter()
        .map(|folder| tests.join(folder).join(name))
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("there is no {name}"))
}

/// The control of an attack of the corpus: the same program without the attack.
pub fn control_of(problem: &Problem, name: &str) -> Vec<u8> {
    let text = text_of(name);
    let change = text
        .lines()
        .find_map(|line| line.strip_prefix("// control: "));
    let change = change.unwrap_or_else(|| panic!("{name} has no control"));
    built_of(problem, &without_attack(name, &text, change))
}

/// A source with a change `words => other words` that takes its attack out.
pub fn without_attack(name: &str, source: &str, change: &str) -> String {
    let (words, others) = change
        .split_once("=>")
        .unwrap_or_else(|| panic!("{name}: a control has the form `words => other words`"));
    let (words, others) = (words.trim(), others.trim());
    // The header is one more occurrence.
    assert_eq!(source.matches(words).count(), 2, "{name}: `{words}`");
    source.replace(words, others)
}

/// A shared object of a source in C, with the flags of a problem.
pub fn built_of(problem: &Problem, source: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program.c");
    std::fs::write(&file, source).unwrap();
    built(problem, &file)
}

/// A shared object of any source, with the flags of a problem.
pub fn built(problem: &Problem, source: &Path) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("program.so");
    let status = Command::new("gcc")
        .args(&problem.flags)
        .args(["-shared", "-fPIC", "-w", "-o"])
        .arg(&object)
        .arg(source)
        .args(["-Wl,--as-needed", "-lm"])
        .status()
        .unwrap();
    assert!(status.success(), "{} does not compile", source.display());
    std::fs::read(&object).unwrap()
}

/// The candidate's fault in a failure.
pub fn fault<T: std::fmt::Debug>(
    result: Result<T, Failure>,
    name: &str,
) -> (CandidateFault, String) {
    match result {
        Err(Failure::Candidate { fault, detail }) => (fault, detail),
        other => panic!("{name}: {other:?}"),
    }
}
