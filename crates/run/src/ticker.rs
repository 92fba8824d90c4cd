//! Progress of long work on stderr: on a terminal one line that is overwritten, otherwise one line in every few.

use std::io::{self, IsTerminal, Write};

use crate::console::say;

/// Writes progress lines to stderr.
pub struct Ticker {
    terminal: bool,
    /// Without a terminal, one line in `every` is written.
    every: u64,
    open: bool,
}

impl Ticker {
    /// Makes a ticker that writes one line in `every` if stderr is no terminal.
    pub fn new(every: u64) -> Self {
        Self {
            terminal: io::stderr().is_terminal(),
            every: every.max(1),
            open: false,
        }
    }

    /// `number` things of `total` are done.
    pub fn tick(&mut self, number: u64, total: u64, words: impl FnOnce() -> String) {
        if self.terminal {
            // A write error on stderr is ignored: there is no other place to report it.
            let _ = write!(io::stderr(), "\r\x1b[K{}", words());
            let _ = io::stderr().flush();
            self.open = true;
        } else if number.is_multiple_of(self.every) || number == total {
            say(&words());
        }
    }

    /// Ends the overwritten line, so that the next output begins in the first column.
    pub fn end(&mut self) {
        if std::mem::take(&mut self.open) {
            say("");
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.end();
    }
}
