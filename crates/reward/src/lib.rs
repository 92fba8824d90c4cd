//! Rewards of outcomes, advantages in groups, and metrics of models: pure functions.
//!
//! - [`Reward`] turns a verdict into a number, with its standard error;
//! - [`advantage`] turns the rewards of a group into advantages;
//! - [`sharing`] lowers the reward of a program that many samples found;
//! - [`turns`] turns the rewards of a conversation into one number, or into one for each turn;
//! - [`metrics`] turns the outcomes of a model's samples into numbers with intervals, and compares two models.
//!
//! This crate does no IO, knows no clock and has no random numbers of its own: callers pass the generator of those that
//! resampling needs. The verdict already says who is at fault for an outcome; this crate does not decide it.
//!
//! Invariants, each with a property test:
//! - a valid result outranks every invalid one;
//! - speed counts only for verified programs, and a faster one is never worth
//!   less than a slower one in the same [`Context`];
//! - every reward is finite;
//! - an infrastructure failure has no reward at all, and a sample without a
//!   reward has no advantage and no influence on the others'.

pub mod advantage;
mod ladder;
pub mod metrics;
mod reward;
pub mod sharing;
pub mod turns;

pub use advantage::{AdvantageKind, Scale, group_advantages};
pub use ladder::{Ladder, SuccessScale};
pub use reward::{Context, Error, Logistic, Reward};
