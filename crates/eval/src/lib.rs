//! Says how good models are: evaluates their answers to problems, computes metrics with intervals, compares two models.
//!
//! `flopsmith eval` calls this library once its arguments are read. Models answer first ([`model`]); then the distinct
//! programs of each problem are evaluated by the stages of `bench`, each once; then the metrics follow from the files of
//! the evaluation's folder alone ([`folder`]). The formulas are those of `flopsmith_reward::metrics`.
//!
//! Invariants:
//! - every answer is counted: one without a program and one whose program fails count as failures, and one that this
//!   machine failed to evaluate, or that an endpoint did not give, is named and counted apart;
//! - identical programs for a problem are evaluated once;
//! - a second start in the same folder does only what is missing, and never mixes two configurations;
//! - all ratios of a problem refer to one measurement of the reference.

mod answer;
pub mod compare;
mod endpoint;
mod evaluation;
mod figures;
mod folder;
mod kernelbench;
pub mod model;
mod modules;
mod on_farm;
mod outcome;
mod page;
mod pareval;
#[cfg(feature = "torch")]
mod policy;
pub mod programs;
mod prompts;
mod results;
mod samples;
pub mod schedules;
mod tell;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use flopsmith_config::{Device, Dtype};
use flopsmith_measure::{METHOD, Purpose};
use flopsmith_problem::Problem;
use flopsmith_protocol::{Sampling, TechniqueSet};
use flopsmith_run::console::{data, say, usage};
use flopsmith_run::farm::Ways;
use flopsmith_run::{exit, interrupt};
use serde::{Deserialize, Serialize};

use answer::Answer;
use folder::{Config, Folder, OfModel, OfProblem};
use model::{Kind, Model};
use programs::Program;
pub use results::{Group, Judged, Number, Results};

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people.
    Text,
    /// One JSON object.
    Json,
    /// A row for each number.
    Csv,
    /// Tables in Markdown.
    Markdown,
}

/// The task of the models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Write a program from the problem's description.
    Write,
    /// Write a faster program than the one that the prompt shows: a given one, or the problem's reference.
    Optimise,
}

/// The style of the prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prompt {
    /// Full for models with a chat template, compact for others.
    Auto,
    /// One line, for small models that were trained on it.
    Compact,
    /// The loop nest of the reference, for small models that were trained on nests.
    Nest,
    /// The whole task in words. The program must stand in a fenced block of the answer.
    Full,
}

/// The request of a user.
pub struct Order {
    /// The models.
    pub models: Vec<Model>,
    /// The problems, each once.
    pub problems: Vec<Arc<Problem>>,
    /// The number of answers to each problem; if there is none, [`SAMPLES`], and all of files.
    pub samples: Option<u32>,
    /// Names of the workloads, if they are not all of the problems'.
    pub workloads: Vec<String>,
    /// The cluster whose workers evaluate the programs; this machine does if there is none.
    pub farm: Option<Ways>,
    /// The numbers of draws of the metrics; if there are none, those of [`DRAWS`] that the samples permit.
    pub draws: Vec<u32>,
    /// How policies sample.
    pub sampling: Sampling,
    /// Seed of the answers and of the intervals.
    pub seed: u64,
    /// The task.
    pub task: Task,
    /// The programs to be optimised, by the names of their problems; a problem without one shows its reference.
    pub programs: BTreeMap<String, Program>,
    /// The style of the prompts.
    pub prompt: Prompt,
    /// The techniques that programs may use; if there are none, those of the problem, for kernels without OpenMP on one
    /// thread.
    pub permitted: Option<TechniqueSet>,
    /// Numbers of threads, at least one.
    pub threads: Vec<u32>,
    /// Number format of policies' weights.
    pub dtype: Dtype,
    /// Device of policies. It is no part of what answers depend on.
    pub device: Device,
    /// The compiler, by name or path.
    pub compiler: String,
    /// True if programs run even where the jail gives less than its full protection.
    pub allow_weaker_jail: bool,
    /// The standard of the measurements.
    pub purpose: Purpose,
    /// True if sanitizers check the programs.
    pub sanitize: bool,
    /// Time to wait for a quiet machine, in all.
    pub wait: Duration,
    /// The folder of the evaluation.
    pub output: PathBuf,
    /// Format of the printed results.
    pub format: Format,
}

/// The number of answers to each problem.
pub const SAMPLES: u32 = 20;
/// The numbers of draws.
pub const DRAWS: [u32; 4] = [1, 5, 10, 20];

impl Order {
    /// The techniques that programs for a problem may use.
    fn permitted(&self, problem: &Problem) -> TechniqueSet {
        match self.permitted {
            Some(permitted) => permitted.intersection(problem.techniques),
            // Modules may have threads of PyTorch's pool, which is as large as they are timed with.
            None if problem.module.is_some() => problem.techniques,
            None => problem.techniques_with(self.threads.iter().copied().max().unwrap_or(1)),
        }
    }

    fn samples(&self) -> u32 {
        self.samples.unwrap_or(SAMPLES)
    }
}

/// Lets the models answer, evaluates the answers, writes and prints the results. Returns the exit code.
///
/// # Errors
/// Wrong usage, and failures that keep this machine from evaluating any program.
pub fn run(order: &Order) -> Result<u8> {
    let Some(results) = evaluated(order)? else {
        say("interrupted; the same command continues from here");
        return Ok(exit::INTERRUPTED);
    };
    match order.format {
        Format::Text => tell::lines(&results).iter().for_each(|line| data(line)),
        Format::Json => data(&serde_json::to_string(&results)?),
        Format::Csv => data(page::csv(&results)?.trim_end()),
        Format::Markdown => page::markdown(&results).iter().for_each(|line| data(line)),
    }
    say(&format!(
        "prompts, answers, outcomes, results and charts are in {}",
        order.output.display()
    ));
    Ok(match results.is_complete() {
        true => exit::OK,
        false => exit::INFRASTRUCTURE,
    })
}

/// Lets the models answer, evaluates the answers, and writes the results. None if a stop was requested before the end;
/// the same order then continues.
///
/// # Errors
/// As [`run`].
pub fn evaluated(order: &Order) -> Result<Option<Results>> {
    let given = samples::read(order)?;
    let config = config(order, &given)?;
    tell::unstated(&config.problems)
        .iter()
        .for_each(|line| say(line));
    let mut folder = Folder::open(&order.output, &config)?;
    let results = evaluated_in(order, given, &mut folder);
    // A model that cannot be loaded must not keep the folder from the next one.
    if !matches!(results, Ok(Some(_))) {
        folder.discard_unless_begun();
    }
    results
}

/// Lets the models answer in their folder; `given` are the answers of files.
fn evaluated_in(
    order: &Order,
    given: Vec<Vec<Answer>>,
    folder: &mut Folder,
) -> Result<Option<Results>> {
    let listening = interrupt::Watch::start()?;
    let stopped = listening.asked();
    // A missing key is found before a model has worked for an hour.
    for model in &order.models {
        endpoint::check(order, model, folder)?;
    }
    // Answers come before all measurements: a policy would disturb them.
    for (model, given) in order.models.iter().zip(given) {
        let done = match &model.kind {
            Kind::Samples(_) => folder.add_answers(missing(folder, given)).map(|()| true),
            Kind::Schedules => schedules::answer(order, model, folder).map(|()| true),
            Kind::Folder(path) => policy_answers(order, model, path, folder, stopped),
            Kind::Endpoint(of) => endpoint::answer(order, model, of, folder, stopped),
        };
        if !done? {
            return Ok(None);
        }
    }
    let troubles = match evaluation::run(order, folder, stopped) {
        // Ctrl-c also reaches the measured process, so a failure after a stop request has no meaning.
        _ if stopped.is_cancelled() => return Ok(None),
        troubles => troubles?,
    };
    say("computing the metrics…");
    let results = Results::of(folder.evaluation(), troubles);
    folder.write(
        folder::RESULTS,
        &(serde_json::to_string_pretty(&results)? + "\n"),
    )?;
    folder.write_pareval()?;
    folder.write_kernelbench()?;
    folder.write(folder::TABLE, &page::csv(&results)?)?;
    folder.write(folder::PAGE, &(page::markdown(&results).join("\n") + "\n"))?;
    let charts = flopsmith_report::evaluation::html(&figures::page(&results));
    folder.write(folder::CHARTS, &charts)?;
    folder.write_figures(&figures::charts(&results))?;
    Ok(Some(results))
}

/// The answers that the folder does not have yet.
fn missing(folder: &Folder, given: Vec<Answer>) -> Vec<Answer> {
    let there = |answer: &Answer| folder.has(&answer.model, &answer.problem, answer.number);
    given.into_iter().filter(|answer| !there(answer)).collect()
}

#[cfg(feature = "torch")]
fn policy_answers(
    order: &Order,
    model: &Model,
    path: &std::path::Path,
    folder: &mut Folder,
    stopped: &tokio_util::sync::CancellationToken,
) -> Result<bool> {
    policy::answer(order, model, path, folder, stopped)
}

#[cfg(not(feature = "torch"))]
fn policy_answers(
    _: &Order,
    model: &Model,
    _: &std::path::Path,
    _: &mut Folder,
    _: &tokio_util::sync::CancellationToken,
) -> Result<bool> {
    Err(usage(without_libtorch(&model.name)))
}

/// The refusal of a model's folder in a build without libtorch.
#[cfg(any(test, not(feature = "torch")))]
fn without_libtorch(name: &str) -> String {
    format!(
        "{name} is a model's folder, and this Flopsmith is built without libtorch; use a build with it (`make build`), or evaluate a file of ready samples, a model behind an endpoint (`{}URL#MODEL`) or `{}`",
        model::ENDPOINT,
        model::SCHEDULES
    )
}

/// Why no prompt states a problem, for each problem; none for one that a prompt states, and where no model reads prompts.
///
/// # Errors
/// Wrong usage: no problem can be stated.
fn unstated(order: &Order) -> Result<Vec<Option<String>>> {
    if !order.models.iter().any(|model| model.kind.reads_prompts()) {
        return Ok(vec![None; order.problems.len()]);
    }
    let problems = order.problems.iter();
    let unstated: Vec<Option<String>> = problems.map(|p| prompts::unstated(order, p)).collect();
    match unstated.first() {
        Some(Some(why)) if unstated.iter().all(Option::is_some) => Err(usage(why.clone())),
        _ => Ok(unstated),
    }
}

/// The configuration of an evaluation: everything that its results depend on. `given` are the answers of files.
fn config(order: &Order, given: &[Vec<Answer>]) -> Result<Config> {
    let unstated = unstated(order)?;
    let mut models = Vec::new();
    let mut fewest = u32::MAX;
    for (model, given) in order.models.iter().zip(given) {
        let samples: Vec<u32> = order
            .problems
            .iter()
            .zip(&unstated)
            .map(|(problem, unstated)| match model.kind {
                Kind::Samples(_) => {
                    let of = given.iter().filter(|a| a.problem == problem.id.as_str());
                    u32::try_from(of.count()).unwrap_or(u32::MAX)
                }
                Kind::Folder(_) | Kind::Endpoint(_) if unstated.is_some() => 0,
                Kind::Folder(_) | Kind::Schedules | Kind::Endpoint(_) => order.samples(),
            })
            .collect();
        let asked = samples.iter().copied().filter(|count| *count > 0);
        fewest = asked.fold(fewest, u32::min);
        models.push(OfModel {
            name: model.name.clone(),
            kind: model.kind.name().to_owned(),
            digest: model.digest()?,
            endpoint: model.endpoint(),
            samples,
        });
    }
    if let Some(k) = order.draws.iter().find(|k| **k > fewest) {
        return Err(usage(format!(
            "--k {k}: a metric of {k} draws needs {k} answers to each problem, and there are {fewest}; give more --samples, or leave {k} out"
        )));
    }
    let draws = match order.draws.is_empty() {
        true => DRAWS.into_iter().filter(|k| *k <= fewest).collect(),
        false => order.draws.clone(),
    };
    let problems = order.problems.iter().zip(unstated);
    let problems = problems.map(|(problem, unstated)| OfProblem {
        problem: problem.id.as_str().to_owned(),
        suite: problem.suite.clone(),
        language: problem.language.fence().to_owned(),
        digest: problem.digest.clone(),
        permitted: order.permitted(problem),
        unstated,
        program: order.programs.get(problem.id.as_str()).map(Program::digest),
    });
    Ok(Config {
        format: folder::FORMAT.to_owned(),
        version: folder::VERSION,
        method: METHOD.to_owned(),
        models,
        problems: problems.collect(),
        task: order.task,
        prompt: order.prompt,
        temperature: order.sampling.temperature,
        top_p: order.sampling.top_p,
        max_tokens: order.sampling.max_tokens,
        dtype: order.dtype,
        seed: order.seed,
        draws,
        threads: order.threads.clone(),
        purpose: order.purpose,
        sanitize: order.sanitize,
        compiler: order.compiler.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::without_libtorch;

    #[test]
    fn a_build_without_libtorch_names_all_that_it_evaluates() {
        let said = without_libtorch("models/starter");
        for part in [
            "models/starter is a model's folder",
            "`make build`",
            "ready samples",
            "`endpoint:URL#MODEL`",
            "`schedule`",
        ] {
            assert!(said.contains(part), "{part} in {said}");
        }
    }
}
