//! Arguments of `flopsmith store`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::{Format, cluster::Where};

/// Shown under the options.
pub const EXAMPLES: &str = "\
Examples:
  flopsmith store gc --nats nats://broker:4222 --store s3://bucket/flopsmith --dry-run
  flopsmith store gc --nats nats://broker:4222 --store s3://bucket/flopsmith --older 7d --runs runs/";

/// The subcommands of `flopsmith store`.
#[derive(Debug, Subcommand)]
pub enum Store {
    /// Remove artifacts that nothing refers to any more, and old checkpoints of runs that are over
    ///
    /// An artifact stays if a message or record on the bus, or a line of a run under --runs, contains its digest. A
    /// young artifact stays as well, because a reference to it may be on its way. Of runs that are over, the newest
    /// three checkpoints of each role stay.
    Gc(Collect),
}

/// `flopsmith store gc`.
#[derive(Debug, ClapArgs)]
pub struct Collect {
    /// The bus of all runs that use the store.
    #[command(flatten)]
    pub bus: Where,
    /// The artifact store of a cluster.
    #[arg(long, value_name = "PLACE", env = "FLOPSMITH_STORE")]
    pub store: String,
    /// Keep the artifacts that records in this folder of runs refer to, too; may be repeated.
    #[arg(long, value_name = "DIR")]
    pub runs: Vec<PathBuf>,
    /// Remove only artifacts that are older than this time, e.g. 12h or 7d; at least an hour.
    #[arg(long, value_name = "TIME", default_value = "24h")]
    pub older: String,
    /// Remove artifacts even if nothing on the bus refers to anything in the store, as on a new bus.
    #[arg(long)]
    pub all: bool,
    /// List the artifacts that would be removed, and remove nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print the result in this format.
    #[arg(long, value_enum, default_value_t = Format::Text, env = "FLOPSMITH_FORMAT")]
    pub format: Format,
}
