//! Compile, verify and time in this process, without a bus: for `bench`, `doctor` and the setting up of runs.

use std::sync::Arc;

use anyhow::{Context, Result};
use flopsmith_bench::compile::Compiler;
use flopsmith_bench::pinning;
use flopsmith_bench::toolchain::Toolchain;
use flopsmith_bench::{Cores, Failure, Purpose, Timer, Verifier};
use flopsmith_problem::Problem;
use flopsmith_protocol::{Measurement, TechniqueSet, Verdict};
use flopsmith_sandbox::{Options, Sandbox};

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

    /// Evaluates one program.
    pub fn evaluate(
        &self,
        source: &str,
        verifier: &mut Verifier,
        timer: &mut Timer,
        purpose: Purpose,
    ) -> Evaluated {
        let mut evaluated = Evaluated {
            verdict: Verdict::Unknown {
                detail: String::new(),
            },
            techniques: None,
            diagnostics: String::new(),
            raw: Vec::new(),
        };
        let outcome = self.stages(source, verifier, timer, purpose, &mut evaluated);
        evaluated.verdict = match outcome {
            Ok(measurement) => Verdict::Measured { measurement },
            Err(failure) => failure.into(),
        };
        evaluated
    }

    fn stages(
        &self,
        source: &str,
        verifier: &mut Verifier,
        timer: &mut Timer,
        purpose: Purpose,
        evaluated: &mut Evaluated,
    ) -> Result<Measurement, Failure> {
        let built = self
            .compiler
            .compile(&self.problem, source, self.problem.techniques)?;
        evaluated.techniques = Some(built.techniques);
        evaluated.diagnostics = built.diagnostics;
        verifier.verify(&built.object, random())?;
        let timed = timer.measure(&built.object, purpose, random(), None)?;
        evaluated.raw = timed.raw;
        Ok(timed.measurement)
    }
}

/// The cores a timer takes on this machine.
pub fn cores_for(threads: u32) -> Cores {
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
