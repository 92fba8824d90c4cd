//! Files of model folders, as people and other programs write them.

use std::io::Write;
use std::path::Path;

use flopsmith_protocol::text;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, Result};

/// The first bytes of a Git LFS pointer, which stands in the place of a large file until Git fetches the file: today's
/// version, and that of the first releases.
const POINTERS: [&[u8]; 2] = [
    b"version https://git-lfs.github.com/spec/",
    b"version https://hawser.github.com/spec/",
];

/// A pointer is at most this long, by its specification.
pub(crate) const POINTER_BYTES: usize = 1024;

/// The text of a file, without a byte-order mark.
pub(crate) fn text(path: &Path) -> Result<String> {
    let read = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    let bytes = std::fs::read(path).map_err(read)?;
    refuse_pointer(path, &bytes)?;
    text::decode(bytes).map_err(read)
}

/// The parsed content of a JSON file.
pub(crate) fn json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    serde_json::from_str(&text(path)?).map_err(|source| Error::Json {
        path: path.to_owned(),
        source,
    })
}

/// The text of an optional file.
pub(crate) fn text_if_there(path: &Path) -> Result<Option<String>> {
    if_there(text(path))
}

/// The parsed content of a JSON file; null if the file is missing.
pub(crate) fn json_if_there(path: &Path) -> Result<Value> {
    if_there(json(path)).map(Option::unwrap_or_default)
}

fn if_there<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(Error::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// Refuses a Git LFS pointer in the place of a file: a parser's message about the pointer would not name the cause.
pub(crate) fn refuse_pointer(path: &Path, bytes: &[u8]) -> Result<()> {
    if bytes.len() > POINTER_BYTES || !POINTERS.iter().any(|known| bytes.starts_with(known)) {
        return Ok(());
    }
    let lines = String::from_utf8_lossy(bytes);
    let size = lines.lines().find_map(|line| line.strip_prefix("size "));
    Err(Error::Pointer {
        path: path.to_owned(),
        bytes: size.and_then(|size| size.trim().parse().ok()),
    })
}

/// Writes a temporary file in the same folder, flushes it and renames it to its final name.
pub(crate) fn replace(folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let path = folder.join(name);
    let failed = |source| Error::Write {
        path: path.clone(),
        source,
    };
    let mut builder = tempfile::Builder::new();
    let prefix = format!(".{name}.");
    builder.prefix(&prefix);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Temporary files are private by default; a model is readable by every user who may read its folder. The umask
        // still applies.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(folder).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(&path).map_err(|e| failed(e.error))?;
    Ok(())
}
