//! The settings of runs, recipes, trainings and endpoints, read and validated once.
//!
//! Left out on purpose: no libtorch and no bus, so a node that only measures reads the same configuration, with the same
//! errors, as the one that trains.
//!
//! Invariants:
//! - each setting has one type, one default and one description; `flopsmith config explain` prints these;
//! - an unknown key is an error that names its line and the nearest known key;
//! - a configuration that was read can be run: values are checked alone and together before anything starts.

mod agent;
mod algorithm;
pub mod alignment;
mod check;
mod correction;
mod device;
mod dtype;
pub mod endpoint;
mod endpoint_training;
mod grpo;
mod job;
mod kl_control;
pub mod lora;
mod misfit;
mod money;
mod pairs;
mod ppo;
mod range;
pub mod rates;
pub mod read;
pub mod recipe;
mod reference;
pub mod search;
mod settings;
mod sft;
mod training;

pub use flopsmith_archive::mix::Mix;

pub use agent::Agent;
pub use algorithm::Algorithm;
pub use alignment::Alignment;
pub use check::{check_cluster, check_training, warnings};
pub use correction::Correction;
pub use device::{Device, NoDevice};
pub use dtype::Dtype;
pub use endpoint::Endpoint;
pub use grpo::{GrpoConfig, Loss};
pub use job::Job;
pub use kl_control::KlControl;
pub use lora::LoraConfig;
pub use misfit::at_its_line;
pub use money::Money;
pub use pairs::{DpaConfig, RewardModelConfig};
pub use ppo::PpoConfig;
pub use range::OutOfRange;
pub use rates::{Fall, Schedule};
pub use read::{Usage, load, parse, read, read_text};
pub use reference::Reference;
pub use settings::{
    Advantage, Evaluate, FlatGroups, Generator, GeneratorKind, Hosted, Overlong, Prompt, Settings,
    Standard, Start, TurnPrompt, Turns,
};
pub use sft::{Labels, SftConfig};
pub use training::{Shared, Training};
