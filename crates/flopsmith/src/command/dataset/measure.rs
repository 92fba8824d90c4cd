//! `flopsmith dataset measure`: compiles, verifies and times programs, of one problem or of several.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use flopsmith_alignment::label::{self, Bench, Given};
use flopsmith_generator::measured::REFERENCE;
use flopsmith_problem::Problem;
use flopsmith_problem::prompt::Style;
use flopsmith_protocol::TechniqueSet;
use flopsmith_run::console::{data, say, usage};
use flopsmith_run::digits::counted;
use flopsmith_run::ticker::Ticker;
use flopsmith_run::{jsonl, paths};
use serde::Deserialize;

use crate::args::Measure;

/// A program to measure. Other fields of a line, such as the techniques of a schedule, are not needed.
#[derive(Debug, Deserialize)]
struct Line {
    #[serde(default)]
    problem: Option<String>,
    #[serde(default)]
    prompt: Option<String>,
    #[serde(alias = "program")]
    source: String,
}

/// The programs of one problem.
struct Work {
    problem: Arc<Problem>,
    permitted: Option<TechniqueSet>,
    programs: Vec<Given>,
}

/// Measures the programs of a file.
pub fn run(args: &Measure) -> Result<ExitCode> {
    let work = work(args)?;
    let total: usize = work.iter().map(|of| of.programs.len()).sum();
    let several = work.len() > 1;
    let (mut right, mut wrong, mut left_out) = (0u64, 0u64, 0u64);
    let mut ticker = Ticker::new(50);
    let mut number = 0u64;
    for Work {
        problem,
        permitted,
        programs,
    } in work
    {
        if several {
            let count = counted(programs.len() as u64, "program");
            say(&format!("{}: {count} to measure", problem.id));
        }
        let mut bench = Bench::open(
            problem,
            &args.workloads.names,
            &args.compiler,
            args.allow_weaker_jail,
            permitted,
        )?;
        for given in programs {
            match bench.measure(given) {
                Some(program) => {
                    match program.correct {
                        true => right += 1,
                        false => wrong += 1,
                    }
                    data(&serde_json::to_string(&program)?);
                }
                None => left_out += 1,
            }
            number += 1;
            ticker.tick(number, total as u64, || {
                format!("measured {number} of {total} programs: {right} are right, {wrong} wrong")
            });
        }
        ticker.end();
    }
    if left_out > 0 {
        say(&format!(
            "{left_out} programs are left out: this machine failed to measure them"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// The programs by problem, in the order in which the file names the problems. Every problem is found and every prompt
/// is made before the first measurement.
fn work(args: &Measure) -> Result<Vec<Work>> {
    let lines = jsonl::read(&args.file, |line: &Line| {
        let is_empty = |text: &str| text.trim().is_empty();
        let prompt = line.prompt.as_deref();
        match is_empty(&line.source) || prompt.is_some_and(is_empty) {
            true => Err("`prompt` or `program` is empty"),
            false if prompt.is_none() && args.permit.is_none() => {
                Err("there is no `prompt`; add one to each line, or give --permit, which makes one")
            }
            false => Ok(()),
        }
    })?;
    if lines.is_empty() {
        return Err(usage(format!(
            "there are no programs in {}",
            args.file.display()
        )));
    }
    let style = match (args.full, args.nest) {
        (true, _) => Style::Full,
        (_, true) => Style::Nest,
        _ => Style::Compact,
    };
    let mut all: Vec<(String, Work)> = Vec::new();
    for line in lines {
        let name = line.problem.unwrap_or_else(|| args.problem.clone());
        let place = match all.iter().position(|(known, _)| *known == name) {
            Some(place) => place,
            None => {
                let work = begin(args, &name)?;
                all.push((name, work));
                all.len() - 1
            }
        };
        let work = &mut all[place].1;
        let prompt = match (work.permitted, line.prompt) {
            (Some(permitted), _) => label::prompt(&work.problem, permitted, style)?,
            (None, prompt) => prompt.unwrap_or_default(),
        };
        work.programs.push(Given {
            problem: work.problem.id.to_string(),
            prompt,
            source: line.source,
            origin: args.origin.clone(),
        });
    }
    let mut work: Vec<Work> = all.into_iter().map(|(_, work)| work).collect();
    if args.references {
        work.iter_mut().for_each(add_reference);
    }
    Ok(work)
}

/// A problem without programs yet.
fn begin(args: &Measure, name: &str) -> Result<Work> {
    let problem = paths::selected(paths::problem(name)?, &args.workloads.names)?;
    let permitted = match args.permit.as_deref() {
        None => None,
        Some("all") => Some(label::permitted(&problem)),
        Some(text) => super::super::problem::named(Some(text))?,
    };
    Ok(Work {
        problem: Arc::new(problem),
        permitted,
        programs: Vec::new(),
    })
}

/// Adds the problem's reference as an answer to each prompt of its programs.
fn add_reference(work: &mut Work) {
    let mut prompts: Vec<String> = work.programs.iter().map(|p| p.prompt.clone()).collect();
    prompts.sort();
    prompts.dedup();
    work.programs
        .extend(prompts.into_iter().map(|prompt| Given {
            problem: work.problem.id.to_string(),
            prompt,
            source: work.problem.reference_source.clone(),
            origin: REFERENCE.to_owned(),
        }));
}
