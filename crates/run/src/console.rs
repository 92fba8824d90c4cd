//! What commands say: data on stdout, lines for people on stderr, and errors of the user's making.

use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

/// An error of the user's making.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// A usage error as `anyhow`.
pub fn usage(text: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Usage(text.into()))
}

/// That the broker refused `subject` to this process, and what to do about it.
pub fn not_allowed(subject: &str) -> String {
    format!(
        "the broker does not let this key use `{subject}`: take the key of another holder, or make one by `flopsmith cluster key --roles ROLE,… --class CLASS` (for a key of the same roles and class also where this Flopsmith is newer than the key)"
    )
}

/// What first kept data from being written.
static UNWRITTEN: OnceLock<String> = OnceLock::new();

/// What kept data from being written to stdout, if anything did.
pub fn unwritten() -> Option<&'static str> {
    UNWRITTEN.get().map(String::as_str)
}

/// Writes a line for people; there is nobody to tell where that fails.
pub fn write(mut to: impl io::Write, line: &str) {
    let _ = writeln!(to, "{line}");
}

/// A line of data for stdout. A reader that has gone away is no error; what else goes wrong is told by [`ended`].
pub fn data(line: &str) {
    piece(&format!("{line}\n"));
}

/// Data for stdout that goes on.
pub fn piece(text: &str) {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        UNWRITTEN.get_or_init(|| error.to_string());
    }
}

/// A line for people, on stderr.
pub fn say(line: &str) {
    write(io::stderr(), line);
}
