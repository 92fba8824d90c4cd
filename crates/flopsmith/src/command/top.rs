//! `flopsmith top`: shows the present state of a cluster.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use flopsmith_actors::node::unix_ms;
use flopsmith_actors::registry::{RunChange, RunRegistry};
use flopsmith_bus::{Bus, LogEntry, LogReader, QueueState, stream};
use flopsmith_protocol::{Outcome, RunSpec, subjects};
use flopsmith_run::console::data;
use flopsmith_run::interrupt::Watch;
use flopsmith_run::{broker, durations};

use crate::args::{Format, Top};
use crate::exit;

mod board;
mod runs;

use board::{Board, Queue};

/// Number of the newest outcomes that are read, which show the nodes at work and the last verdicts.
const NEWEST: u64 = 4000;
/// If no run was announced for this long, all known runs have arrived.
const SILENCE: Duration = Duration::from_millis(300);
/// Time to wait for the first of them.
const FIRST: Duration = Duration::from_millis(1000);
/// Time to wait for the next outcome that is known to exist.
const PATIENCE: Duration = Duration::from_secs(10);

/// Shows the state until a stop is requested.
pub fn run(args: &Top) -> Result<ExitCode> {
    let every = durations::time(&args.every).context("--every cannot be read")?;
    let every = every.max(Duration::from_millis(200));
    let once = args.once || args.format == Format::Json || !std::io::stdout().is_terminal();
    let watch = Watch::saying("no longer watching; no run is stopped")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    runtime.block_on(async {
        let bus = Bus::connect(broker::options(&args.bus.nats)).await?;
        bus.check_streams().await?;
        let mut look = Box::pin(Look::open(bus)).await?;
        loop {
            let board = look.again().await?;
            if args.format == Format::Json {
                data(&serde_json::to_string(&board)?);
            } else {
                let lines = board.lines();
                if !once {
                    // The whole screen is printed again, since lines appear and disappear.
                    print_screen(&lines);
                } else {
                    lines.iter().for_each(|line| data(line));
                }
            }
            if once {
                break;
            }
            tokio::select! {
                () = watch.asked().cancelled() => break,
                () = look.listen(every) => {}
            }
        }
        look.bus.drain().await?;
        Ok(ExitCode::from(exit::OK))
    })
}

fn print_screen(lines: &[String]) {
    data(&format!("\x1b[2J\x1b[H{}", lines.join("\n")));
}

/// The connection of `top` to a cluster.
struct Look {
    bus: Bus,
    registry: RunRegistry,
    log: LogReader<Outcome>,
    recent: board::Recent,
}

impl Look {
    async fn open(bus: Bus) -> Result<Self> {
        let registry = RunRegistry::open(&bus).await?;
        let stored = bus.stored().await?;
        let outcomes = stored.iter().find(|s| s.name == stream::OUTCOME);
        let last = outcomes.map_or(0, |s| s.last_sequence);
        let from = last.saturating_sub(NEWEST) + 1;
        let log = bus.log::<Outcome>(subjects::OUTCOMES, from).await?;
        let mut look = Self {
            bus,
            registry,
            log,
            recent: board::Recent::default(),
        };
        // Reads the outcomes that exist already. On a slow line the first one may take a while.
        while look.log.pending() > 0 {
            let next = tokio::time::timeout(PATIENCE, look.log.entry()).await;
            // A message that cannot be decoded counts as well: it may be the last one.
            if let LogEntry::Message(_, outcome) = next.context("the bus sends no outcomes")?? {
                look.recent.note(&outcome);
            }
            if look.log.place() >= last {
                break;
            }
        }
        Ok(look)
    }

    /// Reads outcomes for this time.
    async fn listen(&mut self, time: Duration) {
        let heard = async {
            while let Ok((_, outcome)) = self.log.next().await {
                self.recent.note(&outcome);
            }
            // The connection is lost: the next look reports it.
            std::future::pending::<()>().await;
        };
        // The timeout is the regular end.
        let _over = tokio::time::timeout(time, heard).await;
    }

    async fn again(&mut self) -> Result<Board> {
        let now = unix_ms();
        let queues = self.bus.queues().await?;
        let stored = self.bus.stored().await?;
        let of = |name: &str| stored.iter().find(|s| s.name == name);
        Ok(Board {
            server: self.bus.server_version(),
            runs: self.recent.runs(&self.runs().await?, now),
            queues: queues.iter().map(|q| queue(q, now)).collect(),
            verdicts: self.recent.verdicts(now),
            nodes: self.recent.nodes(now),
            dead_letters: of(stream::DEAD).map_or(0, |s| s.messages),
            outcomes: of(stream::OUTCOME).map_or(0, |s| s.messages),
        })
    }

    /// The runs that nodes may work for.
    async fn runs(&self) -> Result<Vec<RunSpec>> {
        let mut runs: Vec<RunSpec> = Vec::new();
        let mut watch = self.registry.watch().await?;
        let mut patience = FIRST;
        while let Ok(change) = tokio::time::timeout(patience, watch.next()).await {
            patience = SILENCE;
            if let RunChange::Told(spec) = change? {
                runs.retain(|known| known.run != spec.run);
                runs.push(*spec);
            }
        }
        runs.sort_by(|a, b| a.run.cmp(&b.run));
        Ok(runs)
    }
}

fn queue(state: &QueueState, now_unix_ms: u64) -> Queue {
    Queue {
        stage: state.stage.clone(),
        class: state.target.clone(),
        waiting: state.waiting,
        in_hand: state.in_hand,
        oldest_seconds: state
            .oldest_unix_ms
            .map(|at| now_unix_ms.saturating_sub(at) as f64 / 1000.0),
    }
}
