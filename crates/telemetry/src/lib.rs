//! Logs, traces, and where a node can be asked how it is.
//!
//! [`init`] sets up structured logs and, when an OTLP endpoint is configured,
//! the export of traces. [`inject`], [`extract`], [`child_of`] and [`link`]
//! carry a W3C trace context over the bus, from a task to the gradient step
//! that used its samples.
//!
//! This crate deliberately knows nothing of the bus, of runs or of roles, and
//! it never decides what is worth recording: what is counted comes from whoever
//! has an [`endpoint`]. A run's own numbers are in its folder, one line a step.
//!
//! Invariants:
//! - without an endpoint nothing leaves the process and spans cost only what
//!   the log filter lets through;
//! - a collector that is slow, wrong or gone never blocks the work: spans are
//!   batched on a thread of their own and dropped when the queue is full.

pub mod endpoint;
mod init;
mod line;
mod propagation;

pub use init::{Error, Guard, Options, check_level, init};
pub use propagation::{TraceContext, child_of, extract, inject, inject_from, link};
