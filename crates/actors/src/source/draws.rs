//! Samples of the latest steps on disk: a generator that is started again hands over what was drawn, and pays for no sample
//! twice.

use std::collections::BTreeMap;
use std::path::PathBuf;

use flopsmith_protocol::{PolicyVersion, Task, TaskId};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::journal::{Journal, replace};

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    task: TaskId,
    sample: u32,
    step: u64,
    version: PolicyVersion,
    pub(super) tokens: Vec<u32>,
    pub(super) logprobs: Vec<f32>,
    pub(super) finished: bool,
}

impl Kept {
    /// The draw of a policy version for a sample of a task.
    pub(super) fn new(
        task: &Task,
        sample: u32,
        version: PolicyVersion,
        (tokens, logprobs, finished): (Vec<u32>, Vec<f32>, bool),
    ) -> Self {
        Self {
            task: task.id.clone(),
            sample,
            step: task.step,
            version,
            tokens,
            logprobs,
            finished,
        }
    }

    fn key(&self) -> (TaskId, u32) {
        (self.task.clone(), self.sample)
    }
}

/// The samples of the latest steps. Those of older steps are published, and are forgotten: a run draws a great many tokens.
pub(super) struct Draws {
    path: PathBuf,
    file: Journal,
    kept: BTreeMap<(TaskId, u32), Kept>,
    newest: u64,
    /// Number of steps before the newest one whose tasks may be open.
    reach: u64,
}

impl Draws {
    pub(super) fn open(path: PathBuf, reach: u64) -> Result<Self, Error> {
        let (file, lines) = Journal::open::<Kept>(path.clone())?;
        let newest = lines.iter().map(|kept| kept.step).max().unwrap_or(0);
        let kept = lines.into_iter().map(|kept| (kept.key(), kept)).collect();
        Ok(Self {
            path,
            file,
            kept,
            newest,
            reach,
        })
    }

    /// The sample, if this version drew it. A draw of another version is no sample of this one.
    pub(super) fn get(&self, task: &TaskId, sample: u32, version: PolicyVersion) -> Option<&Kept> {
        let kept = self.kept.get(&(task.clone(), sample));
        kept.filter(|kept| kept.version == version)
    }

    /// Writes a sample down, before it is handed over.
    pub(super) fn keep(&mut self, kept: Kept) -> Result<(), Error> {
        self.file.write(&kept)?;
        self.kept.insert(kept.key(), kept);
        Ok(())
    }

    /// Forgets the samples of steps that are over, now that tasks of `step` are open.
    pub(super) fn advance(&mut self, step: u64) -> Result<(), Error> {
        if step <= self.newest {
            return Ok(());
        }
        self.newest = step;
        let first = step.saturating_sub(self.reach);
        self.kept.retain(|_, kept| kept.step >= first);
        let fail = |source| Error::File {
            path: self.path.clone(),
            source,
        };
        let mut text = Vec::new();
        for kept in self.kept.values() {
            serde_json::to_writer(&mut text, kept).map_err(|e| fail(e.into()))?;
            text.push(b'\n');
        }
        replace(&self.path, text).map_err(fail)?;
        let (file, _) = Journal::open::<Kept>(self.path.clone())?;
        self.file = file;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(task: &str, step: u64, version: u64) -> Kept {
        Kept {
            task: TaskId::new(task).expect("a name"),
            sample: 1,
            step,
            version: PolicyVersion(version),
            tokens: vec![4, 5],
            logprobs: vec![-0.1, -1e-7],
            finished: true,
        }
    }

    #[test]
    fn samples_outlive_the_process_until_their_step_is_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("draws.jsonl");
        let open = || Draws::open(path.clone(), 1).expect("it opens");
        let mut draws = open();
        let [a, b, c] = [kept("a", 1, 0), kept("b", 2, 1), kept("c", 3, 2)];
        let get = |draws: &Draws, kept: &Kept| draws.get(&kept.task, 1, kept.version).cloned();
        for of in [&a, &b] {
            draws.advance(of.step).expect("it is written");
            draws.keep(of.clone()).expect("it is written");
        }
        let mut draws = open();
        assert_eq!(get(&draws, &a), Some(a.clone()));
        assert_eq!(get(&draws, &b), Some(b.clone()));
        // Another version would have drawn something else.
        assert_eq!(draws.get(&b.task, 1, PolicyVersion(2)), None);
        assert_eq!(draws.get(&b.task, 2, b.version), None);
        draws.advance(3).expect("it is written");
        draws.keep(c.clone()).expect("it is written");
        let draws = open();
        assert_eq!(get(&draws, &a), None);
        assert_eq!(get(&draws, &b), Some(b));
        assert_eq!(get(&draws, &c), Some(c));
    }
}
