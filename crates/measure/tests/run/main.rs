//! Verifier and timer against real programs in the real jail: honest ones pass, and each kind of cheat
//! or accident gets its typed reason.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod certification;
mod counters;
mod fixtures;
mod off_clock;
mod soundness;
mod timing;
mod verification;
mod weakness;
mod workloads;
