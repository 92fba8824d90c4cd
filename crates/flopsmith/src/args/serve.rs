//! Arguments of `flopsmith serve` and `flopsmith mcp`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use clap::builder::BoolishValueParser;
use flopsmith_run::durations;

use super::{OnFarm, Waiting};

/// Shown under the options.
pub const EXAMPLES: &str = "\
Examples:
  flopsmith serve
  flopsmith serve --folder scores --reward examples/dgemm.toml
  FLOPSMITH_SERVE_TOKEN=$(openssl rand -hex 32) flopsmith serve --listen 0.0.0.0:8765
  flopsmith serve --cluster --nats nats://broker:4222 --store /mnt/store
  curl -sN http://127.0.0.1:8765/v1/evaluate -H 'Content-Type: application/json' \\
    -d '{\"candidates\": [{\"problem\": \"dgemm\", \"source\": \"...\"}]}'

The service prints its address as the first line of stdout. GET /v1/openapi.json describes
all routes. Programs are evaluated one after the other; so are those of several requests.
With --cluster the workers of a cluster evaluate them, many at a time, and this machine
needs neither a compiler nor a jail; --wait and --allow-weaker-jail then have no effect.
Agents reach the same tools as those of `flopsmith mcp` at /mcp.

After SIGTERM or Ctrl-C the service finishes the current evaluation. Jobs and results are in
its folder: a service that is started again, or was killed, goes on with its jobs.

Exit codes: 0 it stopped on request, 2 wrong usage, 3 this machine cannot evaluate programs.";

/// Shown under the options of `mcp`.
pub const MCP_EXAMPLES: &str = "\
Examples:
  flopsmith mcp
  flopsmith mcp --max-evaluations 200 --max-seconds 30m
  claude mcp add flopsmith -- flopsmith mcp --max-evaluations 200

An agent starts this command and speaks the Model Context Protocol with it, a message a
line. Only messages go to stdout; logs go to stderr. Tools: evaluate, compare,
explain_refusal, problem, problems, best_programs, roofline, explain_build.

The command has the same folder as `flopsmith serve`, and one process uses a folder at a
time. For several agents start `flopsmith serve`, and let them connect to
http://127.0.0.1:8765/mcp.

Exit codes: 0 the input ended or it stopped on request, 2 wrong usage, 3 this machine
cannot evaluate programs.";

/// The options of every service.
#[derive(Debug, ClapArgs)]
pub struct Evaluating {
    /// Keep jobs, results and references in this folder; flopsmith/serve in XDG_DATA_HOME or ~/.local/share without it.
    #[arg(long, value_name = "DIR", env = "FLOPSMITH_FOLDER")]
    pub folder: Option<PathBuf>,
    /// Score programs by the [reward] table of this configuration of a run, e.g. examples/dgemm.toml; by the default
    /// table without it.
    #[arg(long, value_name = "FILE", env = "FLOPSMITH_REWARD")]
    pub reward: Option<PathBuf>,
    /// Compile with this C compiler: gcc, clang or a path. Programs in C++ and Fortran are built with the other
    /// compilers of its family.
    #[arg(long, default_value = "gcc", env = "FLOPSMITH_COMPILER")]
    pub compiler: String,
    /// Time programs with this number of threads.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub threads: u32,
    /// Check programs of the purpose `rank` with sanitizers, too. Those of the purpose `certify` are always checked.
    #[arg(long, env = "FLOPSMITH_SANITIZE", value_parser = BoolishValueParser::new())]
    pub sanitize: bool,
    /// The wait for a quiet machine, before a certification and while the machine is slower than before.
    #[command(flatten)]
    pub wait: Waiting,
    /// Measure reference and peak of a problem again when they are older than this, e.g. 12h. Until then all numbers
    /// and rewards of the problem refer to one measurement, also after a restart. One of a busy machine, or an imprecise
    /// one, is measured again after 5 minutes, and at growing intervals until there is a better one.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1d",
        allow_negative_numbers = true,
        env = "FLOPSMITH_REFRESH"
    )]
    pub refresh: String,
    /// Remove finished jobs and results from the folder after this time.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "7d",
        allow_negative_numbers = true,
        env = "FLOPSMITH_KEEP_JOBS"
    )]
    pub keep_jobs: String,
    /// Run the programs even where the jail gives less than its full protection.
    #[arg(long, env = "FLOPSMITH_ALLOW_WEAKER_JAIL", value_parser = BoolishValueParser::new())]
    pub allow_weaker_jail: bool,
    /// The cluster whose workers evaluate the programs.
    #[command(flatten)]
    pub farm: OnFarm,
    /// The budget of agents.
    #[command(flatten)]
    pub budget: Budget,
}

/// The budget of agents.
#[derive(Debug, ClapArgs)]
pub struct Budget {
    /// Evaluate at most this many programs for agents, over all their calls of tools; without it there is no limit. Programs
    /// that were evaluated before do not count. Over HTTP each token has its own number.
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        env = "FLOPSMITH_MAX_EVALUATIONS"
    )]
    max_evaluations: Option<u64>,
    /// Evaluate programs for agents for at most this time in all, e.g. 30m (a bare number is seconds); without it there is no
    /// limit. A call that is not expected to fit is refused. Over HTTP each token has its own time.
    #[arg(
        long,
        value_name = "TIME",
        allow_negative_numbers = true,
        env = "FLOPSMITH_MAX_SECONDS"
    )]
    max_seconds: Option<String>,
}

impl Budget {
    /// Number of programs; none without a limit.
    pub fn evaluations(&self) -> Option<u64> {
        self.max_evaluations
    }

    /// Time of evaluations; none without a limit.
    ///
    /// # Errors
    /// Wrong usage, if a time cannot be read.
    pub fn time(&self) -> Result<Option<Duration>> {
        let time = self.max_seconds.as_deref().map(durations::time);
        time.transpose()
            .context("--max-seconds (or FLOPSMITH_MAX_SECONDS) cannot be read")
    }
}

/// Arguments of `serve`.
#[derive(Debug, ClapArgs)]
pub struct Serve {
    /// Listen at this address. Port 0 takes a free port. At an address that other machines can reach, requests need a
    /// bearer token: set FLOPSMITH_SERVE_TOKEN, or name a file with --token-file.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8765",
        env = "FLOPSMITH_LISTEN"
    )]
    pub listen: SocketAddr,
    /// Read the token that requests need from this file, or several, one a line, each with a quota (`TOKEN 500/day`) or without.
    /// FLOPSMITH_SERVE_TOKEN can hold them instead. With a token, only GET /v1/health and GET /health need none, also on loopback.
    #[arg(long, value_name = "FILE", env = "FLOPSMITH_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// The options of every service.
    #[command(flatten)]
    pub evaluating: Evaluating,
    /// Refuse requests whose body is longer than this many bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 16_777_216, allow_negative_numbers = true, env = "FLOPSMITH_MAX_BODY", value_parser = clap::value_parser!(u32).range(1024..=1_073_741_824))]
    pub max_body: u32,
    /// Refuse requests while more programs than this wait.
    #[arg(long, value_name = "N", default_value_t = 10_000, allow_negative_numbers = true, env = "FLOPSMITH_MAX_WAITING", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_waiting: u32,
}

/// Arguments of `mcp`.
#[derive(Debug, ClapArgs)]
pub struct Mcp {
    /// Refuse messages that are longer than this many bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 16_777_216, allow_negative_numbers = true, env = "FLOPSMITH_MAX_MESSAGE", value_parser = clap::value_parser!(u32).range(1024..=1_073_741_824))]
    pub max_message: u32,
    /// The options of every service.
    #[command(flatten)]
    pub evaluating: Evaluating,
}
