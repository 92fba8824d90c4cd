//! `flopsmith dead`: dead letters, which no worker could process.

use std::process::ExitCode;

use anyhow::{Context, Result};
use flopsmith_bus::{Bus, DeadLetter, RunSetup, Server, ServerOptions};
use flopsmith_protocol::codec;
use flopsmith_run::console::{data, say, table, usage};
use flopsmith_run::folder::Folder;
use flopsmith_run::{broker, folder, local};

use crate::args::{Dead, Format, Where};
use crate::exit;

/// Number of bytes that are shown of a message that cannot be decoded.
const SHOWN: usize = 256;

/// Lists, shows or redelivers dead letters.
pub fn run(args: &Dead) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    let place = match args {
        Dead::List { bus, .. } | Dead::Show { bus, .. } | Dead::Retry { bus, .. } => bus,
    };
    runtime.block_on(async {
        let open = Open::at(place).await?;
        let done = match args {
            Dead::List { format, .. } => list(&open.bus, place, *format).await,
            Dead::Show { number, format, .. } => show(&open.bus, *number, *format).await,
            Dead::Retry { numbers, .. } => retry(&open.bus, place, numbers).await,
        };
        open.close().await?;
        done
    })
}

/// The bus, with the server and the folder of a run of this machine.
struct Open {
    bus: Bus,
    server: Option<Server>,
    /// The folder is held so that no process works on the run in the meantime.
    _folder: Option<Folder>,
}

impl Open {
    async fn at(place: &Where) -> Result<Self> {
        if let Some(url) = &place.nats {
            let bus = Bus::connect(broker::options(url)).await?;
            return Ok(Self {
                bus,
                server: None,
                _folder: None,
            });
        }
        let name = place.run.as_deref().unwrap_or_default();
        let path = folder::find(place.place.folder(), name, |_| true)?;
        let held = Folder::open(&path)?;
        let settings = flopsmith_config::load(&path.join("config.toml"), &[])?;
        if !settings.nats.is_empty() {
            let bus = Bus::connect(broker::options(&settings.nats)).await?;
            return Ok(Self {
                bus,
                server: None,
                _folder: Some(held),
            });
        }
        let store = path.join("nats");
        if !store.is_dir() {
            return Err(usage(format!(
                "{} has no messages: it was never started",
                path.display()
            )));
        }
        let server = Server::start(None, &store, ServerOptions::default()).await?;
        let bus = Bus::connect(&server).await?;
        // A run that was killed at its beginning has no streams yet.
        bus.ensure_streams(&RunSetup::default()).await?;
        Ok(Self {
            bus,
            server: Some(server),
            _folder: Some(held),
        })
    }

    async fn close(self) -> Result<()> {
        let drained = self.bus.drain().await;
        if let Some(server) = self.server {
            server.stop().await;
        }
        Ok(drained?)
    }
}

/// The dead letters that the arguments select, the oldest first.
async fn wanted(bus: &Bus, place: &Where) -> Result<Vec<DeadLetter>> {
    let mut letters = bus.dead_letters(0).await?;
    let mut all = Vec::new();
    while letters.pending() > 0 {
        let letter = letters.next().await?;
        if place
            .queue
            .as_ref()
            .is_none_or(|q| is_of(q, &letter.subject))
        {
            all.push(letter);
        }
    }
    Ok(all)
}

fn about(letter: &DeadLetter) -> &str {
    match &letter.id {
        Some(id) => id,
        None if letter.truncated => "too large to be kept",
        None => "no message",
    }
}

fn object(letter: &DeadLetter) -> serde_json::Value {
    serde_json::json!({
        "number": letter.sequence, "queue": letter.subject, "id": letter.id, "reason": letter.reason,
        "attempts": letter.attempts, "died_unix_ms": letter.died_unix_ms, "bytes": letter.payload.len(),
        "truncated": letter.truncated,
    })
}

async fn list(bus: &Bus, place: &Where, format: Format) -> Result<ExitCode> {
    let letters = wanted(bus, place).await?;
    if format == Format::Json {
        let all: Vec<_> = letters.iter().map(object).collect();
        data(&serde_json::Value::Array(all).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    if letters.is_empty() {
        say("no dead letters");
        return Ok(ExitCode::SUCCESS);
    }
    let columns = [
        ("number", true),
        ("since", false),
        ("queue", false),
        ("about", false),
        ("reason", false),
    ];
    let cells = letters.iter().map(|letter| {
        vec![
            letter.sequence.to_string(),
            local::time(letter.died_unix_ms),
            letter.subject.clone(),
            about(letter).to_string(),
            letter.reason.clone(),
        ]
    });
    for line in table(&columns, cells) {
        data(&line);
    }
    Ok(ExitCode::SUCCESS)
}

async fn one(bus: &Bus, number: u64) -> Result<DeadLetter> {
    let found = bus.dead_letter(number).await?;
    found.ok_or_else(|| {
        usage(format!(
            "there is no dead letter {number}; `dead list` shows all dead letters"
        ))
    })
}

async fn show(bus: &Bus, number: u64, format: Format) -> Result<ExitCode> {
    let letter = one(bus, number).await?;
    let message = codec::to_json(&letter.payload);
    if format == Format::Json {
        let mut shown = object(&letter);
        shown["message"] = message.unwrap_or_default();
        data(&shown.to_string());
        return Ok(ExitCode::SUCCESS);
    }
    data(&format!("dead letter {number}: {}", about(&letter)));
    data(&format!("  queue     {}", letter.subject));
    data(&format!("  since     {}", local::time(letter.died_unix_ms)));
    data(&format!("  delivered {} times", letter.attempts));
    data(&format!("  reason    {}", letter.reason));
    match message {
        Some(message) => data(&format!("{message:#}")),
        None => data(&hexadecimal(&letter.payload)),
    }
    Ok(ExitCode::SUCCESS)
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = format!("{} bytes that cannot be decoded as a message", bytes.len());
    for line in bytes.get(..SHOWN).unwrap_or(bytes).chunks(16) {
        text.push_str("\n ");
        for byte in line {
            text.push_str(&format!(" {byte:02x}"));
        }
    }
    if bytes.len() > SHOWN {
        text.push_str("\n  …");
    }
    text
}

async fn retry(bus: &Bus, place: &Where, numbers: &[u64]) -> Result<ExitCode> {
    let letters = if numbers.is_empty() {
        wanted(bus, place).await?
    } else {
        // All are looked up before the first one is delivered again.
        let mut letters = Vec::new();
        for number in numbers {
            letters.push(one(bus, *number).await?);
        }
        letters
    };
    if letters.is_empty() {
        say("no dead letters");
    }
    let mut code = exit::OK;
    for letter in letters {
        match bus.retry_dead(&letter).await {
            Ok(()) => data(&format!("{}: back in {}", letter.sequence, letter.subject)),
            Err(error @ flopsmith_bus::Error::NotCopied { .. }) => {
                say(&format!("error: {error}"));
                code = exit::INFRASTRUCTURE;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(ExitCode::from(code))
}

/// True if a subject belongs to a queue; a queue has a subject for each run.
fn is_of(queue: &str, subject: &str) -> bool {
    subject
        .strip_prefix(queue)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
