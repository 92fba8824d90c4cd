//! The present state of a cluster, from its bus: queues, nodes, runs, dead letters. `flopsmith top` prints it, and the
//! window shows it as a page.
//!
//! Nodes are found in the newest outcomes; a node that decides nothing is not seen.

use std::time::Duration;

use anyhow::{Context, Result};
use flopsmith_actors::node::unix_ms;
use flopsmith_actors::registry::{RunChange, RunRegistry};
use flopsmith_bus::{Bus, LogEntry, LogReader, QueueState, stream};
use flopsmith_protocol::{Outcome, RunSpec, subjects};
use serde::Serialize;

use crate::broker;

mod board;
mod runs;

pub use board::{Board, Node, Queue, age};
pub use runs::{Health, OfProblem, Run};

/// Number of the newest outcomes that are read, which show the nodes at work and the last verdicts.
const NEWEST: u64 = 4000;
/// If no run was announced for this long, all known runs have arrived.
const SILENCE: Duration = Duration::from_millis(300);
/// Time to wait for the first of them.
const FIRST: Duration = Duration::from_millis(1000);
/// Time to wait for the next outcome or dead letter that is known to exist.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to a cluster that looks at it again and again.
pub struct Look {
    bus: Bus,
    registry: RunRegistry,
    log: LogReader<Outcome>,
    recent: board::Recent,
    /// The dead letters that were read last, and the state of their stream then.
    letters: Option<([u64; 3], Vec<Letter>)>,
}

/// A message that no worker could finish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Letter {
    /// Its number, as `flopsmith dead show` takes it.
    pub number: u64,
    /// The queue that it was in.
    pub queue: String,
    /// The task or candidate that it is about; none if it cannot be read.
    pub about: Option<String>,
    /// Why it left the queue.
    pub reason: String,
    /// How often it had been given out.
    pub attempts: u32,
    /// When it left, milliseconds since 1970.
    pub died_unix_ms: u64,
}

impl Look {
    /// Connects to the broker at `url`, with the credentials that the environment names, and reads the newest outcomes.
    ///
    /// # Errors
    /// The broker does not answer, refuses this process, or has no streams.
    pub async fn open(url: &str) -> Result<Self> {
        let bus = Bus::connect(broker::options(url)).await?;
        Box::pin(Self::at(bus)).await
    }

    async fn at(bus: Bus) -> Result<Self> {
        bus.check_streams().await?;
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
            letters: None,
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
    pub async fn listen(&mut self, time: Duration) {
        let outcomes = async {
            while let Ok((_, outcome)) = self.log.next().await {
                self.recent.note(&outcome);
            }
            // The connection is lost: the next look reports it.
            std::future::pending::<()>().await;
        };
        // The timeout is the regular end.
        let _over = tokio::time::timeout(time, outcomes).await;
    }

    /// The state now.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn again(&mut self) -> Result<Board> {
        let now = unix_ms();
        let queues = self.bus.queues().await?;
        let stored = self.bus.stored().await?;
        let of = |name: &str| stored.iter().find(|s| s.name == name);
        let runs = self.runs().await?;
        Ok(Board {
            server: self.bus.server_version(),
            runs: self.recent.runs(&runs, now),
            queues: queues.iter().map(|q| queue(q, now)).collect(),
            verdicts: self.recent.verdicts(now),
            nodes: self.recent.nodes(now),
            dead_letters: of(stream::DEAD).map_or(0, |s| s.messages),
            outcomes: of(stream::OUTCOME).map_or(0, |s| s.messages),
        })
    }

    /// The newest dead letters, the newest first. Only the last `most` numbers are looked at; letters that were given out
    /// again are missing among them, and so are those that did not come in time. The bus sends them again only after a change.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn letters(&mut self, most: u64) -> Result<Vec<Letter>> {
        let stored = self.bus.stored().await?;
        let dead = stored.iter().find(|s| s.name == stream::DEAD);
        let Some(dead) = dead.filter(|dead| dead.messages > 0) else {
            return Ok(Vec::new());
        };
        let state = [most, dead.messages, dead.last_sequence];
        if let Some((_, letters)) = self.letters.as_ref().filter(|(of, _)| *of == state) {
            return Ok(letters.clone());
        }
        let from = dead.last_sequence.saturating_sub(most) + 1;
        let mut reader = self.bus.dead_letters(from).await?;
        let mut letters = Vec::new();
        let mut is_whole = true;
        // Letters that arrive meanwhile are left to the next look.
        while reader.pending() > 0 && (letters.len() as u64) < most {
            let Ok(letter) = tokio::time::timeout(PATIENCE, reader.next()).await else {
                is_whole = false;
                break;
            };
            let letter = letter?;
            letters.push(Letter {
                number: letter.sequence,
                queue: letter.subject,
                about: letter.id,
                reason: letter.reason,
                attempts: letter.attempts,
                died_unix_ms: letter.died_unix_ms,
            });
        }
        letters.reverse();
        self.letters = is_whole.then(|| (state, letters.clone()));
        Ok(letters)
    }

    /// Ends the connection.
    ///
    /// # Errors
    /// The broker does not take what is left to send.
    pub async fn close(self) -> Result<()> {
        Ok(self.bus.drain().await?)
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_bus::{RunSetup, Server, ServerOptions, Worker, WorkerOptions};
    use flopsmith_protocol::Candidate;
    use flopsmith_protocol::subjects::Queue as WorkQueue;
    use flopsmith_test_support::{candidate, machine_class, measured, outcome, run_id};

    use super::*;

    #[tokio::test]
    async fn a_look_finds_nodes_queues_and_dead_letters() {
        let place = tempfile::tempdir().unwrap();
        let server = Server::start(None, place.path(), ServerOptions::default());
        let server = server.await.unwrap();
        let bus = Bus::connect(&server).await.unwrap();
        bus.ensure_streams(&RunSetup::default()).await.unwrap();
        let options = WorkerOptions::new(WorkQueue::compile(&machine_class()).all(), 1);
        let mut worker: Worker<Candidate> = bus.worker(options).await.unwrap();
        let queue = "fs.v1.work.compile.local.r";
        for sample in 0..3 {
            let message = Candidate {
                candidate: candidate(1, 0, sample),
                source: String::new(),
                answer: None,
            };
            bus.publish(queue, &message).await.unwrap();
            let delivery = worker.next().await.unwrap();
            delivery.dead(&format!("reason {sample}")).await.unwrap();
        }
        drop(worker);
        let decided = Outcome {
            decided_unix_ms: unix_ms(),
            ..outcome(candidate(1, 0, 7), measured(40.0))
        };
        let log = subjects::outcome(&run_id());
        bus.publish(&log, &decided).await.unwrap();
        let mut look = Box::pin(Look::at(bus)).await.unwrap();
        let board = look.again().await.unwrap();
        let nodes: Vec<_> = board.nodes.iter().map(|n| (&*n.node, &*n.class)).collect();
        assert_eq!(nodes, [("n", "local")]);
        assert_eq!((board.outcomes, board.dead_letters), (1, 3));
        assert!(board.queues.iter().all(|queue| queue.waiting == 0));
        let letters = look.letters(2).await.unwrap();
        let told: Vec<_> = letters.iter().map(|l| (l.number, &*l.reason)).collect();
        assert_eq!(told, [(3, "reason 2"), (2, "reason 1")]);
        assert_eq!((&*letters[0].queue, letters[0].attempts), (queue, 1));
        assert_eq!(look.letters(2).await.unwrap(), letters);
        assert_eq!(look.letters(1).await.unwrap(), letters[..1]);
        look.close().await.unwrap();
        server.stop().await;
    }
}
