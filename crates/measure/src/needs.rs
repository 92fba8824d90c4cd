//! The hard limits that the stages need from a node, checked before the first program runs.

use std::time::Duration;

use flopsmith_sandbox::{Error, Limits, MemoryBound, Sandbox};

use crate::{sanitize, supervise, time, verify};

/// Checks that a compiler and a program with `threads` threads can have their limits in jails here. The buffers of a
/// problem come on top; each job checks them itself.
///
/// # Errors
/// [`Error::Limit`], which names the limit; others where jails do not work.
pub fn stages(sandbox: &Sandbox, threads: u32) -> Result<(), Error> {
    let program = |cpu: Option<Duration>| supervise::limits(threads, 0, cpu);
    let longest = verify::CPU_LIMIT.max(time::CPU_LIMIT);
    let all: [Limits; 3] = [
        flopsmith_compile::usual_limits(),
        program(Some(longest)),
        program(None),
    ];
    all.iter()
        .try_for_each(|limits| sandbox.try_limits(limits, MemoryBound::AddressSpace))
}

/// Checks that a program with a sanitizer's runtime in it can have its limits here.
///
/// # Errors
/// As [`stages`].
pub fn sanitizers(sandbox: &Sandbox, threads: u32) -> Result<(), Error> {
    sandbox.try_limits(&sanitize::limits(threads), MemoryBound::Resident)
}
