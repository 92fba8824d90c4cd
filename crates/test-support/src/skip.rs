//! Tests that this machine cannot make.

use std::io::Write;

/// The variable that names a file for what is left out.
const LIST: &str = "FLOPSMITH_SKIPPED";

/// Says that a test, or a part of one, is left out, and why. It counts as passed all the same, and the test runner
/// shows nothing of a test that passes: so the line goes also into a file, which `scripts/test.sh` shows behind the
/// tests.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let why: Vec<&str> = why.lines().collect();
    let line = format!("{test}: {}\n", why.join("; "));
    // The test runner keeps the output of `eprintln!` back where a test passes, but not this.
    let _ = std::io::stderr().write_all(format!("\nskipped: {line}").as_bytes());
    if let Some(list) = std::env::var_os(LIST) {
        let list = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(list);
        // One write: several tests may do so at once.
        let _ = list.and_then(|mut list| list.write_all(line.as_bytes()));
    }
}
