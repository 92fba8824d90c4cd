//! Tests that this machine cannot run.

use std::io::Write;

/// The variable that names the file for reports of skipped checks.
const LIST: &str = "FLOPSMITH_SKIPPED";

/// Reports that a test, or a part of one, is skipped, with the reason. The test still counts as passed, and the test
/// runner hides the output of a passing test: so the line also goes into a file, which `scripts/test.sh` prints after
/// the tests.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let why: Vec<&str> = why.lines().collect();
    let line = format!("{test}: {}\n", why.join("; "));
    // The test runner hides the output of `eprintln!` for a passing test, but not this.
    let _ = std::io::stderr().write_all(format!("\nskipped: {line}").as_bytes());
    if let Some(list) = std::env::var_os(LIST) {
        let list = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(list);
        // One write, since several tests may write at the same time.
        let _ = list.and_then(|mut list| list.write_all(line.as_bytes()));
    }
}
