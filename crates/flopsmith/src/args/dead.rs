//! The arguments of `flopsmith dead`.

use clap::{Args as ClapArgs, Subcommand};

use super::{Format, Place};

/// Shown under the options.
pub const EXAMPLES: &str = "\
Examples:
  flopsmith dead list                            the newest run here
  flopsmith dead list --run dgemm-2 --format json
  flopsmith dead show 3 --nats nats://bus:4222
  flopsmith dead retry 3 4 7
  flopsmith dead retry --all --queue fs.v1.work.compile.local";

/// `flopsmith dead`.
#[derive(Debug, Subcommand)]
pub enum Dead {
    /// List the dead letters: number, time, queue, message and reason
    List {
        /// The bus and the dead letters on it.
        #[command(flatten)]
        bus: Where,
        /// Print the list in this format.
        #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
        format: Format,
    },
    /// Show one dead letter with its message
    Show {
        /// Number of the dead letter, as `list` prints it.
        number: u64,
        /// The bus and the dead letters on it.
        #[command(flatten)]
        bus: Where,
        /// Print the dead letter in this format.
        #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
        format: Format,
    },
    /// Redeliver dead letters after you removed the cause of their failure
    ///
    /// Each message returns to its queue with no failure counted, and leaves the dead letters once the queue has stored
    /// it. If a run has given up a program in the meantime, this decision stays: a second outcome of the program
    /// changes nothing.
    Retry {
        /// Numbers of the dead letters, as `list` prints them.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        numbers: Vec<u64>,
        /// Redeliver all that `list` lists.
        #[arg(long)]
        all: bool,
        /// The bus and the dead letters on it.
        #[command(flatten)]
        bus: Where,
    },
}

/// The bus and the dead letters on it.
#[derive(Debug, ClapArgs)]
pub struct Where {
    /// The NATS server of a cluster. Without it the command opens a run of this machine, and starts the run's own
    /// server while it works.
    #[arg(
        long,
        value_name = "URL",
        env = "FLOPSMITH_NATS",
        hide_env_values = true,
        conflicts_with = "run"
    )]
    pub nats: Option<String>,
    /// A stopped run, by name or folder; the newest when left out.
    #[arg(long)]
    pub run: Option<String>,
    /// Only dead letters of this queue.
    #[arg(long, value_name = "SUBJECT")]
    pub queue: Option<String>,
    /// The folder of runs.
    #[command(flatten)]
    pub place: Place,
}
