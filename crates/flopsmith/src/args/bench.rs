//! The arguments of `flopsmith bench`.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Args as ClapArgs, ValueEnum};
use flopsmith_bench::sizes::SizeSpec;
use flopsmith_bench::threads::ThreadCount;
use flopsmith_bench::{Export, Format};
use flopsmith_measure::Purpose;
use flopsmith_module::Architecture;

use super::{Waiting, Workloads};

/// Shown under the options.
pub const EXAMPLES: &str = "\
Examples:
  flopsmith bench kernel.c --problem dgemm
  flopsmith bench kernel.c --problem dgemm --workload n=256 --workload n=512
  flopsmith bench 'tries/**/*.c' --problem dgemm --against best.c
  flopsmith bench tries/ --problem dgemm --threads 1,2,all --format csv > tries.csv
  flopsmith bench tries/ --problem dgemm --purpose rank --format jsonl | jq -c .ranks
  flopsmith bench kernel.c --problem dgemm --watch --keep objects/
  flopsmith bench kernel.cpp kernel.f90 --problem dgemm --flags '-O2 -march=native'
  flopsmith bench tries/ --problem dgemm --size n=64..1024 --report sizes.html
  flopsmith bench kernel.c --problem dgemm --format markdown > issue.md
  flopsmith bench mine.py --problem modules/softmax --architectures 90
  flopsmith bench kernel.c --problem dgemm --save main
  flopsmith bench kernel.c --problem dgemm --compare main || echo slower or refused
  flopsmith bench runs/mine --problem kernelbench --export kernelbench=eval_results.json

Exit codes: 0 all were measured or verified, 1 at least one was refused, 2 wrong usage,
3 this machine could not measure at least one, 4 all were measured and at least
one is slower than its saved result (--compare), 130 interrupted (of several
programs, the results so far are printed).

A measurement has not converged if its standard error is above the limit when
its time is over. The limit is 25 % for a screening, 2 % for a ranking and 0.7 %
for each of the five layouts of a certification. This is no failure (exit code
0), but the `outcome` is `unconverged` instead of `measured`, `~` marks the
program in tables, and it has no rank. Calls without caches have a field of
their own (`cold_stop`), with a limit of 0.8 %, or of 25 % where only their time
is reported.";

/// `flopsmith bench`.
#[derive(Debug, ClapArgs)]
pub struct Bench {
    /// Programs: files, folders (every program beneath) and patterns (`*`, `?`, `[a-z]`, `**` for any folders; quote
    /// them where the shell does not know them). A program that is named twice is measured once. The ending of a file's
    /// name decides the language: .c for C, .cpp .cc .cxx for C++, .f90 and .f for Fortran in free and fixed form. A
    /// file without an ending is in the problem's language.
    #[arg(required = true, value_name = "FILE|GLOB|DIR")]
    pub files: Vec<PathBuf>,
    /// The problem that the programs solve, by name or folder; or a folder of modules, whose programs are named by them.
    #[arg(long)]
    pub problem: String,
    /// The workloads.
    #[command(flatten)]
    pub workloads: Workloads,
    /// Compile with this C compiler: gcc, clang or a path. Programs in C++ and Fortran are built with the other
    /// compilers of its family: g++ or clang++, and gfortran.
    #[arg(long, default_value = "gcc", env = "FLOPSMITH_COMPILER")]
    pub compiler: String,
    /// Compile all programs, reference and baseline included, with these flags instead of the problem's, e.g. --flags
    /// "-O2 -march=native". Flags may optimise, control code generation or name the standard. Functions and loops are
    /// aligned unless the flags say otherwise.
    #[arg(
        long,
        value_name = "FLAGS",
        allow_hyphen_values = true,
        env = "FLOPSMITH_FLAGS"
    )]
    pub flags: Option<String>,
    /// Accept programs of up to this many bytes instead of the problem's own limit (`max_source_bytes`), e.g. generated
    /// kernels.
    #[arg(
        long,
        value_name = "BYTES",
        value_parser = clap::value_parser!(u32).range(64..=8_388_608),
        env = "FLOPSMITH_MAX_SOURCE"
    )]
    pub max_source: Option<u32>,
    /// Measure with the precision of this purpose.
    #[arg(long, value_enum, default_value = "certify")]
    pub purpose: BenchPurpose,
    /// With --purpose rank and several programs: measure again the programs that are next to each other in the order
    /// and share a letter, and those that did not converge, until they can be told apart. Each is measured up to eight
    /// times in all, and together they are measured again for at most this time, e.g. 90s or 5m (0: not at all).
    #[arg(
        long,
        value_name = "TIME",
        allow_negative_numbers = true,
        default_value = "60s"
    )]
    pub resolve: String,
    /// Time with these numbers of threads: a number or a list, e.g. 1,2,all. `all` is the largest number that leaves a
    /// core to the supervisor, which holds the clock.
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        allow_negative_numbers = true,
        default_value = "1"
    )]
    pub threads: Vec<ThreadCount>,
    /// Time at these sizes instead of the problem's own workloads. n=64..1024 stands for powers of two and the numbers halfway
    /// between them (at most nine sizes that the problem permits), n=64..1024/64 for steps, n=64,100,1000 for a list.
    /// Repeat the option for several parameters: they vary together, so their lists need the same length or one value;
    /// parameters that are not named keep the value of the first workload. Every program is verified and timed at each size. Several
    /// sizes have a table each, and at the end a table of the fastest programs by size. --resolve and --wait hold for
    /// each size.
    #[arg(long, value_name = "NAME=SIZES", conflicts_with = "names")]
    pub size: Vec<SizeSpec>,
    /// Measure this program too, and show every ratio relative to it as well (column `vs`). Its own row is marked.
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// Write each program's shared object (NAME.so), disassembly (NAME.s), and the compiler's remarks and hot loop (NAME.txt) into
    /// this folder. Existing files stay: new ones are called NAME-2 and so on. With --watch they replace the program's earlier ones.
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Keep running, measure a program again whenever it is saved, and report by how much it became faster or slower. For
    /// each saved file the wait for a quiet machine (--wait) has its whole time again. Ctrl-C ends the command.
    #[arg(long)]
    pub watch: bool,
    /// Write the raw samples to this file as JSON, with source and attestation; for one FILE at one number of threads.
    #[arg(long, value_name = "FILE", env = "FLOPSMITH_RAW", conflicts_with_all = ["against", "watch"])]
    pub raw: Option<PathBuf>,
    /// Write the results to this file as one HTML page, with a chart of the speeds over several sizes (--size).
    #[arg(long, value_name = "FILE", conflicts_with = "watch")]
    pub report: Option<PathBuf>,
    /// Save the result under this name, for --compare. An earlier result of the name is replaced once the new one is
    /// complete. Save what --purpose certify measured: other purposes measure one process of each program, and processes
    /// differ by a few per cent.
    #[arg(long, value_name = "NAME", conflicts_with = "watch")]
    pub save: Option<String>,
    /// Compare each program with the saved result of this name: how many times as fast it is now, with a 95 % interval,
    /// and whether it is faster, slower, or not different. Programs are matched by their paths, or else by their file
    /// names. The exit code is 4 if one is slower. Results of another machine, compiler, problem or other flags are
    /// refused.
    #[arg(long, value_name = "NAME", conflicts_with = "watch")]
    pub compare: Option<String>,
    /// Folder of saved results; flopsmith/baselines in XDG_DATA_HOME or ~/.local/share without it.
    #[arg(long, value_name = "DIR", env = "FLOPSMITH_BASELINES")]
    pub baselines: Option<PathBuf>,
    /// Write the results to a file too: markdown=FILE (what --format markdown prints, of kernels), or for another tool those of
    /// modules, kernelbench=FILE (eval_results.json) or flashinfer=FILE (a trace a line); may be repeated for modules.
    #[arg(long = "export", value_name = "FORMAT=FILE", conflicts_with = "watch")]
    pub exports: Vec<Export>,
    /// Check the programs with sanitizers, too (AddressSanitizer, UndefinedBehaviorSanitizer, and ThreadSanitizer where
    /// OpenMP is used on several threads), and refuse programs in which they find something. --purpose certify always
    /// does this.
    #[arg(long, env = "FLOPSMITH_SANITIZE", value_parser = BoolishValueParser::new())]
    pub sanitize: bool,
    /// Compile kernels of Triton and CUDA for these GPUs, by compute capability: 80,90 without this option (modules only).
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        env = "FLOPSMITH_ARCHITECTURES"
    )]
    pub architectures: Vec<Architecture>,
    /// The wait for a quiet machine.
    #[command(flatten)]
    pub wait: Waiting,
    /// Run the programs even where the jail gives less than its full protection.
    #[arg(long, env = "FLOPSMITH_ALLOW_WEAKER_JAIL", value_parser = BoolishValueParser::new())]
    pub allow_weaker_jail: bool,
    /// Print the results in this format.
    #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
    pub format: Format,
}

/// Standards of measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BenchPurpose {
    /// Decide whether a program is worth more time: tens of milliseconds of calls, less for a program that is clearly
    /// slower than the best so far. It takes a second a program, with compiling and verifying.
    Screen,
    /// Decide which program is faster: up to 0.6 s of calls, and more for programs that are hard to tell apart from the
    /// next in the order (--resolve). It takes two seconds or so a program.
    Rank,
    /// Measure a number to publish: 0.3 s of calls at most in each process, two or three processes at each of five
    /// layouts of the code, and calls without caches. The program is verified in full and checked with sanitizers, and
    /// the object of each layout is verified as well, with fewer sizes if there are many. It takes ten to thirty seconds a program.
    Certify,
}

impl BenchPurpose {
    /// The purpose of the measurements.
    pub fn purpose(self) -> Purpose {
        match self {
            Self::Screen => Purpose::Screen,
            Self::Rank => Purpose::Rank,
            Self::Certify => Purpose::Certify,
        }
    }
}
