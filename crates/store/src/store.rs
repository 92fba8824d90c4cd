//! The store and its artifacts.

use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use flopsmith_protocol::{ArtifactRef, Digest};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, ObjectStoreExt};
use url::Url;

use crate::error::Error;
use crate::write::write;

/// Most bytes that are hashed on the caller's thread. A larger input would block the other tasks of the runtime thread.
const HASH_APART: usize = 1 << 20;

/// The place of artifacts and checkpoints. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    /// For artifacts.
    objects: Arc<dyn ObjectStore>,
    /// The same place for checkpoints. On a local disk every write waits until the data survives a power failure.
    durable: Arc<dyn ObjectStore>,
    /// The folder or URL, for messages.
    name: String,
    /// The folder of a local store.
    folder: Option<PathBuf>,
}

impl Store {
    /// Opens a folder, which is created if it is missing, or an object store by its URL. The cloud's own environment
    /// variables give the endpoint and the credentials (`AWS_ENDPOINT`, `AWS_ACCESS_KEY_ID`, `GOOGLE_SERVICE_ACCOUNT`,
    /// …).
    pub fn open(url_or_path: &str) -> Result<Self, Error> {
        // Only the clouds' own variables: the client would also read `TOKEN` or `REGION` as settings.
        let settings = std::env::vars_os().filter_map(|(k, v)| {
            let k = k.into_string().ok()?;
            let ours = ["AWS_", "GOOGLE_", "AZURE_"]
                .iter()
                .any(|p| k.starts_with(p));
            ours.then_some(())?;
            Some((k, v.into_string().ok()?))
        });
        Self::open_with(url_or_path, settings)
    }

    /// Like [`Store::open`], with these settings of an object store instead of the environment's. The names are the
    /// same, in upper or lower case.
    pub fn open_with(
        url_or_path: &str,
        settings: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Error> {
        let url = match scheme(url_or_path) {
            Some((_, rest)) if rest.starts_with("//") => {
                Url::parse(url_or_path).map_err(|source| Error::Url {
                    url: url_or_path.to_owned(),
                    source: source.into(),
                })?
            }
            // A folder of this name would be the last that its user expects.
            Some((scheme, rest)) if SCHEMES.contains(&scheme.to_ascii_lowercase().as_str()) => {
                return Err(Error::Slashes {
                    url: url_or_path.to_owned(),
                    scheme: scheme.to_owned(),
                    // The path of a file is absolute.
                    rest: match scheme.eq_ignore_ascii_case("file") {
                        true => rest.to_owned(),
                        false => rest.trim_start_matches('/').to_owned(),
                    },
                });
            }
            // The names of other folders may have a colon.
            _ => return Self::folder(FsPath::new(url_or_path)),
        };
        if url.scheme() == "file" {
            return match url.to_file_path() {
                Ok(path) => Self::folder(&path),
                Err(()) => Err(Error::Url {
                    url: url_or_path.to_owned(),
                    source: "it is no absolute path of this machine".into(),
                }),
            };
        }
        // The TLS client panics if the process has no default crypto provider. An earlier choice stays.
        let _chosen = rustls::crypto::ring::default_provider().install_default();
        let (objects, prefix) =
            object_store::parse_url_opts(&url, settings).map_err(|source| Error::Url {
                url: url_or_path.to_owned(),
                source: Box::new(source),
            })?;
        let objects: Arc<dyn ObjectStore> = Arc::new(PrefixStore::new(objects, prefix));
        Ok(Self {
            durable: Arc::clone(&objects),
            objects,
            name: url_or_path.trim_end_matches('/').to_owned(),
            folder: None,
        })
    }

    fn folder(path: &FsPath) -> Result<Self, Error> {
        let unusable = |source: std::io::Error| Error::Folder {
            path: path.display().to_string(),
            source,
        };
        std::fs::create_dir_all(path).map_err(unusable)?;
        let path = path.canonicalize().map_err(unusable)?;
        // A folder that cannot be written is reported here and not after the first step of a run.
        let probe = path.join(format!(".writable-{}", std::process::id()));
        std::fs::write(&probe, []).map_err(unusable)?;
        // A concurrent open in this process may have removed the probe file already.
        std::fs::remove_file(&probe).ok();
        let open = || {
            LocalFileSystem::new_with_prefix(&path).map_err(|source| Error::Folder {
                path: path.display().to_string(),
                source: std::io::Error::other(source),
            })
        };
        Ok(Self {
            objects: Arc::new(open()?),
            durable: Arc::new(open()?.with_fsync(true)),
            name: path.display().to_string(),
            folder: Some(path),
        })
    }

    /// The folder or URL.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Stores bytes under their digest. A repetition changes nothing.
    pub async fn put(&self, bytes: impl Into<Bytes>) -> Result<ArtifactRef, Error> {
        let bytes = bytes.into();
        let artifact = ArtifactRef {
            digest: digest(&bytes).await,
            size: bytes.len() as u64,
        };
        // Written even if the artifact exists: the content is the same, the replacement is atomic, and an artifact that
        // was damaged on the disk becomes whole again.
        let key = key(&artifact.digest);
        write(&self.objects, &key, bytes, self.in_parts())
            .await
            .map_err(|source| Error::write(self.place(&key), source))?;
        Ok(artifact)
    }

    /// Reads an artifact and checks its size and digest.
    pub async fn get(&self, artifact: &ArtifactRef) -> Result<Bytes, Error> {
        self.read(&key(&artifact.digest), artifact.size, &artifact.digest)
            .await
    }

    /// Removes an artifact permanently. Removing an artifact that does not exist changes nothing.
    ///
    /// The store does not know the references to an artifact, and equal bytes from other writers are the same artifact.
    /// The caller must therefore know that nothing refers to the artifact any more, in other runs of the same store
    /// either.
    pub async fn remove(&self, artifact: &ArtifactRef) -> Result<(), Error> {
        let key = key(&artifact.digest);
        match self.objects.delete(&key).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(source) => Err(Error::Remove {
                place: self.place(&key),
                source: Box::new(source),
            }),
        }
    }

    /// The file of an artifact, for programs that open it themselves. None if the store is no folder. The content is
    /// not checked.
    pub fn path(&self, artifact: &ArtifactRef) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(key(&artifact.digest).as_ref()))
    }

    pub(crate) fn durable(&self) -> &Arc<dyn ObjectStore> {
        &self.durable
    }

    /// True if large files are written in parts. On a local disk parts have no advantage.
    pub(crate) fn in_parts(&self) -> bool {
        self.folder.is_none()
    }

    /// The local folder of a key, if there is one.
    pub(crate) fn local(&self, key: &Path) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(key.as_ref()))
    }

    /// The path or URL of a key, for messages.
    pub(crate) fn place(&self, key: &Path) -> String {
        format!("{}/{key}", self.name)
    }

    /// Reads a file without a check.
    pub(crate) async fn fetch(&self, key: &Path) -> Result<Bytes, Error> {
        let failed = |source| Error::read(self.place(key), source);
        self.objects
            .get(key)
            .await
            .map_err(failed)?
            .bytes()
            .await
            .map_err(failed)
    }

    /// Reads a file and checks its size and digest.
    pub(crate) async fn read(
        &self,
        key: &Path,
        size: u64,
        expected: &Digest,
    ) -> Result<Bytes, Error> {
        let bytes = self.fetch(key).await?;
        let damaged = |detail: String| Error::Damaged {
            place: self.place(key),
            detail,
        };
        if bytes.len() as u64 != size {
            return Err(damaged(format!(
                "it has {} bytes, but {size} bytes were written",
                bytes.len()
            )));
        }
        let found = digest(&bytes).await;
        if found != *expected {
            return Err(damaged(format!(
                "its digest is {}…, but content with digest {}… was written",
                found.short(),
                expected.short()
            )));
        }
        Ok(bytes)
    }
}

/// Schemes that begin addresses of stores, and not names of folders.
const SCHEMES: [&str; 14] = [
    "s3", "s3a", "gs", "gcs", "az", "azure", "adl", "abfs", "abfss", "http", "https", "file",
    "memory", "ftp",
];

/// The scheme of an address, and the text after its colon. A path may look like an address: `a:b`.
fn scheme(address: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = address.split_once(':')?;
    let begins = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_name = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    (begins && scheme.chars().all(is_name)).then_some((scheme, rest))
}

/// `artifacts/ab/cdef…`: the first two digits name a folder, which keeps the folders small.
pub(crate) fn key(digest: &Digest) -> Path {
    let (head, tail) = digest.as_str().split_at(2);
    Path::from_iter(["artifacts", head, tail])
}

/// The digest of some bytes. More than [`HASH_APART`] bytes are hashed on a thread for blocking work.
pub(crate) async fn digest(bytes: &Bytes) -> Digest {
    if bytes.len() <= HASH_APART {
        return Digest::of(bytes);
    }
    let apart = bytes.clone();
    match tokio::task::spawn_blocking(move || Digest::of(&apart)).await {
        Ok(digest) => digest,
        // Only a runtime that is shutting down drops the task.
        Err(_) => Digest::of(bytes),
    }
}
