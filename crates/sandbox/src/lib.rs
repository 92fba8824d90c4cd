//! The jail for untrusted programs.
//!
//! A [`Job`] runs under bubblewrap in namespaces of its own, without network,
//! home, `/proc` or capabilities, behind a system-call allow-list, with limits
//! on time, memory, files, processes and output. There are two kinds of jail:
//! [`Kind::Compile`] sees the host's `/usr` read-only and may start processes,
//! [`Kind::Run`] sees the loader, the C library and what the job names, and may
//! not.
//!
//! This crate does not judge programs, does not measure speed, and is
//! synchronous: a caller that must not block calls it from a thread of its own.
//!
//! Invariants:
//! - what ended a job is an [`Exit`]; that the jail could not be set up is an
//!   [`Error`]. A program can cause only the former, because the channel on
//!   which bubblewrap reports is not in the jail;
//! - nothing of a job outlives [`Child`], nor the process that owns the
//!   [`Sandbox`], however that ends;
//! - a `Sandbox` that gives less than full protection exists only if its
//!   [`Options`] allow that, and [`Sandbox::protection`] says what is missing;
//! - the jailed program is process 1 of its namespace, so a signal that it
//!   sends to itself with the default action is ignored: `abort()` shows as
//!   SIGSEGV.

mod cause;
mod cgroup;
mod child;
mod error;
mod filter;
mod job;
mod launch;
mod limits;
mod place;
mod probe;
mod proc;
mod protection;
mod root;
mod sandbox;
mod slot;

pub use cause::Cause;
pub use child::Child;
pub use error::Error;
pub use job::{Exit, Finished, Job, Kind, Limits, MemoryBound};
pub use limits::{Reduced, Resource};
pub use place::forbids_programs;
pub use protection::{Measure, Protection, State};
pub use sandbox::{Options, Sandbox};
