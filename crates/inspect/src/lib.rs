//! What a candidate's source and its object contain.
//!
//! [`scan`] refuses sources before any compiler sees them, [`detect`] says
//! which techniques they use, and [`object_audit`] refuses objects before they
//! run. Nothing here compiles, runs or measures anything.

pub mod detect;
#[doc(hidden)]
pub mod fuzz;
pub mod object_audit;
pub mod scan;
