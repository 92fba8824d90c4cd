//! Ready answers, in files of JSON lines.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use flopsmith_problem::Problem;
use flopsmith_problem::prompt::{self, Style};
use flopsmith_run::console::{say, usage};
use flopsmith_run::jsonl;
use serde::Deserialize;

use crate::answer::Answer;
use crate::model::{Kind, Model};
use crate::{Order, Prompt};

/// A line. Fields of other names are not needed.
#[derive(Debug, Deserialize)]
struct Given {
    /// The problem; may be left out if there is only one.
    problem: Option<String>,
    /// The program.
    #[serde(alias = "source")]
    program: Option<String>,
    /// The text that a model wrote, with the program in it.
    #[serde(alias = "completion", alias = "response")]
    answer: Option<String>,
    prompt: Option<String>,
}

/// The answers of each model that is a file; nothing for the others.
///
/// # Errors
/// Wrong usage: lines that are no answers, answers to other problems, and problems with too few answers.
pub fn read(order: &Order) -> Result<Vec<Vec<Answer>>> {
    order
        .models
        .iter()
        .map(|model| match &model.kind {
            Kind::Samples(path) => of_file(order, model, path),
            Kind::Folder(_) | Kind::Schedules | Kind::Endpoint(_) => Ok(Vec::new()),
        })
        .collect()
}

fn of_file(order: &Order, model: &Model, path: &Path) -> Result<Vec<Answer>> {
    let problems: BTreeMap<&str, &Problem> = order
        .problems
        .iter()
        .map(|problem| (problem.id.as_str(), problem.as_ref()))
        .collect();
    let only = match &order.problems[..] {
        [only] => Some(only.id.as_str()),
        _ => None,
    };
    let lines = jsonl::read(path, |given: &Given| {
        if given.program.is_none() && given.answer.is_none() {
            return Err("it has neither a `program` nor an `answer`".to_owned());
        }
        let Some(problem) = given.problem.as_deref().or(only) else {
            return Err("it names no `problem`, and several are evaluated".to_owned());
        };
        match problems.contains_key(problem) {
            true => Ok(()),
            false => Err(format!(
                "it is an answer to `{problem}`, which is not evaluated; add --problem {problem}, or remove the line"
            )),
        }
    })?;
    let mut answers = Vec::new();
    let mut counts: BTreeMap<&str, u32> = problems.keys().map(|id| (*id, 0)).collect();
    let mut more = 0u64;
    for given in lines {
        let named = given.problem.as_deref().or(only).unwrap_or_default();
        let Some((id, problem)) = problems.get_key_value(named) else {
            continue;
        };
        let count = counts.entry(*id).or_default();
        if order.samples.is_some_and(|most| *count >= most) {
            more += 1;
            continue;
        }
        *count += 1;
        let program = match given.program {
            Some(program) => Some(program).filter(|program| !program.trim().is_empty()),
            None => given
                .answer
                .as_deref()
                .and_then(|answer| prompt::extract(answer, style(order.prompt), problem.language)),
        };
        answers.push(Answer {
            model: model.name.clone(),
            problem: (*id).to_owned(),
            number: *count,
            seed: None,
            prompt: given.prompt,
            answer: given.answer,
            finished: None,
            program,
        });
    }
    let least = order.samples.unwrap_or(1);
    let few: Vec<String> = counts
        .iter()
        .filter(|(_, count)| **count < least)
        .map(|(id, count)| format!("{id} ({count})"))
        .collect();
    if !few.is_empty() {
        return Err(usage(format!(
            "{} has too few answers to {}; each problem needs {least}: add answers{}, or leave these problems out",
            path.display(),
            few.join(", "),
            match order.samples {
                Some(_) => ", give fewer --samples",
                None => "",
            }
        )));
    }
    if more > 0 {
        say(&format!(
            "note: {more} further answers in {} are left out (--samples {least})",
            path.display()
        ));
    }
    Ok(answers)
}

/// The style in which answers of files hold programs.
fn style(asked: Prompt) -> Style {
    match asked {
        Prompt::Compact => Style::Compact,
        Prompt::Nest => Style::Nest,
        Prompt::Auto | Prompt::Full => Style::Full,
    }
}
