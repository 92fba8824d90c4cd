//! Arguments of `flopsmith store`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::{Format, cluster::Where};

/// Shown under the options.
pub const EXAMPLES: &str = "\
Examples:
  flopsmith store gc --nats nats://broker:4222 --store s3://bucket/flopsmith --dry-run
  flopsmith store gc --nats nats://broker:4222 --store s3://bucket/flopsmith --older 7d --runs runs/";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Store {
    /// Remove artifacts that nothing refers to any more, and old checkpoints of runs that are over
    ///
    /// An artifact stays where any message or record on the bus, or any line of a run under --runs, has its digest, and while it is
    /// young: what refers to it may be on its way. Of runs that are over the newest three checkpoints of each role stay.
    Gc(Collect),
}

/// `flopsmith store gc`.
#[derive(Debug, ClapArgs)]
pub struct Collect {
    /// Which bus: that of all runs that use the store.
    #[command(flatten)]
    pub bus: Where,
    /// The artifact store of a cluster.
    #[arg(long, value_name = "PLACE", env = "FLOPSMITH_STORE")]
    pub store: String,
    /// A folder of runs whose records refer to artifacts as well; may be repeated.
    #[arg(long, value_name = "DIR")]
    pub runs: Vec<PathBuf>,
    /// Only what was written before this time, e.g. 12h or 7d; at least an hour.
    #[arg(long, value_name = "TIME", default_value = "24h")]
    pub older: String,
    /// Go on also where nothing on the bus refers to anything in the store, as on a bus that is new.
    #[arg(long)]
    pub all: bool,
    /// Say what would be removed, and remove nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = Format::Text, env = "FLOPSMITH_FORMAT")]
    pub format: Format,
}
