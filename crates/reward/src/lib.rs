//! What an outcome is worth, and how well a policy does: pure functions.
//!
//! - [`Reward`] turns a verdict into a number, with its standard error;
//! - [`advantage`] turns the rewards of a group into advantages;
//! - [`sharing`] makes what many samples found worth less to each;
//! - [`turns`] makes one number, or one for each turn, of what a conversation came to;
//! - [`metrics`] holds the numbers that evaluations report.
//!
//! This crate does no IO, knows no clock and draws no random numbers. It does
//! not decide whose fault an outcome was: the verdict says so already.
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
