//! The jail of this process. All code that runs untrusted programs opens the jail here, which also reports the
//! protection that this machine lacks.

use std::error::Error as _;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use flopsmith_measure::needs;
use flopsmith_sandbox::{Error, Options, Sandbox};

use crate::console::say;

/// True once the weaker protection of this machine was reported. One report for each process is enough.
static SAID: AtomicBool = AtomicBool::new(false);

/// Opens the jail, and reports on stderr each protection that is weaker here than on other machines.
///
/// # Errors
/// If no program can be run here; the error names the cause and the remedy.
pub fn open(allow_weaker: bool) -> Result<Sandbox> {
    let sandbox = opened(allow_weaker).context("untrusted programs cannot be run safely here")?;
    if !SAID.swap(true, Ordering::Relaxed) {
        for less in sandbox.reduced() {
            say(&format!("note: {less}; {}", less.advice()));
        }
    }
    Ok(sandbox)
}

/// Reports each protection that is weaker here, as [`open`] does, for a caller that opens jails of its own.
///
/// # Errors
/// As [`open`].
pub fn report(allow_weaker: bool) -> Result<()> {
    if !SAID.load(Ordering::Relaxed) {
        open(allow_weaker)?;
    }
    Ok(())
}

/// Opens the jail for a caller that reports weaker protection itself.
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
    // The needs of one thread and one timed size. Those of more sizes are checked with the problem, and programs with more
    // threads when they start.
    needs::stages(&sandbox, 1)?;
    Ok(sandbox)
}

/// The error with its causes and without advice.
pub fn fact(error: &Error) -> String {
    match error.source() {
        Some(source) => format!("{}: {source}", error.fact()),
        None => error.fact(),
    }
}
