//! Small values with revisions, for records that may have only one writer.

use async_nats::jetstream;
use async_nats::jetstream::kv::{self, CreateErrorKind, Operation, UpdateErrorKind};
use bytes::Bytes;
use futures::StreamExt;
use tokio::sync::watch;

use crate::connect::Bus;
use crate::error::{Cause, Error, Result};
use crate::publish::full_or;

/// A value and its revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: Bytes,
    /// Grows with every write to the bucket. [`Kv::update`] succeeds only at the newest revision of its key.
    pub revision: u64,
}

/// A key-value bucket.
#[derive(Clone)]
pub struct Kv {
    bucket: String,
    jetstream: jetstream::Context,
    epoch: watch::Receiver<u64>,
    store: kv::Store,
}

/// A change of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The key has this value.
    Put(String, Entry),
    /// The key has no value any more.
    Gone(String),
}

/// The content of a bucket, followed by each change.
pub struct Watch {
    kv: Kv,
    changes: kv::Watch,
    epoch: watch::Receiver<u64>,
}

impl Watch {
    /// The next change. A cancelled call loses nothing.
    ///
    /// # Errors
    /// After an error this watch reports nothing more. A new watch begins with the whole content of the bucket.
    pub async fn next(&mut self) -> Result<Change> {
        let lost = |source: Cause| self.kv.failed("", source);
        let entry = tokio::select! {
            biased;
            entry = self.changes.next() => entry,
            // The watch may have missed changes during the loss.
            _ = self.epoch.changed() => return Err(lost("the connection was lost".into())),
        };
        let entry = entry
            .ok_or_else(|| lost("the subscription to changes of the bucket was closed".into()))?
            .map_err(|source| lost(source.into()))?;
        Ok(match entry.operation {
            Operation::Put => {
                let (value, revision) = (entry.value, entry.revision);
                Change::Put(entry.key, Entry { value, revision })
            }
            _ => Change::Gone(entry.key),
        })
    }
}

impl Bus {
    /// Creates a bucket, or changes its number of copies. For the set-up of a shared server.
    ///
    /// # Errors
    /// [`Error::Kv`] with the name of the bucket, or [`Error::StoreFull`].
    pub async fn set_up_bucket(&self, bucket: &str, copies: usize) -> Result<()> {
        let config = kv::Config {
            bucket: bucket.to_owned(),
            history: 1,
            num_replicas: copies,
            ..kv::Config::default()
        };
        let made = self.jetstream().create_or_update_key_value(config).await;
        made.map(drop)
            .map_err(|source| failed(bucket, "", source.into()))
    }

    /// Opens a bucket, and creates it if it is missing. A name may hold letters, digits, `-` and `_`.
    ///
    /// # Errors
    /// [`Error::Kv`] with the name of the bucket, or [`Error::StoreFull`].
    pub async fn kv(&self, bucket: &str) -> Result<Kv> {
        let config = kv::Config {
            bucket: bucket.to_owned(),
            history: 1,
            ..kv::Config::default()
        };
        let store = match self.jetstream().get_key_value(bucket).await {
            Ok(store) => store,
            Err(_) => self
                .jetstream()
                .create_key_value(config)
                .await
                .map_err(|source| failed(bucket, "", source.into()))?,
        };
        Ok(Kv {
            bucket: bucket.to_owned(),
            jetstream: self.jetstream().clone(),
            epoch: self.epoch(),
            store,
        })
    }
}

impl Kv {
    /// The value of a key, if there is one.
    pub async fn get(&self, key: &str) -> Result<Option<Entry>> {
        let entry = self
            .store
            .entry(key)
            .await
            .map_err(|source| self.failed(key, source.into()))?;
        Ok(entry
            .filter(|entry| entry.operation == Operation::Put)
            .map(|entry| Entry {
                value: entry.value,
                revision: entry.revision,
            }))
    }

    /// Writes a value regardless of the key's revision, and returns the new revision.
    pub async fn put(&self, key: &str, value: impl Into<Bytes>) -> Result<u64> {
        self.store
            .put(key, value.into())
            .await
            .map_err(|source| self.failed(key, source.into()))
    }

    /// Writes the first value of a key.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the key has a value.
    pub async fn create(&self, key: &str, value: impl Into<Bytes>) -> Result<u64> {
        let value = value.into();
        match self.store.create(key, value.clone()).await {
            Ok(revision) => Ok(revision),
            Err(source) if source.kind() == CreateErrorKind::AlreadyExists => {
                Err(self.conflict(key, 0))
            }
            Err(source) if source.kind() == CreateErrorKind::InvalidKey => {
                Err(self.failed(key, source.into()))
            }
            Err(source) => self.perhaps_written(key, &value, 0, source.into()).await,
        }
    }

    /// Writes a value if the key still has `revision`. This check stops a writer that was replaced and does not know
    /// it.
    ///
    /// # Errors
    /// [`Error::Conflict`] if another writer changed the key.
    pub async fn update(&self, key: &str, value: impl Into<Bytes>, revision: u64) -> Result<u64> {
        let value = value.into();
        match self.store.update(key, value.clone(), revision).await {
            Ok(revision) => Ok(revision),
            Err(source) if source.kind() == UpdateErrorKind::WrongLastRevision => {
                Err(self.conflict(key, revision))
            }
            Err(source) if source.kind() == UpdateErrorKind::InvalidKey => {
                Err(self.failed(key, source.into()))
            }
            Err(source) => {
                self.perhaps_written(key, &value, revision, source.into())
                    .await
            }
        }
    }

    /// Writes a value if the key still has `revision`, or is still missing if `revision` is 0. Returns the new
    /// revision, or none if another writer was faster.
    pub async fn replace(
        &self,
        key: &str,
        value: impl Into<Bytes>,
        revision: u64,
    ) -> Result<Option<u64>> {
        let written = match revision {
            0 => self.create(key, value).await,
            revision => self.update(key, value, revision).await,
        };
        match written {
            Ok(revision) => Ok(Some(revision)),
            Err(Error::Conflict { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reports the whole content, and then each change.
    pub async fn watch(&self) -> Result<Watch> {
        let mut epoch = self.epoch.clone();
        epoch.mark_unchanged();
        let changes = self.store.watch_with_history(">").await;
        Ok(Watch {
            kv: self.clone(),
            changes: changes.map_err(|source| self.failed("", source.into()))?,
            epoch,
        })
    }

    /// Removes a key.
    pub async fn delete(&self, key: &str) -> Result<()> {
        self.store
            .delete(key)
            .await
            .map_err(|source| self.failed(key, source.into()))
    }

    /// Removes all keys that begin with `prefix` and a dot, and their deletion markers.
    pub async fn remove_all(&self, prefix: &str) -> Result<()> {
        let name = format!("KV_{}", self.bucket);
        let removed = async {
            let stream = self.jetstream.get_stream(name).await?;
            let of = format!("$KV.{}.{prefix}.>", self.bucket);
            stream.purge().filter(of).await?;
            Ok::<_, Cause>(())
        };
        removed.await.map_err(|source| self.failed(prefix, source))
    }

    /// Checks whether a write without an answer happened, so that a repeated write does not conflict with the first.
    async fn perhaps_written(
        &self,
        key: &str,
        value: &Bytes,
        before: u64,
        source: Cause,
    ) -> Result<u64> {
        match self.get(key).await? {
            Some(entry) if entry.revision > before && entry.value == value => Ok(entry.revision),
            Some(entry) if entry.revision > before => Err(self.conflict(key, before)),
            _ => Err(self.failed(key, source)),
        }
    }

    fn failed(&self, key: &str, source: Cause) -> Error {
        failed(&self.bucket, key, source)
    }

    fn conflict(&self, key: &str, expected: u64) -> Error {
        Error::Conflict {
            bucket: self.bucket.clone(),
            key: key.to_owned(),
            expected,
        }
    }
}

/// The error of an operation on a key, or on the bucket itself if the key is empty.
fn failed(bucket: &str, key: &str, source: Cause) -> Error {
    let of = if key.is_empty() { ">" } else { key };
    full_or(format!("$KV.{bucket}.{of}"), source, |source| Error::Kv {
        bucket: bucket.to_owned(),
        key: key.to_owned(),
        source,
    })
}
