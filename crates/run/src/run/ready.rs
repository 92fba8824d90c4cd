//! The measurements of a session before its roles begin.

use std::sync::Arc;

use anyhow::Result;
use flopsmith_compile::Toolchain;
use flopsmith_config::Settings;
use flopsmith_evaluate::Evaluator;
use flopsmith_machine::openblas;
use flopsmith_measure::{Limits, Purpose, Timer};
use flopsmith_problem::Problem;
use tokio_util::sync::CancellationToken;

use crate::certification::go_on;
use crate::console::usage;
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
    let evaluator = evaluator(settings, folder)?;
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
    Ok(Ready {
        evaluator,
        timer,
        openblas,
    })
}

/// The stages of a run with one problem, checked against the comparability key that the run was begun with.
pub(super) fn evaluator(settings: &Settings, folder: &Folder) -> Result<Evaluator> {
    let evaluator = open(settings, paths::problem_of(settings)?)?;
    let keyed = (&*evaluator.problem, &evaluator.toolchain);
    comparability::keep(&folder.path, std::iter::once(keyed))?;
    Ok(evaluator)
}

/// The stages for each problem of a run, checked in the same way.
pub(super) fn evaluators(settings: &Settings, folder: &Folder) -> Result<Vec<Evaluator>> {
    let problems = paths::problems_of(settings)?.into_iter();
    let evaluators: Result<Vec<Evaluator>> = problems.map(|p| open(settings, p)).collect();
    let evaluators = evaluators?;
    let keyed = evaluators.iter().map(|e| (&*e.problem, &e.toolchain));
    comparability::keep(&folder.path, keyed)?;
    Ok(evaluators)
}

fn open(settings: &Settings, problem: Problem) -> Result<Evaluator> {
    let (flags, compiler) = (&settings.evaluate.flags, &settings.evaluate.compiler);
    if !flags.trim().is_empty()
        && let Some(why) = Toolchain::refusal_of_flags(compiler, &problem)
    {
        return Err(usage(format!(
            "evaluate.flags is '{flags}', and {compiler} does not take them: {why}"
        )));
    }
    let evaluator = evaluator::open(
        Arc::new(problem),
        &settings.evaluate.compiler,
        settings.evaluate.allow_weaker_jail,
    )?;
    if settings.evaluate.sanitize {
        return Ok(evaluator.with_sanitizers(settings.threads));
    }
    Ok(evaluator)
}
