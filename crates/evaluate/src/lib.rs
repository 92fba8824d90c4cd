//! The evaluation pipeline: takes a candidate and returns a verdict.
//!
//! [`Evaluator`] has the stages of one machine for one problem. Roles on the bus call its stages one by one
//! ([`Evaluator::compiler`], [`Evaluator::verifier`], [`Evaluator::timer`], [`VerifiedLayouts`]); all other callers use
//! [`Evaluator::evaluate`], or [`Evaluator::prepare`] and [`Prepared::time`] if they time a program more than once.
//! Modules of PyTorch have an evaluator of their own, [`ModuleEvaluator`]; [`Pipeline`] is either. `bench` and `problem check`
//! take its [`ModuleStages`] alone, since they show all baselines and choose the cores.
//! [`Look`] alone decides which checks of a kernel precede a measurement, for roles and for all others.
//! This crate uses no bus, no settings of runs, and no files except those of compiler and jail, and the names of device nodes.

mod draws;
mod layouts;
mod look;
mod modules;
mod pipeline;
mod prepared;
mod question;
mod require;
mod tools;

use std::path::PathBuf;
use std::sync::Arc;

use flopsmith_compile::{Compiler, Toolchain, doubtful_kind};
use flopsmith_machine::attest::Attestation;
use flopsmith_machine::counters::Counters;
use flopsmith_machine::environment::Watched;
use flopsmith_machine::{Cores, openblas, pinning};
use flopsmith_measure::time::counters;
use flopsmith_measure::verify::soundness::{self, Examined};
use flopsmith_measure::{Calibration, Listener, Purpose, Sanitizers, Timer, Verifier, needs};
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{CandidateFault, Failure, InfrastructureCause, Technique, TechniqueSet};
use flopsmith_sandbox::Sandbox;

use draws::Draws;
pub use draws::random;
pub use flopsmith_compile::Question as BuildQuestion;
pub use layouts::VerifiedLayouts;
pub use look::Look;
pub use modules::{ModuleEvaluator, ModuleMachine, ModuleStages};
pub use pipeline::{Host, Pipeline, missing, unexplained, without_pytorch};
use prepared::OtherLayouts;
pub use prepared::{Evaluated, Prepared};
pub use question::lacks;
pub use require::{has_cores, is_compiler};
pub use tools::timing_tools;

/// Why the pipeline cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller asked for something that is not available: wrong usage.
    #[error("{0}")]
    Input(String),
    /// A stage cannot work on this machine.
    #[error(transparent)]
    Stage(#[from] Failure),
}

impl Error {
    /// True if the caller has to ask for something else.
    pub fn is_of_the_input(&self) -> bool {
        matches!(self, Error::Input(_))
    }
}

/// The stages of one machine.
#[derive(Clone)]
pub struct Evaluator {
    /// The problem.
    pub problem: Arc<Problem>,
    /// The jail.
    pub sandbox: Arc<Sandbox>,
    /// The program in the jail that calls candidates.
    harness: PathBuf,
    /// Compiler and flags.
    pub toolchain: Toolchain,
    /// Compile stage.
    pub compiler: Arc<Compiler>,
    /// Checks programs once more before they count; none if the caller did not ask for that.
    pub sanitizers: Option<Arc<Sanitizers>>,
    /// Techniques that programs may use.
    permitted: TechniqueSet,
    draws: Draws,
    /// Is told of the steps of timers.
    listener: Listener,
}

impl Evaluator {
    /// Finds the compiler, and checks that the problem's definition is consistent and that its programs can have the
    /// processor time here that verification grants them. Candidates run in `sandbox`; `harness` calls them.
    ///
    /// # Errors
    /// [`Error::Input`] if `compiler` is no compiler or the definition is not sound; [`Error::Stage`] if the compiler
    /// is not installed or does not work, or if a hard limit of this process is too low.
    pub fn new(
        problem: Arc<Problem>,
        compiler: &str,
        sandbox: Arc<Sandbox>,
        harness: PathBuf,
    ) -> Result<Self, Error> {
        if problem.module.is_some() {
            return Err(Error::Input(format!(
                "{} is a module of PyTorch, and this works with kernels only",
                problem.id
            )));
        }
        is_compiler(compiler)?;
        let mistakes: Vec<String> = flopsmith_problem::check(&problem)
            .iter()
            .filter(|finding| finding.is_error())
            .map(ToString::to_string)
            .collect();
        if !mistakes.is_empty() {
            return Err(Error::Input(format!(
                "the definition of {} has errors: {}; run `flopsmith problem check` for details",
                problem.id,
                mistakes.join("; ")
            )));
        }
        // The check of the jail, `needs::stages`, covers one timed size.
        if problem.timed_sizes().len() > 1 {
            needs::verification(&sandbox, &problem)
                .map_err(|error| Failure::ours(InfrastructureCause::Jail, &error))?;
        }
        let toolchain = Toolchain::detect(Some(compiler), &problem)?;
        let stage = Arc::new(Compiler::new(Arc::clone(&sandbox), toolchain.clone()));
        Ok(Self {
            permitted: problem.techniques,
            draws: Draws::System,
            problem,
            sandbox,
            harness,
            toolchain,
            compiler: stage,
            sanitizers: None,
            listener: Listener::default(),
        })
    }

    /// Permits programs these techniques only; by default, all that the problem permits.
    pub fn permitting(mut self, techniques: TechniqueSet) -> Self {
        self.permitted = techniques;
        self
    }

    /// The techniques that programs may use.
    pub fn permitted(&self) -> TechniqueSet {
        self.permitted
    }

    /// Lets the timers that are made from now on tell `listener` of their steps.
    pub fn telling(mut self, listener: Listener) -> Self {
        self.listener = listener;
        self
    }

    /// Derives secrets and seeds from `seed`, so that two evaluations in the same order repeat. For tests only: a
    /// candidate must not know the secrets.
    pub fn seeded(mut self, seed: u64) -> Self {
        self.draws = Draws::seeded(seed);
        self
    }

    /// Adds sanitizers, which check programs that are timed with `threads` threads before they count.
    pub fn with_sanitizers(mut self, threads: u32) -> Self {
        self.sanitizers = Some(Arc::new(Sanitizers::new(
            Arc::clone(&self.sandbox),
            Arc::clone(&self.problem),
            &self.toolchain,
            threads,
        )));
        self
    }

    /// Checks the problem's reference and definition: compiles and calls the reference, see [`soundness::examine`].
    ///
    /// # Errors
    /// The failure that keeps the problem's programs from running here.
    pub fn examine(&self) -> Result<Examined, Failure> {
        soundness::examine(
            &self.sandbox,
            &self.harness,
            &self.problem,
            &self.toolchain,
            self.draws.random(),
        )
    }

    /// A verifier with secrets of its own, for programs that will be timed with `threads` threads.
    ///
    /// # Errors
    /// As [`Verifier::new`].
    pub fn verifier(&self, threads: u32) -> Result<Verifier, Failure> {
        let verifier = Verifier::new(
            Arc::clone(&self.sandbox),
            self.harness.clone(),
            Arc::clone(&self.problem),
            &self.toolchain,
            self.draws.secret(),
        )?;
        Ok(verifier.for_threads(threads))
    }

    /// A timer with a running baseline.
    ///
    /// # Errors
    /// As [`Timer::new`].
    pub fn timer(&self, threads: u32) -> Result<Timer, Failure> {
        self.timer_with_roofs(threads, None)
    }

    /// The same with the peak and the roofs of `known`, if they are those of the timer's cores and threads; others are
    /// measured.
    ///
    /// # Errors
    /// As [`Timer::new`].
    pub fn timer_with_roofs(
        &self,
        threads: u32,
        known: Option<&Attestation>,
    ) -> Result<Timer, Failure> {
        let calibration = calibration(known).telling(self.listener.clone());
        Timer::calibrated(
            Arc::clone(&self.sandbox),
            self.harness.clone(),
            Arc::clone(&self.problem),
            &self.toolchain,
            cores_for(threads),
            threads,
            &calibration,
        )
    }

    /// Speed of OpenBLAS on the same cores and with as many threads as the programs, at the same sizes: over several
    /// workloads the geometric mean. None if OpenBLAS does not solve this problem or is not installed.
    pub fn openblas(&self, threads: u32) -> Option<openblas::Best> {
        if !compares_openblas(&self.problem) {
            return None;
        }
        let kernel = cores_for(threads).kernel;
        let compiler = &self.toolchain.compiler;
        let sizes = self.problem.workloads.iter();
        let measured: Option<Vec<openblas::Best>> = sizes
            .map(|workload| {
                let n = usize::try_from(*workload.params.get("n")?).ok()?;
                openblas::measure(compiler, n, threads, &kernel)
            })
            .collect();
        openblas::Best::over(&measured?)
    }

    /// Hardware counters of a verified program's calls with so many threads, in words for readers: counts of a call at each
    /// workload, or the sentence that says why this machine has none.
    ///
    /// # Errors
    /// The candidate's fault, or an infrastructure failure.
    pub fn count(&self, language: Language, source: &str, threads: u32) -> Result<String, Failure> {
        if let Err(why) = Counters::of(0) {
            return Ok(why);
        }
        let built = self
            .compiler
            .compile_as(language, &self.problem, source, self.permitted)?;
        let counted = counters::count(
            &self.sandbox,
            &self.harness,
            &self.problem,
            &self.toolchain,
            &cores_for(threads).kernel,
            &built.object,
        )?;
        Ok(counters::in_words(&counted))
    }

    /// Evaluates one program, after the look that a measurement to this standard needs.
    pub fn evaluate(
        &self,
        language: Language,
        source: &str,
        verifier: &mut Verifier,
        timer: &mut Timer,
        purpose: Purpose,
    ) -> Evaluated {
        let prepared = self.prepare(language, source, verifier, purpose.into());
        prepared.time(timer, purpose, None)
    }

    /// Compiles and verifies one program, for one timer or for several. `look` says how closely; a program can be certified
    /// only after [`Look::Certified`].
    pub fn prepare(
        &self,
        language: Language,
        source: &str,
        verifier: &mut Verifier,
        look: Look,
    ) -> Prepared {
        let built = self
            .compiler
            .compile_as(language, &self.problem, source, self.permitted);
        let built = match built {
            Err(failure) => return Prepared::Refused(failure),
            Ok(built) => built,
        };
        let seed = self.draws.random();
        let openmp = built.techniques.contains(Technique::Openmp);
        let verified = verifier
            .verify_to(&built.object, seed, look.thoroughness())
            .map_err(|failure| match openmp {
                true => about_openmp(failure, &self.toolchain.version),
                false => failure,
            })
            .map_err(|failure| about_kinds(failure, &self.problem, language, source));
        let sizes = verified.as_ref().ok().and_then(|report| report.sizes);
        let looked = verified.and_then(|_| {
            let sanitizers = self.sanitizers.as_ref().filter(|_| look.sanitizes());
            sanitizers
                .map(|s| s.check_as(language, source, openmp))
                .transpose()
        });
        let (checked, mut failed) = match looked {
            Ok(checked) => (checked, None),
            Err(failure) => (None, Some(failure)),
        };
        let mut others = None;
        if failed.is_none() && look.verifies_layouts() {
            let (compiler, problem) = (&self.compiler, &self.problem);
            match layouts::verified(compiler, language, problem, source, verifier, &self.draws) {
                Ok(objects) => others = Some(objects),
                Err(failure) => failed = Some(failure),
            }
        }
        Prepared::Built {
            built,
            other_layouts: OtherLayouts {
                verified: others,
                draws: self.draws.clone(),
            },
            checked,
            sizes,
            failed,
        }
    }
}

/// Says why OpenMP is refused with clang: its library of OpenMP registers itself in shared memory when it starts, which no kernel
/// may do.
fn about_openmp(failure: Failure, compiler: &str) -> Failure {
    match failure {
        Failure::Candidate {
            fault: fault @ CandidateFault::ForbiddenSyscall,
            detail,
        } if compiler.contains("clang") => Failure::Candidate {
            fault,
            detail: format!(
                "{detail}; clang's library of OpenMP opens shared memory when it starts, which the jail refuses: compile programs with OpenMP by gcc"
            ),
        },
        other => other,
    }
}

/// Adds to a crash which argument of a program in Fortran may have another size than in C.
fn about_kinds(failure: Failure, problem: &Problem, language: Language, source: &str) -> Failure {
    match failure {
        Failure::Candidate {
            fault: fault @ CandidateFault::Crash,
            detail,
        } => Failure::Candidate {
            fault,
            detail: match doubtful_kind(source, problem, language) {
                Some(hint) => format!("{detail}; {hint}"),
                None => detail,
            },
        },
        other => other,
    }
}

/// True if OpenBLAS solves this problem. It multiplies matrices; its speed cannot be compared with programs for any other
/// problem.
pub fn compares_openblas(problem: &Problem) -> bool {
    problem.id.as_str() == "dgemm"
}

/// The usual calibration, with the roofs of an attestation if there is one.
fn calibration(known: Option<&Attestation>) -> Calibration {
    let usual = Calibration::default();
    match known {
        Some(known) => usual.with_roofs_of(known),
        None => usual,
    }
}

/// The cores a timer takes on this machine.
fn cores_for(threads: u32) -> Cores {
    pinning::assign(
        &pinning::allowed_cores(),
        threads as usize,
        pinning::siblings,
    )
}

/// The cores to watch before a timer of `threads` threads is created. A new timer measures its reference at once.
pub fn cores_to_watch(threads: u32) -> Watched {
    let cores = cores_for(threads);
    let beside = cores.kernel.iter().copied().flat_map(pinning::siblings);
    Watched::of(&cores, threads, &beside.collect::<Vec<usize>>())
}

#[cfg(test)]
mod tests {
    use flopsmith_protocol::ProblemId;
    use flopsmith_test_support::shipped;

    use super::*;

    #[test]
    fn a_module_is_no_kernel_for_a_compiler() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = folder.join("../../problems/modules/softmax");
        let problem = Arc::new(Problem::load_module(&folder).expect("the shipped problem"));
        let options = flopsmith_sandbox::Options {
            allow_weaker: true,
            ..Default::default()
        };
        let sandbox = Sandbox::new(options).expect("a jail");
        let made = Evaluator::new(problem, "gcc", Arc::new(sandbox), PathBuf::new());
        let error = made.err().expect("a module has no entry for a compiler");
        assert!(error.is_of_the_input(), "{error}");
        assert!(error.to_string().contains("module of PyTorch"), "{error}");
    }

    #[test]
    fn a_refusal_of_openmp_by_clang_says_what_to_try() {
        let refused = |fault| Failure::candidate(fault, "a call");
        let said = |fault, compiler| about_openmp(refused(fault), compiler).to_string();
        let syscall = CandidateFault::ForbiddenSyscall;
        let debian = "Debian clang version 14.0.6";
        assert!(said(syscall, debian).contains("compile programs with OpenMP by gcc"));
        assert!(!said(syscall, "gcc (Debian 12.2.0-14) 12.2.0").contains("by gcc"));
        assert!(!said(CandidateFault::WrongResult, debian).contains("by gcc"));
    }

    #[test]
    fn a_crash_names_a_kind_that_was_not_understood() {
        let problem = Problem::load(&shipped::at("dgemm")).expect("the shipped problem");
        let with = |kind: &str| {
            format!(
                "subroutine dgemm(n, a, b, c) bind(c)\ninteger({kind}), value :: n\nreal(8) :: a(*), b(*), c(*)\nend"
            )
        };
        let said = |fault, kind: &str, language| {
            let failure = Failure::candidate(fault, "it died");
            about_kinds(failure, &problem, language, &with(kind)).to_string()
        };
        let (crash, fortran) = (CandidateFault::Crash, Language::Fortran);
        let hint = "line 2: the kind of `n` was not understood";
        assert!(said(crash, "max(4, 8)", fortran).contains(hint));
        for (fault, kind, language) in [
            (crash, "c_int", fortran),
            (crash, "max(4, 8)", Language::C),
            (CandidateFault::WrongResult, "max(4, 8)", fortran),
        ] {
            assert!(!said(fault, kind, language).contains("kind of"), "{kind}");
        }
    }

    #[test]
    fn openblas_is_compared_at_matrix_multiplication_only() {
        let mut problem = Problem::load(&shipped::at("dgemm")).expect("the shipped problem");
        assert!(compares_openblas(&problem));
        problem.id = ProblemId::new("stencil").expect("an id");
        assert!(!compares_openblas(&problem));
    }
}
