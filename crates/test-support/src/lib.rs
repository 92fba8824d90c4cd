//! Messages for the tests of the other crates: tasks, candidates, measurements, verdicts, outcomes.
//!
//! Each has many fields, and a test is about one or two of them. What is made here fits together (one run, one problem,
//! one machine), and a test says only what it is about: by struct update, or for measurements by [`Measured`].
//! Beside them, [`mutate`] breaks whatever is real, for parsers that have to bear it, [`traces`] counts what jobs may
//! leave behind, [`sample`] says which of many cases a commit tries, and [`skipped`] what cannot be tried here.
//!
//! It is a dev-dependency and part of no product. The unit tests of `protocol` cannot use it: they are compiled with a
//! `protocol` of their own, whose types are others than those here.

mod candidate;
mod ids;
mod machine;
mod measured;
pub mod mutate;
mod outcome;
pub mod sample;
mod skip;
pub mod traces;

pub use candidate::{candidate, remeasured, sample_of, task};
pub use ids::{machine_class, node_id, problem_id, run_id};
pub use machine::{ATTESTED, PEAK_GFLOPS, machine};
pub use measured::{Measured, measured};
pub use outcome::{again, first, infrastructure, outcome, rejected, rollout, unknown, wrong};
pub use skip::skipped;
