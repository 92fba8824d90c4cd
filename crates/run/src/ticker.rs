//! Progress of long work on stderr: on a terminal one line that is overwritten, otherwise one line in every few.

use std::io::{self, IsTerminal, Write};

use crate::console::say;

/// Writes progress lines to stderr.
pub struct Ticker {
    terminal: bool,
    /// Without a terminal, one line in `every` is written, or none.
    every: Option<u64>,
    open: bool,
}

impl Ticker {
    /// Makes a ticker that writes one line in `every` if stderr is no terminal.
    pub fn new(every: u64) -> Self {
        Self::with(Some(every.max(1)))
    }

    /// Makes a ticker that writes to a terminal only.
    pub fn on_terminals() -> Self {
        Self::with(None)
    }

    fn with(every: Option<u64>) -> Self {
        Self {
            terminal: io::stderr().is_terminal(),
            every,
            open: false,
        }
    }

    /// `number` things of `total` are done.
    pub fn tick(&mut self, number: u64, total: u64, words: impl FnOnce() -> String) {
        if self.terminal {
            overwrite(&words());
            self.open = true;
        } else if let Some(every) = self.every
            && (number.is_multiple_of(every) || number == total)
        {
            say(&words());
        }
    }

    /// Removes the overwritten line.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.open) {
            overwrite("");
        }
    }

    /// Ends the overwritten line, so that the next output begins in the first column.
    pub fn end(&mut self) {
        if std::mem::take(&mut self.open) {
            say("");
        }
    }
}

fn overwrite(words: &str) {
    // A write error on stderr is ignored: there is no other place to report it.
    let _ = write!(io::stderr(), "\r\x1b[K{words}");
    let _ = io::stderr().flush();
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.end();
    }
}
