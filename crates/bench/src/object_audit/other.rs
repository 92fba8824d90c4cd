//! No decoder for this machine: the jail's filter and the supervisor's checks remain.

use super::{Failure, File};

pub fn check(_file: &File<'_>) -> Result<u32, Failure> {
    Ok(0)
}
