//! `flopsmith`: code models that learn from the stopwatch.
//!
//! The binary only reads arguments, puts the parts together and shows what
//! happens. Data goes to stdout, everything else to stderr.

use std::process::ExitCode;

mod args;
mod command;
mod exit;
mod permissions;

/// Messages come and go by the thousand, and with them what is made of them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = args::Args::read();
    let json = args.wants_json();
    match command::execute(args) {
        Ok(code) => exit::ended(code),
        Err(error) => exit::report(&error, json),
    }
}
