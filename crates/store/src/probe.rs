//! Is the store there, and what does it keep to?

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutMode, PutPayload};

use crate::error::Error;
use crate::store::Store;

/// Where probes are written.
const FOLDER: &str = ".flopsmith-probe";

/// What a store that can be used keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Honours {
    /// A file that is there is not written over by who asks to make it. Nothing here rests on that: Garage, for one, writes over it.
    pub conditional_create: bool,
    /// What was written is listed right away.
    pub listing: bool,
}

/// What tells this store from all others.
const IDENTITY: &str = "store-id";

impl Store {
    /// What tells this store from all others, by whatever address it is reached. Given to it by whoever asks first.
    ///
    /// # Errors
    /// What is wrong with the store.
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
        // Somebody else may have been faster.
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

    /// Writes a small file, reads it, lists it and removes it: better now than after the first step of a run.
    ///
    /// # Errors
    /// What is wrong with the store, with what to look at.
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
                    detail: "it is not what was written a moment ago".to_owned(),
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

/// A number that no other probe has.
fn unique() -> u64 {
    RandomState::new().build_hasher().finish()
}
