//! Room for buffers: they are mapped whole, so buffers larger than the memory of this machine would end the process instead
//! of failing.

use std::io::Error;

use flopsmith_machine::memory;
use flopsmith_problem::{Params, Problem};
use flopsmith_protocol::{Failure, InfrastructureCause};

use super::arena::Arena;
use super::array::Array;
use crate::verify::soundness::words;

/// Buffers of timed calls with these arrays, at this size of a workload.
///
/// # Errors
/// An infrastructure failure that names the workload and its bytes, if they do not fit into memory.
pub fn timed_buffers(
    problem: &Problem,
    params: &Params,
    arrays: &[Array],
) -> Result<Arena, Failure> {
    let bytes = arrays.iter().map(|array| array.bytes() as u64).sum();
    let mut workloads = problem.workloads.iter();
    let what = match workloads.find(|w| w.params == *params) {
        Some(workload) if problem.workloads.len() > 1 => {
            format!("the arrays of the workload `{}`", workload.name)
        }
        _ => format!("the arrays of the timed size {}", words(params)),
    };
    check(&what, bytes, memory::available())?;
    Arena::timed(arrays).map_err(|e| no_buffers(&what, bytes, &e))
}

/// Buffers for arrays of at most these sizes in bytes, between inaccessible pages.
///
/// # Errors
/// An infrastructure failure that names the bytes, if they do not fit into memory.
pub fn guarded_buffers(largest: &[usize]) -> Result<Arena, Failure> {
    const WHAT: &str = "the arrays of the largest case to verify";
    let bytes = largest.iter().map(|bytes| *bytes as u64).sum();
    check(WHAT, bytes, memory::available())?;
    Arena::new(largest, true).map_err(|e| no_buffers(WHAT, bytes, &e))
}

/// Refuses buffers of `bytes` if only `left` bytes of memory are left. Where that is unknown, they are tried.
fn check(what: &str, bytes: u64, left: Option<u64>) -> Result<(), Failure> {
    match left {
        Some(left) if bytes > left => Err(Failure::infrastructure(
            InfrastructureCause::Resources,
            format!(
                "{what} take {bytes} bytes ({}), and this machine has {} of memory left: lower the parameters in [timed] (or `max` in `verify.hidden`), or leave the workload out (`--workload`, or `workloads` of a run)",
                megabytes(bytes),
                megabytes(left)
            ),
        )),
        _ => Ok(()),
    }
}

fn no_buffers(what: &str, bytes: u64, error: &Error) -> Failure {
    Failure::infrastructure(
        InfrastructureCause::Resources,
        format!("cannot place {what} ({bytes} bytes) in shared memory: {error}"),
    )
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_beyond_the_memory_are_refused_with_their_name_and_bytes() {
        let what = "the arrays of the workload `n=20000`";
        assert_eq!(check(what, 5, Some(5)), Ok(()));
        assert_eq!(check(what, u64::MAX, None), Ok(()));
        let refused = check(what, 9_600_000_000, Some(6_100_000_000));
        let Err(Failure::Infrastructure { cause, detail }) = refused else {
            unreachable!("{refused:?}");
        };
        assert_eq!(cause, InfrastructureCause::Resources);
        let says = "the arrays of the workload `n=20000` take 9600000000 bytes (9600.0 MB), and this machine has 6100.0 MB of memory left";
        assert!(detail.starts_with(says), "{detail}");
    }
}
