//! Modules of PyTorch as a target: a candidate is a Python file with a `ModelNew` whose work is done by inline C++, by inline
//! CUDA C++ or by kernels of Triton.
//!
//! A problem is a folder with `problem.toml` and a `reference.py` in KernelBench's contract. [`Builder`] checks a
//! candidate's source without executing it and compiles its extensions. [`Evaluator`] verifies its results, and its
//! gradients where a problem asks for them, against a float64 run of the reference, and times it against the baselines
//! that the problem names. Kernels of Triton run in Triton's interpreter and are compiled for GPUs, but not timed: that needs a
//! GPU. CUDA C++ is compiled only. [`Evaluator::profile`] shows in which operators a call spends its time, for readers.
//!
//! Crate `evaluate` puts these stages together. This crate knows nothing of kernels with array arguments. It shares with
//! them the jail, the stopping rules, the statistics and the roof of memory.
//!
//! Invariants:
//! - The clock, the seeds, the inputs, the expected results and the verdict live in this process. The candidate's
//!   process builds and calls; only results that this process finds in shared memory count.
//! - The reference runs in trusted processes of its own, never in the candidate's.
//! - No Python of a candidate runs before its source was accepted and its extensions were compiled.
//! - A candidate that was not timed has no speed. One that was not verified is neither right nor wrong.
//! - A profile is what the candidate's process says of itself: it is shown, and nothing is decided by it.
//! - All sides are called through the same protocol on the same cores, in turn; each call gets fresh inputs.

mod admission;
mod arena;
mod baseline;
mod check;
mod compare;
mod compile;
mod cuda;
mod environment;
mod error;
mod evaluate;
mod gpu;
pub mod kernelbench;
mod line;
mod outcome;
mod package;
mod problem;
mod profile;
mod reference;
mod symbols;
mod time;
mod triton;
mod verify;
mod worker;

pub use admission::{Finding, Severity};
pub use baseline::Baseline;
pub use check::{Checked, Cuda, Extension, Kernel, Refusal, Triton};
pub use environment::Environment;
pub use error::Error;
pub use evaluate::{Effort, Evaluator, Options};
pub use gpu::{Architecture, CompiledKernel, Figures};
pub use outcome::{
    Failure, NOT_TIMED, NOT_VERIFIED, Outcome, Samples, Speed, TO_BE_TIMED, Timed, Verdict,
};
pub use package::{Builder, Package};
pub use problem::{Gradients, Problem, Tolerance, Workload};
pub use triton::INTERPRETATION;
