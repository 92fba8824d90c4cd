//! The stages of the evaluation pipeline, as the roles of a run take them.

use std::sync::Arc;

use flopsmith_evaluate::{Evaluator, ModuleMachine, Pipeline, VerifiedLayouts};
use flopsmith_machine::openblas;
use flopsmith_measure::Timer;
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{Failure, MachineClass, MachineFacts, NodeId, RunId};

use crate::node::Context;
use crate::role::{compiler, timer, verifier};

/// A timer's facts about its machine, with the speed of OpenBLAS if it was measured.
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
        problem: None,
        peak_gflops: timer.peak_gflops(),
        reference_gflops: timer.reference_gflops(),
        // The problem's work and the ratios of the class tell it.
        reference_gflops_of_each: Vec::new(),
        openblas_gflops: openblas.as_ref().map(|o| o.gflops),
        openblas_version: openblas.as_ref().and_then(|o| o.version.clone()),
        openblas_core: openblas.and_then(|o| o.core_type),
        attestation: timer.attestation().digest(),
        attestation_json: timer.attestation().to_json(),
    }
}

/// The facts about a machine on which modules are timed.
pub fn machine_facts_of_modules(
    run: &RunId,
    node: &NodeId,
    class: &MachineClass,
    machine: &ModuleMachine,
) -> MachineFacts {
    MachineFacts {
        run: run.clone(),
        node: node.clone(),
        machine_class: class.clone(),
        problem: None,
        peak_gflops: machine.peak_gflops,
        reference_gflops: machine.reference_gflops,
        reference_gflops_of_each: machine.reference_gflops_of_each(),
        openblas_gflops: None,
        openblas_core: None,
        openblas_version: None,
        attestation: machine.attestation.digest(),
        attestation_json: machine.attestation.to_json(),
    }
}

/// The stage context that compiles programs of the context's run.
pub fn compiler(context: &Arc<Context>, pipeline: &Pipeline) -> compiler::StageContext {
    let stage: Arc<dyn compiler::Stage> = match pipeline {
        Pipeline::Kernel(evaluator) => Arc::clone(&evaluator.compiler) as _,
        Pipeline::Module(evaluator) => Arc::new(evaluator.clone()),
    };
    compiler::StageContext {
        context: Arc::clone(context),
        stage,
    }
}

/// The stage context that verifies programs of the context's run: kernels `slots` of them at a time, modules one at a
/// time. Building it takes a moment.
///
/// # Errors
/// As [`Evaluator::verifier`].
pub fn verifier(
    context: &Arc<Context>,
    pipeline: &Pipeline,
    slots: u32,
) -> Result<verifier::StageContext, Failure> {
    let evaluator = match pipeline {
        Pipeline::Kernel(evaluator) => evaluator,
        Pipeline::Module(evaluator) => {
            let stages = vec![evaluator.clone()];
            return Ok(verifier::StageContext::new(Arc::clone(context), stages));
        }
    };
    let threads = context.settings.threads;
    let stages: Result<Vec<_>, _> = (0..slots).map(|_| evaluator.verifier(threads)).collect();
    let stage_context = verifier::StageContext::new(Arc::clone(context), stages?);
    Ok(match &evaluator.sanitizers {
        // All stage contexts of a run share these sanitizers, and so their findings on programs.
        Some(sanitizers) => stage_context.with_last_look(Arc::clone(sanitizers) as _),
        None => stage_context,
    })
}

/// Builds programs with several code layouts before they are certified. Creating it takes a moment.
///
/// # Errors
/// As [`Evaluator::verifier`].
pub fn layouts(evaluator: &Evaluator, threads: u32) -> Result<Arc<VerifiedLayouts>, Failure> {
    let verifier = evaluator.verifier(threads)?;
    let layouts = VerifiedLayouts::new(Arc::clone(&evaluator.compiler), verifier);
    Ok(Arc::new(layouts))
}

impl timer::Layouts for VerifiedLayouts {
    fn layouts(
        &self,
        language: Language,
        problem: &Problem,
        source: &str,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        self.of(language, problem, source)
    }
}
