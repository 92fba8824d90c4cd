//! The check of sources on a corpus of attacks and honest modules, and the pipeline end to end where PyTorch is
//! installed.
#![expect(clippy::unwrap_used, reason = "tests")]

mod corpus;
mod pipeline;
mod techniques;
