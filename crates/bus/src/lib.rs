//! The message bus: work queues, logs, dead letters, key-value buckets and the
//! private server of a local run. The only crate that knows async-nats.
//!
//! [`Server`] runs a private nats-server for a run on one machine. [`Bus`]
//! connects to that one or to a cluster's, publishes messages ([`Bus::publish`]),
//! gives out work ([`Bus::worker`]), reads logs ([`Bus::log`]) and keeps small
//! fenced values ([`Bus::kv`]).
//!
//! It deliberately decides nothing about a run: not what is tried again and how
//! often the model samples, only how a message reaches somebody who can work on
//! it. Large things do not travel here; they go to the artifact store.
//!
//! Invariants:
//! - a message that [`Bus::publish`] confirmed is stored, also when this process
//!   or the server is killed the moment after;
//! - the same message id published twice within the dedupe window is stored once,
//!   and a [`LogReader`] returns an id once however often it is stored;
//! - a [`Worker`] never holds more messages than it has slots, so no message
//!   waits behind another with its acknowledgement timer running;
//! - a message leaves its queue only by [`Delivery::done`] or by a copy among the
//!   dead letters; whatever else happens to its worker, it is given out again;
//! - bytes that are no message never reach a role: they become dead letters.

mod acknowledge;
mod backoff;
mod binary;
mod connect;
mod dead;
mod delivery;
mod error;
mod failures;
mod key;
mod kv;
mod log;
mod publish;
mod pull;
mod refused;
mod scan;
pub mod server;
mod streams;
mod take;
mod worker;

pub use backoff::{Backoff, ErrorClass};
pub use connect::{Auth, Bus, Options, Tls, public};
pub use dead::{DeadLetter, DeadLetters};
pub use delivery::Delivery;
pub use error::{Error, Result};
pub use flopsmith_telemetry::{TraceContext, link};
pub use key::Key;
pub use kv::{Change, Entry, Kv, Watch};
pub use log::{LogEntry, LogReader, Unreadable};
pub use publish::Published;
pub use refused::refusals;
pub use server::{Server, ServerOptions, Sync};
pub use streams::{QueueState, RunSetup, Stored, stream};
pub use worker::{Worker, WorkerOptions, durable};
