//! Failed attempts, and what statuses of servers say about them.

use std::time::Duration;

use reqwest::StatusCode;

use crate::journal::Reason;
use crate::wire::{self, Fault};

/// A failed attempt.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) reason: Reason,
    pub(crate) words: String,
    /// The wait that the server asks for.
    pub(crate) asked: Option<Duration>,
    /// True if the server may have worked for it.
    pub(crate) may_cost: bool,
    /// True if the server refused the key itself, and not this request.
    pub(crate) of_key: bool,
}

impl Failure {
    pub(crate) fn costly(reason: Reason, words: impl Into<String>) -> Self {
        Self {
            reason,
            words: words.into(),
            asked: None,
            may_cost: true,
            of_key: false,
        }
    }

    pub(crate) fn free(reason: Reason, words: impl Into<String>) -> Self {
        Self {
            may_cost: false,
            ..Self::costly(reason, words)
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::costly(fault.reason, fault.detail)
    }
}

/// The reason of a status that is no success.
pub(crate) fn reason(status: StatusCode) -> Reason {
    match status {
        StatusCode::TOO_MANY_REQUESTS => Reason::RateLimited,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => Reason::Denied,
        StatusCode::REQUEST_TIMEOUT => Reason::Server,
        _ if status.is_server_error() => Reason::Server,
        _ => Reason::Refused,
    }
}

/// True if a model may have worked for a request before this status came, so that its provider may charge for it. `error` is the
/// body, if that is JSON; `is_whole` is false if the rest of the body did not come.
///
/// A gateway answers 408, 500, 502, 504 or 524 when it has waited in vain for a model that works on. A gateway's 503 may follow on
/// the loss of the server; a server whose 503 has an error in OpenAI's format, an object, says itself that it is overloaded.
/// Providers charge for prompts that a filter refuses with 400 or 403 and for prompts that are too long. Half of such a body does not
/// say which refusal it is.
pub(crate) fn may_have_worked(
    status: StatusCode,
    error: Option<&serde_json::Value>,
    is_whole: bool,
) -> bool {
    match status.as_u16() {
        408 => true,
        501 | 505 | 529 => false,
        503 => !error
            .and_then(|error| error.get("error"))
            .is_some_and(serde_json::Value::is_object),
        _ if status.is_server_error() => true,
        401 | 404 | 429 => false,
        400..=499 => error.map_or(!is_whole, wire::was_read),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn statuses_of_gateways_leave_open_whether_a_model_worked() {
        let own = json!({ "error": { "message": "overloaded" } });
        let gateway = json!({ "message": "Service Unavailable" });
        let words = json!({ "error": "no healthy upstream" });
        let filtered = json!({ "error": { "code": "content_filter" } });
        let too_long = json!({ "error": { "code": "context_length_exceeded" } });
        for (status, error, costs) in [
            (500, Some(&own), true),
            (502, None, true),
            (504, None, true),
            (524, None, true),
            (408, Some(&own), true),
            (503, None, true),
            (503, Some(&gateway), true),
            (503, Some(&words), true),
            (503, Some(&own), false),
            (501, None, false),
            (529, Some(&own), false),
            (302, None, false),
            (400, Some(&own), false),
            (400, Some(&filtered), true),
            (400, Some(&too_long), true),
            (403, Some(&filtered), true),
            (401, None, false),
            (429, Some(&own), false),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(
                may_have_worked(status, error, true),
                costs,
                "{status} {error:?}"
            );
        }
        // The body was cut.
        for (status, costs) in [
            (400, true),
            (403, true),
            (401, false),
            (404, false),
            (429, false),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(may_have_worked(status, None, false), costs, "{status}");
        }
    }
}
