//! Candidate sources that need no language model: the schedule space, a search over it, and corpora made from it.
//!
//! A schedule is a point in a space of loop nests; rendering it gives a C
//! program that is correct by construction. The space feeds the starter model's
//! corpus and is the classic autotuner that a policy has to beat at the same
//! budget. [`measured`] deals measured programs out to the stages of training. This crate is pure: randomness comes in, nothing is compiled or timed.

pub mod corpus;
pub mod measured;
pub mod schedule;
