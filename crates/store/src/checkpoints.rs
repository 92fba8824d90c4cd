//! Checkpoints: files and a description. A checkpoint is whole or does not exist.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use flopsmith_protocol::{Digest, RunId};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::error::Error;
use crate::manifest::{Entry, Manifest};
use crate::store::{Store, digest};
use crate::write::write;

const MANIFEST: &str = "manifest.json";
const META: &str = "meta.json";
/// Number of attempts that each term may use. A step is saved fewer times than this in one term.
const ATTEMPTS_IN_A_TERM: u64 = 1 << 20;

/// The checkpoints of one role, run by run.
///
/// A checkpoint is the folder `checkpoints/<run>/<role>/<step>`. If the step was saved before, whole or not, the new
/// checkpoint goes to `<step>.<n>` first, and the old one is removed once the new one is whole. A whole checkpoint is
/// thus never missing in between.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    store: Store,
    role: String,
    /// The first attempt number of this term.
    first: u64,
}

/// The identity of a saved checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// The name by which [`Checkpoints::named`] finds the checkpoint.
    pub name: String,
    /// Digest of the manifest, which holds the digests of the checkpoint's files. A caller that keeps this digest
    /// outside the store can tell the checkpoint from any other that is put in its place.
    pub manifest: Digest,
}

/// A whole checkpoint. Its content is checked when the checkpoint is found, and again when a file is read.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// The step after which it was saved.
    pub step: u64,
    /// The description it was saved with.
    pub meta: serde_json::Value,
    /// The name by which [`Checkpoints::named`] finds the checkpoint.
    pub name: String,
    /// Digest of the manifest; see [`Saved::manifest`].
    pub manifest: Digest,
    store: Store,
    folder: Path,
    files: BTreeMap<String, Entry>,
}

impl Checkpoint {
    /// The names of the checkpoint's files.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// The folder or URL of the checkpoint.
    pub fn place(&self) -> String {
        self.store.place(&self.folder)
    }

    /// Reads one file.
    pub async fn file(&self, name: &str) -> Result<Bytes, Error> {
        let key = self.folder.clone().join(name);
        let Some(entry) = self.files.get(name) else {
            return Err(Error::Missing {
                place: self.store.place(&key),
            });
        };
        self.store.read(&key, entry.size, &entry.digest).await
    }
}

/// A folder that may be a checkpoint. Ordered by age: later steps and later attempts are greater.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Attempt {
    step: u64,
    number: u64,
    folder: Path,
}

impl Attempt {
    fn of(folder: Path) -> Option<Self> {
        let name = folder.filename()?;
        let (step, number) = name.split_once('.').unwrap_or((name, "0"));
        Some(Self {
            step: step.parse().ok()?,
            number: number.parse().ok()?,
            folder,
        })
    }
}

impl Checkpoints {
    /// The checkpoints of `role` (letters, digits, `-` and `_`).
    pub fn new(store: Store, role: &str) -> Self {
        Self {
            store,
            role: role.to_owned(),
            first: 0,
        }
    }

    /// The checkpoints of a role that more than one process may believe to hold. Each term has its own attempt numbers,
    /// so no process writes into a folder of another term.
    #[must_use]
    pub fn in_term(self, term: u64) -> Self {
        Self {
            first: term.saturating_mul(ATTEMPTS_IN_A_TERM),
            ..self
        }
    }

    /// Saves files and a description as the checkpoint of a step. Once this returns, the checkpoint survives a crash of
    /// the process or the machine.
    pub async fn save<B: Into<Bytes>>(
        &self,
        run: &RunId,
        step: u64,
        files: impl IntoIterator<Item = (String, B)>,
        meta: serde_json::Value,
    ) -> Result<Saved, Error> {
        let files: Vec<(String, Bytes)> = files.into_iter().map(|(n, b)| (n, b.into())).collect();
        check_names(&files)?;
        let earlier: Vec<Attempt> = self
            .attempts(run)
            .await?
            .into_iter()
            .filter(|a| a.step == step && self.is_own(a))
            .collect();
        let last = earlier.iter().map(|a| a.number).max();
        let name = match last.map_or(self.first, |last| last + 1) {
            0 => format!("{step:020}"),
            number => format!("{step:020}.{number}"),
        };
        let folder = self.folder(run).join(name.as_str());
        let describe = |source| Error::Describe {
            place: self.store.place(&folder),
            source,
        };
        let meta = serde_json::to_vec_pretty(&meta).map_err(describe)?;
        let mut entries = Vec::with_capacity(files.len() + 1);
        for (name, bytes) in files.into_iter().chain([(META.to_owned(), meta.into())]) {
            entries.push(Entry {
                digest: digest(&bytes).await,
                size: bytes.len() as u64,
                name: name.clone(),
            });
            self.write(folder.clone().join(name), bytes).await?;
        }
        let manifest = Manifest::new(run.clone(), step, entries);
        let bytes: Bytes = manifest.to_bytes().map_err(describe)?.into();
        let manifest = digest(&bytes).await;
        self.write(folder.clone().join(MANIFEST), bytes).await?;
        for old in earlier {
            self.remove(&old).await?;
        }
        Ok(Saved { name, manifest })
    }

    /// The checkpoint of this name.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is none, and the errors of a damaged checkpoint.
    pub async fn named(&self, run: &RunId, name: &str) -> Result<Checkpoint, Error> {
        let folder = self.folder(run).join(name);
        match Attempt::of(folder.clone()) {
            Some(attempt) => self.load(run, &attempt).await,
            None => Err(Error::Missing {
                place: self.store.place(&folder),
            }),
        }
    }

    /// The newest whole checkpoint of a run, if there is one.
    ///
    /// Incomplete or damaged checkpoints are skipped with a warning in the log. A store that cannot be reached is an
    /// error: a run that continued from an older checkpoint would lose work.
    pub async fn latest(&self, run: &RunId) -> Result<Option<Checkpoint>, Error> {
        for attempt in self.attempts(run).await?.into_iter().rev() {
            match self.load(run, &attempt).await {
                Ok(checkpoint) => return Ok(Some(checkpoint)),
                Err(error) if error.is_loss() => {
                    tracing::warn!(
                        checkpoint = self.store.place(&attempt.folder),
                        %error,
                        "the checkpoint is incomplete or damaged; trying the one before it"
                    );
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Removes all but the `n` newest whole checkpoints of a run (at least one stays), and the remains of older
    /// incomplete ones. Returns the removed steps.
    ///
    /// Here a checkpoint counts as whole if its manifest and the sizes of its files are right. Digests are checked when
    /// a checkpoint is read.
    pub async fn keep(&self, run: &RunId, n: usize) -> Result<Vec<u64>, Error> {
        let mut removed = Vec::new();
        for attempt in self.beyond(run, n).await? {
            self.remove(&attempt).await?;
            removed.push(attempt.step);
        }
        Ok(removed)
    }

    /// The names of the checkpoints that [`Checkpoints::keep`] would remove.
    pub async fn superseded(&self, run: &RunId, n: usize) -> Result<Vec<String>, Error> {
        let beyond = self.beyond(run, n).await?;
        let names = beyond.iter().filter_map(|a| a.folder.filename());
        Ok(names.map(str::to_owned).collect())
    }

    async fn beyond(&self, run: &RunId, n: usize) -> Result<Vec<Attempt>, Error> {
        let mut whole = 0;
        let mut beyond = Vec::new();
        for attempt in self.attempts(run).await?.into_iter().rev() {
            // This process neither removes nor counts checkpoints of a later term.
            if attempt.number >= self.first.saturating_add(ATTEMPTS_IN_A_TERM) {
                continue;
            }
            if whole >= n.max(1) || (whole > 0 && !self.looks_whole(run, &attempt).await?) {
                beyond.push(attempt);
            } else if whole > 0 || self.looks_whole(run, &attempt).await? {
                whole += 1;
            }
        }
        Ok(beyond)
    }

    /// True if the attempt was made in this term. Attempts of other terms stay until they are old.
    fn is_own(&self, attempt: &Attempt) -> bool {
        (self.first..self.first.saturating_add(ATTEMPTS_IN_A_TERM)).contains(&attempt.number)
    }

    fn folder(&self, run: &RunId) -> Path {
        Path::from_iter(["checkpoints", run.as_str(), self.role.as_str()])
    }

    /// All folders that may be checkpoints, oldest first.
    async fn attempts(&self, run: &RunId) -> Result<Vec<Attempt>, Error> {
        let folder = self.folder(run);
        let listing = self
            .store
            .durable()
            .list_with_delimiter(Some(&folder))
            .await
            .map_err(|source| Error::List {
                place: self.store.place(&folder),
                source,
            })?;
        let mut attempts: Vec<Attempt> = listing
            .common_prefixes
            .into_iter()
            .filter_map(Attempt::of)
            .collect();
        attempts.sort();
        Ok(attempts)
    }

    async fn manifest(&self, run: &RunId, attempt: &Attempt) -> Result<(Manifest, Digest), Error> {
        let key = attempt.folder.clone().join(MANIFEST);
        let damaged = |detail| Error::Damaged {
            place: self.store.place(&key),
            detail,
        };
        let bytes = self.store.fetch(&key).await?;
        let manifest = Manifest::from_bytes(&bytes).map_err(damaged)?;
        if manifest.run != *run || manifest.step != attempt.step {
            return Err(damaged(format!(
                "it belongs to step {} of run `{}`",
                manifest.step, manifest.run
            )));
        }
        Ok((manifest, digest(&bytes).await))
    }

    async fn load(&self, run: &RunId, attempt: &Attempt) -> Result<Checkpoint, Error> {
        let (manifest, known_by) = self.manifest(run, attempt).await?;
        let mut meta = None;
        let mut files = BTreeMap::new();
        for entry in manifest.files {
            let key = attempt.folder.clone().join(entry.name.as_str());
            // Each file is read to check it. Only the description stays in memory, because a model's weights may be
            // large.
            let bytes = self.store.read(&key, entry.size, &entry.digest).await?;
            if entry.name == META {
                meta = serde_json::from_slice(&bytes).ok();
            } else {
                files.insert(entry.name.clone(), entry);
            }
        }
        let Some(meta) = meta else {
            return Err(Error::Damaged {
                place: self.store.place(&attempt.folder),
                detail: format!("it has no readable {META}"),
            });
        };
        Ok(Checkpoint {
            step: attempt.step,
            meta,
            name: attempt.folder.filename().unwrap_or_default().to_owned(),
            manifest: known_by,
            store: self.store.clone(),
            folder: attempt.folder.clone(),
            files,
        })
    }

    async fn looks_whole(&self, run: &RunId, attempt: &Attempt) -> Result<bool, Error> {
        let manifest = match self.manifest(run, attempt).await {
            Ok((manifest, _)) => manifest,
            Err(error) if error.is_loss() => return Ok(false),
            Err(error) => return Err(error),
        };
        for entry in &manifest.files {
            let key = attempt.folder.clone().join(entry.name.as_str());
            match self.store.durable().head(&key).await {
                Ok(found) if found.size == entry.size => {}
                Ok(_) | Err(object_store::Error::NotFound { .. }) => return Ok(false),
                Err(source) => {
                    let place = self.store.place(&key);
                    return Err(Error::Read { place, source });
                }
            }
        }
        Ok(true)
    }

    async fn write(&self, key: Path, bytes: Bytes) -> Result<(), Error> {
        write(self.store.durable(), &key, bytes, self.store.in_parts())
            .await
            .map_err(|source| Error::write(self.store.place(&key), source))
    }

    async fn remove(&self, attempt: &Attempt) -> Result<(), Error> {
        let store = self.store.durable();
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| Error::Remove {
            place: self.store.place(&attempt.folder),
            source,
        };
        // The manifest goes first: a half-removed folder is no checkpoint.
        let manifest = attempt.folder.clone().join(MANIFEST);
        match store.delete(&manifest).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
            Err(source) => return Err(failed(Box::new(source))),
        }
        if let Some(folder) = self.store.local(&attempt.folder) {
            // A listing does not show half-written files of a killed process, so the folder is removed as a whole.
            return match tokio::fs::remove_dir_all(folder).await {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(failed(Box::new(e))),
                _ => Ok(()),
            };
        }
        let keys = store.list(Some(&attempt.folder)).map_ok(|m| m.location);
        store
            .delete_stream(keys.boxed())
            .try_for_each(|_| std::future::ready(Ok(())))
            .await
            .map_err(|source| failed(Box::new(source)))
    }
}

/// Names must be plain file names, so that a checkpoint is one folder in every kind of store.
fn check_names(files: &[(String, Bytes)]) -> Result<(), Error> {
    let mut seen = BTreeSet::from([MANIFEST, META]);
    for (name, _) in files {
        let plain = !name.is_empty()
            && name.len() <= 200
            && !name.starts_with('.')
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        if !plain || !seen.insert(name) {
            return Err(Error::Name(name.clone()));
        }
    }
    Ok(())
}
