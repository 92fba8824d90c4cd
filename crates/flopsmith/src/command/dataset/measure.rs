//! `flopsmith dataset measure`: compiles, verifies and times programs.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use flopsmith_generator::measured::Program;
use flopsmith_measure::Purpose;
use flopsmith_problem::Problem;
use flopsmith_problem::prompt::Style;
use flopsmith_protocol::{TechniqueSet, Verdict};
use flopsmith_run::console::{data, say, usage};
use flopsmith_run::ticker::Ticker;
use flopsmith_run::{evaluator, jsonl, paths};
use serde::Deserialize;

use crate::args::Measure;

/// A program to measure. Other fields of a line, such as the techniques of a schedule, are not needed.
#[derive(Debug, Deserialize)]
struct Given {
    prompt: String,
    #[serde(alias = "program")]
    source: String,
}

/// The techniques that all programs may use and the prompt that permits them, if the arguments give them.
fn one_prompt(args: &Measure, problem: &Problem) -> Result<Option<(TechniqueSet, String)>> {
    let Some(text) = args.permit.as_deref() else {
        return Ok(None);
    };
    let text = (text != "all").then_some(text);
    let permitted = super::super::problem::permitted(text, problem)?;
    let style = match (args.full, args.nest) {
        (true, _) => Style::Full,
        (_, true) => Style::Nest,
        _ => Style::Compact,
    };
    let prompt = super::super::problem::asked(problem, permitted, style)?;
    Ok(Some((permitted, prompt)))
}

/// Measures the programs of a file.
pub fn run(args: &Measure) -> Result<ExitCode> {
    let given = jsonl::read(&args.file, |given: &Given| {
        match given.prompt.trim().is_empty() || given.source.trim().is_empty() {
            true => Err("`prompt` or `program` is empty"),
            false => Ok(()),
        }
    })?;
    if given.is_empty() {
        return Err(usage(format!(
            "there are no programs in {}",
            args.file.display()
        )));
    }
    let workloads = &args.workloads.names;
    let problem = Arc::new(paths::selected(paths::problem(&args.problem)?, workloads)?);
    let asked = one_prompt(args, &problem)?;
    let evaluator = evaluator::open(problem, &args.compiler, args.allow_weaker_jail)?;
    let (mut verifier, mut timer) = (evaluator.verifier(1)?, evaluator.timer(1)?);
    let language = evaluator.problem.language;
    let total = given.len() as u64;
    let (mut right, mut wrong, mut left_out) = (0u64, 0u64, 0u64);
    let mut ticker = Ticker::new(50);
    for (number, given) in (1u64..).zip(given) {
        let done = evaluator.evaluate(
            language,
            &given.source,
            &mut verifier,
            &mut timer,
            Purpose::Screen,
        );
        let permitted = asked.as_ref().map(|(permitted, _)| *permitted);
        let used = done.techniques.unwrap_or_default();
        let runtime_s = match &done.verdict {
            Verdict::Measured { .. } if permitted.is_some_and(|p| !used.is_subset(p)) => Some(None),
            verdict => super::runtime_s(verdict),
        };
        match runtime_s {
            Some(Some(_)) => right += 1,
            Some(None) => wrong += 1,
            None => left_out += 1,
        }
        if let Some(runtime_s) = runtime_s {
            data(&serde_json::to_string(&Program {
                problem: evaluator.problem.id.to_string(),
                workloads: workloads.clone(),
                prompt: match &asked {
                    Some((_, prompt)) => prompt.clone(),
                    None => given.prompt,
                },
                source: given.source,
                correct: runtime_s.is_some(),
                runtime_s,
                origin: args.origin.clone(),
                rank: None,
            })?);
        }
        ticker.tick(number, total, || {
            format!("measured {number} of {total} programs: {right} are right, {wrong} wrong")
        });
    }
    ticker.end();
    if left_out > 0 {
        say(&format!(
            "{left_out} programs are left out: this machine failed to measure them"
        ));
    }
    Ok(ExitCode::SUCCESS)
}
