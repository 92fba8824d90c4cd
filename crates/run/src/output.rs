//! Files and folders the user asked for: tried before the work that fills them.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::console::usage;

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

    /// The same for a file that takes the place of nothing but an earlier one of its kind: a slip of the pen shall not cost a
    /// program. `kind` says what the file is for people, `is_own` tells one by its beginning.
    pub fn claim_of_kind(path: &Path, kind: &str, is_own: impl Fn(&[u8]) -> bool) -> Result<Self> {
        let taken = path
            .metadata()
            .is_ok_and(|m| m.is_file() && m.len() > 0 && !begins(path).is_ok_and(|b| is_own(&b)));
        if taken {
            return Err(usage(format!(
                "{} is there already and is no {kind}: it stays as it is; name another file, or remove it",
                path.display()
            )));
        }
        Self::claim(path)
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

/// The first kilobyte of a file.
fn begins(path: &Path) -> io::Result<Vec<u8>> {
    let mut begin = Vec::new();
    File::open(path)?.take(1024).read_to_end(&mut begin)?;
    Ok(begin)
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
        // The last one is there, and not even root puts files into it.
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
