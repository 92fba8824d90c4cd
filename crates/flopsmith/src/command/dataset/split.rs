//! `flopsmith dataset split`: splits measured programs into the parts for training.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use flopsmith_generator::measured::Program;
use flopsmith_generator::measured::exercises::exercises;
use flopsmith_generator::measured::instructions::instructions;
use flopsmith_generator::measured::pairs::{Pair, pairs};
use flopsmith_generator::measured::split::{Label, Part, labels};
use flopsmith_run::console::{data, say, usage};
use flopsmith_run::jsonl;
use serde::Serialize;

use crate::args::{Format, Split};

/// Where a program went.
#[derive(Debug, Serialize)]
struct Labelled<'a> {
    #[serde(flatten)]
    label: Label,
    #[serde(flatten)]
    program: &'a Program,
}

/// A file that was written.
#[derive(Debug, Serialize)]
struct Written {
    file: String,
    lines: usize,
}

/// The files that were written.
#[derive(Debug, Serialize)]
struct Made {
    programs: usize,
    files: Vec<Written>,
}

/// Writes the parts of some files of programs.
pub fn run(args: &Split) -> Result<ExitCode> {
    let mut programs: Vec<Program> = Vec::new();
    for file in &args.files {
        programs.extend(jsonl::read(file, Program::check)?);
    }
    if programs.is_empty() {
        return Err(usage("there are no programs in these files"));
    }
    let held_out: BTreeSet<String> = args.hold_out.iter().cloned().collect();
    let known: BTreeSet<&str> = programs.iter().map(|p| p.problem.as_str()).collect();
    if let Some(unknown) = held_out.iter().find(|p| !known.contains(p.as_str())) {
        return Err(usage(format!(
            "--hold-out {unknown}: these files have no program for a problem of this name; their problems are {}",
            known.into_iter().collect::<Vec<_>>().join(", ")
        )));
    }
    flopsmith_run::output::folder(&args.output)?;
    let labels = labels(&programs, &held_out, args.seed);
    let mut files = Vec::new();
    let all: Vec<Labelled<'_>> = programs
        .iter()
        .zip(&labels)
        .map(|(program, label)| Labelled {
            label: *label,
            program,
        })
        .collect();
    keep(&args.output, "labels.jsonl", &all, &mut files)?;
    for evaluation in [false, true] {
        let of = |parts: &[Part]| -> Vec<&Program> {
            let wanted =
                |label: &Label| parts.contains(&label.part) && label.evaluation == evaluation;
            let own = programs.iter().zip(&labels).filter(|(_, l)| wanted(l));
            own.map(|(program, _)| program).collect()
        };
        let name = |part: &str| match evaluation {
            false => format!("{part}.jsonl"),
            true => format!("{part}_evaluation.jsonl"),
        };
        let taught = instructions(
            of(&[Part::Sft]),
            args.examples,
            args.fence.as_deref(),
            args.seed,
        );
        keep(&args.output, &name("sft"), &taught, &mut files)?;
        let fence = args.fence.as_deref();
        let paired = |parts: &[Part]| fenced(pairs(of(parts), args.pairs, args.seed), fence);
        let judged = paired(&[Part::RewardModel]);
        keep(&args.output, &name("reward_model"), &judged, &mut files)?;
        let aligned = paired(&[Part::RewardModel, Part::Reinforcement]);
        keep(&args.output, &name("dpa"), &aligned, &mut files)?;
        let asked = exercises(of(&[Part::Reinforcement]));
        keep(&args.output, &name("rl"), &asked, &mut files)?;
    }
    for written in &files {
        say(&format!(
            "{}: {} lines",
            args.output.join(&written.file).display(),
            written.lines
        ));
    }
    if args.format == Format::Json {
        data(&serde_json::to_string(&Made {
            programs: programs.len(),
            files,
        })?);
    }
    Ok(ExitCode::SUCCESS)
}

/// Pairs whose answers are put into fenced code blocks of a language, if a language is given.
fn fenced(mut pairs: Vec<Pair>, fence: Option<&str>) -> Vec<Pair> {
    for pair in &mut pairs {
        for text in [&mut pair.fast, &mut pair.slow] {
            *text = flopsmith_problem::prompt::answer(text, fence);
        }
    }
    pairs
}

fn keep<T: Serialize>(
    folder: &Path,
    name: &str,
    items: &[T],
    files: &mut Vec<Written>,
) -> Result<()> {
    jsonl::write(&folder.join(name), items)?;
    files.push(Written {
        file: name.to_owned(),
        lines: items.len(),
    });
    Ok(())
}
