//! A run's folder, start, resume and end, and a worker's life.
//!
//! Everything that commands share: settings, the evaluation pipeline of this
//! process, the folder of a run and what is summed up of it, and how results
//! are told. The binary reads arguments, calls this, prints and sets the exit
//! code.

pub mod archive_view;
pub mod broker;
pub mod certification;
pub mod comparability;
pub mod config;
pub mod console;
pub mod digits;
pub mod evaluator;
pub mod exit;
pub mod expected;
pub mod export;
pub mod folder;
pub mod idle_wait;
pub mod interrupt;
pub mod jail;
pub mod jsonl;
pub mod local;
pub mod machine;
pub mod measuring_lock;
pub mod output;
pub mod paths;
pub mod record;
pub mod roofline;
pub mod run;
pub mod shell;
pub mod summary;
pub mod ticker;
pub mod view;
pub mod worker;
