//! Where programs come from: each file is one source.

pub mod agent;
pub mod conversation;
pub mod endpoint;
mod numbers;
#[cfg(feature = "torch")]
pub mod policy;
pub mod schedule;
