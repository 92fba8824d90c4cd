//! Where programs come from: each file is one source.

pub mod agent;
pub mod conversation;
#[cfg(feature = "torch")]
mod draws;
pub mod endpoint;
#[cfg(feature = "torch")]
pub mod endpoint_policy;
mod numbers;
#[cfg(feature = "torch")]
pub mod policy;
#[cfg(feature = "torch")]
mod reading;
pub mod schedule;
mod silence;
pub mod variants;
