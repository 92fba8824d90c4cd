//! The runs of a folder, and what their pages share.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use flopsmith_actors::role::recorder::files;
use flopsmith_config::Settings;
use flopsmith_protocol::RunId;
use flopsmith_run::folder::{Folder, read_facts};
use flopsmith_run::summary::Facts;
use serde::de::DeserializeOwned;

use crate::index::{Places, Read, answer, attempt, outcome, training};
use crate::indexer::Indexer;
use crate::refusal::Refusal;
use crate::watched::{Snapshot, Watched};

/// Time that a page waits for an index to catch up with its log.
const PATIENCE: Duration = Duration::from_millis(60);

/// Time that a page searches a log for a text.
const SEARCH: Duration = Duration::from_millis(110);

/// Bytes at the end of a smaller log of JSON lines that are read.
const TAIL: u64 = 2 << 20;

/// Logs that only grow and that live pages show beside the outcomes.
const OTHER_LOGS: [&str; 5] = [
    files::TRAINING,
    files::ATTEMPTS,
    files::MACHINES,
    files::STAGES,
    files::DEAD,
];

/// A run.
pub struct Run {
    /// Its name, which is that of its folder.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Its outcomes.
    pub outcomes: Arc<Watched>,
    /// The answers of its language model, if it has one.
    pub answers: Arc<Watched>,
    /// The steps of its learner, if it has one.
    pub training: Arc<Watched>,
    /// The attempts of its agent, if it has one.
    pub attempts: Arc<Watched>,
    brief: Mutex<Option<Brief>>,
}

/// The newest numbers of a run, for lists. They stay in memory when its index is closed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Brief {
    log_length: u64,
    /// The newest step.
    pub step: Option<u32>,
    /// Number of outcomes.
    pub outcomes: u64,
    /// Share of the judged programs that was verified and measured.
    pub correct_rate: Option<f64>,
    /// Speed of the best program, if the run has one problem.
    pub gflops: Option<f32>,
    /// Ratio of the best program to the plain reference, if the run has one problem.
    pub ratio: Option<f32>,
    /// Problems with an outcome, and those with a verified program.
    pub problems: usize,
    /// Problems with a verified program.
    pub solved: usize,
}

impl Run {
    fn new(name: &str, folder: PathBuf, cache: Option<&Path>) -> Self {
        let watched = |file: &str, index: &'static str, read: Read| {
            let places = Places::new(&folder, cache, index);
            Arc::new(Watched::new(folder.join(file), places, read))
        };
        Self {
            name: name.to_owned(),
            outcomes: watched(files::OUTCOMES, "ui-outcomes", outcome),
            answers: watched(files::ANSWERS, "ui-answers", answer),
            training: watched(files::TRAINING, "ui-training", training),
            attempts: watched(files::ATTEMPTS, "ui-attempts", attempt),
            brief: Mutex::default(),
            folder,
        }
    }

    /// Its facts; those of a run that has not begun if the file cannot be read.
    pub fn facts(&self) -> Facts {
        read_facts(&self.folder).unwrap_or_else(|error| {
            tracing::warn!(run = self.name, error = format!("{error:#}"), "no facts");
            Facts::default()
        })
    }

    /// Its settings, if they can be read.
    pub fn settings(&self) -> Option<Settings> {
        flopsmith_config::load(&self.folder.join("config.toml"), &[]).ok()
    }

    /// True if a process works on it.
    pub fn is_at_work(&self) -> bool {
        Folder::is_at_work(&self.folder)
    }

    /// Its state for people.
    pub fn state(&self, facts: &Facts) -> &'static str {
        match (facts.finished, facts.concluded) {
            (_, true) => "finished",
            _ if self.is_at_work() => "running",
            (true, false) => "its last measurements are missing",
            (false, false) => "can be resumed",
        }
    }

    /// The newest lines of one of its smaller logs, the oldest first. Lines that cannot be read are left out.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn tail<T: DeserializeOwned>(&self, file: &str) -> io::Result<Vec<T>> {
        tail(&self.folder.join(file), TAIL)
    }

    /// Numbers that change when there is something new to see.
    pub fn stamp(&self) -> [u64; 4] {
        let facts = self.folder.join("run.json").metadata();
        let changed = facts.and_then(|facts| facts.modified()).ok();
        let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let covered = self.outcomes.snapshot().view.map_or(0, |view| view.covered);
        let changed = changed.map_or(0, |time| time.as_millis() as u64);
        let others = OTHER_LOGS.iter().map(|file| {
            let found = self.folder.join(file).metadata();
            found.map_or(0, |found| found.len())
        });
        [self.outcomes.length(), changed, covered, others.sum()]
    }
}

/// The lines in the last `most` bytes of a log, the oldest first.
fn tail<T: DeserializeOwned>(path: &Path, most: u64) -> io::Result<Vec<T>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let start = file.metadata()?.len().saturating_sub(most);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    let mut lines = bytes.split(|byte| *byte == b'\n');
    if start > 0 {
        // Its beginning is not there.
        lines.next();
    }
    let items = lines.filter_map(|line| serde_json::from_slice(line).ok());
    Ok(items.collect())
}

/// The runs of a folder.
pub struct Runs {
    folder: PathBuf,
    cache: Option<PathBuf>,
    known: Mutex<BTreeMap<String, Arc<Run>>>,
    indexer: Indexer,
    patience: Duration,
    search: Duration,
}

impl Runs {
    /// The runs in `folder`. Indexes of runs whose folder cannot be written are kept below `cache`.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn new(folder: PathBuf, cache: Option<PathBuf>) -> io::Result<Self> {
        Ok(Self {
            folder,
            cache,
            known: Mutex::default(),
            indexer: Indexer::start()?,
            patience: PATIENCE,
            search: SEARCH,
        })
    }

    /// With pages that take their time: a test must not depend on the speed of its machine.
    #[cfg(test)]
    pub fn patient(self, time: Duration) -> Self {
        Self {
            patience: time,
            search: time,
            ..self
        }
    }

    /// When a search for a text that begins now has to end.
    pub fn search_ends(&self) -> Instant {
        Instant::now() + self.search
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The names of the runs, the newest first. A folder of another kind is no run.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut runs: Vec<_> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name().into_string().ok()?;
                RunId::new(name.as_str()).ok()?;
                let config = entry.path().join("config.toml").metadata().ok()?;
                Some((config.modified().ok()?, name))
            })
            .collect();
        runs.sort_unstable_by(|a, b| b.cmp(a));
        Ok(runs.into_iter().map(|(_, name)| name).collect())
    }

    /// A run by name.
    ///
    /// # Errors
    /// There is no such run. A name with a path in it is never looked up.
    pub fn get(&self, name: &str) -> Result<Arc<Run>, Refusal> {
        let none = || Refusal::not_found("there is no such run; the first page lists all runs");
        let id = RunId::new(name).map_err(|_| none())?;
        let folder = self.folder.join(id.as_str());
        if !folder.join("config.toml").is_file() {
            return Err(none());
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let run = known.entry(name.to_owned());
        let run = run.or_insert_with(|| Arc::new(Run::new(name, folder, self.cache.as_deref())));
        Ok(Arc::clone(run))
    }

    /// When the reading of logs for a page that begins now has to end, however many logs it needs.
    pub fn page_ends(&self) -> Instant {
        Instant::now() + self.patience
    }

    /// The outcomes of a run as they are now, or as far as they are read at the end.
    pub fn outcomes(&self, run: &Run, ends: Instant) -> Snapshot {
        self.read(&run.outcomes, ends)
    }

    /// One of the logs of a run as it is now, or as far as it is read at the end.
    pub fn read(&self, log: &Arc<Watched>, ends: Instant) -> Snapshot {
        self.indexer.current(log, ends)
    }

    /// The newest numbers of several runs; none for a run whose outcomes are not read yet.
    pub fn briefs(&self, runs: &[Arc<Run>]) -> Vec<Option<Brief>> {
        let ends = self.page_ends();
        let brief = |run: &Arc<Run>| self.brief(run, ends);
        runs.iter().map(brief).collect()
    }

    fn brief(&self, run: &Run, ends: Instant) -> Option<Brief> {
        let length = run.outcomes.length();
        let mut brief = run.brief.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = brief.as_ref().filter(|brief| brief.log_length == length) {
            return Some(known.clone());
        }
        let snapshot = self.outcomes(run, ends);
        if !snapshot.done {
            // Older numbers are better than none.
            return brief.clone();
        }
        let totals = &snapshot.totals;
        let only = totals.problems.values().next();
        let best = only.filter(|_| totals.problems.len() == 1);
        let best = best.and_then(|problem| problem.best());
        *brief = Some(Brief {
            log_length: snapshot.log_length,
            step: totals.last_step(),
            outcomes: totals.count,
            correct_rate: totals.correct_rate(),
            gflops: best.map(|best| best.gflops),
            ratio: best.map(|best| best.ratio),
            problems: totals.problems.len(),
            solved: totals.solved(),
        });
        brief.clone()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn names_with_paths_in_them_are_never_looked_up() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("runs");
        std::fs::create_dir_all(folder.join("good")).unwrap();
        for config in ["config.toml", "runs/config.toml", "runs/good/config.toml"] {
            std::fs::write(place.path().join(config), "").unwrap();
        }
        let runs = Runs::new(folder.clone(), None).unwrap();
        assert!(runs.get("good").is_ok());
        let whole = folder.join("good");
        let tricks = [
            "",
            ".",
            "..",
            "../runs",
            "good/../good",
            "/",
            "good/",
            "a\0",
            "%2e%2e",
        ];
        for name in tricks.into_iter().chain(whole.to_str()) {
            let refusal = runs.get(name).err().unwrap();
            assert_eq!(refusal.status, hyper::StatusCode::NOT_FOUND, "{name:?}");
        }
        assert_eq!(runs.names().unwrap(), ["good"]);
    }

    #[test]
    fn a_tail_begins_with_a_whole_line() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log");
        assert!(tail::<u32>(&path, 9).unwrap().is_empty());
        std::fs::write(&path, "111\n222\nnone\n333\n44").unwrap();
        assert_eq!(tail::<u32>(&path, 100).unwrap(), [111, 222, 333, 44]);
        assert_eq!(tail::<u32>(&path, 13).unwrap(), [333, 44]);
    }
}
