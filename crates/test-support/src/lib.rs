//! Messages for the tests of the other crates: tasks, candidates, measurements, verdicts, outcomes.
//!
//! Each message has many fields, and a test is about one or two of them. The messages of this crate fit together (one
//! run, one problem, one machine), and a test names only the fields that it is about: by struct update, or for
//! measurements by [`Measured`]. [`mutate`] makes broken versions of real input, for parsers that have to refuse them.
//! [`traces`] counts the processes, files and memory that jobs leave behind. [`sample`] chooses the cases that a commit
//! tries, [`shipped`] the problems. [`normal()`] draws noise. [`endpoint`] serves answers of a language model by a
//! script, [`client`] asks services, and [`Log`] has what they log. [`skipped`] reports a test that this machine cannot run.
//!
//! The crate is a dev-dependency and part of no product. The unit tests of `protocol` cannot use it: they are compiled
//! with a `protocol` of their own, whose types are others than those here.

mod candidate;
pub mod client;
pub mod endpoint;
mod ids;
mod log;
mod machine;
mod measured;
pub mod mutate;
mod normal;
mod outcome;
pub mod sample;
pub mod shipped;
mod skip;
pub mod traces;

pub use candidate::{candidate, remeasured, sample_of, task};
pub use ids::{machine_class, node_id, problem_id, run_id};
pub use log::Log;
pub use machine::{ATTESTED, PEAK_GFLOPS, machine};
pub use measured::{Measured, measured};
pub use normal::normal;
pub use outcome::{
    again, asked, first, infrastructure, outcome, rejected, rollout, unknown, wrong,
};
pub use skip::skipped;
