//! The arguments of `flopsmith bench`.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Args as ClapArgs, ValueEnum};
use flopsmith_bench::Format;
use flopsmith_bench::threads::ThreadCount;

use super::Waiting;

/// What to type.
pub const EXAMPLES: &str = "\
Examples:
  flopsmith bench kernel.c --problem dgemm
  flopsmith bench 'tries/**/*.c' --problem dgemm --against best.c
  flopsmith bench tries/ --problem dgemm --threads 1,2,all --format csv > tries.csv
  flopsmith bench tries/ --problem dgemm --purpose rank --format jsonl | jq -c .ranks
  flopsmith bench kernel.c --problem dgemm --watch --keep objects/
  flopsmith bench kernel.cpp kernel.f90 --problem dgemm --flags '-O2 -march=native'

Exit codes: 0 all were measured, 1 at least one was refused, 2 wrong usage,
3 this machine could not measure at least one, 130 interrupted: what several
programs came to until then is printed.

A measurement whose time was over while its standard error was above 2 % (of a
screening above 25 %) has not converged. That is no failure (exit code 0), but
its `outcome` is `unconverged` instead of `measured`, `~` marks it in tables,
and it has no rank. A certification has not if one of its five layouts is above 0.7 %; its
calls without caches say so by themselves (`cold_stop`): 0.8 %, and 25 % where
only their seconds are told.";

/// `flopsmith bench`.
#[derive(Debug, ClapArgs)]
pub struct Bench {
    /// Programs: files, folders (every program beneath) and patterns (`*`, `?`, `[a-z]`, `**` for any folders; quote them
    /// where the shell does not know them). What is named twice is measured once. The end of a name tells the language:
    /// .c for C, .cpp .cc .cxx for C++, .f90 and .f for Fortran in free and fixed form; without an ending it is the problem's.
    #[arg(required = true, value_name = "FILE|GLOB|DIR")]
    pub files: Vec<PathBuf>,
    /// The problem they solve, by name or folder.
    #[arg(long)]
    pub problem: String,
    /// C compiler: gcc, clang or a path. Programs in C++ and Fortran are built with its sisters: g++ or clang++, and gfortran.
    #[arg(long, default_value = "gcc", env = "FLOPSMITH_COMPILER")]
    pub compiler: String,
    /// Compiler flags of all programs, reference and baseline included, instead of the problem's: those that optimise, generate
    /// code or name the standard, e.g. --flags "-O2 -march=native". Functions and loops are aligned unless they say otherwise.
    #[arg(
        long,
        value_name = "FLAGS",
        allow_hyphen_values = true,
        env = "FLOPSMITH_FLAGS"
    )]
    pub flags: Option<String>,
    /// Longest program that is taken, in bytes, instead of the problem's own limit (`max_source_bytes`): for generated kernels.
    #[arg(
        long,
        value_name = "BYTES",
        value_parser = clap::value_parser!(u32).range(64..=8_388_608),
        env = "FLOPSMITH_MAX_SOURCE"
    )]
    pub max_source: Option<u32>,
    /// How good the numbers have to be.
    #[arg(long, value_enum, default_value = "certify")]
    pub purpose: BenchPurpose,
    /// With --purpose rank and several programs: neighbours in the order that share a letter, and what did not converge, are
    /// measured again until they can be told apart, each up to eight times in all and together for at most this long, e.g. 90s or 5m (0: not at all).
    #[arg(
        long,
        value_name = "TIME",
        allow_negative_numbers = true,
        default_value = "60s"
    )]
    pub resolve: String,
    /// Threads to time with: a number or a list, e.g. 1,2,all. `all` is as many as can be timed while the stopwatch has a
    /// core of its own.
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        allow_negative_numbers = true,
        default_value = "1"
    )]
    pub threads: Vec<ThreadCount>,
    /// Measure this program too, and show every ratio relative to it as well (column `vs`). Its own row is marked.
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// Leave each program's shared object (NAME.so) and disassembly (NAME.s) in this folder. What lies there already stays:
    /// the new files are then called NAME-2 and so on. With --watch a program's files take the place of those it had before.
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Stay, and measure a program again whenever it is saved: says by how much it became faster or slower. Ctrl-C ends it.
    #[arg(long)]
    pub watch: bool,
    /// Write the raw samples here, with source and attestation, as JSON: of one FILE at one number of threads.
    #[arg(long, value_name = "FILE", env = "FLOPSMITH_RAW", conflicts_with_all = ["against", "watch"])]
    pub raw: Option<PathBuf>,
    /// Look at the programs with sanitizers, too (AddressSanitizer, UndefinedBehaviorSanitizer, and ThreadSanitizer where
    /// OpenMP is used on several threads), and refuse those in which something is found. With --purpose certify that is done
    /// anyway.
    #[arg(long, env = "FLOPSMITH_SANITIZE", value_parser = BoolishValueParser::new())]
    pub sanitize: bool,
    /// How long it waits for a quiet machine.
    #[command(flatten)]
    pub wait: Waiting,
    /// Run the programs even where the jail gives less than its full protection.
    #[arg(long, env = "FLOPSMITH_ALLOW_WEAKER_JAIL", value_parser = BoolishValueParser::new())]
    pub allow_weaker_jail: bool,
    /// How the results are printed.
    #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
    pub format: Format,
}

/// Standards of measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BenchPurpose {
    /// Is it worth more time? Tens of milliseconds of calls, less for what is clearly slower than the best so far; a second a
    /// program with compiling and verifying.
    Screen,
    /// Which is faster? Up to 0.6 s of calls, and more for neighbours that are hard to tell apart (--resolve); two seconds
    /// or so a program.
    Rank,
    /// A number to publish: 0.3 s of calls at most in each process, two or three processes at each of five places of the code, and
    /// calls without caches; verified in full at each place and looked at with sanitizers. Ten to thirty seconds a program.
    Certify,
}
