//! Memory that this process shares with one worker.

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;

use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::error::Error;

/// A file in memory that a worker maps. This process reads and writes it by calls, so a worker cannot change what this
/// process has read.
pub(crate) struct Arena {
    file: File,
}

impl Arena {
    /// An empty arena.
    pub fn new() -> Result<Self, Error> {
        let fd = memfd_create("module", MFdFlags::MFD_CLOEXEC)
            .map_err(|e| Error::system("make shared memory")(e.into()))?;
        Ok(Arena { file: fd.into() })
    }

    /// The descriptor.
    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Makes the arena at least this large; it never shrinks.
    pub fn grow(&self, bytes: u64) -> Result<(), Error> {
        let failed = Error::system("enlarge shared memory");
        let now = self.file.metadata().map_err(&failed)?.len();
        match bytes > now {
            true => self.file.set_len(bytes).map_err(failed),
            false => Ok(()),
        }
    }

    /// The bytes from `begin` to `end`.
    pub fn read(&self, begin: u64, end: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; (end - begin) as usize];
        self.file
            .read_exact_at(&mut bytes, begin)
            .map_err(Error::system("read shared memory"))?;
        Ok(bytes)
    }

    /// Writes bytes at `begin`.
    pub fn write(&self, begin: u64, bytes: &[u8]) -> Result<(), Error> {
        self.file
            .write_all_at(bytes, begin)
            .map_err(Error::system("write shared memory"))
    }
}
