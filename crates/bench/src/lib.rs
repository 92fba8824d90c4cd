//! Compares the programs of several files: takes an order, and prints ranked rows.
//!
//! `flopsmith bench` calls this library once its arguments are read, and `flopsmith eval` uses its stages. The library
//! finds programs, evaluates them with one verifier and one timer for each number of threads and each size, ranks them
//! and prints the results. It also keeps results for later comparisons, and writes a report. [`calibration`] measures the
//! precision of the machine for `flopsmith doctor`.
//!
//! Invariants:
//! - Every program gets a row, whatever becomes of it: a program that cannot be built or is wrong has its reason there.
//! - Results go to standard output and nothing else does; progress, warnings and notes go to standard error.
//! - Every number of a row refers to the same reference, so that no two of them contradict each other.

mod against;
mod announce;
pub mod calibration;
mod clock;
pub mod compare;
mod crossover;
mod export;
pub mod facts;
pub mod inputs;
pub mod keep;
mod legend;
mod lines;
mod markdown;
pub mod modules;
mod one;
mod outputs;
mod page;
mod pattern;
mod progress;
mod rate;
mod resolve;
pub mod rows;
pub mod saved;
mod several;
pub mod sizes;
pub mod stages;
mod stream;
mod sweep;
mod table;
pub mod threads;
mod watch;
mod workloads;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use flopsmith_measure::Purpose;
use flopsmith_problem::Problem;
use flopsmith_run::output::Output;

pub use export::Export;
pub use markdown::{is_own as is_markdown, table as markdown_table};
pub use table::Grid;

use compare::Compare;
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
    /// A table to paste into an issue or a pull request, with machine, compiler and flags.
    Markdown,
}

/// The request of a user. Everything that can be read before a measurement is read already.
pub struct Order<'a> {
    /// The problem as it was named.
    pub problem_name: &'a str,
    /// The problem.
    pub problem: Arc<Problem>,
    /// The problem at each of several sizes, the smallest first; empty if programs are timed at the size of `problem`
    /// only.
    pub sizes: Vec<Arc<Problem>>,
    /// The compiler, by name or path.
    pub compiler: &'a str,
    /// True if programs run even where the jail gives less than its full protection.
    pub allow_weaker_jail: bool,
    /// The standard of the measurements.
    pub purpose: Purpose,
    /// Time for measuring programs again that are adjacent in the ranking and cannot be told apart.
    pub resolve: Duration,
    /// Longest time, in all, to wait until the machine is quiet.
    pub wait: Duration,
    /// True if sanitizers check the programs.
    pub sanitize: bool,
    /// Output format of the results.
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
    /// Where the report goes.
    pub report: Option<Output>,
    /// Where the tables in Markdown go.
    pub markdown: Option<Output>,
    /// Where the result is saved.
    pub save: Option<saved::Slot>,
    /// The saved result that programs are compared with.
    pub compare: Option<Arc<Compare>>,
    /// The command line, as a shell reads it.
    pub command: String,
    /// True if files are measured again whenever they are saved.
    pub watch: bool,
    /// True if the user named one file by its name, to be timed with one number of threads.
    pub alone: bool,
}

impl Order<'_> {
    /// Number of times that the ranking is computed, each time with more measurements. The chance of an error is
    /// divided by it.
    fn looks(&self) -> usize {
        if self.purpose == Purpose::Rank && !self.resolve.is_zero() {
            resolve::MOST
        } else {
            1
        }
    }
}

/// Evaluates the programs and prints the results; returns the exit code.
///
/// # Errors
/// Wrong usage, and failures that keep this machine from evaluating programs.
pub fn run(order: Order<'_>) -> Result<u8> {
    announce::announce(&order);
    let alone = order.alone && order.against.is_none() && !order.watch;
    if !order.sizes.is_empty() {
        sweep::run(order)
    } else if alone {
        one::run(order)
    } else {
        several::run(order)
    }
}
