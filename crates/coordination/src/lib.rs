//! The decisions of the distributed protocol: who holds a lease, which of several equal programs is evaluated, when a
//! message is tried again, when a step is complete.
//!
//! `flopsmith-bus` and `flopsmith-actors` perform what these functions decide, with NATS, a clock and threads.
//! `flopsmith-simulation` performs the same decisions in virtual time, under faults. A rule exists once, here.
//!
//! Pure: no IO, no async, no clock, no randomness. A moment is a [`Duration`](std::time::Duration) since an origin of
//! the caller's choice; no decision compares moments of different processes. Ids, programs and states are type
//! parameters, because the simulation has small ones.
//!
//! - [`lease`]: one process at a time has a role, and every state is made from the one before it.
//! - [`duplicates`]: of the candidates with one program, one is evaluated and the others wait for its outcome.
//! - [`delivery`]: how much work a worker takes, and what becomes of a message after a failure.
//! - [`steps`] and [`ledger`]: each outcome counts once; a step is complete when all its outcomes are there.
//! - [`sampling`]: which groups are drawn again.
//! - [`circuit_breaker`]: a node that fails at program after program takes no work for a while.
//! - [`limits`]: how long a process waits for an answer.
//! - [`restart`]: how soon a failed role starts again, and when it is given up.

pub mod circuit_breaker;
pub mod delivery;
pub mod duplicates;
pub mod lease;
pub mod ledger;
pub mod limits;
pub mod restart;
pub mod sampling;
pub mod steps;
