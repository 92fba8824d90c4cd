//! The supervisor's side of the harness: the buffers, the process in the jail,
//! and the hand-shake.
//!
//! Verifier and timer both stand on this. Nothing here believes the candidate's
//! process: an answer only ends a wait, and what was really done is judged from
//! the buffers.

mod arena;
mod arguments;
mod ending;
mod process;

pub use arena::{Arena, Placement, Placing};
pub use arguments::{Array, Product, Specification, plan, poison, specify};
pub use process::{Process, Setup, Stillness};

use flopsmith_protocol::CandidateFault;

use crate::Failure;

/// Refuses a program whose threads go on although its call has returned, or that has more threads than it may.
pub fn judge_stillness(stillness: Stillness, threads: u32) -> Result<(), Failure> {
    let Stillness {
        threads: found,
        still,
        spent,
    } = stillness;
    if found > threads as usize {
        return Err(Failure::candidate(
            CandidateFault::LeftRunning,
            format!("{found} threads are there after a call, permitted are {threads}"),
        ));
    }
    if !still {
        return Err(Failure::candidate(
            CandidateFault::LeftRunning,
            format!(
                "threads went on after a call had returned and used {:.1} ms of processor time",
                spent.as_secs_f64() * 1e3
            ),
        ));
    }
    Ok(())
}
