//! The evaluation pipeline of all callers, with one evaluator, one verifier and one timer for all programs of a problem
//! with the same number of threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use flopsmith_evaluate::{Evaluated, Evaluator, Look, Prepared};
use flopsmith_machine::pinning;
use flopsmith_measure::{Purpose, Timer, Verifier};
use flopsmith_problem::Language;
use flopsmith_protocol::{
    CandidateFault, Failure, InfrastructureCause, TechniqueSet, UnknownCause, Verdict,
};

use crate::fixtures;
use crate::program::{Expected, Program, USUAL, attacks, gains_nothing, honest};

/// Number of tries of a program while its fault cannot be assigned: a disturbance by another tenant may last for some
/// seconds.
const TRIES: u32 = 4;
/// Number of certifications, beside plain loops, of a program that seems to gain something.
const BESIDE: u32 = 3;

/// The result of a program.
pub struct Ended {
    pub verdict: Verdict,
    /// The techniques detected in it, if it was built.
    pub techniques: Option<TechniqueSet>,
    pub seconds: f64,
    /// The speed of plain loops on this machine, if anything was timed.
    pub plain: Option<Plain>,
}

/// The speed of plain loops, as a ratio to the reference and by a clock, since a disturbance may slow either of them.
#[derive(Debug, Clone, Copy)]
pub struct Plain {
    /// Largest seen ratio to the reference.
    pub ratio: f64,
    /// 10⁹ operations a second in their last measurement.
    pub gflops: f64,
    /// Largest seen ratio where no array is in a cache; none where it was not measured.
    pub cold_ratio: Option<f64>,
}

impl Plain {
    /// Adds their current speed.
    fn and_now(self, now: Self) -> Self {
        Plain {
            ratio: self.ratio.max(now.ratio),
            gflops: now.gflops,
            cold_ratio: [self.cold_ratio, now.cold_ratio]
                .into_iter()
                .flatten()
                .reduce(f64::max),
        }
    }
}

/// The pipeline for programs of one problem with this number of threads.
struct Bench {
    /// An evaluator with sanitizers; programs that do not have to count are prepared without them.
    evaluator: Evaluator,
    /// Builds the simple honest loops of attacks on the usual problem, and those for several threads. Always by gcc: the
    /// compile stage refuses OpenMP as clang links it.
    by_gcc: Evaluator,
    /// Made when the first program has to be verified here: most of those that are timed were verified at a first look.
    verifier: Option<Verifier>,
    threads: u32,
    /// Divides the time that timers take for the reference.
    divisor: u32,
    /// Made when the first program has to be timed: most attacks are refused before, and it measures the machine.
    timed: Option<Timed>,
}

/// The verifier of a pipeline.
fn verifier_in<'v>(
    place: &'v mut Option<Verifier>,
    evaluator: &Evaluator,
    threads: u32,
) -> &'v mut Verifier {
    place.get_or_insert_with(|| evaluator.verifier(threads).unwrap())
}

/// The timer of a pipeline, and the speed of plain loops by it.
struct Timed {
    timer: Timer,
    /// The plain loops, compiled and verified. Made when they are first timed.
    loops: Option<Prepared>,
    /// None before plain loops are needed: only the number of an attack is compared with them.
    plain: Option<Plain>,
}

impl Timed {
    fn new(evaluator: &Evaluator, threads: u32, divisor: u32) -> Self {
        let allowed = pinning::allowed_cores();
        let cores = pinning::assign(&allowed, threads as usize, pinning::siblings);
        let (problem, toolchain) = (Arc::clone(&evaluator.problem), &evaluator.toolchain);
        let timer = fixtures::rough_timer(problem, toolchain, cores, threads, divisor).unwrap();
        // In other problems than the usual one, the honest loops of attacks are the reference.
        let plain = (evaluator.problem.id.as_str() != USUAL).then(|| Plain {
            ratio: 1.0,
            gflops: timer.reference_gflops(),
            cold_ratio: None,
        });
        eprintln!(
            "{}, threads {threads}: the reference does {:.1} GFLOPS",
            evaluator.problem.id,
            timer.reference_gflops()
        );
        Self {
            timer,
            loops: None,
            plain,
        }
    }
}

impl Bench {
    fn new(compiler: Option<&str>, problem: &str, threads: u32, divisor: u32) -> Self {
        // Attacks are judged at the first workload; others would repeat them at other sizes.
        let problem = fixtures::shipped(problem);
        let made = |compiler: &str| {
            let (sandbox, harness) = (fixtures::sandbox(), fixtures::harness());
            Evaluator::new(Arc::clone(&problem), compiler, sandbox, harness).unwrap()
        };
        let by_gcc = made("gcc");
        let evaluator = compiler.map_or_else(|| by_gcc.clone(), made);
        // The same secrets each time: otherwise a program that is wrong at one of hundreds of sizes would be found only
        // with some probability.
        let evaluator = evaluator.seeded(30).with_sanitizers(threads);
        Bench {
            verifier: None,
            evaluator,
            by_gcc: by_gcc.seeded(30),
            threads,
            divisor,
            timed: None,
        }
    }

    /// Compiles and verifies a program, and checks it by sanitizers if it has to count.
    fn prepared(&mut self, program: &Program, look: Look) -> Prepared {
        let mut evaluator = self.evaluator.clone().permitting(program.permitted);
        if !program.is_to_count {
            evaluator.sanitizers = None;
        }
        let (language, source) = (program.language, &program.source);
        let verifier = verifier_in(&mut self.verifier, &self.evaluator, self.threads);
        evaluator.prepare(language, source, verifier, look)
    }

    /// Compiles, verifies and times a program; a program that was looked at before is `prepared`, and only timed.
    fn judge(
        &mut self,
        program: &Program,
        purpose: Purpose,
        prepared: Option<Prepared>,
    ) -> Evaluated {
        let prepared = prepared.unwrap_or_else(|| {
            let look = match purpose {
                Purpose::Certify => Look::Certified,
                Purpose::Screen | Purpose::Rank => look_at(program),
            };
            self.prepared(program, look)
        });
        let (evaluator, by_gcc) = (&self.evaluator, &self.by_gcc);
        let (verifier, threads, divisor) = (&mut self.verifier, self.threads, self.divisor);
        if let Some(failure) = prepared.failure() {
            return prepared.failed(failure.clone());
        }
        let timed = self
            .timed
            .get_or_insert_with(|| Timed::new(evaluator, threads, divisor));
        let done = prepared.time(&mut timed.timer, purpose, None);
        let is_attack = matches!(program.expected, Expected::Refused { .. });
        let is_measured = matches!(done.verdict, Verdict::Measured { .. });
        let first = is_attack && is_measured && timed.plain.is_none();
        // Measures the program's honest loops in the same minute, since plain loops depend on caches that other tenants
        // use at varying rates.
        if first || (purpose == Purpose::Certify && done.verdict.counts()) {
            let by = match (evaluator.problem.id.as_str(), threads) {
                (USUAL, _) | (_, 2..) => by_gcc,
                _ => evaluator,
            };
            let loops = timed.loops.get_or_insert_with(|| {
                let verifier = verifier_in(verifier, evaluator, threads);
                plain_loops(by, verifier, threads)
            });
            let now = speed_of(loops, &mut timed.timer);
            let plain = timed.plain.map_or(now, |plain| plain.and_now(now));
            eprintln!(
                "{}, threads {threads}: plain loops are {:.2} times as fast as the reference",
                evaluator.problem.id, plain.ratio
            );
            timed.plain = Some(plain);
        }
        done
    }
}

/// True if sanitizers could not check a program. Another try would end in the same way.
pub fn is_unchecked(verdict: &Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Unknown {
            cause: UnknownCause::Unchecked,
            ..
        }
    )
}

/// Number of tries of a program that ended so: several if it has no fault, since a disturbance may be the reason. An honest
/// program above a roof gets a second try only. More would hide a roof that refuses honest work now and then. It is not
/// certain that none is needed: a hand-shake that was long in every sample of a busy moment also ends above a roof.
fn tries(program: &Program, verdict: &Verdict) -> u32 {
    let is_honest = matches!(program.expected, Expected::Measured(_));
    if verdict.counts() || is_unchecked(verdict) {
        1
    } else if is_honest && is_above_a_roof(verdict) {
        2
    } else {
        TRIES
    }
}

/// True if a program was faster than this machine can be.
pub fn is_above_a_roof(verdict: &Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Infrastructure {
            cause: InfrastructureCause::Implausible,
            ..
        }
    )
}

/// The plain honest loops of attacks: simple loops in the usual problem, the reference itself in others, whose first loop
/// is shared among threads where there are several. They are compiled and verified once, and timed as often as an attack
/// is certified.
fn plain_loops(evaluator: &Evaluator, verifier: &mut Verifier, threads: u32) -> Prepared {
    let loops = match (evaluator.problem.id.as_str(), threads) {
        (USUAL, 1) => include_str!("honest/ikj.c").to_owned(),
        (USUAL, _) => include_str!("honest/openmp.c").to_owned(),
        (_, 1) => evaluator.problem.reference_source.clone(),
        (_, _) => by_threads(&evaluator.problem.reference_source),
    };
    let mut evaluator = evaluator.clone().permitting(TechniqueSet::all());
    evaluator.sanitizers = None;
    evaluator.prepare(Language::C, &loops, verifier, Look::Certified)
}

/// A reference whose first loop is shared among threads.
fn by_threads(reference: &str) -> String {
    let first = "\n    for (int i = 0;";
    assert!(reference.contains(first), "it begins with another loop");
    reference.replacen(first, &format!("\n#pragma omp parallel for{first}"), 1)
}

/// The speed of plain loops, relative to the reference. Times would not be enough: the machine may become faster from
/// one program to the next. Neither would the reference's own number: some loops run at one of two speeds in each
/// process, 1.5 times apart (Floyd–Warshall's on Zen 5), and programs are measured in their own processes.
fn speed_of(loops: &Prepared, timer: &mut Timer) -> Plain {
    let plain = loops.time(timer, Purpose::Certify, None);
    match plain.verdict {
        Verdict::Measured { measurement } => Plain {
            ratio: measurement.ratio,
            gflops: measurement.gflops,
            cold_ratio: measurement.certificate.and_then(|c| c.cold_ratio),
        },
        other => panic!("plain loops: {other:?}"),
    }
}

/// A program that was compiled and verified, and the time that this took.
pub struct FirstLook {
    prepared: Prepared,
    seconds: f64,
}

#[derive(Default)]
pub struct Stages {
    /// The C compiler; the usual one if none.
    compiler: Option<&'static str>,
    /// Divides the time that timers take for the reference; all of it is taken where this is 0.
    divisor: u32,
    /// Keyed by problem and threads.
    benches: BTreeMap<(String, u32), Bench>,
    tried_again: u32,
    certified: u32,
}

impl Stages {
    /// Uses another compiler than the usual one.
    pub fn with(compiler: &'static str) -> Self {
        Self {
            compiler: Some(compiler),
            ..Self::default()
        }
    }

    /// Stages for programs whose numbers are compared with nothing: timers take a part of the usual time for the reference.
    pub fn rough() -> Self {
        Self {
            divisor: fixtures::ROUGH,
            ..Self::default()
        }
    }

    /// Compiles, verifies and times a program. Like every caller, it tries again after a failure without a fault of the
    /// program. A program that seems to gain something in a screening, whose number is imprecise, is measured again to
    /// the standard of the plain loops, each time beside them: a cheat gains every time, while a program that gained
    /// only once ran during a disturbance.
    pub fn judge(&mut self, program: &Program) -> Ended {
        self.judge_from(program, None)
    }

    /// The same for a program that [`first_looks`] compiled and verified: a fault that was found then is its result, and
    /// a program without one is timed. After any other failure the program is judged anew, since it was beside others.
    pub fn judge_after(&mut self, look: FirstLook, program: &Program) -> Ended {
        match look.prepared.failure() {
            None => self.judge_from(program, Some(look)),
            Some(failure @ Failure::Candidate { .. }) => Ended {
                verdict: failure.clone().into(),
                techniques: look.prepared.techniques(),
                seconds: look.seconds,
                plain: None,
            },
            Some(_) => self.judge(program),
        }
    }

    /// Compiles, verifies and ranks a program once.
    pub fn rank(&mut self, program: &Program) -> Ended {
        self.once(program, Purpose::Rank, None)
    }

    fn judge_from(&mut self, program: &Program, look: Option<FirstLook>) -> Ended {
        let mut ended = self.once(program, Purpose::Screen, look);
        let mut tried = 1;
        while tried < tries(program, &ended.verdict) {
            tried += 1;
            self.tried_again += 1;
            ended = self.once(program, Purpose::Screen, None);
        }
        if !program.seems_to_gain(&ended) {
            return ended;
        }
        self.certified += 1;
        eprintln!("{}, screened: {}", program.name, crate::words(&ended));
        // The majority of the certifications decides, since a single one may be wrong in either direction.
        let (mut gained, mut not) = (0, 0);
        for _ in 0..BESIDE {
            let certified = self.once(program, Purpose::Certify, None);
            eprintln!(
                "{}, certified: {}; plain loops: {:?}",
                program.name,
                crate::words(&certified),
                certified.plain
            );
            // A program that cannot be measured again keeps its earlier number.
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

    /// Compiles and verifies a program.
    fn look(&mut self, program: &Program) -> FirstLook {
        let started = Instant::now();
        let prepared = self.bench(program).prepared(program, look_at(program));
        FirstLook {
            prepared,
            seconds: started.elapsed().as_secs_f64(),
        }
    }

    /// The reason why programs in a language cannot be built here.
    pub fn lacks(&self, language: Language) -> Option<String> {
        if language == Language::C {
            return None;
        }
        let driver = fixtures::toolchain().driver(language);
        driver.err().map(|failure| failure.to_string())
    }

    /// Number of programs that needed a second try.
    pub fn tried_again(&self) -> u32 {
        self.tried_again
    }

    /// Number of attacks that were certified because their screening looked like a gain.
    pub fn certified(&self) -> u32 {
        self.certified
    }

    /// The bench that judges a program.
    fn bench(&mut self, program: &Program) -> &mut Bench {
        let (problem, threads) = (&program.problem, program.threads);
        let key = (problem.clone(), threads);
        // A bench may hold a hundred mebibytes, and the programs of a problem follow each other.
        if !self.benches.contains_key(&key) {
            self.benches.retain(|(kept, _), _| kept == USUAL);
        }
        let (compiler, divisor) = (self.compiler, self.divisor);
        self.benches
            .entry(key)
            .or_insert_with(|| Bench::new(compiler, problem, threads, divisor))
    }

    /// Judges a program once; `purpose` is the standard of its measurement.
    fn once(&mut self, program: &Program, purpose: Purpose, look: Option<FirstLook>) -> Ended {
        let started = Instant::now();
        let (prepared, before) = match look {
            Some(look) => (Some(look.prepared), look.seconds),
            None => (None, 0.0),
        };
        let bench = self.bench(program);
        let done = bench.judge(program, purpose, prepared);
        Ended {
            verdict: done.verdict,
            techniques: done.techniques,
            seconds: before + started.elapsed().as_secs_f64(),
            plain: bench.timed.as_ref().and_then(|timed| timed.plain),
        }
    }
}

/// The look at a program before its first measurement, which is a screening. A screening also decides about a program that
/// has to count and passed up to here.
fn look_at(program: &Program) -> Look {
    if program.is_to_count {
        Look::Full
    } else {
        Look::Screening
    }
}

/// Number of programs of a batch: those of a problem follow each other, and each batch makes its own benches.
const AT_ONCE: usize = 8;

/// Number of batches at the same time for each processor: a look waits for much of its time until the kernel has made or
/// ended a jail.
const FOR_EACH_PROCESSOR: usize = 2;

/// Compiles and verifies programs on all processors, since this does not need a quiet machine. Returns a look at each
/// program, in their order. For the same programs the secrets of the looks are the same on every machine.
pub fn first_looks(compiler: Option<&'static str>, programs: &[&Program]) -> Vec<FirstLook> {
    let next = AtomicUsize::new(0);
    let looks = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..FOR_EACH_PROCESSOR * pinning::allowed_cores().len() {
            scope.spawn(|| {
                loop {
                    let first = next.fetch_add(AT_ONCE, Ordering::Relaxed);
                    if first >= programs.len() {
                        return;
                    }
                    // Secrets follow from those before them. With benches for this batch alone, they do not depend on
                    // the batches that this worker happened to take before, nor on the number of workers.
                    let mut stages = Stages {
                        compiler,
                        ..Stages::default()
                    };
                    for (number, program) in programs.iter().enumerate().skip(first).take(AT_ONCE) {
                        let look = stages.look(program);
                        looks.lock().unwrap().insert(number, look);
                    }
                }
            });
        }
    });
    looks.into_inner().unwrap().into_values().collect()
}

#[test]
fn an_honest_program_above_a_roof_gets_one_more_try() {
    let ours = |cause| Verdict::from(Failure::infrastructure(cause, "no number"));
    let above = ours(InfrastructureCause::Implausible);
    let disturbed = ours(InfrastructureCause::Resources);
    let unsettled = Verdict::from(Failure::unknown(UnknownCause::NoSamples, "no number"));
    let unchecked = Verdict::from(Failure::unknown(UnknownCause::Unchecked, "too large"));
    let refused = Verdict::from(Failure::candidate(CandidateFault::WrongResult, "wrong"));
    let tries = |program: &Program| {
        [&above, &disturbed, &unsettled, &unchecked, &refused]
            .map(|verdict| tries(program, verdict))
    };
    assert_eq!(tries(&honest()[0]), [2, TRIES, TRIES, 1, 1]);
    // The number of an attack is at stake, not that of a roof.
    assert_eq!(tries(&attacks()[0]), [TRIES, TRIES, TRIES, 1, 1]);
}
