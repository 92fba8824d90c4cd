//! The stack of the source analysis.
//!
//! A thread that overflows its stack ends the whole process, and nothing can catch that. The analysis recurses over
//! sources that anybody may send, so it runs on a thread whose stack follows from the bound of the recursion, and not on
//! the caller's: workers of services have 2 MiB.

use std::io;
use std::thread::{self, Builder};

use flopsmith_protocol::{Failure, InfrastructureCause};

/// Bytes of the stack, which the system takes from memory only as far as it is used. The walk recurses through 1000
/// levels (`detect::walk`), so each may use 64 KiB; an optimised one uses some kilobytes.
pub(crate) const BYTES: usize = 64 << 20;

/// Runs an analysis on a stack that it cannot overflow.
///
/// # Errors
/// Those of the analysis, and an infrastructure failure if the thread cannot be started.
///
/// # Panics
/// As the analysis does.
pub(crate) fn on_a_deep_stack<T: Send>(
    analysis: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    with_stack(BYTES, analysis).unwrap_or_else(|error| {
        Err(Failure::infrastructure(
            InfrastructureCause::Resources,
            format!("could not start a thread for the analysis of a source: {error}"),
        ))
    })
}

/// Runs `work` on a thread of its own with a stack of so many bytes.
pub(crate) fn with_stack<T: Send>(bytes: usize, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let named = Builder::new().name("analysis".into()).stack_size(bytes);
        match named.spawn_scoped(scope, work)?.join() {
            Ok(done) => Ok(done),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
