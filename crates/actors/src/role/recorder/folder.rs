//! The files of a run's folder. What is written already is read when they are opened, and nothing is written twice.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use flopsmith_protocol::{
    CandidateId, Digest, MachineFacts, NodeId, Outcome, PolicyPublished, StageChanged,
};

use super::book::{Book, Progress, StepLine};
use super::files;
use crate::error::Error;
use crate::journal::{Journal, write_atomically};

/// The timing machines of a run. Each sitting measures its peak anew, so each attests another machine.
struct Machines {
    journal: Journal,
    known: HashSet<(NodeId, Digest)>,
    latest: PathBuf,
}

impl Machines {
    fn open(folder: &Path) -> Result<Self, Error> {
        let (journal, lines) = Journal::open::<MachineFacts>(folder.join(files::MACHINES))?;
        Ok(Self {
            journal,
            known: lines.into_iter().map(|m| (m.node, m.attestation)).collect(),
            latest: folder.join(files::MACHINE),
        })
    }

    /// Writes what is new; what is known already is not the latest.
    fn note(&mut self, facts: &MachineFacts) -> Result<(), Error> {
        let key = (facts.node.clone(), facts.attestation.clone());
        if self.known.contains(&key) {
            return Ok(());
        }
        // The line last: whoever is killed in between does both again.
        write_atomically(&self.latest, facts)?;
        self.journal.write(facts)?;
        self.known.insert(key);
        Ok(())
    }
}

/// Adds an attestation to the files of a run that no recorder is at work on.
pub fn note_machine(folder: &Path, facts: &MachineFacts) -> Result<(), Error> {
    Machines::open(folder)?.note(facts)
}

/// The files of a run and what they hold already.
pub(super) struct Files {
    outcomes: Journal,
    metrics: Journal,
    training: Journal,
    stages: Journal,
    machines: Machines,
    written: HashSet<CandidateId>,
    versions: HashSet<u64>,
    changes: HashSet<u64>,
    book: Book,
}

impl Files {
    pub(super) fn open(folder: &Path) -> Result<Self, Error> {
        let at = |name: &str| folder.join(name);
        let (outcomes, earlier) = Journal::open::<Outcome>(at(files::OUTCOMES))?;
        let (metrics, lines) = Journal::open::<StepLine>(at(files::METRICS))?;
        let (training, trained) = Journal::open::<PolicyPublished>(at(files::TRAINING))?;
        let (stages, changes) = Journal::open::<StageChanged>(at(files::STAGES))?;
        let mut written: HashSet<CandidateId> = HashSet::new();
        let mut book = Book::behind(&lines);
        for outcome in &earlier {
            if written.insert(outcome.candidate.id.clone()) {
                book.note(outcome);
            }
        }
        let mut files = Self {
            outcomes,
            metrics,
            training,
            stages,
            machines: Machines::open(folder)?,
            written,
            versions: trained.iter().map(|p| p.version.0).collect(),
            changes: changes.iter().map(|s| s.step).collect(),
            book,
        };
        // Whoever was killed between an outcome and the line of its step wrote the one and not the other.
        files.complete()?;
        Ok(files)
    }

    /// What the live view shows by now.
    pub(super) fn progress(&self) -> Progress {
        self.book.progress.clone()
    }

    pub(super) fn outcome(&mut self, outcome: &Outcome) -> Result<(), Error> {
        if self.written.insert(outcome.candidate.id.clone()) {
            self.outcomes.write(outcome)?;
            self.book.note(outcome);
        }
        self.complete()
    }

    fn complete(&mut self) -> Result<(), Error> {
        for line in self.book.complete() {
            self.metrics.write(&line)?;
        }
        Ok(())
    }

    pub(super) fn version(&mut self, published: &PolicyPublished) -> Result<(), Error> {
        if self.versions.insert(published.version.0) {
            self.training.write(published)?;
        }
        Ok(())
    }

    pub(super) fn change(&mut self, change: &StageChanged) -> Result<(), Error> {
        if self.changes.insert(change.step) {
            self.stages.write(change)?;
        }
        Ok(())
    }

    pub(super) fn machine(&mut self, facts: MachineFacts) -> Result<(), Error> {
        self.machines.note(&facts)?;
        self.book.progress.machine = Some(facts);
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use flopsmith_test_support::machine;

    #[test]
    fn every_attestation_of_a_run_is_kept_once_and_the_latest_apart() {
        let folder = tempfile::tempdir().unwrap();
        let latest = || -> MachineFacts {
            serde_json::from_slice(&std::fs::read(folder.path().join(files::MACHINE)).unwrap())
                .unwrap()
        };
        note_machine(folder.path(), &machine("first sitting")).unwrap();
        // The next sitting reads the log from its start.
        let mut machines = Machines::open(folder.path()).unwrap();
        machines.note(&machine("first sitting")).unwrap();
        machines.note(&machine("second sitting")).unwrap();
        assert_eq!(latest(), machine("second sitting"));
        // So does a recorder that is started anew.
        let mut machines = Machines::open(folder.path()).unwrap();
        machines.note(&machine("first sitting")).unwrap();
        assert_eq!(latest(), machine("second sitting"));
        machines.note(&machine("second sitting")).unwrap();
        let (_, lines) =
            Journal::open::<MachineFacts>(folder.path().join(files::MACHINES)).unwrap();
        assert_eq!(lines, [machine("first sitting"), machine("second sitting")]);
    }
}
