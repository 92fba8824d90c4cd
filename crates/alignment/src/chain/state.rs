//! The stages of a chain, and the file that says which of them are complete.
//!
//! The key of a stage is a digest of its settings, of its inputs, and of the keys of the stages whose results it uses. A
//! stage is complete only under its key, so a changed setting repeats its stage and all stages after it. Measured programs
//! outlive a change that only wants others: their stage has a basis too, the part of its key that decides how programs are
//! measured.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flopsmith_protocol::Digest;
use flopsmith_run::console::usage;
use flopsmith_run::output;
use serde::{Deserialize, Serialize};

/// The mark of state files.
const FORMAT: &str = "flopsmith alignment";
/// Their version.
const VERSION: u32 = 1;
/// The state file.
const STATE: &str = "state.json";
/// The programs that were measured so far, in the folder of [`Stage::Programs`].
pub const MEASURED: &str = "measured.jsonl";
/// The file that a process locks while it works on the folder.
const LOCK: &str = "lock";

/// A stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Programs are drawn and measured.
    Programs,
    /// They are split into the parts of training.
    Split,
    /// Supervised fine-tuning of the base model.
    Sft,
    /// The reward model.
    RewardModel,
    /// Direct performance alignment of the fine-tuned model.
    Dpa,
    /// Reinforcement of the fine-tuned model.
    Rlpf,
    /// The evaluation of all models.
    Evaluation,
}

impl Stage {
    /// All stages in their order.
    pub const ALL: [Stage; 7] = [
        Stage::Programs,
        Stage::Split,
        Stage::Sft,
        Stage::RewardModel,
        Stage::Dpa,
        Stage::Rlpf,
        Stage::Evaluation,
    ];

    /// Its name, which is also that of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Programs => "programs",
            Stage::Split => "split",
            Stage::Sft => "sft",
            Stage::RewardModel => "reward_model",
            Stage::Dpa => "dpa",
            Stage::Rlpf => "rlpf",
            Stage::Evaluation => "evaluation",
        }
    }

    /// The stages whose results it uses.
    pub fn uses(self) -> &'static [Stage] {
        match self {
            Stage::Programs => &[],
            Stage::Split => &[Stage::Programs],
            Stage::Sft => &[Stage::Split],
            Stage::RewardModel | Stage::Dpa => &[Stage::Split, Stage::Sft],
            Stage::Rlpf => &[Stage::Split, Stage::Sft, Stage::RewardModel],
            Stage::Evaluation => &[Stage::Sft, Stage::Dpa, Stage::Rlpf],
        }
    }

    /// True if it uses the results of `other`, or those of a stage that does.
    fn depends_on(self, other: Stage) -> bool {
        let uses = self.uses().iter();
        uses.copied()
            .any(|used| used == other || used.depends_on(other))
    }

    /// The file that a complete stage leaves last.
    fn result(self) -> &'static str {
        match self {
            Stage::Programs => "programs.jsonl",
            Stage::Split => "rl_evaluation.jsonl",
            Stage::Sft | Stage::RewardModel | Stage::Dpa | Stage::Rlpf => "training.json",
            Stage::Evaluation => "comparison.json",
        }
    }
}

/// The state of a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry {
    key: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    basis: Option<Digest>,
    complete: bool,
    seconds: f64,
    /// The exit code of a complete stage.
    code: u8,
}

/// The state file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Saved {
    format: String,
    version: u32,
    stages: BTreeMap<Stage, Entry>,
}

/// How a stage stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Standing {
    /// It is complete with the same settings and inputs.
    Complete {
        /// Its exit code.
        code: u8,
        /// Seconds that it took.
        seconds: f64,
    },
    /// It was begun with the same settings and inputs.
    Begun,
    /// It was begun with other settings or inputs, or on results that are repeated.
    Changed,
    /// It was never begun.
    Open,
}

/// The output folder of a chain.
pub struct Folder {
    path: PathBuf,
    saved: Saved,
    /// Its lock ends with this value.
    _locked: File,
}

impl Folder {
    /// Opens the folder, which is made if there is none.
    ///
    /// # Errors
    /// Wrong usage: it cannot be written, another process works on it, it has a chain and `resume` is false, or it has
    /// none and `resume` is true.
    pub fn open(path: &Path, resume: bool) -> Result<Self> {
        if resume && !path.join(STATE).is_file() {
            return Err(usage(format!(
                "there is nothing to resume in {}; leave out --resume to begin there",
                path.display()
            )));
        }
        output::folder(path)?;
        let lock = path.join(LOCK);
        let locked = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock)
            .map_err(|e| output::unwritable(&lock, e))?;
        if !output::locked(&locked).with_context(|| format!("cannot lock {}", lock.display()))? {
            return Err(usage(format!(
                "another process works in {}; wait for it, or name another folder with --output",
                path.display()
            )));
        }
        let state = path.join(STATE);
        let saved = match state.is_file() {
            false => Saved {
                format: FORMAT.to_owned(),
                version: VERSION,
                stages: BTreeMap::new(),
            },
            true if !resume => {
                return Err(usage(format!(
                    "{} has stages of an alignment already; give --resume to continue it, or name another folder with --output",
                    path.display()
                )));
            }
            true => read(&state)?,
        };
        let folder = Self {
            path: path.canonicalize().unwrap_or_else(|_| path.to_owned()),
            saved,
            _locked: locked,
        };
        folder.save()?;
        Ok(folder)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of a stage.
    pub fn of(&self, stage: Stage) -> PathBuf {
        self.path.join(stage.name())
    }

    /// How each stage stands under these keys.
    pub fn standings(&self, keys: &BTreeMap<Stage, Digest>) -> BTreeMap<Stage, Standing> {
        let mut standings = BTreeMap::new();
        for stage in Stage::ALL {
            let repeated = stage
                .uses()
                .iter()
                .any(|used| !matches!(standings.get(used), Some(Standing::Complete { .. })));
            let entry = self.saved.stages.get(&stage);
            let standing = match entry {
                None => Standing::Open,
                Some(entry) if keys.get(&stage) != Some(&entry.key) || repeated => {
                    Standing::Changed
                }
                Some(entry) => {
                    match entry.complete && self.of(stage).join(stage.result()).is_file() {
                        true => Standing::Complete {
                            code: entry.code,
                            seconds: entry.seconds,
                        },
                        false => Standing::Begun,
                    }
                }
            };
            standings.insert(stage, standing);
        }
        standings
    }

    /// Records that a stage begins or goes on. Unless the stage goes on, it removes the
    /// files of another attempt and everything that depends on them. Only [`MEASURED`] stays if the other attempt had the same `basis`.
    ///
    /// # Errors
    /// Files cannot be removed or written.
    pub fn begin(
        &mut self,
        stage: Stage,
        key: &Digest,
        basis: Option<&Digest>,
        goes_on: bool,
    ) -> Result<PathBuf> {
        let before = self.saved.stages.get(&stage);
        let before = before.and_then(|entry| entry.basis.as_ref());
        let kept = (before.is_some() && before == basis).then_some(MEASURED);
        let stale = |other: &Stage| other.depends_on(stage) || *other == stage && !goes_on;
        for other in Stage::ALL.iter().filter(|other| stale(other)) {
            self.saved.stages.remove(other);
            clear(&self.of(*other), kept.filter(|_| *other == stage))?;
        }
        let entry = Entry {
            key: key.clone(),
            basis: basis.cloned(),
            complete: false,
            seconds: self.seconds(stage),
            code: 0,
        };
        self.saved.stages.insert(stage, entry);
        self.save()?;
        let path = self.of(stage);
        output::folder(&path)?;
        Ok(path)
    }

    /// Records the seconds that a stage took in this process, and with an exit code that it is complete.
    ///
    /// # Errors
    /// The state cannot be written.
    pub fn end(&mut self, stage: Stage, seconds: f64, code: Option<u8>) -> Result<()> {
        if let Some(entry) = self.saved.stages.get_mut(&stage) {
            entry.seconds += seconds;
            entry.complete = code.is_some();
            entry.code = code.unwrap_or(0);
        }
        self.save()
    }

    /// The seconds that a stage took so far.
    fn seconds(&self, stage: Stage) -> f64 {
        let entry = self.saved.stages.get(&stage);
        entry.map_or(0.0, |entry| entry.seconds)
    }

    fn save(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.saved)? + "\n";
        replace(&self.path.join(STATE), &text)
    }
}

/// Removes a folder, or everything in it but a file.
fn clear(path: &Path, kept: Option<&str>) -> Result<()> {
    let cannot = || format!("cannot remove {}", path.display());
    if !path.exists() {
        return Ok(());
    }
    let Some(kept) = kept else {
        return std::fs::remove_dir_all(path).with_context(cannot);
    };
    for entry in std::fs::read_dir(path).with_context(cannot)? {
        let entry = entry.with_context(cannot)?;
        if entry.file_name() == kept {
            continue;
        }
        let inner = entry.path();
        let removed = match inner.is_dir() {
            true => std::fs::remove_dir_all(&inner),
            false => std::fs::remove_file(&inner),
        };
        removed.with_context(cannot)?;
    }
    Ok(())
}

/// Replaces a file, so that it is the old or the new one whenever the process ends.
///
/// # Errors
/// The file cannot be written.
pub fn replace(path: &Path, text: &str) -> Result<()> {
    output::replace(path, text).map_err(|e| output::unwritable(path, e))
}

fn read(path: &Path) -> Result<Saved> {
    let wrong = |why: String| {
        usage(format!(
            "{} cannot be read: {why}; name another folder with --output",
            path.display()
        ))
    };
    let text = std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
    let saved: Saved = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
    match saved.format == FORMAT && saved.version == VERSION {
        true => Ok(saved),
        false => Err(wrong(format!(
            "this Flopsmith reads `{FORMAT}` of version {VERSION}"
        ))),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Keys that differ from stage to stage; `changed` and what depends on it have others.
    fn keys(changed: Option<Stage>) -> BTreeMap<Stage, Digest> {
        let key = |stage: Stage| {
            let is_new = changed.is_some_and(|c| stage == c || stage.depends_on(c));
            Digest::of(format!("{stage:?} {is_new}").as_bytes())
        };
        Stage::ALL.map(|stage| (stage, key(stage))).into()
    }

    /// Completes every stage that is not complete, and returns these stages.
    fn work(folder: &mut Folder, keys: &BTreeMap<Stage, Digest>) -> Vec<Stage> {
        let standings = folder.standings(keys);
        let open = |stage: &Stage| !matches!(standings[stage], Standing::Complete { .. });
        let todo: Vec<Stage> = Stage::ALL.into_iter().filter(open).collect();
        for stage in &todo {
            let goes_on = standings[stage] == Standing::Begun;
            let path = folder.begin(*stage, &keys[stage], None, goes_on).unwrap();
            std::fs::write(path.join(stage.result()), "").unwrap();
            folder.end(*stage, 2.0, Some(0)).unwrap();
        }
        todo
    }

    #[test]
    fn a_change_repeats_its_stage_and_those_after_it() {
        let place = tempfile::tempdir().unwrap();
        let mut folder = Folder::open(place.path(), false).unwrap();
        assert_eq!(work(&mut folder, &keys(None)), Stage::ALL);
        drop(folder);
        for (changed, repeated) in [
            (Stage::Evaluation, &[Stage::Evaluation][..]),
            (Stage::Dpa, &[Stage::Dpa, Stage::Evaluation][..]),
            (Stage::Rlpf, &[Stage::Rlpf, Stage::Evaluation][..]),
            (
                Stage::RewardModel,
                &[Stage::RewardModel, Stage::Rlpf, Stage::Evaluation][..],
            ),
            (Stage::Sft, &Stage::ALL[2..]),
            (Stage::Programs, &Stage::ALL[..]),
        ] {
            let mut folder = Folder::open(place.path(), true).unwrap();
            assert_eq!(work(&mut folder, &keys(Some(changed))), repeated);
            // And back again.
            work(&mut folder, &keys(None));
            assert!(work(&mut folder, &keys(None)).is_empty());
        }
    }

    #[test]
    fn a_stage_goes_on_where_it_was_left_and_keeps_its_files() {
        let place = tempfile::tempdir().unwrap();
        let keys = keys(None);
        let mut folder = Folder::open(place.path(), false).unwrap();
        let path = folder.begin(Stage::Programs, &keys[&Stage::Programs], None, false);
        std::fs::write(path.unwrap().join("half"), "").unwrap();
        folder.end(Stage::Programs, 2.5, None).unwrap();
        drop(folder);
        let mut folder = Folder::open(place.path(), true).unwrap();
        assert_eq!(folder.standings(&keys)[&Stage::Programs], Standing::Begun);
        work(&mut folder, &keys);
        assert!(folder.of(Stage::Programs).join("half").is_file());
        let standing = folder.standings(&keys)[&Stage::Programs];
        let seconds = 4.5;
        assert_eq!(standing, Standing::Complete { code: 0, seconds });
        // A result that was removed is made again, and so is everything after it.
        std::fs::remove_file(folder.of(Stage::Sft).join("training.json")).unwrap();
        let standings = folder.standings(&keys);
        assert_eq!(standings[&Stage::Sft], Standing::Begun);
        assert_eq!(standings[&Stage::Dpa], Standing::Changed);
        folder
            .begin(Stage::Sft, &keys[&Stage::Sft], None, true)
            .unwrap();
        assert!(!folder.of(Stage::Evaluation).exists());
        assert!(folder.of(Stage::Split).exists());
    }

    #[test]
    fn measured_programs_outlive_changes_that_leave_their_basis_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        let digest = |text: &str| Digest::of(text.as_bytes());
        let begin = |key: &str, basis: &str| {
            let resume = place.path().join(STATE).is_file();
            let mut folder = Folder::open(place.path(), resume).unwrap();
            let (key, basis) = (digest(key), digest(basis));
            let path = folder.begin(Stage::Programs, &key, Some(&basis), false);
            let path = path.unwrap();
            let had = path.join(MEASURED).is_file();
            assert!(!path.join(Stage::Programs.result()).exists());
            for name in [MEASURED, Stage::Programs.result()] {
                std::fs::write(path.join(name), "").unwrap();
            }
            std::fs::create_dir(path.join("inner")).unwrap();
            folder.begin(Stage::Split, &key, None, false).unwrap();
            had
        };
        assert!(!begin("first", "one"));
        assert!(begin("second", "one"));
        assert!(!begin("third", "other"));
        assert!(begin("second", "other"));
    }

    #[test]
    fn begun_missing_and_foreign_folders_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let said = |resume| {
            let error = Folder::open(place.path(), resume).err().unwrap();
            assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
            error.to_string()
        };
        assert!(said(true).contains("nothing to resume"));
        let folder = Folder::open(place.path(), false).unwrap();
        assert!(said(true).contains("another process"));
        drop(folder);
        assert!(said(false).contains("--resume"));
        std::fs::write(place.path().join(STATE), "{\"format\": 1}").unwrap();
        assert!(said(true).contains("--output"));
    }
}
