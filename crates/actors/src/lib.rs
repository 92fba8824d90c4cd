//! The roles of Flopsmith as supervised actors.
//!
//! Each role is a thin shell: it decodes a message, calls synchronous code of another crate, performs the effects and
//! acknowledges the message. Pure code makes the decisions (what to try next, when a step is complete, which reward)
//! and is tested by itself. Roles find each other only through the bus; two roles in one process share nothing but the
//! node's processor cores ([`Pool`]).
//!
//! Invariants:
//! - a result is published and confirmed before the work it came from is acknowledged;
//! - every effect is idempotent by id, so work that is done twice counts once;
//! - nothing is timed while another role of this node uses a core;
//! - a failure at one program becomes an outcome of that program in the end, never a failure of the role;
//! - drain order: stop pulling → finish or hand back → publish → acknowledge → leave; the recorder leaves after all
//!   other roles and first writes down what they published.

pub mod advantages;
pub mod answer;
pub mod answer_line;
pub mod batches;
pub mod best_answers;
mod course;
mod dead;
mod documents;
mod error;
pub mod evaluation;
mod gpus;
pub mod host;
pub mod journal;
pub mod ledger;
#[cfg(feature = "torch")]
mod memory;
mod metrics;
pub mod modules;
pub mod node;
pub mod outcome_cache;
pub mod peaks;
pub mod pool;
pub mod recorded;
pub mod registry;
mod returns;
pub mod role;
pub mod role_lease;
mod rounds;
pub mod runs;
#[cfg(feature = "torch")]
mod sample_filter;
mod scale;
pub mod skipped;
pub mod source;
pub mod stage_failure;
pub mod stream;
pub mod supervisor;
mod trace;
pub mod versions;

/// The buckets of a bus.
pub const BUCKETS: [&str; 4] = [
    outcome_cache::BUCKET,
    registry::RUNS,
    registry::CLASSES,
    role_lease::BUCKET,
];

pub use error::Error;
pub use host::Host;
pub use node::Node;
pub use pool::Pool;
