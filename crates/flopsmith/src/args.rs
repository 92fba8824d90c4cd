//! The command line as typed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use flopsmith_run::config;

mod bench;
mod cluster;
mod dataset;
mod dead;
mod join;
#[cfg(feature = "torch")]
mod learn;
mod parse;
mod store;
mod top;
mod worker;

pub use bench::{Bench, BenchPurpose};
pub use cluster::{Cluster, Holder};
pub use dataset::{Dataset, Measure, OfRun, Split};
pub use dead::{Dead, Where};
pub use join::Join;
#[cfg(feature = "torch")]
pub use learn::{Learn, Sft};
pub use store::{Collect, Store};
pub use top::Top;
pub use worker::Worker;

/// Code models learn to write fast code, with the stopwatch as the teacher.
///
/// Start with `flopsmith train examples/dgemm.toml` (or `make train`), with
/// `flopsmith search --problem dgemm --budget 5m` where no model is wanted, or
/// with `flopsmith bench FILE.c ... --problem dgemm` to time programs.
/// `flopsmith doctor` says what this machine can do.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// How much to log: error, warn, info, debug, trace, or a filter like `flopsmith_bus=debug`.
    #[arg(
        long,
        global = true,
        default_value = "warn",
        env = "FLOPSMITH_LOG",
        value_parser = log_filter
    )]
    pub log: String,
    /// OpenTelemetry collector for traces, e.g. http://localhost:4318; without it OTEL_EXPORTER_OTLP_ENDPOINT decides.
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
    /// Train a code model on the measured speed of what it writes
    Train(Train),
    /// Search for the fastest program without a model
    Search(Search),
    /// Compile, verify and time programs
    ///
    /// Every program is compiled and run in a jail, checked on inputs it has never seen, and timed beside a fixed kernel,
    /// call by call. One FILE gives a few lines about it; several give a table, fastest first. Programs that share a letter
    /// there are too close to be told apart.
    #[command(after_help = bench::EXAMPLES)]
    Bench(Bench),
    /// Work for the runs of a cluster: compile, verify and time their programs
    #[command(after_help = worker::EXAMPLES)]
    Worker(Worker),
    /// Set up what the nodes of a cluster share, and look at it
    #[command(subcommand, after_help = cluster::EXAMPLES)]
    Cluster(Cluster),
    /// Tidy up an artifact store
    #[command(subcommand, after_help = store::EXAMPLES)]
    Store(Store),
    /// Show what a cluster does: queues, nodes, runs, dead letters
    #[command(after_help = top::EXAMPLES)]
    Top(Top),
    /// Repeat a finished training run on its recorded outcomes, and compare every policy version bit by bit
    ///
    /// Programs are written and trained on as in the run, but what came of each is taken from its `outcomes.jsonl` instead of being
    /// compiled, verified and timed. Needs the same build, model and number of processor cores. Exit codes: 0 all versions are
    /// equal, 3 something differs (the first program or version that does is named), 130 interrupted.
    Replay(Replay),
    /// List runs, or follow one
    Runs(Runs),
    /// Write a run's report as one HTML file
    Report(Report),
    /// Look at messages that nobody could work off, and give them out again
    #[command(subcommand, after_help = dead::EXAMPLES)]
    Dead(Dead),
    /// Say what this machine has, lacks and can measure
    Doctor(Doctor),
    /// Look at problem definitions
    #[command(subcommand, after_help = PLACES)]
    Problem(Problem),
    /// Make what is trained on: corpora, measured programs, and their parts for the stages of training
    #[command(subcommand, after_help = dataset::EXAMPLES)]
    Dataset(Dataset),
    /// Supervised fine-tuning
    #[cfg(feature = "torch")]
    #[command(after_help = learn::SFT)]
    Sft(Sft),
    /// Make a reward model of pairs of a fast and a slow program
    ///
    /// It learns to give the fast one the higher reward, by a margin that grows with the ratio of their times (Nichols et al., 2024).
    #[cfg(feature = "torch")]
    #[command(after_help = learn::REWARD_MODEL)]
    RewardModel(Learn),
    /// Align a policy with pairs of a fast and a slow program, without a reward model
    ///
    /// Direct performance alignment (Nichols et al., 2024): the fast one becomes likelier and the slow one less likely, as a frozen copy sees them.
    #[cfg(feature = "torch")]
    #[command(after_help = learn::DPA)]
    Dpa(Learn),
    /// Reinforcement by performance feedback: PPO on the measured speed of answers
    ///
    /// An answer that fails its tests is worth −1, one that passes the median time of known programs over its own time less 1; where there are no
    /// tests a reward model judges (Nichols et al., 2024). Tests and times are those of this machine's jail.
    #[cfg(feature = "torch")]
    #[command(after_help = learn::RLPF)]
    Rlpf(Learn),
    /// Look at models
    #[cfg(feature = "torch")]
    #[command(subcommand)]
    Model(Model),
    /// Check and explain configurations
    #[command(subcommand)]
    Config(Config),
}

/// The largest seed: a run keeps its settings as TOML, whose whole numbers end here.
const LARGEST_SEED: u64 = i64::MAX.unsigned_abs();

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON value on the last line of stdout.
    Json,
}

/// Numbers that a model's weights are held in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Dtype {
    /// Single precision.
    Float32,
    /// Half the memory; of weights that were trained in it nothing is lost.
    Bfloat16,
    /// bfloat16 where the folder's weights are in it and the device computes in it.
    Auto,
}

/// Where runs lie.
#[derive(Debug, Clone, ClapArgs)]
pub struct Place {
    /// Folder that holds the runs; `runs` when left out.
    #[arg(long, env = "FLOPSMITH_RUNS")]
    pub runs: Option<PathBuf>,
}

impl Place {
    /// The folder, which need not be there yet.
    pub fn folder(&self) -> &Path {
        self.runs.as_deref().unwrap_or(Path::new("runs"))
    }
}

/// How long something waits for a quiet machine.
#[derive(Debug, Clone, ClapArgs)]
pub struct Waiting {
    /// Where others are at work on the timed cores, wait until they are quiet before something is certified or compared, for
    /// at most this long in all (`bench --watch`: for each file that was saved), e.g. 30s or 2m (0: do not wait). Then it is measured all
    /// the same, and the result says so, also where it
    /// rests on a reference that was measured meanwhile.
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
    /// The time that was typed.
    pub fn limit(&self) -> anyhow::Result<Duration> {
        config::time(&self.wait).context("--wait (or FLOPSMITH_WAIT) cannot be read")
    }
}

/// `flopsmith train`.
#[derive(Debug, ClapArgs)]
pub struct Train {
    /// Configuration of the run, e.g. examples/dgemm.toml.
    pub config: PathBuf,
    /// Go on with a run that was stopped, with the settings it was begun with: the newest unfinished one of this
    /// configuration, or the one named.
    #[arg(long, num_args = 0..=1, default_missing_value = "", value_name = "RUN")]
    pub resume: Option<String>,
    /// Time for the run, e.g. 10m, 1h30m, 90s (a bare number is seconds); overrides the configuration. With --resume it is
    /// the run's new budget. The evaluations before and after training are made whatever it is.
    #[arg(long, env = "FLOPSMITH_BUDGET", allow_negative_numbers = true)]
    pub budget: Option<String>,
    /// Seed of the run; overrides the configuration. Not with --resume.
    #[arg(long, env = "FLOPSMITH_SEED", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(..=LARGEST_SEED))]
    pub seed: Option<u64>,
    /// Override one setting, e.g. --set sqd.enabled=false; may be repeated. Not with --resume.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Which cluster.
    #[command(flatten)]
    pub join: Join,
    /// How long the measurements after the end wait for a quiet machine.
    #[command(flatten)]
    pub wait: Waiting,
    /// How the result is printed.
    #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
    pub format: Format,
    /// Where runs lie.
    #[command(flatten)]
    pub place: Place,
}

/// `flopsmith search`.
#[derive(Debug, ClapArgs)]
pub struct Search {
    /// The problem, by name or folder.
    #[arg(long)]
    pub problem: String,
    /// Time for the search, e.g. 10m, 1h30m, 90s (a bare number is seconds); 5m when left out. With --resume it is the
    /// search's new budget. Measuring the machine before it and the fastest programs once more after it comes on top, which is said
    /// first: a minute or two, and longer where it waits for a quiet machine (--wait). Stages end by shares of the budget; below 2m steps are
    /// smaller, and two programs are measured once more in place of four.
    #[arg(long, env = "FLOPSMITH_BUDGET", allow_negative_numbers = true)]
    pub budget: Option<String>,
    /// Stop after this many programs; 0 is no limit. Not with --resume.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    pub evaluations: u64,
    /// Seed of the search; 1 when left out. Not with --resume.
    #[arg(long, env = "FLOPSMITH_SEED", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(..=LARGEST_SEED))]
    pub seed: Option<u64>,
    /// Write the fastest verified source here instead of to stdout.
    #[arg(long, short)]
    pub output: Option<PathBuf>,
    /// Go on with the newest unfinished search of this problem, or the one named, with the settings it was begun with.
    #[arg(long, num_args = 0..=1, default_missing_value = "", value_name = "RUN")]
    pub resume: Option<String>,
    /// Override one setting, e.g. --set group_size=4; may be repeated. Not with --resume.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Which cluster.
    #[command(flatten)]
    pub join: Join,
    /// How long the measurements after the end wait for a quiet machine.
    #[command(flatten)]
    pub wait: Waiting,
    /// How the result is printed.
    #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
    pub format: Format,
    /// Where runs lie.
    #[command(flatten)]
    pub place: Place,
}

/// `flopsmith replay`.
#[derive(Debug, ClapArgs)]
pub struct Replay {
    /// The run, by name or folder; the newest finished training run when left out.
    pub run: Option<String>,
    /// How the result is printed.
    #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
    pub format: Format,
    /// Where runs lie.
    #[command(flatten)]
    pub place: Place,
}

/// `flopsmith runs`.
#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Runs {
    /// Anything but a list.
    #[command(subcommand)]
    pub action: Option<RunsAction>,
    /// How the list is printed.
    #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
    pub format: Format,
    /// Where runs lie.
    #[command(flatten)]
    pub place: Place,
}

/// `flopsmith runs …`.
#[derive(Debug, Subcommand)]
pub enum RunsAction {
    /// Follow a run from another terminal: a line for each step, until it ends
    ///
    /// Exit codes: 0 it ended, 3 nobody here goes on with it (`--resume` does; a cluster may), 130 interrupted.
    Watch {
        /// The run, by name or folder; the newest when left out.
        run: Option<String>,
        /// Where runs lie.
        #[command(flatten)]
        place: Place,
    },
    /// Show the batches that gave no finite gradient, which a run keeps in `skipped`
    ///
    /// With --format json one JSON object a line, with every sample's tokens, log-probabilities and advantage; numbers that are none
    /// are the texts "NaN", "inf" and "-inf".
    Skipped {
        /// The run, by name or folder; the newest when left out.
        run: Option<String>,
        /// How they are printed.
        #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
        format: Format,
        /// Where runs lie.
        #[command(flatten)]
        place: Place,
    },
}

/// `flopsmith report`.
#[derive(Debug, ClapArgs)]
pub struct Report {
    /// The run, by name or folder; the newest when left out.
    pub run: Option<String>,
    /// Write the report here instead of into the run's folder.
    #[arg(long, short)]
    pub output: Option<PathBuf>,
    /// Where runs lie.
    #[command(flatten)]
    pub place: Place,
}

/// `flopsmith doctor`.
#[derive(Debug, ClapArgs)]
pub struct Doctor {
    /// Leave out the measurements (peak and timing quality, some seconds).
    #[arg(long)]
    pub quick: bool,
    /// Measure a kernel against itself to every standard, for two minutes or so: which difference this machine can tell in which time.
    /// The figures are kept, and later calls show them.
    #[arg(long)]
    pub timing: bool,
    /// How long --timing waits for a quiet machine.
    #[command(flatten)]
    pub wait: Waiting,
    /// Start a nats-server as a run would, and stop it again; without this flag it is only asked for its version.
    #[arg(long)]
    pub broker: bool,
    /// How the findings are printed.
    #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
    pub format: Format,
}

/// Where problems are looked for by name.
const PLACES: &str = "\
A problem is named by its folder or by its name. Names are looked up in the folder that
FLOPSMITH_PROBLEMS names, then in problems/ here, then in problems/ of the installation.";

/// `flopsmith problem`.
#[derive(Debug, Subcommand)]
pub enum Problem {
    /// Is this definition sound: reference deterministic, inputs matter, outputs vary?
    ///
    /// Reads it, compiles the reference, holds it against itself on random inputs, and verifies and times
    /// it as a candidate. Exit codes: 0 it is sound, with or without weaknesses (which are marked `weak`); 1 it is not; 2 it cannot be read as a definition.
    Check {
        /// The problem, by name or folder.
        problem: String,
        /// C compiler: gcc, clang or a path.
        #[arg(long, default_value = "gcc", env = "FLOPSMITH_COMPILER")]
        compiler: String,
        /// Run the definition's programs even where the jail gives less than its full protection.
        #[arg(long, env = "FLOPSMITH_ALLOW_WEAKER_JAIL", value_parser = clap::builder::BoolishValueParser::new())]
        allow_weaker_jail: bool,
        /// How the findings are printed.
        #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
        format: Format,
    },
    /// Make a folder with a definition that works, to begin with
    ///
    /// Its last name becomes the problem's and its function's, e.g. `flopsmith problem new problems/my_kernel`.
    New {
        /// The folder; it must not exist, or be empty.
        folder: PathBuf,
    },
    /// List the problems that are found
    List {
        /// How the list is printed.
        #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
        format: Format,
    },
    /// Print the prompt of a problem
    Prompt {
        /// The problem, by name or folder.
        problem: String,
        /// Permitted techniques, e.g. simd+unroll; all of the problem's but openmp when left out.
        #[arg(long)]
        permit: Option<String>,
        /// The short prompt of the starter model instead of the full one.
        #[arg(long)]
        compact: bool,
        /// How the prompt is printed.
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
    /// Say what a model folder holds, whether it loads, and what memory it takes
    Inspect {
        /// Folder in Hugging Face layout.
        folder: PathBuf,
        /// Print the log-probabilities at every position for these token ids, as JSON.
        #[arg(long, value_delimiter = ',')]
        tokens: Option<Vec<u32>>,
        /// How the findings are printed.
        #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
        format: Format,
    },
    /// Add an adapter to the weights of its model, and write the whole as a model folder
    Merge {
        /// The adapter's folder, as PEFT or a run writes it.
        adapter: PathBuf,
        /// Where the model goes.
        output: PathBuf,
        /// Keep the weights in this precision; that of the model's file when left out.
        #[arg(long, value_enum)]
        dtype: Option<Precision>,
    },
    /// Show what a model writes
    Sample {
        /// Folder in Hugging Face layout.
        folder: PathBuf,
        /// Prompt it with this problem.
        #[arg(long, conflicts_with = "prompt", required_unless_present = "prompt")]
        problem: Option<String>,
        /// Prompt it with this text.
        #[arg(long)]
        prompt: Option<String>,
        /// Permitted techniques for --problem; all but openmp when left out.
        #[arg(long)]
        permit: Option<String>,
        /// The full prompt instead of the starter's short one.
        #[arg(long)]
        full: bool,
        /// How many samples.
        #[arg(long, short, default_value_t = 1, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        number: u32,
        /// Softmax temperature.
        #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
        temperature: f32,
        /// Nucleus share.
        #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
        top_p: f32,
        /// Most likely tokens to keep; 0 keeps all.
        #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
        top_k: u32,
        /// Leave out tokens less likely than this share of the likeliest; 0 keeps all.
        #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
        min_p: f32,
        /// New tokens at most.
        #[arg(long, default_value_t = 512, allow_negative_numbers = true)]
        max_tokens: u32,
        /// End a sample where it says this, and leave that out; may be repeated.
        #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
        stop: Vec<String>,
        /// End a sample once a passage of it stands so many times in a row, 2 at least; 0 never.
        #[arg(
            long,
            value_name = "TIMES",
            default_value_t = 0,
            allow_negative_numbers = true
        )]
        repeats: u32,
        /// Numbers the weights are held in.
        #[arg(long, value_enum, default_value = "float32")]
        dtype: Dtype,
        /// Print one sample while it is written.
        #[arg(long, conflicts_with = "number")]
        stream: bool,
        /// Seed.
        #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
        seed: u64,
    },
}

/// `flopsmith config`.
#[derive(Debug, Subcommand)]
pub enum Config {
    /// Check a configuration and print it with every default
    Check {
        /// The file.
        config: PathBuf,
        /// Change a setting, e.g. --set group_size=16; may be repeated.
        #[arg(long = "set", value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// How the configuration is printed: as TOML, or as one JSON object.
        #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
        format: Format,
    },
    /// Say what each setting means, and its default
    ///
    /// What is printed is a configuration in itself: every setting at its default, with what it means above it. Write it to a
    /// file and change what you like, e.g. `flopsmith config explain > my.toml`.
    Explain {
        /// One setting or table, e.g. `sqd.replay_share` or `evaluate`; all of them when left out.
        key: Option<String>,
        /// How it is printed: as TOML with comments, or as JSON Schema.
        #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
        format: Format,
    },
}

impl Args {
    /// Does the caller read stdout with a program?
    pub fn wants_json(&self) -> bool {
        let format = match &self.command {
            Command::Train(a) => Some(a.format),
            Command::Search(a) => Some(a.format),
            Command::Bench(a) => return a.format.is_json(),
            Command::Runs(a) => Some(a.format),
            Command::Top(a) => Some(a.format),
            Command::Store(Store::Gc(a)) => Some(a.format),
            Command::Dataset(Dataset::Split(a)) => Some(a.format),
            Command::Dead(a) => a.format(),
            Command::Cluster(Cluster::Check { format, .. }) => Some(*format),
            Command::Doctor(a) => Some(a.format),
            Command::Problem(
                Problem::Check { format, .. }
                | Problem::List { format }
                | Problem::Prompt { format, .. },
            )
            | Command::Config(Config::Check { format, .. } | Config::Explain { format, .. }) => {
                Some(*format)
            }
            #[cfg(feature = "torch")]
            Command::Sft(a) => Some(a.format),
            #[cfg(feature = "torch")]
            Command::RewardModel(a) | Command::Dpa(a) | Command::Rlpf(a) => Some(a.format),
            #[cfg(feature = "torch")]
            Command::Model(Model::Inspect { format, .. }) => Some(*format),
            _ => None,
        };
        format == Some(Format::Json)
    }
}

#[cfg(test)]
mod tests;
