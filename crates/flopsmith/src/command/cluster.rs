//! `flopsmith cluster`: what nodes share, set up and looked at.

use std::process::ExitCode;

use anyhow::{Context, Result};
use flopsmith_actors::BUCKETS;
use flopsmith_bus::{Bus, Options, RunSetup};
use flopsmith_store::{Honours, Store};
use serde::Serialize;

use crate::args::{Cluster, Format};
use crate::config;
use crate::exit::{self, data, say};

/// Sets up or looks.
pub fn run(args: &Cluster) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    runtime.block_on(async {
        match args {
            Cluster::Init {
                bus,
                copies,
                keep_logs,
            } => {
                let log_max_age = keep_logs.as_deref().map(config::time).transpose();
                let setup = RunSetup {
                    replicas: usize::from(*copies),
                    log_max_age: log_max_age.context("--keep-logs cannot be read")?,
                    ..RunSetup::default()
                };
                init(&bus.nats, &setup).await?;
            }
            Cluster::Check { bus, store, format } => {
                check(&bus.nats, store.as_deref(), *format).await?;
            }
        }
        Ok(ExitCode::from(exit::OK))
    })
}

async fn init(nats: &str, setup: &RunSetup) -> Result<()> {
    let bus = Bus::connect(Options::new(nats)).await?;
    bus.set_up_streams(setup).await?;
    for bucket in BUCKETS {
        bus.set_up_bucket(bucket, setup.replicas).await?;
    }
    say(&format!(
        "set up, with {} of everything; `flopsmith cluster check` says what is there",
        match setup.replicas {
            1 => "one copy".to_owned(),
            copies => format!("{copies} copies"),
        }
    ));
    bus.drain().await?;
    Ok(())
}

/// What was found.
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
    let bus = Bus::connect(Options::new(nats)).await?;
    let streams = bus.stored().await?.into_iter().map(|stored| Stream {
        name: stored.name,
        messages: stored.messages,
        bytes: stored.bytes,
        copies: stored.copies,
    });
    let store = match store {
        None => None,
        Some(place) => {
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
            true => "keeps what is there when asked to",
            false => "writes over what is there whatever is asked, which does no harm here",
        };
        lines.push(format!("store    {}: {create}", store.place));
        if !store.lists_at_once {
            lines.push("         what is written is not listed at once: checkpoints may be missed for a moment".to_owned());
        }
    }
    lines
}
