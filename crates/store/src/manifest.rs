//! The manifest: the list of a checkpoint's files, with a digest that shows whether the list itself is whole.

use flopsmith_protocol::{Digest, RunId};
use serde::{Deserialize, Serialize};

/// Version of the manifest's format.
const FORM: u32 = 1;

/// One file of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) digest: Digest,
}

/// The list of a checkpoint's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    /// Version of this form.
    form: u32,
    pub(crate) run: RunId,
    pub(crate) step: u64,
    pub(crate) files: Vec<Entry>,
}

/// A manifest and the digest of its canonical JSON. It holds no fractions, whose text may differ from writer to writer.
#[derive(Serialize, Deserialize)]
struct Sealed {
    manifest: Manifest,
    seal: Digest,
}

impl Manifest {
    pub(crate) fn new(run: RunId, step: u64, files: Vec<Entry>) -> Self {
        Self {
            form: FORM,
            run,
            step,
            files,
        }
    }

    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec_pretty(&Sealed {
            seal: Digest::of(&serde_json::to_vec(self)?),
            manifest: self.clone(),
        })
    }

    /// Parses and checks a manifest. The error text states the fault.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let Sealed { manifest, seal } =
            serde_json::from_slice(bytes).map_err(|e| format!("it is not a manifest: {e}"))?;
        let canonical = serde_json::to_vec(&manifest).map_err(|e| e.to_string())?;
        if Digest::of(&canonical) != seal {
            return Err("its content does not match its seal".to_owned());
        }
        if manifest.form != FORM {
            return Err(format!(
                "its format is version {}, but this build reads version {FORM}",
                manifest.form
            ));
        }
        Ok(manifest)
    }
}
