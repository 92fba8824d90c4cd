//! Measured programs for training ([`draw`], [`to_measure`], [`label`], [`of_run`], [`split`]), programs that a language
//! model writes for it ([`synthesize`]), and the chain of the stages of performance alignment (`chain`): measure, split,
//! fine-tune, reward model, reinforcement and direct alignment, evaluation of all models.
//!
//! `flopsmith dataset` and `flopsmith align` call the same functions. The trainings are those of `flopsmith-recipes`, and
//! the evaluation is that of `flopsmith-eval`; each stage of a chain has a recipe of its own, with which the single
//! command repeats it.
//!
//! Invariants:
//! - a program of several prompts is measured once, and a program that this machine failed to measure is no wrong one;
//! - no part of a split has a program that another part has, and no part has a program of a held-out problem;
//! - a stage of a chain is left out only if it is complete with the same settings and inputs, and a stage that is
//!   repeated repeats every stage that uses its results.

#[cfg(feature = "torch")]
pub mod chain;
pub mod draw;
pub mod label;
pub mod of_run;
pub mod split;
pub mod synthesize;
pub mod to_measure;
