//! Evaluates the programs for a module of PyTorch.

use std::sync::Arc;

use anyhow::{Context, Result};
use flopsmith_bench::rows::Machine;
use flopsmith_evaluate::Evaluated;
use flopsmith_problem::Problem;
use flopsmith_run::console::say;
use flopsmith_run::evaluator;
use flopsmith_run::idle_wait::{self, Patience};
use tokio_util::sync::CancellationToken;

use crate::Order;
use crate::evaluation::{Open, add, same_machine, words};
use crate::folder::Folder;
use crate::outcome::Outcome;

/// Evaluates these programs at each number of threads, until `stopped` is cancelled. `so_far` are the programs of the order
/// that were evaluated before, and all of them.
///
/// # Errors
/// Wrong usage, files that cannot be written, and failures that keep this machine from evaluating the module.
pub fn run(
    order: &Order,
    folder: &mut Folder,
    (problem, programs): (&Arc<Problem>, &[Open]),
    patience: &mut Patience,
    (before, total): (usize, usize),
    stopped: &CancellationToken,
) -> Result<()> {
    let permitted = order.permitted(problem);
    for &threads in &order.threads {
        let weaker = order.allow_weaker_jail;
        let evaluator = evaluator::module(Arc::clone(problem), threads, weaker, |text| {
            say(&format!("{text}…"));
        })?;
        let (watched, tools) = (evaluator.watched(), evaluator.tools());
        let look = || idle_wait::used(&watched);
        say(&format!(
            "{}: measuring this machine and the baselines…",
            problem.id
        ));
        let baselines_busy = patience.wait(look, stopped).go_on()?;
        let machine = evaluator.attest()?;
        let attested = Machine::new(machine.attestation.to_json())
            .context("the attestation of this machine is no JSON")?;
        same_machine(folder, problem, threads, &attested)?;
        for (place, program) in programs.iter().enumerate() {
            let busy = patience.wait(look, stopped).go_on()?;
            let limits = order.purpose.limits();
            let done = evaluator.evaluate(&machine, &program.source, permitted, limits);
            // Ctrl-c also reaches the called processes, so a failure after a stop request has no meaning.
            if stopped.is_cancelled() {
                return Ok(());
            }
            let done = Evaluated {
                busy: idle_wait::resting_on(baselines_busy.as_deref(), busy),
                ..done
            };
            let outcome = Outcome::over_reference(
                problem.id.as_str(),
                program.digest.clone(),
                threads,
                // PyTorch's own pool of threads.
                threads > 1,
                &done,
                &attested.digest,
                order.purpose,
            )
            .with_tools(&tools);
            say(&format!(
                "[{}/{total}] {} {}: {}",
                before + place + 1,
                problem.id,
                program.digest.short(),
                words(&outcome, "the fastest baseline")
            ));
            add(folder, outcome, &done, &attested, &program.source)?;
        }
    }
    Ok(())
}
