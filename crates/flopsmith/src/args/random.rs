//! The arguments of `flopsmith problem random`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::{Format, LARGEST_SEED};

/// Shown under the options.
pub const EXAMPLES: &str = "\
Example:
  flopsmith problem random nests --seed 100 --count 20
writes the problems nests/random_100 to nests/random_119. Then
  flopsmith problem check nests/random_100
  FLOPSMITH_PROBLEMS=nests flopsmith eval schedule --suite random
use one of them by its folder, and all of them by their suite.

Exit codes: 0 all problems were written, 2 wrong usage.";

/// `flopsmith problem random`.
#[derive(Debug, ClapArgs)]
pub struct RandomNests {
    /// The folder that gets a folder for each problem; it must be empty or not exist yet.
    pub folder: PathBuf,
    /// Seed of the first problem. Each further problem has the next number.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(..=LARGEST_SEED))]
    pub seed: u64,
    /// Make this many problems.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub count: u64,
    /// Print the names of the problems in this format.
    #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
    pub format: Format,
}
