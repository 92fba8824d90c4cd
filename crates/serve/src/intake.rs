//! The checks that a request passes before its route reads it. Every service of Flopsmith over HTTP makes them.

use std::error::Error as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::body::to_bytes;
use axum::extract::Request;
use bytes::Bytes;
use flopsmith_run::console::usage;
use http_body_util::LengthLimitError;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::auth::{Holder, Token, is_loopback};

/// Time that the body of a request may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(60);
/// Length of all longer bodies together that are in memory at the same time, bytes.
const ROOM: usize = 256 << 20;
/// Length of a body that needs no part of [`ROOM`], bytes. The number of connections bounds the memory of these.
const SHORT: usize = 64 << 10;
/// The unit in which [`ROOM`] is given out, bytes.
const UNIT: usize = 1 << 10;

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
    /// Other bodies took up the memory for bodies all the time.
    Crowded,
}

/// Reads the bodies of requests within limits of length, time and memory.
#[derive(Debug, Clone)]
pub struct Bodies {
    /// Length of the longest body, bytes.
    pub most: usize,
    /// Time that a body may wait for memory, and time that it may take to arrive.
    pub time: Duration,
    room: Arc<Semaphore>,
}

impl Bodies {
    /// Bodies of at most `most` bytes. All bodies together take 256 MiB of memory, or that of one longest body.
    pub fn new(most: usize) -> Self {
        Self::within(most, BODY_TIME, ROOM)
    }

    /// Bodies of at most `most` bytes that take at most `time`, and together at most `room` bytes or that of one longest body.
    pub fn within(most: usize, time: Duration, room: usize) -> Self {
        let room = units(room.max(most)) as usize;
        Self {
            most,
            time,
            room: Arc::new(Semaphore::new(room)),
        }
    }

    /// The JSON body of a request. Its memory counts until the last copy of the bytes is dropped.
    ///
    /// # Errors
    /// Why the body was not taken.
    pub async fn read(&self, request: Request) -> Result<Bytes, Unread> {
        let headers = request.headers();
        if !is_json(headers) {
            return Err(Unread::MediaType);
        }
        let length = headers.get(CONTENT_LENGTH).and_then(|n| n.to_str().ok());
        let length = length.and_then(|n| n.parse::<u64>().ok());
        // A body in pieces may become as long as is permitted.
        let length = match length.map(usize::try_from) {
            Some(Ok(length)) if length <= self.most => length,
            Some(_) => return Err(Unread::TooLarge),
            None => self.most,
        };
        // It takes its room at once, so that bodies that wait for room hold none.
        let mut held = match length > SHORT {
            true => Some(self.room(length).await?),
            false => None,
        };
        match timeout(self.time, to_bytes(request.into_body(), self.most)).await {
            Ok(Ok(bytes)) => {
                // A body in pieces gives back what it does not need.
                let unused = units(length) - units(bytes.len()).min(units(length));
                drop(held.as_mut().and_then(|held| held.split(unused as usize)));
                Ok(Bytes::from_owner(Held { bytes, _room: held }))
            }
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

    async fn room(&self, length: usize) -> Result<OwnedSemaphorePermit, Unread> {
        let room = Arc::clone(&self.room).acquire_many_owned(units(length));
        match timeout(self.time, room).await {
            Ok(Ok(room)) => Ok(room),
            _ => Err(Unread::Crowded),
        }
    }
}

/// Units of room for so many bytes.
fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

/// A body with its room.
struct Held {
    bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let kind = value.and_then(|value| value.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use futures::stream;

    use super::*;

    const MIB: usize = 1 << 20;
    /// What is there is read without waiting, however short this is.
    const TIME: Duration = Duration::from_millis(20);

    /// A request with so many bytes of a body, in one piece with its length, or in pieces without.
    fn request(bytes: usize, is_whole: bool) -> Request {
        let request = Request::post("/").header(CONTENT_TYPE, "application/json");
        let text = vec![b' '; bytes];
        let request = match is_whole {
            true => request.header(CONTENT_LENGTH, bytes).body(Body::from(text)),
            false => {
                let pieces = text
                    .chunks(1000)
                    .map(|piece| Ok(Bytes::copy_from_slice(piece)));
                let pieces: Vec<Result<Bytes, axum::Error>> = pieces.collect();
                request.body(Body::from_stream(stream::iter(pieces)))
            }
        };
        request.expect("a request")
    }

    /// A request that declares a body and sends none.
    fn silent(bytes: usize) -> Request {
        let request = Request::post("/")
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_LENGTH, bytes);
        let nothing = stream::pending::<Result<Bytes, axum::Error>>();
        request.body(Body::from_stream(nothing)).expect("a request")
    }

    #[tokio::test]
    async fn all_bodies_together_have_a_limit() {
        let bodies = Bodies::within(MIB, TIME, 3 * MIB);
        let mut kept = Vec::new();
        for is_whole in [true, false, true] {
            let body = bodies.read(request(MIB, is_whole)).await.expect("a body");
            assert_eq!(body.len(), MIB);
            kept.push(body);
        }
        for is_whole in [true, false] {
            let read = bodies.read(request(MIB, is_whole)).await;
            assert!(matches!(read, Err(Unread::Crowded)), "{read:?}");
        }
        // Short bodies need no room.
        let short = bodies.read(request(SHORT, true)).await;
        assert_eq!(short.expect("a body").len(), SHORT);
        // The room comes back with the last copy.
        let copy = kept.pop().map(|body| body.slice(..9));
        drop(kept.pop());
        assert!(bodies.read(request(MIB, true)).await.is_ok());
        drop(kept);
        drop(copy);
        assert_eq!(bodies.room.available_permits(), 3 * MIB / UNIT);
    }

    #[tokio::test]
    async fn a_body_holds_no_more_room_than_its_length_and_none_once_it_failed() {
        let bodies = Bodies::within(MIB, TIME, MIB);
        let body = bodies.read(request(100_500, false)).await.expect("a body");
        let held = MIB / UNIT - bodies.room.available_permits();
        assert_eq!(held, 99, "{held} KiB for {} bytes", body.len());
        let long = bodies.read(request(MIB + 1, true)).await;
        assert!(matches!(long, Err(Unread::TooLarge)), "{long:?}");
        drop(body);
        let long = bodies.read(request(MIB + 1, false)).await;
        assert!(matches!(long, Err(Unread::TooLarge)), "{long:?}");
        let silent = bodies.read(silent(MIB)).await;
        assert!(matches!(silent, Err(Unread::TooSlow)), "{silent:?}");
        assert_eq!(bodies.room.available_permits(), MIB / UNIT);
    }

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
