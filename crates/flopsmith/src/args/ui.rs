//! Arguments of `flopsmith ui`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::Place;

/// Shown under the options.
pub const EXAMPLES: &str = "\
Examples:
  flopsmith ui
  flopsmith ui --runs /data/runs --listen 127.0.0.1:9000
  flopsmith ui --nats nats://broker:4222
  FLOPSMITH_SERVE_TOKEN=$(openssl rand -hex 32) flopsmith ui --listen 0.0.0.0:8766

The window prints its address as the first line of stdout; open it in a browser. It changes
nothing in a run but for its own index, files called ui-*.index and ui-*.names.

With a token a browser asks for a name and a password: the password is the token.

Exit codes: 0 it was closed on request, 2 wrong usage, 3 this machine cannot show it.";

/// Arguments of `ui`.
#[derive(Debug, ClapArgs)]
pub struct Ui {
    /// Listen at this address. Port 0 takes a free port. At an address that other machines can reach, requests need a
    /// token: set FLOPSMITH_SERVE_TOKEN, or name a file with --token-file.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8766",
        env = "FLOPSMITH_LISTEN"
    )]
    pub listen: SocketAddr,
    /// Read the token that requests need from this file. The variable FLOPSMITH_SERVE_TOKEN can hold the token instead.
    #[arg(long, value_name = "FILE", env = "FLOPSMITH_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// Show the state of the cluster of this NATS server on a page of its own, as `flopsmith top` prints it. Separate
    /// several servers by commas.
    #[arg(
        long,
        value_name = "URL",
        env = "FLOPSMITH_NATS",
        hide_env_values = true
    )]
    pub nats: Option<String>,
    /// The folder of runs.
    #[command(flatten)]
    pub place: Place,
}
