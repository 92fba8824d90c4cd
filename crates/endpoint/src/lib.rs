//! Asks language models behind endpoints: chat completions in the format of OpenAI, which vLLM, SGLang, llama.cpp's server,
//! `transformers serve` and hosted models speak.
//!
//! [`Client::ask_all`] sends requests, several at a time, repeats those that failed by no fault of theirs, and hands over
//! each answer as it ends. [`Client::draw_all`] does the same for samples that are trained on: token ids and log-probabilities
//! of completions, from a server such as vLLM, which takes adapters at run time ([`Client::load_adapter`]). [`reach()`] finds out
//! beforehand whether the server is there. Decisions without IO are in modules of their own: [`ledger`] (budgets), [`backoff`]
//! (waits), `access` (refusals of everything or of one request), `failure` (statuses), `repetition` (failures that users
//! hear of), [`events`] (streams), [`wire`] (bodies).
//!
//! Left out on purpose: problems and prompts (the caller's), tools, several answers to one request, redirects.
//!
//! Invariants:
//! - the costs that a server may charge never exceed the budget: each request reserves the most that it can cost before it is
//!   sent, and a request whose cost is not known counts with all that it reserved. Only a server that ignores the limit on
//!   tokens can charge more; then no further request is sent;
//! - each reservation and each end of a request is in the journal before anything follows from it, so a process that goes
//!   on after a kill knows what was spent;
//! - no error, message or entry contains the key;
//! - every wait has a limit.

mod access;
mod address;
mod backoff;
mod client;
mod error;
mod events;
mod failure;
mod journal;
mod key;
mod ledger;
mod reach;
mod reading;
mod repetition;
mod sending;
mod wire;

#[cfg(test)]
mod tests;

pub use address::address;
pub use client::{Ask, Client, Draw, Drawn, Prompt, Reply, Tell};
pub use error::Error;
pub use journal::{Account, Entry, Event, Journal, Reason, Spending};
pub use key::Key;
pub use ledger::{Amount, Ledger, Limits};
pub use reach::reach;
pub use repetition::Repetition;
