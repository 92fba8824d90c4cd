//! Artifacts that are named by their digest, and checkpoints that are whole or do not exist.
//!
//! A [`Store`] is a local folder by default, or a bucket that a URL names: `s3://`, `gs://`, `az://` and the other
//! schemes of object_store. Credentials and endpoints come from the environment variables of the respective cloud
//! (`AWS_…`, `GOOGLE_…`, `AZURE_…`). No other crate uses object_store. The crate knows nothing of the content that it
//! stores. It never retries a request that the object_store client has given up. It deletes an artifact only on
//! request, because the store holds no record of the references to an artifact.
//!
//! Invariants:
//! - An artifact's name is the BLAKE3 digest of its content. A second `put` of the same content changes nothing, and a
//!   read returns the written content or an error.
//! - A file appears under its name with its whole content or not at all.
//! - A checkpoint's manifest is written after all its files. A checkpoint without a manifest, or with a file that
//!   differs from its manifest, is never returned; the previous checkpoint is returned instead.

mod checkpoints;
mod error;
mod listing;
mod manifest;
mod probe;
mod store;
mod write;

pub use checkpoints::{Checkpoint, Checkpoints, Saved};
pub use error::Error;
pub use listing::Listed;
pub use probe::Honours;
pub use store::Store;
