//! Compile, verify and time in this process, without a bus: for `bench`, `doctor` and the setting up of runs.

use std::sync::Arc;

use anyhow::Result;
use flopsmith_actors::settings::Settings;
use flopsmith_machine::environment::Watched;
use flopsmith_compile::toolchain::{Presence, Toolchain};
use flopsmith_measure::verify::soundness::{self, Examined};
use flopsmith_compile::{Built, Compiler};
use flopsmith_measure::{Checked, PADDINGS, Purpose, Sanitizers, Thoroughness, Timed, Timer, Verifier};
use flopsmith_machine::{openblas, pinning, Cores};
use flopsmith_protocol::{Failure, Technique, TechniqueSet, Verdict, VerifiedSizes};
use flopsmith_problem::{Language, Problem};
use flopsmith_sandbox::Sandbox;

use crate::exit::usage;
use crate::{jail, paths, places};

/// The stages of one machine.
pub struct Evaluator {
    /// The problem.
    pub problem: Arc<Problem>,
    /// The jail.
    pub sandbox: Arc<Sandbox>,
    /// Compiler and flags.
    pub toolchain: Toolchain,
    /// Compile stage.
    pub compiler: Arc<Compiler>,
    /// What looks at programs once more before they count; none where that was not asked for.
    pub sanitizers: Option<Arc<Sanitizers>>,
}

/// What became of a program.
pub struct Evaluated {
    /// Its verdict.
    pub verdict: Verdict,
    /// Its techniques, once it was compiled.
    pub techniques: Option<TechniqueSet>,
    /// Width of the widest vector register in its object, bits.
    pub vector_bits: Option<u32>,
    /// Compiler warnings.
    pub diagnostics: String,
    /// The sanitizers that found nothing in it, if it was looked at.
    pub checked: Option<Checked>,
    /// Raw samples.
    pub raw: Vec<u8>,
    /// What spoke against timing it, where it was timed all the same; whoever waits for a quiet machine says it.
    pub busy: Option<String>,
}

impl Evaluator {
    /// Finds compiler and jail; says what to try where one is missing.
    pub fn new(problem: Arc<Problem>, compiler: &str, allow_weaker_jail: bool) -> Result<Self> {
        can_be_meant(compiler)?;
        let sandbox = Arc::new(jail::open(allow_weaker_jail)?);
        let mistakes: Vec<String> = flopsmith_problem::check(&problem)
            .iter()
            .filter(|finding| finding.is_error())
            .map(ToString::to_string)
            .collect();
        if !mistakes.is_empty() {
            return Err(usage(format!(
                "the definition of {} is not sound: {}; `flopsmith problem check` says more",
                problem.id,
                mistakes.join("; ")
            )));
        }
        let toolchain = Toolchain::detect(Some(compiler), &problem)?;
        let stage = Arc::new(Compiler::new(Arc::clone(&sandbox), toolchain.clone()));
        Ok(Self {
            problem,
            sandbox,
            toolchain,
            compiler: stage,
            sanitizers: None,
        })
    }

    /// Has programs that are timed with `threads` threads looked at with sanitizers before they count.
    pub fn with_sanitizers(mut self, threads: u32) -> Self {
        self.sanitizers = Some(Arc::new(Sanitizers::new(
            Arc::clone(&self.sandbox),
            Arc::clone(&self.problem),
            &self.toolchain,
            threads,
        )));
        self
    }

    /// Holds the problem's reference against itself.
    pub fn examine(&self) -> Result<Examined> {
        Ok(soundness::examine(
            &self.sandbox,
            &paths::harness()?,
            &self.problem,
            &self.toolchain,
            random(),
        )?)
    }

    /// A verifier with secrets of its own, for programs that will be timed with at most so many threads.
    pub fn verifier(&self, threads: u32) -> Result<Verifier> {
        let verifier = Verifier::new(
            Arc::clone(&self.sandbox),
            paths::harness()?,
            Arc::clone(&self.problem),
            &self.toolchain,
            secret(),
        )?;
        Ok(verifier.for_threads(threads))
    }

    /// A timer with a running baseline.
    pub fn timer(&self, threads: u32) -> Result<Timer> {
        Ok(Timer::new(
            Arc::clone(&self.sandbox),
            paths::harness()?,
            Arc::clone(&self.problem),
            &self.toolchain,
            cores_for(threads),
            threads,
        )?)
    }

    /// How fast OpenBLAS is on as many threads and the same cores as the programs, where it solves this problem and is
    /// installed.
    pub fn openblas(&self, threads: u32) -> Option<openblas::Best> {
        comparable(&self.problem)
            .then(|| {
                let kernel = cores_for(threads).kernel;
                openblas::measure(&self.toolchain.compiler, 256, threads, &kernel)
            })
            .flatten()
    }

    /// Evaluates one program; one that is more than screened is verified in full and looked at with the sanitizers, if there are
    /// some.
    pub fn evaluate(
        &self,
        language: Language,
        source: &str,
        verifier: &mut Verifier,
        timer: &mut Timer,
        purpose: Purpose,
    ) -> Evaluated {
        let last_look = purpose != Purpose::Screen;
        let mut prepared = self.prepare(language, source, verifier, last_look);
        if purpose == Purpose::Certify {
            prepared.verify_elsewhere(verifier);
        }
        prepared.time(timer, purpose, None)
    }

    /// Compiles and verifies one program, for one timer or for several. With a `last_look` it is verified in full and the
    /// sanitizers look at it as well, if there are some.
    pub fn prepare(
        &self,
        language: Language,
        source: &str,
        verifier: &mut Verifier,
        last_look: bool,
    ) -> Prepared {
        let permitted = self.problem.techniques;
        let built = self
            .compiler
            .compile_as(language, &self.problem, source, permitted);
        match built {
            Err(failure) => Prepared::Refused(failure),
            Ok(built) => {
                let thoroughness = if last_look {
                    Thoroughness::Full
                } else {
                    Thoroughness::Screening
                };
                let verified = verifier.verify_to(&built.object, random(), thoroughness);
                let openmp = built.techniques.contains(Technique::Openmp);
                let sizes = verified.as_ref().ok().and_then(|report| report.sizes);
                let looked = verified.and_then(|_| {
                    let sanitizers = self.sanitizers.as_ref().filter(|_| last_look);
                    sanitizers
                        .map(|s| s.check_as(language, source, openmp))
                        .transpose()
                });
                let (checked, failed) = match looked {
                    Ok(checked) => (checked, None),
                    Err(failure) => (None, Some(failure)),
                };
                let elsewhere = Elsewhere {
                    compiler: Arc::clone(&self.compiler),
                    problem: Arc::clone(&self.problem),
                    language,
                    source: source.to_owned(),
                    verified: None,
                };
                Prepared::Built {
                    built,
                    elsewhere,
                    checked,
                    sizes,
                    failed,
                }
            }
        }
    }
}

/// A program that can be timed, or that cannot.
#[expect(
    clippy::large_enum_variant,
    reason = "there are few at a time, and most are built"
)]
pub enum Prepared {
    /// There is no object.
    Refused(Failure),
    /// There is one.
    Built {
        /// The object and what is known of it.
        built: Built,
        /// What builds it once more.
        elsewhere: Elsewhere,
        /// The sanitizers that found nothing, if they looked at it.
        checked: Option<Checked>,
        /// The sizes at which it was verified, where that was done in full.
        sizes: Option<VerifiedSizes>,
        /// Why it may not be timed.
        failed: Option<Failure>,
    },
}

/// What builds a program once more, with its code at other places.
pub struct Elsewhere {
    compiler: Arc<Compiler>,
    problem: Arc<Problem>,
    language: Language,
    source: String,
    /// Its objects, once they were verified.
    verified: Option<Vec<Vec<u8>>>,
}

impl Elsewhere {
    fn certify(&self, timer: &mut Timer) -> Result<Timed, Failure> {
        if let Some(layouts) = &self.verified {
            return timer.certify(layouts, random());
        }
        // One of our own programs.
        let layouts =
            self.compiler
                .layouts(self.language, &self.problem, &self.source, &PADDINGS)?;
        timer.certify(&layouts, random())
    }
}

impl Prepared {
    /// Builds the program with its code at other places and verifies each of these objects: what a candidate must have behind it
    /// before it is certified.
    pub fn verify_elsewhere(&mut self, verifier: &mut Verifier) {
        let Prepared::Built {
            elsewhere, failed, ..
        } = self
        else {
            return;
        };
        if failed.is_some() {
            return;
        }
        let (compiler, problem) = (&elsewhere.compiler, &elsewhere.problem);
        let (language, source) = (elsewhere.language, elsewhere.source.as_str());
        match places::verified(compiler, language, problem, source, verifier) {
            Ok(objects) => elsewhere.verified = Some(objects),
            Err(failure) => *failed = Some(failure),
        }
    }

    /// Times it, unless something speaks against that. A screening ends early for what is clearly slower than
    /// `best_gflops`, see [`Timer::measure`].
    pub fn time(&self, timer: &mut Timer, purpose: Purpose, best_gflops: Option<f64>) -> Evaluated {
        let (built, timed) = match self {
            Prepared::Refused(failure) => (None, Err(failure.clone())),
            Prepared::Built {
                built,
                failed: Some(failure),
                ..
            } => (Some(built), Err(failure.clone())),
            Prepared::Built {
                built,
                elsewhere,
                failed: None,
                ..
            } => {
                let timed = match purpose {
                    Purpose::Certify => elsewhere.certify(timer),
                    _ => timer.measure(&built.object, purpose, random(), best_gflops),
                };
                (Some(built), timed)
            }
        };
        let (verdict, raw) = match timed {
            Ok(timed) => {
                let mut measurement = timed.measurement;
                measurement.sizes = self.sizes();
                (Verdict::Measured { measurement }, timed.raw)
            }
            Err(failure) => (failure.into(), Vec::new()),
        };
        Evaluated {
            verdict,
            techniques: built.map(|b| b.techniques),
            vector_bits: built.and_then(|b| b.vector_bits),
            diagnostics: built.map(|b| b.diagnostics.clone()).unwrap_or_default(),
            checked: self.checked().cloned(),
            raw,
            busy: None,
        }
    }

    /// Does nothing speak against timing it?
    pub fn can_be_timed(&self) -> bool {
        matches!(self, Prepared::Built { failed: None, .. })
    }

    /// The sanitizers that found nothing, if they looked at it.
    pub fn checked(&self) -> Option<&Checked> {
        match self {
            Prepared::Refused(_) => None,
            Prepared::Built { checked, .. } => checked.as_ref(),
        }
    }

    /// The sizes at which it was verified, where that was done in full.
    fn sizes(&self) -> Option<VerifiedSizes> {
        match self {
            Prepared::Refused(_) => None,
            Prepared::Built { sizes, .. } => *sizes,
        }
    }

    /// The shared object, once there is one.
    pub fn object(&self) -> Option<&[u8]> {
        match self {
            Prepared::Refused(_) => None,
            Prepared::Built { built, .. } => Some(&built.object),
        }
    }
}

/// Is a program called what C compilers are called?
fn is_called_one(compiler: &str) -> bool {
    let name = compiler.rsplit('/').next().unwrap_or_default();
    let known = ["gcc", "g++", "clang", "clang++", "cc", "c++"];
    name.split('-').any(|part| known.contains(&part))
}

/// The compiler that is taken where none is named: that it is missing is no mistake of the user's.
const USUAL: &str = "gcc";

/// Refuses a compiler that was asked for and is not there, or is none.
pub fn can_be_meant(compiler: &str) -> Result<()> {
    let lacking = match Toolchain::presence(compiler) {
        // One that is called a compiler and does not answer like one is broken, which is this machine's matter.
        Presence::There if is_called_one(compiler) || !Toolchain::is_no_compiler(compiler) => {
            return Ok(());
        }
        Presence::Installable { .. } if compiler == USUAL => return Ok(()),
        Presence::There => format!("`{compiler}` does not answer as a C compiler does"),
        Presence::NotExecutable => {
            format!("`{compiler}` cannot be executed; `chmod +x` makes it a program")
        }
        Presence::Installable { packages } => format!(
            "`{compiler}` was not found; install it (Debian, Ubuntu: `apt install {packages}`)"
        ),
        Presence::Nowhere if compiler.contains('/') => {
            format!("there is no compiler at `{compiler}`")
        }
        Presence::Nowhere => {
            format!("`{compiler}` was not found, and is no name of gcc or clang")
        }
    };
    let here = Toolchain::here();
    let here = if here.is_empty() {
        "gcc and clang are not on the PATH".to_owned()
    } else {
        format!("on the PATH there is {}", here.join(", "))
    };
    Err(usage(format!(
        "{lacking}, or name gcc, clang or the path of one (--compiler, FLOPSMITH_COMPILER, or `evaluate.compiler` of a run): {here}"
    )))
}

/// OpenBLAS multiplies matrices; beside any other problem its speed says nothing.
fn comparable(problem: &Problem) -> bool {
    problem.id.as_str() == "dgemm"
}

/// Has this machine the cores that a run asks for? Where workers evaluate, it need not.
pub fn has_cores(settings: &Settings) -> Result<()> {
    if settings.evaluate.workers {
        return Ok(());
    }
    has_cores_for(settings.threads)
}

/// Refuses more threads than there are cores to time them on: they would take turns, and their times mean nothing.
pub fn has_cores_for(threads: u32) -> Result<()> {
    let cores = pinning::allowed_cores().len();
    if threads as usize <= cores {
        return Ok(());
    }
    Err(usage(format!(
        "`threads` is {threads}, and this machine has {cores} core{} to time them on: set it to {cores} at most",
        if cores == 1 { "" } else { "s" }
    )))
}

/// The cores a timer takes on this machine.
fn cores_for(threads: u32) -> Cores {
    pinning::assign(
        &pinning::allowed_cores(),
        threads as usize,
        pinning::siblings,
    )
}

/// The cores to look at before there is a timer of so many threads, which measures its yardstick at once.
pub fn cores_to_watch(threads: u32) -> Watched {
    let cores = cores_for(threads);
    let beside = cores.kernel.iter().copied().flat_map(pinning::siblings);
    Watched::of(&cores, threads, &beside.collect::<Vec<usize>>())
}

/// 64 bits nobody can foresee.
pub fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish()
}

/// 256 bits nobody can foresee.
pub fn secret() -> [u8; 32] {
    let mut bytes = [0; 32];
    for chunk in bytes.chunks_exact_mut(8) {
        chunk.copy_from_slice(&random().to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopsmith_protocol::ProblemId;

    #[test]
    fn more_threads_than_cores_are_wrong_usage() {
        has_cores_for(1).expect("every machine has a core");
        let error = has_cores_for(100_000).expect_err("no machine has so many");
        assert!(error.is::<crate::exit::Usage>(), "{error:#}");
        assert!(
            error.to_string().contains("`threads` is 100000"),
            "{error:#}"
        );
    }

    #[test]
    fn openblas_is_compared_at_matrix_multiplication_only() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemm");
        let mut problem = Problem::load(&root).expect("the shipped problem");
        assert!(comparable(&problem));
        problem.id = ProblemId::new("stencil").expect("an id");
        assert!(!comparable(&problem));
    }
}
