//! Repeats measurements after failures.

use flopsmith_protocol::Failure;

use super::Done;

/// Number of further tries of a measurement that failed without the program's fault.
const TRIES: u32 = 5;

/// Counts the repeated measurements.
#[derive(Default)]
pub struct Again {
    /// So many.
    pub count: u32,
}

impl Again {
    /// One measurement. Tries again after a stage failure, so that one failure does not lose the measurements before
    /// it.
    pub fn measured<T>(&mut self, mut measure: impl FnMut() -> Result<T, Failure>) -> Done<T> {
        let mut tries = 0;
        loop {
            match measure() {
                Ok(timed) => return Ok(timed),
                Err(failure @ Failure::Candidate { .. }) => return Err(failure.into()),
                Err(failure) if tries == TRIES => return Err(failure.into()),
                Err(failure) => eprintln!("once more: {failure}"),
            }
            tries += 1;
            self.count += 1;
        }
    }

    /// Reports their number, if there were some.
    pub fn print(&self) {
        if self.count > 0 {
            println!(
                "  {} measurements failed by nobody's fault and were made again",
                self.count
            );
        }
    }
}
