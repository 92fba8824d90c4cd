//! Checkpoints of a training, in the folder of the model that it makes.
//!
//! Each checkpoint is a folder of its own. It is written under a temporary name first, so it is complete or absent
//! whenever the process ends. A checkpoint holds the state of the training, the recipe (resuming with other settings
//! would be another training), and the digests of all files. The digests reveal a failing disk or a truncated copy; the
//! training then resumes from the checkpoint before.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flopsmith_protocol::Digest;
use serde::Serialize;
use serde::de::DeserializeOwned;

use flopsmith_run::console::usage;

/// The recipe's file in a checkpoint.
const RECIPE: &str = "recipe.toml";
/// The digests of a checkpoint's other files, by name.
const DIGESTS: &str = "digests.json";
/// A command's own part of a checkpoint, beside the state of its training.
const SESSION: &str = "session.json";
/// Number of the newest checkpoints that are kept.
const KEPT: usize = 2;
/// The part of a checkpoint's name before its number.
const PREFIX: &str = "checkpoint-";
/// The suffix of the name while the checkpoint is written.
const PART: &str = ".part";

/// A file of a checkpoint: name and content.
pub type Files = Vec<(String, Vec<u8>)>;

/// The state of a training with the part of the command that trains.
pub fn with_session(mut state: Files, session: &impl Serialize) -> Result<Files> {
    state.push((SESSION.to_owned(), serde_json::to_vec(session)?));
    Ok(state)
}

/// The part of a checkpoint that [`with_session`] added.
///
/// # Errors
/// It is missing or damaged.
pub fn read_session<T: DeserializeOwned>(files: &[(String, Vec<u8>)]) -> Result<T> {
    let found = files.iter().find(|(name, _)| name == SESSION);
    let (_, bytes) = found.context("the checkpoint has no session.json")?;
    serde_json::from_slice(bytes).context("the checkpoint's session.json is damaged")
}

/// The checkpoints of one training.
pub struct Checkpoints {
    folder: PathBuf,
    recipe: String,
}

impl Checkpoints {
    /// Opens the checkpoints in `folder`, which is made if it is missing, of a training by this recipe. With `resume`,
    /// the newest undamaged checkpoint is read; damaged ones are reported on stderr.
    ///
    /// # Errors
    /// Wrong usage if there is a checkpoint and `resume` is false, if `resume` is true and there is no undamaged
    /// checkpoint, or if the checkpoint belongs to another recipe.
    pub fn open(folder: &Path, recipe: &str, resume: bool) -> Result<(Self, Option<Files>)> {
        flopsmith_run::output::folder(folder)?;
        let own = Self {
            folder: folder.to_owned(),
            recipe: recipe.to_owned(),
        };
        let mut there = own.all()?;
        if !resume {
            return match there.pop() {
                None => Ok((own, None)),
                Some(_) => Err(usage(format!(
                    "there is an unfinished training in {}; give --resume to continue it, or remove its {PREFIX}… to start again",
                    folder.display()
                ))),
            };
        }
        if there.is_empty() {
            return Err(usage(format!(
                "there is no checkpoint in {}; leave out --resume to start a training",
                folder.display()
            )));
        }
        let mut damaged = Vec::new();
        while let Some((_, path)) = there.pop() {
            let files = match read(&path) {
                Ok(files) => files,
                Err(why) => {
                    let why = format!("{} is damaged: {why}", path.display());
                    if !there.is_empty() {
                        eprintln!("{why}; the training continues from the checkpoint before it");
                    }
                    damaged.push(why);
                    continue;
                }
            };
            let known = files.iter().find(|(name, _)| name == RECIPE);
            if known.is_none_or(|(_, text)| text != recipe.as_bytes()) {
                return Err(usage(format!(
                    "another recipe made the checkpoint {}, which contains a copy of that recipe; continue with that recipe, or start again in another folder",
                    path.display()
                )));
            }
            return Ok((own, Some(files)));
        }
        Err(usage(format!(
            "no checkpoint in {} can be resumed: {}; replace one by an undamaged copy, or remove them to start again",
            folder.display(),
            damaged.join("; ")
        )))
    }

    /// Writes a checkpoint, and removes all others except the newest one before it.
    pub fn write(&self, number: u64, files: &Files) -> Result<()> {
        let path = self.folder.join(format!("{PREFIX}{number:09}"));
        let part = self.folder.join(format!("{PREFIX}{number:09}{PART}"));
        let write = || -> std::io::Result<()> {
            if part.exists() {
                fs::remove_dir_all(&part)?;
            }
            fs::create_dir(&part)?;
            let recipe = (RECIPE.to_owned(), self.recipe.clone().into_bytes());
            let mut digests = BTreeMap::new();
            for (name, bytes) in files.iter().chain([&recipe]) {
                digests.insert(name, Digest::of(bytes));
            }
            let digests = (DIGESTS.to_owned(), serde_json::to_vec_pretty(&digests)?);
            for (name, bytes) in files.iter().chain([&recipe, &digests]) {
                let mut file = File::create(part.join(name))?;
                file.write_all(bytes)?;
                file.sync_all()?;
            }
            if path.exists() {
                fs::remove_dir_all(&path)?;
            }
            fs::rename(&part, &path)?;
            File::open(&self.folder)?.sync_all()
        };
        write().with_context(|| format!("cannot write the checkpoint {}", path.display()))?;
        let mut kept = self.all()?;
        kept.retain(|(known, _)| *known <= number);
        let kept: Vec<PathBuf> = kept.into_iter().rev().take(KEPT).map(|c| c.1).collect();
        self.clear_but(&kept)
    }

    /// Removes all checkpoints, at the end of the training.
    pub fn clear(&self) -> Result<()> {
        self.clear_but(&[])
    }

    /// Removes all checkpoints except `kept`, and incomplete ones.
    fn clear_but(&self, kept: &[PathBuf]) -> Result<()> {
        for (_, path) in self.named(true)? {
            if !kept.contains(&path) {
                fs::remove_dir_all(&path)
                    .with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
        Ok(())
    }

    /// Complete checkpoints with their numbers, the oldest first.
    fn all(&self) -> Result<Vec<(u64, PathBuf)>> {
        self.named(false)
    }

    /// The folders with a checkpoint's name, by number; with `begun` also the incomplete ones.
    fn named(&self, begun: bool) -> Result<Vec<(u64, PathBuf)>> {
        let entries = fs::read_dir(&self.folder)
            .with_context(|| format!("cannot read {}", self.folder.display()))?;
        let mut all: Vec<(u64, PathBuf)> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name();
                let rest = name.to_str()?.strip_prefix(PREFIX)?;
                let number = match rest.strip_suffix(PART) {
                    Some(rest) if begun => rest,
                    _ => rest,
                };
                Some((number.parse().ok()?, entry.path()))
            })
            .collect();
        all.sort();
        Ok(all)
    }
}

/// True if a folder holds a complete checkpoint of an unfinished training.
pub fn are_in(folder: &Path) -> bool {
    let own = Checkpoints {
        folder: folder.to_owned(),
        recipe: String::new(),
    };
    own.all().is_ok_and(|all| !all.is_empty())
}

/// The files of a checkpoint without the list of digests; an error that says how the files differ from it.
fn read(folder: &Path) -> std::result::Result<Files, String> {
    let read = || -> std::io::Result<Files> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            files.push((name, fs::read(entry.path())?));
        }
        Ok(files)
    };
    // A checkpoint that cannot be read counts as damaged.
    let mut files = read().map_err(|e| format!("it cannot be read: {e}"))?;
    verify(&mut files).map(|()| files)
}

/// Compares files with their digests, and removes the list of digests from the files.
fn verify(files: &mut Files) -> std::result::Result<(), String> {
    let place = files.iter().position(|(name, _)| name == DIGESTS);
    let place = place.ok_or_else(|| format!("{DIGESTS} is missing"))?;
    let (_, digests) = files.swap_remove(place);
    let digests: BTreeMap<String, Digest> =
        serde_json::from_slice(&digests).map_err(|e| format!("{DIGESTS} cannot be read: {e}"))?;
    for (name, digest) in &digests {
        let found = files.iter().find(|(known, _)| known == name);
        let (_, bytes) = found.ok_or_else(|| format!("{name} is missing"))?;
        if Digest::of(bytes) != *digest {
            return Err(format!(
                "{name} has changed since it was written ({} bytes with another digest)",
                bytes.len()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn files(text: &str) -> Files {
        vec![("a.json".into(), text.into())]
    }

    #[test]
    fn a_folder_with_a_complete_checkpoint_holds_an_unfinished_training() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("model");
        assert!(!are_in(&folder));
        let (checkpoints, _) = Checkpoints::open(&folder, "recipe", false).unwrap();
        fs::create_dir(folder.join("checkpoint-000000001.part")).unwrap();
        assert!(!are_in(&folder));
        let files = vec![("state".to_owned(), b"1".to_vec())];
        checkpoints.write(2, &files).unwrap();
        assert!(are_in(&folder));
        checkpoints.clear().unwrap();
        assert!(!are_in(&folder));
    }

    #[test]
    fn the_newest_is_gone_on_with_and_the_others_are_gone() {
        let place = tempfile::tempdir().unwrap();
        let (own, none) = Checkpoints::open(place.path(), "recipe", false).unwrap();
        assert!(none.is_none());
        for (number, text) in [(9, "nine"), (10, "ten"), (10, "ten again")] {
            own.write(number, &files(text)).unwrap();
        }
        // A checkpoint that is incomplete.
        fs::create_dir(place.path().join("checkpoint-000000011.part")).unwrap();
        assert_eq!(own.all().unwrap().len(), 2);
        own.write(10, &files("ten again")).unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
        let (_, found) = Checkpoints::open(place.path(), "recipe", true).unwrap();
        let found = found.unwrap();
        assert!(found.contains(&("a.json".into(), b"ten again".to_vec())));
        own.clear().unwrap();
        assert!(
            Checkpoints::open(place.path(), "recipe", false)
                .unwrap()
                .1
                .is_none()
        );
    }

    #[test]
    fn nothing_is_begun_over_or_gone_on_with_by_mistake() {
        let place = tempfile::tempdir().unwrap();
        let open = |recipe: &str, resume| Checkpoints::open(place.path(), recipe, resume);
        let refused = |recipe: &str, resume| {
            let error = open(recipe, resume).err().unwrap();
            assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
            error.to_string()
        };
        assert!(refused("recipe", true).contains("no checkpoint"));
        open("recipe", false)
            .unwrap()
            .0
            .write(1, &files("one"))
            .unwrap();
        assert!(refused("recipe", false).contains("--resume"));
        assert!(refused("another", true).contains("another recipe"));
        assert!(open("recipe", true).unwrap().1.is_some());
    }

    /// The damages are: a file cut off, a bit changed, a file lost, and the list of digests lost or cut off. The
    /// checkpoint before is taken; if that one is damaged as well, none is.
    #[test]
    fn a_damaged_checkpoint_is_told_and_the_one_before_it_is_taken() {
        let damages: [fn(&Path); 6] = [
            |at| fs::write(at.join("a.json"), "ne").unwrap(),
            |at| fs::write(at.join("a.json"), "nev").unwrap(),
            |at| fs::remove_file(at.join("a.json")).unwrap(),
            |at| fs::remove_file(at.join(DIGESTS)).unwrap(),
            |at| fs::write(at.join(DIGESTS), "{").unwrap(),
            |at| {
                let _gone_before = fs::remove_file(at.join("a.json"));
                let _there_before = fs::create_dir(at.join("a.json"));
            },
        ];
        for damage in damages {
            let place = tempfile::tempdir().unwrap();
            let (own, _) = Checkpoints::open(place.path(), "recipe", false).unwrap();
            own.write(1, &files("old")).unwrap();
            own.write(2, &files("new")).unwrap();
            let at = |number: u64| place.path().join(format!("{PREFIX}{number:09}"));
            let text = || {
                let files = Checkpoints::open(place.path(), "recipe", true)?.1.unwrap();
                let file = files.into_iter().find(|(name, _)| name == "a.json");
                anyhow::Ok(String::from_utf8(file.unwrap().1).unwrap())
            };
            assert_eq!(text().unwrap(), "new");
            damage(&at(2));
            assert_eq!(text().unwrap(), "old");
            // The training makes the checkpoint again.
            own.write(2, &files("new again")).unwrap();
            assert_eq!(text().unwrap(), "new again");
            damage(&at(2));
            damage(&at(1));
            let error = text().unwrap_err();
            assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
            let said = error.to_string();
            assert_eq!(said.matches("is damaged").count(), 2, "{said}");
        }
    }
}
