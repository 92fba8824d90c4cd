//! Keys by which nodes prove who they are: NKEYs, of which the broker knows the public half only.

use std::path::Path;

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
        let text = std::fs::read_to_string(path).map_err(|e| failed(e.into()))?;
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
