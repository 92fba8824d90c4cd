//! Arguments of `flopsmith dataset`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::{Format, Place};

/// Shown under the options.
pub const EXAMPLES: &str = "\
Measured programs are JSON lines such as
  {\"problem\": \"dgemm\", \"prompt\": \"// dgemm: simd\\n\", \"source\": \"…\", \"runtime_s\": 0.0012, \"correct\": true, \"origin\": \"contest\"}
with runtime_s null for what is wrong or was never run; what was never run has a \"rank\", fast or slow.

Examples:
  flopsmith dataset schedules --examples 500 | flopsmith dataset measure - --permit all > programs.jsonl
  flopsmith dataset run > programs.jsonl
  flopsmith dataset split programs.jsonl --output data
  flopsmith sft sft.toml -o models/sft && flopsmith reward-model reward.toml -o models/reward && flopsmith rlpf rlpf.toml -o models/rlpf";

/// What to make.
#[derive(Debug, Subcommand)]
pub enum Dataset {
    /// Programs of the schedule space with their prompts, as JSON lines on stdout
    Schedules {
        /// The problem.
        #[arg(long, default_value = "dgemm")]
        problem: String,
        /// How many examples.
        #[arg(long, default_value_t = 20_000, allow_negative_numbers = true)]
        examples: usize,
        /// Seed.
        #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
        seed: u64,
    },
    /// Compile, verify and time programs; measured programs as JSON lines on stdout
    ///
    /// Each program is evaluated as in a run: in the jail, on secret inputs, beside a fixed kernel. One that fails is written as not correct; one that
    /// the machine failed is left out. A line is written as soon as its program is done.
    Measure(Measure),
    /// The measured programs of a run as JSON lines on stdout
    Run(OfRun),
    /// Deal measured programs out to the stages of training
    ///
    /// 40 % are for supervised fine-tuning; of the others 66 % for the reward model and the rest for reinforcement, and all of these for direct
    /// performance alignment; 5 % of each are for evaluation only. Each origin is dealt out by itself, and a program is in one part only. Written are
    /// sft.jsonl, reward_model.jsonl, dpa.jsonl and rl.jsonl, each with an …_evaluation.jsonl beside it, and
    /// labels.jsonl, which says of every line where it went.
    Split(Split),
}

/// `flopsmith dataset measure`.
#[derive(Debug, ClapArgs)]
pub struct Measure {
    /// JSON lines with a `prompt` and a `program` (or `source`) each, as `dataset schedules` writes them; `-` is stdin.
    pub file: PathBuf,
    /// The problem that the programs solve.
    #[arg(long, default_value = "dgemm")]
    pub problem: String,
    /// Take all programs as answers to the one prompt that permits these techniques, e.g. simd+unroll, or `all` of the problem's but openmp. One that
    /// uses others is not correct then.
    #[arg(long, value_name = "TECHNIQUES")]
    pub permit: Option<String>,
    /// The full prompt for --permit instead of the starter's short one.
    #[arg(long, requires = "permit")]
    pub full: bool,
    /// What stands as the programs' origin.
    #[arg(long, default_value = "schedule_space")]
    pub origin: String,
    /// C compiler: gcc, clang or a path.
    #[arg(long, default_value = "gcc", env = "FLOPSMITH_COMPILER")]
    pub compiler: String,
    /// Run the programs even where the jail gives less than its full protection.
    #[arg(long, env = "FLOPSMITH_ALLOW_WEAKER_JAIL", value_parser = clap::builder::BoolishValueParser::new())]
    pub allow_weaker_jail: bool,
}

/// `flopsmith dataset run`.
#[derive(Debug, ClapArgs)]
pub struct OfRun {
    /// The run, by name or folder; the newest when left out.
    pub run: Option<String>,
    /// Where runs lie.
    #[command(flatten)]
    pub place: Place,
}

/// `flopsmith dataset split`.
#[derive(Debug, ClapArgs)]
pub struct Split {
    /// Files of measured programs.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Folder that the parts are written into; made if it is not there.
    #[arg(long, short)]
    pub output: PathBuf,
    /// Pairs of each prompt at most.
    #[arg(long, default_value_t = 100, value_name = "NUMBER")]
    pub pairs: usize,
    /// Examples for fine-tuning of each kind and prompt at most.
    #[arg(long, default_value_t = 100, value_name = "NUMBER")]
    pub examples: usize,
    /// Put programs of answers and prompts into a block of this language, as chat models write them, e.g. `c`.
    #[arg(long, value_name = "LANGUAGE")]
    pub fence: Option<String>,
    /// A problem to leave out of every part; may be repeated.
    #[arg(long, value_name = "PROBLEM")]
    pub hold_out: Vec<String>,
    /// Seed.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    pub seed: u64,
    /// How the result is printed.
    #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
    pub format: Format,
}
