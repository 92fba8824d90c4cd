//! Synthetic programs: a language model behind an endpoint writes a slow and a fast program for one task, inspired by a piece
//! of code (Nichols et al., 2024). The task is that of a known problem, or one that the model states itself.
//!
//! Invariants:
//! - an answer that the folder has is never asked for again, and each has one outcome at most;
//! - programs of a known problem have measured labels; those of other tasks never ran, and have their writer's claim;
//! - `programs.jsonl` follows from the outcomes alone, so that a killed process leaves no program twice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use flopsmith_archive::identity::source_digest;
use flopsmith_config::Endpoint;
use flopsmith_endpoint::{Ask, Reason, Spending, address};
use flopsmith_generator::measured::{Program, Rank};
use flopsmith_problem::prompt::Style;
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{Digest, ProblemId, Sampling, TechniqueSet};
use flopsmith_run::console::usage;
use flopsmith_run::evaluator;
use flopsmith_run::ticker::Ticker;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::label::{self, Bench, Given};

mod answer;
mod asking;
mod folder;
mod snippets;

#[cfg(test)]
mod tests;

pub use answer::Refusal;
pub use folder::PROGRAMS;

use answer::Found;
use folder::{Answer, Config, Folder, OfTask, Outcome};
use snippets::Snippets;

/// Origin of the programs, and the problem of those whose task the model states itself.
const SYNTHETIC: &str = "synthetic";

/// A request for synthetic programs.
#[derive(Debug, Clone)]
pub struct Order<'a> {
    /// The model.
    pub endpoint: &'a Endpoint,
    /// How it samples.
    pub sampling: Sampling,
    /// Seed of its draws and of the snippets.
    pub seed: u64,
    /// Number of answers for each problem; without problems, in all.
    pub count: u32,
    /// A file, or a folder of sources, that snippets are drawn from; the references of the known problems if there is none.
    pub snippets: Option<&'a Path>,
    /// The problems that programs are written for, with the workloads that were chosen. Without problems the model states
    /// the tasks.
    pub problems: Vec<Arc<Problem>>,
    /// Names of the chosen workloads, which go into the lines; all of each problem if there is none.
    pub workloads: &'a [String],
    /// Style of the prompts in the lines of problems.
    pub style: Style,
    /// The compiler, by name or path.
    pub compiler: &'a str,
    /// True if programs run even where the jail gives less than its full protection.
    pub allow_weaker_jail: bool,
    /// The folder.
    pub output: &'a Path,
}

/// The content of the folder.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// Answers of the model.
    pub answers: usize,
    /// Of these, answers with programs in [`PROGRAMS`].
    pub kept: usize,
    /// Of these, answers without, by reason.
    pub refused: BTreeMap<Refusal, usize>,
    /// Of these, answers that wait: a stop was requested, or this machine failed to measure their programs.
    pub undecided: usize,
    /// Answers that the model did not give.
    pub missing: usize,
    /// Requests of this start that got no answer, by reason.
    pub failed: BTreeMap<Reason, usize>,
    /// Lines of [`PROGRAMS`].
    pub programs: usize,
    /// Of these, programs with a time.
    pub timed: usize,
    /// Of these, programs that are wrong.
    pub wrong: usize,
    /// Programs of kept answers that were left out, because the folder has their text already.
    pub repeated: usize,
    /// Answers of which both programs have a time.
    pub timed_pairs: usize,
    /// Of these, answers whose fast program takes less time.
    pub faster_pairs: usize,
    /// Cost of all requests.
    pub spending: Spending,
}

/// A task for which the model writes programs.
struct Task {
    /// The problem's name, or [`SYNTHETIC`].
    name: String,
    /// The problem; none if the model states the task.
    known: Option<Known>,
}

/// A problem whose programs are measured.
struct Known {
    problem: Arc<Problem>,
    permitted: TechniqueSet,
    /// The prompt of its lines.
    prompt: String,
}

impl Task {
    fn language(&self) -> Language {
        self.known
            .as_ref()
            .map_or(Language::C, |known| known.problem.language)
    }
}

/// The line of a program of a known problem; none if this machine failed to measure it.
type Measure<'m> = dyn FnMut(&Known, Given) -> Result<Option<Program>> + 'm;

/// Asks for the answers that the folder does not have yet, decides on all that have no outcome, and writes [`PROGRAMS`].
///
/// # Errors
/// Wrong usage: no snippets, a folder with something else, an endpoint that refuses every request. This machine lacks what the
/// measurement needs. Files that cannot be written.
pub fn run(order: &Order<'_>, stopped: &CancellationToken) -> Result<Report> {
    // Before the folder has the URL, which may hold a password.
    address(&order.endpoint.url).map_err(|e| usage(e.to_string()))?;
    // Before anything is paid for.
    for problem in &order.problems {
        evaluator::open(Arc::clone(problem), order.compiler, order.allow_weaker_jail)?;
    }
    let mut open: Option<(ProblemId, Bench)> = None;
    run_with(order, stopped, &mut |known: &Known, given: Given| {
        let problem = &known.problem;
        if open.as_ref().is_none_or(|(id, _)| *id != problem.id) {
            // The timer of the problem before runs its baseline.
            drop(open.take());
            let bench = Bench::open(
                Arc::clone(problem),
                order.workloads,
                order.compiler,
                order.allow_weaker_jail,
                Some(known.permitted),
            )?;
            open = Some((problem.id.clone(), bench));
        }
        Ok(open.as_mut().and_then(|(_, bench)| bench.measure(given)))
    })
}

fn run_with(
    order: &Order<'_>,
    stopped: &CancellationToken,
    measure: &mut Measure<'_>,
) -> Result<Report> {
    let snippets = Snippets::read(order.snippets)?;
    let tasks = tasks(order)?;
    let mut folder = Folder::open(order.output, &config(order, &tasks, &snippets))?;
    let asks = asks(order, &tasks, &snippets, &folder);
    let failed = match asks.is_empty() {
        true => BTreeMap::new(),
        false => asking::ask(order, asks, &mut folder, stopped)?,
    };
    decide(&tasks, &mut folder, stopped, measure)?;
    folder.write_programs()?;
    report(order, &tasks, &folder, failed)
}

fn tasks(order: &Order<'_>) -> Result<Vec<Task>> {
    let mut tasks: Vec<Task> = Vec::new();
    for problem in &order.problems {
        let name = problem.id.to_string();
        if tasks.iter().any(|task| task.name == name) {
            return Err(usage(format!(
                "two problems are called `{name}`; leave one --problem out"
            )));
        }
        let permitted = label::permitted(problem);
        let prompt = label::prompt(problem, permitted, order.style)?;
        let problem = Arc::clone(problem);
        tasks.push(Task {
            name,
            known: Some(Known {
                problem,
                permitted,
                prompt,
            }),
        });
    }
    if tasks.is_empty() {
        tasks.push(Task {
            name: SYNTHETIC.to_owned(),
            known: None,
        });
    }
    Ok(tasks)
}

fn config(order: &Order<'_>, tasks: &[Task], snippets: &Snippets) -> Config {
    let known = tasks.iter().filter_map(|task| task.known.as_ref());
    let problems = known.map(|known| OfTask {
        problem: known.problem.id.to_string(),
        digest: known.problem.digest.clone(),
        prompt: known.prompt.clone(),
    });
    Config::new(order, problems.collect(), snippets.digest())
}

/// The requests for the answers that are missing: first the first answers to all tasks, then the second ones, so that a
/// budget that ends early leaves no problem without answers.
fn asks(order: &Order<'_>, tasks: &[Task], snippets: &Snippets, folder: &Folder) -> Vec<Ask> {
    let mut asks = Vec::new();
    for number in 1..=order.count {
        for (place, task) in tasks.iter().enumerate() {
            if folder.has(&task.name, number) {
                continue;
            }
            let stream = ((place as u64) << 32) | u64::from(number);
            asks.push(Ask {
                problem: task.name.clone(),
                number,
                prompt: answer::prompt(task, &snippets.draw(order.seed, stream)),
                seed: order.seed.wrapping_add(u64::from(number)),
            });
        }
    }
    asks
}

/// Decides on the answers without an outcome, until a stop is requested. An answer whose programs this machine failed to
/// measure stays without one, so that a later start measures them.
fn decide(
    tasks: &[Task],
    folder: &mut Folder,
    stopped: &CancellationToken,
    measure: &mut Measure<'_>,
) -> Result<()> {
    let total = folder.undecided().count() as u64;
    let mut ticker = Ticker::new(50);
    let mut number = 0;
    for task in tasks {
        let mut known: BTreeSet<Digest> = folder.sources(&task.name).map(source_digest).collect();
        let open = folder.undecided().filter(|a| a.problem == task.name);
        let open: Vec<Answer> = open.cloned().collect();
        for answer in open {
            if stopped.is_cancelled() {
                return Ok(());
            }
            if let Some(outcome) = outcome(task, &answer, &known, measure)? {
                known.extend(outcome.programs.iter().map(|p| source_digest(&p.source)));
                folder.decide(outcome)?;
            }
            number += 1;
            ticker.tick(number, total, || {
                format!("decided on {number} of {total} answers")
            });
        }
    }
    Ok(())
}

/// The outcome of an answer; none if this machine failed to measure one of its programs.
fn outcome(
    task: &Task,
    answer: &Answer,
    known: &BTreeSet<Digest>,
    measure: &mut Measure<'_>,
) -> Result<Option<Outcome>> {
    let mut outcome = Outcome::of(answer);
    let Found { prompt, programs } = match answer::examine(task, answer, known) {
        Ok(found) => found,
        Err((refused, detail)) => {
            outcome.refused = Some(refused);
            outcome.detail = detail;
            return Ok(Some(outcome));
        }
    };
    outcome.repeated = 2 - programs.len();
    for (rank, source) in programs {
        let given = Given {
            problem: task.name.clone(),
            prompt: prompt.clone(),
            source,
            origin: SYNTHETIC.to_owned(),
        };
        let program = match &task.known {
            None => Some(claimed(given, rank)),
            Some(known) => measure(known, given)?,
        };
        let Some(program) = program else {
            return Ok(None);
        };
        outcome.programs.push(program);
    }
    Ok(Some(outcome))
}

/// The line of a program that never ran.
fn claimed(given: Given, rank: Rank) -> Program {
    Program {
        problem: given.problem,
        workloads: Vec::new(),
        prompt: given.prompt,
        source: given.source,
        runtime_s: None,
        correct: true,
        origin: given.origin,
        rank: Some(rank),
    }
}

fn report(
    order: &Order<'_>,
    tasks: &[Task],
    folder: &Folder,
    failed: BTreeMap<Reason, usize>,
) -> Result<Report> {
    let is_missing = |task: &Task, number| !folder.has(&task.name, number);
    let missing = |task| (1..=order.count).filter(|n| is_missing(task, *n)).count();
    let mut report = Report {
        answers: folder.answers().len(),
        undecided: folder.undecided().count(),
        missing: tasks.iter().map(missing).sum(),
        failed,
        spending: folder.spending()?,
        ..Report::default()
    };
    for outcome in folder.outcomes() {
        match outcome.refused {
            Some(refused) => *report.refused.entry(refused).or_default() += 1,
            None => report.kept += 1,
        }
        report.repeated += outcome.repeated;
        report.programs += outcome.programs.len();
        let programs = outcome.programs.iter();
        report.wrong += programs.filter(|program| !program.correct).count();
        let times: Vec<f64> = outcome
            .programs
            .iter()
            .filter_map(|p| p.runtime_s)
            .collect();
        report.timed += times.len();
        // The slow one is the first.
        if let [slow, fast] = times[..] {
            report.timed_pairs += 1;
            report.faster_pairs += usize::from(fast < slow);
        }
    }
    Ok(report)
}
