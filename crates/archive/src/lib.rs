//! Staged Quality-Diversity: chooses the techniques to train on next, and keeps the best programs for every set of
//! techniques.
//!
//! The published work names Staged Quality-Diversity and says that it varies
//! the permitted techniques problem by problem; stages, cells and rules as
//! they stand here are our own.
//!
//! - [`Archive`]: cells, one per set of *detected* techniques, each
//!   with a few elites and counts;
//! - [`Sqd`]: the stages of one problem on one machine class, task choice and
//!   re-measurement: events in, effects out;
//! - [`Config`]: the rules, checked once;
//! - [`mix`]: which problems the tasks of a step are for, in a run over many;
//! - [`Fastest`]: the fastest program of a run so far, for all displays of it;
//! - [`identity`]: when two sources are the same program text.
//!
//! This crate does no IO, reads no clock, and draws random numbers only from seeds it is given. It neither measures nor
//! rewards; it asks its caller to measure again with [`Effect::Remeasure`].
//!
//! Invariants, each with a property test:
//! - an elite is never replaced by one that is slower beyond noise, and none
//!   counts before it was measured a second time;
//! - a source counts once per cell, however often it is written;
//! - every task's permission set belongs to its stage, and a replayed task's
//!   stage is an earlier one;
//! - an outcome that is delivered twice has no second effect;
//! - the same state, step and seed give the same tasks.

mod archive;
mod config;
mod draw;
mod elite;
mod failures;
mod fastest;
pub mod identity;
pub mod mix;
mod plan;
mod progress;
mod sqd;

pub use archive::{Archive, Cell, Counts, Inserted, Stats};
pub use config::{Advance, Config, Demote, Error, PermitRule, StageRule};
pub use elite::Elite;
pub use failures::Failed;
pub use fastest::{BestSoFar, Certainty, Claim, Fastest};
pub use plan::Plan;
pub use sqd::{Effect, Pending, Sqd};
