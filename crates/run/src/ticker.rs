//! How far long work is, on stderr: one line that is written over on a terminal, and now and then a line elsewhere.

use std::io::{self, IsTerminal, Write};

use crate::console::say;

/// Writes what it is told.
pub struct Ticker {
    terminal: bool,
    /// Every so manyth is written where there is no terminal.
    every: u64,
    open: bool,
}

impl Ticker {
    /// One that writes every so manyth where there is no terminal.
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
            // There is nobody to tell where stderr cannot be written.
            let _ = write!(io::stderr(), "\r\x1b[K{}", words());
            let _ = io::stderr().flush();
            self.open = true;
        } else if number.is_multiple_of(self.every) || number == total {
            say(&words());
        }
    }

    /// Ends the line, so that the next one begins at the left.
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
