//! Why a page cannot be shown.

use std::io;

use hyper::StatusCode;

/// A refusal: its status, and one sentence for the reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the response.
    pub status: StatusCode,
    /// The fault, and what to try.
    pub detail: String,
}

impl Refusal {
    /// There is no such thing.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            detail: detail.into(),
        }
    }

    /// The request has no meaning.
    pub fn malformed(detail: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            detail: detail.into(),
        }
    }

    /// This process could not make the page.
    pub fn failed(detail: impl Into<String>) -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            detail: detail.into(),
        }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        tracing::warn!(%error, "a page cannot be made");
        Self::failed(
            "the files of the run cannot be read, or changed meanwhile; load the page again",
        )
    }
}
