//! Programs of files beside each other: an order in, rows with ranks out.
//!
//! What `flopsmith bench` does once its arguments are read: it finds programs,
//! has them evaluated with one verifier and one timer for each number of
//! threads, ranks them and tells the results.

pub mod inputs;
pub mod keep;
mod legend;
mod lines;
mod one;
mod pattern;
mod resolve;
mod rows;
mod several;
mod stages;
mod stream;
mod table;
pub mod threads;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use flopsmith_measure::Purpose;
use flopsmith_problem::Problem;
use flopsmith_run::output::Output;

use inputs::Program;
use keep::Keep;

/// How the results of `flopsmith bench` are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object per line for each program, fastest first, at the end.
    Json,
    /// JSON lines while programs are measured, in the order they were named: first the machine, then a line for each program as it
    /// is done, in the end one with the ranks.
    Jsonl,
    /// A header, then a row for each program.
    Csv,
}

impl Format {
    /// Does a program read it that takes JSON?
    pub fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::Jsonl)
    }
}

/// What was asked for, with everything read that can be read before something is measured.
pub struct Order<'a> {
    /// The problem as it was named.
    pub problem_name: &'a str,
    /// The problem.
    pub problem: Arc<Problem>,
    /// The compiler, by name or path.
    pub compiler: &'a str,
    /// Are programs run even where the jail gives less than its full protection?
    pub allow_weaker_jail: bool,
    /// How good the numbers have to be.
    pub purpose: Purpose,
    /// How long neighbours are measured again that cannot be told apart.
    pub resolve: Duration,
    /// How long it may wait in all until the machine is quiet.
    pub wait: Duration,
    /// Are the programs looked at with sanitizers?
    pub sanitize: bool,
    /// How the results are printed.
    pub format: Format,
    /// Numbers of threads, at least one.
    pub threads: Vec<u32>,
    /// The programs.
    pub programs: Vec<Program>,
    /// The program that every ratio is relative to as well.
    pub against: Option<Program>,
    /// Where objects and disassemblies are kept.
    pub keep: Option<Keep>,
    /// Where the raw samples go.
    pub raw: Option<Output>,
    /// Are files measured again whenever they are saved?
    pub watch: bool,
    /// Was one file named by its name, and is it timed with one number of threads?
    pub alone: bool,
}

impl Order<'_> {
    /// How often it may be looked at which programs can be told apart, each time with more measurements of them.
    fn looks(&self) -> usize {
        if self.purpose == Purpose::Rank && !self.resolve.is_zero() {
            resolve::MOST
        } else {
            1
        }
    }
}

/// Evaluates what was named and prints what became of it; the exit code.
///
/// # Errors
/// Wrong usage, and what keeps this machine from evaluating programs.
pub fn run(order: Order<'_>) -> Result<u8> {
    let alone = order.alone && order.against.is_none() && !order.watch;
    if alone {
        one::run(order)
    } else {
        several::run(order)
    }
}
