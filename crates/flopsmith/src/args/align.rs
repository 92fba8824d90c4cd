//! The arguments of `flopsmith align`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap::builder::BoolishValueParser;
use flopsmith_alignment::chain::Order;
use flopsmith_run::farm::Ways;

use super::{Format, OnFarm};

/// Shown under the options.
pub const EXAMPLES: &str = "\
Examples:
  flopsmith align examples/performance-alignment.toml
  flopsmith align recipe.toml --output aligned --resume

A recipe names the model, the problems and the settings of the stages, e.g.
  model = \"models/mine\"
  problems = [\"dgemm\", \"dsyrk\"]
  hold_out = [\"stencil3d\"]       # evaluated, never trained on
  [programs]
  draw = 100                     # of the schedule space of each problem
  [sft]
  learning_rate = 1e-4
  [rlpf]
  steps = 40

Exit codes: 0 done, 1 no program of the reinforcement was correct, 2 wrong usage, 3 this machine
could not evaluate at least one answer (--resume tries again) or could not continue, 130
interrupted (--resume continues).";

/// `flopsmith align`.
#[derive(Debug, ClapArgs)]
pub struct Align {
    /// Recipe. Paths in it are relative to the current folder, or else to the recipe's folder.
    pub recipe: PathBuf,
    /// Work in this folder, where each stage has a folder of its own.
    #[arg(long, short, value_name = "DIR", default_value = "alignment")]
    pub output: PathBuf,
    /// Continue in the folder: leave out what is complete, go on with what was interrupted, and repeat the stages whose
    /// settings or inputs have changed, with all stages after them. The earlier results of repeated stages are removed.
    #[arg(long)]
    pub resume: bool,
    /// Run programs even where the jail gives less than its full protection.
    #[arg(long, env = "FLOPSMITH_ALLOW_WEAKER_JAIL", value_parser = BoolishValueParser::new())]
    pub allow_weaker_jail: bool,
    /// The cluster. It measures the programs and the answers of the reinforcement; this machine makes the last evaluation.
    #[command(flatten)]
    pub farm: OnFarm,
    /// Print the comparison in this format.
    #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
    pub format: Format,
}

impl Align {
    /// The request in the words of the library.
    pub fn order<'a>(&'a self, farm: Option<&'a Ways>) -> Order<'a> {
        Order {
            recipe: &self.recipe,
            output: &self.output,
            resume: self.resume,
            allow_weaker_jail: self.allow_weaker_jail,
            farm,
            json: self.format == Format::Json,
        }
    }
}
