//! Static checks of a candidate's source and object.
//!
//! [`scan`] refuses sources before any compiler reads them, [`detect`] determines the techniques of a source, and
//! [`object_audit`] refuses objects before they run. [`assembly`] finds the hot loop of a program for its readers. This crate compiles, runs and measures nothing.
//!
//! Sources are hostile: every recursion over one has a bound, and the detection runs on a stack of its own (`stack`).

pub mod assembly;
pub mod detect;
#[cfg(test)]
mod extremes;
#[doc(hidden)]
pub mod fuzz;
pub mod object_audit;
#[cfg(test)]
mod page;
pub mod scan;
mod stack;
