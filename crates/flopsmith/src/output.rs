//! Files and folders the user asked for: tried before the work that fills them.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::exit::usage;

/// A file that can be written. Where it was made for this and nothing comes of it, it is removed.
pub struct Output {
    path: PathBuf,
    made: bool,
}

impl Output {
    /// Tries whether the file can be written. What stands there stays until there is something better.
    pub fn claim(path: &Path) -> Result<Self> {
        let open = |new: bool| {
            OpenOptions::new()
                .append(true)
                .create(true)
                .create_new(new)
                .open(path)
        };
        // A pipe would be at its end for its reader once it was opened and closed.
        let special = path.metadata().is_ok_and(|m| !m.is_file() && !m.is_dir());
        let made = if special {
            Ok(false)
        } else {
            match open(true) {
                Ok(_) => Ok(true),
                Err(e) if e.kind() == ErrorKind::AlreadyExists => open(false).map(|_| false),
                Err(e) => Err(e),
            }
        };
        Ok(Self {
            path: path.to_owned(),
            made: made.map_err(|e| unwritable(path, e))?,
        })
    }

    /// Replaces what stands in the file.
    pub fn write(mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        std::fs::write(&self.path, bytes)
            .with_context(|| format!("cannot write {}", self.path.display()))?;
        self.made = false;
        Ok(())
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The error of a path the user named: wrong usage, unless it is only room that is missing there.
pub fn unwritable(path: &Path, error: io::Error) -> anyhow::Error {
    let what = format!("cannot write {}", path.display());
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            anyhow::Error::new(error).context(what)
        }
        _ => usage(format!("{what}: {error}")),
    }
}

/// Makes a folder if need be, and tries whether files can be put into it.
pub fn folder(path: &Path) -> Result<()> {
    // Others may try the same folder at the same time.
    let probe = path.join(format!(".flopsmith-{}", std::process::id()));
    std::fs::create_dir_all(path)
        .and_then(|()| File::create(&probe))
        .and_then(|_| std::fs::remove_file(&probe))
        .map_err(|e| unwritable(path, e))
}

impl Drop for Output {
    fn drop(&mut self) {
        // Somebody else may have filled it meanwhile.
        if self.made && self.path.metadata().is_ok_and(|m| m.len() == 0) {
            // An empty file that cannot be removed harms nobody.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_nothing_came_of_is_removed_and_an_older_one_stays() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("best.c");
        drop(Output::claim(&path).unwrap());
        assert!(!path.exists());
        Output::claim(&path).unwrap().write("first").unwrap();
        drop(Output::claim(&path).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first");
        Output::claim(&path).unwrap().write("next").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "next");
    }

    #[test]
    fn a_place_that_takes_no_file_is_refused_at_once() {
        let place = tempfile::tempdir().unwrap();
        for path in [place.path().to_owned(), place.path().join("no/such/folder")] {
            let error = Output::claim(&path).err().unwrap();
            assert!(error.is::<crate::exit::Usage>(), "{error:#}");
        }
        Output::claim(Path::new("/dev/null")).unwrap();
    }

    #[test]
    fn a_folder_is_made_and_left_empty_and_one_that_takes_no_files_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let made = place.path().join("made/of/several");
        folder(&made).unwrap();
        assert_eq!(std::fs::read_dir(&made).unwrap().count(), 0);
        let file = place.path().join("file");
        std::fs::write(&file, "").unwrap();
        // The last one is there, and not even root puts files into it.
        for path in [file.join("below"), file, "/proc/self".into()] {
            let error = folder(&path).unwrap_err();
            assert!(error.is::<crate::exit::Usage>(), "{error:#}");
            let named = path.display().to_string();
            assert!(error.to_string().contains(&named), "{error:#}");
        }
    }

    #[test]
    fn a_full_disk_is_nobodys_wrong_usage() {
        let error = |kind: ErrorKind| unwritable(Path::new("a.c"), kind.into());
        let full = error(ErrorKind::StorageFull);
        assert!(!full.is::<crate::exit::Usage>(), "{full:#}");
        assert_eq!(full.to_string(), "cannot write a.c");
        assert!(error(ErrorKind::PermissionDenied).is::<crate::exit::Usage>());
    }
}
