//! Evaluates programs on this machine, one at a time.
//!
//! A problem's compiler, verifier and timer stay open for the next program of the problem. Its reference and the peak are
//! measured once and kept in the folder, so that all numbers of a service are comparable, also after a restart. They are
//! measured again when they do not hold any more ([`crate::reference`]), or when machine, toolchain or method changed.
//! A program that the compile stage refuses does not wait for that.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flopsmith_evaluate::{Evaluator, cores_to_watch};
use flopsmith_measure::{Timer, Verifier};
use flopsmith_problem::Problem;
use flopsmith_protocol::{Digest, Failure, InfrastructureCause, UnknownCause, Verdict};
use flopsmith_run::idle_wait::{self, Patience, Waited};
use flopsmith_run::measuring_lock;
use flopsmith_sandbox::Sandbox;
use tokio_util::sync::CancellationToken;

use crate::cache::Cache;
use crate::circumstances::Circumstances;
use crate::program::{Judge, Judged, Program, permitted};
use crate::reference::{Grade, Reference};
use crate::roofs::Roofs;
use crate::wire::{Purpose, ReferenceSpeeds};

/// Number of problems that stay open. Each has processes and buffers of its own.
const OPEN: usize = 8;

/// How programs are evaluated.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The C compiler.
    pub compiler: String,
    /// Number of threads that programs are timed with.
    pub threads: u32,
    /// True if sanitizers check rankings as well; they check certifications always.
    pub sanitize: bool,
    /// Longest time to wait for a quiet machine before each evaluation.
    pub wait: Duration,
    /// Age at which references and peaks are measured again; those that are not well known are measured again sooner.
    pub refresh: Duration,
}

/// Evaluates programs with real compilers, jails and clocks.
pub struct Station {
    settings: Settings,
    sandbox: Arc<Sandbox>,
    harness: PathBuf,
    cache: Arc<Cache>,
    /// The open problems, the most recently used first.
    benches: VecDeque<Bench>,
    stopped: CancellationToken,
    /// True once this process was announced as one that measures.
    announced: bool,
}

/// The stages of one problem.
struct Bench {
    problem: Arc<Problem>,
    /// Without sanitizers.
    plain: Evaluator,
    /// With sanitizers.
    sanitizing: Evaluator,
    verifier: Verifier,
    timer: Timer,
    /// The disturbance while the timer measured its reference.
    reference_busy: Option<String>,
    circumstances: Circumstances,
    sanitize: bool,
    quick: Option<Reference>,
    refined: Option<Reference>,
}

impl Station {
    /// A station without open problems. Cancelling `stopped` ends a wait for a quiet machine.
    pub fn new(
        settings: Settings,
        sandbox: Arc<Sandbox>,
        harness: PathBuf,
        cache: Arc<Cache>,
        stopped: CancellationToken,
    ) -> Self {
        Self {
            settings,
            sandbox,
            harness,
            cache,
            benches: VecDeque::new(),
            stopped,
            announced: false,
        }
    }

    fn evaluate(&mut self, program: &Program) -> Result<Judged, Failure> {
        if !std::mem::replace(&mut self.announced, true) {
            measuring_lock::announce("serve");
        }
        let grade = Grade::of(program.purpose);
        if !self.is_ready(&program.problem, grade)
            && let Some(refused) = self.refused(program)?
        {
            return Ok(refused);
        }
        self.make_ready(&program.problem, grade)?;
        // A result of an earlier process is known now that the reference is.
        if let Some(known) = self.cache.look_up(program, unix_ms()) {
            return Ok(known);
        }
        let Some(bench) = self.benches.front_mut() else {
            return Err(Failure::infrastructure(
                InfrastructureCause::Harness,
                "the problem is not open",
            ));
        };
        let done = bench.evaluate(program, &self.settings, &self.stopped)?;
        if let Err(error) = self.cache.keep(program, &done) {
            tracing::warn!(%error, "a result cannot be kept");
        }
        Ok(done)
    }

    /// The open problem.
    fn open(&self, problem: &Problem) -> Option<&Bench> {
        let mut benches = self.benches.iter();
        benches.find(|bench| bench.problem.digest == problem.digest)
    }

    /// True if a problem is open with a reference of this grade that holds.
    fn is_ready(&self, problem: &Problem, grade: Grade) -> bool {
        let reference = self.open(problem).and_then(|bench| bench.reference(grade));
        let until = reference.map(|reference| reference.holds_until_unix_ms(self.settings.refresh));
        until.is_some_and(|until| unix_ms() <= until)
    }

    /// The result of a program that the compile stage refuses, which needs no reference; none of any other program. The
    /// cache does not keep it: it knows results by their references, and compiling again takes little time.
    fn refused(&self, program: &Program) -> Result<Option<Judged>, Failure> {
        let problem = &program.problem;
        let evaluator = match self.open(problem) {
            Some(bench) => bench.plain.clone(),
            None => self.evaluator(problem)?,
        };
        let permitted = evaluator.permitted();
        let compiler = &evaluator.compiler;
        let built = compiler.compile_as(program.language, problem, &program.source, permitted);
        let refused = built.err().map(Judged::failed);
        // Other failures may pass until the reference is measured.
        Ok(refused.filter(|judged| matches!(judged.verdict, Verdict::Rejected { .. })))
    }

    /// Puts the bench of a problem to the front, with a reference of this grade that holds.
    fn make_ready(&mut self, problem: &Arc<Problem>, grade: Grade) -> Result<(), Failure> {
        let is_it = |bench: &Bench| bench.problem.digest == problem.digest;
        let (now, refresh) = (unix_ms(), self.settings.refresh);
        let holds = |reference: &Reference| now <= reference.holds_until_unix_ms(refresh);
        let known = self.benches.iter().position(is_it);
        let mut bench = match known.and_then(|place| self.benches.remove(place)) {
            Some(bench)
                if bench
                    .reference(grade)
                    .map_or(grade == Grade::Refined, holds) =>
            {
                bench
            }
            // A quick reference is that of the timer's start, which certifications replace. The old timer ends before the new
            // one measures.
            old => {
                drop(old);
                self.bench(problem)?
            }
        };
        let reference = match bench.find_reference(grade, &self.cache) {
            Some(reference) if holds(&reference) => reference,
            before => {
                let newer = bench.measure_reference(grade, &self.settings, &self.stopped)?;
                let reference = match before {
                    Some(before) => before.or_better(newer, refresh),
                    None => newer,
                };
                let kept = self.cache.keep_reference(problem, grade, &reference);
                if let Err(error) = kept {
                    tracing::warn!(%error, "a reference cannot be kept");
                }
                reference
            }
        };
        bench.timer.go_on_with(&reference.chains);
        self.cache.refer_to(problem, grade, &reference, refresh);
        bench.set_reference(grade, reference);
        self.benches.push_front(bench);
        self.benches.truncate(OPEN);
        Ok(())
    }

    fn evaluator(&self, problem: &Arc<Problem>) -> Result<Evaluator, Failure> {
        let compiler = &self.settings.compiler;
        evaluator(problem, compiler, &self.sandbox, &self.harness)
    }

    /// Opens a problem: finds the compiler, runs the reference, and measures peak and baseline.
    fn bench(&self, problem: &Arc<Problem>) -> Result<Bench, Failure> {
        let threads = self.settings.threads;
        let plain = self.evaluator(problem)?;
        let sanitizing = plain.clone().with_sanitizers(threads);
        let verifier = plain.verifier(threads)?;
        let cores = cores_to_watch(threads);
        let mut patience = Patience::new(self.settings.wait);
        let waited = patience.wait(|| idle_wait::used(&cores), &self.stopped);
        let reference_busy = disturbance(waited)?;
        let timer = plain.timer(threads)?;
        let attestation = timer.attestation();
        let kept = self
            .cache
            .keep_attestation(&attestation.digest(), &attestation.to_json());
        if let Err(error) = kept {
            tracing::warn!(%error, "an attestation cannot be kept");
        }
        let circumstances = Circumstances::of(&plain, threads);
        Ok(Bench {
            problem: Arc::clone(problem),
            plain,
            sanitizing,
            verifier,
            timer,
            reference_busy,
            circumstances,
            sanitize: self.settings.sanitize,
            quick: None,
            refined: None,
        })
    }
}

impl Judge for Station {
    fn judge(&mut self, program: &Program) -> Judged {
        let done = catch_unwind(AssertUnwindSafe(|| self.evaluate(program)));
        let judged = match done {
            Ok(Ok(judged)) => judged,
            Ok(Err(failure)) => Judged::failed(failure),
            Err(_) => Judged::failed(Failure::unknown(
                UnknownCause::Panicked,
                "the evaluation panicked; the log of the service has the message",
            )),
        };
        if !judged.verdict.counts() {
            // The next program of this problem gets new processes.
            let failed = &program.problem.digest;
            self.benches.retain(|bench| bench.problem.digest != *failed);
        }
        judged
    }
}

impl Bench {
    fn reference(&self, grade: Grade) -> Option<&Reference> {
        match grade {
            Grade::Quick => self.quick.as_ref(),
            Grade::Refined => self.refined.as_ref(),
        }
    }

    fn set_reference(&mut self, grade: Grade, reference: Reference) {
        match grade {
            Grade::Quick => self.quick = Some(reference),
            Grade::Refined => self.refined = Some(reference),
        }
    }

    /// The reference that was measured before in the same circumstances, by this process or an earlier one.
    fn find_reference(&self, grade: Grade, cache: &Cache) -> Option<Reference> {
        let known = self.reference(grade).cloned();
        let known = known.or_else(|| cache.read_reference(&self.problem, grade));
        known.filter(|reference| reference.is_of(&self.circumstances, self.sanitize))
    }

    /// Measures the reference; the timer has done so for [`Grade::Quick`].
    fn measure_reference(
        &mut self,
        grade: Grade,
        settings: &Settings,
        stopped: &CancellationToken,
    ) -> Result<Reference, Failure> {
        if grade == Grade::Refined {
            let mut patience = Patience::new(settings.wait);
            let timer = &mut self.timer;
            let waited = patience.wait(|| idle_wait::look(timer), stopped);
            self.reference_busy = disturbance(waited)?;
            self.timer.refine_reference()?;
        }
        let chains = self.timer.chains();
        let measured_unix_ms = unix_ms();
        let name = format!(
            "{:?} {} {:?} {measured_unix_ms} {chains:?}",
            self.circumstances, self.problem.digest, grade
        );
        Ok(Reference {
            circumstances: self.circumstances.clone(),
            sanitize: self.sanitize,
            speeds: ReferenceSpeeds {
                id: Digest::of(name.as_bytes()).short().to_owned(),
                gflops: self.timer.reference_gflops(),
                peak_gflops: self.timer.peak_gflops(),
                measured_unix_ms,
                log_se: chains.whole().log_se,
                converged: chains.converged(grade.usable_log_se()),
                machine_busy: self.reference_busy.clone(),
            },
            of_each: self.timer.reference_gflops_of_each(),
            roofs: Roofs::of(
                &self.problem,
                self.timer.attestation(),
                self.timer.peak_gflops(),
            ),
            chains,
            attempts: 0,
            tried_unix_ms: measured_unix_ms,
        })
    }

    fn evaluate(
        &mut self,
        program: &Program,
        settings: &Settings,
        stopped: &CancellationToken,
    ) -> Result<Judged, Failure> {
        let purpose = program.purpose;
        let certifies = purpose == Purpose::Certify;
        let evaluator = match settings.sanitize || certifies {
            true => &self.sanitizing,
            false => &self.plain,
        };
        let standard = flopsmith_measure::Purpose::from(purpose);
        let (language, source) = (program.language, &program.source);
        let prepared = evaluator.prepare(language, source, &mut self.verifier, standard.into());
        let reference = self.reference(Grade::of(purpose)).cloned();
        let reference = reference.ok_or_else(|| {
            Failure::infrastructure(InfrastructureCause::Baseline, "no reference was measured")
        })?;
        let mut busy = None;
        if prepared.can_be_timed() {
            let mut patience = Patience::new(settings.wait);
            let timer = &mut self.timer;
            // A look at the cores takes a sixth of a second. The quarantine costs nothing while the machine is quiet.
            let waited = match certifies {
                true => patience.wait(|| idle_wait::look(timer), stopped),
                false => patience.wait(|| idle_wait::drifted(timer), stopped),
            };
            let of_reference = reference.speeds.machine_busy.as_deref();
            busy = idle_wait::resting_on(of_reference, disturbance(waited)?);
        }
        let mut done = prepared.time(&mut self.timer, standard, None);
        if let Verdict::Measured { measurement } = &mut done.verdict {
            // The timer may have been made anew since the reference was measured.
            let speeds = &reference.speeds;
            measurement.tell_in(speeds.gflops, &reference.of_each, speeds.peak_gflops);
        }
        done.busy = busy.filter(|_| matches!(done.verdict, Verdict::Measured { .. }));
        Ok(Judged::of(done, reference))
    }
}

/// Finds the compiler of a problem. Its stages permit the techniques that prompts permit.
///
/// # Errors
/// The compiler is missing or does not work, or the problem's definition is not sound.
pub fn evaluator(
    problem: &Arc<Problem>,
    compiler: &str,
    sandbox: &Arc<Sandbox>,
    harness: &Path,
) -> Result<Evaluator, Failure> {
    let made = Evaluator::new(
        Arc::clone(problem),
        compiler,
        Arc::clone(sandbox),
        harness.to_owned(),
    );
    let permitting = made.map(|evaluator| evaluator.permitting(permitted(problem)));
    permitting.map_err(|error| match error {
        flopsmith_evaluate::Error::Stage(failure) => failure,
        flopsmith_evaluate::Error::Input(why) => {
            Failure::infrastructure(InfrastructureCause::Compiler, why)
        }
    })
}

/// The disturbance that remains after a wait.
fn disturbance(waited: Waited) -> Result<Option<String>, Failure> {
    waited.go_on().map_err(|_| {
        Failure::infrastructure(InfrastructureCause::Shutdown, "the service is stopping")
    })
}

/// Milliseconds since 1970.
pub fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |passed| {
        u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_problem::prompt;
    use flopsmith_protocol::Technique;
    use flopsmith_test_support::shipped;

    use super::*;
    use crate::describe::Described;

    #[test]
    fn prompts_permit_what_the_compile_stage_permits() {
        let weaker = flopsmith_sandbox::Options {
            allow_weaker: true,
            ..Default::default()
        };
        let sandbox = Arc::new(Sandbox::new(weaker).unwrap());
        let problem = Arc::new(Problem::load(&shipped::problem("dgemm")).unwrap());
        let stages = evaluator(&problem, "gcc", &sandbox, Path::new("harness")).unwrap();
        let described = Described::of(&problem);
        assert_eq!(described.techniques, stages.permitted());
        let asked = prompt::full(&problem, stages.permitted(), None);
        assert_eq!(described.prompt, asked);
        // `bench` permits OpenMP on one thread, too.
        assert!(stages.permitted().contains(Technique::Openmp));
        assert!(described.prompt.contains("omp.h"), "{}", described.prompt);
    }
}
