//! Where programs come from: each file is one source.

#[cfg(feature = "torch")]
pub mod policy;
pub mod schedule;
