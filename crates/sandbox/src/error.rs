//! Failures outside the jailed program.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use crate::cause::Cause;
use crate::limits::{self, Resource};
use crate::place;

/// An infrastructure failure, which a jailed program cannot cause.
///
/// Its text states the fact ([`Error::fact`]) and, where a remedy is known, the advice ([`Error::advice`]).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// bubblewrap is not installed.
    NoBubblewrap {
        /// The places that were searched.
        looked: String,
    },
    /// A shared library that every jailed program needs is missing.
    NoLibrary {
        /// The library's file name.
        name: &'static str,
        /// The folders that were searched.
        looked: String,
    },
    /// The machine gives less protection than untrusted programs need.
    Weak {
        /// The measures that are not in effect, with reasons.
        missing: String,
        /// The cause, where it is known.
        cause: Option<Cause>,
    },
    /// No jail works on this machine.
    Refused {
        /// bubblewrap's error text.
        detail: String,
        /// The cause.
        cause: Cause,
    },
    /// A hard limit of this process is lower than what a job needs.
    Limit {
        /// The limited resource.
        resource: Resource,
        /// The amount that the job needs.
        wanted: u64,
        /// The hard limit.
        hard: u64,
    },
    /// The folder for the files of jobs lies on a file system from which no program can be executed.
    NoExec {
        /// The folder.
        folder: PathBuf,
    },
    /// bubblewrap could not set the jail up, or the program in it could not be started.
    Setup {
        /// bubblewrap's error text.
        detail: String,
    },
    /// bubblewrap died without reporting how the program ended.
    Lost {
        /// The jailed program's process id.
        pid: i32,
        /// How bubblewrap ended.
        how: String,
    },
    /// A file or folder of the jail's root could not be prepared.
    Root {
        /// The attempted operation.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// bubblewrap could not be started.
    Spawn {
        /// The program.
        program: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A system call of the supervisor failed.
    System {
        /// The attempted operation.
        what: &'static str,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The system-call filter could not be built.
    Filter(#[source] seccompiler::BackendError),
    /// The job cannot be expressed.
    Job(String),
}

impl Error {
    /// A failed system call, with the calling thread's last error code.
    pub(crate) fn last(what: &'static str) -> Self {
        Error::System {
            what,
            source: io::Error::last_os_error(),
        }
    }

    /// The fact, without advice and without the underlying errors.
    pub fn fact(&self) -> String {
        match self {
            Error::NoBubblewrap { looked } => format!("bubblewrap was not found ({looked})"),
            Error::NoLibrary { name, looked } => {
                format!("the C library's file {name} was not found in {looked}")
            }
            Error::Weak { missing, cause } => {
                let because = cause.as_ref().map(|cause| format!(": {cause}"));
                format!(
                    "this machine gives less than full protection: {missing}{}",
                    because.unwrap_or_default()
                )
            }
            Error::Refused {
                detail,
                cause: Cause::Unknown,
            }
            | Error::Setup { detail } => format!("the jail could not be set up: {detail}"),
            Error::Refused { detail, cause } => {
                format!("{cause}, so no jail can be set up ({detail})")
            }
            Error::Limit {
                resource,
                wanted,
                hard,
            } => limits::too_low(*resource, *wanted, *hard),
            Error::NoExec { folder } => format!(
                "the temporary folder {} lies on a file system that is mounted with `noexec`: no program can be loaded from it",
                folder.display()
            ),
            Error::Lost { pid, how } => {
                format!(
                    "the exit of the jailed process {pid} is unknown, because a signal ended bubblewrap ({how})"
                )
            }
            Error::Root { what, path, .. } => format!("could not {what} {}", path.display()),
            Error::Spawn { program, .. } => format!("could not start {}", program.display()),
            Error::System { what, .. } => format!("could not {what}"),
            Error::Filter(_) => "could not build the system-call filter".into(),
            Error::Job(why) => format!("unusable job: {why}"),
        }
    }

    /// The remedy, where one is known.
    pub fn advice(&self) -> Option<String> {
        match self {
            Error::NoBubblewrap { .. } => Some(
                "install it (Debian, Ubuntu: `apt install bubblewrap`; Fedora: `dnf install bubblewrap`)"
                    .into(),
            ),
            Error::NoLibrary { .. } => Some(
                "install the C library and gcc's runtime library (Debian, Ubuntu: `apt install libc6 libgcc-s1`); glibc is the only supported C library"
                    .into(),
            ),
            Error::Weak { cause, .. } => {
                let better = cause.as_ref().map_or_else(
                    || "permit unprivileged user namespaces and seccomp in the container or on the machine".into(),
                    Cause::advice,
                );
                Some(format!("{better}; or allow a weaker jail explicitly"))
            }
            Error::Refused { cause, .. } => Some(cause.advice()),
            Error::Limit {
                resource, wanted, ..
            } => Some(resource.advice(*wanted)),
            Error::NoExec { .. } => Some(elsewhere()),
            Error::Root { source, .. } => match source.kind() {
                ErrorKind::NotFound
                | ErrorKind::NotADirectory
                | ErrorKind::PermissionDenied
                | ErrorKind::ReadOnlyFilesystem => Some(elsewhere()),
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                    Some(format!("make room there, or {}", elsewhere()))
                }
                _ => None,
            },
            Error::Spawn { source, .. } => match source.kind() {
                ErrorKind::PermissionDenied => Some(
                    "make it executable for this user, on a file system that is not mounted with `noexec`"
                        .into(),
                ),
                ErrorKind::WouldBlock => Some(
                    "this user has reached the permitted number of processes (RLIMIT_NPROC, `ulimit -u`, or the control group's pids.max): end some, or raise the limit"
                        .into(),
                ),
                ErrorKind::OutOfMemory => Some("this machine is short of memory".into()),
                _ => None,
            },
            Error::System { source, .. } if source.raw_os_error() == Some(libc::ENOSYS) => Some(
                "use Linux 5.4 or newer; in a container, use a system-call filter that permits its calls"
                    .into(),
            ),
            Error::Setup { .. }
            | Error::Lost { .. }
            | Error::System { .. }
            | Error::Filter(_)
            | Error::Job(_) => None,
        }
    }
}

/// Advice to set another temporary folder, with an example if a usable folder exists.
fn elsewhere() -> String {
    let example = place::usable().map(|folder| format!(", e.g. TMPDIR={}", folder.display()));
    format!(
        "set TMPDIR to a folder that this user can write to, on a file system without `noexec`{}",
        example.unwrap_or_default()
    )
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fact())?;
        match self.advice() {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}
