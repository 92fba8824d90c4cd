//! The arguments of `flopsmith dead`.

use clap::{Args as ClapArgs, Subcommand};

use super::{Format, Place};

/// What to type.
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
    /// List them: number, age, queue, what they were about, and why they are there
    List {
        /// Where to look.
        #[command(flatten)]
        bus: Where,
        /// How the list is printed.
        #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
        format: Format,
    },
    /// Show one with its message
    Show {
        /// Its number.
        number: u64,
        /// Where to look.
        #[command(flatten)]
        bus: Where,
        /// How it is printed.
        #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
        format: Format,
    },
    /// Give messages out again, once what was in their way is mended
    ///
    /// Each goes back to its queue with no failure to its name, and leaves the dead letters when it is stored there. A run that has given a program up
    /// meanwhile keeps that decision: a second outcome of it changes nothing.
    Retry {
        /// Their numbers.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        numbers: Vec<u64>,
        /// All that `list` lists.
        #[arg(long)]
        all: bool,
        /// Where to look.
        #[command(flatten)]
        bus: Where,
    },
}

impl Dead {
    /// Is JSON wanted?
    pub fn format(&self) -> Option<Format> {
        match self {
            Dead::List { format, .. } | Dead::Show { format, .. } => Some(*format),
            Dead::Retry { .. } => None,
        }
    }
}

/// Whose dead letters.
#[derive(Debug, ClapArgs)]
pub struct Where {
    /// The NATS server of a cluster; without it a run is looked at, whose own server is started for that long.
    #[arg(
        long,
        value_name = "URL",
        env = "FLOPSMITH_NATS",
        hide_env_values = true,
        conflicts_with = "run"
    )]
    pub nats: Option<String>,
    /// A run that is stopped, by name or folder; the newest when left out.
    #[arg(long)]
    pub run: Option<String>,
    /// Only those of this queue.
    #[arg(long, value_name = "SUBJECT")]
    pub queue: Option<String>,
    /// Where runs lie.
    #[command(flatten)]
    pub place: Place,
}
