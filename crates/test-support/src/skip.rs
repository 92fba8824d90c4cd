//! What this machine cannot test.

use std::io::Write;

/// Says that a test, or a part of one, is left out, and why. It counts as passed all the same, so `scripts/test.sh` lists these
/// lines behind the totals.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let why: Vec<&str> = why.lines().collect();
    let line = format!("\nskipped: {test}: {}\n", why.join("; "));
    // Of tests that pass, what `eprintln!` prints is kept back; this is not.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
