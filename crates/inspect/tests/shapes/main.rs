//! The detection of techniques against programs whose techniques are known.
//!
//! Templates (`kinds`) make loop nests of all kinds of problems with and without each technique. Printers spell them in
//! C, C++ and Fortran. The labels follow from the construction, and the definitions of
//! `docs/decisions/0079-techniques-of-any-loop-nest.md`. Programs that no template makes are files in `programs/`; their
//! first lines say problem and techniques.
//!
//! `FLOPSMITH_SHAPES=folder` writes all programs to a folder. `target/tmp/detection.md` has precision and recall by technique and kind.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod ast;
mod c;
mod earlier;
mod fortran;
mod kinds;
mod nests;
mod pool;
mod preprocess;
mod programs;
mod score;
mod spell;
mod templates;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use flopsmith_inspect::detect::Detected;
use flopsmith_inspect::{detect, scan};
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{Technique, TechniqueSet};
use flopsmith_test_support::shipped;

/// A program with its techniques.
struct Program {
    name: String,
    kind: String,
    problem: String,
    language: Language,
    source: String,
    labels: TechniqueSet,
}

/// All problems, each with every technique, so that nothing that is found is left out.
static PROBLEMS: LazyLock<BTreeMap<String, Problem>> = LazyLock::new(|| {
    let folders = shipped::problems().into_iter();
    folders
        .map(|folder| {
            let mut problem = Problem::load(&folder).unwrap();
            problem.techniques = TechniqueSet::all();
            (problem.id.to_string(), problem)
        })
        .collect()
});

/// The techniques that the detection finds.
fn techniques(program: &Program) -> TechniqueSet {
    detected(program).techniques()
}

/// The findings in a program.
fn detected(program: &Program) -> Detected {
    let mut problem = PROBLEMS[&program.problem].clone();
    // Expanded macros are longer than the source that the limit is for.
    problem.max_source_bytes = 1 << 20;
    let problem = &problem;
    let (source, language) = (&program.source, program.language);
    let found = if language.is_fortran() {
        scan::check_fortran(source, problem, language)
            .and_then(|looked| detect::in_fortran(&looked, problem))
    } else {
        scan::look::look(&preprocess::expanded(source), problem, language)
    };
    found.unwrap_or_else(|e| panic!("{}: {e}\n{source}", program.name))
}

#[test]
fn techniques_are_found_in_loop_nests_of_all_kinds() {
    let mut programs = spell::all();
    let written = programs.len();
    assert!(written >= 1500, "only {written} programs");
    programs.extend(programs::all());
    if let Some(folder) = std::env::var_os("FLOPSMITH_SHAPES") {
        write(&programs, Path::new(&folder));
    }
    let mut score = score::Score::default();
    for program in &programs {
        score.count(program, techniques(program));
    }
    println!("{}", score.table());
    let table = Path::new(env!("CARGO_TARGET_TMPDIR")).join("detection.md");
    std::fs::write(table, score.markdown()).unwrap();
    let mut bad = score.below(0.98);
    bad.extend(score.found_falsely(0.02));
    assert!(bad.is_empty(), "{}\n{}", score.table(), bad.join("\n"));
}

fn write(programs: &[Program], folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    for (at, program) in programs.iter().enumerate() {
        let (ending, comment) = match program.language {
            Language::C => ("c", "//"),
            Language::Cxx => ("cpp", "//"),
            Language::Fortran => ("f90", "!"),
            Language::Fortran77 => ("f", "c"),
            Language::Python => ("py", "#"),
        };
        let text = format!(
            "{comment} problem: {}\n{comment} techniques: {}\n{comment} {}\n{}",
            program.problem, program.labels, program.name, program.source
        );
        let file = folder.join(format!("{at:04}_{}.{ending}", program.problem));
        std::fs::write(file, text).unwrap();
    }
}

/// All techniques of loop nests are in the corpus.
#[test]
fn every_technique_has_programs() {
    let programs = spell::all();
    let of_loops = Technique::ALL.into_iter();
    for technique in of_loops.filter(|technique| !technique.is_of_modules_only()) {
        let with = programs
            .iter()
            .filter(|p| p.labels.contains(technique))
            .count();
        assert!(with >= 20, "{technique}: {with}");
    }
}
