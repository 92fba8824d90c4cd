//! Arguments of the commands that train on files: `sft`, `reward-model`, `dpa`, `rlpf`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use flopsmith_recipes::Order;

use super::{Format, OnFarm};

/// Shown under the options of `sft`.
pub const SFT: &str = "\
A recipe trains on programs of the schedule space, as models/starter/recipe.toml does, on random loop nests, as
models/nests/recipe.toml does, or on files of examples:
  model = \"models/starter\"
  examples = \"data/sft.jsonl\"               # {\"prompt\": …, \"answer\": …} a line, from `flopsmith dataset split`
  validation = \"data/sft_evaluation.jsonl\" # may be left out
  chat = false                              # true if prompts are messages to a chat model
  checkpoint_every = 100                    # updates
  dtype = \"float32\"                         # or bfloat16, auto
  [sft]                                     # this table may be left out
  learning_rate = 1e-4
  [sft.lora]                                # train and save an adapter instead of all weights
  rank = 16
  alpha = 32";

/// Shown under the options of `reward-model`.
pub const REWARD_MODEL: &str = "\
A recipe:
  model = \"models/starter\"                          # a policy, or a reward model to train further
  pairs = \"data/reward_model.jsonl\"                 # from `flopsmith dataset split`
  validation = \"data/reward_model_evaluation.jsonl\" # may be left out
  chat = false                                      # true if prompts are messages to a chat model
  checkpoint_every = 100                            # updates
  dtype = \"float32\"                                 # or bfloat16, auto
  [reward_model]                                    # this table may be left out
  learning_rate = 1e-4
  batch = 64
  margin_cap = 3.0
  [reward_model.lora]                               # train and save an adapter instead of all weights
  rank = 16
  alpha = 32

Exit codes: 0 done, 2 wrong usage, 3 it could not continue, 130 interrupted (`--resume` continues).";

/// Shown under the options of `dpa`.
pub const DPA: &str = "\
A recipe:
  model = \"models/sft\"                     # the policy to align; its present weights are the reference
  pairs = \"data/dpa.jsonl\"                 # from `flopsmith dataset split`
  validation = \"data/dpa_evaluation.jsonl\" # may be left out
  chat = false                             # true if prompts are messages to a chat model
  checkpoint_every = 100                   # updates
  dtype = \"float32\"                        # or bfloat16, auto
  [dpa]                                    # this table may be left out
  learning_rate = 1e-5
  beta = 0.6
  [dpa.lora]                               # train and save an adapter instead of all weights
  rank = 16
  alpha = 32

Exit codes: 0 done, 2 wrong usage, 3 it could not continue, 130 interrupted (`--resume` continues).";

/// Shown under the options of `rlpf`.
pub const RLPF: &str = "\
A recipe:
  model = \"models/sft\"          # the policy; its present weights are the reference
  exercises = \"data/rl.jsonl\"   # from `flopsmith dataset split`
  validation = \"data/rl_evaluation.jsonl\" # answered before and after, never trained on; may be left out
  reward_model = \"models/reward\" # for exercises without `median_s` (no tests, or none right); else may be left out
  chat = false                  # true if prompts are messages to a chat model
  seed = 1
  steps = 100
  prompts = 4                   # exercises in a step
  samples = 4                   # answers to each
  turns = 1                     # answers of a conversation; the model is told the result of each but the last
  returns = \"discounted\"        # or first_and_best: each turn is worth `first` of the first and the rest of the best
  discount = 0.4                # share of a turn's value that the turn before it gets
  first = 0.75
  temperature = 1.0
  max_tokens = 320
  fruitless_steps_limit = 20    # end after so many steps in a row without a correct program; 0 never ends it
  checkpoint_every = 10         # steps
  dtype = \"float32\"             # or bfloat16, auto
  [ppo]                         # this table may be left out
  learning_rate = 1e-4
  schedule = \"constant\"         # or cosine, which falls to a tenth
  kl = { type = \"adaptive\", start = 0.1, target = 6.0, horizon = 10000.0 }
  [ppo.lora]                    # train and save an adapter instead of all weights
  rank = 16
  alpha = 32

Exit codes: 0 done, 1 no program was correct, or none any more at the end, 2 wrong usage, 3 it could not continue,
130 interrupted (`--resume` continues).";

/// `flopsmith sft`.
#[derive(Debug, ClapArgs)]
pub struct Sft {
    /// Recipe, e.g. models/starter/recipe.toml.
    pub recipe: PathBuf,
    /// Write the model into this folder; into the recipe's folder when left out.
    #[arg(long, short)]
    pub output: Option<PathBuf>,
    /// Continue from the newest checkpoint in the folder, with the same recipe. Recipes with files of examples and
    /// with [nests] write checkpoints.
    #[arg(long)]
    pub resume: bool,
    /// Print the result in this format.
    #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
    pub format: Format,
}

/// `flopsmith reward-model` and `flopsmith dpa`, and the beginning of `flopsmith rlpf`.
#[derive(Debug, ClapArgs)]
pub struct Learn {
    /// Recipe. Paths in it are relative to the current folder, or else to the recipe's folder.
    pub recipe: PathBuf,
    /// Write the model into this folder, which holds checkpoints until then.
    #[arg(long, short)]
    pub output: PathBuf,
    /// Continue from the newest checkpoint in the folder, with the same recipe.
    #[arg(long)]
    pub resume: bool,
    /// Run programs even where the jail gives less than its full protection.
    #[arg(long, env = "FLOPSMITH_ALLOW_WEAKER_JAIL", value_parser = clap::builder::BoolishValueParser::new())]
    pub allow_weaker_jail: bool,
    /// Print the result in this format.
    #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
    pub format: Format,
}

/// `flopsmith rlpf`.
#[derive(Debug, ClapArgs)]
pub struct Rlpf {
    /// The arguments of every training on files.
    #[command(flatten)]
    pub learn: Learn,
    /// The cluster.
    #[command(flatten)]
    pub farm: OnFarm,
}

impl Sft {
    /// The request in the words of the library.
    pub fn order(&self) -> Order<'_> {
        Order {
            recipe: &self.recipe,
            output: self.output.as_deref(),
            resume: self.resume,
            allow_weaker_jail: false,
            farm: None,
            json: self.format == Format::Json,
            stopped: None,
        }
    }
}

impl Learn {
    /// The request in the words of the library.
    pub fn order(&self) -> Order<'_> {
        Order {
            recipe: &self.recipe,
            output: Some(&self.output),
            resume: self.resume,
            allow_weaker_jail: self.allow_weaker_jail,
            farm: None,
            json: self.format == Format::Json,
            stopped: None,
        }
    }
}
