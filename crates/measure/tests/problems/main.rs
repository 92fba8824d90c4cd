//! Checks that every shipped problem is a sound judge: its reference keeps the laws, its baseline is right, and the
//! pipeline refuses programs that fit the timed size only or take short cuts.
//!
//! `NAME.c` beside this file is right at the timed size only, `NAME.subtle.c` slightly wrong everywhere.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod denormals;
#[path = "../run/fixtures.rs"]
#[expect(dead_code, reason = "the other tests use the rest")]
mod fixtures;
mod later;
mod thresholds;
mod weak;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flopsmith_compile::Compiler;
use flopsmith_compile::toolchain::Toolchain;
use flopsmith_measure::verify::soundness;
use flopsmith_measure::{Purpose, Timer, Verifier};
use flopsmith_problem::{Finding, Problem};
use flopsmith_protocol::{CandidateFault as F, Failure, TechniqueSet};
use flopsmith_test_support::sample::Part;
use flopsmith_test_support::shipped;

/// The problems that this commit tries, each at its first workload: one in `parts` of those outside suites.
fn tried(parts: usize) -> Vec<Arc<Problem>> {
    let load = |path: &PathBuf| Arc::new(Problem::load(path).unwrap().only_first());
    shipped::tried(parts).iter().map(load).collect()
}

/// The same problems; each at all of its workloads, if [`SAMPLE`](flopsmith_test_support::sample::SAMPLE) is `all`.
fn tried_at_their_sizes(parts: usize) -> Vec<Arc<Problem>> {
    let all = Part::of_commit(2).is_all();
    let load = |path: &PathBuf| {
        let problem = Problem::load(path).unwrap();
        Arc::new(if all { problem } else { problem.only_first() })
    };
    shipped::tried(parts).iter().map(load).collect()
}

/// Tests that time programs try one in this many problems outside suites for each commit, and other commits try others;
/// `make verify` tries all.
const TIMED: usize = 4;

/// The tools that judge programs for one problem.
struct Bench {
    problem: Arc<Problem>,
    toolchain: Toolchain,
    compiler: Compiler,
}

impl Bench {
    fn of(problem: &Arc<Problem>) -> Self {
        let toolchain = Toolchain::detect(None, problem).unwrap();
        Self {
            compiler: Compiler::new(fixtures::sandbox(), toolchain.clone()),
            toolchain,
            problem: Arc::clone(problem),
        }
    }

    fn verifier(&self, seed: u8) -> Verifier {
        let problem = Arc::clone(&self.problem);
        Verifier::new(
            fixtures::sandbox(),
            fixtures::harness(),
            problem,
            &self.toolchain,
            [seed; 32],
        )
        .unwrap_or_else(|e| panic!("{}: {e}", self.problem.id))
    }

    fn timer(&self) -> Timer {
        let problem = Arc::clone(&self.problem);
        let (cores, part) = (fixtures::cores(), fixtures::ROUGH);
        fixtures::rough_timer(problem, &self.toolchain, cores, 1, part)
            .unwrap_or_else(|e| panic!("{}: {e}", self.problem.id))
    }

    /// Builds a program as `flopsmith bench` does: with the techniques that the problem permits.
    fn permitted(&self, source: &str) -> Result<Vec<u8>, Failure> {
        let techniques = self.problem.techniques;
        let built = self.compiler.compile(&self.problem, source, techniques)?;
        Ok(built.object)
    }

    /// Builds a program whatever its techniques are.
    fn compiled(&self, source: &str) -> Vec<u8> {
        self.compiler
            .compile(&self.problem, source, TechniqueSet::all())
            .unwrap_or_else(|e| panic!("{}: {e}", self.problem.id))
            .object
    }

    fn program(&self, ending: &str) -> Option<Vec<u8>> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/problems")
            .join(format!("{}{ending}", self.problem.id));
        let source = std::fs::read_to_string(path).ok()?;
        Some(self.compiled(&source))
    }
}

/// The programs that a problem comes with, by what they are.
fn own_programs(problem: &Problem) -> impl Iterator<Item = (&'static str, &str)> {
    let baseline = problem.baseline_source.as_deref();
    let baseline = baseline.map(|source| ("baseline", source));
    let reference = ("reference", problem.reference_source.as_str());
    baseline.into_iter().chain([reference])
}

#[test]
fn references_keep_the_laws() {
    let _alone = fixtures::alone();
    let mut weak = Vec::new();
    for problem in tried(1) {
        let bench = Bench::of(&problem);
        let examined = soundness::examine(
            &fixtures::sandbox(),
            &fixtures::harness(),
            &problem,
            &bench.toolchain,
            1,
        )
        .unwrap();
        assert!(examined.ran, "{}: {:?}", problem.id, examined.findings);
        let findings = examined
            .findings
            .into_iter()
            .chain(flopsmith_problem::check(&problem));
        weak.extend(
            findings
                .filter(Finding::is_error)
                .map(|finding| format!("{}: {finding}", problem.id)),
        );
    }
    assert!(weak.is_empty(), "{}", weak.join("\n"));
}

#[test]
fn baselines_and_references_are_right_and_nearly_right_programs_are_not() {
    let _alone = fixtures::alone();
    let mut wrong = Vec::new();
    for problem in tried(1) {
        let bench = Bench::of(&problem);
        let mut verifier = bench.verifier(7);
        for (what, source) in own_programs(&problem) {
            let object = match bench.permitted(source) {
                Ok(object) => object,
                Err(e) => {
                    wrong.push(format!("{}: the {what} is refused: {e}", problem.id));
                    continue;
                }
            };
            // Other cases each time.
            for seed in 0..6 {
                if let Err(e) = verifier.verify(&object, seed) {
                    wrong.push(format!("{}: the {what} is refused: {e}", problem.id));
                    break;
                }
            }
        }
        for ending in [".c", ".subtle.c"] {
            let Some(object) = bench.program(ending) else {
                continue;
            };
            for seed in 0..6 {
                match verifier.verify(&object, seed) {
                    Err(Failure::Candidate {
                        fault: F::WrongResult | F::OutOfBounds | F::Crash,
                        ..
                    }) => {}
                    other => wrong.push(format!("{}{ending}: {other:?}", problem.id)),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `bench` refuses techniques that a problem does not permit, also in the problem's own programs.
#[test]
fn bench_builds_the_baseline_and_the_reference_of_every_other_problem() {
    let _alone = fixtures::alone();
    let mut wrong = Vec::new();
    // The test above builds those that it tries.
    let known = shipped::tried(1);
    let others = shipped::problems().into_iter();
    for folder in others.filter(|folder| !known.contains(folder)) {
        let problem = Arc::new(Problem::load(&folder).unwrap());
        let bench = Bench::of(&problem);
        for (what, source) in own_programs(&problem) {
            if let Err(e) = bench.permitted(source) {
                wrong.push(format!("{}: the {what} is refused: {e}", problem.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn timed_calls_of_every_problem_are_checked() {
    let _alone = fixtures::alone();
    let mut wrong = Vec::new();
    for problem in tried(TIMED) {
        let bench = Bench::of(&problem);
        let mut timer = bench.timer();
        let baseline = problem
            .baseline_source
            .as_ref()
            .unwrap_or(&problem.reference_source);
        match timer.measure(&bench.compiled(baseline), Purpose::Screen, 1, None) {
            Ok(timed) => {
                let m = timed.measurement;
                let ratio = m.gflops / timer.baseline_gflops();
                eprintln!(
                    "{:>16} {:8.3} ms a call, {:7.2} GFLOPS, {:5.2} of the peak",
                    problem.id.as_str(),
                    m.seconds_per_call * 1e3,
                    m.gflops,
                    m.share_of_peak
                );
                if !(0.3..3.0).contains(&ratio) {
                    wrong.push(format!("{}: {ratio} times itself", problem.id));
                }
            }
            Err(e) => wrong.push(format!("{}: {e}", problem.id)),
        }
        // A program that does nothing leaves the poison, or the output of the previous call.
        let prototype = problem.entry.prototype.trim_end().trim_end_matches(';');
        let nothing = bench.compiled(&format!("#include <stdint.h>\n{prototype} {{ }}\n"));
        match timer.measure(&nothing, Purpose::Screen, 2, None) {
            Err(Failure::Candidate {
                fault: F::SkippedWork,
                ..
            }) => {}
            other => wrong.push(format!("{}: doing nothing gives {other:?}", problem.id)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// True if a harness on this machine is busy. A harness that waits for its next order sleeps.
fn a_harness_is_awake() -> bool {
    let runs = |pid: &Path| -> Option<bool> {
        let stat = std::fs::read_to_string(pid.join("stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        Some(name == "harness" && rest.trim_start().starts_with('R'))
    };
    let mut processes = std::fs::read_dir("/proc").unwrap();
    processes.any(|p| runs(&p.unwrap().path()) == Some(true))
}

#[test]
fn a_program_that_is_refused_while_it_is_timed_leaves_nobody_awake() {
    let _alone = fixtures::alone();
    let problem = fixtures::shipped("black_scholes");
    let bench = Bench::of(&problem);
    let wrong = bench.program(".subtle.c").unwrap();
    let mut timer = bench.timer();
    // The timer compares its results with the baseline in the baseline's turn, so the refusal interrupts that turn.
    let refused = timer.measure(&wrong, Purpose::Screen, 1, None);
    assert!(
        matches!(&refused, Err(Failure::Candidate { .. })),
        "{refused:?}"
    );
    // A process with the order to sleep will soon sleep; one without spins until the next measurement.
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while a_harness_is_awake() {
        assert!(
            std::time::Instant::now() < limit,
            "a process of ours spins on the kernel's core"
        );
        std::thread::yield_now();
    }
}
