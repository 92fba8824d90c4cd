//! Improvement of programs by programs: a population on islands, and edits of its members.
//!
//! - [`Population`]: what a run has tried, and the elites of each island, from the outcomes of the run's log alone;
//! - [`difference`]: the lines in which two programs differ;
//! - [`edit`]: SEARCH/REPLACE blocks, read from an answer and applied to a program;
//! - [`numbers`]: programs that differ from another one in numbers;
//! - [`conversation`]: the turns of a language model about one program: prompts and answers;
//! - [`results`]: results in words.
//!
//! Left out on purpose: how else a child is made from its parents (the caller's), requests to a model, evaluation.
//!
//! Invariants, each with a test:
//! - no program is a parent before a second measurement confirmed its speed;
//! - an outcome that is reported twice has no second effect, and a population that is made anew from the same outcomes is the
//!   same;
//! - a program is known under every layout and with other comments;
//! - an edit is applied at the one place that it names, or not at all.
//!
//! This crate is pure: no IO, no clock, and randomness comes from the caller.

pub mod conversation;
pub mod difference;
pub mod edit;
pub mod numbers;
mod population;
mod question;
pub mod results;

pub use population::{Known, Parent, Population, Rules};
