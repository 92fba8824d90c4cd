//! Low-rank adapters (LoRA; Hu et al., 2021): W x + (α / r) · B (A x), where only A and B are trained.
//!
//! An [`Adapter`] belongs to one model at a time ([`crate::Model::attach`]). Any number of models may share the same
//! base ([`crate::Model::bare`]), each with its own adapter. Files are PEFT's.

mod adapter;
mod apply;
mod files;

pub use adapter::Adapter;
pub(crate) use apply::{LowRank, Noise};
pub use flopsmith_config::lora::{LoraConfig, Target};
