//! Recorder: everything that happened → files of the run's folder, and the live view.
//!
//! `outcomes.jsonl` holds each outcome once, whatever was delivered how often;
//! `metrics.jsonl` one line per step. Both are rebuilt from the logs, so a
//! recorder that was killed writes on where it stopped. It leaves after all
//! other roles, and before it does everything that is in the logs is in the files.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use flopsmith_bus::LogReader;
use flopsmith_protocol::{
    CandidateId, Digest, MachineFacts, NodeId, Outcome, PolicyPublished, Purpose, StageChanged,
    TechniqueSet, Verdict, subjects,
};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Role;
use crate::error::Error;
use crate::journal::{Journal, write_atomically};
use crate::node::Context;

/// What the live view shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    /// The newest step with an outcome.
    pub step: u64,
    /// Its purpose.
    pub purpose: Option<Purpose>,
    /// Its stage.
    pub stage: u32,
    /// Permission sets seen in it.
    pub permitted: Vec<TechniqueSet>,
    /// Outcomes of it so far, and how many there will be.
    pub outcomes: (u32, u32),
    /// The last complete step.
    pub last: Option<StepLine>,
    /// Best verified speed so far and its techniques.
    pub best: Option<(f64, TechniqueSet)>,
    /// Technique sets with a verified program whose measurement was repeated.
    pub cells: usize,
    /// Outcomes in all.
    pub total: u64,
    /// Infrastructure failures in all.
    pub infrastructure: u64,
    /// The machine, once a timer has said what it is.
    pub machine: Option<MachineFacts>,
}

/// One line of `metrics.jsonl`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepLine {
    /// The step.
    pub step: u64,
    /// What it was for.
    pub purpose: Option<Purpose>,
    /// The highest stage of its tasks.
    pub stage: u32,
    /// Milliseconds since 1970 of its last outcome.
    pub ended_unix_ms: u64,
    /// Outcomes that count.
    pub samples: u32,
    /// Share of them that was verified and measured.
    pub correct_rate: f64,
    /// Share of them that built.
    pub build_rate: f64,
    /// Mean GFLOPS of all, failures counting 0.
    pub mean_gflops: f64,
    /// Best of the step.
    pub best_gflops: f64,
    /// Distinct correct programs.
    pub distinct_correct: u32,
    /// Outcomes by kind.
    pub outcomes: BTreeMap<String, u64>,
}

/// Writes the run's files.
pub struct Recorder {
    context: Arc<Context>,
    progress: watch::Sender<Progress>,
}

impl Recorder {
    /// A recorder of the context's run.
    pub fn new(context: Arc<Context>, progress: watch::Sender<Progress>) -> Self {
        Self { context, progress }
    }
}

/// Names of the files of a run.
pub mod files {
    /// Every outcome, one JSON object a line.
    pub const OUTCOMES: &str = "outcomes.jsonl";
    /// Every step, one JSON object a line.
    pub const METRICS: &str = "metrics.jsonl";
    /// What the learner said of each step.
    pub const TRAINING: &str = "training.jsonl";
    /// Stage changes.
    pub const STAGES: &str = "stages.jsonl";
    /// The timing machine as it was attested last.
    pub const MACHINE: &str = "machine.json";
    /// Every attestation of a timing machine, one JSON object a line: measurements name theirs by its digest.
    pub const MACHINES: &str = "machines.jsonl";
}

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
struct Files {
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
    fn open(folder: &Path) -> Result<Self, Error> {
        let at = |name: &str| folder.join(name);
        let (outcomes, earlier) = Journal::open::<Outcome>(at(files::OUTCOMES))?;
        let (metrics, lines) = Journal::open::<StepLine>(at(files::METRICS))?;
        let (training, trained) = Journal::open::<PolicyPublished>(at(files::TRAINING))?;
        let (stages, changes) = Journal::open::<StageChanged>(at(files::STAGES))?;
        let mut written: HashSet<CandidateId> = HashSet::new();
        let mut book = Book {
            lines_written: lines.iter().map(|l| l.step).collect(),
            ..Book::default()
        };
        for outcome in &earlier {
            if written.insert(outcome.candidate.id.clone()) {
                book.note(outcome);
            }
        }
        if let Some(last) = lines.last() {
            book.progress.last = Some(last.clone());
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

    fn outcome(&mut self, outcome: &Outcome) -> Result<(), Error> {
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

    fn version(&mut self, published: &PolicyPublished) -> Result<(), Error> {
        if self.versions.insert(published.version.0) {
            self.training.write(published)?;
        }
        Ok(())
    }

    fn change(&mut self, change: &StageChanged) -> Result<(), Error> {
        if self.changes.insert(change.step) {
            self.stages.write(change)?;
        }
        Ok(())
    }

    fn machine(&mut self, facts: MachineFacts) -> Result<(), Error> {
        self.machines.note(&facts)?;
        self.book.progress.machine = Some(facts);
        Ok(())
    }
}

/// Where each log goes on behind what was read of it.
#[derive(Default)]
struct Places {
    outcomes: u64,
    versions: u64,
    changes: u64,
    machines: u64,
}

/// The logs a recorder writes down.
struct Logs {
    outcomes: LogReader<Outcome>,
    versions: LogReader<PolicyPublished>,
    changes: LogReader<StageChanged>,
    machines: LogReader<MachineFacts>,
}

impl Logs {
    async fn open(context: &Context, from: &Places) -> Result<Self, Error> {
        let (bus, run) = (&context.bus, &context.run);
        Ok(Self {
            outcomes: bus.log(&subjects::outcome(run), from.outcomes).await?,
            versions: bus.log(&subjects::policy(run), from.versions).await?,
            changes: bus.log(&subjects::stage(run), from.changes).await?,
            machines: bus.log(&subjects::machine(run), from.machines).await?,
        })
    }

    /// Writes down everything that was there when the logs were opened.
    async fn replay(&mut self, files: &mut Files, places: &mut Places) -> Result<(), Error> {
        for (sequence, outcome) in self.outcomes.replay().await? {
            files.outcome(&outcome)?;
            places.outcomes = sequence + 1;
        }
        for (sequence, published) in self.versions.replay().await? {
            files.version(&published)?;
            places.versions = sequence + 1;
        }
        for (sequence, change) in self.changes.replay().await? {
            files.change(&change)?;
            places.changes = sequence + 1;
        }
        for (sequence, facts) in self.machines.replay().await? {
            files.machine(facts)?;
            places.machines = sequence + 1;
        }
        Ok(())
    }
}

#[async_trait]
impl Role for Recorder {
    async fn run(&mut self, stop: CancellationToken) -> Result<(), Error> {
        let context = Arc::clone(&self.context);
        let mut files = Files::open(&context.folder)?;
        let mut places = Places::default();
        let mut logs = Logs::open(&context, &places).await?;
        logs.replay(&mut files, &mut places).await?;
        self.progress.send_replace(files.book.progress.clone());
        loop {
            tokio::select! {
                biased;
                next = logs.outcomes.next() => {
                    let (sequence, outcome) = next?;
                    files.outcome(&outcome)?;
                    places.outcomes = sequence + 1;
                    self.progress.send_replace(files.book.progress.clone());
                }
                next = logs.versions.next() => {
                    let (sequence, published) = next?;
                    files.version(&published)?;
                    places.versions = sequence + 1;
                }
                next = logs.changes.next() => {
                    let (sequence, change) = next?;
                    files.change(&change)?;
                    places.changes = sequence + 1;
                }
                next = logs.machines.next() => {
                    let (sequence, facts) = next?;
                    files.machine(facts)?;
                    places.machines = sequence + 1;
                    self.progress.send_replace(files.book.progress.clone());
                }
                () = stop.cancelled() => break,
            }
        }
        // Nobody else is left. What they published in the end is in the logs, whether or not it was sent here yet, and
        // only logs that are opened now know of it.
        let mut rest = Logs::open(&context, &places).await?;
        rest.replay(&mut files, &mut places).await?;
        self.progress.send_replace(files.book.progress.clone());
        Ok(())
    }

    fn leaves_last(&self) -> bool {
        true
    }
}

/// Sums up steps. Pure.
#[derive(Default)]
struct Book {
    steps: BTreeMap<u64, Sum>,
    lines_written: HashSet<u64>,
    cells: HashSet<TechniqueSet>,
    progress: Progress,
}

#[derive(Default)]
struct Sum {
    line: StepLine,
    expected: u32,
    arrived: u32,
    correct: u32,
    built: u32,
    gflops: f64,
    distinct: HashSet<Digest>,
    permitted: std::collections::BTreeSet<TechniqueSet>,
}

impl Book {
    fn note(&mut self, outcome: &Outcome) {
        let progress = &mut self.progress;
        progress.total += 1;
        if !outcome.verdict.counts() {
            progress.infrastructure += 1;
        }
        if let (Some(m), Some(techniques)) = (outcome.verdict.measurement(), outcome.techniques) {
            if progress.best.is_none_or(|(best, _)| best < m.gflops) {
                progress.best = Some((m.gflops, techniques));
            }
            if outcome.candidate.purpose == Purpose::Certify && !m.reused {
                self.cells.insert(techniques);
            }
            progress.cells = self.cells.len();
        }
        let candidate = &outcome.candidate;
        if candidate.purpose == Purpose::Certify {
            return;
        }
        let sum = self.steps.entry(candidate.step).or_default();
        sum.add(outcome);
        if candidate.step >= progress.step {
            progress.step = candidate.step;
            progress.purpose = Some(candidate.purpose);
            progress.stage = sum.line.stage;
            progress.permitted = sum.permitted.iter().copied().collect();
            progress.outcomes = (sum.arrived, sum.expected);
        }
    }

    /// Lines of steps that have become complete.
    fn complete(&mut self) -> Vec<StepLine> {
        let done: Vec<u64> = self
            .steps
            .iter()
            .filter(|(_, s)| s.arrived >= s.expected)
            .map(|(step, _)| *step)
            .collect();
        let mut lines = Vec::new();
        for step in done {
            let Some(sum) = self.steps.remove(&step) else {
                continue;
            };
            let line = sum.line();
            if self.lines_written.insert(step) {
                self.progress.last = Some(line.clone());
                lines.push(line);
            }
        }
        lines
    }
}

impl Sum {
    fn add(&mut self, outcome: &Outcome) {
        let candidate = &outcome.candidate;
        self.expected = candidate.tasks_in_step * candidate.group_size;
        self.arrived += 1;
        self.line.step = candidate.step;
        self.line.purpose = Some(candidate.purpose);
        self.line.stage = self.line.stage.max(candidate.stage);
        self.line.ended_unix_ms = self.line.ended_unix_ms.max(outcome.decided_unix_ms);
        *self
            .line
            .outcomes
            .entry(outcome.verdict.kind().to_owned())
            .or_default() += 1;
        self.permitted.insert(candidate.permitted);
        match &outcome.verdict {
            Verdict::Measured { measurement } => {
                self.line.samples += 1;
                self.correct += 1;
                self.built += 1;
                self.gflops += measurement.gflops;
                self.line.best_gflops = self.line.best_gflops.max(measurement.gflops);
                self.distinct.insert(Digest::of(outcome.source.as_bytes()));
            }
            Verdict::Rejected { fault, .. } => {
                self.line.samples += 1;
                self.built += u32::from(fault.built());
            }
            Verdict::Infrastructure { .. } | Verdict::Unknown { .. } => {}
        }
    }

    fn line(&self) -> StepLine {
        let n = f64::from(self.line.samples.max(1));
        StepLine {
            correct_rate: f64::from(self.correct) / n,
            build_rate: f64::from(self.built) / n,
            mean_gflops: self.gflops / n,
            distinct_correct: u32::try_from(self.distinct.len()).unwrap_or(u32::MAX),
            ..self.line.clone()
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use flopsmith_protocol::{CandidateRef, Technique};
    use flopsmith_test_support::{Measured, candidate, machine, remeasured};

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

    fn measured(candidate: CandidateRef, techniques: TechniqueSet) -> Outcome {
        Outcome {
            techniques: Some(techniques),
            ..Measured::at(10.0).outcome(candidate)
        }
    }

    #[test]
    fn a_technique_set_counts_once_a_measurement_of_it_was_repeated() {
        let simd = TechniqueSet::EMPTY.with(Technique::Simd);
        let first = candidate(1, 0, 0);
        let again = remeasured(&first, 1);
        let mut book = Book::default();
        book.note(&measured(first, simd));
        book.note(&measured(candidate(1, 0, 1), TechniqueSet::EMPTY));
        assert_eq!(book.progress.cells, 0);
        book.note(&measured(again, simd));
        assert_eq!(book.progress.cells, 1);
    }
}
