//! Errors as problem details (RFC 9457).

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Number of mistakes that a refusal lists.
pub const MOST_MISTAKES: usize = 20;

/// The kinds of refusals, in the order of the reference page: name, status, title.
pub const KINDS: [(Kind, StatusCode, &str); 15] = [
    (
        Kind::Malformed,
        StatusCode::BAD_REQUEST,
        "The request cannot be read",
    ),
    (
        Kind::Unauthorized,
        StatusCode::UNAUTHORIZED,
        "The bearer token is missing or wrong",
    ),
    (
        Kind::WrongHost,
        StatusCode::FORBIDDEN,
        "The request names another host",
    ),
    (
        Kind::NotFound,
        StatusCode::NOT_FOUND,
        "There is no such resource",
    ),
    (
        Kind::WrongMethod,
        StatusCode::METHOD_NOT_ALLOWED,
        "The resource does not have this method",
    ),
    (
        Kind::NotAcceptable,
        StatusCode::NOT_ACCEPTABLE,
        "The answer has no such media type",
    ),
    (
        Kind::TooSlow,
        StatusCode::REQUEST_TIMEOUT,
        "The request came too slowly",
    ),
    (
        Kind::KeyReused,
        StatusCode::CONFLICT,
        "The idempotency key belongs to another request",
    ),
    (
        Kind::TooLarge,
        StatusCode::PAYLOAD_TOO_LARGE,
        "The request is too large",
    ),
    (
        Kind::WrongMediaType,
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "The request is not JSON",
    ),
    (
        Kind::Invalid,
        StatusCode::UNPROCESSABLE_ENTITY,
        "The request cannot be worked on",
    ),
    (
        Kind::Quota,
        StatusCode::TOO_MANY_REQUESTS,
        "The quota of the token is used up",
    ),
    (
        Kind::Storage,
        StatusCode::INTERNAL_SERVER_ERROR,
        "The service cannot write its folder",
    ),
    (
        Kind::Infrastructure,
        StatusCode::SERVICE_UNAVAILABLE,
        "The machine could not evaluate the program",
    ),
    (
        Kind::Unavailable,
        StatusCode::SERVICE_UNAVAILABLE,
        "The service takes no requests now",
    ),
];

/// Kinds of refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// No JSON, or JSON of another shape.
    Malformed,
    /// No token, or a wrong one.
    Unauthorized,
    /// The host header names no address of loopback.
    WrongHost,
    /// No such path or job.
    NotFound,
    /// Another method.
    WrongMethod,
    /// No media type that the service writes.
    NotAcceptable,
    /// The body did not come in time.
    TooSlow,
    /// The idempotency key was used with another body.
    KeyReused,
    /// The body is too long.
    TooLarge,
    /// The body is of another media type.
    WrongMediaType,
    /// JSON of the right shape that makes no sense.
    Invalid,
    /// The token may send no more candidates now.
    Quota,
    /// The folder cannot be written or read.
    Storage,
    /// The evaluation failed through no fault of the program.
    Infrastructure,
    /// The queue is full, or the service is stopping.
    Unavailable,
}

impl Kind {
    /// The last part of the `type` of its problem details.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Unauthorized => "unauthorized",
            Self::WrongHost => "wrong-host",
            Self::NotFound => "not-found",
            Self::WrongMethod => "wrong-method",
            Self::NotAcceptable => "not-acceptable",
            Self::TooSlow => "too-slow",
            Self::KeyReused => "key-reused",
            Self::TooLarge => "too-large",
            Self::WrongMediaType => "wrong-media-type",
            Self::Invalid => "invalid",
            Self::Quota => "quota",
            Self::Storage => "storage",
            Self::Infrastructure => "infrastructure",
            Self::Unavailable => "unavailable",
        }
    }

    fn row(self) -> (StatusCode, &'static str) {
        let row = KINDS.iter().find(|(kind, ..)| *kind == self);
        row.map_or((StatusCode::INTERNAL_SERVER_ERROR, ""), |row| {
            (row.1, row.2)
        })
    }

    /// The status of its responses.
    pub fn status(self) -> StatusCode {
        self.row().0
    }
}

/// A mistake in a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mistake {
    /// Its place in the body, as a JSON pointer (RFC 6901).
    pub pointer: String,
    /// The fault, and the advice what to try.
    pub detail: String,
}

/// Problem details (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemDetails {
    /// `urn:flopsmith:error:` and the kind.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The fault of this request, and the advice what to try.
    pub detail: String,
    /// The mistakes of a request that cannot be worked on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Mistake>,
    /// The job that the request began, if it did. `GET /v1/jobs/{id}` has its results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its kind.
    pub kind: Kind,
    detail: String,
    errors: Vec<Mistake>,
    job: Option<String>,
    retry_after_seconds: Option<u64>,
}

impl Refusal {
    /// A refusal; `detail` says what to try.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            errors: Vec::new(),
            job: None,
            retry_after_seconds: None,
        }
    }

    /// A request with these mistakes.
    pub fn invalid(errors: Vec<Mistake>) -> Self {
        let detail = match errors.as_slice() {
            [one] => format!("{}: {}", one.pointer, one.detail),
            all => format!("the request has {} mistakes; see `errors`", all.len()),
        };
        Self {
            errors,
            ..Self::new(Kind::Invalid, detail)
        }
    }

    /// The same refusal of a body that is one candidate: pointers lead into the candidate.
    pub fn of_one(self) -> Self {
        if self.errors.is_empty() {
            return self;
        }
        let errors = self.errors.into_iter().map(|mistake| {
            let within = mistake.pointer.strip_prefix("/candidates/0");
            let pointer = within.unwrap_or(&mistake.pointer).to_owned();
            Mistake { pointer, ..mistake }
        });
        Self::invalid(errors.collect())
    }

    /// The same refusal of a body that has other names for fields of a candidate: `names` has pairs of pointers.
    pub fn renaming(self, names: &[(&str, &str)]) -> Self {
        if self.errors.is_empty() {
            return self;
        }
        let errors = self.errors.into_iter().map(|mistake| {
            let named = names.iter().find(|(ours, _)| *ours == mistake.pointer);
            match named {
                Some((_, theirs)) => Mistake {
                    pointer: (*theirs).to_owned(),
                    ..mistake
                },
                None => mistake,
            }
        });
        Self::invalid(errors.collect())
    }

    /// The folder of the service could not be written or read.
    pub fn storage(error: &std::io::Error) -> Self {
        let detail =
            format!("the folder of the service: {error}; make room or repair it, and try again");
        Self::new(Kind::Storage, detail).retry_after(10)
    }

    /// The service is stopping.
    pub fn stopping() -> Self {
        let detail = "the service is stopping; it goes on with its jobs when it is started again";
        Self::new(Kind::Unavailable, detail).retry_after(5)
    }

    /// The request may succeed after this time.
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_seconds = Some(seconds);
        self
    }

    /// The request began a job.
    pub fn of_job(mut self, job: impl Into<String>) -> Self {
        self.job = Some(job.into());
        self
    }

    /// The body of the response.
    pub fn details(&self) -> ProblemDetails {
        let (status, title) = self.kind.row();
        ProblemDetails {
            kind: format!("urn:flopsmith:error:{}", self.kind.name()),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: self.detail.clone(),
            errors: self.errors.clone(),
            job: self.job.clone(),
        }
    }

    /// The body as one line of JSON.
    pub fn line(&self) -> String {
        // Strings and numbers always have a JSON form.
        serde_json::to_string(&self.details()).unwrap_or_default()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.line()));
        *response.status_mut() = self.kind.status();
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/problem+json");
        headers.insert(CONTENT_TYPE, json);
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.kind == Kind::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_has_a_status_and_a_title_of_its_own() {
        let titles: BTreeSet<&str> = KINDS.iter().map(|(.., title)| *title).collect();
        let names: BTreeSet<&str> = KINDS.iter().map(|(kind, ..)| kind.name()).collect();
        assert_eq!((titles.len(), names.len()), (KINDS.len(), KINDS.len()));
        for (kind, status, title) in KINDS {
            let details = Refusal::new(kind, "why").details();
            assert_eq!(details.status, status.as_u16());
            assert_eq!(details.title, title);
            assert!(details.kind.ends_with(kind.name()), "{details:?}");
        }
    }

    #[test]
    fn the_reference_lists_every_kind() {
        let page = include_str!("../../../docs/reference/http.md");
        for (kind, status, _) in KINDS {
            let row = format!("| `{}` | {} |", kind.name(), status.as_u16());
            assert!(page.contains(&row), "docs/reference/http.md lacks {row}");
        }
    }
}
