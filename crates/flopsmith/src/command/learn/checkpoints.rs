//! Checkpoints of a training in the folder of the model it makes.
//!
//! Each is a folder of its own, which is written under another name first: it is whole or not there, whenever the process ends.
//! Beside the state of the training lies the recipe, since going on with other settings would be another training.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::exit::usage;

/// The recipe's file in a checkpoint.
const RECIPE: &str = "recipe.toml";
/// A checkpoint's name, before its number.
const PREFIX: &str = "checkpoint-";
/// What stands behind it while it is written.
const PART: &str = ".part";

/// A file of a checkpoint: name and content.
pub type Files = Vec<(String, Vec<u8>)>;

/// Where checkpoints lie.
pub struct Checkpoints {
    folder: PathBuf,
    recipe: String,
}

impl Checkpoints {
    /// The checkpoints in `folder`, which is made if need be, of a training by this recipe. With `resume` the newest one is read.
    ///
    /// # Errors
    /// Wrong usage where there is one and nobody wants to go on with it, or none and somebody does, or it is of another recipe.
    pub fn open(folder: &Path, recipe: &str, resume: bool) -> Result<(Self, Option<Files>)> {
        crate::output::folder(folder)?;
        let own = Self {
            folder: folder.to_owned(),
            recipe: recipe.to_owned(),
        };
        let newest = own.all()?.pop();
        match (newest, resume) {
            (None, false) => Ok((own, None)),
            (None, true) => Err(usage(format!(
                "there is no checkpoint in {}: leave out --resume to begin",
                folder.display()
            ))),
            (Some(_), false) => Err(usage(format!(
                "there is an unfinished training in {}: --resume goes on with it; remove its {PREFIX}… to begin anew",
                folder.display()
            ))),
            (Some((_, path)), true) => {
                let files = read(&path)?;
                let known = files.iter().find(|(name, _)| name == RECIPE);
                if known.is_none_or(|(_, text)| text != recipe.as_bytes()) {
                    return Err(usage(format!(
                        "the checkpoint {} was made by another recipe, which lies in it: go on with that one, or begin anew in another folder",
                        path.display()
                    )));
                }
                Ok((own, Some(files)))
            }
        }
    }

    /// Writes a checkpoint and removes those before it.
    pub fn write(&self, number: u64, files: &Files) -> Result<()> {
        let path = self.folder.join(format!("{PREFIX}{number:09}"));
        let part = self.folder.join(format!("{PREFIX}{number:09}{PART}"));
        let write = || -> std::io::Result<()> {
            if part.exists() {
                fs::remove_dir_all(&part)?;
            }
            fs::create_dir(&part)?;
            let recipe = (RECIPE.to_owned(), self.recipe.clone().into_bytes());
            for (name, bytes) in files.iter().chain([&recipe]) {
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
        self.clear_but(Some(&path))
    }

    /// Removes all checkpoints: the training is over.
    pub fn clear(&self) -> Result<()> {
        self.clear_but(None)
    }

    /// Removes all others, and what was begun and never finished.
    fn clear_but(&self, kept: Option<&Path>) -> Result<()> {
        for (_, path) in self.named(true)? {
            if kept != Some(&path) {
                fs::remove_dir_all(&path)
                    .with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
        Ok(())
    }

    /// Whole checkpoints with their numbers, oldest first.
    fn all(&self) -> Result<Vec<(u64, PathBuf)>> {
        self.named(false)
    }

    /// What lies there under a checkpoint's name, by number; `begun` says whether with those that were never finished.
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

fn read(folder: &Path) -> Result<Files> {
    let read = || -> std::io::Result<Files> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            files.push((name, fs::read(entry.path())?));
        }
        Ok(files)
    };
    read().with_context(|| format!("cannot read the checkpoint {}", folder.display()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn files(text: &str) -> Files {
        vec![("a.json".into(), text.into())]
    }

    #[test]
    fn the_newest_is_gone_on_with_and_the_others_are_gone() {
        let place = tempfile::tempdir().unwrap();
        let (own, none) = Checkpoints::open(place.path(), "recipe", false).unwrap();
        assert!(none.is_none());
        for (number, text) in [(9, "nine"), (10, "ten"), (10, "ten again")] {
            own.write(number, &files(text)).unwrap();
        }
        // One that was never finished.
        fs::create_dir(place.path().join("checkpoint-000000011.part")).unwrap();
        assert_eq!(own.all().unwrap().len(), 1);
        own.write(10, &files("ten again")).unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
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
            assert!(error.is::<crate::exit::Usage>(), "{error:#}");
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
}
