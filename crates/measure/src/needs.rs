//! The hard limits that the stages need from a node, checked before the first program runs.

use std::time::Duration;

use flopsmith_problem::Problem;
use flopsmith_sandbox::{Error, Limits, MemoryBound, Sandbox};

use crate::{sanitize, supervise, time, verify};

/// Checks that a compiler and a program with `threads` threads can have their limits in jails here, for a problem with
/// one timed size; [`verification`] checks those of a problem with several. The buffers of a problem come on top; each
/// job checks them itself.
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

/// Checks that programs for `problem` can have the processor time here that verification grants them, a minute for each
/// timed size.
///
/// # Errors
/// As [`stages`].
pub fn verification(sandbox: &Sandbox, problem: &Problem) -> Result<(), Error> {
    sandbox.try_limits(&verified(problem), MemoryBound::AddressSpace)
}

/// The limits of a program for `problem` while it is verified, without those of threads and buffers.
fn verified(problem: &Problem) -> Limits {
    let cpu = verify::cpu_limit(problem.timed_sizes().len());
    supervise::limits(1, 0, Some(cpu))
}

/// Checks that a program with a sanitizer's runtime in it can have its limits here.
///
/// # Errors
/// As [`stages`].
pub fn sanitizers(sandbox: &Sandbox, threads: u32) -> Result<(), Error> {
    sandbox.try_limits(&sanitize::limits(threads), MemoryBound::Resident)
}

#[cfg(test)]
mod tests {
    use flopsmith_test_support::shipped;

    use super::*;

    #[test]
    fn verification_needs_a_minute_of_processor_time_for_each_timed_size() {
        let dgemm = Problem::load(&shipped::at("dgemm")).expect("the shipped problem");
        assert_eq!(dgemm.timed_sizes().len(), 3);
        assert_eq!(verified(&dgemm).cpu, Duration::from_secs(180));
        assert_eq!(verified(&dgemm.only_first()).cpu, Duration::from_secs(60));
    }
}
