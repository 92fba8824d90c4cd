//! Reads answers: whole ones, streams, and errors.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use tokio::time::{Instant, timeout_at};

use crate::events::Events;
use crate::failure::Failure;
use crate::journal::Reason;
use crate::wire::{Answered, Assembly};

/// Longest body of an answer, bytes.
const LONGEST_ANSWER: usize = 16 << 20;
/// Longest body of an error, bytes.
const LONGEST_ERROR: usize = 64 << 10;

/// The body of an answer.
pub(crate) struct Body {
    response: Response,
    idle: Duration,
    /// Before the first piece: when it must be there.
    limit: Option<Instant>,
    length: usize,
}

impl Body {
    /// The body of a response whose first piece must be there at `limit`. Between two later pieces may be `idle`.
    pub(crate) fn new(response: Response, limit: Instant, idle: Duration) -> Self {
        Self {
            response,
            idle,
            limit: Some(limit),
            length: 0,
        }
    }

    /// The answer in this body. `late` is the failure if its first piece comes too late.
    pub(crate) async fn read(mut self, late: impl Fn() -> Failure) -> Result<Answered, Failure> {
        match is_stream(self.response.headers()) {
            true => streamed(&mut self, late).await,
            false => whole(&mut self, late).await,
        }
    }

    /// The next piece; none at the end.
    async fn next(&mut self, late: impl Fn() -> Failure) -> Result<Option<Bytes>, Failure> {
        let first = self.limit.take();
        let limit = first.unwrap_or_else(|| Instant::now() + self.idle);
        let piece = match timeout_at(limit, self.response.chunk()).await {
            Ok(Ok(piece)) => piece,
            Ok(Err(error)) => return Err(Failure::costly(Reason::Cut, chain(error))),
            Err(_) if first.is_some() => return Err(late()),
            Err(_) => {
                let words = format!(
                    "nothing came for {} s after {} bytes of the answer",
                    self.idle.as_secs_f64(),
                    self.length
                );
                return Err(Failure::costly(Reason::Idle, words));
            }
        };
        self.length += piece.as_ref().map_or(0, Bytes::len);
        match self.length > LONGEST_ANSWER {
            true => Err(too_long()),
            false => Ok(piece),
        }
    }
}

fn too_long() -> Failure {
    let words = format!("the answer is longer than {LONGEST_ANSWER} bytes");
    Failure::costly(Reason::TooLong, words)
}

async fn streamed(body: &mut Body, late: impl Fn() -> Failure) -> Result<Answered, Failure> {
    let mut events = Events::default();
    let mut assembly = Assembly::default();
    while let Some(piece) = body.next(&late).await? {
        for data in events.push(&piece).map_err(|_| too_long())? {
            assembly.add(&data)?;
        }
        if assembly.has_ended() {
            break;
        }
    }
    Ok(assembly.finish(true)?)
}

async fn whole(body: &mut Body, late: impl Fn() -> Failure) -> Result<Answered, Failure> {
    let mut bytes = Vec::new();
    while let Some(piece) = body.next(&late).await? {
        bytes.extend_from_slice(&piece);
    }
    let mut assembly = Assembly::default();
    assembly.add(&String::from_utf8_lossy(&bytes))?;
    Ok(assembly.finish(false)?)
}

/// The beginning of the body of an error.
#[derive(Debug, Default)]
pub(crate) struct Beginning {
    pub text: String,
    /// True if this is the whole body.
    pub is_whole: bool,
}

pub(crate) async fn beginning(mut response: Response) -> Beginning {
    let mut bytes = Vec::new();
    let is_whole = loop {
        match response.chunk().await {
            Ok(Some(piece)) => bytes.extend_from_slice(&piece),
            Ok(None) => break true,
            Err(_) => break false,
        }
        if bytes.len() > LONGEST_ERROR {
            bytes.truncate(LONGEST_ERROR);
            break false;
        }
    };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Beginning { text, is_whole }
}

fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().starts_with("text/event-stream"))
}

/// An error of a request with its causes, without the URL.
pub(crate) fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}
