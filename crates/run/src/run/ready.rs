//! The measurements of a session before its roles begin.

use std::sync::Arc;

use anyhow::Result;
use flopsmith_compile::Toolchain;
use flopsmith_config::Settings;
use flopsmith_evaluate::{Evaluator, Pipeline, compares_openblas};
use flopsmith_machine::openblas;
use flopsmith_measure::{Limits, Purpose, Timer};
use flopsmith_problem::Problem;
use tokio_util::sync::CancellationToken;

use crate::certification::go_on;
use crate::console::{say, usage};
use crate::folder::Folder;
use crate::summary::Facts;
use crate::{certification, comparability, evaluator, paths};

/// The measured tools that a session's roles are made of, and OpenBLAS for comparison.
pub(super) struct Ready {
    pub evaluator: Evaluator,
    pub timer: Timer,
    pub openblas: Option<openblas::Best>,
}

/// Measures this machine. `None` if a stop was requested in the meantime.
pub(super) fn measure(
    settings: &Settings,
    folder: &Folder,
    facts: &mut Facts,
    stopped: &CancellationToken,
) -> Result<Option<Ready>> {
    let ready = step_by_step(settings, folder, facts, stopped);
    // Ctrl-c also reaches the measured process, so a failure after a stop request has no meaning.
    if stopped.is_cancelled() {
        return Ok(None);
    }
    ready.map(Some)
}

fn step_by_step(
    settings: &Settings,
    folder: &Folder,
    facts: &mut Facts,
    stopped: &CancellationToken,
) -> Result<Ready> {
    let problem = paths::problem_of(settings)?;
    refuse_flags(settings, &problem)?;
    let evaluate = &settings.evaluate;
    let weaker = evaluate.allow_weaker_jail;
    let mut evaluator = evaluator::open(Arc::new(problem), &evaluate.compiler, weaker)?;
    if evaluate.sanitize {
        evaluator = evaluator.with_sanitizers(settings.threads);
    }
    let keyed = (&*evaluator.problem, &evaluator.toolchain.fingerprint);
    comparability::keep(&folder.path, std::iter::once(keyed))?;
    go_on(stopped)?;
    let mut timer = evaluator.timer(settings.threads)?;
    timer.set_limits(Purpose::Rank, Limits::SECOND_LOOK);
    go_on(stopped)?;
    match &facts.reference {
        Some(chains) => timer.go_on_with(chains),
        None => {
            facts.reference = Some(timer.chains());
            folder.write_facts(facts)?;
        }
    }
    if facts.corpus_best_gflops.is_none() {
        let shown = certification::corpus_best(&evaluator, settings, folder, &mut timer);
        go_on(stopped)?;
        facts.corpus_best_gflops = shown;
        folder.write_facts(facts)?;
    }
    let openblas = evaluator.openblas(settings.threads);
    if openblas.is_none()
        && compares_openblas(&evaluator.problem)
        && let Some(why) = openblas::unusable()
    {
        say(&format!("OpenBLAS is not compared: {why}"));
    }
    Ok(Ready {
        evaluator,
        timer,
        openblas,
    })
}

/// True if the roles measure this machine for each problem of a run when the first program for it arrives.
pub(super) fn is_by_benches(settings: &Settings) -> Result<bool> {
    Ok(settings.has_many() || paths::problem_of(settings)?.module.is_some())
}

/// The stages for each problem of a run, checked against the comparability keys that the run was begun with.
pub(super) fn evaluators(settings: &Settings, folder: &Folder) -> Result<Vec<Pipeline>> {
    let problems = paths::problems_of(settings)?.into_iter();
    let evaluators: Result<Vec<Pipeline>> = problems.map(|p| open(settings, p)).collect();
    let evaluators = evaluators?;
    let keyed = evaluators.iter().map(|e| (&**e.problem(), e.fingerprint()));
    comparability::keep(&folder.path, keyed)?;
    Ok(evaluators)
}

fn open(settings: &Settings, problem: Problem) -> Result<Pipeline> {
    refuse_flags(settings, &problem)?;
    let weaker = settings.evaluate.allow_weaker_jail;
    evaluator::pipeline(Arc::new(problem), settings, weaker, |text| {
        say(&format!("{text}…"));
    })
}

/// Refuses the run's own flags if the compiler does not take them for the problem.
fn refuse_flags(settings: &Settings, problem: &Problem) -> Result<()> {
    let (flags, compiler) = (&settings.evaluate.flags, &settings.evaluate.compiler);
    if !flags.trim().is_empty()
        && let Some(why) = Toolchain::refusal_of_flags(compiler, problem)
    {
        return Err(usage(format!(
            "evaluate.flags is '{flags}', and {compiler} does not take them: {why}"
        )));
    }
    Ok(())
}
