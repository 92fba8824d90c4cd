//! Losses, optimizer and training loops over the policy.
//!
//! [`Learner`] turns sampled programs and their advantages into gradient steps (GRPO and its relatives), [`Ppo`] does
//! so with a value head, [`sft()`] trains a model on answers to prompts, and [`PairTraining`] makes reward models and
//! aligned policies of pairs of a fast and a slow program. All of them use one trainer (`trainer.rs`): an objective of
//! per-token losses as plain arithmetic ([`loss`]), batches by length without padding waste ([`batch`]), gradients on
//! several threads at once, AdamW over one flat vector ([`AdamW`]), and one format of saved states.
//!
//! Left out on purpose: no rewards and no advantages (`reward`), no sampling (`policy`), and no storage of checkpoints:
//! [`Learner::state`] gives files and [`Learner::restore`] takes them; the caller stores them.
//!
//! Invariants:
//! - training uses the sampled token ids and the log-probabilities they were drawn with, never text;
//! - a batch that is split differently gives the same gradient up to rounding, and with the same number of workers a
//!   run repeats bit by bit on the same machine;
//! - a step whose loss or gradient is not finite changes no weight;
//! - a learner restored from its files continues bit by bit like the one that wrote them.

pub mod adamw;
pub mod batch;
pub mod correction;
mod duplicates;
mod error;
pub mod gae;
mod gradient;
mod judge;
mod learner;
pub mod loss;
mod pace;
mod pair_objective;
mod pair_state;
mod pair_training;
pub mod pairwise;
mod pool;
mod ppo;
pub mod ppo_loss;
mod ppo_objective;
mod ppo_sample;
mod report;
mod sft;
mod sharpen;
mod skips;
mod state;
mod trainer;

pub use adamw::AdamW;
pub use error::{Error, Result};
pub use judge::Judge;
pub use learner::{GrpoSample, Learner};
pub use pair_objective::{PairMetrics, TokenPair};
pub use pair_training::{PairProgress, PairTraining};
pub use pairwise::Evidence;
pub use ppo::Ppo;
pub use ppo_sample::{PpoReport, PpoSample};
pub use report::{SftProgress, SftReport, StepReport};
pub use sft::{SftTraining, evaluate, sft};
pub use skips::SkippedUpdate;
