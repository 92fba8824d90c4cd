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
  flopsmith dataset synthesize --endpoint http://127.0.0.1:8000/v1#MODEL --problem dgemm --output written
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
    /// Let a language model behind an endpoint write slow and fast programs
    ///
    /// Each request asks for a slow and a fast program for one task, and shows a piece of code that inspires them. With
    /// --problem the task is that of the problem, and both programs are compiled, verified and timed as by `dataset
    /// measure`. Without it the model states the task; its programs do not run, and are marked as slow and fast. An answer
    /// that does not have the form that the request asks for is refused, and programs that differ from earlier ones by
    /// comments and layout alone are left out. The folder gets programs.jsonl for `dataset split`, and requests, answers
    /// and outcomes as JSON lines. The same command in the same folder asks only for what is missing there.
    Synthesize(Synthesize),
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

/// `flopsmith dataset synthesize`.
#[derive(Debug, ClapArgs)]
pub struct Synthesize {
    /// The model, e.g. http://127.0.0.1:8000/v1#MODEL, or FILE with settings such as the name of the key's variable, prices
    /// and a budget.
    #[arg(long, value_name = "URL#MODEL|FILE")]
    pub endpoint: String,
    /// Write into this folder, which is created if it does not exist.
    #[arg(long, short, value_name = "DIR")]
    pub output: PathBuf,
    /// Draw the pieces of code from this file, or from the sources in C, C++ and Fortran of this folder; when left out, from
    /// the references of all known problems.
    #[arg(long, value_name = "FILE|DIR")]
    pub snippets: Option<PathBuf>,
    /// Ask for this many answers for each problem; without --problem, in all.
    #[arg(long, default_value_t = 100, value_name = "NUMBER", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub count: u32,
    /// Ask for programs for this problem, by name or folder; may be repeated.
    #[arg(long, value_name = "PROBLEM")]
    pub problem: Vec<String>,
    /// The workloads, which each problem must have. Only with --problem.
    #[command(flatten)]
    pub workloads: Workloads,
    /// Write the programs of a problem as answers to its full prompt instead of the starter model's short one.
    #[arg(long, requires = "problem")]
    pub full: bool,
    /// Write the programs of a problem as answers to the prompt that states the loop nest of the reference instead of the
    /// short one.
    #[arg(long, requires = "problem", conflicts_with = "full")]
    pub nest: bool,
    /// Softmax temperature of the model.
    #[arg(long, default_value_t = 0.8, allow_negative_numbers = true)]
    pub temperature: f32,
    /// Draw from the most likely tokens that make up this share of the probability (nucleus); 1 keeps all.
    #[arg(long, default_value_t = 0.95, allow_negative_numbers = true)]
    pub top_p: f32,
    /// Let the model write at most this many tokens for each answer.
    #[arg(long, default_value_t = 4096, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_tokens: u32,
    /// Seed of the answers and of the pieces of code.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    pub seed: u64,
    /// Compile with this C compiler: gcc, clang or a path. Only with --problem: other programs do not run.
    #[arg(
        long,
        default_value = "gcc",
        env = "FLOPSMITH_COMPILER",
        requires = "problem"
    )]
    pub compiler: String,
    /// Run the programs even where the jail gives less than its full protection. Only with --problem.
    #[arg(
        long,
        env = "FLOPSMITH_ALLOW_WEAKER_JAIL",
        requires = "problem",
        value_parser = clap::builder::BoolishValueParser::new()
    )]
    pub allow_weaker_jail: bool,
    /// Print the result in this format.
    #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
    pub format: Format,
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
