//! The head of an index: which part of which log it covers.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

/// Bytes of the head.
pub const LENGTH: usize = 128;

/// Names the format. Another format has another mark, and is made anew.
const MARK: &[u8; 8] = b"fs-ui-02";

/// Bytes at the begin, and at the end, of the covered part that identify the log.
const SIGNED: u64 = 4096;

/// The head.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the log that are covered: whole lines only.
    pub covered: u64,
    /// Number of records.
    pub count: u64,
    /// Number of lines that cannot be read.
    pub unreadable: u64,
    begin: [u8; 32],
    end: [u8; 32],
}

impl Header {
    /// The head of a file; none if the file has none of this format.
    pub fn read(file: &File) -> io::Result<Option<Self>> {
        let mut bytes = [0; LENGTH];
        match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(number)
        };
        let digest = |at: usize| {
            let mut digest = [0; 32];
            digest.copy_from_slice(&bytes[at..at + 32]);
            digest
        };
        Ok((bytes[..8] == MARK[..]).then(|| Self {
            covered: number(8),
            count: number(16),
            unreadable: number(24),
            begin: digest(32),
            end: digest(64),
        }))
    }

    /// Writes the head. The records that it counts are in the file already.
    pub fn write(&self, file: &File) -> io::Result<()> {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(MARK);
        bytes[8..16].copy_from_slice(&self.covered.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.count.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.unreadable.to_le_bytes());
        bytes[32..64].copy_from_slice(&self.begin);
        bytes[64..96].copy_from_slice(&self.end);
        file.write_all_at(&bytes, 0)
    }

    /// Notes which log the covered part belongs to.
    pub fn sign(&mut self, log: &File) -> io::Result<()> {
        (self.begin, self.end) = self.signature(log)?;
        Ok(())
    }

    /// True if the log, which is as long as the covered part at least, is the one that was signed.
    pub fn fits(&self, log: &File) -> io::Result<bool> {
        Ok(self.covered == 0 || self.signature(log)? == (self.begin, self.end))
    }

    fn signature(&self, log: &File) -> io::Result<([u8; 32], [u8; 32])> {
        let length = self.covered.min(SIGNED);
        let mut bytes = vec![0; length as usize];
        log.read_exact_at(&mut bytes, 0)?;
        let begin = blake3::hash(&bytes);
        log.read_exact_at(&mut bytes, self.covered - length)?;
        Ok((begin.into(), blake3::hash(&bytes).into()))
    }
}
