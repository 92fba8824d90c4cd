//! The jail for untrusted programs.
//!
//! A [`Job`] runs under bubblewrap in namespaces of its own, without network, home, `/proc` or capabilities, behind a
//! system-call allow-list, with limits on time, memory, files, processes and output. There are two kinds of jail.
//! [`Kind::Compile`] shows the host's `/usr` read-only and permits processes. [`Kind::Run`] shows the loader, the C
//! library and the files that the job names, and permits no further processes. [`Kind::Fork`] is a run jail whose program,
//! one of ours, may fork copies of itself that then accept the filter of a run jail.
//!
//! This crate does not judge programs and does not measure speed. It is synchronous: a caller that must not block calls
//! it from a separate thread.
//!
//! Invariants:
//! - The end of a job is reported as an [`Exit`], a failed set-up of the jail as an [`Error`]. A program can cause only
//!   the former, because the channel on which bubblewrap reports is not in the jail.
//! - Nothing of a job outlives its [`Child`] or the process that owns the [`Sandbox`], however that process ends.
//! - A `Sandbox` with less than full protection exists only if its [`Options`] permit that, and [`Sandbox::protection`]
//!   says which measures are missing.
//! - The jailed program is process 1 of its namespace, so the kernel ignores a signal that the program sends to itself
//!   with the default action: `abort()` shows as SIGSEGV.

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
pub use proc::cpu_time;
pub use protection::{Measure, Protection, State};
pub use sandbox::{Options, Sandbox};
