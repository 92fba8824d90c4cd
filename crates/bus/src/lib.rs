//! The message bus: work queues, logs, dead letters, key-value buckets and the private server of a local run. No other
//! crate uses async-nats.
//!
//! [`Server`] runs a private nats-server for a run on one machine. [`Bus`] connects to that server or to a cluster's
//! server, publishes messages ([`Bus::publish`]), gives out work ([`Bus::worker`]), reads logs ([`Bus::log`]) and keeps
//! small values that are fenced by revisions ([`Bus::kv`]).
//!
//! The crate makes no decision about a run. `flopsmith-coordination` decides when a message is given out again and when
//! it becomes a dead letter; `flopsmith-archive` decides which tasks a run has. The bus only carries messages to
//! processes that can work on them. Large data does not travel on the bus; the artifact store keeps it.
//!
//! Invariants:
//! - A message that [`Bus::publish`] confirmed is stored, also if this process or the server is killed the moment
//!   after.
//! - A message id that is published twice within the dedupe window is stored once, and a [`LogReader`] returns an id
//!   once however often the id is stored.
//! - A [`Worker`] never holds more messages than it has slots, so no message waits behind another while its
//!   acknowledgement timer runs.
//! - A message leaves its queue only by [`Delivery::done`] or by a copy among the dead letters. After any other end of
//!   its worker the server gives the message out again.
//! - Bytes that are no message never reach a role; they become dead letters.

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

pub use connect::{Auth, Bus, Options, Tls, public};
pub use dead::{DeadLetter, DeadLetters};
pub use delivery::Delivery;
pub use error::{Error, Result};
pub use flopsmith_coordination::delivery::{Backoff, ErrorClass};
pub use flopsmith_telemetry::{TraceContext, link};
pub use key::Key;
pub use kv::{Change, Entry, Kv, Watch};
pub use log::{LogEntry, LogReader, Unreadable};
pub use publish::Published;
pub use refused::refusals;
pub use server::{Server, ServerOptions, Sync};
pub use streams::{QueueState, RunSetup, Stored, stream};
pub use worker::{Worker, WorkerOptions, durable};
