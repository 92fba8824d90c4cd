//! An index beside a log of JSON lines: a file of records of fixed size, and a file of names.
//!
//! The index is extended when the log has grown, and made anew when it does not fit the log. It only speeds pages up: all
//! of it can be made again from the log. A line that is cut off at the end of the log is not in the index until the rest
//! of it was written.

mod header;
mod line;
mod names;
mod place;
mod record;

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read as _, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use line::{Read, answer, attempt, outcome, training};
pub use names::Names;
pub use place::Places;
pub use record::{LENGTH, Party, Raw, Record, bit, hash};

use header::Header;

/// Longest line that is read, bytes. A longer one counts as unreadable.
const LONGEST: u64 = 16 << 20;

/// Records that are read at once.
pub const CHUNK: u64 = 8192;

/// The index of one log. One thread extends it.
pub struct Index {
    path: PathBuf,
    log: Arc<File>,
    records: Arc<File>,
    names_path: Option<PathBuf>,
    names: Arc<Names>,
    header: Header,
    read: Read,
}

/// How far an extension came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extended {
    /// True if the index covers every whole line of the log.
    pub done: bool,
    /// Length of the log at that time, bytes.
    pub log_length: u64,
}

impl Index {
    /// Opens the index of a log, or begins one. `read` reads the lines of the log.
    ///
    /// # Errors
    /// The log cannot be read, or no place takes the index.
    pub fn open(path: &Path, places: &Places, read: Read) -> io::Result<Self> {
        let log = File::open(path)?;
        let (records, names_path) = places.open()?;
        let mut index = Self {
            path: path.to_owned(),
            log: Arc::new(log),
            records: Arc::new(records),
            names_path,
            names: Arc::new(Names::default()),
            header: Header::default(),
            read,
        };
        if !index.load()? {
            index.clear()?;
        }
        Ok(index)
    }

    /// Reads what earlier processes wrote. False if it is no index of this log.
    fn load(&mut self) -> io::Result<bool> {
        let Some(header) = Header::read(&self.records)? else {
            return Ok(false);
        };
        let names = self.names_path.as_deref().and_then(Names::load);
        // A damaged head may count more records than fit into any file.
        let length = self.records.metadata()?.len();
        let whole = header.count <= length / LENGTH as u64 && length >= at(header.count);
        match names {
            Some(names) if whole => {
                self.header = header;
                self.names = Arc::new(names);
                self.fits()
            }
            _ => Ok(false),
        }
    }

    /// Empties the index.
    ///
    /// # Errors
    /// The log or the index cannot be used.
    pub fn clear(&mut self) -> io::Result<()> {
        self.log = Arc::new(File::open(&self.path)?);
        self.records.set_len(0)?;
        self.header = Header::default();
        self.names = Arc::new(Names::default());
        if let Some(path) = &self.names_path {
            self.names.save(path)?;
        }
        self.header.write(&self.records)
    }

    /// True if the log is the one that was read, perhaps with further lines.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn fits(&self) -> io::Result<bool> {
        let (now, read) = (std::fs::metadata(&self.path)?, self.log.metadata()?);
        let same = (now.dev(), now.ino()) == (read.dev(), read.ino());
        Ok(same && now.len() >= self.header.covered && self.header.fits(&self.log)?)
    }

    /// Passes every record to `each`, with its number. False if a record was never written: a crash of the machine may
    /// leave out some.
    ///
    /// # Errors
    /// The index cannot be read.
    pub fn replay(&self, mut each: impl FnMut(u64, &Record)) -> io::Result<bool> {
        let mut whole = true;
        self.view().forward(0, |number, bytes| {
            match Record::decode(bytes) {
                Some(record) => each(number, &record),
                None => whole = false,
            }
            whole
        })?;
        Ok(whole)
    }

    /// Adds the lines of at most about `budget` bytes of the log, and passes each new record to `each`, with its number.
    ///
    /// # Errors
    /// The log cannot be read, or the index cannot be written.
    pub fn extend(
        &mut self,
        budget: u64,
        mut each: impl FnMut(u64, &Record),
    ) -> io::Result<Extended> {
        let log_length = self.log.metadata()?.len();
        let mut file: &File = &self.log;
        file.seek(SeekFrom::Start(self.header.covered))?;
        let mut reader = BufReader::with_capacity(1 << 18, file);
        let names = Arc::make_mut(&mut self.names);
        let named = names.count();
        let mut header = self.header;
        let (mut line, mut added) = (Vec::new(), Vec::new());
        let mut number = header.count;
        let done = loop {
            if header.covered - self.header.covered >= budget {
                break header.covered >= log_length;
            }
            line.clear();
            let mut limited = reader.by_ref().take(LONGEST + 1);
            let taken = limited.read_until(b'\n', &mut line)? as u64;
            let ended = line.pop_if(|last| *last == b'\n').is_some();
            if ended {
                match (self.read)(&line, names) {
                    Some(record) => {
                        let record = Record {
                            offset: header.covered,
                            length: u32::try_from(line.len()).unwrap_or(u32::MAX),
                            ..record
                        };
                        added.extend_from_slice(&record.encode());
                        each(number, &record);
                        number += 1;
                    }
                    None => header.unreadable += 1,
                }
                header.covered += taken;
            } else if taken > LONGEST {
                let rest = reader.skip_until(b'\n')? as u64;
                let mut last = [0];
                let end = header.covered + taken + rest;
                self.log.read_exact_at(&mut last, end - 1)?;
                if last != [b'\n'] {
                    break true;
                }
                header.unreadable += 1;
                header.covered = end;
            } else {
                break true;
            }
        };
        drop(reader);
        if header.covered > self.header.covered {
            self.records.write_all_at(&added, at(header.count))?;
            header.count = number;
            // A record must never name what the file of names lacks.
            if let Some(path) = &self.names_path
                && self.names.count() > named
            {
                self.names.save(path)?;
            }
            header.sign(&self.log)?;
            header.write(&self.records)?;
            self.header = header;
        }
        Ok(Extended { done, log_length })
    }

    /// The records so far, for other threads.
    pub fn view(&self) -> View {
        View {
            log: Arc::clone(&self.log),
            records: Arc::clone(&self.records),
            names: Arc::clone(&self.names),
            count: self.header.count,
            covered: self.header.covered,
            unreadable: self.header.unreadable,
        }
    }
}

impl Drop for Index {
    /// Pages may still hold the file of the records; the next index of this log must get it all the same.
    fn drop(&mut self) {
        // The lock ends with the file in any case.
        let _ = self.records.unlock();
    }
}

/// Place of a record in the file, bytes.
fn at(number: u64) -> u64 {
    header::LENGTH as u64 + number * LENGTH as u64
}

/// The records of an index at one time. They stay readable while the index grows.
#[derive(Clone)]
pub struct View {
    log: Arc<File>,
    records: Arc<File>,
    /// The names that records refer to.
    pub names: Arc<Names>,
    /// Number of records.
    pub count: u64,
    /// Bytes of the log that they cover.
    pub covered: u64,
    /// Number of lines among these bytes that cannot be read.
    pub unreadable: u64,
}

impl View {
    /// A record by number; none beyond the last.
    ///
    /// # Errors
    /// The index cannot be read.
    pub fn record(&self, number: u64) -> io::Result<Option<Record>> {
        if number >= self.count {
            return Ok(None);
        }
        let mut bytes = [0; LENGTH];
        self.records.read_exact_at(&mut bytes, at(number))?;
        Ok(Record::decode(&bytes))
    }

    /// Passes records in their order to `each`, with their numbers, until it returns false.
    ///
    /// # Errors
    /// The index cannot be read.
    pub fn forward(
        &self,
        from: u64,
        mut each: impl FnMut(u64, &[u8; LENGTH]) -> bool,
    ) -> io::Result<()> {
        let mut chunk = Vec::new();
        let mut first = from;
        while first < self.count {
            let end = self.count.min(first + CHUNK);
            for (number, bytes) in (first..).zip(self.chunk(first, end, &mut chunk)?) {
                if !each(number, bytes) {
                    return Ok(());
                }
            }
            first = end;
        }
        Ok(())
    }

    /// Passes the records before `end`, the last one first, to `each`, with their numbers, until it returns false.
    ///
    /// # Errors
    /// The index cannot be read.
    pub fn backward(
        &self,
        end: u64,
        mut each: impl FnMut(u64, &[u8; LENGTH]) -> bool,
    ) -> io::Result<()> {
        let mut chunk = Vec::new();
        let mut end = end.min(self.count);
        while end > 0 {
            let first = end.saturating_sub(CHUNK);
            let records = self.chunk(first, end, &mut chunk)?;
            for (place, bytes) in records.iter().enumerate().rev() {
                if !each(first + place as u64, bytes) {
                    return Ok(());
                }
            }
            end = first;
        }
        Ok(())
    }

    fn chunk<'a>(
        &self,
        first: u64,
        end: u64,
        bytes: &'a mut Vec<u8>,
    ) -> io::Result<&'a [[u8; LENGTH]]> {
        bytes.resize((end - first) as usize * LENGTH, 0);
        self.records.read_exact_at(bytes, at(first))?;
        let (records, _) = bytes.as_chunks::<LENGTH>();
        Ok(records)
    }

    /// The line of a record.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn line(&self, record: &Record) -> io::Result<Vec<u8>> {
        // A record of a damaged index must not ask for more memory than a line can have.
        if u64::from(record.length) > LONGEST || record.offset >= self.covered {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut line = vec![0; record.length as usize];
        self.log.read_exact_at(&mut line, record.offset)?;
        Ok(line)
    }
}

#[cfg(test)]
mod tests;
