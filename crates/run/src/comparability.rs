//! Keeps the comparability key of a run the same for the whole run.
//!
//! Elites, rewards and reused outcomes of all sessions are compared with each other. After an edit of the problem, with
//! another compiler or with another Flopsmith they would not be comparable, and nothing in them would show that.

use std::path::Path;

use anyhow::{Context, Result};
use flopsmith_actors::journal::replace;
pub use flopsmith_actors::outcome_cache::ComparabilityKey;
use flopsmith_actors::role::recorder::files;
use flopsmith_compile::Toolchain;
use flopsmith_problem::Problem;
use flopsmith_protocol::Digest;

use crate::console::usage;

/// The file in a run's folder.
const FILE: &str = "comparability.json";

/// Notes the comparability key of a new run, and refuses to resume a run whose key differs.
pub fn keep(folder: &Path, problem: &Problem, toolchain: &Toolchain) -> Result<()> {
    hold(
        folder,
        &ComparabilityKey::of(problem, &toolchain.fingerprint),
    )
}

/// Like [`keep`], for a run whose programs workers evaluate; the workers' compilers are unknown here.
pub fn keep_for_workers(folder: &Path, problem: &Problem) -> Result<()> {
    hold(folder, &ComparabilityKey::of(problem, &workers_toolchain()))
}

/// Stands for the toolchain of a run that builds nothing itself.
pub fn workers_toolchain() -> Digest {
    Digest::of(b"the workers' own compilers")
}

/// True if a run used this definition of its problem, or if its comparability key is missing.
pub fn is_of(folder: &Path, problem: &Problem) -> bool {
    let then: Option<ComparabilityKey> = std::fs::read(folder.join(FILE))
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    then.is_none_or(|then| then.problem == problem.digest)
}

fn hold(folder: &Path, now: &ComparabilityKey) -> Result<()> {
    let path = folder.join(FILE);
    let then: ComparabilityKey = match std::fs::read(&path) {
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
    let changes: Vec<String> = changes
        .into_iter()
        .filter_map(|(changed, words)| changed.then_some(words))
        .collect();
    if changes.is_empty() {
        return Ok(());
    }
    Err(usage(format!(
        "{} cannot be resumed, because new measurements are not comparable with its earlier ones: {}; undo the change, or start a new run",
        folder.display(),
        changes.join("; ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopsmith_protocol::Digest;

    #[test]
    fn a_definition_that_was_edited_is_another_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemm");
        let mut problem = Problem::load(&root).expect("the shipped problem");
        assert!(is_of(folder.path(), &problem));
        hold(
            folder.path(),
            &ComparabilityKey::of(&problem, &Digest::of(b"gcc")),
        )
        .expect("a new run");
        assert!(is_of(folder.path(), &problem));
        problem.digest = Digest::of(b"edited");
        assert!(!is_of(folder.path(), &problem));
    }

    #[test]
    fn outcomes_without_a_key_are_not_resumed() {
        let folder = tempfile::tempdir().expect("a folder");
        let outcomes = folder.path().join(files::OUTCOMES);
        std::fs::write(outcomes, "").expect("a file");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemm");
        let problem = Problem::load(&root).expect("the shipped problem");
        let error = keep_for_workers(folder.path(), &problem).expect_err("no key");
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
        hold(folder.path(), &first).expect("a new run");
        hold(folder.path(), &first).expect("nothing changed");
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
            let error = hold(folder.path(), &other).expect_err(words);
            assert!(error.is::<crate::console::Usage>(), "{error:#}");
            assert!(error.to_string().contains(words), "{error:#}");
        }
        hold(folder.path(), &first).expect("what was refused changed nothing");
    }
}
