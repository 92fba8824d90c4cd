//! `flopsmith`: code models that learn from measured run times.
//!
//! The binary only reads arguments, calls the libraries and prints results. Data goes to stdout, all other output to
//! stderr.

use std::process::ExitCode;

mod allocator;
mod args;
mod command;
mod exit;

fn main() -> ExitCode {
    let (args, json) = args::Args::read();
    match command::execute(args) {
        Ok(code) => exit::ended(code),
        Err(error) => exit::report(&error, json),
    }
}
