//! How a stage ends when it does not succeed: whose fault it was.

use std::error::Error;
use std::io;

use flopsmith_protocol::{CandidateFault, InfrastructureCause, Verdict};

/// A stage's failure. `detail` is for people and models and is at most a few kilobytes.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Failure {
    /// The candidate's own fault.
    #[error("{fault}: {detail}")]
    Candidate {
        /// What it did.
        fault: CandidateFault,
        /// Diagnostics.
        detail: String,
    },
    /// Nothing the candidate can cause.
    #[error("{cause} failed: {detail}")]
    Infrastructure {
        /// What failed.
        cause: InfrastructureCause,
        /// Diagnostics.
        detail: String,
    },
    /// It cannot be told.
    #[error("undecided: {detail}")]
    Unknown {
        /// Diagnostics.
        detail: String,
    },
}

impl Failure {
    /// The candidate's fault.
    pub fn candidate(fault: CandidateFault, detail: impl Into<String>) -> Self {
        Failure::Candidate {
            fault,
            detail: detail.into(),
        }
    }

    /// An infrastructure failure.
    pub fn infrastructure(cause: InfrastructureCause, detail: impl Into<String>) -> Self {
        Failure::Infrastructure {
            cause,
            detail: detail.into(),
        }
    }

    /// An infrastructure failure in the words of `error` and of its causes. Where something ran out, that is what failed.
    pub fn ours(cause: InfrastructureCause, error: &(dyn Error + 'static)) -> Self {
        let cause = if ran_out(error) {
            InfrastructureCause::Resources
        } else {
            cause
        };
        let mut detail = error.to_string();
        let mut next = error.source();
        while let Some(cause) = next {
            detail.push_str(": ");
            detail.push_str(&cause.to_string());
            next = cause.source();
        }
        Failure::infrastructure(cause, detail)
    }
}

/// Was it for want of space, memory or file handles? The system's own error stands somewhere in the chain of causes.
pub fn ran_out(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(e) = next {
        if let Some(io) = e.downcast_ref::<io::Error>()
            && is_exhaustion(io)
        {
            return true;
        }
        next = e.source();
    }
    false
}

fn is_exhaustion(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    // The library has no kind for handles that ran out.
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
        || matches!(
            error.kind(),
            K::StorageFull | K::QuotaExceeded | K::OutOfMemory
        )
}

impl From<Failure> for Verdict {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Candidate { fault, detail } => Verdict::Rejected { fault, detail },
            Failure::Infrastructure { cause, detail } => Verdict::Infrastructure { cause, detail },
            Failure::Unknown { detail } => Verdict::Unknown { detail },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("could not make the jail's root")]
    struct Layer(#[source] io::Error);

    fn failed(os_error: i32) -> Failure {
        let layer = Layer(io::Error::from_raw_os_error(os_error));
        Failure::ours(InfrastructureCause::Jail, &layer)
    }

    #[test]
    fn what_ran_out_is_told_apart_from_what_is_broken() {
        let exhausted = [
            libc::ENOSPC,
            libc::EDQUOT,
            libc::EMFILE,
            libc::ENFILE,
            libc::ENOMEM,
        ];
        for code in exhausted {
            let Failure::Infrastructure { cause, detail } = failed(code) else {
                unreachable!("no program can cause it");
            };
            assert_eq!(cause, InfrastructureCause::Resources, "{detail}");
            assert!(
                detail.starts_with("could not make the jail's root: "),
                "{detail}"
            );
        }
        for code in [libc::EPERM, libc::EIO, libc::ENOENT] {
            assert!(matches!(
                failed(code),
                Failure::Infrastructure {
                    cause: InfrastructureCause::Jail,
                    ..
                }
            ));
        }
    }
}
