//! Arguments of `flopsmith model serve`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use flopsmith_config::Device;
use flopsmith_run::durations;

use super::Dtype;

/// Shown under the options.
pub const EXAMPLES: &str = "\
Examples:
  flopsmith model serve models/starter
  flopsmith model serve models/mine --adapter tuned=runs/NAME/model --dtype auto
  FLOPSMITH_SERVE_TOKEN=$(openssl rand -hex 32) flopsmith model serve models/mine --host 0.0.0.0
  curl -s http://127.0.0.1:8000/v1/completions -H 'Content-Type: application/json' \\
    -d '{\"model\": \"starter\", \"prompt\": \"// dgemm: unroll simd\\n\", \"max_tokens\": 64}'

The service prints its address as the first line of stdout. Requests name a model: the folder's
name (or --name), or that of an adapter. Answers are written together, a token of each at a time;
new ones join while others are written.

After SIGTERM or Ctrl-C the service takes no new requests and ends the answers under way.

Exit codes: 0 it stopped on request, 2 wrong usage, 3 this machine cannot run the model.";

/// Arguments of `model serve`.
#[derive(Debug, ClapArgs)]
pub struct ModelServe {
    /// Folder in Hugging Face layout, or of an adapter.
    pub folder: PathBuf,
    /// Call the model by this name; by the name of its folder when left out.
    #[arg(long)]
    pub name: Option<String>,
    /// Serve this adapter (LoRA, in PEFT's layout) under this name, too; may be repeated. Its tokenizer is that of FOLDER.
    #[arg(long, value_name = "NAME=FOLDER")]
    pub adapter: Vec<String>,
    /// Let requests load and unload adapters (/v1/load_lora_adapter, /v1/unload_lora_adapter), from folders below this one
    /// only. Without it none is loaded while the service runs.
    #[arg(long, value_name = "FOLDER")]
    pub adapter_folder: Option<PathBuf>,
    /// Listen at this address. At one that other machines can reach, requests need a bearer token: set
    /// FLOPSMITH_SERVE_TOKEN, or name a file with --token-file.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub host: IpAddr,
    /// Listen at this port; 0 takes a free port.
    #[arg(long, default_value_t = 8000, allow_negative_numbers = true)]
    pub port: u16,
    /// Read the token that requests need from this file, or several, one a line. The variable FLOPSMITH_SERVE_TOKEN can hold
    /// them instead.
    /// With a token, only GET /health is answered without it, also on loopback.
    #[arg(long, value_name = "FILE", env = "FLOPSMITH_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// Hold the weights in this number format; in float32 on a CPU and in bfloat16 on a GPU when left out.
    #[arg(long, value_enum)]
    pub dtype: Option<Dtype>,
    /// Compute on this device: auto (the first GPU if libtorch can use one, else the CPU), cpu, cuda or cuda:N.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: Device,
    /// Refuse requests whose prompt and answer have more tokens than this; the model's positions when left out.
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(2..))]
    pub max_length: Option<u32>,
    /// Write at most this many answers of a model at the same time; others wait.
    #[arg(long, value_name = "N", default_value_t = 256, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub rows: u32,
    /// Memory for the keys and values of the answers of a model; 1024, or 8192 on a GPU, when left out.
    #[arg(long, value_name = "MIB", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub cache_mib: Option<u32>,
    /// Refuse requests whose body is longer than this many bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 16_777_216, allow_negative_numbers = true, env = "FLOPSMITH_MAX_BODY", value_parser = clap::value_parser!(u32).range(1024..=1_073_741_824))]
    pub max_body: u32,
    /// Refuse requests while more answers than this wait.
    #[arg(long, value_name = "N", default_value_t = 10_000, allow_negative_numbers = true, env = "FLOPSMITH_MAX_WAITING", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_waiting: u32,
    /// After a request to stop, end answers that are not complete after this time, e.g. 2m (a bare number is seconds).
    #[arg(
        long,
        value_name = "TIME",
        default_value = "60s",
        allow_negative_numbers = true,
        env = "FLOPSMITH_GRACE"
    )]
    grace: String,
}

impl ModelServe {
    /// The address to listen at.
    pub fn listen(&self) -> SocketAddr {
        SocketAddr::new(self.host, self.port)
    }

    /// The time that answers have to end.
    ///
    /// # Errors
    /// Wrong usage, if the time cannot be read.
    pub fn grace(&self) -> Result<Duration> {
        durations::time(&self.grace).context("--grace (or FLOPSMITH_GRACE) cannot be read")
    }
}
