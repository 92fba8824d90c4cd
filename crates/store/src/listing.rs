//! Lists the content of a store, for garbage collection.

use std::collections::BTreeSet;

use flopsmith_protocol::{ArtifactRef, Digest, RunId};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::error::Error;
use crate::store::{Store, key};

/// An artifact as the store lists it.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// The artifact.
    pub artifact: ArtifactRef,
    /// When the artifact was last written: milliseconds since 1970, by the store's clock.
    pub modified_unix_ms: u64,
}

impl Store {
    /// Passes every artifact in the store to `each`, in no order. A file whose name is no artifact's name is skipped.
    ///
    /// # Errors
    /// [`Error::List`] if the store cannot be read.
    pub async fn list(&self, mut each: impl FnMut(Listed)) -> Result<(), Error> {
        let folder = Path::from("artifacts");
        let mut found = self.durable().list(Some(&folder));
        let failed = |source| Error::List {
            place: self.place(&folder),
            source,
        };
        while let Some(object) = found.try_next().await.map_err(failed)? {
            let mut parts = object.location.parts().skip(1);
            let (head, tail) = (parts.next(), parts.next());
            let name = |p: Option<object_store::path::PathPart<'_>>| {
                p.map(|p| p.as_ref().to_owned()).unwrap_or_default()
            };
            let Ok(digest) = Digest::try_from(name(head) + &name(tail)) else {
                continue;
            };
            each(Listed {
                artifact: ArtifactRef {
                    digest,
                    size: object.size,
                },
                modified_unix_ms: u64::try_from(object.last_modified.timestamp_millis())
                    .unwrap_or_default(),
            });
        }
        Ok(())
    }

    /// When an artifact was last written, milliseconds since 1970. None if it does not exist.
    ///
    /// # Errors
    /// [`Error::List`] if the store cannot be read.
    pub async fn modified_unix_ms(&self, artifact: &ArtifactRef) -> Result<Option<u64>, Error> {
        let key = key(&artifact.digest);
        match self.durable().head(&key).await {
            Ok(found) => Ok(Some(
                u64::try_from(found.last_modified.timestamp_millis()).unwrap_or_default(),
            )),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(source) => Err(Error::List {
                place: self.place(&key),
                source,
            }),
        }
    }

    /// The runs and roles that have checkpoints in this store.
    ///
    /// # Errors
    /// [`Error::List`] if the store cannot be read.
    pub async fn checkpointed(&self) -> Result<BTreeSet<(RunId, String)>, Error> {
        let top = Path::from("checkpoints");
        let mut found = BTreeSet::new();
        for run in self.folders(&top).await? {
            let Some(Ok(id)) = run.filename().map(RunId::new) else {
                continue;
            };
            for role in self.folders(&run).await? {
                if let Some(role) = role.filename() {
                    found.insert((id.clone(), role.to_owned()));
                }
            }
        }
        Ok(found)
    }

    async fn folders(&self, folder: &Path) -> Result<Vec<Path>, Error> {
        let listed = self.durable().list_with_delimiter(Some(folder)).await;
        let listed = listed.map_err(|source| Error::List {
            place: self.place(folder),
            source,
        })?;
        Ok(listed.common_prefixes)
    }
}
