//! The files of each part of training, from measured programs.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use flopsmith_generator::measured::exercises::{Improving, exercises};
use flopsmith_generator::measured::instructions::instructions;
use flopsmith_generator::measured::pairs::{Pair, pairs};
use flopsmith_generator::measured::split::{Label, Part, labels};
use flopsmith_generator::measured::{Program, REFERENCE};
use flopsmith_problem::prompt;
use flopsmith_run::console::usage;
use flopsmith_run::jsonl;
use serde::Serialize;

/// The numbers that a split needs.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// Largest number of pairs of each prompt.
    pub pairs: usize,
    /// Largest number of examples for fine-tuning of each kind and prompt.
    pub examples: usize,
    /// Largest number of slow programs that reinforcement has to improve, for each prompt.
    pub improve: usize,
    /// The language of fenced blocks that programs stand in, as chat models write them.
    pub fence: Option<&'a str>,
    /// Problems that are in no part.
    pub hold_out: &'a BTreeSet<String>,
    /// Seed of the random choices.
    pub seed: u64,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Written {
    /// Its name.
    pub file: String,
    /// Its lines.
    pub lines: usize,
}

/// Where a program went.
#[derive(Debug, Serialize)]
struct Labelled<'a> {
    #[serde(flatten)]
    label: Label,
    #[serde(flatten)]
    program: &'a Program,
}

/// Writes the files of all parts into a folder, and returns their names and numbers of lines. Programs of the origin
/// [`REFERENCE`] are shown as slow ones by every part.
///
/// # Errors
/// Wrong usage: there are no programs, a held-out problem has none, or the folder cannot be written.
pub fn write(folder: &Path, all: &[Program], settings: &Settings<'_>) -> Result<Vec<Written>> {
    if all.is_empty() {
        return Err(usage("there are no programs in these files"));
    }
    let known: BTreeSet<&str> = all.iter().map(|p| p.problem.as_str()).collect();
    let mut held_out = settings.hold_out.iter();
    if let Some(unknown) = held_out.find(|p| !known.contains(p.as_str())) {
        return Err(usage(format!(
            "--hold-out {unknown}: these files have no program for a problem of this name; their problems are {}",
            known.into_iter().collect::<Vec<_>>().join(", ")
        )));
    }
    flopsmith_run::output::folder(folder)?;
    let (shown, programs): (Vec<&Program>, Vec<&Program>) =
        all.iter().partition(|p| p.origin == REFERENCE);
    // A wrong reference is no program to improve.
    let shown: Vec<&Program> = shown.into_iter().filter(|p| p.correct).collect();
    let programs: Vec<Program> = programs.into_iter().cloned().collect();
    let labels = labels(&programs, settings.hold_out, settings.seed);
    let mut files = Vec::new();
    let labelled: Vec<Labelled<'_>> = programs
        .iter()
        .zip(&labels)
        .map(|(program, label)| Labelled {
            label: *label,
            program,
        })
        .collect();
    keep(folder, "labels.jsonl", &labelled, &mut files)?;
    let &Settings { fence, seed, .. } = settings;
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
        let taught = instructions(of(&[Part::Sft]), &shown, settings.examples, fence, seed);
        keep(folder, &name("sft"), &taught, &mut files)?;
        let paired = |parts: &[Part]| fenced(pairs(of(parts), settings.pairs, seed), fence);
        let judged = paired(&[Part::RewardModel]);
        keep(folder, &name("reward_model"), &judged, &mut files)?;
        let aligned = paired(&[Part::RewardModel, Part::Reinforcement]);
        keep(folder, &name("dpa"), &aligned, &mut files)?;
        let improving = Improving {
            most: settings.improve,
            fence,
            seed,
        };
        let asked = exercises(of(&[Part::Reinforcement]), &shown, improving);
        keep(folder, &name("rl"), &asked, &mut files)?;
    }
    Ok(files)
}

/// Pairs whose answers are put into fenced code blocks of a language, if a language is given.
fn fenced(mut pairs: Vec<Pair>, fence: Option<&str>) -> Vec<Pair> {
    for pair in &mut pairs {
        for text in [&mut pair.fast, &mut pair.slow] {
            *text = prompt::answer(text, fence);
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn program(problem: &str, number: usize, origin: &str) -> Program {
        Program {
            problem: problem.into(),
            workloads: Vec::new(),
            prompt: format!("// {problem}: none\n"),
            source: format!("int {origin}_{problem}_{number};\n"),
            runtime_s: Some(1e-3 * (number + 1) as f64),
            correct: true,
            origin: origin.into(),
            rank: None,
        }
    }

    fn settings(hold_out: &BTreeSet<String>) -> Settings<'_> {
        Settings {
            pairs: 10,
            examples: 20,
            improve: 2,
            fence: None,
            hold_out,
            seed: 7,
        }
    }

    #[test]
    fn parts_show_references_and_answer_with_none() {
        let place = tempfile::tempdir().unwrap();
        let mut all: Vec<Program> = (0..60).map(|n| program("dot", n, "drawn")).collect();
        all.extend((0..60).map(|n| program("axpy", n, "drawn")));
        all.push(Program {
            runtime_s: Some(1.0),
            ..program("dot", 0, REFERENCE)
        });
        all.push(Program {
            runtime_s: None,
            correct: false,
            ..program("axpy", 0, REFERENCE)
        });
        let none = BTreeSet::new();
        let files = write(place.path(), &all, &settings(&none)).unwrap();
        assert_eq!(files.len(), 9);
        let text = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap();
        for written in &files {
            let lines = text(&written.file).lines().count();
            assert_eq!(lines, written.lines, "{}", written.file);
        }
        assert_eq!(text("labels.jsonl").lines().count(), 120);
        for file in ["sft.jsonl", "rl.jsonl"] {
            assert!(text(file).contains("int reference_dot_0;"), "{file}");
            assert!(!text(file).contains("int reference_axpy_0;"), "{file}");
        }
        for file in ["labels.jsonl", "reward_model.jsonl", "dpa.jsonl"] {
            assert!(!text(file).contains("reference"), "{file}");
        }
        let kinds = |kind: &str| {
            let wanted = format!("\"kind\":\"{kind}\"");
            text("rl.jsonl").matches(&wanted).count()
        };
        assert_eq!((kinds("solve"), kinds("improve")), (2, 4));
    }

    #[test]
    fn held_out_problems_are_in_no_file_but_the_labels_and_unknown_ones_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let mut all: Vec<Program> = (0..40).map(|n| program("dot", n, "drawn")).collect();
        all.extend((0..40).map(|n| program("axpy", n, "drawn")));
        let held_out = BTreeSet::from(["axpy".to_owned()]);
        for written in write(place.path(), &all, &settings(&held_out)).unwrap() {
            let text = std::fs::read_to_string(place.path().join(&written.file)).unwrap();
            let named = text.contains("axpy");
            assert_eq!(named, written.file == "labels.jsonl", "{}", written.file);
        }
        let unknown = BTreeSet::from(["axpi".to_owned()]);
        let error = write(place.path(), &all, &settings(&unknown)).unwrap_err();
        assert!(error.to_string().contains("axpi"), "{error:#}");
        let error = write(place.path(), &[], &settings(&unknown)).unwrap_err();
        assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
    }
}
