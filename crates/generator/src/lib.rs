//! The schedule space, its search, parametric templates, corpora of programs, and the splits of measured programs for training.
//!
//! A schedule is a point in a space of loop nests; rendering it gives a C program that is correct by construction. The
//! space supplies the starter model's corpus ([`corpus`]). The source that answers tasks with it is
//! `actors::source::schedule`, the classic autotuner that a policy has to beat at the same budget. [`measured`]
//! distributes measured programs to the stages of training. [`template`] has programs for problems whose loops are not
//! affine, [`parameters`] is the space of a user's own program with named parameters, and [`mutation`] changes such a program
//! without parameters. This crate is pure: the caller passes in randomness, and the crate compiles and times nothing.

pub mod corpus;
pub mod measured;
pub mod mutation;
pub mod parameters;
pub mod schedule;
pub mod template;
