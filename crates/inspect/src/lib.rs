//! Static checks of a candidate's source and object.
//!
//! [`scan`] refuses sources before any compiler reads them, [`detect`] determines the techniques of a source, and
//! [`object_audit`] refuses objects before they run. This crate compiles, runs and measures nothing.

pub mod detect;
#[doc(hidden)]
pub mod fuzz;
pub mod object_audit;
pub mod scan;
