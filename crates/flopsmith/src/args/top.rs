//! Arguments of `flopsmith top`.

use clap::Args as ClapArgs;

use super::{Format, cluster::Where};

/// Shown under the options.
pub const EXAMPLES: &str = "\
Examples:
  flopsmith top --nats nats://broker:4222
  flopsmith top --nats nats://broker:4222 --once --format json

Nodes are found in the outcomes of programs: `top` reads the newest 4000 outcomes.
Ctrl-C ends the command.";

/// `flopsmith top`.
#[derive(Debug, ClapArgs)]
pub struct Top {
    /// The bus.
    #[command(flatten)]
    pub bus: Where,
    /// Refresh after this time, e.g. 2s.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "2s",
        allow_negative_numbers = true
    )]
    pub every: String,
    /// Print the state once and end, as always if stdout is no terminal. Rates are those of the last minute.
    #[arg(long)]
    pub once: bool,
    /// Print text for people, or one JSON object (implies --once).
    #[arg(long, value_enum, default_value_t = Format::Text, env = "FLOPSMITH_FORMAT")]
    pub format: Format,
}
