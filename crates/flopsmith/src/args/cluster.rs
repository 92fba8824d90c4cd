//! Arguments of `flopsmith cluster`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::Format;

/// Shown under the options.
pub const EXAMPLES: &str = "\
Examples:
  flopsmith cluster init --nats nats://broker:4222 --copies 3 --keep-logs 30d
  flopsmith cluster key timer7.nk --roles timer --class zen5 >> users.conf
  flopsmith cluster stop dgemm-20260501-120000 --nats nats://broker:4222
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
        /// For how long each server remembers the names of messages, so that none is stored twice, e.g. 20m. Some 100 bytes a message of
        /// its memory; a run that is resumed later does the step again that it was in.
        #[arg(long, value_name = "TIME", default_value = "2h")]
        remember: String,
    },
    /// Make a key for a node, and print what the NATS server is to be told of it
    ///
    /// What is printed is an entry of `authorization { users: [ … ] }` in the server's configuration: the key's public half, and what
    /// its roles may say and hear on the bus. The secret half stays in FILE; the node is told where that is by FLOPSMITH_NATS_NKEY.
    Key {
        /// Where the key's secret half is kept. It must not be there yet.
        file: PathBuf,
        /// What its holder does.
        #[arg(long, value_name = "LIST", value_delimiter = ',', required = true)]
        roles: Vec<Holder>,
        /// The machine class of a compiler, verifier or timer.
        #[arg(
            long,
            value_name = "NAME",
            default_value = "local",
            env = "FLOPSMITH_MACHINE_CLASS"
        )]
        class: String,
    },
    /// End a run that nodes of the cluster go on with
    ///
    /// They forget it, as after its end: what of its work is in the queues comes to nothing. Its folder stays as it is.
    Stop {
        /// The run's name.
        run: String,
        /// Which bus.
        #[command(flatten)]
        bus: Where,
    },
    /// Ask a worker on this machine whether it is ready, for probes of containers
    ///
    /// Exit codes: 0 it is, 3 it is not, or nobody answers.
    Ready {
        /// Where it listens (its --listen).
        #[arg(
            long,
            value_name = "ADDRESS",
            default_value = "127.0.0.1:9100",
            env = "FLOPSMITH_LISTEN"
        )]
        listen: std::net::SocketAddr,
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

/// Who may hold a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Holder {
    /// A node that compiles.
    Compiler,
    /// A node that verifies.
    Verifier,
    /// A node that times.
    Timer,
    /// A node that decides what runs try next.
    Archive,
    /// A node that writes programs.
    Generator,
    /// A node that trains.
    Learner,
    /// Who starts runs and follows them.
    Client,
    /// Who sets up the bus: may do everything.
    Admin,
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
