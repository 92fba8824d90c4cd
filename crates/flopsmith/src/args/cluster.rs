//! Arguments of `flopsmith cluster`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use flopsmith_run::permissions::Holder;

use super::Format;

/// Shown under the options.
pub const EXAMPLES: &str = "\
Examples:
  flopsmith cluster init --nats nats://broker:4222 --copies 3 --keep-logs 30d
  flopsmith cluster key timer7.nk --roles timer --class zen5 >> users.conf
  flopsmith cluster stop dgemm-20260501-120000 --nats nats://broker:4222
  flopsmith cluster check --nats nats://broker:4222 --store s3://bucket/flopsmith";

/// The subcommands of `flopsmith cluster`.
#[derive(Debug, Subcommand)]
pub enum Cluster {
    /// Set up a bus that nodes share, or change its setup
    ///
    /// The command creates the streams and buckets that runs and workers use. A repeated call sets all options again:
    /// an option that is left out gets its default. The first run on a server also sets the server up, with one copy of
    /// everything.
    Init {
        /// The bus.
        #[command(flatten)]
        bus: Where,
        /// Keep everything on this many servers: 1 for a single server, 3 so that the loss of one server loses nothing.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5))]
        copies: u8,
        /// Drop outcomes, rollouts, events and dead letters after this time, e.g. 30d; without it they are kept. Older
        /// runs can then not be resumed.
        #[arg(long, value_name = "TIME")]
        keep_logs: Option<String>,
        /// Have each server remember the names of messages for this time, e.g. 20m, so that it stores no message twice.
        /// A name takes some 100 bytes of the server's memory. A run that is resumed after this time repeats the step
        /// that it was in.
        #[arg(long, value_name = "TIME", default_value = "2h")]
        remember: String,
    },
    /// Make a key for a node, and print the entry for the NATS server's configuration
    ///
    /// The output is an entry of `authorization { users: [ … ] }` in the server's configuration: the key's public half,
    /// and the subjects on which its roles may publish and subscribe. The secret half stays in FILE.
    /// FLOPSMITH_NATS_NKEY names this file for the node.
    Key {
        /// Write the key's secret half to this file; the file must not exist yet.
        file: PathBuf,
        /// Roles of the key's holder.
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
    /// End a run that nodes of the cluster work on
    ///
    /// The nodes drop the run, as after its end. The command drops the run's work from the queues, so this work gets no
    /// outcome. The run's folder stays as it is.
    Stop {
        /// The run's name.
        run: String,
        /// The bus.
        #[command(flatten)]
        bus: Where,
    },
    /// Ask a worker on this machine whether it is ready, for probes of containers
    ///
    /// Exit codes: 0 ready, 3 not ready or no answer.
    Ready {
        /// Ask the worker at this address (its --listen).
        #[arg(
            long,
            value_name = "ADDRESS",
            default_value = "127.0.0.1:9100",
            env = "FLOPSMITH_LISTEN"
        )]
        listen: std::net::SocketAddr,
    },
    /// List what is on a bus, and check whether a store can be used
    Check {
        /// The bus.
        #[command(flatten)]
        bus: Where,
        /// Check this artifact store: write, read, list and remove a small file in it.
        #[arg(long, value_name = "PLACE", env = "FLOPSMITH_STORE")]
        store: Option<String>,
        /// Print the result in this format.
        #[arg(long, value_enum, default_value_t = Format::Text, env = "FLOPSMITH_FORMAT")]
        format: Format,
    },
}

/// A bus.
#[derive(Debug, ClapArgs)]
pub struct Where {
    /// The NATS server, e.g. nats://broker:4222. Separate several servers by commas.
    #[arg(
        long,
        value_name = "URL",
        env = "FLOPSMITH_NATS",
        hide_env_values = true
    )]
    pub nats: String,
}
