//! The arguments of `flopsmith eval`.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Args as ClapArgs, Subcommand};
use flopsmith_bench::threads::ThreadCount;
use flopsmith_config::Device;
use flopsmith_eval::{Format, Prompt, Task};

use super::{BenchPurpose, Dtype, OnFarm, Waiting, Workloads};

/// Shown under the options.
pub const EXAMPLES: &str = "\
Examples:
  flopsmith eval models/starter --problem dgemm --workload n=256
  flopsmith eval before=models/starter after=runs/NAME schedule --problem dgemm
  flopsmith eval answers.jsonl --suite polybench --threads 1,2 --format markdown > table.md
  flopsmith eval models/chat --suite all --task optimise --samples 50 --k 1,10,50
  flopsmith eval models/chat --problem dgemm --task optimise --program mine.c
  flopsmith eval endpoint:http://127.0.0.1:8000/v1#MODEL --problem dgemm --max-tokens 4096
  flopsmith eval gpt=endpoint:gpt.toml models/starter --suite polybench
  flopsmith eval compare evaluation#before evaluation#after

A line of a file of samples is an object such as
  {\"problem\": \"dgemm\", \"program\": \"void dgemm(…\"}
or, with the text that a model wrote and a program in its last fenced block,
  {\"problem\": \"dgemm\", \"answer\": \"Here is the kernel:\\n```c\\n…\"}

The file of an endpoint names a server with chat completions in OpenAI's format, such as
  url = \"https://api.example.com/v1\"
  model = \"MODEL\"
  key = \"OPENAI_API_KEY\"          # the name of an environment variable
  price = { input = 0.25, output = 2.00 }    # of a million tokens
  budget = { money = 5.00, seconds = 3600 }

Exit codes: 0 every answer was evaluated, 2 wrong usage, 3 this machine could not
evaluate at least one answer, or an endpoint did not give it (the same command tries
again), 130 interrupted (the same command continues).";

/// `flopsmith eval`.
#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Eval {
    /// The subcommand; without one the command evaluates models.
    #[command(subcommand)]
    pub action: Option<EvalAction>,
    /// Models: folders of language models or adapters, folders of runs for their trained models, files of ready samples (JSON
    /// lines), `schedule` for random programs of the schedule space, and models behind endpoints, as `endpoint:URL#MODEL` or
    /// `endpoint:FILE`. NAME=MODEL gives a model another name in the results.
    #[arg(required = true, value_name = "MODEL")]
    pub models: Vec<String>,
    /// Evaluate on this problem, by name or folder; may be repeated.
    #[arg(long, value_name = "PROBLEM", required_unless_present = "suite")]
    pub problem: Vec<String>,
    /// Evaluate on all problems of this suite; `all` stands for every kernel, and `modules` for every module.
    #[arg(long, conflicts_with = "problem")]
    pub suite: Option<String>,
    /// The workloads, which each problem must have.
    #[command(flatten)]
    pub workloads: Workloads,
    /// Evaluate this many answers to each problem; 20 when left out, and all answers of files of samples.
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub samples: Option<u32>,
    /// Numbers of draws k of build@k, pass@k and speedup@k; when left out, those of 1, 5, 10 and 20 that the number of
    /// answers permits.
    #[arg(long = "k", value_name = "K,...", value_delimiter = ',', allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub draws: Vec<u32>,
    /// Softmax temperature of language models; 0 takes the likeliest token each time.
    #[arg(long, default_value_t = 0.2, allow_negative_numbers = true)]
    pub temperature: f32,
    /// Draw from the most likely tokens that make up this share of the probability (nucleus); 1 keeps all.
    #[arg(long, default_value_t = 0.95, allow_negative_numbers = true)]
    pub top_p: f32,
    /// Let a language model write at most this many tokens for each answer.
    #[arg(long, default_value_t = 512, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_tokens: u32,
    /// Seed of the answers and of the intervals.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    pub seed: u64,
    /// Ask language models for a program from the problem's description (write), or for a faster program than the
    /// problem's plain reference or that of --program, which the prompt shows (optimise).
    #[arg(long, value_enum, default_value = "write")]
    pub task: Task,
    /// With --task optimise, show this program instead of the problem's plain reference: FILE where one problem is evaluated,
    /// PROBLEM=FILE where several are; may be repeated. Speedups are over the reference all the same.
    #[arg(long = "program", value_name = "[PROBLEM=]FILE")]
    pub programs: Vec<String>,
    /// Style of the prompts of language models.
    #[arg(long, value_enum, default_value = "auto")]
    pub prompt: Prompt,
    /// Permit these techniques, e.g. simd+unroll, and refuse programs that use others; when left out, all techniques of
    /// each problem, on one thread without openmp.
    #[arg(long, value_name = "TECHNIQUES")]
    pub permit: Option<String>,
    /// Hold the weights of language models in this number format.
    #[arg(long, value_enum, default_value = "auto")]
    pub dtype: Dtype,
    /// Sample language models on this device: auto (the first GPU if libtorch can use one, else the CPU), cpu, cuda or cuda:N.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: Device,
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
    /// Measure with the precision of this purpose. Every program is verified in full, whatever the purpose.
    #[arg(long, value_enum, default_value = "rank")]
    pub purpose: BenchPurpose,
    /// Check the programs with sanitizers, too. --purpose certify always does this.
    #[arg(long, env = "FLOPSMITH_SANITIZE", value_parser = BoolishValueParser::new())]
    pub sanitize: bool,
    /// Compile with this C compiler: gcc, clang or a path.
    #[arg(long, default_value = "gcc", env = "FLOPSMITH_COMPILER")]
    pub compiler: String,
    /// Folder of the evaluation: prompts, answers, outcomes, raw samples and results. The same command in the same folder
    /// evaluates only what is missing there.
    #[arg(long, short, value_name = "DIR", default_value = "evaluation")]
    pub output: PathBuf,
    /// The cluster.
    #[command(flatten)]
    pub farm: OnFarm,
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

/// `flopsmith eval …`.
#[derive(Debug, Subcommand)]
pub enum EvalAction {
    /// Compare two evaluated models, paired by problem, and say which differences are real
    ///
    /// Intervals come from a bootstrap over problems and answers. The chances are corrected for the number of comparisons
    /// by Holm's procedure; a difference is real if its corrected chance is 5 % or less.
    Compare {
        /// Folder of the first evaluation; of several models in it, one: FOLDER#MODEL.
        a: String,
        /// Folder of the second evaluation, or FOLDER#MODEL.
        b: String,
        /// Print the comparison in this format.
        #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
        format: Format,
    },
}
