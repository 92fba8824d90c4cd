//! Failures that a caller sees.

use crate::journal::Reason;

/// Failures.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The base URL cannot be used.
    #[error("the URL of the endpoint cannot be used: {0}")]
    Url(String),
    /// The variable of the key is not set.
    #[error(
        "the environment variable {0}, which the endpoint names for its key, is not set or empty"
    )]
    NoKey(String),
    /// The variable of the key holds no key.
    #[error("the environment variable {0} holds no key: it has characters that no header may have")]
    BadKey(String),
    /// The system permits no client.
    #[error("cannot prepare requests")]
    Http(#[source] reqwest::Error),
    /// The request cannot be written.
    #[error("cannot write the request")]
    Body(#[source] serde_json::Error),
    /// The journal cannot be written, so nothing is sent.
    #[error("cannot write the journal of requests")]
    Journal(#[source] std::io::Error),
    /// The budget has no room for the request.
    #[error("the budget in {0} has no room for another request")]
    Budget(&'static str),
    /// The server refuses every request, so this one was not sent.
    #[error("the endpoint refused an earlier request")]
    Denied,
    /// The server answered, and its answer cannot be trained on.
    #[error("{0}")]
    Untrainable(String),
    /// The request failed.
    #[error("{words} ({}, {attempts} sent)", .reason.name())]
    Failed {
        /// Why the last attempt failed.
        reason: Reason,
        /// The words of the server or the system.
        words: String,
        /// Number of requests that were sent.
        attempts: u32,
    },
}

impl Error {
    /// The reason, if an answer is missing because of it.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Error::Failed { reason, .. } => Some(*reason),
            Error::Budget(_) => Some(Reason::Budget),
            Error::Denied => Some(Reason::Denied),
            Error::Untrainable(_) => Some(Reason::Malformed),
            Error::Url(_)
            | Error::NoKey(_)
            | Error::BadKey(_)
            | Error::Http(_)
            | Error::Body(_)
            | Error::Journal(_) => None,
        }
    }
}
