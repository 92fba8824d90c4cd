//! Keeps the batches of skipped updates next to the trained model, so that a user can inspect them.
//!
//! Each batch is a JSON file, `skipped/update-000012.json`. The file holds the update's number, the name of the value
//! that was not finite, and the examples, pairs or answers with their token ids. A number that is not finite is null.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flopsmith_actors::journal::replace;
use flopsmith_learner::{Error, SkippedUpdate};
use serde_json::{Value, json};

use flopsmith_run::console::say;

/// The folder, inside that of the model.
const FOLDER: &str = "skipped";
/// Number of batches of a training that are kept, besides the one that ends it. The first ones show the cause, and a
/// training may skip updates for days.
const KEPT: u32 = 32;

/// The skipped batches of one training.
pub struct Skipped {
    folder: PathBuf,
    kept: u32,
}

impl Skipped {
    /// The skipped batches of the training whose model is written to `output`. Batches of an earlier training are
    /// removed, unless that training is `resumed`.
    pub fn of(output: &Path, resumed: bool) -> Result<Self> {
        let folder = output.join(FOLDER);
        let mut kept = 0;
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            if !(name.starts_with("update-") && name.ends_with(".json")) {
                continue;
            }
            if resumed {
                kept += 1;
            } else {
                fs::remove_file(&path)
                    .with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
        Ok(Self { folder, kept })
    }

    /// Keeps the batches that were skipped in a step, and returns the step's result. `of` describes the training item
    /// at an index. If the error ends the training, it names the folder.
    ///
    /// # Errors
    /// The step's error, or an error if the folder cannot be written.
    pub fn step<T>(
        &mut self,
        step: Result<T, Error>,
        skipped: &[SkippedUpdate],
        of: impl Fn(usize) -> Value,
    ) -> Result<T> {
        let hopeless = matches!(step, Err(Error::TooManySkipped { .. }));
        for (i, update) in skipped.iter().enumerate() {
            let last = hopeless && i + 1 == skipped.len();
            if self.kept < KEPT || last {
                self.write(update, &of)?;
                self.kept += 1;
            }
        }
        match (step, hopeless) {
            (Err(error), true) => Err(anyhow::Error::from(error).context(format!(
                "the training has ended; the batches of the skipped updates are in {}",
                self.folder.display()
            ))),
            (step, _) => Ok(step?),
        }
    }

    /// Prints the folder if there are batches.
    pub fn tell(&self) {
        if self.kept > 0 {
            say(&format!(
                "the batches of skipped updates are in {}",
                self.folder.display()
            ));
        }
    }

    /// Writes a batch. The file gets its name when it is complete.
    fn write(&self, update: &SkippedUpdate, of: impl Fn(usize) -> Value) -> Result<()> {
        let batch: Vec<Value> = update.picked.iter().map(|place| of(*place)).collect();
        let file = json!({ "update": update.update, "error": update.error, "batch": batch });
        let path = self
            .folder
            .join(format!("update-{:06}.json", update.update));
        let write = || {
            fs::create_dir_all(&self.folder)?;
            replace(&path, serde_json::to_vec_pretty(&file)?)
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn update(update: u64) -> SkippedUpdate {
        SkippedUpdate {
            update,
            error: "the gradient is not finite".into(),
            picked: vec![2, 0],
        }
    }

    fn names(place: &Path) -> Vec<String> {
        let entries = fs::read_dir(place.join(FOLDER)).unwrap().flatten();
        let mut names: Vec<String> = entries
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_first_ones_and_the_last_are_kept_with_what_they_were_of() {
        let place = tempfile::tempdir().unwrap();
        let mut skipped = Skipped::of(place.path(), false).unwrap();
        let of = |i: usize| {
            let prompt = ["a", "b", "c"][i];
            json!({ "prompt": prompt, "score": f64::NAN })
        };
        skipped.step(Ok(()), &[], of).unwrap();
        assert!(!place.path().join(FOLDER).exists());
        for number in 0..40 {
            skipped.step(Ok(()), &[update(number)], of).unwrap();
        }
        assert_eq!(names(place.path()).len(), KEPT as usize);
        let ended = Error::TooManySkipped {
            in_a_row: 4,
            source: Box::new(Error::ThreadEnded),
        };
        let last = [update(40), update(41)];
        let error = skipped.step(Err::<(), _>(ended), &last, of).unwrap_err();
        let said = format!("{error:#}");
        let folder = place.path().join(FOLDER).display().to_string();
        assert!(
            said.contains(&folder) && said.contains("4 updates"),
            "{said}"
        );
        let names = names(place.path());
        assert_eq!(names.last().unwrap(), "update-000041.json");
        assert!(!names.contains(&"update-000040.json".to_owned()));
        let text = fs::read(place.path().join(FOLDER).join("update-000041.json")).unwrap();
        let file: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(file["update"], 41);
        assert_eq!(file["batch"][0]["prompt"], "c");
        assert_eq!(file["batch"][0]["score"], Value::Null);
        assert_eq!(file["batch"][1]["prompt"], "a");
        // Resuming keeps the batches; beginning anew removes them.
        assert_eq!(Skipped::of(place.path(), true).unwrap().kept, KEPT + 1);
        let fresh = Skipped::of(place.path(), false).unwrap();
        assert_eq!(fresh.kept, 0);
        assert!(fs::read_dir(&fresh.folder).unwrap().next().is_none());
    }

    #[test]
    fn other_errors_pass() {
        let place = tempfile::tempdir().unwrap();
        let mut skipped = Skipped::of(place.path(), false).unwrap();
        let error = skipped.step(Err::<(), _>(Error::ThreadEnded), &[], |_| Value::Null);
        assert!(error.unwrap_err().is::<Error>());
    }
}
