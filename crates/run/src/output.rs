//! Output files and folders that the user named. Each is checked before the work that fills it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
pub use flopsmith_actors::journal::replace;

use crate::console::usage;

/// A file that is known to be writable. If [`Output::claim`] created the file and nothing was written to it, `drop`
/// removes the file.
pub struct Output {
    path: PathBuf,
    made: bool,
}

impl Output {
    /// Checks that the file can be opened for writing. An existing file keeps its content until [`Output::write`].
    pub fn claim(path: &Path) -> Result<Self> {
        let open = |new: bool| {
            OpenOptions::new()
                .append(true)
                .create(true)
                .create_new(new)
                .open(path)
        };
        // A pipe is not opened here: its reader would see the end of the pipe once the pipe was opened and closed.
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

    /// Like [`Output::claim`], but refuses a non-empty file that is not of the expected kind, so that a mistyped path
    /// does not overwrite a program. `kind` names the kind in the error message; `is_own` recognises the kind by the
    /// first kilobyte of the file.
    pub fn claim_of_kind(path: &Path, kind: &str, is_own: impl Fn(&[u8]) -> bool) -> Result<Self> {
        let taken = path
            .metadata()
            .is_ok_and(|m| m.is_file() && m.len() > 0 && !begins(path).is_ok_and(|b| is_own(&b)));
        if taken {
            return Err(usage(format!(
                "{} exists already and is no {kind}, so it stays as it is; name another file, or remove it",
                path.display()
            )));
        }
        Self::claim(path)
    }

    /// Replaces the content of the file.
    pub fn write(mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        std::fs::write(&self.path, bytes)
            .with_context(|| format!("cannot write {}", self.path.display()))?;
        self.made = false;
        Ok(())
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The first kilobyte of a file.
fn begins(path: &Path) -> io::Result<Vec<u8>> {
    let mut begin = Vec::new();
    File::open(path)?.take(1024).read_to_end(&mut begin)?;
    Ok(begin)
}

/// The error of a path that the user named: wrong usage, except where the disk or the quota is full.
pub fn unwritable(path: &Path, error: io::Error) -> anyhow::Error {
    let what = format!("cannot write {}", path.display());
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            anyhow::Error::new(error).context(what)
        }
        _ => usage(format!("{what}: {error}")),
    }
}

/// Makes a folder if it is missing, and checks that a file can be created in it.
pub fn folder(path: &Path) -> Result<()> {
    // Other processes may check the same folder at the same time, so the probe's name holds the process id.
    let probe = path.join(format!(".flopsmith-{}", std::process::id()));
    std::fs::create_dir_all(path)
        .and_then(|()| File::create(&probe))
        .and_then(|_| std::fs::remove_file(&probe))
        .map_err(|e| unwritable(path, e))
}

/// Locks a file until it is closed. False if another process holds the lock.
pub fn locked(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // Another process may have filled the file in the meantime.
        if self.made && self.path.metadata().is_ok_and(|m| m.len() == 0) {
            // A leftover empty file does no harm, so the error is ignored.
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
    fn a_file_of_another_kind_is_never_written_over() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.json");
        let claim = || Output::claim_of_kind(&path, "record", |begin| begin.starts_with(b"record"));
        std::fs::write(&path, "int main;").unwrap();
        let error = claim().err().unwrap();
        assert!(error.is::<crate::console::Usage>(), "{error:#}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "int main;");
        for before in ["", "record 1"] {
            std::fs::write(&path, before).unwrap();
            claim().unwrap().write("record 2").unwrap();
        }
        std::fs::remove_file(&path).unwrap();
        claim().unwrap();
    }

    #[test]
    fn a_place_that_takes_no_file_is_refused_at_once() {
        let place = tempfile::tempdir().unwrap();
        for path in [place.path().to_owned(), place.path().join("no/such/folder")] {
            let error = Output::claim(&path).err().unwrap();
            assert!(error.is::<crate::console::Usage>(), "{error:#}");
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
        // The last path exists, but not even root can create files in it.
        for path in [file.join("below"), file, "/proc/self".into()] {
            let error = folder(&path).unwrap_err();
            assert!(error.is::<crate::console::Usage>(), "{error:#}");
            let named = path.display().to_string();
            assert!(error.to_string().contains(&named), "{error:#}");
        }
    }

    #[test]
    fn a_full_disk_is_nobodys_wrong_usage() {
        let error = |kind: ErrorKind| unwritable(Path::new("a.c"), kind.into());
        let full = error(ErrorKind::StorageFull);
        assert!(!full.is::<crate::console::Usage>(), "{full:#}");
        assert_eq!(full.to_string(), "cannot write a.c");
        assert!(error(ErrorKind::PermissionDenied).is::<crate::console::Usage>());
    }
}
