//! How a stage ends when it does not succeed: whose fault it was.

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
