//! The metrics of a run, one JSON object a line.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Why the metrics file failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be opened, read or cut.
    #[error("the metrics file {path} cannot be opened")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A line cannot be written.
    #[error("the metrics file {path} cannot be written")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A record cannot be written as JSON.
    #[error("a record for {path} cannot be written as JSON")]
    Encode {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// A whole line is no JSON: something else wrote into the file.
    #[error("line {line} of {path} is no JSON")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
}

/// An append-only file of JSON lines that survives a killed writer.
#[derive(Debug)]
pub struct MetricsFile {
    file: File,
    path: PathBuf,
}

impl MetricsFile {
    /// Opens or creates the file for appending. A last line without its end was
    /// torn by a crash and is cut off.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let open = |source| Error::Open {
            path: path.to_owned(),
            source,
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(open)?;
        let whole = whole_lines(&mut file).map_err(open)?;
        file.set_len(whole).map_err(open)?;
        file.seek(SeekFrom::End(0)).map_err(open)?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    /// Opens the file for a resumed run: keeps only the records `keep` accepts,
    /// so that a step that is done again does not stand there twice.
    pub fn resume(
        path: &Path,
        mut keep: impl FnMut(&serde_json::Value) -> bool,
    ) -> Result<Self, Error> {
        let open = |source| Error::Open {
            path: path.to_owned(),
            source,
        };
        if !path.exists() {
            return Self::open(path);
        }
        let mut text = Vec::new();
        for record in Self::read(path)?.iter().filter(|r| keep(r)) {
            serde_json::to_writer(&mut text, record).map_err(|source| Error::Encode {
                path: path.to_owned(),
                source,
            })?;
            text.push(b'\n');
        }
        // A crash in between leaves either the old file or the new one.
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let new = PathBuf::from(new);
        std::fs::write(&new, &text).map_err(open)?;
        std::fs::rename(&new, path).map_err(open)?;
        Self::open(path)
    }

    /// Appends one record. It is with the operating system when this returns,
    /// so a killed process loses nothing.
    pub fn append(&mut self, record: &impl Serialize) -> Result<(), Error> {
        let mut line = serde_json::to_vec(record).map_err(|source| Error::Encode {
            path: self.path.clone(),
            source,
        })?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(|source| Error::Write {
            path: self.path.clone(),
            source,
        })
    }

    /// Every whole record of a file, in order; none when there is no file.
    pub fn read(path: &Path) -> Result<Vec<serde_json::Value>, Error> {
        let open = |source| Error::Open {
            path: path.to_owned(),
            source,
        };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(open(e)),
        };
        let mut reader = BufReader::new(file);
        let mut records = Vec::new();
        let mut line = Vec::new();
        loop {
            line.clear();
            reader.read_until(b'\n', &mut line).map_err(open)?;
            if line.last() != Some(&b'\n') {
                return Ok(records);
            }
            let record = serde_json::from_slice(&line).map_err(|source| Error::Malformed {
                path: path.to_owned(),
                line: records.len() + 1,
                source,
            })?;
            records.push(record);
        }
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Bytes up to and with the last line end.
fn whole_lines(file: &mut File) -> io::Result<u64> {
    let mut reader = BufReader::new(&mut *file);
    let (mut position, mut whole) = (0u64, 0u64);
    loop {
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() {
            return Ok(whole);
        }
        if let Some(end) = chunk.iter().rposition(|b| *b == b'\n') {
            whole = position + end as u64 + 1;
        }
        let read = chunk.len();
        position += read as u64;
        reader.consume(read);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_torn_line_is_cut_off_and_writing_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let mut file = MetricsFile::open(&path).unwrap();
        file.append(&json!({"step": 1})).unwrap();
        file.append(&json!({"step": 2})).unwrap();
        drop(file);
        let torn = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&torn[..], b"{\"step\": 3, \"rew"].concat()).unwrap();
        assert_eq!(MetricsFile::read(&path).unwrap().len(), 2);
        MetricsFile::open(&path)
            .unwrap()
            .append(&json!({"step": 3}))
            .unwrap();
        let steps: Vec<_> = MetricsFile::read(&path)
            .unwrap()
            .iter()
            .map(|r| r["step"].clone())
            .collect();
        assert_eq!(steps, [1, 2, 3]);
    }

    #[test]
    fn resuming_forgets_what_will_be_done_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let mut file = MetricsFile::resume(&path, |_| true).unwrap();
        for step in 1..=5 {
            file.append(&json!({"step": step})).unwrap();
        }
        let mut file = MetricsFile::resume(&path, |r| r["step"].as_u64() <= Some(3)).unwrap();
        file.append(&json!({"step": 4, "again": true})).unwrap();
        let records = MetricsFile::read(&path).unwrap();
        assert_eq!(records.len(), 4);
        assert_eq!(records[3]["again"], true);
    }

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let error = MetricsFile::open(folder.path()).unwrap_err();
        assert!(
            error
                .to_string()
                .contains(&folder.path().display().to_string()),
            "{error}"
        );
        let path = folder.path().join("other.txt");
        std::fs::write(&path, "not json\n").unwrap();
        let error = MetricsFile::read(&path).unwrap_err();
        assert!(matches!(error, Error::Malformed { line: 1, .. }), "{error}");
    }

    proptest! {
        #[test]
        fn a_file_cut_anywhere_keeps_its_whole_lines(values in proptest::collection::vec(".{0,20}", 0..8), cut in 0usize..200) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("metrics.jsonl");
            let mut file = MetricsFile::open(&path).unwrap();
            let mut ends = vec![0];
            for value in &values {
                file.append(&json!({"value": value})).unwrap();
                ends.push(std::fs::metadata(&path).unwrap().len() as usize);
            }
            let bytes = std::fs::read(&path).unwrap();
            let cut = cut.min(bytes.len());
            std::fs::write(&path, &bytes[..cut]).unwrap();
            MetricsFile::open(&path).unwrap().append(&json!({"value": "end"})).unwrap();
            let whole = ends.iter().filter(|e| **e <= cut).count() - 1;
            let records = MetricsFile::read(&path).unwrap();
            prop_assert_eq!(records.len(), whole + 1);
            prop_assert_eq!(&records[whole]["value"], "end");
        }
    }
}
