//! Evaluates the programs of all answers, each distinct one once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Error, Result};
use flopsmith_bench::facts::Facts;
use flopsmith_bench::inputs::Program;
use flopsmith_bench::rows::{Machine, Row};
use flopsmith_bench::stages::{ReferenceSpeeds, Setup, Stages};
use flopsmith_evaluate::Evaluated;
use flopsmith_measure::Purpose;
use flopsmith_problem::Problem;
use flopsmith_protocol::Digest;
use flopsmith_run::console::{Usage, say, usage};
use flopsmith_run::digits::{counted, significant};
use flopsmith_run::idle_wait::Patience;
use flopsmith_run::record;
use tokio_util::sync::CancellationToken;

use crate::Order;
use crate::folder::{Evaluation, Folder};
use crate::modules;
use crate::on_farm;
use crate::outcome::{Outcome, State};
use crate::results::outcomes;

/// The problems whose programs could not be evaluated, with the reasons.
pub type Troubles = BTreeMap<String, String>;

/// A program that has no outcome yet.
pub struct Open {
    /// Digest of the program.
    pub digest: Digest,
    /// Its source.
    pub source: String,
}

/// Evaluates what has no outcome yet. Once `stopped` is cancelled, it ends after the present measurement.
///
/// # Errors
/// Wrong usage, and files that cannot be written. Failures of a single problem are returned.
pub fn run(order: &Order, folder: &mut Folder, stopped: &CancellationToken) -> Result<Troubles> {
    let evaluation = folder.evaluation();
    let tools = tools(evaluation);
    let of = |problem: &Problem| {
        open(
            evaluation,
            problem.id.as_str(),
            &order.threads,
            tools.as_ref(),
        )
    };
    let open: Vec<(&Arc<Problem>, Vec<Open>)> = order
        .problems
        .iter()
        .map(|problem| (problem, of(problem)))
        .filter(|(_, programs)| !programs.is_empty())
        .collect();
    let total: usize = open.iter().map(|(_, programs)| programs.len()).sum();
    if total > 0 {
        say(&format!(
            "{} to evaluate for {}",
            counted(total as u64, "distinct program"),
            counted(open.len() as u64, "problem")
        ));
    }
    if let Some(ways) = &order.farm {
        return on_farm::run(order, ways, folder, &open, stopped);
    }
    let mut patience = Patience::new(order.wait);
    let mut troubles = Troubles::new();
    let mut told = BTreeSet::new();
    let mut done = 0;
    for (problem, programs) in open {
        if stopped.is_cancelled() {
            break;
        }
        let count = programs.len();
        if problem.module.is_some() {
            let (module, so_far) = ((problem, &programs[..]), (done, total));
            let ended = modules::run(order, folder, module, &mut patience, so_far, stopped);
            done += count;
            let Err(error) = ended else {
                continue;
            };
            if is_usage(&error) {
                return Err(error);
            }
            if stopped.is_cancelled() {
                break;
            }
            say(&format!("error: {}: {error:#}", problem.id));
            troubles.insert(problem.id.as_str().to_owned(), format!("{error:#}"));
            continue;
        }
        let setup = Setup {
            compiler: &order.compiler,
            allow_weaker_jail: order.allow_weaker_jail,
            threads: &order.threads,
            permitted: Some(order.permitted(problem)),
            sanitize: order.sanitize,
            purpose: order.purpose,
            // Speedups are relative to the reference.
            refine_reference: order.purpose != Purpose::Screen,
            again: false,
        };
        // On a busy machine this takes a minute.
        say(&format!(
            "{}: measuring this machine and the plain reference…",
            problem.id
        ));
        let left = std::mem::replace(&mut patience, Patience::new(order.wait));
        let mut stages = match Stages::open(&setup, problem, left, stopped.clone()) {
            Ok(stages) => stages,
            Err(error) if is_usage(&error) => return Err(error),
            Err(_) if stopped.is_cancelled() => break,
            Err(error) => {
                say(&format!("error: {}: {error:#}", problem.id));
                troubles.insert(problem.id.as_str().to_owned(), format!("{error:#}"));
                done += count;
                continue;
            }
        };
        for ReferenceSpeeds {
            threads, machine, ..
        } in stages.reference_speeds()
        {
            same_machine(folder, problem, threads, &machine)?;
        }
        for line in stages.advice() {
            if told.insert(line.clone()) {
                say(&line);
            }
        }
        for program in programs {
            done += 1;
            let Some(rows) = measured(&mut stages, &program, stopped)? else {
                break;
            };
            for row in &rows {
                let machine = row.machine.as_deref();
                let machine = machine.context("a program was evaluated without a timer")?;
                let outcome = Outcome::of(
                    problem.id.as_str(),
                    program.digest.clone(),
                    row,
                    machine,
                    &stages,
                    order.purpose,
                );
                say(&format!(
                    "[{done}/{total}] {} {}: {}",
                    problem.id,
                    program.digest.short(),
                    words(&outcome, "the reference")
                ));
                add(folder, outcome, &row.done, machine, &program.source)?;
            }
        }
        patience = stages.into_patience();
    }
    Ok(troubles)
}

/// The tools of this machine that decide whether a program can be timed; none if no outcome depends on them, or if some are
/// missing.
fn tools(evaluation: &Evaluation) -> Option<Digest> {
    let depends = evaluation.outcomes.iter().any(|o| o.tools.is_some());
    depends.then(flopsmith_evaluate::timing_tools)?.ok()
}

/// The distinct programs for a problem that have no final outcome at one of these numbers of threads, without those that
/// cannot be timed with `tools`.
fn open(
    evaluation: &Evaluation,
    problem: &str,
    threads: &[u32],
    tools: Option<&Digest>,
) -> Vec<Open> {
    let of = evaluation.outcomes.iter();
    let known: BTreeSet<(&Digest, u32)> = of
        .filter(|outcome| outcome.problem == problem && outcome.is_final())
        .map(|outcome| (&outcome.program, outcome.threads))
        .collect();
    // A later outcome may have come from other tools.
    let last: Vec<_> = threads
        .iter()
        .map(|t| outcomes(evaluation, problem, *t))
        .collect();
    let mut seen = BTreeSet::new();
    let mut open = Vec::new();
    for answer in evaluation.answers.iter().filter(|a| a.problem == problem) {
        let (Some(source), Some(digest)) = (&answer.program, answer.digest()) else {
            continue;
        };
        let is_known = threads.iter().zip(&last).all(|(threads, last)| {
            let stays = last.get(&digest).is_some_and(|o| o.stays_untimed(tools));
            stays || known.contains(&(&digest, *threads))
        });
        if !is_known && seen.insert(digest.clone()) {
            open.push(Open {
                digest,
                source: source.clone(),
            });
        }
    }
    open
}

/// The rows of a program; none if a stop was requested.
fn measured(
    stages: &mut Stages,
    program: &Open,
    stopped: &CancellationToken,
) -> Result<Option<Vec<Row>>> {
    if stopped.is_cancelled() {
        return Ok(None);
    }
    let name = program.digest.short().to_owned();
    let measured = stages.measure(&Program {
        file: PathBuf::from(&name),
        stem: name.clone(),
        name,
        language: None,
        source: program.source.clone(),
        stamp: None,
    })?;
    // An interrupted measurement is no result.
    let measured = measured.filter(|_| !stopped.is_cancelled());
    Ok(measured.map(|measured| measured.rows))
}

/// Writes an outcome, and the raw samples behind its number.
pub fn add(
    folder: &mut Folder,
    mut outcome: Outcome,
    done: &Evaluated,
    machine: &Machine,
    source: &str,
) -> Result<()> {
    if let (Some(measurement), false) = (done.verdict.measurement(), done.raw.is_empty()) {
        let record = record::json(source, measurement, &done.raw, &machine.json)?;
        let name = format!(
            "{}-{}-{}",
            outcome.problem,
            outcome.program.short(),
            outcome.threads
        );
        outcome.record = Some(folder.keep(&name, &record)?);
    }
    folder.add_outcome(outcome, machine)
}

/// Refuses to add outcomes of another machine or compiler to those of this folder.
pub fn same_machine(
    folder: &Folder,
    problem: &Problem,
    threads: u32,
    machine: &Machine,
) -> Result<()> {
    let Some(then) = folder.evaluation().facts(problem.id.as_str(), threads) else {
        return Ok(());
    };
    let differ = then.differing(&Facts::of(machine), true);
    match differ.first() {
        None => Ok(()),
        Some((what, then, now)) => Err(usage(format!(
            "the outcomes in this folder are of another machine or compiler ({what}: `{then}` there, `{now}` here), and times of two machines do not compare; name another folder with --output"
        ))),
    }
}

/// True if the user can correct the error by another request.
fn is_usage(error: &Error) -> bool {
    error.chain().any(|cause| {
        let evaluate = cause.downcast_ref::<flopsmith_evaluate::Error>();
        cause.is::<Usage>() || evaluate.is_some_and(flopsmith_evaluate::Error::is_of_the_input)
    })
}

/// An outcome as one line; `reference` names what the speedup is over.
pub fn words(outcome: &Outcome, reference: &str) -> String {
    let threads = match outcome.threads {
        1 => String::new(),
        several => format!(" on {several} threads"),
    };
    let reason = outcome.reason.as_deref().unwrap_or("unknown");
    match (outcome.outcome, &outcome.speed) {
        (State::Measured | State::Unconverged, Some(speed)) => {
            let speedup = (speed.log_ratio + outcome.reference.log_ratio).exp();
            let unsure = match outcome.outcome {
                State::Unconverged => " at least, not converged",
                _ => "",
            };
            format!("{}× {reference}{threads}{unsure}", significant(speedup, 3))
        }
        (State::Rejected, _) => format!("refused: {reason}{threads}"),
        _ => format!("failed: {reason}{threads}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::tests::answer;
    use crate::results::tests::{evaluation, outcome};

    #[test]
    fn a_program_that_cannot_be_timed_is_evaluated_again_with_other_tools_only() {
        let (here, elsewhere) = (Digest::of(b"no GPU"), Digest::of(b"a GPU"));
        let untimed = |program: &str, tools: &Digest| {
            let mut outcome = outcome(program, State::Unknown, 0.0);
            outcome.reason = Some("not_timed".into());
            outcome.with_tools(tools)
        };
        let answers = ["fast", "triton", "lost", "moved", "none"];
        let answers = (1..).zip(answers);
        let answers = answers.map(|(number, program)| answer("a", number, Some(program)));
        let outcomes = vec![
            outcome("fast", State::Measured, 0.0),
            untimed("triton", &here),
            outcome("lost", State::Infrastructure, 0.0),
            // Its last outcome came from a machine with other tools.
            untimed("moved", &here),
            outcome("moved", State::Infrastructure, 0.0),
        ];
        let evaluation = evaluation(answers.collect(), outcomes);
        let opened = |threads: &[u32], tools| {
            let found = open(&evaluation, "dot", threads, tools);
            let sources: Vec<String> = found.into_iter().map(|open| open.source).collect();
            sources.join(" ")
        };
        assert_eq!(opened(&[1], Some(&here)), "lost moved none");
        assert_eq!(opened(&[1], Some(&elsewhere)), "triton lost moved none");
        assert_eq!(opened(&[1], None), "triton lost moved none");
        let all = "fast triton lost moved none";
        assert_eq!(opened(&[1, 2], Some(&here)), all);
    }

    #[test]
    fn tools_are_looked_for_only_where_an_outcome_depends_on_them() {
        let measured = outcome("fast", State::Measured, 0.0);
        assert_eq!(tools(&evaluation(Vec::new(), vec![measured])), None);
    }
}
