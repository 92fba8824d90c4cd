//! Errors that stop a role.

use flopsmith_protocol::InfrastructureCause;

/// A role's failure. The supervisor starts the role again with growing delays until its limit.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bus failed.
    #[error("the message bus failed")]
    Bus(#[from] flopsmith_bus::Error),
    /// The store failed.
    #[error("the artifact store failed")]
    Store(#[from] flopsmith_store::Error),
    /// A stage cannot work on this node.
    #[error("{cause} failed: {detail}")]
    Stage {
        /// The part that failed.
        cause: InfrastructureCause,
        /// The failure in words, and what to try.
        detail: String,
    },
    /// The generator failed.
    #[error("the generator failed: {0}")]
    Generator(String),
    /// The learner failed.
    #[error("the learner failed: {0}")]
    Learner(String),
    /// There was no memory for a computation. Another try would need as much.
    #[error("the {role} is out of memory: {detail}")]
    Memory {
        /// The role that needed it.
        role: &'static str,
        /// The computation, and the setting to lower.
        detail: String,
    },
    /// Updates were left out again and again, or the settings do not fit the model: the policy cannot be trained as it
    /// is.
    #[error("{0}")]
    Hopeless(String),
    /// A run that repeats another one had a different result.
    #[error("the run has diverged from the recorded one: {0}")]
    Diverged(String),
    /// A file of the run's folder failed.
    #[error("cannot write {path}")]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The run's settings have no meaning. The process that starts a run checks them before.
    #[error("the run's settings cannot be used: {0}")]
    Settings(String),
    /// A run has only one holder of this role, and another process has taken over.
    #[error("another process has taken over this role, or may have")]
    Replaced,
    /// A run has only one holder of this role, and the bus no longer stores this process's signs of life.
    #[error(
        "the bus no longer stores this process's signs of life, so another process may take over: {0}"
    )]
    Unheard(String),
    /// Another writer has replaced the saved checkpoint.
    #[error(
        "the checkpoint {place} is not the one that was saved there; check which other programs may write to the store"
    )]
    Strange {
        /// Where it lies.
        place: String,
    },
    /// The bus did not answer.
    #[error("the bus did not answer about {0}")]
    Silent(&'static str),
    /// State that was saved cannot be read.
    #[error(
        "the saved state of the {role} is damaged, or another version of Flopsmith wrote it: {detail}"
    )]
    Saved {
        /// The role whose state it is.
        role: &'static str,
        /// The defect.
        detail: String,
    },
    /// A blocking task ended without an answer.
    #[error("a worker thread of the {0} died")]
    Thread(&'static str),
    /// A role failed too often.
    #[error("the {role} failed {times} times and was not restarted; the last failure: {last}")]
    TooOften {
        /// The role.
        role: &'static str,
        /// How often.
        times: usize,
        /// Its last error.
        last: String,
    },
    /// ractor could not start an actor.
    #[error("an actor could not be started: {0}")]
    Spawn(String),
}

impl Error {
    /// True if a restarted role would meet the same failure, or would use state that now belongs to another process.
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Error::Memory { .. }
                | Error::Hopeless(_)
                | Error::Diverged(_)
                | Error::Replaced
                | Error::Unheard(_)
        )
    }
}

impl From<flopsmith_protocol::Failure> for Error {
    fn from(failure: flopsmith_protocol::Failure) -> Self {
        match failure {
            flopsmith_protocol::Failure::Infrastructure { cause, detail } => {
                Error::Stage { cause, detail }
            }
            other => Error::Stage {
                cause: InfrastructureCause::Harness,
                detail: other.to_string(),
            },
        }
    }
}
