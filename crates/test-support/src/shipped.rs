//! The shipped problems, suites included, and the problems that a costly test tries.
//!
//! Tests that only read definitions take [`problems`]. Tests that build, verify or time programs take [`tried`] or
//! [`share`]: problems in suites, whose number would otherwise decide how long all tests take, are left to the checks
//! that try all cases, but for those of [`share_in_suites`].

use std::path::{Path, PathBuf};

use crate::sample::Part;

/// The variable that names the problems of costly tests instead of the commit: problems and suites, between commas.
pub const SHIPPED: &str = "FLOPSMITH_SHIPPED";

/// Number of shipped problems: a test of fewer ones would leave some out.
const AT_LEAST: usize = 53;
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems")
}

/// The folder of a shipped problem by its place among all of them, such as `modules/softmax`.
pub fn at(place: impl AsRef<Path>) -> PathBuf {
    root().join(place)
}

fn is_problem(folder: &Path) -> bool {
    folder.join("problem.toml").is_file()
}

/// The folders in a folder, by name.
fn folders(within: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(within).expect("the folder of problems can be read");
    let paths = entries.map(|entry| entry.expect("the folder can be listed").path());
    let mut folders: Vec<PathBuf> = paths.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// The folders of all shipped problems by name: first those outside suites, then those of each suite.
pub fn problems() -> Vec<PathBuf> {
    let (mut found, suites): (Vec<PathBuf>, Vec<PathBuf>) = folders(&root())
        .into_iter()
        .partition(|folder| is_problem(folder));
    // Modules are another target, with tests of their own.
    for suite in suites.iter().filter(|s| !s.ends_with("modules")) {
        found.extend(folders(suite).into_iter().filter(|f| is_problem(f)));
    }
    assert!(found.len() >= AT_LEAST, "only {} problems", found.len());
    found
}

/// The folder of one shipped problem, which may belong to a suite.
#[expect(clippy::panic, reason = "only tests call this")]
pub fn problem(name: &str) -> PathBuf {
    let found = problems().into_iter().find(|f| self::name(f) == name);
    found.unwrap_or_else(|| panic!("no problem `{name}` is shipped"))
}

/// The name of the problem in a folder.
pub fn name(folder: &Path) -> &str {
    let name = folder.file_name().and_then(|name| name.to_str());
    name.expect("a problem has a name")
}

/// The folders of the problems that a costly test tries for this commit: one in `parts` of those outside suites. If
/// [`SAMPLE`](crate::sample::SAMPLE) is `all`, they are all problems; [`SHIPPED`] names other ones.
pub fn tried(parts: usize) -> Vec<PathBuf> {
    share(problems(), |folder| name(folder), parts)
}

/// The same for cases that belong to problems: `of` returns the name of a case's problem.
pub fn share<T>(
    cases: impl IntoIterator<Item = T>,
    of: impl Fn(&T) -> &str,
    parts: usize,
) -> Vec<T> {
    let cases = cases.into_iter();
    match named() {
        Some(names) => cases.filter(|case| is_among(&names, of(case))).collect(),
        // A part of one is always the whole, so that of two tells whether all cases are asked for.
        None => divided(
            cases,
            of,
            Part::of_commit(parts),
            Part::of_commit(2).is_all(),
        ),
    }
}

/// The cases of problems in suites that a costly test tries for this commit besides its [`share`]: one in `parts`. None if
/// that share has them all, or if [`SHIPPED`] names its problems.
pub fn share_in_suites<T>(
    cases: impl IntoIterator<Item = T>,
    of: impl Fn(&T) -> &str,
    parts: usize,
) -> Vec<T> {
    let part = Part::of_commit(parts);
    if named().is_some() || part.is_all() {
        return Vec::new();
    }
    in_suites(cases, of, part)
}

fn in_suites<T>(cases: impl IntoIterator<Item = T>, of: impl Fn(&T) -> &str, part: Part) -> Vec<T> {
    let cases = cases.into_iter();
    part.of(cases.filter(|case| !is_outside_suites(of(case))))
        .collect()
}

fn is_outside_suites(problem: &str) -> bool {
    is_problem(&root().join(problem))
}

/// A part of the cases outside suites, then, if asked for, all those in suites.
fn divided<T>(
    cases: impl Iterator<Item = T>,
    of: impl Fn(&T) -> &str,
    part: Part,
    with_suites: bool,
) -> Vec<T> {
    let is_outside = |case: &T| is_outside_suites(of(case));
    let (others, mut in_suites): (Vec<T>, Vec<T>) = cases.partition(is_outside);
    if !with_suites {
        in_suites.clear();
    }
    part.of(others).chain(in_suites).collect()
}

/// True if [`SHIPPED`] names this problem, or names none.
pub fn is_named(problem: &str) -> bool {
    named().is_none_or(|names| is_among(&names, problem))
}

/// The folders of the problems that [`SHIPPED`] names, if it is set.
pub fn named() -> Option<Vec<PathBuf>> {
    let names = std::env::var(SHIPPED).ok();
    let names = names.filter(|names| !names.is_empty())?;
    Some(listed(&names))
}

fn is_among(folders: &[PathBuf], problem: &str) -> bool {
    folders.iter().any(|folder| name(folder) == problem)
}

/// The folders of problems and suites, named between commas.
fn listed(names: &str) -> Vec<PathBuf> {
    let all = problems();
    let mut found = Vec::new();
    for wanted in names.split(',') {
        let is_wanted = |folder: &&PathBuf| {
            let suite = folder.parent().map(name);
            name(folder) == wanted || suite == Some(wanted)
        };
        let before = found.len();
        found.extend(all.iter().filter(is_wanted).cloned());
        assert!(
            found.len() > before,
            "{SHIPPED} names `{wanted}`, and no such problem or suite is shipped"
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn suites_have_their_problems_behind_the_others() {
        let all = problems();
        let names: BTreeSet<&str> = all.iter().map(|f| name(f)).collect();
        assert_eq!(names.len(), all.len(), "each has a name of its own");
        assert!(names.contains("dgemm") && names.contains("polybench_gemm"));
        assert!(!names.contains("polybench"));
        assert_eq!(name(&all[0]), "batched_dgemm");
        assert!(problem("polybench_lu").ends_with("polybench/polybench_lu"));
        assert!(problem("lu").ends_with("problems/lu"));
    }

    #[test]
    #[should_panic(expected = "no problem `polybench` is shipped")]
    fn a_suite_is_no_problem() {
        problem("polybench");
    }

    #[test]
    fn commits_divide_the_problems_outside_suites_and_a_whole_has_all() {
        let all: Vec<String> = problems().iter().map(|f| name(f).to_owned()).collect();
        let mut tried = BTreeSet::new();
        for number in 0..4 {
            let part = Part::named(&number.to_string(), 4);
            tried.extend(divided(all.iter(), |n| n.as_str(), part, false));
        }
        let (outside, in_suites): (BTreeSet<&String>, BTreeSet<&String>) =
            all.iter().partition(|n| is_problem(&root().join(n)));
        assert_eq!(tried, outside);
        assert!(in_suites.len() >= 30);
        let whole = Part::named("all", 4);
        let names = ["dot", "polybench_lu", "lu"].map(str::to_owned);
        let found = divided(names.iter(), |n| n.as_str(), whole, true);
        assert_eq!(found, ["dot", "lu", "polybench_lu"]);
        let found = divided(names.iter(), |n| n.as_str(), whole, false);
        assert_eq!(found, ["dot", "lu"]);
    }

    #[test]
    fn commits_divide_the_problems_in_suites_as_well() {
        let all: Vec<String> = problems().iter().map(|f| name(f).to_owned()).collect();
        let of = |number: usize| {
            let part = Part::named(&number.to_string(), 12);
            in_suites(&all, |n| n.as_str(), part)
        };
        let tried: Vec<&String> = (0..12).flat_map(of).collect();
        let mut suites: Vec<&String> = all.iter().filter(|n| !is_outside_suites(n)).collect();
        assert_eq!(tried.len(), suites.len());
        suites.retain(|n| !tried.contains(n));
        assert!(suites.is_empty(), "{suites:?}");
    }

    #[test]
    fn problems_and_suites_are_named_between_commas() {
        assert_eq!(listed("dot,polybench_lu").len(), 2);
        assert_eq!(listed("lu"), [problem("lu")]);
        assert!(listed("polybench").len() >= 30);
        assert!(is_among(&listed("polybench"), "polybench_lu"));
        assert!(!is_among(&listed("polybench"), "lu"));
    }

    #[test]
    #[should_panic(expected = "FLOPSMITH_SHIPPED names `plybench`")]
    fn a_misspelt_name_does_not_pass_for_none() {
        listed("dot,plybench");
    }
}
