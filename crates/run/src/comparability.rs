//! Keeps the comparability key of a run the same for the whole run.
//!
//! Elites, rewards and reused outcomes of all sessions are compared with each other. After an edit of the problem, with
//! another compiler or with another Flopsmith they would not be comparable, and nothing in them would show that.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use flopsmith_actors::journal::replace;
pub use flopsmith_actors::outcome_cache::ComparabilityKey;
use flopsmith_actors::role::recorder::files;
use flopsmith_problem::Problem;
use flopsmith_protocol::{Digest, ProblemId};
use serde::{Deserialize, Serialize};

use crate::console::usage;

/// The file in a run's folder.
const FILE: &str = "comparability.json";

/// The key of a run, or in a run over many problems the keys by problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Keys {
    One(ComparabilityKey),
    Many {
        problems: BTreeMap<ProblemId, ComparabilityKey>,
    },
}

impl Keys {
    /// The keys of these problems, each with the fingerprint of its toolchain.
    fn of<'a>(problems: impl ExactSizeIterator<Item = (&'a Problem, &'a Digest)>) -> Self {
        let many = problems.len() > 1;
        let mut keys = problems.map(|(problem, toolchain)| {
            let key = ComparabilityKey::of(problem, toolchain);
            (problem.id.clone(), key)
        });
        match (many, keys.next()) {
            (false, Some((_, key))) => Self::One(key),
            (_, first) => Self::Many {
                problems: first.into_iter().chain(keys).collect(),
            },
        }
    }

    /// The changes from these keys to `now`, in words.
    fn changes(&self, now: &Self) -> Vec<String> {
        match (self, now) {
            (Self::One(then), Self::One(now)) => changes(then, now),
            (Self::Many { problems: then }, Self::Many { problems: now }) => {
                let both: BTreeSet<&ProblemId> = then.keys().chain(now.keys()).collect();
                let of = |id: &ProblemId| match (then.get(id), now.get(id)) {
                    (Some(then), Some(now)) => changes(then, now),
                    (Some(_), None) => vec!["the problem is missing".to_owned()],
                    _ => vec!["the problem is new".to_owned()],
                };
                let each = both.into_iter();
                each.flat_map(|id| {
                    of(id)
                        .into_iter()
                        .map(move |words| format!("{id}: {words}"))
                })
                .collect()
            }
            _ => vec!["the number of problems changed".to_owned()],
        }
    }
}

/// Notes the comparability keys of a new run, and refuses to resume a run whose keys differ. Each problem has the
/// fingerprint of a toolchain, since its flags may be its own.
pub fn keep<'a>(
    folder: &Path,
    problems: impl ExactSizeIterator<Item = (&'a Problem, &'a Digest)>,
) -> Result<()> {
    hold(folder, &Keys::of(problems))
}

/// Like [`keep`], for a run whose programs workers evaluate; the workers' compilers are unknown here.
pub fn keep_for_workers(folder: &Path, problems: &[Problem]) -> Result<()> {
    let unknown = workers_toolchain();
    hold(
        folder,
        &Keys::of(problems.iter().map(|problem| (problem, &unknown))),
    )
}

/// Stands for the toolchain of a run that builds nothing itself.
pub fn workers_toolchain() -> Digest {
    Digest::of(b"the workers' own compilers")
}

/// True if a run used this definition of its problem, or if its comparability key is missing.
pub fn is_of(folder: &Path, problem: &Problem) -> bool {
    let then: Option<Keys> = std::fs::read(folder.join(FILE))
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let then = match &then {
        Some(Keys::One(then)) => Some(then),
        Some(Keys::Many { problems }) => problems.get(&problem.id),
        None => None,
    };
    then.is_none_or(|then| then.problem == problem.digest)
}

fn hold(folder: &Path, now: &Keys) -> Result<()> {
    let path = folder.join(FILE);
    let then: Keys = match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .with_context(|| format!("{} is damaged", path.display()))?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            if folder.join(files::OUTCOMES).exists() {
                return Err(usage(format!(
                    "{} has outcomes and no {FILE}, so it is unknown whether new outcomes are comparable with them; start a new run",
                    folder.display()
                )));
            }
            return replace(&path, serde_json::to_vec_pretty(now)?)
                .with_context(|| format!("cannot write {}", path.display()));
        }
        Err(e) => return Err(e).with_context(|| format!("cannot read {}", path.display())),
    };
    let changes = then.changes(now);
    if changes.is_empty() {
        return Ok(());
    }
    Err(usage(format!(
        "{} cannot be resumed, because new measurements are not comparable with its earlier ones: {}; undo the change, or start a new run",
        folder.display(),
        changes.join("; ")
    )))
}

fn changes(then: &ComparabilityKey, now: &ComparabilityKey) -> Vec<String> {
    let changes = [
        (
            then.problem != now.problem,
            "the problem was edited".to_owned(),
        ),
        (
            then.toolchain != now.toolchain,
            "the compiler, its flags or the processor changed".to_owned(),
        ),
        (
            then.harness != now.harness,
            format!(
                "the run was measured with harness {}, this one is {}",
                then.harness, now.harness
            ),
        ),
        (
            then.version != now.version,
            format!(
                "the run was measured by Flopsmith {}, this one is {}",
                then.version, now.version
            ),
        ),
    ];
    let changed = changes.into_iter();
    changed
        .filter_map(|(changed, words)| changed.then_some(words))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopsmith_protocol::Digest;
    use flopsmith_test_support::shipped;

    #[test]
    fn a_definition_that_was_edited_is_another_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut problem = Problem::load(&shipped::at("dgemm")).expect("the shipped problem");
        assert!(is_of(folder.path(), &problem));
        let gcc = Digest::of(b"gcc");
        let keys = Keys::of([(&problem, &gcc)].into_iter());
        hold(folder.path(), &keys).expect("a new run");
        assert!(is_of(folder.path(), &problem));
        problem.digest = Digest::of(b"edited");
        assert!(!is_of(folder.path(), &problem));
    }

    #[test]
    fn outcomes_without_a_key_are_not_resumed() {
        let folder = tempfile::tempdir().expect("a folder");
        let outcomes = folder.path().join(files::OUTCOMES);
        std::fs::write(outcomes, "").expect("a file");
        let problem = Problem::load(&shipped::at("dgemm")).expect("the shipped problem");
        let error = keep_for_workers(folder.path(), &[problem]).expect_err("no key");
        assert!(error.is::<crate::console::Usage>(), "{error:#}");
        assert!(!folder.path().join(FILE).exists());
    }

    #[test]
    fn a_run_goes_on_under_its_own_key_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = ComparabilityKey {
            problem: Digest::of(b"problem"),
            toolchain: Digest::of(b"gcc"),
            harness: "1".into(),
            version: "0.1.0".into(),
        };
        let one = |key: &ComparabilityKey| Keys::One(key.clone());
        hold(folder.path(), &one(&first)).expect("a new run");
        let written = std::fs::read(folder.path().join(FILE)).expect("a file");
        let plain = serde_json::to_vec_pretty(&first).expect("JSON");
        assert_eq!(written, plain, "the key of one problem stands for itself");
        hold(folder.path(), &one(&first)).expect("nothing changed");
        let others = [
            (
                ComparabilityKey {
                    problem: Digest::of(b"edited"),
                    ..first.clone()
                },
                "the problem was edited",
            ),
            (
                ComparabilityKey {
                    toolchain: Digest::of(b"clang"),
                    ..first.clone()
                },
                "the compiler",
            ),
            (
                ComparabilityKey {
                    harness: "2".into(),
                    ..first.clone()
                },
                "harness 1, this one is 2",
            ),
            (
                ComparabilityKey {
                    version: "0.2.0".into(),
                    ..first.clone()
                },
                "Flopsmith 0.1.0, this one is 0.2.0",
            ),
        ];
        for (other, words) in others {
            let error = hold(folder.path(), &one(&other)).expect_err(words);
            assert!(error.is::<crate::console::Usage>(), "{error:#}");
            assert!(error.to_string().contains(words), "{error:#}");
        }
        hold(folder.path(), &one(&first)).expect("what was refused changed nothing");
    }

    #[test]
    fn a_run_over_many_problems_names_the_one_that_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        let problems = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
        let load = |name: &str| Problem::load(&problems.join(name)).expect("a shipped problem");
        let (dgemm, mut dot) = (load("dgemm"), load("dot"));
        let gcc = Digest::of(b"gcc");
        let keys = |of: &[&Problem]| Keys::of(of.iter().copied().map(|p| (p, &gcc)));
        hold(folder.path(), &keys(&[&dgemm, &dot])).expect("a new run");
        hold(folder.path(), &keys(&[&dot, &dgemm])).expect("the order does not matter");
        assert!(is_of(folder.path(), &dot));
        let refused = |now: &Keys| {
            let error = hold(folder.path(), now).expect_err("it changed");
            assert!(error.is::<crate::console::Usage>(), "{error:#}");
            error.to_string()
        };
        let alone = refused(&keys(&[&dgemm]));
        assert!(alone.contains("the number of problems changed"), "{alone}");
        let lu = load("lu");
        let other = refused(&keys(&[&dgemm, &lu]));
        assert!(
            other.contains("dot: the problem is missing; lu: the problem is new"),
            "{other}"
        );
        dot.digest = Digest::of(b"edited");
        let edited = refused(&keys(&[&dgemm, &dot]));
        assert!(edited.contains("dot: the problem was edited"), "{edited}");
        assert!(!is_of(folder.path(), &dot));
    }
}
