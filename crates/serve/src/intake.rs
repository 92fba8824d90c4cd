//! The checks that a request passes before its route reads it. Every service of Flopsmith over HTTP makes them.

use std::error::Error as _;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use axum::body::to_bytes;
use axum::extract::Request;
use bytes::Bytes;
use flopsmith_run::console::usage;
use http_body_util::LengthLimitError;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;
use tokio::time::timeout;

use crate::auth::{Holder, Token, is_loopback};

/// Time that the body of a request may take to arrive.
pub const BODY_TIME: Duration = Duration::from_secs(60);

/// Why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unadmitted {
    /// The service has no token, and the request names a host that is not loopback.
    Host,
    /// The token is missing or wrong.
    Token,
}

/// Admits a request with the right token or, if the service has none, to loopback only. Returns whose request it is.
///
/// # Errors
/// Why the request is not admitted.
pub fn admit(headers: &HeaderMap, token: Option<&Token>) -> Result<Holder, Unadmitted> {
    if let Some(token) = token {
        let given = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        return token.holder(given).ok_or(Unadmitted::Token);
    }
    let host = headers.get(HOST);
    let host = host.map(|host| host.to_str().unwrap_or_default());
    match host {
        Some(host) if !is_loopback(host) => Err(Unadmitted::Host),
        _ => Ok(Holder::default()),
    }
}

/// False for a path whose percent signs stand for no text. The extractors of routes would answer it in a form of their own.
pub fn has_text_path(request: &Request) -> bool {
    let path = percent_decode_str(request.uri().path());
    path.decode_utf8().is_ok()
}

/// Checks that a service without a token listens at loopback. `variable` may hold the token, and `listen_at` is the
/// option that names loopback.
///
/// # Errors
/// Wrong usage.
pub fn check_reach(
    listen: SocketAddr,
    token: Option<&Token>,
    variable: &str,
    listen_at: &str,
) -> Result<()> {
    match token {
        None if !listen.ip().is_loopback() => Err(usage(format!(
            "{listen} can be reached from other machines, so the service needs a token there: name a file with --token-file, set {variable}, or {listen_at}"
        ))),
        _ => Ok(()),
    }
}

/// Why a body was not taken.
#[derive(Debug)]
pub enum Unread {
    /// It is not JSON by its header.
    MediaType,
    /// It is too long.
    TooLarge,
    /// It broke off, or is no body.
    Broken(axum::Error),
    /// It did not come in time.
    TooSlow,
}

/// The JSON body of a request, of at most `most` bytes, that arrives within `limit`.
///
/// # Errors
/// Why the body was not taken.
pub async fn json_body(request: Request, most: usize, limit: Duration) -> Result<Bytes, Unread> {
    let headers = request.headers();
    if !is_json(headers) {
        return Err(Unread::MediaType);
    }
    let length = headers.get(CONTENT_LENGTH).and_then(|n| n.to_str().ok());
    let length = length.and_then(|n| n.parse::<u64>().ok());
    let most_bytes = u64::try_from(most).unwrap_or(u64::MAX);
    if length.is_some_and(|length| length > most_bytes) {
        return Err(Unread::TooLarge);
    }
    match timeout(limit, to_bytes(request.into_body(), most)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => {
            let is_long = error.source().is_some_and(|e| e.is::<LengthLimitError>());
            Err(match is_long {
                true => Unread::TooLarge,
                false => Unread::Broken(error),
            })
        }
        Err(_) => Err(Unread::TooSlow),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let kind = value.and_then(|value| value.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_is_read() {
        for (kind, expected) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("text/plain", false),
            ("application/x-www-form-urlencoded", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            assert_eq!(is_json(&headers), expected, "{kind}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }
}
