//! The journal of requests: what each reserved, and how it ended.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use crate::ledger::Amount;

/// Writes an entry where it outlives the process.
pub type Journal = Box<dyn FnMut(&Entry) -> io::Result<()> + Send>;

/// A line of the journal. Problem and number name the answer that is asked for; of one answer only one request is under way
/// at a time.
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
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
        let mut spending = Self::default();
        let mut open: BTreeMap<(&str, u32), Amount> = BTreeMap::new();
        for entry in entries {
            spending.elapsed_ms = spending.elapsed_ms.max(entry.elapsed_ms);
            let key = (entry.problem.as_str(), entry.number);
            match entry.event {
                Event::Reserved => {
                    spending.requests += 1;
                    if let Some(lost) = open.insert(key, entry.amount) {
                        spending.lose(lost);
                    }
                }
                Event::Answered | Event::Failed => {
                    // The budget refuses requests before they are reserved.
                    if open.remove(&key).is_none() {
                        continue;
                    }
                    spending.amount = spending.amount.plus(entry.amount);
                    spending.failed += u64::from(entry.event == Event::Failed);
                    spending.assumed += u64::from(entry.assumed);
                }
            }
        }
        for (_, lost) in open {
            spending.lose(lost);
        }
        spending
    }

    fn lose(&mut self, reserved: Amount) {
        self.amount = self.amount.plus(reserved);
        self.failed += 1;
        self.assumed += 1;
    }
}
