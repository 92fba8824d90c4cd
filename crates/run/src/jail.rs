//! The jail of this process: whatever runs untrusted programs opens it here, and says here what this machine lacks for it.

use std::error::Error as _;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use flopsmith_measure::needs;
use flopsmith_sandbox::{Error, Options, Sandbox};

use crate::console::say;

/// Was it said what programs get less of here than elsewhere? Once is enough for a process.
static SAID: AtomicBool = AtomicBool::new(false);

/// Opens it, and says on stderr what programs get less of here than elsewhere.
///
/// # Errors
/// Where no program can be run here, with the cause and what to do about it.
pub fn open(allow_weaker: bool) -> Result<Sandbox> {
    let sandbox = opened(allow_weaker).context("untrusted programs cannot be run safely here")?;
    if !SAID.swap(true, Ordering::Relaxed) {
        for less in sandbox.reduced() {
            say(&format!("note: {less}; {}", less.advice()));
        }
    }
    Ok(sandbox)
}

/// Opens it for whoever says by itself what programs get less of.
///
/// # Errors
/// As [`open`].
pub fn look(allow_weaker: bool) -> Result<Sandbox, Error> {
    SAID.store(true, Ordering::Relaxed);
    opened(allow_weaker)
}

fn opened(allow_weaker: bool) -> Result<Sandbox, Error> {
    let sandbox = Sandbox::new(Options {
        allow_weaker,
        bwrap: None,
    })?;
    // What one thread needs; programs with more are looked at when they start.
    needs::stages(&sandbox, 1)?;
    Ok(sandbox)
}

/// What went wrong, with the errors beneath it and without advice.
pub fn fact(error: &Error) -> String {
    match error.source() {
        Some(source) => format!("{}: {source}", error.fact()),
        None => error.fact(),
    }
}
