//! `flopsmith`: code models that learn from the stopwatch.
//!
//! The binary only reads arguments, puts the parts together and shows what
//! happens. Data goes to stdout, everything else to stderr.

use std::process::ExitCode;

mod args;
mod broker;
mod command;
mod config;
mod digits;
mod evaluator;
mod exit;
mod expected;
mod export;
mod folder;
mod grid;
mod interrupt;
mod jail;
mod jsonl;
mod local;
mod machine;
mod neighbour;
mod output;
mod outside;
mod paths;
mod permissions;
mod quiet;
mod record;
mod roofline;
mod run;
mod shell;
mod summary;
mod ticker;
mod view;
mod worker;
mod yardstick;

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
