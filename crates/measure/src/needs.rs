//! What the stages need of a node's hard limits, to be looked at before the first program is.

use std::time::Duration;

use flopsmith_sandbox::{Error, Limits, MemoryBound, Sandbox};

use crate::{sanitize, supervise, time, verify};

/// Can a compiler and a program with `threads` threads have their limits in jails here? Buffers of a problem come on top, and
/// are looked at with each job.
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

/// Can a program with a sanitizer's runtime in it have its limits here?
///
/// # Errors
/// As [`stages`].
pub fn sanitizers(sandbox: &Sandbox, threads: u32) -> Result<(), Error> {
    sandbox.try_limits(&sanitize::limits(threads), MemoryBound::Resident)
}
