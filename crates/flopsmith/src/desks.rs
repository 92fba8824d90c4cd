//! What the roles that evaluate programs are made of.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use flopsmith_actors::node::Context;
use flopsmith_actors::role::{compiler, timer, verifier};
use flopsmith_protocol::{Failure, MachineClass, MachineFacts, NodeId, RunId};
use flopsmith_measure::{Timer};
use flopsmith_machine::{openblas};

use crate::evaluator::Evaluator;
use crate::paths;
use crate::places::Places;

/// What a timer says of its machine, and OpenBLAS measured beside it where it was.
pub fn machine_facts(
    run: &RunId,
    node: &NodeId,
    class: &MachineClass,
    timer: &Timer,
    openblas: Option<openblas::Best>,
) -> MachineFacts {
    MachineFacts {
        run: run.clone(),
        node: node.clone(),
        machine_class: class.clone(),
        peak_gflops: timer.peak_gflops(),
        reference_gflops: timer.reference_gflops(),
        openblas_gflops: openblas.as_ref().map(|o| o.gflops),
        openblas_core: openblas.and_then(|o| o.core_type),
        attestation: timer.attestation().digest(),
        attestation_json: timer.attestation().to_json(),
    }
}

/// What programs of a run are compiled with.
pub fn compiler(context: &Arc<Context>, evaluator: &Evaluator) -> compiler::Desk {
    let stage: Arc<flopsmith_compile::Compiler> = Arc::clone(&evaluator.compiler);
    compiler::Desk {
        context: Arc::clone(context),
        stage,
    }
}

/// What programs of a run are timed with, certified ones at several places.
pub fn timer<S: timer::Stage>(
    context: &Arc<Context>,
    evaluator: &Evaluator,
    timer: Arc<Mutex<S>>,
    verifiers: &VerifierParts,
) -> Result<timer::Desk, Failure> {
    let places = Places::new(Arc::clone(&evaluator.compiler), verifiers.make()?);
    Ok(timer::Desk::new(Arc::clone(context), timer).with_layouts(Arc::new(places)))
}

/// What a verifier is made of; made anew when its role is.
#[derive(Clone)]
pub struct VerifierParts {
    sandbox: Arc<flopsmith_sandbox::Sandbox>,
    harness: PathBuf,
    problem: Arc<flopsmith_problem::Problem>,
    toolchain: flopsmith_compile::toolchain::Toolchain,
    sanitizers: Option<Arc<flopsmith_measure::Sanitizers>>,
    /// Programs will be timed with so many.
    threads: u32,
}

impl VerifierParts {
    /// The parts of a run whose programs are timed with so many threads.
    pub fn of(evaluator: &Evaluator, threads: u32) -> anyhow::Result<Self> {
        Ok(Self {
            sandbox: Arc::clone(&evaluator.sandbox),
            harness: paths::harness()?,
            problem: Arc::clone(&evaluator.problem),
            toolchain: evaluator.toolchain.clone(),
            sanitizers: evaluator.sanitizers.clone(),
            threads,
        })
    }

    /// One verifier with secrets of its own.
    pub fn make(&self) -> Result<flopsmith_measure::Verifier, Failure> {
        let verifier = flopsmith_measure::Verifier::new(
            Arc::clone(&self.sandbox),
            self.harness.clone(),
            Arc::clone(&self.problem),
            &self.toolchain,
            crate::evaluator::secret(),
        )?;
        Ok(verifier.for_threads(self.threads))
    }

    /// What programs of the context's run are verified with, so many at a time. Takes a moment.
    pub fn desk(&self, context: &Arc<Context>, slots: u32) -> Result<verifier::Desk, Failure> {
        let stages: Result<Vec<_>, _> = (0..slots).map(|_| self.make()).collect();
        let desk = verifier::Desk::new(Arc::clone(context), stages?);
        Ok(match &self.sanitizers {
            // One for all desks of a run: what is known of a program stays known.
            Some(sanitizers) => desk.with_last_look(Arc::clone(sanitizers) as _),
            None => desk,
        })
    }
}
