//! The check of sources on a corpus of attacks and honest modules. Crate `evaluate` tests the pipeline end to end.
#![expect(clippy::unwrap_used, reason = "tests")]

mod corpus;
mod techniques;
mod variants;
