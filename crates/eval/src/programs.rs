//! The programs that models are to optimise, in place of the references of their problems.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use flopsmith_problem::{Language, Problem, meant};
use flopsmith_protocol::{Digest, text};
use flopsmith_run::console::usage;

use crate::Task;

/// A program that the prompts of [`Task::Optimise`] show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its source.
    pub source: String,
    /// Its language, by the end of its file's name; that of the problem's reference where the name says nothing.
    pub language: Language,
}

impl Program {
    /// The digest of everything that a prompt shows of it.
    pub(crate) fn digest(&self) -> Digest {
        Digest::of(format!("{}\n{}", self.language.fence(), self.source).as_bytes())
    }
}

/// Reads words of the command line, `FILE` or `PROBLEM=FILE`, by the names of the problems.
///
/// # Errors
/// Wrong usage: models are not asked to optimise, a word does not say for which problem its program is, a problem has two
/// programs, or a file holds no program.
pub fn read(
    words: &[String],
    problems: &[Arc<Problem>],
    task: Task,
) -> Result<BTreeMap<String, Program>> {
    let mut programs = BTreeMap::new();
    if !words.is_empty() && task != Task::Optimise {
        return Err(usage(
            "--program (or FLOPSMITH_EVAL_PROGRAM) names a program to be optimised, and the task is to write one; add --task optimise, or leave the program out",
        ));
    }
    for word in words {
        let (problem, path) = split(word, problems)?;
        let name = problem.id.as_str().to_owned();
        let program = of_file(problem, path)?;
        if programs.insert(name, program).is_some() {
            return Err(usage(format!(
                "--program names two programs for {}; leave one of them out, or evaluate it with another --output",
                problem.id
            )));
        }
    }
    Ok(programs)
}

/// The problem and the file that a word names.
fn split<'a>(word: &'a str, problems: &'a [Arc<Problem>]) -> Result<(&'a Problem, &'a Path)> {
    let known = || problems.iter().map(|problem| problem.id.as_str());
    let named = word.split_once('=');
    if let Some((name, file)) = named
        && let Some(problem) = problems.iter().find(|p| p.id.as_str() == name)
    {
        return Ok((problem.as_ref(), Path::new(file)));
    }
    match (problems, named) {
        ([only], None) => Ok((only.as_ref(), Path::new(word))),
        // The name of a file may contain the sign.
        ([only], Some(_)) if Path::new(word).is_file() => Ok((only.as_ref(), Path::new(word))),
        (_, None) => Err(usage(format!(
            "--program {word}: several problems are evaluated, and the word names none; write PROBLEM={word} with one of {}",
            known().collect::<Vec<_>>().join(", ")
        ))),
        (_, Some((name, _))) => {
            let near = meant(name, known()).map(|near| format!(" (did you mean {near}?)"));
            Err(usage(format!(
                "--program {word}: `{name}` is not evaluated{}; name one of {}, or add its --problem",
                near.unwrap_or_default(),
                known().collect::<Vec<_>>().join(", ")
            )))
        }
    }
}

fn of_file(problem: &Problem, path: &Path) -> Result<Program> {
    let read = std::fs::read(path).and_then(text::decode);
    let source =
        read.map_err(|e| usage(format!("--program: cannot read {}: {e}", path.display())))?;
    if source.trim().is_empty() {
        return Err(usage(format!(
            "--program: {} is empty; name a file that holds a program",
            path.display()
        )));
    }
    let language = language(problem, path)?;
    Ok(Program { source, language })
}

fn language(problem: &Problem, path: &Path) -> Result<Language> {
    let reference = problem.reference_language();
    let Some(ending) = path.extension() else {
        return Ok(reference);
    };
    let (found, endings) = match reference {
        Language::Python => {
            let found = (ending == "py").then_some(Language::Python);
            (found, Language::Python.endings().join(", "))
        }
        _ => {
            let all = Language::ALL.into_iter().flat_map(Language::endings);
            let all: Vec<&str> = all.copied().collect();
            (Language::of_file(path), all.join(", "))
        }
    };
    found.ok_or_else(|| {
        usage(format!(
            "--program: the name of {} ends in none of {endings}, which say the language of a program for {}; rename it, or leave the ending out",
            path.display(),
            problem.id
        ))
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn problems(names: &[&str]) -> Vec<Arc<Problem>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
        let problems = names.iter().map(|name| folder.join(name));
        problems
            .map(|folder| Arc::new(Problem::load_any(&folder).unwrap()))
            .collect()
    }

    /// The programs of these words, or the words of the refusal.
    fn found(words: &[String], names: &[&str]) -> Result<BTreeMap<String, Program>, String> {
        read(words, &problems(names), Task::Optimise).map_err(|error| {
            assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
            error.to_string()
        })
    }

    #[test]
    fn a_program_belongs_to_the_named_problem_or_to_the_only_one() {
        let place = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = place.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let (c, plain) = (file("mine.c", "int x;\n"), file("mine", "int y;\n"));
        let (cxx, sign) = (file("mine.cpp", "auto z;\n"), file("n=3.c", "int w;\n"));
        let python = file("mine.py", "import torch\n");
        let both = [format!("dgemm={c}"), format!("dot={cxx}")];
        let programs = found(&both, &["dot", "dgemm", "dsyrk"]).unwrap();
        assert_eq!(programs.len(), 2);
        assert_eq!(programs["dgemm"].source, "int x;\n");
        assert_eq!(programs["dgemm"].language, Language::C);
        assert_eq!(programs["dot"].language, Language::Cxx);
        for (word, source) in [(plain, "int y;\n"), (sign, "int w;\n")] {
            let programs = found(&[word], &["dot"]).unwrap();
            assert_eq!(programs["dot"].source, source);
            assert_eq!(programs["dot"].language, Language::C);
        }
        let programs = found(&[python], &["modules/softmax"]).unwrap();
        assert_eq!(programs["softmax"].language, Language::Python);
        assert!(found(&[], &["dot"]).unwrap().is_empty());
        // The prompt marks the language, so it is a part of the digest.
        let [one, other] = [Language::C, Language::Cxx].map(|language| Program {
            source: "int x;".into(),
            language,
        });
        assert_ne!(one.digest(), other.digest());
    }

    #[test]
    fn words_that_name_no_program_are_refused_with_what_to_do() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name).display().to_string();
        std::fs::write(path("mine.c"), "int x;\n").unwrap();
        std::fs::write(path("empty.c"), " \n").unwrap();
        std::fs::write(path("mine.txt"), "int x;\n").unwrap();
        let (two, mine) = (["dot", "dgemm"], path("mine.c"));
        for (words, names, part) in [
            (vec![mine.clone()], &two[..], "with one of dot, dgemm"),
            (
                vec![format!("dgemn={mine}")],
                &two[..],
                "`dgemn` is not evaluated (did you mean `dgemm`?)",
            ),
            (
                vec![format!("dsyrk={mine}")],
                &two[..1],
                "add its --problem",
            ),
            (
                vec![format!("dot={mine}"), format!("dot={mine}")],
                &two[..],
                "two programs for dot",
            ),
            (vec![path("empty.c")], &two[..1], "is empty"),
            (vec![path("missing.c")], &two[..1], "cannot read"),
            (vec![path("mine.txt")], &two[..1], "c, cpp, cc, cxx, f90, f"),
            (
                vec![mine.clone()],
                &["modules/softmax"][..],
                "ends in none of py",
            ),
        ] {
            let said = found(&words, names).unwrap_err();
            assert!(said.contains(part), "{part}: {said}");
        }
        let written = read(&[mine], &problems(&["dot"]), Task::Write);
        let said = written.unwrap_err().to_string();
        assert!(said.contains("add --task optimise"), "{said}");
    }
}
