//! Arguments of `flopsmith worker`.

use clap::Args as ClapArgs;

use crate::worker::Duty;

/// Shown under the options.
pub const EXAMPLES: &str = "\
Examples:
  flopsmith worker --nats nats://broker:4222 --store s3://flopsmith/artifacts
  flopsmith worker --roles compiler,verifier --nats nats://broker:4222 --store /shared/artifacts
  flopsmith search --problem dgemm --set nats=nats://broker:4222 --set store=/shared/artifacts

A worker takes work of all runs on the bus that ask for its machine class. SIGTERM or Ctrl-C lets it finish what it has in hand and
give back the rest.";

/// Arguments of `worker`.
#[derive(Debug, ClapArgs)]
pub struct Worker {
    /// The NATS server, e.g. nats://broker:4222; several separated by commas.
    #[arg(
        long,
        value_name = "URL",
        env = "FLOPSMITH_NATS",
        hide_env_values = true
    )]
    pub nats: String,
    /// The artifact store of the runs: a folder that all nodes see, or a URL (`s3://bucket/prefix`).
    #[arg(long, value_name = "PLACE", env = "FLOPSMITH_STORE")]
    pub store: String,
    /// What it does. A timer wants cores that nobody else uses.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "compiler,verifier,timer",
        env = "FLOPSMITH_ROLES"
    )]
    pub roles: Vec<Duty>,
    /// The machines whose timings are comparable with this one's; runs name it as `machine_class`.
    #[arg(
        long = "class",
        value_name = "NAME",
        default_value = "local",
        env = "FLOPSMITH_MACHINE_CLASS"
    )]
    pub class: String,
    /// Its name in outcomes and logs; host name and process number when left out.
    #[arg(long, value_name = "NAME", env = "FLOPSMITH_NODE")]
    pub node: Option<String>,
    /// Answer over HTTP at this address, e.g. 127.0.0.1:9100: /metrics for Prometheus, /live and /ready for probes. Port 0 takes
    /// a free one.
    #[arg(long, value_name = "ADDRESS", env = "FLOPSMITH_LISTEN")]
    pub listen: Option<std::net::SocketAddr>,
    /// How long it may finish what it has in hand once it is told to stop, e.g. 25s.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "25s",
        env = "FLOPSMITH_GRACE"
    )]
    pub grace: String,
    /// Run untrusted programs even where the jail gives less than its full protection; no run can ask for that.
    #[arg(long, env = "FLOPSMITH_ALLOW_WEAKER_JAIL", value_parser = clap::builder::BoolishValueParser::new())]
    pub allow_weaker_jail: bool,
}
