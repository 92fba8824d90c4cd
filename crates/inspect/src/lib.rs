//! Static checks of a candidate's source and object.
//!
//! [`scan`] refuses sources before any compiler reads them, [`detect`] determines the techniques of a source, and
//! [`object_audit`] refuses objects before they run. [`assembly`] finds the hot loop of a program for its readers. This crate compiles, runs and measures nothing.

pub mod assembly;
pub mod detect;
#[doc(hidden)]
pub mod fuzz;
pub mod object_audit;
pub mod scan;
