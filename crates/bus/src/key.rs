//! Keys with which nodes authenticate: NKEYs. The broker knows only the public half.

use std::path::Path;

use flopsmith_protocol::text;
use nkeys::KeyPair;

use crate::error::{Error, Result};

/// The key pair of one user of the broker.
pub struct Key(KeyPair);

// Debug output must not show the seed.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({})", self.public())
    }
}

impl Key {
    /// Generates a new key pair.
    pub fn generate() -> Self {
        Self(KeyPair::new_user())
    }

    /// Reads the key pair from a file that holds its seed, alone or among other lines as in a NATS credentials file.
    ///
    /// # Errors
    /// [`Error::KeyFile`] if the file cannot be read or holds no seed.
    pub fn read(path: &Path) -> Result<Self> {
        let failed = |source| Error::KeyFile {
            path: path.to_owned(),
            source,
        };
        let text = std::fs::read(path).and_then(text::decode);
        let text = text.map_err(|e| failed(e.into()))?;
        let seed = text.lines().map(str::trim).find(|l| l.starts_with("SU"));
        let seed =
            seed.ok_or_else(|| failed("no line of the file is the seed of a user (SU…)".into()))?;
        Ok(Self(
            KeyPair::from_seed(seed).map_err(|e| failed(e.into()))?,
        ))
    }

    /// The secret half.
    ///
    /// # Errors
    /// None for a key that was generated or read here.
    pub fn seed(&self) -> Result<String> {
        self.0.seed().map_err(|source| Error::KeyFile {
            path: std::path::PathBuf::new(),
            source: source.into(),
        })
    }

    /// The public half, which the broker's configuration lists.
    pub fn public(&self) -> String {
        self.0.public_key()
    }

    /// The prefix of the subjects on which this user receives answers. Each user has its own prefix, so that no other
    /// user can read the answers.
    pub fn inbox(&self) -> String {
        format!("_INBOX_{}", self.public())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_wherever_it_stands_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let key = Key::generate();
        let seed = key.seed().unwrap();
        for text in [
            format!("{seed}\n"),
            // As an editor for Windows saves it.
            format!("\u{feff}{seed}\r\n"),
            format!("-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(Key::read(&path).unwrap().public(), key.public());
        }
        std::fs::write(&path, "nothing").unwrap();
        let error = Key::read(&path).unwrap_err();
        assert!(matches!(error, Error::KeyFile { .. }), "{error}");
    }
}
