//! Modules of PyTorch from the source to the verdict. Skipped without PyTorch.
#![expect(clippy::unwrap_used, reason = "tests")]

mod admission;
mod determinism;
mod module_forms;
mod modules;
mod parameters;
mod solutions;
