//! Logs, traces, and an HTTP endpoint that reports the state of a node.
//!
//! [`init`] sets up structured logs and, when an OTLP endpoint is configured,
//! the export of traces. [`inject`], [`extract`], [`child_of`] and [`link`]
//! carry a W3C trace context over the bus, from a task to the gradient step
//! that used its samples.
//!
//! This crate knows nothing of the bus, of runs or of roles, and it does not decide which events are recorded: the
//! owner of an [`endpoint`] supplies the metrics. A run's own numbers are in its folder, one line per step.
//!
//! Invariants:
//! - Without an endpoint nothing leaves the process, and spans cost only the log lines that the filter admits.
//! - A collector that is slow, wrong or gone never blocks the work: a separate thread sends spans in batches, and spans
//!   are dropped when the queue is full.

pub mod endpoint;
mod init;
mod line;
mod propagation;

pub use init::{Error, Guard, Options, check_level, host_name, init};
pub use propagation::{TraceContext, child_of, extract, inject, inject_from, link};
