//! Programs of a file that are to be measured, by problem.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use flopsmith_generator::measured::REFERENCE;
use flopsmith_problem::Problem;
use flopsmith_problem::prompt::Style;
use flopsmith_protocol::TechniqueSet;
use flopsmith_run::console::usage;
use flopsmith_run::{jsonl, paths};
use serde::Deserialize;

use crate::label::{self, Given};

/// The techniques that programs may use, which also give their prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// All of a problem's techniques but OpenMP.
    All,
    /// These, for every problem.
    Named(TechniqueSet),
}

/// The file of the programs, and what completes its lines.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// JSON lines with a `program` (or `source`) each, and perhaps a `problem` and a `prompt`; `-` is stdin.
    pub file: &'a Path,
    /// The problem of lines that name none.
    pub problem: &'a str,
    /// Names of the workloads that programs are timed at; all of each problem if there is none.
    pub workloads: &'a [String],
    /// Makes all programs of a problem answers to one prompt. Without it, every line needs a prompt of its own.
    pub permit: Option<Permit>,
    /// Style of that prompt.
    pub style: Style,
    /// True if the plain reference of each problem is measured as well.
    pub references: bool,
    /// Origin of the programs.
    pub origin: &'a str,
}

/// The programs of one problem.
pub struct Work {
    /// The problem, with the workloads that were chosen.
    pub problem: Arc<Problem>,
    /// The techniques that its programs may use; none if techniques do not matter.
    pub permitted: Option<TechniqueSet>,
    /// The programs.
    pub programs: Vec<Given>,
}

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

/// The programs by problem, in the order in which the file names the problems. Every problem is found and every prompt
/// is made before the first measurement.
///
/// # Errors
/// Wrong usage: the file cannot be read or has no programs, a line has no prompt and none is made, an unknown problem or
/// workload, or a style that a problem does not have.
pub fn read(order: &Order<'_>) -> Result<Vec<Work>> {
    let lines = jsonl::read(order.file, |line: &Line| {
        let is_empty = |text: &str| text.trim().is_empty();
        let prompt = line.prompt.as_deref();
        match is_empty(&line.source) || prompt.is_some_and(is_empty) {
            true => Err("`prompt` or `program` is empty"),
            false if prompt.is_none() && order.permit.is_none() => {
                Err("there is no `prompt`; add one to each line, or give --permit, which makes one")
            }
            false => Ok(()),
        }
    })?;
    if lines.is_empty() {
        return Err(usage(format!(
            "there are no programs in {}",
            order.file.display()
        )));
    }
    let mut all: Vec<(String, Work)> = Vec::new();
    for line in lines {
        let name = line.problem.unwrap_or_else(|| order.problem.to_owned());
        let place = match all.iter().position(|(known, _)| *known == name) {
            Some(place) => place,
            None => {
                let work = begin(order, &name)?;
                all.push((name, work));
                all.len() - 1
            }
        };
        let work = &mut all[place].1;
        let prompt = match (work.permitted, line.prompt) {
            (Some(permitted), _) => label::prompt(&work.problem, permitted, order.style)?,
            (None, prompt) => prompt.unwrap_or_default(),
        };
        work.programs.push(Given {
            problem: work.problem.id.to_string(),
            prompt,
            source: line.source,
            origin: order.origin.to_owned(),
        });
    }
    let mut work: Vec<Work> = all.into_iter().map(|(_, work)| work).collect();
    if order.references {
        work.iter_mut().for_each(add_reference);
    }
    Ok(work)
}

/// A problem without programs yet.
fn begin(order: &Order<'_>, name: &str) -> Result<Work> {
    let problem = paths::selected(paths::problem(name)?, order.workloads)?;
    let permitted = order.permit.map(|permit| match permit {
        Permit::All => label::permitted(&problem),
        Permit::Named(techniques) => techniques,
    });
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_protocol::Technique;

    use super::*;

    /// Problem, prompt, source and origin of each program.
    fn given(work: &[Work]) -> Vec<[&str; 4]> {
        let mut all = Vec::new();
        for given in work.iter().flat_map(|of| &of.programs) {
            let Given {
                problem,
                prompt,
                source,
                origin,
            } = given;
            all.push([problem, prompt, source, origin].map(String::as_str));
        }
        all
    }

    #[test]
    fn programs_are_sorted_by_problem_and_references_answer_each_prompt() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("programs.jsonl");
        let lines = "{\"program\": \"a\", \"prompt\": \"2\"}\n\
            {\"problem\": \"dot\", \"source\": \"b\", \"prompt\": \"3\"}\n\
            {\"program\": \"c\", \"prompt\": \"1\", \"techniques\": []}\n";
        std::fs::write(&file, lines).unwrap();
        let order = Order {
            file: &file,
            problem: "dgemm",
            workloads: &[],
            permit: None,
            style: Style::Compact,
            references: true,
            origin: "here",
        };
        let own = read(&order).unwrap();
        let reference = |n: usize| own[n].problem.reference_source.as_str();
        assert_eq!(
            given(&own),
            [
                ["dgemm", "2", "a", "here"],
                ["dgemm", "1", "c", "here"],
                ["dgemm", "1", reference(0), REFERENCE],
                ["dgemm", "2", reference(0), REFERENCE],
                ["dot", "3", "b", "here"],
                ["dot", "3", reference(1), REFERENCE],
            ]
        );
        assert!(own.iter().all(|of| of.permitted.is_none()));

        let simd = TechniqueSet::default().with(Technique::Simd);
        let permitting = |permit: Permit| {
            let permit = Some(permit);
            let references = false;
            read(&Order {
                permit,
                references,
                ..order
            })
        };
        let made = permitting(Permit::Named(simd)).unwrap();
        let prompt = |name: &str| flopsmith_problem::prompt::compact(name, simd);
        let (of_dgemm, of_dot) = (prompt("dgemm"), prompt("dot"));
        let (dgemm, dot) = (of_dgemm.as_str(), of_dot.as_str());
        assert_eq!(
            given(&made),
            [
                ["dgemm", dgemm, "a", "here"],
                ["dgemm", dgemm, "c", "here"],
                ["dot", dot, "b", "here"],
            ]
        );
        let all = permitting(Permit::All).unwrap();
        for of in &all {
            let but_openmp = of.problem.techniques.without(Technique::Openmp);
            assert_eq!(of.permitted, Some(but_openmp));
        }

        std::fs::write(&file, "\n{\"program\": \"a\"}\n").unwrap();
        let refused = read(&order).err().map(|e| e.to_string()).unwrap();
        assert!(refused.contains("line 2 of ") && refused.contains("--permit"));
        assert_eq!(permitting(Permit::All).unwrap().len(), 1);
    }
}
