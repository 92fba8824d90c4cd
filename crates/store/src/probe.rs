//! Checks whether the store is reachable and which guarantees it gives.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutMode, PutPayload};

use crate::error::Error;
use crate::store::Store;

/// The folder of the probe files.
const FOLDER: &str = ".flopsmith-probe";

/// The guarantees of a usable store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Honours {
    /// True if a conditional create does not overwrite an existing file. No code relies on this: Garage, for example,
    /// overwrites the file.
    pub conditional_create: bool,
    /// True if a new file appears in listings at once.
    pub listing: bool,
}

/// Key of the store's identity.
const IDENTITY: &str = "store-id";

impl Store {
    /// The identity of this store, which is the same under every address of the store. The first caller creates it.
    ///
    /// # Errors
    /// An [`Error`] that names the fault of the store.
    pub async fn identity(&self) -> Result<String, Error> {
        let key = Path::from(IDENTITY);
        if let Some(known) = self.identity_at(&key).await? {
            return Ok(known);
        }
        let ours = Bytes::from(format!("{:016x}{:016x}", unique(), unique()));
        let put = PutPayload::from_bytes(ours);
        match self
            .durable()
            .put_opts(&key, put, PutMode::Create.into())
            .await
        {
            Ok(_)
            | Err(
                object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. },
            ) => {}
            Err(source) => return Err(Error::write(self.place(&key), source)),
        }
        // Another process may have written its identity first.
        let known = self.identity_at(&key).await?;
        known.ok_or_else(|| Error::Missing {
            place: self.place(&key),
        })
    }

    async fn identity_at(&self, key: &Path) -> Result<Option<String>, Error> {
        match self.fetch(key).await {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned())),
            Err(Error::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a small file, reads it, lists it and removes it. A fault of the store then shows before the first step of
    /// a run and not after it.
    ///
    /// # Errors
    /// An [`Error`] that names the fault of the store and the settings to check.
    pub async fn probe(&self) -> Result<Honours, Error> {
        let folder = Path::from(FOLDER);
        let key = folder.clone().join(format!("{:016x}", unique()));
        let bytes = Bytes::from_static(b"flopsmith");
        let store = self.durable();
        let unusable = |source| Error::unusable(self.name().to_owned(), source);
        store
            .put(&key, PutPayload::from_bytes(bytes.clone()))
            .await
            .map_err(unusable)?;
        let probed = async {
            let found = self.fetch(&key).await?;
            if found != bytes {
                return Err(Error::Damaged {
                    place: self.place(&key),
                    detail: "its content differs from the content written a moment ago".to_owned(),
                });
            }
            let again = PutPayload::from_bytes(bytes.clone());
            let again = store.put_opts(&key, again, PutMode::Create.into()).await;
            let listed: Vec<_> = store
                .list(Some(&folder))
                .try_collect()
                .await
                .map_err(unusable)?;
            Ok(Honours {
                conditional_create: matches!(
                    again,
                    Err(object_store::Error::AlreadyExists { .. }
                        | object_store::Error::Precondition { .. })
                ),
                listing: listed.iter().any(|file| file.location == key),
            })
        }
        .await;
        let removed = store.delete(&key).await.map_err(unusable);
        let honours = probed?;
        removed?;
        Ok(honours)
    }
}

/// A random number that no other probe has.
fn unique() -> u64 {
    RandomState::new().build_hasher().finish()
}
