//! The places that ask for the target of a problem are few and known (`docs/decisions/0085-one-target.md`).
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Files outside of the modules' own crate that ask, and how often. A new place has to be one where the two targets have nothing in
/// common; else give the question a name in `problem/src/target.rs`, or put the difference behind `Pipeline` or `Bench`.
const ASKING: [(&str, usize); 18] = [
    // The questions with names, and the reading of a definition.
    ("problem/src/target.rs", 9),
    ("problem/src/module.rs", 1),
    ("problem/src/lib.rs", 1),
    ("problem/src/check.rs", 1),
    ("problem/src/prompt.rs", 2),
    // The pipeline, and what is made for one of its two kinds.
    ("evaluate/src/pipeline.rs", 8),
    ("evaluate/src/lib.rs", 1),
    ("actors/src/evaluation.rs", 2),
    ("run/src/evaluator.rs", 2),
    ("run/src/worker/benches.rs", 1),
    ("run/src/certification.rs", 1),
    ("serve/src/station/bench.rs", 1),
    // Compiler flags, and measuring this machine before a run.
    ("run/src/paths.rs", 1),
    ("run/src/run/ready.rs", 1),
    // A task of Harbor has another kit.
    ("export/src/harbor/kit.rs", 1),
    // Techniques and workers of evaluations.
    ("eval/src/evaluation.rs", 1),
    ("eval/src/lib.rs", 1),
    ("eval/src/on_farm.rs", 1),
];

/// Words of a question, besides the field `module` of a problem.
const KINDS: [&str; 3] = ["Pipeline::Module", "Bench::Module", "Target::Module"];

/// The Rust files beneath a folder that are no tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if name == "tests" {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Number of questions in a source, without its comments and its tests.
fn questions(source: &str) -> usize {
    let own = source.split("mod tests {").next().unwrap_or_default();
    let code = own
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""));
    code.map(|line| {
        let kinds: usize = KINDS.iter().map(|kind| line.matches(kind).count()).sum();
        kinds + fields(line)
    })
    .sum()
}

/// How often a line reads a field `module`: a call of that name, a longer name and `..module` are none.
fn fields(line: &str) -> usize {
    let found = line.match_indices(".module").filter(|(at, word)| {
        let (before, after) = (&line[..*at], &line[at + word.len()..]);
        let goes_on = |c: char| c.is_alphanumeric() || c == '_' || c == '(';
        !before.ends_with('.') && !after.starts_with(goes_on)
    });
    found.count()
}

#[test]
fn questions_are_found() {
    for (source, expected) in [
        ("if problem.module.is_some() {", 1),
        ("match &self.module {\n    Some(_) => Target::Module,", 2),
        ("Problem { id, ..module }", 0),
        ("name.module_path(); x.module(); order.modules", 0),
        ("// problem.module is asked here", 0),
        ("x;\nmod tests {\n    problem.module", 0),
    ] {
        assert_eq!(questions(source), expected, "{source}");
    }
}

#[test]
fn nothing_else_asks_for_the_target() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let crates = crates.canonicalize().unwrap();
    let mut files = Vec::new();
    for entry in fs::read_dir(&crates).unwrap() {
        let folder = entry.unwrap().path();
        // Its own crate, and the tests' helpers.
        if folder.ends_with("module") || folder.ends_with("test-support") {
            continue;
        }
        let source = folder.join("src");
        if source.is_dir() {
            sources(&source, &mut files);
        }
    }
    assert!(files.len() > 400, "only {} files", files.len());
    let name = |file: &PathBuf| {
        let below = file.strip_prefix(&crates).unwrap();
        below.to_string_lossy().into_owned()
    };
    let asking: BTreeMap<String, usize> = files
        .iter()
        .map(|file| (name(file), questions(&fs::read_to_string(file).unwrap())))
        .filter(|(_, count)| *count > 0)
        .collect();
    let known = ASKING.map(|(file, count)| (file.to_owned(), count));
    let known = BTreeMap::from(known);
    assert_eq!(asking, known);
}
