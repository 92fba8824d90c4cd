//! Arguments of `flopsmith worker`.

use clap::Args as ClapArgs;
use flopsmith_run::worker::Duty;

use super::cluster::Where;

/// Shown under the options.
pub const EXAMPLES: &str = "\
Examples:
  flopsmith worker --nats nats://broker:4222 --store s3://flopsmith/artifacts
  flopsmith worker --roles compiler,verifier --nats nats://broker:4222 --store /shared/artifacts
  flopsmith worker --roles archive,generator,learner --nats nats://broker:4222 --store /shared/artifacts
  flopsmith train examples/dgemm.toml --cluster --nats nats://broker:4222 --store /shared/artifacts

A worker takes work of all runs on the bus that ask for its machine class. It takes the roles archive, generator
and learner for runs that leave them to nodes (`--cluster`, or the setting `hosted`). A run has one archive and
one learner at a time: of several workers with such a role, one holds its lease, and the others wait until that
one is gone. Several generators share the tasks of a run. After SIGTERM or Ctrl-C a worker finishes its current
work and gives back the rest.";

/// Arguments of `worker`.
#[derive(Debug, ClapArgs)]
pub struct Worker {
    /// The bus.
    #[command(flatten)]
    pub bus: Where,
    /// The artifact store of the runs: a folder that all nodes see, or a URL (`s3://bucket/prefix`).
    #[arg(long, value_name = "PLACE", env = "FLOPSMITH_STORE")]
    pub store: String,
    /// Take these roles: compiler, verifier, timer, archive, generator, learner. A timer needs cores that no other
    /// process uses.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "compiler,verifier,timer",
        env = "FLOPSMITH_ROLES"
    )]
    pub roles: Vec<Duty>,
    /// Machine class of this worker: the name of machines whose timings are comparable. Runs name it as
    /// `machine_class`.
    #[arg(
        long = "class",
        value_name = "NAME",
        default_value = "local",
        env = "FLOPSMITH_MACHINE_CLASS"
    )]
    pub class: String,
    /// Take programs for modules of PyTorch, too, which services on a cluster send. Needs Python with PyTorch.
    #[arg(long)]
    pub modules: bool,
    /// Name of this worker in outcomes and logs; host name and process number when left out.
    #[arg(long, value_name = "NAME", env = "FLOPSMITH_NODE")]
    pub node: Option<String>,
    /// Answer over HTTP at this address, e.g. 127.0.0.1:9100: /metrics for Prometheus, /live and /ready for probes.
    /// Port 0 takes a free port.
    #[arg(long, value_name = "ADDRESS", env = "FLOPSMITH_LISTEN")]
    pub listen: Option<std::net::SocketAddr>,
    /// After a request to stop, finish current work for at most this time, e.g. 25s.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "25s",
        env = "FLOPSMITH_GRACE"
    )]
    pub grace: String,
    /// Reserve this many cores for this worker, if several workers share a machine; all cores that the process may use
    /// when left out. If fewer are free, the worker shares cores and says so.
    #[arg(long, value_name = "N", env = "FLOPSMITH_CORES", value_parser = clap::value_parser!(u16).range(1..))]
    pub cores: Option<u16>,
    /// Folder that all workers of the machine see. Workers with --cores record the owner of each core in it.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/tmp/flopsmith-cores",
        env = "FLOPSMITH_CLAIMS"
    )]
    pub claims: std::path::PathBuf,
    /// Run untrusted programs even where the jail gives less than its full protection; no run can ask for this.
    #[arg(long, env = "FLOPSMITH_ALLOW_WEAKER_JAIL", value_parser = clap::builder::BoolishValueParser::new())]
    pub allow_weaker_jail: bool,
}
