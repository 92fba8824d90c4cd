//! What the supervisor and the program inside the run jail have in common: the
//! layout of the memory they share, the hand-shake on it, and the generator
//! that fills inputs.
//!
//! The harness only does what a shared word tells it: take a plan, prepare the
//! inputs, call the candidate, park, exit. It has no clock, no reference, no
//! verdict and no secret; whatever it says is believed only where the
//! supervisor can check it. So the inputs of timed calls are prepared by a
//! harness that has one of the problem's own programs in it.
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
mod huge;
pub mod inputs;
pub mod memory;

pub use control::{Argument, Content, Control, Order, Plan, Waiting};
pub use memory::{Mapping, SharedMemory};

/// Changes when the hand-shake, the generator or what is timed changes, so that
/// results of different harnesses are never taken for each other.
pub const VERSION: &str = "5";
