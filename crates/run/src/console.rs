//! Output of commands: data on stdout, messages on stderr; and errors that the user can correct.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

pub use flopsmith_config::Usage;

/// A usage error as `anyhow`.
pub fn usage(text: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Usage(text.into()))
}

/// Adds to an error of a value the line of the configuration that contains the value. If no line contains it or `--set`
/// set it, the error stays as it is.
pub fn located(error: anyhow::Error, path: &Path, overrides: &[String]) -> anyhow::Error {
    if !error.is::<Usage>() {
        return error;
    }
    let text = flopsmith_config::read_text(path).unwrap_or_default();
    let name = path.display().to_string();
    let words = error.to_string();
    let located = flopsmith_config::at_its_line(&words, &text, &name, overrides);
    located.map_or(error, usage)
}

/// The message that the broker refused `subject` to this process's key, and the remedy.
pub fn not_allowed(subject: &str) -> String {
    format!(
        "the broker does not let this key use `{subject}`; use the key of another holder, or make one with `flopsmith cluster key --roles ROLE,… --class CLASS` (if this Flopsmith is newer than the key, make a new key of the same roles and class)"
    )
}

/// The first error of writing data to stdout.
static UNWRITTEN: OnceLock<String> = OnceLock::new();

/// The first error of writing data to stdout, if there was one.
pub fn unwritten() -> Option<&'static str> {
    UNWRITTEN.get().map(String::as_str)
}

/// Writes a message line; a write error is ignored, as there is no other place to report it.
pub fn write(mut to: impl io::Write, line: &str) {
    let _ = writeln!(to, "{line}");
}

/// Writes a line of data to stdout. A closed pipe is no error; other errors are kept for [`unwritten`].
pub fn data(line: &str) {
    piece(&format!("{line}\n"));
}

/// Writes data to stdout without ending the line; errors as for [`data`].
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

/// A column of a table: its heading, and whether it holds numbers.
pub type Column<'a> = (&'a str, bool);

/// Lines in which each column is as wide as its widest cell: numbers to the right, words to the left.
pub fn table(columns: &[Column<'_>], rows: impl IntoIterator<Item = Vec<String>>) -> Vec<String> {
    use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(columns.iter().map(|(heading, _)| *heading))
        .add_rows(rows);
    for (column, (_, numbers)) in table.column_iter_mut().zip(columns) {
        column.set_padding((0, 2));
        column.set_cell_alignment(match numbers {
            true => CellAlignment::Right,
            false => CellAlignment::Left,
        });
    }
    let lines = table.lines();
    lines.map(|line| line.trim_end().to_owned()).collect()
}

/// True if stdout and stderr go to the same terminal, file or pipe, where a reader sees both.
pub fn has_one_place() -> bool {
    let (out, err) = (io::stdout(), io::stderr());
    out.is_terminal() && err.is_terminal() || are_same(out.as_fd(), err.as_fd())
}

/// True if both descriptors are of one file; false if that cannot be found out.
fn are_same(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    let place = |of: BorrowedFd<'_>| {
        let found = File::from(of.try_clone_to_owned().ok()?).metadata().ok()?;
        Some((found.dev(), found.ino()))
    };
    let one = place(one);
    one.is_some() && one == place(other)
}

/// Writes a message line to stderr.
pub fn say(line: &str) {
    write(io::stderr(), line);
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn descriptors_of_one_file_have_one_place() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create(folder.path().join(name)).unwrap();
        let (one, again, other) = (file("a"), file("a"), file("b"));
        assert!(are_same(one.as_fd(), again.as_fd()));
        assert!(are_same(one.as_fd(), one.try_clone().unwrap().as_fd()));
        assert!(!are_same(one.as_fd(), other.as_fd()));
    }
}
