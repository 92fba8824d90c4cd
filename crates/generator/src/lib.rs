//! Candidate sources without a language model: the schedule space, a search over it, and corpora made from it.
//!
//! A schedule is a point in a space of loop nests; rendering it gives a C program that is correct by construction. The
//! space supplies the starter model's corpus. It is also the classic autotuner that a policy has to beat at the same
//! budget. [`measured`] distributes measured programs to the stages of training. This crate is pure: the caller passes
//! in randomness, and nothing is compiled or timed.

pub mod corpus;
pub mod measured;
pub mod schedule;
