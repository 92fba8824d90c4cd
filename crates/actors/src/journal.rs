//! Files that survive the process that writes them.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The contents of a file of JSON lines.
#[derive(Debug)]
pub struct Lines<T> {
    /// The lines that can be read, in order.
    pub items: Vec<T>,
    /// Number of whole lines that cannot be read.
    pub unreadable: u64,
    /// End of the last whole line, bytes. Bytes after it belong to a line that was cut off.
    pub end: u64,
}

impl<T> Default for Lines<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            unreadable: 0,
            end: 0,
        }
    }
}

impl<T: for<'a> Deserialize<'a>> Lines<T> {
    /// Reads the file at `path`. A last line that was cut off is left out: its writer was stopped, and writes it again.
    ///
    /// A whole line that is no `T` is skipped and logged. JSON cannot represent a loss that is not a number, and the
    /// lines after such a line must not be lost with it.
    pub fn read(path: &Path, file: impl Read) -> std::io::Result<Self> {
        let mut lines = Self::default();
        let mut reader = BufReader::new(file);
        // Bytes, not text: a line may have been cut in the middle of a character.
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line)?;
            if line.last() != Some(&b'\n') {
                return Ok(lines);
            }
            lines.end += read as u64;
            match serde_json::from_slice(&line) {
                Ok(item) => lines.items.push(item),
                Err(error) => {
                    lines.unreadable += 1;
                    tracing::warn!(file = %path.display(), %error, "a line cannot be read; skipping it");
                }
            }
        }
    }
}

/// A file of JSON lines to which lines are appended.
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Opens a file of JSON lines for appending; a last line that was cut off is removed. Returns the lines that are
    /// there. Whole lines that cannot be read stay in the file.
    pub fn open<T: for<'a> Deserialize<'a>>(path: PathBuf) -> Result<(Self, Vec<T>), Error> {
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
        let lines = Lines::<T>::read(&path, &file).map_err(fail)?;
        file.set_len(lines.end).map_err(fail)?;
        file.seek(SeekFrom::End(0)).map_err(fail)?;
        Ok((Self { file, path }, lines.items))
    }

    /// Appends a line.
    pub fn write<T: Serialize>(&mut self, item: &T) -> Result<(), Error> {
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

    /// Length of the file, bytes.
    pub fn length(&self) -> Result<u64, Error> {
        let facts = self.file.metadata().map_err(|source| Error::File {
            path: self.path.clone(),
            source,
        })?;
        Ok(facts.len())
    }

    /// Removes the oldest lines, so that at most `most` bytes are left. If this process ends meanwhile, the file has all its
    /// lines, or the newest.
    pub fn shorten(&mut self, most: u64) -> Result<(), Error> {
        self.file = newest(&self.path, most).map_err(|source| Error::File {
            path: self.path.clone(),
            source,
        })?;
        Ok(())
    }
}

/// Replaces a file of lines by its last lines of at most `most` bytes, and opens it behind them.
fn newest(path: &Path, most: u64) -> std::io::Result<File> {
    let mut old = BufReader::new(File::open(path)?);
    let length = old.get_ref().metadata()?.len();
    if length > most {
        old.seek(SeekFrom::Start(length - most))?;
        // Its beginning is not there.
        old.skip_until(b'\n')?;
    }
    let part = part(path);
    let mut options = OpenOptions::new();
    let options = options.create(true).truncate(true);
    let mut new = options.read(true).write(true).open(&part)?;
    std::io::copy(&mut old, &mut new)?;
    std::fs::rename(&part, path)?;
    Ok(new)
}

/// The path under which a new content of a file is written.
fn part(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    part.into()
}

/// Writes a JSON file atomically, so that no reader sees half of it.
pub(crate) fn write_atomically<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    let fail = |source| Error::File {
        path: path.to_owned(),
        source,
    };
    let bytes = serde_json::to_vec_pretty(value).map_err(|e| fail(e.into()))?;
    replace(path, bytes).map_err(fail)
}

/// Writes a file, or replaces it: if this process ends meanwhile, the file has its old or its new content. A crash of the
/// machine may lose both.
pub fn replace(path: &Path, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
    let part = part(path);
    std::fs::write(&part, bytes)?;
    std::fs::rename(&part, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_number_that_json_does_not_have_costs_its_own_line_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lines.jsonl");
        let losses = [0.5, f64::NAN, 0.25];
        let (mut journal, _) = Journal::open::<f64>(path.clone()).expect("it opens");
        for loss in &losses {
            journal.write(loss).expect("it is written");
        }
        let (_, kept) = Journal::open::<f64>(path.clone()).expect("it opens");
        assert_eq!(kept, [0.5, 0.25]);
        let text = std::fs::read_to_string(path).expect("it is there");
        assert_eq!(text, "0.5\nnull\n0.25\n");
    }

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
            let most = cut as u64;
            let shortened = folder.path().join("shortened.jsonl");
            std::fs::write(&shortened, &bytes).expect("it is written");
            let (mut journal, _) = Journal::open::<String>(shortened.clone()).expect("it opens");
            journal.shorten(most).expect("it is shortened");
            prop_assert!(journal.length().expect("it is there") <= most);
            journal.write(&"end").expect("it is written");
            let (_, newest) = Journal::open::<String>(shortened).expect("it opens");
            let kept = newest.len() - 1;
            prop_assert_eq!(&newest[..kept], &values[values.len() - kept..]);
            prop_assert_eq!(&newest[kept], "end");
            // A line that begins at the first byte goes with the one before it.
            let starts = [0].into_iter().chain(ends.iter().copied()).take(values.len());
            let fit = starts.filter(|start| bytes.len() - *start <= cut).count();
            prop_assert!(kept + 1 >= fit);
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
