//! Large things by digest, and checkpoints that are whole or not there.
//!
//! A [`Store`] is a local folder by default, or any bucket that a URL names:
//! `s3://`, `gs://`, `az://` and what else object_store reads. Credentials and
//! endpoints come from the environment variables of the respective cloud
//! (`AWS_…`, `GOOGLE_…`, `AZURE_…`). This is the only crate that knows
//! object_store. It knows nothing of what it stores, never retries what the
//! client below has given up on, and deletes an artifact only when it is told to:
//! what refers to an artifact is not written in the store.
//!
//! Invariants:
//! - an artifact's name is the BLAKE3 digest of its content, so putting it
//!   twice is putting it once, and what is read is what was written or an error;
//! - a file appears under its name with its whole content or not at all;
//! - a checkpoint's manifest is written after all its files. A checkpoint
//!   without one, or with a file that differs from it, is never handed out;
//!   the one before is.

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
