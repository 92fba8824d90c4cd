//! The supervisor's side of the harness: the buffers, the process in the jail,
//! and the hand-shake.
//!
//! Verifier and timer both use this module. Nothing here believes the candidate's process: an answer only ends a wait,
//! and the supervisor judges the work done from the buffers.

mod arena;
mod arguments;
mod array;
mod ending;
mod filler;
mod process;
mod rest;
mod room;
mod scalar;
mod setup;

pub use arena::{Arena, PLACES, Placement, Placing};
pub use arguments::{Given, Product, Specification, plan, plan_to_fill, specify};
pub use array::{Array, poison};
pub(crate) use ending::about_the_stack;
pub use filler::{Called, Filler, Observer};
pub use process::Process;
pub use rest::judge_stillness;
pub use room::{guarded_buffers, timed_buffers};
pub use setup::Setup;
pub(crate) use setup::limits;
