//! Keys by which nodes prove who they are: NKEYs, of which the broker knows the public half only.

use std::path::Path;

use flopsmith_protocol::text;
use nkeys::KeyPair;

use crate::error::{Error, Result};

/// The key pair of a user of the broker.
pub struct Key(KeyPair);

// The seed belongs into no log.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({})", self.public())
    }
}

impl Key {
    /// A new one.
    pub fn generate() -> Self {
        Self(KeyPair::new_user())
    }

    /// That of a file which holds its seed, alone or among other lines as in a NATS credentials file.
    ///
    /// # Errors
    /// [`Error::KeyFile`] where it cannot be read or holds none.
    pub fn read(path: &Path) -> Result<Self> {
        let failed = |source| Error::KeyFile {
            path: path.to_owned(),
            source,
        };
        let text = std::fs::read(path).and_then(text::decode);
        let text = text.map_err(|e| failed(e.into()))?;
        let seed = text.lines().map(str::trim).find(|l| l.starts_with("SU"));
        let seed =
            seed.ok_or_else(|| failed("no line of it is the seed of a user (SU…)".into()))?;
        Ok(Self(
            KeyPair::from_seed(seed).map_err(|e| failed(e.into()))?,
        ))
    }

    /// What has to be kept secret.
    ///
    /// # Errors
    /// Never for a key that was generated or read here.
    pub fn seed(&self) -> Result<String> {
        self.0.seed().map_err(|source| Error::KeyFile {
            path: std::path::PathBuf::new(),
            source: source.into(),
        })
    }

    /// What the broker is told.
    pub fn public(&self) -> String {
        self.0.public_key()
    }

    /// What the subjects begin with on which its user gets answers: of its own, so that no other user reads them.
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
