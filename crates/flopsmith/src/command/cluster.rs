//! `flopsmith cluster`: sets up and checks the streams and buckets that nodes share.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use flopsmith_actors::BUCKETS;
use flopsmith_actors::registry::RunRegistry;
use flopsmith_bus::{Bus, Key, RunSetup};
use flopsmith_protocol::{MachineClass, RunId};
use flopsmith_run::console::{data, say, usage};
use flopsmith_run::output::unwritable;
use flopsmith_run::permissions::{self, Holder};
use flopsmith_run::{broker, durations, paths};
use flopsmith_store::{Honours, Store};
use serde::Serialize;

use crate::args::{Cluster, Format};
use crate::exit;

/// Executes a subcommand.
pub fn run(args: &Cluster) -> Result<ExitCode> {
    if let Cluster::Ready { listen } = args {
        ready(*listen)?;
        return Ok(ExitCode::from(exit::OK));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    if let Cluster::Key { file, roles, class } = args {
        key(file, roles, class)?;
        return Ok(ExitCode::from(exit::OK));
    }
    runtime.block_on(async {
        match args {
            Cluster::Init {
                bus,
                copies,
                keep_logs,
                remember,
            } => {
                let log_max_age = keep_logs.as_deref().map(durations::time).transpose();
                let log_max_age = log_max_age.context("--keep-logs cannot be read")?;
                let window = durations::time(remember).context("--remember cannot be read")?;
                if window < SHORTEST_WINDOW {
                    return Err(usage("--remember must be at least 5m"));
                }
                // The broker takes 0 as no limit.
                if log_max_age.is_some_and(|age| age.is_zero()) {
                    return Err(usage(
                        "--keep-logs 0 is ambiguous, because the broker takes 0 as no limit; give a time such as 30d, or leave the flag out to keep everything",
                    ));
                }
                let setup = RunSetup {
                    duplicate_window: window,
                    replicas: usize::from(*copies),
                    log_max_age,
                };
                init(&bus.nats, &setup).await?;
            }
            Cluster::Stop { run, bus } => Box::pin(stop(&bus.nats, run)).await?,
            // These need no bus, and were handled above.
            Cluster::Ready { .. } | Cluster::Key { .. } => {}
            Cluster::Check { bus, store, format } => {
                check(&bus.nats, store.as_deref(), *format).await?;
            }
        }
        Ok(ExitCode::from(exit::OK))
    })
}

/// A message is delivered again, and its result published again, within less than this time.
const SHORTEST_WINDOW: Duration = Duration::from_secs(5 * 60);

/// Time that a worker may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks a worker whether it is ready; fails if it is not.
fn ready(mut listen: SocketAddr) -> Result<()> {
    // A worker that listens on all addresses also listens on this machine's own.
    if listen.ip().is_unspecified() {
        listen.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    let asked = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&listen, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let request = format!("GET /ready HTTP/1.1\r\nHost: {listen}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = asked().with_context(|| format!("no worker answers at {listen}"))?;
    let status = answer.split_whitespace().nth(1).unwrap_or_default();
    let why = answer.split("\r\n\r\n").nth(1).unwrap_or_default().trim();
    anyhow::ensure!(status == "200", "the worker is not ready: {why}");
    Ok(())
}

/// Makes a key, writes its seed to a file, and prints the entry for the server's configuration.
fn key(file: &Path, roles: &[Holder], class: &str) -> Result<()> {
    let class = MachineClass::new(class).map_err(|e| usage(e.to_string()))?;
    let key = Key::generate();
    let made = || -> std::io::Result<()> {
        let mut options = File::options();
        let mut made = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(file)?;
        writeln!(made, "{}", key.seed().map_err(std::io::Error::other)?)?;
        made.sync_all()
    };
    made().map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => usage(format!(
            "{} exists already, and this command overwrites no key; name another file",
            file.display()
        )),
        _ => unwritable(file, error),
    })?;
    data(&permissions::of(roles, &class, &key).to_string());
    say(&format!(
        "the seed is in {}; keep this file secret, and name it in FLOPSMITH_NATS_NKEY where the node runs",
        file.display()
    ));
    Ok(())
}

/// Removes a run from the registry, and its messages from the queues.
async fn stop(nats: &str, run: &str) -> Result<()> {
    let run = RunId::new(run).map_err(|e| usage(e.to_string()))?;
    let bus = Bus::connect(broker::options(nats)).await?;
    bus.check_streams().await?;
    let registry = RunRegistry::open(&bus).await?;
    if !registry.is_known(&run).await? {
        return Err(usage(format!(
            "this bus has no unfinished run {run}: the run is over, or another bus has it"
        )));
    }
    registry.withdraw(&run).await?;
    let dropped = bus.drop_queued(&run).await?;
    say(&format!(
        "{run} is over; {dropped} messages of its work were dropped"
    ));
    bus.drain().await?;
    Ok(())
}

async fn init(nats: &str, setup: &RunSetup) -> Result<()> {
    let bus = Bus::connect(broker::options(nats)).await?;
    let set_up = async {
        bus.set_up_streams(setup).await?;
        for bucket in BUCKETS {
            bus.set_up_bucket(bucket, setup.replicas).await?;
        }
        Ok(())
    };
    set_up.await.map_err(|e| too_few(e, setup.replicas))?;
    say(&format!(
        "set up the streams and the buckets, with {} of each; `flopsmith cluster check` shows the streams",
        match setup.replicas {
            1 => "one copy".to_owned(),
            copies => format!("{copies} copies"),
        }
    ));
    bus.drain().await?;
    Ok(())
}

/// The caller can correct a number of copies that exceeds the number of servers; nats-server reports it in its own
/// words.
fn too_few(error: flopsmith_bus::Error, copies: usize) -> anyhow::Error {
    let error = anyhow::Error::from(error);
    let words = format!("{error:#}");
    match words.contains("non-clustered mode") {
        true => usage(format!(
            "{copies} copies need as many NATS servers in one cluster, and this server is in no cluster; give a smaller --copies, or join more servers ({words})"
        )),
        false => error,
    }
}

/// The findings.
#[derive(Debug, Serialize)]
struct Found {
    /// Version of the server.
    server: String,
    streams: Vec<Stream>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<Kept>,
}

#[derive(Debug, Serialize)]
struct Stream {
    name: &'static str,
    messages: u64,
    bytes: u64,
    copies: usize,
}

#[derive(Debug, Serialize)]
struct Kept {
    place: String,
    conditional_create: bool,
    lists_at_once: bool,
}

async fn check(nats: &str, store: Option<&str>, format: Format) -> Result<()> {
    let bus = Bus::connect(broker::options(nats)).await?;
    let streams = bus.stored().await?.into_iter().map(|stored| Stream {
        name: stored.name,
        messages: stored.messages,
        bytes: stored.bytes,
        copies: stored.copies,
    });
    let store = match store {
        None => None,
        Some(place) => {
            paths::must_be_there(place)?;
            let honours: Honours = Store::open(place)?
                .probe()
                .await
                .context("the store cannot be used")?;
            Some(Kept {
                place: place.to_owned(),
                conditional_create: honours.conditional_create,
                lists_at_once: honours.listing,
            })
        }
    };
    let found = Found {
        server: bus.server_version(),
        streams: streams.collect(),
        store,
    };
    bus.drain().await?;
    match format {
        Format::Json => data(&serde_json::to_string(&found)?),
        Format::Text => {
            for line in lines(&found) {
                data(&line);
            }
        }
    }
    Ok(())
}

fn lines(found: &Found) -> Vec<String> {
    let mut lines = vec![format!("server   nats-server {}", found.server)];
    for stream in &found.streams {
        lines.push(format!(
            "stream   {:8} {:>10} messages {:>10.1} MB, {}",
            stream.name,
            stream.messages,
            stream.bytes as f64 * 1e-6,
            match stream.copies {
                1 => "one copy".to_owned(),
                copies => format!("{copies} copies"),
            }
        ));
    }
    if let Some(store) = &found.store {
        let create = match store.conditional_create {
            true => "does not overwrite an object when asked not to",
            false => "overwrites an object even when asked not to, which does no harm here",
        };
        lines.push(format!("store    {}: {create}", store.place));
        if !store.lists_at_once {
            lines.push(
                "         lists a new object late, so a reader may miss a checkpoint for a moment"
                    .to_owned(),
            );
        }
    }
    lines
}
