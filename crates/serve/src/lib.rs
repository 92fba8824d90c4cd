//! A service that evaluates programs for other tools: trainers and searches over HTTP, agents by the Model Context Protocol.
//!
//! A request becomes a job ([`job`]) in the service's folder ([`journal`]). Its programs join one queue ([`queue`]), and one
//! thread evaluates them on this machine, one after the other ([`station`]), or the workers of a cluster do, many at a time
//! ([`cluster`]). Answers go into the folder, and from there to
//! whoever waits ([`service`], [`http`]). Identical programs are evaluated once ([`cache`]), as long as the plain reference
//! that their ratios refer to holds ([`reference`]). A request may name a program to compare its candidates with ([`against`]).
//! Rewards are those of runs (`flopsmith-reward`). Agents call tools ([`mcp`]) over HTTP, or over standard input and output.
//! Environments of other tools ([`gyms`]) are routes on the same jobs.
//!
//! This crate knows no training and no settings of runs, and a cluster by `flopsmith_run::farm` only.
//!
//! Invariants:
//! - One program is evaluated or built on this machine at a time, and the threads that answer requests stay off the timed cores
//!   where there are others.
//! - A confirmed job and an answer that was sent are in the folder: a restart loses neither.
//! - An infrastructure failure has no reward, and no number stands in for one.
//! - A request names problems, never paths. Sources run in the jail only.
//! - Which target a problem has is asked by `flopsmith_evaluate::Pipeline` alone; here a problem has a bench ([`station`]).
//! - Without a token the service answers requests to loopback only. A token has no text form after it was read.
//! - A job, a session, a task and an idempotency key belong to the token of their request: no other token reaches them.

mod against;
mod auth;
mod best;
mod cache;
mod catalog;
mod circumstances;
mod cluster;
mod describe;
mod gyms;
mod http;
pub mod intake;
mod job;
mod journal;
pub mod listen;
mod mcp;
mod metrics;
mod openapi;
mod program;
mod prompts;
mod queue;
mod quota;
mod reference;
mod refusal;
mod repeats;
pub mod responses;
mod roofs;
mod service;
mod station;
mod tools;
mod trainers;
mod wire;

use std::cell::Cell;
use std::future::pending;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use flopsmith_evaluate::{Host, cores_to_watch, has_cores, is_compiler, missing};
use flopsmith_machine::pinning;
use flopsmith_reward::Reward;
use flopsmith_run::console::{data, say, usage};
use flopsmith_run::farm::Ways;
use flopsmith_run::interrupt::Watch;
use flopsmith_run::{jail, paths};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use auth::{Holder, Token};
pub use mcp::Limits;
pub use station::Settings;

use cache::Cache;
use catalog::Catalog;
use circumstances::{Circumstances, Now};
use cluster::{AT_ONCE, Cluster};
use http::App;
use intake::Bodies;
use journal::Journal;
use mcp::{Explain, Tools, explain_by, explain_nothing};
use program::Judge;
use reference::Grade;
use service::Service;
use station::Station;
use tools::{Missing, remembering};

/// Interval between two removals of old jobs and results.
const SWEEP: Duration = Duration::from_secs(3600);

/// How a service evaluates, and where it keeps its data.
pub struct Basis {
    /// Its folder.
    pub folder: PathBuf,
    /// How it evaluates.
    pub settings: Settings,
    /// The cluster whose workers evaluate; none for the cores of this machine.
    pub farm: Option<Ways>,
    /// The reward of an outcome.
    pub reward: Reward,
    /// Run untrusted programs even where the jail gives less than its full protection.
    pub allow_weaker_jail: bool,
    /// Number of programs that may wait.
    pub most_waiting: usize,
    /// Age at which finished jobs and results are removed.
    pub keep: Duration,
    /// The budget of the agents of a token.
    pub limits: Limits,
}

/// The settings of a service over HTTP.
pub struct Plan {
    /// The address that it listens at.
    pub listen: SocketAddr,
    /// The token that requests need.
    pub token: Option<Token>,
    /// Length of the longest body of a request, bytes.
    pub most_body: usize,
    /// How it evaluates.
    pub basis: Basis,
}

/// Serves over HTTP until a stop request.
///
/// # Errors
/// Wrong usage, and failures that keep this machine from evaluating programs.
pub fn execute(plan: Plan) -> Result<()> {
    let loopback = "listen at 127.0.0.1";
    intake::check_reach(
        plan.listen,
        plan.token.as_ref(),
        "FLOPSMITH_SERVE_TOKEN",
        loopback,
    )?;
    let Plan {
        listen,
        token,
        most_body,
        basis,
    } = plan;
    let (limits, keep) = (basis.limits, basis.keep);
    let (opened, _watch) = open(basis)?;
    listen::allow_connections();
    let tools = opened.tools(limits);
    let app = App {
        service: Arc::clone(&opened.service),
        token: token.map(Arc::new),
        bodies: Bodies::new(most_body),
        tools,
        gyms: Arc::default(),
    };
    on_other_cores(opened, keep, async move |service| {
        serve(listen, app, service).await
    })
}

/// Serves one agent over standard input and output until the end of the input or a stop request. Messages may have
/// `most_message` bytes.
///
/// # Errors
/// Wrong usage, and failures that keep this machine from evaluating programs.
pub fn execute_mcp(basis: Basis, most_message: usize) -> Result<()> {
    let (limits, keep) = (basis.limits, basis.keep);
    let (opened, _watch) = open(basis)?;
    let tools = opened.tools(limits);
    on_other_cores(opened, keep, async move |_| {
        let input = tokio::io::BufReader::new(tokio::io::stdin());
        let output = tokio::io::stdout();
        // A task, because this thread may run on the timed cores.
        let mut session = JoinSet::new();
        session.spawn(mcp::serve(input, output, tools, most_message));
        match session.join_next().await {
            Some(Ok(served)) => served.context("cannot read the messages on standard input"),
            Some(Err(_)) | None => bail!("the session panicked; the log has the message"),
        }
    })
}

/// A service that is ready to work.
struct Opened {
    service: Arc<Service>,
    /// Each has a thread.
    judges: Vec<Box<dyn Judge>>,
    explain: Explain,
    cluster: Option<Arc<Cluster>>,
    /// Number of threads that programs are timed with here; none if a cluster evaluates.
    threads: Option<u32>,
}

/// Those who evaluate, and what agents are told about it.
struct Evaluation {
    judges: Vec<Box<dyn Judge>>,
    circumstances: Now,
    explain: Explain,
    cluster: Option<Arc<Cluster>>,
    missing: Missing,
}

impl Opened {
    /// The tools of agents.
    fn tools(&self, limits: Limits) -> Tools {
        let explain = Arc::clone(&self.explain);
        Tools::new(Arc::clone(&self.service), limits, explain)
    }
}

/// Opens the folder, and checks everything that evaluations need. The stop request is heard as long as the watch lives.
fn open(basis: Basis) -> Result<(Opened, Watch)> {
    // The prerequisites of every program are checked before the first request.
    if basis.farm.is_none() {
        is_compiler(&basis.settings.compiler)?;
        has_cores(basis.settings.threads)?;
    }
    let journal = Journal::open(&basis.folder)?;
    let folder = basis.folder.display();
    let cache = Cache::open(&basis.folder);
    let cache = Arc::new(cache.with_context(|| format!("cannot write {folder}"))?);
    let catalog = Catalog::new(paths::problem_roots()?);
    let watch = Watch::saying(
        "stopping after the current evaluation (press Ctrl-C again to stop at once)…",
    )?;
    let stopping = watch.asked().clone();
    let threads = basis.farm.is_none().then_some(basis.settings.threads);
    let evaluation = match basis.farm {
        None => here(basis.settings, basis.allow_weaker_jail, &cache, &stopping)?,
        Some(ways) => elsewhere(ways, basis.settings, &catalog, &cache, &stopping)?,
    };
    let service = Service::open(
        journal,
        cache,
        catalog,
        evaluation.circumstances,
        basis.reward,
        basis.most_waiting,
        stopping,
    );
    let service = service.with_context(|| format!("cannot read the jobs in {folder}"))?;
    let service = service.with_tools(evaluation.missing);
    let cluster = evaluation.cluster;
    let service = match &cluster {
        None => service,
        Some(cluster) => service.on(Arc::clone(cluster), evaluation.judges.len()),
    };
    match service.unfinished() {
        0 => {}
        1 => say("going on with an unfinished job"),
        several => say(&format!("going on with {several} unfinished jobs")),
    }
    let opened = Opened {
        service: Arc::new(service),
        judges: evaluation.judges,
        explain: evaluation.explain,
        cluster,
        threads,
    };
    Ok((opened, watch))
}

/// Evaluates on the cores of this machine.
fn here(
    settings: Settings,
    allow_weaker_jail: bool,
    cache: &Arc<Cache>,
    stopping: &CancellationToken,
) -> Result<Evaluation> {
    let harness = paths::harness()?;
    let host = Host {
        compiler: settings.compiler.clone(),
        sandbox: Arc::new(jail::open(allow_weaker_jail)?),
        harness,
        threads: settings.threads,
        allow_weaker_jail,
        progress: |text| tracing::info!("{text}"),
    };
    let circumstances = Circumstances::now(host.clone());
    let explain = explain_by(host.clone());
    let cache = Arc::clone(cache);
    let station = Station::new(settings, host, cache, stopping.clone());
    Ok(Evaluation {
        judges: vec![Box::new(station)],
        circumstances,
        explain,
        cluster: None,
        missing: remembering(missing),
    })
}

/// Evaluates on the workers of a cluster. This machine needs no compiler and no jail.
fn elsewhere(
    ways: Ways,
    settings: Settings,
    catalog: &Catalog,
    cache: &Arc<Cache>,
    stopping: &CancellationToken,
) -> Result<Evaluation> {
    let problems = catalog.all().into_values().filter_map(Result::ok);
    let problems = problems.collect();
    let ours = Arc::clone(cache);
    let cluster = Cluster::open(ways, settings, problems, ours, stopping.clone())?;
    let cluster = Arc::new(cluster);
    let judge = || Box::new(Arc::clone(&cluster)) as Box<dyn Judge>;
    let references = Arc::clone(cache);
    let workers = Arc::clone(&cluster);
    Ok(Evaluation {
        judges: std::iter::repeat_with(judge).take(AT_ONCE).collect(),
        // Those of the machine that measured the reference.
        circumstances: Box::new(move |problem| {
            let mut grades = [Grade::Quick, Grade::Refined].into_iter();
            let known = grades.find_map(|grade| references.current_reference(problem, grade));
            known.map(|reference| reference.circumstances)
        }),
        explain: explain_nothing(
            "the workers of a cluster build the programs of this service; ask a service, or `flopsmith mcp`, without --cluster",
        ),
        // The workers have the tools of kernels.
        missing: remembering(move |problem| workers.lacks(problem)),
        cluster: Some(cluster),
    })
}

/// Evaluates, and answers clients by `answer` on cores that are not timed, until `answer` ends or the evaluation does.
fn on_other_cores(
    opened: Opened,
    keep: Duration,
    answer: impl AsyncFnOnce(Arc<Service>) -> Result<()>,
) -> Result<()> {
    let cores = opened.threads.map(cores_to_answer_on).unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("answer")
        .on_thread_start(move || {
            // The service works without it, too; times are then less certain.
            if !cores.is_empty() {
                let _ = pinning::pin_this_thread(&cores);
            }
        })
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    let served = runtime.block_on(work(opened, keep, answer));
    // Standard input may be waited for by a thread that nothing wakes.
    runtime.shutdown_timeout(Duration::from_millis(500));
    served
}

/// The cores for everything but measurements: those that share no physical core with a timed one, or else those that are
/// not timed. None if all are timed.
fn cores_to_answer_on(threads: u32) -> Vec<usize> {
    let timed = cores_to_watch(threads);
    let allowed = pinning::allowed_cores();
    let untimed = allowed
        .into_iter()
        .filter(|core| !timed.kernel.contains(core));
    let untimed: Vec<usize> = untimed.collect();
    let apart = untimed
        .iter()
        .copied()
        .filter(|core| !timed.siblings.contains(core));
    let apart: Vec<usize> = apart.collect();
    if apart.is_empty() { untimed } else { apart }
}

/// Answers requests at an address until the service stops.
async fn serve(listen: SocketAddr, app: App, service: Arc<Service>) -> Result<()> {
    let listener = TcpListener::bind(listen).await.map_err(|e| {
        usage(format!(
            "cannot listen at {listen}: {e}; name another address with --listen"
        ))
    })?;
    let address = listener
        .local_addr()
        .context("the listener has no address")?;
    // A script reads the address, and the port where it asked for any.
    data(&format!("http://{address}"));
    let limits = listen::Limits::default();
    let stopping = service.stopping().clone();
    let connected = move || service.metrics.connected();
    let gyms = Arc::clone(&app.gyms);
    listen::serve(listener, http::router(app), stopping, limits, connected).await;
    gyms.ended().await;
    Ok(())
}

/// Evaluates while `answer` answers. Returns once both have ended.
async fn work(
    opened: Opened,
    keep: Duration,
    answer: impl AsyncFnOnce(Arc<Service>) -> Result<()>,
) -> Result<()> {
    let Opened {
        service,
        judges,
        cluster,
        ..
    } = opened;
    let ended = CancellationToken::new();
    let judges = judges.into_iter();
    let workers = judges.map(|judge| start(&service, judge, ended.clone()));
    let workers = workers.collect::<Result<Vec<_>>>()?;
    let stopping = service.stopping().clone();
    let failed = Cell::new(false);
    let evaluating = async {
        ended.cancelled().await;
        failed.set(!stopping.is_cancelled());
        // The connections then end in order.
        stopping.cancel();
        pending::<()>().await;
    };
    let answered = tokio::select! {
        answered = answer(Arc::clone(&service)) => answered,
        () = evaluating => Ok(()),
        () = sweep(Arc::clone(&service), keep) => Ok(()),
    };
    stopping.cancel();
    service.wake();
    // The current evaluation ends first; its result is then in the folder.
    let joined = tokio::task::spawn_blocking(move || {
        let failed = workers.into_iter().filter_map(|worker| worker.join().err());
        let whole = failed.count() == 0;
        if let Some(cluster) = cluster {
            cluster.close();
        }
        whole
    });
    let joined = joined.await.unwrap_or(false);
    // So does a build, which then leaves no files behind.
    drop(service.turn().await);
    answered?;
    if failed.get() || !joined {
        bail!("a thread that evaluates ended; start the service again, it goes on with its jobs");
    }
    Ok(())
}

/// Starts a thread that evaluates; it cancels `ended` at its end.
fn start(
    service: &Arc<Service>,
    mut judge: Box<dyn Judge>,
    ended: CancellationToken,
) -> Result<std::thread::JoinHandle<()>> {
    let service = Arc::clone(service);
    let guard = ended.drop_guard();
    let thread = std::thread::Builder::new().name("evaluate".into());
    let started = thread.spawn(move || {
        let _guard = guard;
        service.work(judge.as_mut());
    });
    started.context("cannot start the thread that evaluates")
}

/// Removes old jobs and results now and then; never returns.
async fn sweep(service: Arc<Service>, keep: Duration) {
    let mut interval = tokio::time::interval(SWEEP);
    loop {
        interval.tick().await;
        let service = Arc::clone(&service);
        let swept = tokio::task::spawn_blocking(move || service.sweep(keep));
        if swept.await.is_err() {
            tracing::warn!("removing old jobs and results panicked");
        }
    }
}

#[cfg(test)]
mod tests;
