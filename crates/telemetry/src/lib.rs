//! Logs, traces and the metrics file of a run.
//!
//! [`init`] sets up structured logs and, when an OTLP endpoint is configured,
//! the export of traces and metrics. [`inject`], [`extract`], [`child_of`] and
//! [`link`] carry a W3C trace context over the bus, from a task to the gradient
//! step that used its samples. [`MetricsFile`] is a run's `metrics.jsonl`.
//!
//! This crate deliberately knows nothing of the bus, of runs or of roles, and
//! it never decides what is worth recording.
//!
//! Invariants:
//! - without an endpoint nothing leaves the process and spans cost only what
//!   the log filter lets through;
//! - a collector that is slow, wrong or gone never blocks the work: spans are
//!   batched on a thread of their own and dropped when the queue is full;
//! - a line of the metrics file is written by one system call, and a line torn
//!   by a crash is cut off when the file is opened again.

mod init;
mod metrics_file;
mod propagation;

pub use init::{Error, Guard, Options, init, meter};
pub use metrics_file::{Error as MetricsFileError, MetricsFile};
pub use propagation::{TraceContext, child_of, extract, inject, inject_from, link};
