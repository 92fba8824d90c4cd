//! Batches that gave no finite gradient, kept for inspection.
//!
//! Each batch is one MessagePack map with named fields, the fields of [`Skipped`] in their order. MessagePack keeps
//! every bit of a floating-point number and can represent numbers that are not finite (a ratio may overflow); JSON
//! cannot. The map lies in the artifact store under the digest that the step's metrics name, and in the run's folder as
//! `skipped/step-000012.msgpack`. `flopsmith runs skipped` shows it; any reader of MessagePack reads it.

use std::path::{Path, PathBuf};

use flopsmith_protocol::{ArtifactRef, CandidateId, Digest, PolicyVersion, RunId};
use flopsmith_store::Store;
use serde::{Deserialize, Serialize};

use crate::advantages::Advantaged;
use crate::error::Error;
use crate::journal::replace;
use flopsmith_config::{GrpoConfig, Settings};

/// The subfolder of a run's folder.
pub const FOLDER: &str = "skipped";
/// Number of batches of a run that are kept, besides the one with which the run ends. The first ones show the cause,
/// and a run may skip batches for days.
pub const KEPT: u32 = 32;
/// The version of the format.
pub const FORMAT: u32 = 1;

/// Everything that a skipped update would have been made of, but for the weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// [`FORMAT`].
    pub format: u32,
    /// The run.
    pub run: RunId,
    /// The step.
    pub step: u64,
    /// The policy version that was to be trained.
    pub version: PolicyVersion,
    /// Names the value that was not finite, and the update.
    pub error: String,
    /// Digest of the run's settings as JSON: two batches with the same one were trained alike.
    pub settings: Digest,
    /// The `[learner]` table.
    pub learner: GrpoConfig,
    /// Share of the budget that was spent, 0 to 1.
    pub progress: f64,
    /// The samples in the order in which they were given to the learner.
    pub samples: Vec<Sample>,
}

/// A sample of a skipped batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The candidate.
    pub candidate: CandidateId,
    /// The policy version that wrote it.
    pub policy: Option<PolicyVersion>,
    /// Prompt token ids.
    pub prompt_tokens: Vec<u32>,
    /// Sampled token ids.
    pub tokens: Vec<u32>,
    /// Log-probability of each of them under the distribution it was drawn from; none where it was not drawn for this step.
    pub logprobs: Vec<f32>,
    /// The advantage.
    pub advantage: f64,
    /// Softmax temperature.
    pub temperature: f32,
}

impl Sample {
    /// The kept data of a sample that is about to be trained on.
    pub fn of(sample: &Advantaged, temperature: f32) -> Self {
        let rollout = &sample.rollout;
        Self {
            candidate: rollout.candidate.id.clone(),
            policy: rollout.candidate.policy,
            prompt_tokens: rollout.prompt_tokens.clone(),
            tokens: rollout.tokens.clone(),
            logprobs: rollout.logprobs.clone(),
            advantage: sample.advantage,
            temperature,
        }
    }
}

impl Skipped {
    /// The bytes that are kept.
    ///
    /// # Errors
    /// [`Error::Saved`] if the batch cannot be written as MessagePack.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        rmp_serde::to_vec_named(self).map_err(|e| damaged(&e))
    }

    /// Reads what [`Skipped::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`Error::Saved`] if the bytes are damaged or of a later format.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let read: Self = rmp_serde::from_slice(bytes).map_err(|e| damaged(&e))?;
        if read.format > FORMAT {
            return Err(Error::Saved {
                role: "learner",
                detail: format!("a skipped batch of format {}", read.format),
            });
        }
        Ok(read)
    }

    /// Puts it into the store.
    pub async fn keep(&self, store: &Store) -> Result<ArtifactRef, Error> {
        Ok(store.put(self.to_bytes()?).await?)
    }
}

fn damaged(error: &dyn std::error::Error) -> Error {
    Error::Saved {
        role: "learner",
        detail: format!("a skipped batch: {error}"),
    }
}

/// Digest of a run's settings.
pub fn digest(settings: &Settings) -> Digest {
    // A JSON map without its own order is sorted by key, so equal settings have equal bytes.
    let value = serde_json::to_value(settings).unwrap_or_default();
    Digest::of(value.to_string().as_bytes())
}

/// Path of a step's batch, relative to the run's folder.
pub fn name(step: u64) -> String {
    format!("{FOLDER}/step-{step:06}.msgpack")
}

/// The file of a step's batch in a run's folder.
pub fn file(folder: &Path, step: u64) -> PathBuf {
    folder.join(name(step))
}

/// Writes a batch into the run's folder atomically; a batch that is there already stays.
pub fn write(folder: &Path, step: u64, bytes: &[u8]) -> Result<(), Error> {
    let path = file(folder, step);
    if path.exists() {
        return Ok(());
    }
    let fail = |source| Error::File {
        path: path.clone(),
        source,
    };
    std::fs::create_dir_all(folder.join(FOLDER)).map_err(fail)?;
    replace(&path, bytes).map_err(fail)
}

/// The batches in a run's folder, by their files, in the order of their steps.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join(FOLDER));
    let paths = entries.into_iter().flatten().filter_map(Result::ok);
    let mut files: Vec<PathBuf> = paths
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "msgpack"))
        .collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopsmith_test_support::{candidate, outcome, rollout, run_id, wrong};

    fn batch() -> Skipped {
        let mut rollout = rollout(&outcome(candidate(3, 0, 0), wrong()));
        rollout.logprobs = vec![f32::NAN, f32::NEG_INFINITY];
        let sample = Advantaged {
            rollout,
            advantage: 1.0 / 3.0,
        };
        Skipped {
            format: FORMAT,
            run: run_id(),
            step: 3,
            version: PolicyVersion(2),
            error: "the gradient is not finite".into(),
            settings: digest(&Settings::default()),
            learner: GrpoConfig::default(),
            progress: 0.1,
            samples: vec![Sample::of(&sample, 1.0)],
        }
    }

    #[test]
    fn a_batch_keeps_every_bit_also_of_what_is_no_number() {
        let batch = batch();
        let read = Skipped::parse(&batch.to_bytes().expect("bytes")).expect("a batch");
        let bits = |s: &Skipped| -> Vec<u32> {
            s.samples[0].logprobs.iter().map(|l| l.to_bits()).collect()
        };
        assert_eq!(bits(&read), bits(&batch));
        assert_eq!(
            read.samples[0].advantage.to_bits(),
            (1.0f64 / 3.0).to_bits()
        );
        let of_later = Skipped {
            format: FORMAT + 1,
            ..batch
        };
        let refused = Skipped::parse(&of_later.to_bytes().expect("bytes"));
        assert!(matches!(refused, Err(Error::Saved { .. })), "{refused:?}");
        assert!(Skipped::parse(b"nothing").is_err());
    }

    #[test]
    fn settings_have_one_digest_and_others_have_another() {
        let mut other = Settings::default();
        assert_eq!(digest(&other), digest(&Settings::default()));
        other.advantage.sharing = 0.5;
        assert_ne!(digest(&other), digest(&Settings::default()));
    }

    #[test]
    fn files_are_found_in_the_order_of_their_steps_and_written_once() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(files(folder.path()).is_empty());
        for step in [12, 3, 100] {
            write(folder.path(), step, b"first").expect("it is written");
        }
        write(folder.path(), 3, b"second").expect("it is there");
        let found = files(folder.path());
        let expected = [3, 12, 100].map(|step| file(folder.path(), step));
        assert_eq!(found, expected);
        assert_eq!(std::fs::read(&found[0]).expect("it is there"), b"first");
    }
}
