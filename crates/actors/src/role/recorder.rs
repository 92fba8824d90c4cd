//! Recorder: everything that happened → files of the run's folder, and the live view.
//!
//! `outcomes.jsonl` holds each outcome once, whatever was delivered how often;
//! `metrics.jsonl` one line per step. Both are rebuilt from the logs, so a
//! recorder that was killed writes on where it stopped.

use std::collections::{BTreeMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use flopsmith_protocol::{
    CandidateId, MachineFacts, Outcome, PolicyPublished, Purpose, StageChanged, TechniqueSet,
    Verdict, subjects,
};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Role;
use crate::error::Error;
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
    /// Technique sets with a verified program.
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
    /// The timing machine.
    pub const MACHINE: &str = "machine.json";
}

struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Opens a file of JSON lines for appending; a last line that was cut off is removed. Returns the lines that are there.
    fn open<T: for<'a> Deserialize<'a>>(path: PathBuf) -> Result<(Self, Vec<T>), Error> {
        let fail = |source| Error::File {
            path: path.clone(),
            source,
        };
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(fail)?;
        let mut items = Vec::new();
        let mut good = 0u64;
        let mut reader = BufReader::new(&file);
        // Bytes, not text: a line may have been cut in the middle of a character.
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line).map_err(fail)?;
            if line.last() != Some(&b'\n') {
                break;
            }
            let Ok(item) = serde_json::from_slice(&line) else {
                break;
            };
            items.push(item);
            good += read as u64;
        }
        file.set_len(good).map_err(fail)?;
        file.seek(SeekFrom::End(0)).map_err(fail)?;
        Ok((Self { file, path }, items))
    }

    fn write<T: Serialize>(&mut self, item: &T) -> Result<(), Error> {
        let mut line = serde_json::to_vec(item).map_err(|e| Error::File {
            path: self.path.clone(),
            source: e.into(),
        })?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(|source| Error::File {
            path: self.path.clone(),
            source,
        })
    }
}

#[async_trait]
impl Role for Recorder {
    async fn run(&mut self, stop: CancellationToken) -> Result<(), Error> {
        let context = Arc::clone(&self.context);
        let run = &context.run;
        let at = |name: &str| context.folder.join(name);
        let (mut outcomes_file, earlier) = Journal::open::<Outcome>(at(files::OUTCOMES))?;
        let (mut metrics_file, lines) = Journal::open::<StepLine>(at(files::METRICS))?;
        let (mut training_file, trained) = Journal::open::<PolicyPublished>(at(files::TRAINING))?;
        let (mut stages_file, stages) = Journal::open::<StageChanged>(at(files::STAGES))?;
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
        drop(earlier);
        let mut versions_written: HashSet<u64> = trained.iter().map(|p| p.version.0).collect();
        let mut changes_written: HashSet<u64> = stages.iter().map(|s| s.step).collect();
        let mut outcomes = context
            .bus
            .log::<Outcome>(&subjects::outcome(run), 0)
            .await?;
        let mut versions = context
            .bus
            .log::<PolicyPublished>(&subjects::policy(run), 0)
            .await?;
        let mut changes = context
            .bus
            .log::<StageChanged>(&subjects::stage(run), 0)
            .await?;
        let mut machines = context
            .bus
            .log::<MachineFacts>(&subjects::machine(run), 0)
            .await?;
        self.progress.send_replace(book.progress.clone());
        loop {
            tokio::select! {
                biased;
                next = outcomes.next() => {
                    let (_, outcome) = next?;
                    if written.insert(outcome.candidate.id.clone()) {
                        outcomes_file.write(&outcome)?;
                        book.note(&outcome);
                    }
                    for line in book.complete() {
                        metrics_file.write(&line)?;
                    }
                    self.progress.send_replace(book.progress.clone());
                }
                next = versions.next() => {
                    let (_, published) = next?;
                    if versions_written.insert(published.version.0) {
                        training_file.write(&published)?;
                    }
                }
                next = changes.next() => {
                    let (_, change) = next?;
                    if changes_written.insert(change.step) {
                        stages_file.write(&change)?;
                    }
                }
                next = machines.next() => {
                    let (_, facts) = next?;
                    write_atomically(&at(files::MACHINE), &facts)?;
                    book.progress.machine = Some(facts);
                    self.progress.send_replace(book.progress.clone());
                }
                // Last in order: what is in the logs is written before the recorder leaves.
                () = stop.cancelled() => break,
            }
        }
        Ok(())
    }
}

fn write_atomically<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    let fail = |source| Error::File {
        path: path.to_owned(),
        source,
    };
    let bytes = serde_json::to_vec_pretty(value).map_err(|e| fail(e.into()))?;
    let part = path.with_extension("part");
    std::fs::write(&part, bytes).map_err(fail)?;
    std::fs::rename(&part, path).map_err(fail)
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
    distinct: HashSet<flopsmith_protocol::Digest>,
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
            self.cells.insert(techniques);
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
                self.distinct
                    .insert(flopsmith_protocol::Digest::of(outcome.source.as_bytes()));
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_file_cut_anywhere_keeps_its_whole_lines(values in proptest::collection::vec(".{0,20}", 0..8), cut in 0usize..200) {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("lines.jsonl");
            let open = || Journal::open::<String>(path.clone()).expect("it opens");
            let (mut journal, _) = open();
            let mut ends = Vec::new();
            for value in &values {
                journal.write(value).expect("it is written");
                ends.push(std::fs::metadata(&path).expect("it is there").len() as usize);
            }
            let bytes = std::fs::read(&path).expect("it is there");
            let cut = cut.min(bytes.len());
            std::fs::write(&path, &bytes[..cut]).expect("it is cut");
            let whole = ends.iter().filter(|end| **end <= cut).count();
            let (mut journal, kept) = open();
            prop_assert_eq!(&kept[..], &values[..whole]);
            journal.write(&"end").expect("it is written");
            let (_, lines) = open();
            prop_assert_eq!(lines.len(), whole + 1);
            prop_assert_eq!(&lines[whole], "end");
        }
    }
}
