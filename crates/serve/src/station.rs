//! Evaluates programs on this machine, one at a time.
//!
//! The tools, verifier and timer of a problem stay open for its next program ([`Bench`], one for each target). Its reference
//! is measured once and kept in the folder with the peak, so that all numbers of a service are comparable, also after a restart.
//! The roofs of the machine are measured once for all problems ([`SharedRoofs`]).
//! References are measured again when they do not hold any more ([`crate::reference`]), or when machine, tools or method changed.
//! A program that the compile stage refuses does not wait for that.

mod bench;
mod kernel;
mod module;
mod shared_roofs;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use flopsmith_evaluate::{Host, Pipeline};
use flopsmith_machine::attest::Attestation;
use flopsmith_problem::Problem;
use flopsmith_protocol::{Digest, Failure, InfrastructureCause, UnknownCause, Verdict};
use flopsmith_run::local::unix_ms;
use flopsmith_run::measuring_lock;
use tokio_util::sync::CancellationToken;

use crate::cache::Cache;
use crate::circumstances::Circumstances;
use crate::program::{Judge, Judged, Program};
use crate::reference::{Grade, Reference};
use crate::roofs::Roofs;
use crate::wire::ReferenceSpeeds;

use bench::{Bench, IdleWait, Measured};
use shared_roofs::SharedRoofs;

/// Number of places for problems that stay open. Each has processes and buffers of its own ([`Bench::places`]).
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

impl Settings {
    /// The wait before an evaluation, which cancelling `stopped` ends.
    fn idle_wait<'a>(&self, stopped: &'a CancellationToken) -> IdleWait<'a> {
        IdleWait {
            limit: self.wait,
            stopped,
        }
    }
}

/// Evaluates programs with real compilers, jails and clocks.
pub struct Station {
    settings: Settings,
    host: Host,
    cache: Arc<Cache>,
    /// The open problems, the most recently used first.
    open: VecDeque<Open>,
    roofs: SharedRoofs,
    stopped: CancellationToken,
    /// True once this process was announced as one that measures.
    announced: bool,
}

/// An open problem.
struct Open {
    pipeline: Pipeline,
    bench: Box<dyn Bench>,
    circumstances: Circumstances,
    quick: Option<Reference>,
    refined: Option<Reference>,
}

impl Station {
    /// A station without open problems. Cancelling `stopped` ends a wait for a quiet machine.
    pub fn new(
        settings: Settings,
        host: Host,
        cache: Arc<Cache>,
        stopped: CancellationToken,
    ) -> Self {
        Self {
            roofs: SharedRoofs::new(settings.refresh),
            settings,
            host,
            cache,
            open: VecDeque::new(),
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
        let Some(open) = self.open.front_mut() else {
            return Err(Failure::infrastructure(
                InfrastructureCause::Harness,
                "the problem is not open",
            ));
        };
        let idle = self.settings.idle_wait(&self.stopped);
        let done = open.evaluate(program, self.settings.sanitize, &idle)?;
        if let Err(error) = self.cache.keep(program, &done) {
            tracing::warn!(%error, "a result cannot be kept");
        }
        Ok(done)
    }

    /// The open problem.
    fn find(&self, problem: &Problem) -> Option<&Open> {
        self.open.iter().find(|open| open.is_of(problem))
    }

    /// True if a problem is open with a reference of this grade that holds.
    fn is_ready(&self, problem: &Problem, grade: Grade) -> bool {
        let reference = self.find(problem).and_then(|open| open.reference(grade));
        let until = reference.map(|reference| reference.holds_until_unix_ms(self.settings.refresh));
        until.is_some_and(|until| unix_ms() <= until)
    }

    /// The result of a program that the compile stage refuses, which needs no reference; none of any other program. The
    /// cache does not keep it: it knows results by their references, and compiling again takes little time.
    fn refused(&self, program: &Program) -> Result<Option<Judged>, Failure> {
        let pipeline = match self.find(&program.problem) {
            Some(open) => open.pipeline.clone(),
            None => pipeline(&program.problem, &self.host)?,
        };
        let built = pipeline.compile(program.language, &program.source);
        let refused = built.err().map(Judged::failed);
        // Other failures may pass until the reference is measured.
        Ok(refused.filter(|judged| matches!(judged.verdict, Verdict::Rejected { .. })))
    }

    /// Puts an open problem to the front, with a reference of this grade that holds.
    fn make_ready(&mut self, problem: &Arc<Problem>, grade: Grade) -> Result<(), Failure> {
        let (now, refresh) = (unix_ms(), self.settings.refresh);
        let holds = |reference: &Reference| now <= reference.holds_until_unix_ms(refresh);
        let known = self.open.iter().position(|open| open.is_of(problem));
        let mut open = match known.and_then(|place| self.open.remove(place)) {
            Some(open) if open.reference(grade).is_some_and(holds) || open.renews(grade) => open,
            // The old processes end before the new ones measure.
            old => {
                drop(old);
                self.opened(problem)?
            }
        };
        let reference = match open.find_reference(grade, &self.cache, self.settings.sanitize) {
            Some(reference) if holds(&reference) => reference,
            before => {
                let newer = self.measured(&mut open, grade)?;
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
        open.bench.refer_to(&reference.chains);
        self.cache.refer_to(problem, grade, &reference, refresh);
        open.set_reference(grade, reference);
        self.open.push_front(open);
        let places = self.open.iter().map(|open| open.bench.places());
        let kept = fitting(places, OPEN);
        self.open.truncate(kept);
        Ok(())
    }

    /// Opens a problem: finds its tools, and measures its baseline, and the roofs unless they are known.
    fn opened(&mut self, problem: &Arc<Problem>) -> Result<Open, Failure> {
        let pipeline = pipeline(problem, &self.host)?;
        let (settings, roofs) = (&self.settings, &mut self.roofs);
        let idle = settings.idle_wait(&self.stopped);
        let bench = bench::open(pipeline.clone(), settings, roofs, &idle)?;
        self.keep_attestation(bench.attestation());
        Ok(Open {
            circumstances: Circumstances::of(&pipeline, self.settings.threads),
            pipeline,
            bench,
            quick: None,
            refined: None,
        })
    }

    /// Measures the reference of an open problem.
    fn measured(&mut self, open: &mut Open, grade: Grade) -> Result<Reference, Failure> {
        let idle = self.settings.idle_wait(&self.stopped);
        let Measured {
            chains,
            gflops,
            of_each,
            peak_gflops,
            busy,
        } = open.bench.measure(grade, &mut self.roofs, &idle)?;
        let attestation = open.bench.attestation();
        self.keep_attestation(attestation);
        let problem = open.pipeline.problem();
        let measured_unix_ms = unix_ms();
        let name = format!(
            "{:?} {} {:?} {measured_unix_ms} {chains:?}",
            open.circumstances, problem.digest, grade
        );
        Ok(Reference {
            circumstances: open.circumstances.clone(),
            sanitize: self.settings.sanitize,
            speeds: ReferenceSpeeds {
                id: Digest::of(name.as_bytes()).short().to_owned(),
                gflops,
                peak_gflops,
                measured_unix_ms,
                log_se: chains.whole().log_se,
                converged: chains.converged(grade.usable_log_se()),
                machine_busy: busy,
            },
            of_each,
            roofs: Roofs::of(problem, attestation, peak_gflops),
            chains,
            attempts: 0,
            tried_unix_ms: measured_unix_ms,
        })
    }

    /// Keeps the machine that measurements name.
    fn keep_attestation(&self, attestation: &Attestation) {
        let (digest, json) = (attestation.digest(), attestation.to_json());
        if let Err(error) = self.cache.keep_attestation(&digest, &json) {
            tracing::warn!(%error, "an attestation cannot be kept");
        }
    }
}

/// How many of the first problems fit into so many places, each taking its share of them; at least one.
fn fitting(taken: impl Iterator<Item = usize>, places: usize) -> usize {
    let sums = taken.scan(0, |sum, own| {
        *sum += own;
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= places).count().max(1)
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
        if fails_bench(&judged.verdict) {
            // The next program of this problem gets new processes.
            self.open.retain(|open| !open.is_of(&program.problem));
        }
        judged
    }
}

/// True if a verdict leaves it open whether the processes of its problem are in order.
fn fails_bench(verdict: &Verdict) -> bool {
    let is_whole = matches!(
        verdict,
        Verdict::Unknown {
            cause: UnknownCause::NotTimed,
            ..
        }
    );
    !verdict.counts() && !is_whole
}

impl Open {
    fn is_of(&self, problem: &Problem) -> bool {
        self.pipeline.problem().digest == problem.digest
    }

    fn reference(&self, grade: Grade) -> Option<&Reference> {
        match grade {
            Grade::Quick => self.quick.as_ref(),
            Grade::Refined => self.refined.as_ref(),
        }
    }

    /// True if the reference can be measured to this grade by the processes that are open.
    fn renews(&self, grade: Grade) -> bool {
        let again = self.reference(grade).is_some();
        self.bench.renews(grade, again)
    }

    fn set_reference(&mut self, grade: Grade, reference: Reference) {
        match grade {
            Grade::Quick => self.quick = Some(reference),
            Grade::Refined => self.refined = Some(reference),
        }
    }

    /// The reference that was measured before in the same circumstances, by this process or an earlier one.
    fn find_reference(&self, grade: Grade, cache: &Cache, sanitize: bool) -> Option<Reference> {
        let known = self.reference(grade).cloned();
        let known = known.or_else(|| cache.read_reference(self.pipeline.problem(), grade));
        known.filter(|reference| reference.is_of(&self.circumstances, sanitize))
    }

    fn evaluate(
        &mut self,
        program: &Program,
        sanitize: bool,
        idle: &IdleWait<'_>,
    ) -> Result<Judged, Failure> {
        let reference = self.reference(Grade::of(program.purpose)).cloned();
        let reference = reference.ok_or_else(|| {
            Failure::infrastructure(InfrastructureCause::Baseline, "no reference was measured")
        })?;
        let of_reference = reference.speeds.machine_busy.as_deref();
        let bench = &mut self.bench;
        let mut done = bench.evaluate(program, sanitize, of_reference, idle)?;
        if let Verdict::Measured { measurement } = &mut done.verdict {
            // The timer may have been made anew since the reference was measured.
            let speeds = &reference.speeds;
            measurement.tell_in(speeds.gflops, &reference.of_each, speeds.peak_gflops);
        }
        Ok(Judged::of(done, reference))
    }
}

/// Finds the tools of a problem. Its stages permit the techniques that prompts permit.
///
/// # Errors
/// A tool is missing or does not work, or the problem's definition is not sound.
pub fn pipeline(problem: &Arc<Problem>, host: &Host) -> Result<Pipeline, Failure> {
    Pipeline::open(Arc::clone(problem), host).map_err(|error| match error {
        flopsmith_evaluate::Error::Stage(failure) => failure,
        flopsmith_evaluate::Error::Input(why) => {
            Failure::infrastructure(InfrastructureCause::Compiler, why)
        }
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::path::PathBuf;

    use flopsmith_problem::prompt;
    use flopsmith_protocol::Technique;
    use flopsmith_sandbox::Sandbox;
    use flopsmith_test_support::{infrastructure, measured, shipped, unknown, wrong};

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
        let host = Host {
            compiler: "gcc".into(),
            sandbox,
            harness: PathBuf::from("harness"),
            threads: 1,
            allow_weaker_jail: true,
            progress: |_| {},
        };
        let Pipeline::Kernel(stages) = pipeline(&problem, &host).unwrap() else {
            unreachable!("dgemm is a kernel")
        };
        let described = Described::of("dgemm", &problem);
        assert_eq!(described.techniques, stages.permitted());
        let asked = prompt::full(&problem, stages.permitted(), None);
        assert_eq!(described.prompt, asked);
        // `bench` permits OpenMP on one thread, too.
        assert!(stages.permitted().contains(Technique::Openmp));
        assert!(described.prompt.contains("omp.h"), "{}", described.prompt);
    }

    #[test]
    fn problems_take_places_by_their_weight_and_the_last_one_stays() {
        let fit = |all: &[usize]| fitting(all.iter().copied(), 8);
        assert_eq!(fit(&[1; 9]), 8);
        assert_eq!(fit(&[4, 1, 4, 1]), 2);
        assert_eq!(fit(&[4, 4, 1]), 2);
        assert_eq!(fit(&[9, 1]), 1);
    }

    #[test]
    fn a_program_for_a_gpu_leaves_the_processes_of_its_problem_alone() {
        let not_timed = Failure::unknown(UnknownCause::NotTimed, "needs a GPU");
        for (verdict, fails) in [
            (measured(1.0), false),
            (wrong(), false),
            (not_timed.into(), false),
            (unknown(), true),
            (infrastructure(InfrastructureCause::Jail), true),
        ] {
            assert_eq!(fails_bench(&verdict), fails, "{verdict:?}");
        }
    }
}
