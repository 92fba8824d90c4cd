//! Arguments of `flopsmith dataset`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::{Format, OnFarm, Place, Workloads};

/// Shown under the options.
pub const EXAMPLES: &str = "\
Measured programs are JSON lines such as
  {\"problem\": \"dgemm\", \"prompt\": \"// dgemm: simd\\n\", \"source\": \"…\", \"runtime_s\": 0.0012, \"correct\": true, \"origin\": \"contest\"}
with runtime_s null for a program that is wrong or never ran; one that never ran has a \"rank\", fast or slow.

Examples:
  flopsmith dataset schedules --examples 500 | flopsmith dataset measure - --permit all > programs.jsonl
  flopsmith dataset schedules --problem dsyrk --examples 100 | flopsmith dataset measure - --permit all --references > dsyrk.jsonl
  flopsmith dataset run > programs.jsonl
  flopsmith dataset split programs.jsonl --output data
  flopsmith sft sft.toml -o models/sft && flopsmith reward-model reward.toml -o models/reward && flopsmith rlpf rlpf.toml -o models/rlpf";

/// The subcommands of `flopsmith dataset`.
#[derive(Debug, Subcommand)]
pub enum Dataset {
    /// Print programs of the schedule space with their prompts, as JSON lines
    ///
    /// For dgemm the prompts permit different techniques, and programs may repeat. For other affine loop nests and for
    /// templates each program occurs once, and there is one prompt.
    Schedules {
        /// The problem that the programs solve, by name or folder.
        #[arg(long, default_value = "dgemm")]
        problem: String,
        /// Print this many examples.
        #[arg(long, default_value_t = 20_000, allow_negative_numbers = true)]
        examples: usize,
        /// Seed of the random choices.
        #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
        seed: u64,
    },
    /// Compile, verify and time programs, and print them as JSON lines of measured programs
    ///
    /// Each program is evaluated as in a run: in the jail, on secret inputs, beside a fixed kernel. A program that
    /// fails is printed as not correct. A program that this machine failed to measure is left out. The command prints
    /// each line as soon as its program is done.
    Measure(Measure),
    /// Print the measured programs of a run as JSON lines
    Run(OfRun),
    /// Split measured programs into files for the stages of training
    ///
    /// Fine-tuning gets 40 % of the programs. Of the others, the reward model gets 66 % and reinforcement gets the
    /// rest; direct performance alignment gets all of the others. Of each part, 5 % are for evaluation only. Each
    /// origin is split by itself, and a program is in one part only. The command writes sft.jsonl, reward_model.jsonl,
    /// dpa.jsonl and rl.jsonl, each with an …_evaluation.jsonl beside it, and labels.jsonl, which names the part of
    /// every line.
    Split(Split),
}

/// `flopsmith dataset measure`.
#[derive(Debug, ClapArgs)]
pub struct Measure {
    /// JSON lines with a `prompt` and a `program` (or `source`) each, and perhaps a `problem`, as `dataset schedules` writes
    /// them; `-` is stdin. With --permit lines need no `prompt`. Lines of several problems are measured problem by problem.
    pub file: PathBuf,
    /// The problem of lines that name none.
    #[arg(long, default_value = "dgemm")]
    pub problem: String,
    /// The workloads.
    #[command(flatten)]
    pub workloads: Workloads,
    /// Make all programs of a problem answers to the one prompt that permits these techniques, e.g. simd+unroll; `all`
    /// permits all of the problem's but openmp. A program that uses other techniques is then not correct.
    #[arg(long, value_name = "TECHNIQUES")]
    pub permit: Option<String>,
    /// Use the full prompt for --permit instead of the starter model's short one.
    #[arg(long, requires = "permit")]
    pub full: bool,
    /// Use the prompt that states the loop nest of the reference for --permit instead of the short one.
    #[arg(long, requires = "permit", conflicts_with = "full")]
    pub nest: bool,
    /// Measure the plain reference of each problem as well, with the origin `reference`: `dataset split` shows it as the
    /// slow program in each part.
    #[arg(long)]
    pub references: bool,
    /// Write this as the programs' origin.
    #[arg(long, default_value = "schedule_space")]
    pub origin: String,
    /// Compile with this C compiler: gcc, clang or a path.
    #[arg(long, default_value = "gcc", env = "FLOPSMITH_COMPILER")]
    pub compiler: String,
    /// The cluster.
    #[command(flatten)]
    pub farm: OnFarm,
    /// Run the programs even where the jail gives less than its full protection.
    #[arg(long, env = "FLOPSMITH_ALLOW_WEAKER_JAIL", value_parser = clap::builder::BoolishValueParser::new())]
    pub allow_weaker_jail: bool,
}

/// `flopsmith dataset run`.
#[derive(Debug, ClapArgs)]
pub struct OfRun {
    /// The run, by name or folder; the newest when left out.
    pub run: Option<String>,
    /// The folder of runs.
    #[command(flatten)]
    pub place: Place,
}

/// `flopsmith dataset split`.
#[derive(Debug, ClapArgs)]
pub struct Split {
    /// Files of measured programs.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Write the parts into this folder, which is created if it does not exist.
    #[arg(long, short)]
    pub output: PathBuf,
    /// Write at most this many pairs of each prompt.
    #[arg(long, default_value_t = 100, value_name = "NUMBER")]
    pub pairs: usize,
    /// Write at most this many examples for fine-tuning of each kind and prompt.
    #[arg(long, default_value_t = 100, value_name = "NUMBER")]
    pub examples: usize,
    /// Write at most this many prompts for reinforcement that show a slow program, for each prompt; 0 for none.
    #[arg(long, default_value_t = 4, value_name = "NUMBER")]
    pub improve: usize,
    /// Put the programs of answers and prompts into a fenced block of this language, as chat models write them, e.g.
    /// `c`.
    #[arg(long, value_name = "LANGUAGE")]
    pub fence: Option<String>,
    /// Leave this problem out of every part; may be repeated.
    #[arg(long, value_name = "PROBLEM")]
    pub hold_out: Vec<String>,
    /// Seed of the random choices.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    pub seed: u64,
    /// Print the result in this format.
    #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
    pub format: Format,
}
