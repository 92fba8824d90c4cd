//! The parameters of a user's own program: read from a file, and a space of programs over them.
//!
//! The file has Kernel Tuner's T1 format: parameters with a list of values each, and conditions over them. A configuration is a value of
//! each parameter such that all conditions hold. Its program is the user's text behind one `#define` for each parameter, so that it is
//! complete by itself.

pub mod expression;
mod file;
mod space;
mod text;

pub use file::{File, Parameter, read};
pub use space::{Configurations, Search};
pub use text::{Program, check_signature, check_source};

/// An error of a file of parameters, or of a program that does not fit it: a sentence that says what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

type Result<T> = std::result::Result<T, Error>;

fn wrong<T>(words: impl Into<String>) -> Result<T> {
    Err(Error(words.into()))
}
