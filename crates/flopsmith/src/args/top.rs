//! Arguments of `flopsmith top`.

use clap::Args as ClapArgs;

use super::{Format, cluster::Where};

/// Shown under the options.
pub const EXAMPLES: &str = "\
Examples:
  flopsmith top --nats nats://broker:4222
  flopsmith top --nats nats://broker:4222 --once --format json

Nodes are those of whose programs something was heard: the newest thousands of outcomes are looked at.
Ctrl-C ends it.";

/// `flopsmith top`.
#[derive(Debug, ClapArgs)]
pub struct Top {
    /// Which bus.
    #[command(flatten)]
    pub bus: Where,
    /// Between two looks, e.g. 2s.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "2s",
        allow_negative_numbers = true
    )]
    pub every: String,
    /// Look once and end, as is done where stdout is no terminal. Rates are those of the minute before.
    #[arg(long)]
    pub once: bool,
    /// How it is printed: for people, or as one JSON object (with --once).
    #[arg(long, value_enum, default_value_t = Format::Text, env = "FLOPSMITH_FORMAT")]
    pub format: Format,
}
