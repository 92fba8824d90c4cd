//! Compile, verify and time in this process, without a bus: for `bench`, `doctor` and the setting up of runs.

use std::sync::Arc;

use anyhow::{Context, Result};
use flopsmith_bench::compile::Compiler;
use flopsmith_bench::pinning;
use flopsmith_bench::toolchain::Toolchain;
use flopsmith_bench::verify::soundness::{self, Examined};
use flopsmith_bench::{Built, Cores, Failure, PADDINGS, Purpose, Timed, Timer, Verifier, openblas};
use flopsmith_problem::Problem;
use flopsmith_protocol::{TechniqueSet, Verdict};
use flopsmith_sandbox::{Options, Sandbox};

use crate::exit::usage;
use crate::paths;

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
    /// Raw samples.
    pub raw: Vec<u8>,
}

impl Evaluator {
    /// Finds compiler and jail; says what to try where one is missing.
    pub fn new(problem: Arc<Problem>, compiler: &str, allow_weaker_jail: bool) -> Result<Self> {
        let sandbox = Sandbox::new(Options {
            allow_weaker: allow_weaker_jail,
            bwrap: None,
        })
        .context("untrusted programs cannot be run safely here")?;
        let sandbox = Arc::new(sandbox);
        let toolchain = Toolchain::detect(Some(compiler), &problem)?;
        let stage = Arc::new(Compiler::new(Arc::clone(&sandbox), toolchain.clone()));
        Ok(Self {
            problem,
            sandbox,
            toolchain,
            compiler: stage,
        })
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

    /// A verifier with secrets of its own.
    pub fn verifier(&self) -> Result<Verifier> {
        Ok(Verifier::new(
            Arc::clone(&self.sandbox),
            paths::harness()?,
            Arc::clone(&self.problem),
            &self.toolchain,
            secret(),
        )?)
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

    /// Evaluates one program.
    pub fn evaluate(
        &self,
        source: &str,
        verifier: &mut Verifier,
        timer: &mut Timer,
        purpose: Purpose,
    ) -> Evaluated {
        self.prepare(source, verifier).time(timer, purpose)
    }

    /// Compiles and verifies one program, for one timer or for several.
    pub fn prepare(&self, source: &str, verifier: &mut Verifier) -> Prepared {
        let permitted = self.problem.techniques;
        match self.compiler.compile(&self.problem, source, permitted) {
            Err(failure) => Prepared::Refused(failure),
            Ok(built) => {
                let failed = verifier.verify(&built.object, random()).err();
                let elsewhere = Elsewhere {
                    compiler: Arc::clone(&self.compiler),
                    problem: Arc::clone(&self.problem),
                    source: source.to_owned(),
                };
                Prepared::Built {
                    built,
                    elsewhere,
                    failed,
                }
            }
        }
    }
}

/// A program that can be timed, or that cannot.
pub enum Prepared {
    /// There is no object.
    Refused(Failure),
    /// There is one.
    Built {
        /// The object and what is known of it.
        built: Built,
        /// What builds it once more.
        elsewhere: Elsewhere,
        /// Why it may not be timed.
        failed: Option<Failure>,
    },
}

/// What builds a program once more, with its code at other places.
pub struct Elsewhere {
    compiler: Arc<Compiler>,
    problem: Arc<Problem>,
    source: String,
}

impl Elsewhere {
    fn certify(&self, timer: &mut Timer) -> Result<Timed, Failure> {
        let layouts = self
            .compiler
            .layouts(&self.problem, &self.source, &PADDINGS)?;
        timer.certify(&layouts, random())
    }
}

impl Prepared {
    /// Times it, unless something speaks against that.
    pub fn time(&self, timer: &mut Timer, purpose: Purpose) -> Evaluated {
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
            } => {
                let timed = match purpose {
                    Purpose::Certify => elsewhere.certify(timer),
                    _ => timer.measure(&built.object, purpose, random(), None),
                };
                (Some(built), timed)
            }
        };
        let (verdict, raw) = match timed {
            Ok(timed) => {
                let measurement = timed.measurement;
                (Verdict::Measured { measurement }, timed.raw)
            }
            Err(failure) => (failure.into(), Vec::new()),
        };
        Evaluated {
            verdict,
            techniques: built.map(|b| b.techniques),
            vector_bits: built.and_then(|b| b.vector_bits),
            diagnostics: built.map(|b| b.diagnostics.clone()).unwrap_or_default(),
            raw,
        }
    }

    /// Does nothing speak against timing it?
    pub fn can_be_timed(&self) -> bool {
        matches!(self, Prepared::Built { failed: None, .. })
    }

    /// The shared object, once there is one.
    pub fn object(&self) -> Option<&[u8]> {
        match self {
            Prepared::Refused(_) => None,
            Prepared::Built { built, .. } => Some(&built.object),
        }
    }
}

/// OpenBLAS multiplies matrices; beside any other problem its speed says nothing.
fn comparable(problem: &Problem) -> bool {
    problem.id.as_str() == "dgemm"
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
