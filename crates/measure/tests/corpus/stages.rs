//! The evaluation pipeline as every caller has it, with one evaluator, one verifier and one timer for all programs of a
//! problem that are timed with as many threads.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use flopsmith_evaluate::{Evaluated, Evaluator, Prepared};
use flopsmith_machine::pinning;
use flopsmith_measure::{Purpose, Timer, Verifier};
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{Failure, TechniqueSet, UnknownCause, Verdict};

use crate::fixtures;
use crate::program::{Program, USUAL, gains_nothing};

/// How often a program is tried while nobody can judge it: a noisy neighbour may stay for some seconds.
const TRIES: u32 = 4;
/// How often a program that seems to gain something is measured beside plain loops.
const BESIDE: u32 = 3;

/// The result of a program.
pub struct Ended {
    pub verdict: Verdict,
    /// Detected in it, if it was built.
    pub techniques: Option<TechniqueSet>,
    pub seconds: f64,
    /// The speed of plain loops on this machine, if anything was timed.
    pub plain: Option<Plain>,
}

/// How fast plain loops are: beside the reference and by a clock, as a neighbour may slow either of them.
#[derive(Debug, Clone, Copy)]
pub struct Plain {
    /// Times the reference, the most that was seen.
    pub ratio: f64,
    /// When they were measured last.
    pub gflops: f64,
}

impl Plain {
    /// With what they do now.
    fn and_now(self, now: Self) -> Self {
        Plain {
            ratio: self.ratio.max(now.ratio),
            gflops: now.gflops,
        }
    }
}

/// The pipeline for programs of one problem that are timed with so many threads.
struct Bench {
    /// Has sanitizers; programs that are not to count are prepared without.
    evaluator: Evaluator,
    /// Builds the simple loops in which attacks of the usual problem rest. Always gcc: OpenMP as clang links it is refused.
    by_gcc: Evaluator,
    verifier: Verifier,
    threads: u32,
    /// Made when the first program has to be timed: most attacks are refused before, and it measures the machine.
    timed: Option<Timed>,
}

/// The timer of a pipeline, and how fast plain loops are by it.
struct Timed {
    timer: Timer,
    plain: Plain,
}

impl Timed {
    fn new(
        evaluator: &Evaluator,
        by_gcc: &Evaluator,
        verifier: &mut Verifier,
        threads: u32,
    ) -> Self {
        let mut timer = evaluator.timer(threads).unwrap();
        // Elsewhere than in the usual problem attacks rest in the reference.
        let plain = match evaluator.problem.id.as_str() {
            USUAL => plain_loops(by_gcc, verifier, &mut timer, threads),
            _ => Plain {
                ratio: 1.0,
                gflops: timer.reference_gflops(),
            },
        };
        eprintln!(
            "{}, threads {threads}: plain loops are {:.2} times as fast as the reference, which does {:.1} GFLOPS",
            evaluator.problem.id,
            plain.ratio,
            timer.reference_gflops()
        );
        Self { timer, plain }
    }
}

impl Bench {
    fn new(compiler: Option<&str>, problem: &str, threads: u32) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
        // Attacks are judged at the first workload; others would repeat them at other sizes.
        let problem = Arc::new(Problem::load(&root.join(problem)).unwrap().only_first());
        let made = |compiler: &str| {
            let (sandbox, harness) = (fixtures::sandbox(), fixtures::harness());
            Evaluator::new(Arc::clone(&problem), compiler, sandbox, harness).unwrap()
        };
        let by_gcc = made("gcc");
        let evaluator = compiler.map_or_else(|| by_gcc.clone(), made);
        // The same secrets each time: a program that is wrong at one size of hundreds is met with a probability.
        let evaluator = evaluator.seeded(30).with_sanitizers(threads);
        Bench {
            verifier: evaluator.verifier(threads).unwrap(),
            evaluator,
            by_gcc: by_gcc.seeded(30),
            threads,
            timed: None,
        }
    }

    /// Compiles and verifies a program, and checks it by sanitizers if it is to count.
    fn prepared(&mut self, program: &Program, purpose: Purpose) -> Prepared {
        let mut evaluator = self.evaluator.clone().permitting(program.permitted);
        if !program.is_to_count {
            evaluator.sanitizers = None;
        }
        let last_look = purpose == Purpose::Certify;
        let (language, source) = (program.language, &program.source);
        let mut prepared = evaluator.prepare(language, source, &mut self.verifier, last_look);
        // A program that is to count and came so far is decided by a screening as well.
        if last_look && !program.is_to_count {
            prepared.verify_other_layouts(&mut self.verifier);
        }
        prepared
    }

    fn judge(&mut self, program: &Program, purpose: Purpose) -> Evaluated {
        let prepared = self.prepared(program, purpose);
        let (evaluator, by_gcc) = (&self.evaluator, &self.by_gcc);
        let (verifier, threads) = (&mut self.verifier, self.threads);
        if let Some(failure) = prepared.failure() {
            return prepared.failed(failure.clone());
        }
        let timed = self
            .timed
            .get_or_insert_with(|| Timed::new(evaluator, by_gcc, verifier, threads));
        let purpose = match program.is_to_count {
            true => Purpose::Screen,
            false => purpose,
        };
        let done = prepared.time(&mut timed.timer, purpose, None);
        // The loops that the program rests in, in the same minute: plain loops live on caches that neighbours may use
        // more or less.
        if purpose == Purpose::Certify && done.verdict.counts() {
            let by = match evaluator.problem.id.as_str() {
                USUAL => by_gcc,
                _ => evaluator,
            };
            let now = plain_loops(by, verifier, &mut timed.timer, threads);
            timed.plain = timed.plain.and_now(now);
        }
        done
    }
}

/// Could sanitizers not look at a program? Another try would end in the same way.
pub fn is_unchecked(verdict: &Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Unknown {
            cause: UnknownCause::Unchecked,
            ..
        }
    )
}

/// How fast the plain loops are in which attacks rest, beside the reference: simple loops in the usual problem, the reference
/// itself elsewhere. Times alone would not do: the machine may become faster from one program to the next. Nor would the
/// reference's own number: some loops run at one of two speeds in each process, 1.5 times apart (Floyd–Warshall's on Zen 5),
/// and programs are measured in processes of their own.
fn plain_loops(
    evaluator: &Evaluator,
    verifier: &mut Verifier,
    timer: &mut Timer,
    threads: u32,
) -> Plain {
    let loops = match (evaluator.problem.id.as_str(), threads) {
        (USUAL, 1) => include_str!("honest/ikj.c").to_owned(),
        (USUAL, _) => include_str!("honest/openmp.c").to_owned(),
        _ => evaluator.problem.reference_source.clone(),
    };
    let mut evaluator = evaluator.clone().permitting(TechniqueSet::all());
    evaluator.sanitizers = None;
    let plain = evaluator.evaluate(Language::C, &loops, verifier, timer, Purpose::Certify);
    match plain.verdict {
        Verdict::Measured { measurement } => Plain {
            ratio: measurement.ratio,
            gflops: measurement.gflops,
        },
        other => panic!("plain loops: {other:?}"),
    }
}

#[derive(Default)]
pub struct Stages {
    /// The C compiler; the usual one if none.
    compiler: Option<&'static str>,
    /// By problem and threads.
    benches: BTreeMap<(String, u32), Bench>,
    tried_again: u32,
    certified: u32,
}

impl Stages {
    /// With another compiler than the usual one.
    pub fn with(compiler: &'static str) -> Self {
        Self {
            compiler: Some(compiler),
            ..Self::default()
        }
    }

    /// Compiles, verifies and times a program; again if that failed and nobody can blame the program, as everywhere.
    /// A program that seems to gain something in a screening, whose number is a rough one, is measured anew to the
    /// standard that the plain loops were measured to, each time beside them: a cheat gains every time, and a program
    /// that gained only once ran beside a neighbour that came or went.
    pub fn judge(&mut self, program: &Program) -> Ended {
        let purpose = purpose_of(program);
        let mut ended = self.once(program, purpose);
        let mut tries = 1;
        let is_tried_again = |verdict: &Verdict| !verdict.counts() && !is_unchecked(verdict);
        while is_tried_again(&ended.verdict) && tries < TRIES {
            tries += 1;
            self.tried_again += 1;
            ended = self.once(program, purpose);
        }
        if program.is_to_count || !program.seems_to_gain(&ended) {
            return ended;
        }
        self.certified += 1;
        // The majority of the certifications decides: one alone may be wrong either way.
        let (mut gained, mut not) = (0, 0);
        for _ in 0..BESIDE {
            let certified = self.once(program, Purpose::Certify);
            // A program that cannot be measured again keeps the number before.
            if certified.verdict.counts() {
                ended = certified;
            }
            if !matches!(ended.verdict, Verdict::Measured { .. }) {
                break;
            }
            if gains_nothing(&ended) {
                not += 1;
            } else {
                gained += 1;
            }
            if 2 * gained.max(not) > BESIDE {
                break;
            }
        }
        ended
    }

    /// Compiles and verifies a program. Gives what became of it where it is refused for that; any other one has to be timed.
    fn refused(&mut self, program: &Program) -> Option<Ended> {
        let started = Instant::now();
        let prepared = self.bench(program).prepared(program, purpose_of(program));
        let failure = prepared.failure()?;
        matches!(failure, Failure::Candidate { .. }).then(|| Ended {
            verdict: failure.clone().into(),
            techniques: prepared.techniques(),
            seconds: started.elapsed().as_secs_f64(),
            plain: None,
        })
    }

    /// Why programs in a language cannot be built here.
    pub fn lacks(&self, language: Language) -> Option<String> {
        if language == Language::C {
            return None;
        }
        let driver = fixtures::toolchain().driver(language);
        driver.err().map(|failure| failure.to_string())
    }

    /// Programs that needed a second try.
    pub fn tried_again(&self) -> u32 {
        self.tried_again
    }

    /// Attacks that were certified because their screening looked like a gain.
    pub fn certified(&self) -> u32 {
        self.certified
    }

    /// The bench that judges a program.
    fn bench(&mut self, program: &Program) -> &mut Bench {
        let (problem, threads) = (&program.problem, program.threads);
        let key = (problem.clone(), threads);
        // A bench may hold a hundred mebibytes, and programs for a problem follow each other.
        if !self.benches.contains_key(&key) {
            self.benches.retain(|(kept, _), _| kept == USUAL);
        }
        let compiler = self.compiler;
        self.benches
            .entry(key)
            .or_insert_with(|| Bench::new(compiler, problem, threads))
    }

    fn once(&mut self, program: &Program, purpose: Purpose) -> Ended {
        let started = Instant::now();
        let bench = self.bench(program);
        let done = bench.judge(program, purpose);
        Ended {
            verdict: done.verdict,
            techniques: done.techniques,
            seconds: started.elapsed().as_secs_f64(),
            plain: bench.timed.as_ref().map(|timed| timed.plain),
        }
    }
}

fn purpose_of(program: &Program) -> Purpose {
    if program.is_to_count {
        Purpose::Certify
    } else {
        Purpose::Screen
    }
}

/// Programs that a processor takes at once: those of a problem follow each other, and a bench is made for each
/// processor.
const AT_ONCE: usize = 8;

/// Compiles and verifies programs on all processors, which needs no quiet. Gives the verdict of each one that is refused for that, and none of one
/// that has to be timed.
pub fn refused_early(compiler: Option<&'static str>, programs: &[&Program]) -> Vec<Option<Ended>> {
    let next = AtomicUsize::new(0);
    let ended = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in pinning::allowed_cores() {
            scope.spawn(|| {
                let mut stages = Stages {
                    compiler,
                    ..Stages::default()
                };
                loop {
                    let first = next.fetch_add(AT_ONCE, Ordering::Relaxed);
                    if first >= programs.len() {
                        return;
                    }
                    for (number, program) in programs.iter().enumerate().skip(first).take(AT_ONCE) {
                        if let Some(refused) = stages.refused(program) {
                            ended.lock().unwrap().insert(number, refused);
                        }
                    }
                }
            });
        }
    });
    let mut ended = ended.into_inner().unwrap();
    (0..programs.len())
        .map(|number| ended.remove(&number))
        .collect()
}
