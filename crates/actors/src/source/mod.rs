//! Where programs come from: each file is one source.

pub mod agent;
pub mod conversation;
#[cfg(feature = "torch")]
mod draws;
pub mod endpoint;
mod numbers;
#[cfg(feature = "torch")]
pub mod endpoint_policy;
#[cfg(feature = "torch")]
pub mod policy;
#[cfg(feature = "torch")]
mod reading;
pub mod schedule;
pub mod variants;
