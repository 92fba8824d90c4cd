//! Reads a file of JSON lines a line at a time, also one that grows, so that a file of any length takes no memory.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Seek, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;

/// A file of JSON lines, and how far it has been read.
pub struct Tail {
    path: PathBuf,
    /// End of the last line that was read, bytes.
    end: u64,
    unreadable: u64,
}

impl Tail {
    /// The file at `path` from its beginning. It need not exist yet.
    pub fn of(path: PathBuf) -> Self {
        Self {
            path,
            end: 0,
            unreadable: 0,
        }
    }

    /// Number of whole lines so far that could not be read.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Passes each whole line beyond those of earlier calls to `take`. A last line that is cut off is read by a later call,
    /// once it is whole. A whole line that is no `T` is skipped and logged.
    ///
    /// # Errors
    /// If the file cannot be read, and the first error of `take`.
    pub fn each<T: DeserializeOwned>(
        &mut self,
        mut take: impl FnMut(T) -> Result<()>,
    ) -> Result<()> {
        let unreadable = || format!("cannot read {}", self.path.display());
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error).with_context(unreadable),
        };
        let mut reader = BufReader::with_capacity(1 << 16, file);
        reader
            .seek(SeekFrom::Start(self.end))
            .with_context(unreadable)?;
        let mut line = Vec::new();
        let (mut end, mut unreadable_lines) = (self.end, 0);
        let read = loop {
            line.clear();
            let read = match reader.read_until(b'\n', &mut line) {
                Ok(read) => read,
                Err(error) => break Err(error).with_context(unreadable),
            };
            if line.last() != Some(&b'\n') {
                break Ok(());
            }
            end += read as u64;
            match serde_json::from_slice(&line) {
                Ok(item) => {
                    if let Err(error) = take(item) {
                        break Err(error);
                    }
                }
                Err(error) => {
                    unreadable_lines += 1;
                    tracing::warn!(file = %self.path.display(), %error, "a line cannot be read; skipping it");
                }
            }
        };
        self.end = end;
        self.unreadable += unreadable_lines;
        read
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use super::*;

    #[test]
    fn a_line_is_read_once_and_only_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines.jsonl");
        let mut tail = Tail::of(path.clone());
        let mut next = || {
            let mut numbers = Vec::new();
            let keep = |number: u32| {
                numbers.push(number);
                Ok(())
            };
            tail.each(keep).unwrap();
            numbers
        };
        let write = |text: &str| {
            let mut options = OpenOptions::new();
            let mut file = options.append(true).create(true).open(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        assert!(next().is_empty());
        write("1\n2\n3");
        assert_eq!(next(), [1, 2]);
        write("4\nno number\n5\n");
        assert_eq!(next(), [34, 5]);
        assert!(next().is_empty());
        assert_eq!(tail.unreadable(), 1);
    }

    #[test]
    fn an_error_of_the_reader_ends_the_reading() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines.jsonl");
        std::fs::write(&path, "1\n2\n").unwrap();
        let refuse = |number: u32| -> Result<()> { anyhow::bail!("{number} is refused") };
        let error = Tail::of(path).each::<u32>(refuse).unwrap_err();
        assert_eq!(error.to_string(), "1 is refused");
    }
}
