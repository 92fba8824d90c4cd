//! Measurements that are made again.

use flopsmith_protocol::Failure;

use super::Done;

/// How often a measurement is tried again that failed by nobody's fault.
const TRIES: u32 = 5;

/// Counts the measurements that were made again.
#[derive(Default)]
pub struct Again {
    /// So many.
    pub count: u32,
}

impl Again {
    /// One measurement. A stage failure is tried again, so that one stage failure does not cost the minutes before.
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

    /// Says how many they were, if there were some.
    pub fn print(&self) {
        if self.count > 0 {
            println!(
                "  {} measurements failed by nobody's fault and were made again",
                self.count
            );
        }
    }
}
