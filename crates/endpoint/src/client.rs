//! The client: requests, repetitions, budgets.

use std::error::Error as _;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use chrono::Utc;
use flopsmith_config::Endpoint;
use flopsmith_config::endpoint::seconds;
use flopsmith_protocol::Sampling;
use futures::StreamExt;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Response, StatusCode, Url, redirect};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::backoff;
use crate::events::Events;
use crate::journal::{Entry, Event, Journal, Reason, Spending};
use crate::key::Key;
use crate::ledger::{Amount, Ledger, Limit, Limits, Refusal, Reservation};
use crate::wire::{self, Answered, Assembly, Fault, Usage};

/// The path of chat completions under a base URL.
const PATH: &str = "chat/completions";
/// Longest body of an answer, bytes.
const LONGEST_ANSWER: usize = 16 << 20;
/// Longest body of an error, bytes.
const LONGEST_ERROR: usize = 64 << 10;
/// Longest words of a server that are kept, characters.
const LONGEST_WORDS: usize = 300;
/// Tokens that a server's chat template may add to a prompt.
const TEMPLATE_TOKENS: u64 = 512;

/// A request for one answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// The problem.
    pub problem: String,
    /// Number of the answer to the problem.
    pub number: u32,
    /// The prompt.
    pub prompt: String,
    /// Seed of its draws.
    pub seed: u64,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The text of the model.
    pub text: String,
    /// False if the limit on its tokens cut it off; none if the server does not say.
    pub finished: Option<bool>,
    /// Tokens and cost of the request that was answered.
    pub amount: Amount,
}

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
            Error::Url(_)
            | Error::NoKey(_)
            | Error::BadKey(_)
            | Error::Http(_)
            | Error::Body(_)
            | Error::Journal(_) => None,
        }
    }
}

/// A failed attempt.
#[derive(Debug)]
struct Failure {
    reason: Reason,
    words: String,
    /// The wait that the server asks for.
    asked: Option<Duration>,
    /// True if the server may have worked for it.
    may_cost: bool,
}

impl Failure {
    fn costly(reason: Reason, words: impl Into<String>) -> Self {
        Self {
            reason,
            words: words.into(),
            asked: None,
            may_cost: true,
        }
    }

    fn free(reason: Reason, words: impl Into<String>) -> Self {
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

/// The books: what is spent and reserved, and the journal of it.
struct Books {
    ledger: Ledger,
    journal: Journal,
}

/// A client of one endpoint.
pub struct Client {
    http: reqwest::Client,
    address: Url,
    key: Option<Key>,
    endpoint: Endpoint,
    sampling: Sampling,
    books: Mutex<Books>,
    /// A request has ended, and others may fit now.
    settled: Notify,
    began: Instant,
    elapsed_before: Duration,
    /// The server refuses every request.
    denied: AtomicBool,
}

impl Client {
    /// A client that goes on after `before`, with the key of the environment.
    ///
    /// # Errors
    /// The URL or the key cannot be used.
    pub fn open(
        endpoint: &Endpoint,
        sampling: &Sampling,
        before: &Spending,
        journal: Journal,
    ) -> Result<Self, Error> {
        Self::with_key(endpoint, key(endpoint)?, sampling, before, journal)
    }

    pub(crate) fn with_key(
        endpoint: &Endpoint,
        key: Option<Key>,
        sampling: &Sampling,
        before: &Spending,
        journal: Journal,
    ) -> Result<Self, Error> {
        let address = address(&endpoint.url)?;
        // The TLS client panics if the process has no default crypto provider. An earlier choice stays.
        let _chosen = rustls::crypto::ring::default_provider().install_default();
        let mut http = reqwest::Client::builder()
            .redirect(redirect::Policy::none())
            .referer(false)
            .connect_timeout(seconds(endpoint.timeouts.connect_seconds));
        if is_loopback(&address) {
            http = http.no_proxy();
        }
        let limits = Limits {
            money: endpoint.budget.money,
            tokens: endpoint.budget.tokens,
        };
        Ok(Self {
            http: http.build().map_err(Error::Http)?,
            address,
            key,
            endpoint: endpoint.clone(),
            sampling: sampling.clone(),
            books: Mutex::new(Books {
                ledger: Ledger::new(limits, before.amount),
                journal,
            }),
            settled: Notify::new(),
            began: Instant::now(),
            elapsed_before: Duration::from_millis(before.elapsed_ms),
            denied: AtomicBool::new(false),
        })
    }

    /// True if the key would go through the network unencrypted.
    pub fn shows_key(&self) -> bool {
        self.key.is_some() && self.address.scheme() == "http" && !is_loopback(&self.address)
    }

    /// True if the server has refused the key, or has no such model: every request would fail.
    pub fn is_denied(&self) -> bool {
        self.denied.load(Ordering::Relaxed)
    }

    /// Tokens and cost of all requests so far.
    pub fn spent(&self) -> Amount {
        self.books().ledger.spent()
    }

    /// Asks for all answers, as many at a time as the endpoint permits, and hands over each as it ends, until `on` breaks.
    /// A request that is under way then, or when the future is dropped, counts with all that it reserved.
    pub async fn ask_all<F>(&self, asks: Vec<Ask>, mut on: F)
    where
        F: FnMut(Ask, Result<Reply, Error>) -> ControlFlow<()>,
    {
        let mut ending = futures::stream::iter(asks)
            .map(|ask| async move {
                let reply = self.ask(&ask).await;
                (ask, reply)
            })
            .buffer_unordered(self.endpoint.concurrency);
        while let Some((ask, reply)) = ending.next().await {
            if on(ask, reply).is_break() {
                return;
            }
        }
    }

    /// Asks for one answer.
    ///
    /// # Errors
    /// The request failed for good, or the budget has no room for it.
    pub async fn ask(&self, ask: &Ask) -> Result<Reply, Error> {
        let body = wire::body(&self.endpoint, &self.sampling, &ask.prompt, ask.seed);
        let body = Bytes::from(body.map_err(Error::Body)?);
        let most = self.most(&ask.prompt);
        let mut attempt = 0;
        loop {
            attempt += 1;
            if self.is_denied() {
                return Err(Error::Failed {
                    reason: Reason::Denied,
                    words: "the endpoint refused an earlier request".to_owned(),
                    attempts: attempt - 1,
                });
            }
            let (reservation, left) = self.reserve(ask, attempt, most).await?;
            let whole = seconds(self.endpoint.timeouts.whole_seconds);
            let limit = left.map_or(whole, |left| left.min(whole));
            let ended = match timeout(limit, self.send(body.clone())).await {
                Ok(ended) => ended,
                Err(_) if limit < whole => Err(Failure::costly(Reason::Budget, "its time is up")),
                Err(_) => Err(Failure::costly(
                    Reason::Whole,
                    format!("the answer was not there after {} s", limit.as_secs_f64()),
                )),
            };
            let failure = match ended {
                Ok(answered) => return self.answered(ask, attempt, reservation, answered),
                Err(failure) => self.failed(ask, attempt, reservation, failure)?,
            };
            if failure.reason == Reason::Budget {
                return Err(Error::Budget("time"));
            }
            if failure.reason == Reason::Denied {
                self.denied.store(true, Ordering::Relaxed);
            }
            let final_error = |words| Error::Failed {
                reason: failure.reason,
                words,
                attempts: attempt,
            };
            let retries = &self.endpoint.retries;
            if !failure.reason.is_passing() || attempt > retries.most {
                return Err(final_error(failure.words));
            }
            let Some(wait) = backoff::wait(retries, attempt, failure.asked, rand::random()) else {
                let asked = failure.asked.unwrap_or_default().as_secs();
                return Err(final_error(format!(
                    "{}; the server asks for a wait of {asked} s",
                    failure.words
                )));
            };
            if self.left().is_some_and(|left| wait >= left) {
                return Err(Error::Budget("time"));
            }
            sleep(wait).await;
        }
    }

    /// The most that a request for this prompt can cost. A token is at least one byte long.
    fn most(&self, prompt: &str) -> Amount {
        let input = (prompt.len() as u64).saturating_add(TEMPLATE_TOKENS);
        let output = u64::from(self.sampling.max_tokens);
        Amount::of(input, output, self.endpoint.price)
    }

    /// Reserves the most that a request may cost; waits while requests under way leave no room for it. Returns the time that
    /// the budget leaves, too.
    async fn reserve(
        &self,
        ask: &Ask,
        attempt: u32,
        most: Amount,
    ) -> Result<(Reservation, Option<Duration>), Error> {
        loop {
            // Before the look into the books: a settlement after it wakes this task.
            let settled = self.settled.notified();
            let left = self.left();
            let refused = match left {
                Some(left) if left.is_zero() => Some("time"),
                _ => {
                    let mut books = self.books();
                    match books.ledger.reserve(most) {
                        Ok(reservation) => {
                            let entry = self.entry(ask, attempt, Event::Reserved, most);
                            (books.journal)(&entry).map_err(Error::Journal)?;
                            return Ok((reservation, left));
                        }
                        Err(Refusal::Later) => None,
                        Err(Refusal::Never(Limit::Money)) => Some("money"),
                        Err(Refusal::Never(Limit::Tokens)) => Some("tokens"),
                    }
                }
            };
            let Some(budget) = refused else {
                // A request under way ends in time, so this wait does.
                settled.await;
                continue;
            };
            let entry = Entry {
                reason: Some(Reason::Budget),
                detail: format!("the budget in {budget} has no room for another request"),
                ..self.entry(ask, attempt, Event::Failed, Amount::NOTHING)
            };
            (self.books().journal)(&entry).map_err(Error::Journal)?;
            return Err(Error::Budget(budget));
        }
    }

    fn answered(
        &self,
        ask: &Ask,
        attempt: u32,
        reservation: Reservation,
        answered: Answered,
    ) -> Result<Reply, Error> {
        let price = self.endpoint.price;
        let counted =
            |usage: Usage| Amount::of(usage.prompt_tokens, usage.completion_tokens, price);
        let amount = answered.usage.map_or(reservation.amount(), counted);
        let entry = Entry {
            assumed: answered.usage.is_none(),
            served: answered.served.map(|served| self.shown(&served)),
            ..self.entry(ask, attempt, Event::Answered, amount)
        };
        self.settle(reservation, &entry)?;
        Ok(Reply {
            text: answered.text,
            finished: answered.finished,
            amount,
        })
    }

    /// Settles a failed request, and returns the failure with words that may be shown.
    fn failed(
        &self,
        ask: &Ask,
        attempt: u32,
        reservation: Reservation,
        failure: Failure,
    ) -> Result<Failure, Error> {
        let words = self.shown(&failure.words);
        let amount = match failure.may_cost {
            true => reservation.amount(),
            false => Amount::NOTHING,
        };
        let entry = Entry {
            assumed: failure.may_cost,
            reason: Some(failure.reason),
            detail: words.clone(),
            ..self.entry(ask, attempt, Event::Failed, amount)
        };
        self.settle(reservation, &entry)?;
        Ok(Failure { words, ..failure })
    }

    fn settle(&self, reservation: Reservation, entry: &Entry) -> Result<(), Error> {
        let written = {
            let mut books = self.books();
            books.ledger.settle(reservation, entry.amount);
            (books.journal)(entry)
        };
        self.settled.notify_waiters();
        written.map_err(Error::Journal)
    }

    fn entry(&self, ask: &Ask, attempt: u32, event: Event, amount: Amount) -> Entry {
        Entry {
            problem: ask.problem.clone(),
            number: ask.number,
            attempt,
            event,
            amount,
            assumed: false,
            elapsed_ms: u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX),
            reason: None,
            detail: String::new(),
            served: None,
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn elapsed(&self) -> Duration {
        self.elapsed_before + self.began.elapsed()
    }

    /// The time that the budget leaves.
    fn left(&self) -> Option<Duration> {
        let whole = seconds(self.endpoint.budget.seconds?);
        Some(whole.saturating_sub(self.elapsed()))
    }

    /// Words of a server as one short line without the key.
    fn shown(&self, words: &str) -> String {
        let hidden = match &self.key {
            Some(key) => key.hidden(words),
            None => words.to_owned(),
        };
        let line: String = hidden
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .take(LONGEST_WORDS)
            .collect();
        line.trim().to_owned()
    }

    /// Sends a request and reads its answer.
    async fn send(&self, body: Bytes) -> Result<Answered, Failure> {
        let timeouts = &self.endpoint.timeouts;
        let mut request = self
            .http
            .post(self.address.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(body);
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key.header());
        }
        // Without a stream nothing comes before the whole answer is written, and the limit on that ends the wait.
        let first = match self.endpoint.stream {
            true => seconds(timeouts.first_byte_seconds),
            false => seconds(timeouts.whole_seconds * 2.0),
        };
        let begins = Instant::now() + first;
        let late = || {
            let words = format!("no byte of an answer after {} s", first.as_secs_f64());
            Failure::costly(Reason::FirstByte, words)
        };
        let response = match timeout_at(begins, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_connect() => {
                return Err(Failure::free(Reason::Connection, chain(error)));
            }
            Ok(Err(error)) => return Err(Failure::costly(Reason::Cut, chain(error))),
            Err(_) => return Err(late()),
        };
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let mut body = Body {
            response,
            idle: seconds(timeouts.idle_seconds),
            limit: Some(begins),
            length: 0,
        };
        match is_stream(body.response.headers()) {
            true => streamed(&mut body, late).await,
            false => whole(&mut body, late).await,
        }
    }

    /// The failure that an error of the server tells.
    async fn refused(&self, response: Response) -> Failure {
        let status = response.status();
        let asked = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| backoff::retry_after(value, Utc::now()));
        let reason = match status {
            StatusCode::TOO_MANY_REQUESTS => Reason::RateLimited,
            StatusCode::REQUEST_TIMEOUT => Reason::Server,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => {
                Reason::Denied
            }
            _ if status.is_server_error() => Reason::Server,
            _ => Reason::Refused,
        };
        let idle = seconds(self.endpoint.timeouts.idle_seconds);
        let said = timeout(idle, beginning(response)).await.unwrap_or_default();
        let said = match serde_json::from_str(&said) {
            Ok(error) => wire::message(&error),
            Err(_) => said,
        };
        let mut words = format!("the server answers {}: {said}", status.as_u16());
        if status.is_redirection() {
            words = format!(
                "the server answers {}, a redirection; name its new address as the URL",
                status.as_u16()
            );
        }
        Failure {
            asked,
            ..Failure::free(reason, words)
        }
    }
}

/// The body of an answer.
struct Body {
    response: Response,
    idle: Duration,
    /// Before the first piece: when it must be there.
    limit: Option<Instant>,
    length: usize,
}

impl Body {
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
async fn beginning(mut response: Response) -> String {
    let mut bytes = Vec::new();
    while let Ok(Some(piece)) = response.chunk().await {
        bytes.extend_from_slice(&piece);
        if bytes.len() > LONGEST_ERROR {
            bytes.truncate(LONGEST_ERROR);
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().starts_with("text/event-stream"))
}

/// An error of a request with its causes, without the URL.
fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}

/// The address of chat completions under a base URL.
///
/// # Errors
/// It is no HTTP URL, or holds more than host and path.
pub fn address(base: &str) -> Result<Url, Error> {
    let url = Url::parse(base.trim()).map_err(|e| Error::Url(e.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        let why = "it must begin with http:// or https:// and name a host";
        return Err(Error::Url(why.to_owned()));
    }
    // The message does not repeat them.
    if !url.username().is_empty() || url.password().is_some() {
        let why = "it holds a user name or a password; name the environment variable of a key";
        return Err(Error::Url(why.to_owned()));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(Error::Url("it has a query or a fragment".to_owned()));
    }
    let text = url.as_str().trim_end_matches('/');
    let whole = match text.ends_with(PATH) {
        true => text.to_owned(),
        false => format!("{text}/{PATH}"),
    };
    Url::parse(&whole).map_err(|e| Error::Url(e.to_string()))
}

/// The key that the endpoint names, from the environment.
///
/// # Errors
/// The variable is not set, or holds no key.
pub fn key(endpoint: &Endpoint) -> Result<Option<Key>, Error> {
    let Some(variable) = &endpoint.key else {
        return Ok(None);
    };
    match std::env::var(variable) {
        Ok(text) if text.trim().is_empty() => Err(Error::NoKey(variable.clone())),
        Ok(text) => match Key::new(&text) {
            Some(key) => Ok(Some(key)),
            None => Err(Error::BadKey(variable.clone())),
        },
        Err(std::env::VarError::NotPresent) => Err(Error::NoKey(variable.clone())),
        Err(std::env::VarError::NotUnicode(_)) => Err(Error::BadKey(variable.clone())),
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let inner = host.trim_start_matches('[').trim_end_matches(']');
    let address = inner.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}
