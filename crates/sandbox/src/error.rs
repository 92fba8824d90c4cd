//! What can fail outside the jailed program.

use std::io;
use std::path::PathBuf;

/// An infrastructure failure: nothing that a jailed program can cause.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// bubblewrap is not installed.
    #[error(
        "bubblewrap was not found ({looked}); install it (Debian, Ubuntu: `apt install bubblewrap`; Fedora: `dnf install bubblewrap`)"
    )]
    NoBubblewrap {
        /// Where it was looked for.
        looked: String,
    },
    /// A shared library that every jailed program needs is missing.
    #[error("the C library's file {name} was not found in {looked}")]
    NoLibrary {
        /// Its file name.
        name: &'static str,
        /// The folders that were looked through.
        looked: String,
    },
    /// The machine gives less protection than untrusted programs need.
    #[error("this machine gives less than full protection: {missing}; {advice}")]
    Weak {
        /// The measures that are not in effect, with reasons.
        missing: String,
        /// What to try.
        advice: String,
    },
    /// bubblewrap could not set the jail up, or the program in it could not be started.
    #[error("the jail could not be set up: {detail}")]
    Setup {
        /// bubblewrap's own words.
        detail: String,
    },
    /// bubblewrap died without saying how the program ended.
    #[error("the jail of process {pid} was ended from outside ({how})")]
    Lost {
        /// The jailed program's process id.
        pid: i32,
        /// How bubblewrap ended.
        how: String,
    },
    /// A file or folder of the jail's root could not be prepared.
    #[error("could not {what} {}", path.display())]
    Root {
        /// What was tried.
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// bubblewrap could not be started.
    #[error("could not start {}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// A system call of the supervisor failed.
    #[error("could not {what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The system-call filter could not be built.
    #[error("could not build the system-call filter")]
    Filter(#[source] seccompiler::BackendError),
    /// The job cannot be expressed.
    #[error("unusable job: {0}")]
    Job(String),
}

impl Error {
    /// A failed system call, with the error the kernel gave last.
    pub(crate) fn last(what: &'static str) -> Self {
        Error::System {
            what,
            source: io::Error::last_os_error(),
        }
    }
}
