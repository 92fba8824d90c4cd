//! The journal of requests: what each reserved, and how it ended.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use crate::ledger::Amount;

/// Writes an entry where it outlives the process.
pub type Journal = Box<dyn FnMut(&Entry) -> io::Result<()> + Send>;

/// A line of the journal. Problem and number name the answer that is asked for; of one answer only one request is under way
/// at a time. In the journal of a run, a task stands in place of the problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The problem.
    pub problem: String,
    /// Number of the answer to the problem.
    pub number: u32,
    /// Number of the request for this answer in this session, from 1.
    pub attempt: u32,
    /// The event.
    pub event: Event,
    /// The most that the request may cost, or what it cost.
    #[serde(flatten)]
    pub amount: Amount,
    /// True if the cost is not known, and the most that the request could cost counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub assumed: bool,
    /// Time since the first request of all sessions, without the time between sessions.
    pub elapsed_ms: u64,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The words of the server or the system about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// The model that answered, as the server names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<String>,
}

/// Events of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// It is about to be sent.
    Reserved,
    /// It was answered.
    Answered,
    /// It failed.
    Failed,
}

/// Reasons for which a request fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// There was no connection.
    Connection,
    /// No byte of an answer came in time.
    FirstByte,
    /// The answer stopped for too long.
    Idle,
    /// The whole answer took too long.
    Whole,
    /// The answer ended in the middle.
    Cut,
    /// The answer is not what the format says.
    Malformed,
    /// It is longer than any answer.
    TooLong,
    /// The server has too many requests (429).
    RateLimited,
    /// The server failed (5xx, 408).
    Server,
    /// The server refused the request (other codes).
    Refused,
    /// The server refused the key (401, 403), or has no such model or address (404).
    Denied,
    /// The budget has no room for the request.
    Budget,
}

impl Reason {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Connection => "connection",
            Reason::FirstByte => "first_byte",
            Reason::Idle => "idle",
            Reason::Whole => "whole",
            Reason::Cut => "cut",
            Reason::Malformed => "malformed",
            Reason::TooLong => "too_long",
            Reason::RateLimited => "rate_limited",
            Reason::Server => "server",
            Reason::Refused => "refused",
            Reason::Denied => "denied",
            Reason::Budget => "budget",
        }
    }

    /// True if the same request may succeed later.
    pub fn is_passing(self) -> bool {
        match self {
            Reason::Connection
            | Reason::FirstByte
            | Reason::Idle
            | Reason::Whole
            | Reason::Cut
            | Reason::Malformed
            | Reason::RateLimited
            | Reason::Server => true,
            Reason::TooLong | Reason::Refused | Reason::Denied | Reason::Budget => false,
        }
    }
}

/// Requests, tokens, costs and time of a journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spending {
    /// Requests that were sent.
    pub requests: u64,
    /// Of these, requests without an answer.
    pub failed: u64,
    /// Of these, requests whose cost is not known: they count with the most that they could cost.
    pub assumed: u64,
    /// Tokens and cost.
    #[serde(flatten)]
    pub amount: Amount,
    /// Time from the first to the last request of each session, added up.
    pub elapsed_ms: u64,
}

impl Spending {
    /// The sum of a journal. A request without an end, of a process that was killed or stopped, counts with all that it
    /// reserved.
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut account = Account::default();
        for entry in entries {
            account.add(entry);
        }
        account.all()
    }

    fn lose(&mut self, reserved: Amount) {
        self.amount = self.amount.plus(reserved);
        self.failed += 1;
        self.assumed += 1;
    }
}

/// The sum of a journal that is being written.
#[derive(Debug, Clone, Default)]
pub struct Account {
    ended: Spending,
    /// The reservations of requests under way.
    open: BTreeMap<(String, u32), Amount>,
}

impl Account {
    /// An account that goes on after earlier sessions, of whose requests none is under way any more.
    pub fn after(before: Spending) -> Self {
        Self {
            ended: before,
            open: BTreeMap::new(),
        }
    }

    /// Adds the next entry.
    pub fn add(&mut self, entry: &Entry) {
        let spending = &mut self.ended;
        spending.elapsed_ms = spending.elapsed_ms.max(entry.elapsed_ms);
        let key = (entry.problem.clone(), entry.number);
        match entry.event {
            Event::Reserved => {
                spending.requests += 1;
                if let Some(lost) = self.open.insert(key, entry.amount) {
                    spending.lose(lost);
                }
            }
            Event::Answered | Event::Failed => {
                // The budget refuses requests before they are reserved. Such an entry ends no request, also not one that an
                // earlier session left open.
                let is_refusal = entry.reason == Some(Reason::Budget) && !entry.assumed;
                if is_refusal || self.open.remove(&key).is_none() {
                    return;
                }
                spending.amount = spending.amount.plus(entry.amount);
                spending.failed += u64::from(entry.event == Event::Failed);
                spending.assumed += u64::from(entry.assumed);
            }
        }
    }

    /// The sum without what the requests under way may cost.
    pub fn ended(&self) -> Spending {
        self.ended
    }

    /// The sum if the requests under way never end: they count with all that they reserved.
    pub fn all(&self) -> Spending {
        let mut all = self.ended;
        for lost in self.open.values() {
            all.lose(*lost);
        }
        all
    }
}
