//! Arguments of the commands that train on files: `sft`, `reward-model`, `dpa`, `rlpf`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::Format;

/// Shown under the options of `sft`.
pub const SFT: &str = "\
A recipe trains on programs of the schedule space, as models/starter/recipe.toml does, or on files of examples:
  model = \"models/starter\"
  examples = \"data/sft.jsonl\"               # {\"prompt\": …, \"answer\": …} a line, of `flopsmith dataset split`
  validation = \"data/sft_evaluation.jsonl\" # may be left out
  chat = false                              # are prompts messages to a chat model?
  checkpoint_every = 100                    # updates
  dtype = \"float32\"                         # or bfloat16, auto
  [sft]                                     # all of it may be left out
  learning_rate = 1e-4
  [sft.lora]                                # an adapter is trained and saved, instead of all weights
  rank = 16
  alpha = 32";

/// Shown under the options of `reward-model`.
pub const REWARD_MODEL: &str = "\
A recipe:
  model = \"models/starter\"                          # a policy, or a reward model to go on with
  pairs = \"data/reward_model.jsonl\"                 # of `flopsmith dataset split`
  validation = \"data/reward_model_evaluation.jsonl\" # may be left out
  chat = false                                      # are prompts messages to a chat model?
  checkpoint_every = 100                            # updates
  dtype = \"float32\"                                 # or bfloat16, auto
  [reward_model]                                    # all of it may be left out
  learning_rate = 1e-4
  batch = 64
  margin_cap = 3.0
  [reward_model.lora]                               # an adapter is trained and saved, instead of all weights
  rank = 16
  alpha = 32

Exit codes: 0 it is done, 2 wrong usage, 3 it could not go on, 130 interrupted (`--resume` goes on).";

/// Shown under the options of `dpa`.
pub const DPA: &str = "\
A recipe:
  model = \"models/sft\"                     # the policy to align; as it is now it is the reference
  pairs = \"data/dpa.jsonl\"                 # of `flopsmith dataset split`
  validation = \"data/dpa_evaluation.jsonl\" # may be left out
  chat = false                             # are prompts messages to a chat model?
  checkpoint_every = 100                   # updates
  dtype = \"float32\"                        # or bfloat16, auto
  [dpa]                                    # all of it may be left out
  learning_rate = 1e-5
  beta = 0.6
  [dpa.lora]                               # an adapter is trained and saved, instead of all weights
  rank = 16
  alpha = 32

Exit codes: 0 it is done, 2 wrong usage, 3 it could not go on, 130 interrupted (`--resume` goes on).";

/// Shown under the options of `rlpf`.
pub const RLPF: &str = "\
A recipe:
  model = \"models/sft\"          # the policy; as it is now it is the reference
  exercises = \"data/rl.jsonl\"   # of `flopsmith dataset split`
  reward_model = \"models/reward\" # for exercises without `median_s` (no tests, or nothing right); may be left out where there are none
  chat = false                  # are prompts messages to a chat model?
  seed = 1
  steps = 100
  prompts = 4                   # exercises of a step
  samples = 4                   # answers to each
  turns = 1                     # answers of a conversation: each but the last is told what came of it
  returns = \"discounted\"        # or first_and_best: every turn is worth `first` of the first one and the rest of the best one
  discount = 0.4                # share of a turn's worth that goes to the one before it
  first = 0.75
  temperature = 1.0
  max_tokens = 320
  checkpoint_every = 10         # steps
  dtype = \"float32\"             # or bfloat16, auto
  [ppo]                         # all of it may be left out
  learning_rate = 1e-4
  schedule = \"constant\"         # or cosine: falls to a tenth
  kl = { type = \"adaptive\", start = 0.1, target = 6.0, horizon = 10000.0 }
  [ppo.lora]                    # an adapter is trained and saved, instead of all weights
  rank = 16
  alpha = 32

Exit codes: 0 it is done, 2 wrong usage, 3 it could not go on, 130 interrupted (`--resume` goes on).";

/// `flopsmith sft`.
#[derive(Debug, ClapArgs)]
pub struct Sft {
    /// Recipe, e.g. models/starter/recipe.toml.
    pub recipe: PathBuf,
    /// Folder of the model that is made; the recipe's folder when left out.
    #[arg(long, short)]
    pub output: Option<PathBuf>,
    /// Go on from the newest checkpoint in the folder, with the same recipe; for recipes with files of examples, which write some.
    #[arg(long)]
    pub resume: bool,
    /// How the result is printed.
    #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
    pub format: Format,
}

/// `flopsmith reward-model`, `flopsmith dpa` and `flopsmith rlpf`.
#[derive(Debug, ClapArgs)]
pub struct Learn {
    /// Recipe; paths in it count from here, or else from the recipe's folder.
    pub recipe: PathBuf,
    /// Folder of the model that is made; checkpoints lie in it until then.
    #[arg(long, short)]
    pub output: PathBuf,
    /// Go on from the newest checkpoint in the folder, with the same recipe.
    #[arg(long)]
    pub resume: bool,
    /// Run programs even where the jail gives less than its full protection.
    #[arg(long, env = "FLOPSMITH_ALLOW_WEAKER_JAIL", value_parser = clap::builder::BoolishValueParser::new())]
    pub allow_weaker_jail: bool,
    /// How the result is printed.
    #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
    pub format: Format,
}
