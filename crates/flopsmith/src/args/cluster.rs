//! Arguments of `flopsmith cluster`.

use clap::{Args as ClapArgs, Subcommand};

use super::Format;

/// Shown under the options.
pub const EXAMPLES: &str = "\
Examples:
  flopsmith cluster init --nats nats://broker:4222 --copies 3 --keep-logs 30d
  flopsmith cluster check --nats nats://broker:4222 --store s3://bucket/flopsmith";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Cluster {
    /// Set up a bus that nodes share, or change how it is set up
    ///
    /// Makes the streams and buckets that runs and workers use. Done again it changes nothing but what is asked for. A first run on a
    /// server sets it up as well, with one copy of everything.
    Init {
        /// Which bus.
        #[command(flatten)]
        bus: Where,
        /// On how many servers everything is kept: 1 on a single one, 3 where the loss of one must lose nothing.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5))]
        copies: u8,
        /// Drop outcomes, rollouts, events and dead letters after this time, e.g. 30d; without it they are kept. Runs that are older
        /// cannot be resumed then.
        #[arg(long, value_name = "TIME")]
        keep_logs: Option<String>,
    },
    /// Say what is on a bus, and whether a store can be used
    Check {
        /// Which bus.
        #[command(flatten)]
        bus: Where,
        /// The artifact store, in which a small file is written, read, listed and removed.
        #[arg(long, value_name = "PLACE", env = "FLOPSMITH_STORE")]
        store: Option<String>,
        /// How the result is printed.
        #[arg(long, value_enum, default_value_t = Format::Text, env = "FLOPSMITH_FORMAT")]
        format: Format,
    },
}

/// A bus.
#[derive(Debug, ClapArgs)]
pub struct Where {
    /// The NATS server, e.g. nats://broker:4222; several separated by commas.
    #[arg(
        long,
        value_name = "URL",
        env = "FLOPSMITH_NATS",
        hide_env_values = true
    )]
    pub nats: String,
}
