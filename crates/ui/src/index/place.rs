//! Where an index is kept: beside its log if that can be written, or else in the user's cache.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The places of an index.
#[derive(Debug, Clone)]
pub struct Places {
    folders: Vec<PathBuf>,
    name: &'static str,
}

impl Places {
    /// An index called `name` in the folder of a run, or else in a folder of its own below `cache`.
    pub fn new(run: &Path, cache: Option<&Path>, name: &'static str) -> Self {
        let mut folders = vec![run.to_owned()];
        if let Some(cache) = cache {
            // Runs of other folders may have the same name.
            let whole = run.canonicalize().unwrap_or_else(|_| run.to_owned());
            let id = blake3::hash(whole.as_os_str().as_encoded_bytes()).to_hex();
            folders.push(cache.join(&id.as_str()[..16]));
        }
        Self { folders, name }
    }

    /// The file of the records and, unless it is a temporary one, the path of the names. This process has the file alone
    /// until it closes it.
    ///
    /// # Errors
    /// Not even a temporary file can be made.
    pub fn open(&self) -> io::Result<(File, Option<PathBuf>)> {
        for folder in &self.folders {
            let records = folder.join(format!("{}.index", self.name));
            if let Ok(file) = claim(folder, &records) {
                return Ok((file, Some(folder.join(format!("{}.names", self.name)))));
            }
        }
        Ok((tempfile::tempfile()?, None))
    }
}

fn claim(folder: &Path, records: &Path) -> io::Result<File> {
    if !folder.exists() {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = File::options();
    let options = options.read(true).write(true).create(true).truncate(false);
    let file = options.open(records)?;
    // Two processes may show the same run.
    file.try_lock().map_err(io::Error::other)?;
    Ok(file)
}
