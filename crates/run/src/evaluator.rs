//! The evaluation pipeline of this process, with its jail and the harness next to the binary.

use std::sync::Arc;

use anyhow::Result;
use flopsmith_config::Settings;
use flopsmith_evaluate::{Evaluator, ModuleEvaluator, Pipeline, has_cores, is_compiler};
use flopsmith_problem::Problem;

use crate::{jail, paths};

/// Finds compiler, jail and harness; the error for a missing one names a remedy.
pub fn open(problem: Arc<Problem>, compiler: &str, allow_weaker_jail: bool) -> Result<Evaluator> {
    // The compiler is checked before the jail: a wrong compiler is an error that the user can correct.
    is_compiler(compiler)?;
    let sandbox = Arc::new(jail::open(allow_weaker_jail)?);
    let evaluator = Evaluator::new(problem, compiler, sandbox, paths::harness()?)?;
    Ok(evaluator)
}

/// The stages that a run has for a problem, which may be a module; `progress` says what takes long. The caller decides
/// whether a weaker jail is permitted, because a run cannot weaken a node's.
pub fn pipeline(
    problem: Arc<Problem>,
    settings: &Settings,
    allow_weaker_jail: bool,
    progress: fn(&str),
) -> Result<Pipeline> {
    if problem.module.is_some() {
        let evaluator = module(problem, settings.threads, allow_weaker_jail, progress)?;
        return Ok(Pipeline::Module(evaluator));
    }
    let evaluator = open(problem, &settings.evaluate.compiler, allow_weaker_jail)?;
    let evaluator = match settings.evaluate.sanitize {
        true => evaluator.with_sanitizers(settings.threads),
        false => evaluator,
    };
    Ok(Pipeline::Kernel(Box::new(evaluator)))
}

/// The stages for a module, whose programs are timed with `threads` threads; `progress` says what takes long.
pub fn module(
    problem: Arc<Problem>,
    threads: u32,
    allow_weaker_jail: bool,
    progress: fn(&str),
) -> Result<ModuleEvaluator> {
    jail::report(allow_weaker_jail)?;
    let evaluator = ModuleEvaluator::open(problem, threads, allow_weaker_jail, progress)?;
    Ok(evaluator)
}

/// Checks that this machine has the cores that a run asks for, unless workers evaluate its programs.
pub fn has_cores_of(settings: &Settings) -> Result<()> {
    if !settings.evaluate.workers {
        has_cores(settings.threads)?;
    }
    Ok(())
}
