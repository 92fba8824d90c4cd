//! The files of a run's folder. Opening them reads the lines that they hold already, so that nothing is written twice.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use flopsmith_bus::DeadLetter;
use flopsmith_protocol::{
    CandidateId, Digest, MachineFacts, NodeId, Outcome, PolicyPublished, ProblemId, RunId,
    StageChanged, subjects,
};
use serde::{Deserialize, Serialize};

use super::book::{Book, Progress, StepLine};
use super::files;
use crate::dead::Work;
use crate::error::Error;
use crate::journal::{Journal, write_atomically};

/// The timing machines of a run. Each session measures the peak anew, so each session attests another machine.
struct Machines {
    journal: Journal,
    known: HashSet<(NodeId, Digest, Option<ProblemId>)>,
    latest: PathBuf,
}

impl Machines {
    fn open(folder: &Path) -> Result<Self, Error> {
        let (journal, lines) = Journal::open::<MachineFacts>(folder.join(files::MACHINES))?;
        Ok(Self {
            journal,
            known: lines
                .into_iter()
                .map(|m| (m.node, m.attestation, m.problem))
                .collect(),
            latest: folder.join(files::MACHINE),
        })
    }

    /// Writes a new attestation; a known one does not become the latest.
    fn note(&mut self, facts: &MachineFacts) -> Result<(), Error> {
        let key = (
            facts.node.clone(),
            facts.attestation.clone(),
            facts.problem.clone(),
        );
        if self.known.contains(&key) {
            return Ok(());
        }
        // The line is written last: a process that is killed in between writes both again.
        write_atomically(&self.latest, facts)?;
        self.journal.write(facts)?;
        self.known.insert(key);
        Ok(())
    }
}

/// Adds an attestation to the files of a run while no recorder works on them.
pub fn note_machine(folder: &Path, facts: &MachineFacts) -> Result<(), Error> {
    Machines::open(folder)?.note(facts)
}

/// One line of `dead_letters.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLine {
    /// Where it stands among the dead letters of the bus.
    pub sequence: u64,
    /// The task or candidate it was about; none where it cannot be read.
    pub id: Option<String>,
    /// The queue it was in.
    pub subject: String,
    /// Why it left.
    pub reason: String,
    /// How often it had been given out.
    pub attempts: u32,
}

/// The files of a run and the ids that they hold already.
pub(super) struct Files {
    run: RunId,
    outcomes: Journal,
    metrics: Journal,
    training: Journal,
    stages: Journal,
    machines: Machines,
    dead: Journal,
    written: HashSet<CandidateId>,
    versions: HashSet<u64>,
    changes: HashSet<(ProblemId, u64)>,
    dead_lettered: HashSet<u64>,
    book: Book,
}

impl Files {
    /// `draws_again` as in [`Book::drawing_again`].
    pub(super) fn open(folder: &Path, run: RunId, draws_again: bool) -> Result<Self, Error> {
        let at = |name: &str| folder.join(name);
        let (outcomes, earlier) = Journal::open::<Outcome>(at(files::OUTCOMES))?;
        let (metrics, lines) = Journal::open::<StepLine>(at(files::METRICS))?;
        let (training, trained) = Journal::open::<PolicyPublished>(at(files::TRAINING))?;
        let (stages, changes) = Journal::open::<StageChanged>(at(files::STAGES))?;
        let (dead, dead_lettered) = Journal::open::<DeadLine>(at(files::DEAD))?;
        let mut written: HashSet<CandidateId> = HashSet::new();
        let mut book = Book::behind(&lines).drawing_again(draws_again);
        for published in trained.iter().filter(|p| p.metrics.is_some()) {
            book.trained(published.step);
        }
        for outcome in &earlier {
            if written.insert(outcome.candidate.id.clone()) {
                book.note(outcome);
            }
        }
        let mut files = Self {
            run,
            outcomes,
            metrics,
            training,
            stages,
            machines: Machines::open(folder)?,
            dead,
            written,
            versions: trained.iter().map(|p| p.version.0).collect(),
            changes: changes.into_iter().map(|s| (s.problem, s.step)).collect(),
            dead_lettered: dead_lettered.iter().map(|d| d.sequence).collect(),
            book,
        };
        // A process that was killed between an outcome and the line of its step wrote the outcome only.
        files.complete()?;
        Ok(files)
    }

    /// The current data of the live view.
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
            if published.metrics.is_some() {
                self.book.trained(published.step);
            }
        }
        self.complete()
    }

    pub(super) fn change(&mut self, change: &StageChanged) -> Result<(), Error> {
        if self.changes.insert((change.problem.clone(), change.step)) {
            self.stages.write(change)?;
        }
        Ok(())
    }

    /// Writes a dead letter of this run. Other runs of the bus have dead letters as well; the queue or log of an
    /// unreadable letter tells its run.
    pub(super) fn dead_letter(&mut self, letter: &DeadLetter) -> Result<(), Error> {
        let work = Work::of(letter);
        let foreign = match &work {
            Some(work) => *work.run() != self.run,
            None => {
                !subjects::is_work_of(&letter.subject, &self.run)
                    && letter.subject != subjects::outcome(&self.run)
            }
        };
        if foreign || !self.dead_lettered.insert(letter.sequence) {
            return Ok(());
        }
        self.dead.write(&DeadLine {
            sequence: letter.sequence,
            id: work.map(|w| w.id().to_owned()),
            subject: letter.subject.clone(),
            reason: letter.reason.clone(),
            attempts: letter.attempts,
        })
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
        note_machine(folder.path(), &machine("first session")).unwrap();
        // The next session reads the log from its start.
        let mut machines = Machines::open(folder.path()).unwrap();
        machines.note(&machine("first session")).unwrap();
        machines.note(&machine("second session")).unwrap();
        assert_eq!(latest(), machine("second session"));
        // A restarted recorder reads it from the start as well.
        let mut machines = Machines::open(folder.path()).unwrap();
        machines.note(&machine("first session")).unwrap();
        assert_eq!(latest(), machine("second session"));
        machines.note(&machine("second session")).unwrap();
        let (_, lines) =
            Journal::open::<MachineFacts>(folder.path().join(files::MACHINES)).unwrap();
        assert_eq!(lines, [machine("first session"), machine("second session")]);
    }

    #[test]
    fn a_letter_that_cannot_be_read_is_of_the_run_whose_queue_it_was_in() {
        let folder = tempfile::tempdir().unwrap();
        let run = flopsmith_test_support::run_id();
        let mut files = Files::open(folder.path(), run.clone(), false).unwrap();
        let ours = subjects::outcome(&run);
        for (sequence, subject) in [
            (1, "fs.v1.work.time.local.other"),
            (2, "fs.v1.outcome.other"),
            (3, ""),
            (4, ours.as_str()),
            (5, "fs.v1.work.time.local.r"),
        ] {
            let letter = DeadLetter {
                sequence,
                subject: subject.to_owned(),
                reason: "nobody could".to_owned(),
                attempts: 1,
                payload: Vec::new().into(),
                truncated: false,
                died_unix_ms: 0,
                id: None,
            };
            files.dead_letter(&letter).unwrap();
        }
        let (_, lines) = Journal::open::<DeadLine>(folder.path().join(files::DEAD)).unwrap();
        let noted: Vec<u64> = lines.iter().map(|line| line.sequence).collect();
        assert_eq!(noted, [4, 5]);
    }
}
