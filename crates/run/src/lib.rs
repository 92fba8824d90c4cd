//! The folder, start, resume and end of a run, and the life of a worker.
//!
//! Commands share this library: the folder and the summary of a run, the output of results, and [`evaluator`], which
//! gives the pipeline of `flopsmith-evaluate` the jail and the harness of this process. [`admission`] examines problem
//! definitions by it. The settings are types of `flopsmith-config`. The binary reads arguments, calls this library, prints,
//! and sets the exit code.
//!
//! Invariants:
//! - One process at a time works on a run's folder; a lock that ends with the process guards it.
//! - A run goes on with the job and the settings that it began with; only its budget may be changed.
//! - A file that the user named is checked before the work that fills it begins, and a folder with weights in it is
//!   complete.
//! - A stop that was asked for ends the work in order, and the run can be resumed.

pub mod admission;
mod archive_view;
pub mod broker;
mod certification;
pub mod cluster;
pub mod comparability;
pub mod console;
pub mod continued;
#[cfg(feature = "torch")]
mod devices;
pub mod digits;
pub mod durations;
pub mod endpoint;
pub mod evaluator;
pub mod event_files;
pub mod exit;
pub mod expected;
pub mod export;
pub mod farm;
pub mod folder;
pub mod fruitless;
pub mod idle_wait;
pub mod interrupt;
pub mod jail;
pub mod jsonl;
pub mod kept_out;
pub mod listing;
pub mod local;
mod machine;
pub mod measuring_lock;
pub mod output;
pub mod paths;
pub mod permissions;
pub mod record;
pub mod report;
pub mod resident;
pub mod results;
pub mod roofline;
pub mod run;
pub mod scalars;
pub mod shell;
pub mod start;
pub mod summary;
pub mod tail;
pub mod ticker;
pub mod view;
pub mod warm;
pub mod worker;
