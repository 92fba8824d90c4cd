//! The environments of other tools, in their own formats, on the one evaluation.
//!
//! Clients of these tools append fixed paths to an address, so the routes are at the root: KernelGYM's ([`kernelgym`]), NeMo
//! Gym's ([`nemo_gym`]) and OpenEnv's ([`openenv`], [`socket`]). A problem is named in the request, and a program is
//! evaluated as those of all other routes. If the machine could not evaluate it, there is no number: the answer is 503, or an
//! error on a socket.
//!
//! Only OpenEnv has sessions. Their number and their time are bounded ([`episode`]), and each belongs to its holder.

mod episode;
pub mod kernelgym;
pub mod nemo_gym;
pub mod openenv;
mod socket;
mod tasks;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::{get, post};
use bytes::Bytes;
use flopsmith_protocol::Digest;
use tokio_util::task::TaskTracker;

use crate::auth::Holder;
use crate::http::App;
use crate::job::{Job, lock};
use crate::refusal::{Kind, Refusal};
use crate::service::Service;
use crate::trainers::rewarded;
use crate::wire::{self, Against, Answer, Candidate, Purpose};

use episode::Episodes;
use tasks::Tasks;

/// Time that sockets have to end once the service stops.
const GRACE: Duration = Duration::from_secs(5);

/// Limits on the sessions of OpenEnv.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most sockets at the same time. A place stays free for each token without a socket.
    pub sockets: usize,
    /// The most episodes of all holders.
    pub episodes: usize,
    /// The most episodes of one holder. The one that was used least recently makes room for the next.
    pub of_holder: usize,
    /// Time after the last message at which a session ends.
    pub idle: Duration,
    /// Time after its beginning at which a session ends.
    pub age: Duration,
    /// Length of the longest message on a socket, bytes.
    pub message: usize,
}

impl Default for Limits {
    /// 256 sockets, 4096 episodes, 256 of one holder, one hour and one day, 1 MiB.
    fn default() -> Self {
        Self {
            sockets: 256,
            episodes: 4096,
            of_holder: 256,
            idle: Duration::from_secs(3600),
            age: Duration::from_secs(86_400),
            message: 1 << 20,
        }
    }
}

/// The sessions and tasks of a service.
pub struct Shared {
    limits: Limits,
    began: Instant,
    episodes: Mutex<Episodes>,
    tasks: Mutex<Tasks>,
    /// Number of open sockets.
    open: Mutex<HashMap<Holder, usize>>,
    /// The number of the next socket.
    number: AtomicU64,
    sockets: TaskTracker,
}

impl Default for Shared {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Shared {
    /// No sessions and no tasks.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            began: Instant::now(),
            episodes: Mutex::new(Episodes::new(limits)),
            tasks: Mutex::default(),
            open: Mutex::default(),
            number: AtomicU64::new(0),
            sockets: TaskTracker::new(),
        }
    }

    /// Waits until the sockets have ended, for a limited time. They end once the service stops.
    pub async fn ended(&self) {
        self.sockets.close();
        let ended = tokio::time::timeout(GRACE, self.sockets.wait()).await;
        if ended.is_err() {
            tracing::warn!("some sockets did not end in time");
        }
    }

    fn episodes(&self) -> MutexGuard<'_, Episodes> {
        lock(&self.episodes)
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        lock(&self.tasks)
    }

    /// Time since the start.
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn next_number(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed)
    }

    /// A place for another socket of a client, of which there are so many; none if all are taken, or if the client has some and
    /// the free ones are needed for those that have none.
    fn place(self: &Arc<Self>, holder: Holder, holders: usize) -> Option<Place> {
        let mut open = lock(&self.open);
        let all: usize = open.values().sum();
        let active = open.values().filter(|own| **own > 0).count();
        let idle = holders.saturating_sub(active);
        let own = open.entry(holder).or_default();
        let kept_free = if *own == 0 { 0 } else { idle };
        if all + kept_free >= self.limits.sockets {
            return None;
        }
        *own += 1;
        let shared = Arc::clone(self);
        Some(Place { shared, holder })
    }
}

/// The place of a socket. Its end gives it back.
struct Place {
    shared: Arc<Shared>,
    holder: Holder,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = lock(&self.shared.open);
        if let Some(own) = open.get_mut(&self.holder) {
            *own = own.saturating_sub(1);
        }
    }
}

/// The routes of all environments.
pub fn routes() -> Router<App> {
    Router::new()
        .route(kernelgym::ROUTE, post(kernelgym::evaluate))
        .route("/status/{id}", get(kernelgym::status))
        .route("/results/{id}", get(kernelgym::results))
        .route("/seed_session", post(nemo_gym::seed_session))
        .route("/verify", post(nemo_gym::verify))
        .route("/reset", post(openenv::reset))
        .route("/step", post(openenv::step))
        .route("/state", get(openenv::state))
        .route("/schema", get(openenv::schema))
        .route("/health", get(openenv::health))
        .route("/ws", get(socket::open))
}

/// Makes a job of one candidate. A client that asks again a short time later gets the job that it has.
async fn begin(
    app: &App,
    holder: Holder,
    candidate: Candidate,
    purpose: Purpose,
) -> Result<Arc<Job>, Refusal> {
    let request = wire::Request {
        candidates: vec![candidate],
        purpose,
        against: Against::default(),
        dry_run: false,
    };
    // The fields of a request have names, so it always has a JSON form.
    let text = serde_json::to_string(&request).unwrap_or_default();
    let asked = Digest::of(format!("environment {text}").as_bytes());
    let submit = move |_: &[u8], service: &Service| service.submit_once(request, asked, holder);
    let begun = app.submit(Bytes::new(), submit).await;
    begun.map_err(Refusal::of_one)
}

/// The answer to the candidate of a job that is done.
fn answer_of(job: &Job) -> Result<Answer, Refusal> {
    let answers = rewarded(job)?;
    answers.into_iter().next().ok_or_else(|| {
        Refusal::new(Kind::Infrastructure, "the job has no answer; ask again").retry_after(5)
    })
}

/// Evaluates one candidate.
async fn evaluated(
    app: &App,
    holder: Holder,
    candidate: Candidate,
    purpose: Purpose,
) -> Result<Answer, Refusal> {
    let job = begin(app, holder, candidate, purpose).await?;
    app.finished(&job).await?;
    answer_of(&job)
}
