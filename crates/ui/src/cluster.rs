//! The live state of a cluster, for pages.
//!
//! One thread holds the connection to the broker while pages ask for the state, and ends it when none has asked for a
//! minute: a window that nobody looks at reads nothing. Pages never wait for the broker; they show the last state.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use flopsmith_run::cluster::{Board, Letter, Look};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Time between two looks at the cluster.
const PERIOD: Duration = Duration::from_secs(2);
/// The connection ends if no page asked for this long.
const IDLE: Duration = Duration::from_secs(60);
/// Time that a page waits for the first state.
const PATIENCE: Duration = Duration::from_millis(100);
/// Time to end a connection; a broker that is lost does not answer.
const FAREWELL: Duration = Duration::from_secs(5);
/// Numbers of dead letters that are looked at, the newest.
const MOST_LETTERS: u64 = 50;

/// The cluster at a moment.
pub struct Seen {
    /// Queues, nodes and runs.
    pub board: Board,
    /// The newest dead letters.
    pub letters: Vec<Letter>,
    /// When it was seen.
    pub at: Instant,
}

/// The last news of the cluster.
#[derive(Clone, Default)]
pub struct State {
    /// The state; none before the first look, and after a failure.
    pub seen: Option<Arc<Seen>>,
    /// Why the cluster cannot be seen.
    pub error: Option<String>,
}

#[derive(Default)]
struct Shared {
    /// The last news, and when a page asked for them.
    state: Mutex<(State, Option<Instant>)>,
    changed: Condvar,
    asked: Notify,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, (State, Option<Instant>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, state: State) {
        self.lock().0 = state;
        self.changed.notify_all();
    }

    fn is_idle(&self) -> bool {
        self.lock().1.is_none_or(|asked| asked.elapsed() > IDLE)
    }
}

/// The connection to a cluster. Its thread ends when this is dropped.
pub struct Cluster {
    shared: Arc<Shared>,
    stopping: CancellationToken,
    thread: Option<JoinHandle<()>>,
    patience: Duration,
}

impl Cluster {
    /// Starts the thread for the broker at `url`. It connects once a page asks.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn start(url: String) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let stopping = CancellationToken::new();
        let (known, stop) = (Arc::clone(&shared), stopping.clone());
        let thread = std::thread::Builder::new().name("cluster".into());
        let thread = thread.spawn(move || work(&url, &known, &stop))?;
        Ok(Self {
            shared,
            stopping,
            thread: Some(thread),
            patience: PATIENCE,
        })
    }

    /// A cluster whose state never changes.
    #[cfg(test)]
    pub fn showing(state: State) -> Self {
        let shared = Shared::default();
        shared.publish(state);
        Self {
            shared: Arc::new(shared),
            stopping: CancellationToken::new(),
            thread: None,
            patience: PATIENCE,
        }
    }

    /// The last news, waited for only if there are none yet. The thread looks again.
    pub fn state(&self) -> State {
        let deadline = Instant::now() + self.patience;
        let mut state = self.shared.lock();
        state.1 = Some(Instant::now());
        self.shared.asked.notify_one();
        while state.0.seen.is_none() && state.0.error.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                break;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.0.clone()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stopping.cancel();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that looks at the cluster panicked");
        }
    }
}

fn work(url: &str, shared: &Shared, stopping: &CancellationToken) {
    let failed = |error: &anyhow::Error| {
        let error = format!("{error:#}");
        tracing::warn!(error, "the cluster cannot be seen");
        shared.publish(State {
            seen: None,
            error: Some(error),
        });
    };
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    runtime.block_on(async {
        loop {
            tokio::select! {
                () = stopping.cancelled() => return,
                () = shared.asked.notified() => {}
            }
            // The note may be of a page that asked long ago, while a connection stood.
            if shared.is_idle() {
                continue;
            }
            let followed = tokio::select! {
                () = stopping.cancelled() => return,
                followed = Box::pin(follow(url, shared)) => followed,
            };
            if let Err(error) = followed {
                failed(&error);
            }
        }
    });
}

/// Looks at the cluster until no page asks any more.
async fn follow(url: &str, shared: &Shared) -> Result<()> {
    let mut look = Box::pin(Look::open(url)).await?;
    let ended = show(&mut look, shared).await;
    let _closed = tokio::time::timeout(FAREWELL, look.close()).await;
    ended
}

async fn show(look: &mut Look, shared: &Shared) -> Result<()> {
    while !shared.is_idle() {
        let board = look.again().await?;
        let letters = look.letters(MOST_LETTERS).await;
        let letters = letters.unwrap_or_else(|error| {
            let error = format!("{error:#}");
            tracing::warn!(error, "the dead letters of the cluster cannot be read");
            Vec::new()
        });
        let seen = Seen {
            board,
            letters,
            at: Instant::now(),
        };
        shared.publish(State {
            seen: Some(Arc::new(seen)),
            error: None,
        });
        look.listen(PERIOD).await;
    }
    // The next page that asks gets nothing old.
    shared.publish(State::default());
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_page_learns_why_a_cluster_cannot_be_seen() {
        let mut cluster = Cluster::start("nats://[".into()).unwrap();
        cluster.patience = Duration::from_secs(30);
        let state = cluster.state();
        assert!(state.seen.is_none() && state.error.is_some());
    }
}
