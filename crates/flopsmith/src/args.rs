//! The command line as typed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use flopsmith_run::{durations, listing};

#[cfg(feature = "torch")]
mod align;
#[cfg(feature = "torch")]
mod amount;
mod bench;
mod cluster;
mod dataset;
mod dead;
mod eval;
mod examples;
mod farm;
mod join;
#[cfg(feature = "torch")]
mod learn;
#[cfg(feature = "torch")]
mod model_serve;
mod parse;
mod random;
mod serve;
mod store;
mod top;
mod ui;
mod variables;
mod worker;
mod workloads;

#[cfg(feature = "torch")]
pub use align::Align;
pub use bench::{Bench, BenchPurpose};
pub use cluster::Cluster;
pub use dataset::{Dataset, Measure, OfRun, Split, Synthesize};
pub use dead::{Dead, Where};
pub use eval::{Eval, EvalAction};
pub use farm::OnFarm;
pub use join::Join;
#[cfg(feature = "torch")]
pub use learn::{Learn, Rlpf, Sft};
#[cfg(feature = "torch")]
pub use model_serve::ModelServe;
pub use random::RandomNests;
pub use serve::{Evaluating, Mcp, Serve};
pub use store::{Collect, Store};
pub use top::Top;
pub use ui::Ui;
pub use worker::Worker;
pub use workloads::Workloads;

/// Train code models to write fast code, rewarded by its measured speed.
///
/// Start with `flopsmith train examples/dgemm.toml` (or `make train`) to train a model, with `flopsmith search
/// --problem dgemm --budget 5m` to search without a model, or with `flopsmith bench FILE.c ... --problem dgemm` to time
/// programs. `flopsmith doctor` reports what this machine can do.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub struct Args {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
    /// Log at this level: error, warn, info, debug, trace, or a filter like `flopsmith_bus=debug`.
    #[arg(
        long,
        global = true,
        default_value = "warn",
        env = "FLOPSMITH_LOG",
        value_parser = log_filter
    )]
    pub log: String,
    /// Send traces to this OpenTelemetry collector, e.g. http://localhost:4318; without it OTEL_EXPORTER_OTLP_ENDPOINT
    /// decides.
    #[arg(long, global = true, env = "FLOPSMITH_OTLP_ENDPOINT")]
    pub otlp_endpoint: Option<String>,
}

fn log_filter(text: &str) -> Result<String, String> {
    match flopsmith_telemetry::check_level(text) {
        Ok(()) => Ok(text.to_owned()),
        Err(why) => Err(why.to_string()),
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train a code model on the measured speed of the programs that it writes
    #[command(after_help = examples::TRAIN)]
    Train(Train),
    /// Search for the fastest program without a model
    #[command(after_help = examples::SEARCH)]
    Search(Search),
    /// Compile, verify and time programs
    ///
    /// `bench` compiles and runs every program in a jail, checks it on inputs it has never seen, and times it beside a
    /// fixed kernel, call by call. For one FILE it prints a few lines; for several it prints a table, fastest first.
    /// Programs that share a letter in the table are too close to be told apart.
    #[command(after_help = bench::EXAMPLES)]
    Bench(Bench),
    /// Say how good models are: evaluate their answers to problems, with intervals, and compare two models
    ///
    /// Each model answers each problem several times. `eval` evaluates the distinct programs as `bench` does, and reports
    /// build@k, pass@k, speedup@k, efficiency@k, fast_p, mean speedups, share of the roof and SOL score by problem, suite
    /// and limit of the roofline, with 95 % intervals over problems and answers.
    #[command(after_help = eval::EXAMPLES)]
    Eval(Eval),
    /// Evaluate programs over HTTP, for trainers, searches and agents of other makers
    ///
    /// A request has one program or many. Each is compiled and run in a jail, checked on inputs it has never seen, and
    /// timed; the answer has its speed with an interval, or the reason why it was refused, and a reward by the same table
    /// as in a run. A failure of this machine has no reward.
    #[command(after_help = serve::EXAMPLES)]
    Serve(Serve),
    /// Evaluate programs for an agent, by the Model Context Protocol on standard input and output
    ///
    /// The agent gets tools: it evaluates and compares programs, asks why one was refused, reads problems and the best
    /// known programs, and learns how fast a program can be. Programs run in a jail, and a failure of this machine is no
    /// verdict on a program.
    #[command(after_help = serve::MCP_EXAMPLES)]
    Mcp(Mcp),
    /// Work for the runs of a cluster: compile, verify and time their programs
    #[command(after_help = worker::EXAMPLES)]
    Worker(Worker),
    /// Set up and check the bus that the nodes of a cluster share, make their keys, and end runs
    #[command(subcommand, after_help = cluster::EXAMPLES)]
    Cluster(Cluster),
    /// Clean up an artifact store
    #[command(subcommand, after_help = store::EXAMPLES)]
    Store(Store),
    /// Show the state of a cluster: queues, nodes, runs, dead letters
    #[command(after_help = top::EXAMPLES)]
    Top(Top),
    /// Repeat a finished training run on its recorded outcomes, and compare every policy version bit by bit
    ///
    /// The policy writes its programs and is trained on them as in the run. The outcome of each program is read from
    /// the run's `outcomes.jsonl`; no program is compiled, verified or timed. The replay needs the same build, model
    /// and number of processor cores. Exit codes: 0 all versions are equal, 3 something differs (the first program or
    /// version that differs is named), 130 interrupted.
    Replay(Replay),
    /// List runs, or follow one
    #[command(after_help = listing::EXPLAINED)]
    Runs(Runs),
    /// Write a run's report as one HTML file
    #[command(after_help = examples::REPORT)]
    Report(Report),
    /// Show the runs of a folder in a browser: curves, programs, verdicts, certificates
    ///
    /// The pages read the files of the runs, also while these are at work, and change nothing. They list and compare runs,
    /// and show a run's outcomes, archive, programs with what differs from their parents, and the samples of each step with
    /// reward and advantage.
    #[command(after_help = ui::EXAMPLES)]
    Ui(Ui),
    /// List, show and redeliver dead letters: messages that no node could process
    #[command(subcommand, after_help = dead::EXAMPLES)]
    Dead(Dead),
    /// Report what this machine has, what it lacks and what it can measure
    #[command(after_help = examples::DOCTOR)]
    Doctor(Doctor),
    /// Check, create, list and export problem definitions, and print their prompts
    #[command(subcommand, after_help = PLACES)]
    Problem(Problem),
    /// Make training data: corpora, measured programs, and files for the stages of training
    #[command(subcommand, after_help = dataset::EXAMPLES)]
    Dataset(Dataset),
    /// Fine-tune a model on examples (supervised)
    #[cfg(feature = "torch")]
    #[command(after_help = learn::SFT)]
    Sft(Sft),
    /// Train a reward model on pairs of a fast and a slow program
    ///
    /// The model learns to give the fast program the higher reward, by a margin that grows with the ratio of their
    /// times (Nichols et al., 2024).
    #[cfg(feature = "torch")]
    #[command(after_help = learn::REWARD_MODEL)]
    RewardModel(Learn),
    /// Align a policy with pairs of a fast and a slow program, without a reward model
    ///
    /// Direct performance alignment (Nichols et al., 2024) makes the fast program likelier and the slow one less
    /// likely, relative to a frozen copy of the policy.
    #[cfg(feature = "torch")]
    #[command(after_help = learn::DPA)]
    Dpa(Learn),
    /// Reinforce a policy by performance feedback: PPO on the measured speed of its answers
    ///
    /// An answer that fails its tests is worth −1. An answer that passes is worth the median time of known programs
    /// divided by its own time, less 1. Where there are no tests, a reward model scores the answer (Nichols et al.,
    /// 2024). The jail of this machine, or of the workers with --cluster, runs the tests and the timed calls.
    #[cfg(feature = "torch")]
    #[command(after_help = learn::RLPF)]
    Rlpf(Rlpf),
    /// Align a model over several problems: measure programs, train by all methods, and compare the models
    ///
    /// One recipe chains the stages of Nichols et al. (2024): programs of the schedule spaces, or of files, are measured
    /// and split; a base model is fine-tuned; the fine-tuned model is aligned directly, and reinforced with a reward
    /// model; and all four models are evaluated on the training problems and on held-out ones.
    #[cfg(feature = "torch")]
    #[command(after_help = align::EXAMPLES)]
    Align(Align),
    /// Inspect models, merge adapters into them, print samples, and serve them
    #[cfg(feature = "torch")]
    #[command(subcommand)]
    Model(Model),
    /// Check and explain configurations
    #[command(subcommand)]
    Config(Config),
    /// Print the completions of commands and options for a shell
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write a man page for each command
    Man {
        /// The folder of the pages; pages in it are overwritten.
        folder: PathBuf,
    },
}

/// The largest seed. A run keeps its settings as TOML, whose integers end at this number.
const LARGEST_SEED: u64 = i64::MAX.unsigned_abs();

/// Formats of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for people.
    Text,
    /// One JSON value on the last line of stdout.
    Json,
}

/// Number formats of a model's weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Dtype {
    /// Single precision.
    Float32,
    /// Half the memory. Weights that were trained in bfloat16 lose nothing.
    Bfloat16,
    /// bfloat16 if the folder's weights are bfloat16 and the device computes in it; otherwise single precision.
    Auto,
}

/// The folder of runs.
#[derive(Debug, Clone, ClapArgs)]
pub struct Place {
    /// Folder that holds the runs; `runs` when left out.
    #[arg(long, env = "FLOPSMITH_RUNS")]
    pub runs: Option<PathBuf>,
}

impl Place {
    /// The folder, which need not exist yet.
    pub fn folder(&self) -> &Path {
        self.runs.as_deref().unwrap_or(Path::new("runs"))
    }
}

/// The wait for a quiet machine.
#[derive(Debug, Clone, ClapArgs)]
pub struct Waiting {
    /// Before a certification or comparison, wait until no other process uses the timed cores, for at most this time in
    /// all, e.g. 30s or 2m; 0 does not wait. After this time the command measures all the same. The result then says that
    /// the machine was busy, also if only its reference was measured on the busy machine.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "30s",
        allow_negative_numbers = true,
        env = "FLOPSMITH_WAIT"
    )]
    pub wait: String,
}

impl Waiting {
    /// The limit as a duration.
    pub fn limit(&self) -> anyhow::Result<Duration> {
        durations::time(&self.wait).context("--wait (or FLOPSMITH_WAIT) cannot be read")
    }
}

/// The options that `train` and `search` share.
#[derive(Debug, ClapArgs)]
pub struct RunOptions {
    /// Override one setting, e.g. --set group_size=4; may be repeated. Not with --resume.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// The cluster that the run joins.
    #[command(flatten)]
    pub join: Join,
    /// The wait of the measurements after the end for a quiet machine.
    #[command(flatten)]
    pub wait: Waiting,
    /// Print the result in this format.
    #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
    pub format: Format,
    /// The folder of runs.
    #[command(flatten)]
    pub place: Place,
}

/// `flopsmith train`.
#[derive(Debug, ClapArgs)]
pub struct Train {
    /// Configuration of the run, e.g. examples/dgemm.toml.
    pub config: PathBuf,
    /// Continue the newest unfinished run of this configuration, or the named run, with the settings that it was begun
    /// with.
    #[arg(long, num_args = 0..=1, default_missing_value = "", value_name = "RUN")]
    pub resume: Option<String>,
    /// Time for the run, e.g. 10m, 1h30m, 90s (a bare number is seconds); overrides the configuration. With --resume it
    /// is the run's new budget. The run makes the evaluations before and after training with any budget.
    #[arg(long, env = "FLOPSMITH_BUDGET", allow_negative_numbers = true)]
    pub budget: Option<String>,
    /// Seed of the run; overrides the configuration. Not with --resume.
    #[arg(long, env = "FLOPSMITH_SEED", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(..=LARGEST_SEED))]
    pub seed: Option<u64>,
    /// The workloads; they override `workloads` of the configuration. Not with --resume.
    #[command(flatten)]
    pub workloads: Workloads,
    /// The options of every run.
    #[command(flatten)]
    pub run: RunOptions,
}

/// `flopsmith search`.
#[derive(Debug, ClapArgs)]
pub struct Search {
    /// The problem, by name or folder.
    #[arg(long)]
    pub problem: String,
    /// The workloads. Not with --resume.
    #[command(flatten)]
    pub workloads: Workloads,
    /// Time for the search, e.g. 10m, 1h30m, 90s (a bare number is seconds); 5m when left out. With --resume it is the
    /// search's new budget. The search measures the machine before it begins and the fastest programs once more after
    /// it ends. These measurements take half a minute to three minutes more, and longer while they wait for a quiet machine
    /// (--wait); the search prints their time first. Below 2m the steps are smaller, and two programs are measured once
    /// more instead of four.
    #[arg(long, env = "FLOPSMITH_BUDGET", allow_negative_numbers = true)]
    pub budget: Option<String>,
    /// Stop after the step in which so many programs are reached; 0 is no limit. Programs that are measured again count once. Not with
    /// --resume.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    pub evaluations: u64,
    /// Begin with this program of your own: the search tries it first, and the result says how many times as fast the best
    /// program is. A third of the programs (`generator.start_share`) vary it and its fastest variants: numbers such as tile
    /// sizes, hints to the compiler, prefetches and the order of loops. For a problem without a schedule space all programs do.
    /// For a module of PyTorch a search without a model varies the numbers of this program, or of the module's shipped one
    /// without it. Not with --resume.
    #[arg(long, value_name = "FILE", conflicts_with = "staged")]
    pub start: Option<PathBuf>,
    /// Accept programs of up to this many bytes instead of the problem's own limit (`max_source_bytes`), e.g. generated
    /// kernels. Only with --start. Not with --resume.
    #[arg(
        long,
        value_name = "BYTES",
        value_parser = clap::value_parser!(u32).range(64..=8_388_608),
        requires = "start"
    )]
    pub max_source: Option<u32>,
    /// Search values for named parameters of the program of --start instead of schedules. The file lists the parameters,
    /// their values and conditions, in Kernel Tuner's T1 format; each parameter is a macro of the program. The search ends
    /// once it has tried every configuration. Not with --resume.
    #[arg(long, value_name = "FILE", requires = "start")]
    pub parameters: Option<PathBuf>,
    /// Write the result of each configuration to this file as well, in Kernel Tuner's T4 format; results.json in the run's
    /// folder has them in any case. Only for a search with --parameters.
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,
    /// Let a language model behind an endpoint write the programs, e.g. http://127.0.0.1:8000/v1#MODEL, or FILE with settings
    /// such as the name of the key's variable, prices and a budget. With --resume it may change these settings, but not the
    /// model.
    #[arg(long, value_name = "URL#MODEL|FILE", conflicts_with = "parameters")]
    pub endpoint: Option<String>,
    /// Let an agent improve a population of programs on islands: each step varies programs that were measured again, cell by cell
    /// of the archive. With --endpoint the model is told the result of each program and writes the next one. Not with --resume.
    #[arg(long, conflicts_with = "parameters")]
    pub agent: bool,
    /// Permit techniques stage by stage, as training does: none at first, then one, two and three at a time, and all in the
    /// end. The stages end by shares of the budget. Not with --resume.
    #[arg(long)]
    pub staged: bool,
    /// Do not begin with the schedules of the fastest programs of earlier searches for the same loops. Without it, a search
    /// looks for them in the folder of runs (--runs) and tries them in its first step. Not with --resume.
    #[arg(long)]
    pub cold: bool,
    /// Seed of the search; 1 when left out. Not with --resume.
    #[arg(long, env = "FLOPSMITH_SEED", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(..=LARGEST_SEED))]
    pub seed: Option<u64>,
    /// Write the fastest verified source to this file instead of to stdout.
    #[arg(long, short)]
    pub output: Option<PathBuf>,
    /// Continue the newest unfinished search of this problem, or the named one, with the settings that it was begun
    /// with.
    #[arg(long, num_args = 0..=1, default_missing_value = "", value_name = "RUN")]
    pub resume: Option<String>,
    /// The options of every run.
    #[command(flatten)]
    pub run: RunOptions,
}

/// `flopsmith replay`.
#[derive(Debug, ClapArgs)]
pub struct Replay {
    /// The run, by name or folder; the newest finished training run when left out.
    pub run: Option<String>,
    /// Print the result in this format.
    #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
    pub format: Format,
    /// The folder of runs.
    #[command(flatten)]
    pub place: Place,
}

/// `flopsmith runs`.
#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Runs {
    /// The subcommand; without one the command lists runs.
    #[command(subcommand)]
    pub action: Option<RunsAction>,
    /// Print the list in this format.
    #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
    pub format: Format,
    /// The folder of runs.
    #[command(flatten)]
    pub place: Place,
}

/// `flopsmith runs …`.
#[derive(Debug, Subcommand)]
pub enum RunsAction {
    /// List the runs of a folder, as `runs` without a subcommand does
    #[command(after_help = listing::EXPLAINED)]
    List {
        /// Print the list in this format.
        #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
        format: Format,
        /// The folder of runs.
        #[command(flatten)]
        place: Place,
    },
    /// Follow a run from another terminal: print a line for each step, until the run ends
    ///
    /// Exit codes: 0 the run ended, 3 no process here continues the run (`--resume` does; a cluster may), 130
    /// interrupted.
    Watch {
        /// The run, by name or folder; the newest when left out.
        run: Option<String>,
        /// The folder of runs.
        #[command(flatten)]
        place: Place,
    },
    /// Write runs as tables (CSV, Parquet) or for MLflow
    ///
    /// A table has a row for each outcome or step, in columns that stay the same.
    Export {
        /// The order.
        #[command(flatten)]
        order: flopsmith_export::Order,
        /// The folder of runs.
        #[command(flatten)]
        place: Place,
    },
    /// Show the batches that gave no finite gradient; a run keeps them in `skipped`
    ///
    /// --format json prints one JSON object a line, with every sample's tokens, log-probabilities and advantage.
    /// Numbers that are not finite are the texts "NaN", "inf" and "-inf".
    Skipped {
        /// The run, by name or folder; the newest when left out.
        run: Option<String>,
        /// Print the batches in this format.
        #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
        format: Format,
        /// The folder of runs.
        #[command(flatten)]
        place: Place,
    },
}

/// `flopsmith report`.
#[derive(Debug, ClapArgs)]
pub struct Report {
    /// The run, by name or folder; the newest when left out.
    pub run: Option<String>,
    /// Write the report to this file instead of into the run's folder.
    #[arg(long, short)]
    pub output: Option<PathBuf>,
    /// The folder of runs.
    #[command(flatten)]
    pub place: Place,
}

/// `flopsmith doctor`.
#[derive(Debug, ClapArgs)]
pub struct Doctor {
    /// Leave out the measurements of peak and timing quality, which take some seconds.
    #[arg(long)]
    pub quick: bool,
    /// Measure which difference this machine can tell apart in which time: time a kernel against itself to every
    /// standard, for about two minutes. The figures are kept, and later calls show them.
    #[arg(long)]
    pub timing: bool,
    /// The wait of --timing for a quiet machine.
    #[command(flatten)]
    pub wait: Waiting,
    /// Start a nats-server as a run would, and stop it again; without this flag `doctor` only reads its version.
    #[arg(long)]
    pub broker: bool,
    /// Print the findings in this format.
    #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
    pub format: Format,
}

/// Formats of exported problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Folders of tasks for Harbor.
    Harbor,
}

/// The search for problems by name.
const PLACES: &str = "\
A problem is named by its folder or by its name. Names are looked up in the folder that
FLOPSMITH_PROBLEMS names, then in problems/ here, then in problems/ of the installation,
then in ~/.local/share/flopsmith/problems.";

/// `flopsmith problem`.
#[derive(Debug, Subcommand)]
pub enum Problem {
    /// Check that a definition is sound: reference deterministic, inputs matter, outputs vary
    ///
    /// The command reads the definition, compiles the reference, compares the reference with itself on random inputs,
    /// and verifies and times the reference as a candidate. Exit codes: 0 the definition is sound, with or without
    /// weaknesses (which are marked `weak`); 1 it is not sound; 2 it cannot be read as a definition.
    Check {
        /// The problem, by name or folder.
        problem: String,
        /// The workloads that are checked.
        #[command(flatten)]
        workloads: Workloads,
        /// Compile with this C compiler: gcc, clang or a path.
        #[arg(long, default_value = "gcc", env = "FLOPSMITH_COMPILER")]
        compiler: String,
        /// Run the definition's programs even where the jail gives less than its full protection.
        #[arg(long, env = "FLOPSMITH_ALLOW_WEAKER_JAIL", value_parser = clap::builder::BoolishValueParser::new())]
        allow_weaker_jail: bool,
        /// Print the findings in this format.
        #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
        format: Format,
    },
    /// Make a folder with a definition that works, as a start for your own
    ///
    /// The last part of the path names the problem and its function, e.g. `flopsmith problem new problems/my_kernel`.
    New {
        /// The folder; it must be empty or not exist yet.
        folder: PathBuf,
    },
    /// Make problems of random loop nests, for trainings and tests on nests that no model has seen
    ///
    /// Each seed gives one problem: one to three statements with one to three loops each, over arrays of doubles, floats or
    /// integers. The same seed gives the same files.
    #[command(after_help = random::EXAMPLES)]
    Random(RandomNests),
    /// Make problems of modules from another benchmark's files
    ///
    /// Each file of KernelBench gives a folder with problem.toml and the file itself as reference.py. Files are read and
    /// never executed; those that give no problem are named with the reason. Exit codes: 0 there are problems, 1 no file
    /// gave one, 2 wrong usage, 3 Python 3.9 or newer is missing.
    Import(flopsmith_bench::modules::Import),
    /// List the problems that Flopsmith finds
    List {
        /// Print the list in this format.
        #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
        format: Format,
    },
    /// Write problems as tasks of another tool
    ///
    /// A task of Harbor is a folder with an instruction, the agent's container, an oracle and a verifier. The reward is the
    /// speed relative to the plain reference, or to the faster of eager PyTorch and TorchInductor: the number of its 95 %
    /// interval that is closest to 1; 0 for a program that is missing or refused. Where the verifier's machine fails, there is
    /// no reward. The oracle is the problem's own fast program, or its reference if it has none.
    Export {
        /// The tool.
        #[arg(value_enum)]
        format: ExportFormat,
        /// The folder of the tasks. A task that exists is not overwritten.
        folder: PathBuf,
        /// Export this problem, by name or folder, or all modules in a folder (modules); may be repeated. All kernels and
        /// modules when neither problems nor suites are named.
        #[arg(long = "problem", value_name = "PROBLEM")]
        problems: Vec<String>,
        /// Export all problems of this suite, e.g. polybench; may be repeated. `all` stands for every kernel, and `modules` for
        /// every module.
        #[arg(long = "suite", value_name = "SUITE")]
        suites: Vec<String>,
        /// Build verifiers from this container image, which has the command flopsmith.
        #[arg(long, default_value = "flopsmith-worker")]
        image: String,
    },
    /// Print the prompt of a problem
    Prompt {
        /// The problem, by name or folder.
        problem: String,
        /// The workloads that the prompt names.
        #[command(flatten)]
        workloads: Workloads,
        /// Permit these techniques, e.g. simd+unroll, instead of those that a run with --threads permits.
        #[arg(long)]
        permit: Option<String>,
        /// Print the prompt of runs that time programs with this many threads: runs with one refuse programs that use
        /// openmp, and runs with more permit it. `bench` refuses no technique of the problem, with any number of threads.
        #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
        threads: u32,
        /// Print the short prompt of the starter model instead of the full prompt.
        #[arg(long)]
        compact: bool,
        /// Print the prompt that states the loop nest of the reference instead of the full prompt.
        #[arg(long, conflicts_with = "compact")]
        nest: bool,
        /// Print the prompt in this format.
        #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
        format: Format,
    },
}

/// Precisions of a model's weights.
#[cfg(feature = "torch")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Precision {
    /// Single precision.
    Float32,
    /// Eight bits of fraction and the range of single precision.
    Bfloat16,
    /// IEEE half precision.
    Float16,
}

/// `flopsmith model`.
#[cfg(feature = "torch")]
#[derive(Debug, Subcommand)]
pub enum Model {
    /// Report what a model folder holds, whether it loads, and how much memory it takes
    Inspect {
        /// Folder in Hugging Face layout.
        folder: PathBuf,
        /// Print the log-probabilities at every position for these token ids, as JSON.
        #[arg(long, value_delimiter = ',')]
        tokens: Option<Vec<u32>>,
        /// Print the findings in this format.
        #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
        format: Format,
    },
    /// Say how a model fits a GPU, and with which settings
    ///
    /// Reads config.json and the headers of the weights only, and needs no GPU. The amounts are for bfloat16, one process that
    /// samples and trains, and 8 tasks in a step.
    Plan {
        /// Folder in Hugging Face layout.
        folder: PathBuf,
        /// Memory of the GPU, e.g. 80GiB or 24GB.
        #[arg(long, value_name = "MEMORY", default_value = "80GiB", value_parser = amount::memory)]
        gpu: u64,
        /// Positions of the longest sample, prompt and answer; 4096, or as many as the model has, when left out.
        #[arg(long, value_name = "TOKENS", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(2..))]
        context: Option<u32>,
        /// Samples of each task (`group_size`).
        #[arg(long, value_name = "N", default_value_t = 8, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=65_536))]
        group: u32,
        /// Print the plan in this format.
        #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
        format: Format,
    },
    /// Add an adapter to the weights of its model, and write the result as a model folder
    Merge {
        /// The adapter's folder, as PEFT or a run writes it.
        adapter: PathBuf,
        /// Write the model into this folder.
        output: PathBuf,
        /// Write the weights in this precision; in that of the model's file when left out.
        #[arg(long, value_enum)]
        dtype: Option<Precision>,
    },
    /// Serve a model and its adapters over HTTP, with OpenAI's interface
    ///
    /// POST /v1/completions and /v1/chat/completions write texts, whole or streamed, with token ids and log-probabilities
    /// of the model. A request with a seed gets the answer that `model sample` prints with it.
    #[command(after_help = model_serve::EXAMPLES)]
    Serve(ModelServe),
    /// Print samples of a model
    Sample {
        /// Folder in Hugging Face layout.
        folder: PathBuf,
        /// Prompt it with this problem.
        #[arg(long, conflicts_with = "prompt", required_unless_present = "prompt")]
        problem: Option<String>,
        /// Prompt it with this text.
        #[arg(long)]
        prompt: Option<String>,
        /// Permit these techniques in the prompt of --problem; all but openmp when left out.
        #[arg(long)]
        permit: Option<String>,
        /// Use the full prompt instead of the starter model's short one.
        #[arg(long)]
        full: bool,
        /// Use the prompt that states the loop nest of the reference instead of the short one.
        #[arg(long, conflicts_with = "full")]
        nest: bool,
        /// Print this many samples.
        #[arg(long, short, default_value_t = 1, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        number: u32,
        /// Softmax temperature.
        #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
        temperature: f32,
        /// Draw from the most likely tokens that make up this share of the probability (nucleus); 1 keeps all.
        #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
        top_p: f32,
        /// Draw from this many of the most likely tokens; 0 keeps all.
        #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
        top_k: u32,
        /// Leave out tokens less likely than this share of the likeliest token's probability; 0 keeps all.
        #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
        min_p: f32,
        /// Write at most this many new tokens.
        #[arg(long, default_value_t = 512, allow_negative_numbers = true)]
        max_tokens: u32,
        /// End a sample at this text, and leave the text out; may be repeated.
        #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
        stop: Vec<String>,
        /// End a sample once a passage occurs this many times in a row, 2 at least; 0 never ends it.
        #[arg(
            long,
            value_name = "TIMES",
            default_value_t = 0,
            allow_negative_numbers = true
        )]
        repeats: u32,
        /// Hold the weights in this number format; in float32 on a CPU and in bfloat16 on a GPU when left out.
        #[arg(long, value_enum)]
        dtype: Option<Dtype>,
        /// Compute on this device: auto (the first GPU if libtorch can use one, else the CPU), cpu, cuda or cuda:N.
        #[arg(long, value_name = "DEVICE", default_value = "auto")]
        device: flopsmith_config::Device,
        /// Print the one sample while the model writes it.
        #[arg(long, conflicts_with = "number")]
        stream: bool,
        /// Seed of the samples.
        #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
        seed: u64,
    },
}

/// `flopsmith config`.
#[derive(Debug, Subcommand)]
pub enum Config {
    /// Check a configuration of `train`, or a recipe of `align`, and print it with every default
    Check {
        /// The configuration or the recipe.
        config: PathBuf,
        /// Override one setting, e.g. --set group_size=16; may be repeated.
        #[arg(long = "set", value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Print the configuration as TOML (text) or as one JSON object (json).
        #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
        format: Format,
    },
    /// Print the meaning and the default of each setting
    ///
    /// The output is itself a configuration: every setting at its default, with its meaning above it. Write it to a
    /// file and edit it, e.g. `flopsmith config explain > my.toml`.
    Explain {
        /// Explain one setting or table, e.g. `sqd.replay_share` or `evaluate`; all of them when left out.
        key: Option<String>,
        /// Print TOML with comments (text) or a JSON Schema (json).
        #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
        format: Format,
    },
}

#[cfg(test)]
mod tests;
