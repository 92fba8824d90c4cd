//! Losses, optimizer and training loops over the policy.
//!
//! [`Learner`] turns sampled programs and their advantages into gradient steps
//! (GRPO and its relatives); [`sft()`] teaches a model answers to prompts. Both
//! stand on the same parts: per-token losses as plain arithmetic ([`loss`]), batches by length without padding waste
//! ([`batch`]), gradients on several threads at once, and AdamW over one flat vector ([`AdamW`]).
//!
//! What it deliberately does not do: no rewards and no advantages (`reward`),
//! no sampling (`policy`), no storage of checkpoints: [`Learner::state`] gives
//! files and [`Learner::restore`] takes them, whoever keeps them.
//!
//! Invariants:
//! - training uses the sampled token ids and the log-probabilities they were drawn with, never text;
//! - a batch split another way gives the same gradient up to rounding, and with
//!   the same number of workers a run repeats bit by bit on the same machine;
//! - a step whose loss or gradient is not finite changes no weight;
//! - a learner restored from its files goes on bit by bit like the one that wrote them.

pub mod adamw;
pub mod batch;
pub mod config;
pub mod correction;
pub mod error;
pub mod gae;
mod gradient;
pub mod kl_control;
mod learner;
pub mod loss;
pub mod pace;
pub mod pairwise;
mod pool;
pub mod ppo_loss;
mod report;
mod sft;
pub mod sharpen;
mod state;
mod twins;

pub use adamw::AdamW;
pub use config::{GrpoConfig, Labels, Loss, Schedule, SftConfig};
pub use correction::Correction;
pub use error::{Error, Result};
pub use kl_control::KlControl;
pub use learner::{GrpoSample, Learner};
pub use report::{SftProgress, SftReport, StepReport};
pub use sft::{evaluate, sft};
