//! Reads and writes JSON-lines files that users and other programs write; an error names the number of the line that is
//! wrong.

use std::io::Read;
use std::path::Path;

use anyhow::Result;
use flopsmith_actors::journal::replace;
use flopsmith_protocol::text;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::console::usage;
use crate::output::unwritable;

/// Reads the objects of a file; `-` is stdin. Empty lines are skipped.
///
/// # Errors
/// Wrong usage if the file cannot be read, if a line is no such object, or if `check` rejects a line's object. The
/// error of a line names its number.
pub fn read<T: DeserializeOwned, E: std::fmt::Display>(
    path: &Path,
    check: impl Fn(&T) -> Result<(), E>,
) -> Result<Vec<T>> {
    let name = path.display();
    let bytes = if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(path)
    };
    let text = bytes
        .and_then(text::decode)
        .map_err(|e| usage(format!("cannot read {name}: {e}")))?;
    let mut items = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |why: String| usage(format!("line {} of {name}: {why}", number + 1));
        let item: T = serde_json::from_str(line).map_err(|e| wrong(e.to_string()))?;
        check(&item).map_err(|e| wrong(e.to_string()))?;
        items.push(item);
    }
    Ok(items)
}

/// Replaces a file by these lines. If this process is killed, the file has its old or its new content.
pub fn write<T: Serialize>(path: &Path, items: &[T]) -> Result<()> {
    let mut text = String::new();
    for item in items {
        text.push_str(&serde_json::to_string(item)?);
        text.push('\n');
    }
    replace(path, text).map_err(|e| unwritable(path, e))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn even(number: &u32) -> Result<(), &'static str> {
        match number.is_multiple_of(2) {
            true => Ok(()),
            false => Err("it is odd"),
        }
    }

    #[test]
    fn lines_come_back_and_the_wrong_one_is_named() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.jsonl");
        write(&path, &[2u32, 4]).unwrap();
        assert_eq!(read::<u32, _>(&path, even).unwrap(), [2, 4]);
        std::fs::write(&path, "\u{feff}2\n4\n").unwrap();
        assert_eq!(read::<u32, _>(&path, even).unwrap(), [2, 4]);
        for (text, said) in [("2\n\n3\n", "line 3 of"), ("2\nx\n", "line 2 of")] {
            std::fs::write(&path, text).unwrap();
            let error = read::<u32, _>(&path, even).unwrap_err();
            assert!(error.is::<crate::console::Usage>(), "{error:#}");
            assert!(error.to_string().contains(said), "{error:#}");
        }
        // Editors for Windows save a byte order mark and CR LF line ends.
        std::fs::write(&path, "\u{feff}2\r\n4\r\n").unwrap();
        assert_eq!(read::<u32, _>(&path, even).unwrap(), [2, 4]);
        let error = read::<u32, _>(&place.path().join("none"), even).unwrap_err();
        assert!(error.is::<crate::console::Usage>(), "{error:#}");
    }
}
