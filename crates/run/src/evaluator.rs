//! The evaluation pipeline of this process: with its jail and the harness beside the binary.

use std::sync::Arc;

use anyhow::Result;
use flopsmith_actors::settings::Settings;
use flopsmith_evaluate::{Evaluator, has_cores, is_compiler};
use flopsmith_problem::Problem;

use crate::{jail, paths};

/// Finds compiler, jail and harness; says what to try where one is missing.
pub fn open(problem: Arc<Problem>, compiler: &str, allow_weaker_jail: bool) -> Result<Evaluator> {
    // Before the jail: it is the user's to mend.
    is_compiler(compiler)?;
    let sandbox = Arc::new(jail::open(allow_weaker_jail)?);
    let evaluator = Evaluator::new(problem, compiler, sandbox, paths::harness()?)?;
    Ok(evaluator)
}

/// Has this machine the cores that a run asks for? Where workers evaluate, it need not.
pub fn has_cores_of(settings: &Settings) -> Result<()> {
    if !settings.evaluate.workers {
        has_cores(settings.threads)?;
    }
    Ok(())
}
