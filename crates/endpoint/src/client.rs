//! The client: repetitions of requests, and their budget.

use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use flopsmith_config::Endpoint;
use flopsmith_config::endpoint::seconds;
use flopsmith_protocol::Sampling;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::access::{Access, Gate};
use crate::backoff;
use crate::error::Error;
use crate::failure::Failure;
use crate::journal::{Entry, Event, Journal, Reason, Spending};
use crate::key::Key;
use crate::ledger::{Amount, Ledger, Limit, Limits, Refusal, Reservation};
use crate::repetition::{Pace, Repetition};
use crate::sending::{Route, Sender};
use crate::wire::{self, Answered, Usage};

mod adapters;
mod draws;

pub use draws::{Draw, Drawn, Prompt};

/// Longest words of a server that are kept, characters.
const LONGEST_WORDS: usize = 300;
/// Tokens that a server's chat template may add to a prompt.
const TEMPLATE_TOKENS: u64 = 512;

/// A request for one answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// The problem, or a task.
    pub problem: String,
    /// Number of the answer to it.
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

/// The books: what is spent and reserved, and the journal of it.
struct Books {
    ledger: Ledger,
    journal: Journal,
}

/// Takes the repetitions that a user should know of, before each wait.
pub type Tell = Box<dyn Fn(&Repetition) + Send + Sync>;

/// A client of one endpoint.
pub struct Client {
    sender: Sender,
    endpoint: Endpoint,
    sampling: Sampling,
    books: Mutex<Books>,
    access: Mutex<Access>,
    /// A request has ended, and others may begin now.
    settled: Notify,
    began: Instant,
    elapsed_before: Duration,
    tell: Option<Tell>,
    pace: Mutex<Pace>,
}

/// A request that is sent until it is answered.
struct Wanted<'a> {
    /// The problem, or a task.
    problem: &'a str,
    /// Number of the answer to it.
    number: u32,
    route: Route,
    body: Bytes,
    /// The most that it can cost.
    most: Amount,
}

/// A request under way. It leaves when it is dropped.
struct Entered<'a>(&'a Client);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        locked(&self.0.access).leave();
        self.0.settled.notify_waiters();
    }
}

/// The reservation of a request under way. Where its future is dropped, all of it counts as spent, as its entry in the journal says, and
/// requests that wait for room learn of it.
struct Held<'a> {
    client: &'a Client,
    reservation: Option<Reservation>,
}

impl Held<'_> {
    fn amount(&self) -> Amount {
        let reservation = self.reservation.as_ref();
        reservation.map_or(Amount::NOTHING, Reservation::amount)
    }

    /// Replaces the reservation by what the request cost.
    fn settle(mut self, entry: &Entry) -> Result<(), Error> {
        let written = {
            let mut books = self.client.books();
            if let Some(reservation) = self.reservation.take() {
                books.ledger.settle(reservation, entry.amount);
            }
            (books.journal)(entry)
        };
        self.client.settled.notify_waiters();
        written.map_err(Error::Journal)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            let amount = reservation.amount();
            self.client.books().ledger.settle(reservation, amount);
            self.client.settled.notify_waiters();
        }
    }
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
        Self::with_key(endpoint, Key::of(endpoint)?, sampling, before, journal)
    }

    pub(crate) fn with_key(
        endpoint: &Endpoint,
        key: Option<Key>,
        sampling: &Sampling,
        before: &Spending,
        journal: Journal,
    ) -> Result<Self, Error> {
        let limits = Limits {
            money: endpoint.budget.money,
            tokens: endpoint.budget.tokens,
        };
        Ok(Self {
            sender: Sender::new(endpoint, key)?,
            endpoint: endpoint.clone(),
            sampling: sampling.clone(),
            books: Mutex::new(Books {
                ledger: Ledger::new(limits, before.amount),
                journal,
            }),
            access: Mutex::new(Access::new(before.requests > before.failed)),
            settled: Notify::new(),
            began: Instant::now(),
            elapsed_before: Duration::from_millis(before.elapsed_ms),
            tell: None,
            pace: Mutex::default(),
        })
    }

    /// Tells repetitions by `tell`: of failures that go on some, not each.
    #[must_use]
    pub fn telling(self, tell: Tell) -> Self {
        Self {
            tell: Some(tell),
            ..self
        }
    }

    /// True if the key would go through the network unencrypted.
    pub fn shows_key(&self) -> bool {
        self.sender.shows_key()
    }

    /// True if the server has refused the key, or has no such model, and has answered no request: every request would fail.
    pub fn is_denied(&self) -> bool {
        locked(&self.access).is_closed()
    }

    /// True once the server has answered a request of this session.
    pub fn has_answered(&self) -> bool {
        locked(&self.access).has_answered()
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
        let mut waiting = asks.into_iter();
        let mut ending = FuturesUnordered::new();
        loop {
            while ending.len() < self.endpoint.concurrency
                && let Some(ask) = waiting.next()
            {
                ending.push(self.ask_with(ask));
            }
            let Some((ask, reply)) = ending.next().await else {
                return;
            };
            if on(ask, reply).is_break() {
                return;
            }
        }
    }

    async fn ask_with(&self, ask: Ask) -> (Ask, Result<Reply, Error>) {
        let reply = self.ask(&ask).await;
        (ask, reply)
    }

    /// Asks for one answer.
    ///
    /// # Errors
    /// The request failed for good, or the budget has no room for it.
    pub async fn ask(&self, ask: &Ask) -> Result<Reply, Error> {
        let body = wire::body(&self.endpoint, &self.sampling, &ask.prompt, ask.seed);
        // A token is at least one byte long.
        let input = (ask.prompt.len() as u64).saturating_add(TEMPLATE_TOKENS);
        let wanted = Wanted {
            problem: &ask.problem,
            number: ask.number,
            route: Route::Chat,
            body: Bytes::from(body.map_err(Error::Body)?),
            most: self.most(input, self.sampling.max_tokens),
        };
        let (answered, amount) = self.send(&wanted).await?;
        Ok(Reply {
            text: answered.text,
            finished: answered.finished,
            amount,
        })
    }

    /// Sends a request, once it may begin, until it is answered or has failed for good.
    async fn send(&self, wanted: &Wanted<'_>) -> Result<(Answered, Amount), Error> {
        let _entered = self.enter().await?;
        let answered = self.repeat(wanted).await;
        if answered.is_ok() {
            locked(&self.access).answer();
        }
        answered
    }

    /// Waits until a request may begin.
    async fn enter(&self) -> Result<Entered<'_>, Error> {
        loop {
            // Before the look at the gate: an end after it wakes this task.
            let settled = self.settled.notified();
            let gate = locked(&self.access).enter();
            match gate {
                Gate::Open => return Ok(Entered(self)),
                Gate::Closed => return Err(Error::Denied),
                // A request under way ends in time, so this wait does.
                Gate::Wait => settled.await,
            }
        }
    }

    /// Sends a request until it is answered or has failed for good.
    async fn repeat(&self, wanted: &Wanted<'_>) -> Result<(Answered, Amount), Error> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let (held, left) = self.reserve(wanted, attempt).await?;
            let whole = seconds(self.endpoint.timeouts.whole_seconds);
            let limit = left.map_or(whole, |left| left.min(whole));
            let sent = self.sender.send(wanted.route, wanted.body.clone());
            let ended = match timeout(limit, sent).await {
                Ok(ended) => ended,
                Err(_) if limit < whole => Err(Failure::costly(Reason::Budget, "its time is up")),
                Err(_) => Err(Failure::costly(
                    Reason::Whole,
                    format!("the answer was not there after {} s", limit.as_secs_f64()),
                )),
            };
            let failure = match ended {
                Ok(answered) => return self.answered(wanted, attempt, held, answered),
                Err(failure) => self.failed(wanted, attempt, held, failure)?,
            };
            if failure.reason == Reason::Budget {
                return Err(Error::Budget("time"));
            }
            if failure.reason == Reason::Denied {
                locked(&self.access).refuse(failure.of_key);
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
            self.tell(&Repetition {
                problem: wanted.problem.to_owned(),
                number: wanted.number,
                attempt,
                reason: failure.reason,
                words: failure.words,
                wait,
                left: retries.most + 1 - attempt,
            });
            sleep(wait).await;
        }
    }

    fn tell(&self, repetition: &Repetition) {
        let Some(tell) = &self.tell else {
            return;
        };
        let (now, reason) = (self.began.elapsed(), repetition.reason);
        let due = locked(&self.pace).is_due(now, reason, repetition.attempt);
        if due {
            tell(repetition);
        }
    }

    /// The most that a request with a prompt of so many tokens can cost.
    fn most(&self, input: u64, max_tokens: u32) -> Amount {
        Amount::of(input, u64::from(max_tokens), self.endpoint.price)
    }

    /// Reserves the most that a request may cost; waits while requests under way leave no room for it. Returns the time that
    /// the budget leaves, too.
    async fn reserve(
        &self,
        wanted: &Wanted<'_>,
        attempt: u32,
    ) -> Result<(Held<'_>, Option<Duration>), Error> {
        let most = wanted.most;
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
                            let entry = self.entry(wanted, attempt, Event::Reserved, most);
                            let written = (books.journal)(&entry);
                            // Its end needs the books.
                            drop(books);
                            let held = Held {
                                client: self,
                                reservation: Some(reservation),
                            };
                            return written.map(|()| (held, left)).map_err(Error::Journal);
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
                ..self.entry(wanted, attempt, Event::Failed, Amount::NOTHING)
            };
            (self.books().journal)(&entry).map_err(Error::Journal)?;
            return Err(Error::Budget(budget));
        }
    }

    fn answered(
        &self,
        wanted: &Wanted<'_>,
        attempt: u32,
        held: Held<'_>,
        answered: Answered,
    ) -> Result<(Answered, Amount), Error> {
        let price = self.endpoint.price;
        let counted =
            |usage: Usage| Amount::of(usage.prompt_tokens, usage.completion_tokens, price);
        let amount = answered.usage.map_or(held.amount(), counted);
        let entry = Entry {
            assumed: answered.usage.is_none(),
            served: answered.served.as_deref().map(|served| self.shown(served)),
            ..self.entry(wanted, attempt, Event::Answered, amount)
        };
        held.settle(&entry)?;
        Ok((answered, amount))
    }

    /// Settles a failed request, and returns the failure with words that may be shown.
    fn failed(
        &self,
        wanted: &Wanted<'_>,
        attempt: u32,
        held: Held<'_>,
        failure: Failure,
    ) -> Result<Failure, Error> {
        let words = self.shown(&failure.words);
        let amount = match failure.may_cost {
            true => held.amount(),
            false => Amount::NOTHING,
        };
        let entry = Entry {
            assumed: failure.may_cost,
            reason: Some(failure.reason),
            detail: words.clone(),
            ..self.entry(wanted, attempt, Event::Failed, amount)
        };
        held.settle(&entry)?;
        Ok(Failure { words, ..failure })
    }

    fn entry(&self, wanted: &Wanted<'_>, attempt: u32, event: Event, amount: Amount) -> Entry {
        Entry {
            problem: wanted.problem.to_owned(),
            number: wanted.number,
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
        locked(&self.books)
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
        let hidden = self.sender.without_key(words);
        let line: String = hidden
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .take(LONGEST_WORDS)
            .collect();
        line.trim().to_owned()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
