//! Which of many cases are tried today, where all of them take too long for every time.

use std::time::SystemTime;

/// The variable that repeats a sample.
pub const SAMPLE: &str = "FLOPSMITH_SAMPLE";

/// A number below `parts`: another one each day, so that in time all parts are tried, or the one that stands in [`SAMPLE`], so that
/// a run can be repeated.
pub fn part_of_today(parts: usize) -> usize {
    let number = match std::env::var(SAMPLE) {
        Ok(number) => number
            .parse::<u64>()
            .expect("FLOPSMITH_SAMPLE is a whole number"),
        Err(_) => {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            now.expect("it is later than 1970").as_secs() / (24 * 3600)
        }
    };
    (number % parts as u64) as usize
}
