//! The supervisor and the program inside the run jail (the harness) share this crate: the layout of their shared
//! memory, the hand-shake on it, and the generator that fills inputs.
//!
//! The harness follows the orders in a shared word: take a plan, prepare the inputs, call the candidate, park, exit. It
//! has no clock, no reference, no verdict and no secret. The supervisor believes its statements only where it can check
//! them. So a harness that runs one of the problem's own programs prepares the inputs of timed calls.
//!
//! Invariants:
//! - every field of [`control::Control`] is atomic, so that no value the other
//!   side writes can be undefined behaviour here;
//! - the supervisor never reads back what it wrote for the harness;
//! - an input element is a pure function of (seed, stream, index), so the
//!   supervisor can recompute any element alone ([`inputs::Stream::element`]).

mod cipher;
mod content;
mod contents;
pub mod control;
pub mod filter;
pub mod half;
mod huge;
pub mod inputs;
pub mod memory;
mod plan;

pub use control::{Argument, Content, Control, Order, Plan, Scalars, Waiting};
pub use memory::{Mapping, SharedMemory};

/// Changes when the hand-shake, the generator or the timed part changes, so that
/// results of different harnesses are never taken for each other.
pub const VERSION: &str = "8";
