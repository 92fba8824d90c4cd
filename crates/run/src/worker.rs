//! A node of a cluster. The node compiles, verifies and times programs of all runs that have work for its machine
//! class, and runs the roles that a run has once for the runs that leave those roles to nodes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use flopsmith_actors::Pool;
use flopsmith_actors::host::Host;
use flopsmith_actors::registry::RunRegistry;
use flopsmith_actors::role::compiler::Compiler;
use flopsmith_actors::role::queues::Queues;
use flopsmith_actors::role::timer::Timer;
use flopsmith_actors::role::verifier::Verifier;
use flopsmith_actors::supervisor::{Limits, RoleState, Spec, supervise};
use flopsmith_bus::Bus;
use flopsmith_config::Hosted;
use flopsmith_evaluate::without_pytorch;
use flopsmith_machine::pinning;
use flopsmith_protocol::{MachineClass, NodeId};
use flopsmith_store::Store;
use flopsmith_telemetry::endpoint::{Endpoint, Status};
use tokio_util::sync::CancellationToken;

use crate::console::{not_allowed, say, usage};
use crate::interrupt::Watch;
use crate::run::roles::spec;
use crate::{broker, jail, machine, measuring_lock, paths};

pub(crate) mod benches;
mod claims;
mod hosted;

use benches::Benches;
use claims::Claim;
use hosted::Hosting;

/// A duty of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Duty {
    /// Compile.
    Compiler,
    /// Verify.
    Verifier,
    /// Time; the node's cores are then its own.
    Timer,
    /// Decide what runs try next.
    Archive,
    /// Write programs of runs.
    Generator,
    /// Train policies of runs.
    Learner,
}

impl Duty {
    /// The once-per-run role of this duty; `None` for duties that any number of nodes perform for a machine class.
    fn hosted(self) -> Option<Hosted> {
        match self {
            Self::Compiler | Self::Verifier | Self::Timer => None,
            Self::Archive => Some(Hosted::Archive),
            Self::Generator => Some(Hosted::Generator),
            Self::Learner => Some(Hosted::Learner),
        }
    }
}

/// The settings of a worker process.
pub struct Plan {
    /// The worker's duties.
    pub duties: Vec<Duty>,
    /// Address of the NATS server.
    pub nats: String,
    /// The artifact store; runs use the same one.
    pub store: String,
    /// The worker's machine class.
    pub class: MachineClass,
    /// True if it also takes programs for modules of PyTorch, which have queues of their own.
    pub modules: bool,
    /// The worker's name.
    pub node: NodeId,
    /// Time that the worker has after a stop request to finish the messages that it holds.
    pub grace: Duration,
    /// Address of the status server.
    pub listen: Option<SocketAddr>,
    /// Number of cores that the worker claims, and the folder of the claims.
    pub cores: Option<(usize, PathBuf)>,
    /// Run untrusted programs even where the jail gives less than its full protection.
    pub allow_weaker_jail: bool,
}

/// Time that the connection may take to close once all roles have ended or were given up.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// Works until a stop request. True if all roles ended in order.
pub fn execute(plan: Plan) -> Result<bool> {
    // The claim precedes all threads: a thread inherits the cores of the thread that makes it.
    let _claim = plan.cores.as_ref().map(own_cores).transpose()?;
    let watch = Watch::start()?;
    if plan.duties.contains(&Duty::Learner) && !cfg!(feature = "torch") {
        return Err(usage(
            "this build has no libtorch and cannot train; leave the role `learner` to other workers (--roles), or build it with the `torch` feature (`make build`)",
        ));
    }
    let evaluates = plan.duties.iter().any(|duty| duty.hosted().is_none());
    if plan.modules && !evaluates {
        return Err(usage(
            "this worker has no role that evaluates programs, and --modules is for these; leave it out, or add such a role (--roles compiler,verifier,timer)",
        ));
    }
    if evaluates {
        // The prerequisites of every program are checked before the first program is taken.
        paths::harness()?;
        jail::open(plan.allow_weaker_jail)?;
    }
    if plan.modules
        && let Some(why) = without_pytorch()
    {
        anyhow::bail!("this worker cannot take modules (--modules): {why}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    let worked = runtime.block_on(work(plan, &watch));
    runtime.shutdown_timeout(Duration::from_secs(2));
    worked
}

/// Claims cores and pins this process to them.
fn own_cores((wanted, folder): &(usize, PathBuf)) -> Result<Claim> {
    let claim = claims::claim(
        folder,
        *wanted,
        &pinning::allowed_cores(),
        pinning::siblings,
    )?;
    pinning::pin_this_thread(&claim.cores).context("cannot pin this process to its cores")?;
    let list: Vec<String> = claim.cores.iter().map(ToString::to_string).collect();
    let list = list.join(", ");
    match claim.others {
        0 => say(&format!("this worker has core {list} to itself")),
        others => say(&format!(
            "warning: no core is free; this worker shares core {list} with {others} other workers, so its timings are less certain"
        )),
    }
    Ok(claim)
}

async fn work(plan: Plan, watch: &Watch) -> Result<bool> {
    let mut options = broker::options(&plan.nats);
    options.name = format!("worker {}", plan.node);
    // The roles may use all of the grace time. When it is over, the broker delivers their unfinished messages again.
    options.drain_limit = plan.grace.min(DRAIN_LIMIT);
    let bus = Bus::connect(options).await?;
    bus.check_streams().await?;
    let store = Store::open(&plan.store)?;
    // An unusable store is reported now, not with the first program.
    store.probe().await.context("the store cannot be used")?;
    let cores = Pool::new(machine::cores());
    let class = plan.class.clone();
    let host = Host::new(plan.node.clone(), class, bus.clone(), store, cores);
    let has_policies = [Duty::Generator, Duty::Learner];
    let has_policies = has_policies.iter().any(|duty| plan.duties.contains(duty));
    let host = machine::with_gpu(host, has_policies);
    let registry = RunRegistry::open(&bus).await?;
    if plan.duties.contains(&Duty::Timer) {
        let worker = format!("worker {}", plan.node);
        match &plan.cores {
            // Workers with claimed cores are meant to run on one machine at the same time, so there is no warning.
            Some(_) => measuring_lock::announce_only(&worker),
            None => measuring_lock::announce(&worker),
        }
    }
    let stop = CancellationToken::new();
    let _answering = answering(plan.listen, &host, &stop).await?;
    let hosted: Vec<Hosted> = plan
        .duties
        .iter()
        .filter_map(|duty| duty.hosted())
        .collect();
    let mut evaluating = vec![host.clone()];
    if plan.modules {
        let of_modules = plan.class.of_modules().map_err(|e| usage(e.to_string()))?;
        evaluating.push(host.for_class(of_modules));
    }
    let evaluating = evaluating.iter().flat_map(|host| {
        let benches = Benches::new(host.clone(), registry.clone(), plan.allow_weaker_jail);
        specs(&plan.duties, host, &Arc::new(benches))
    });
    let mut specs: Vec<Spec> = evaluating.collect();
    if plan.listen.is_some() && hosted.contains(&Hosted::Archive) {
        let host = host.clone();
        specs.push(spec("queues", move || {
            let role = Queues::new(host.clone());
            Box::pin(async move { Ok(role) })
        }));
    }
    if !hosted.is_empty() {
        let host = host.clone();
        // A tenth of the grace time is left for the steps after the roles' end.
        let grace = plan.grace.mul_f64(0.9);
        specs.push(spec("hosting", move || {
            let role = Hosting::new(host.clone(), registry.clone(), hosted.clone(), grace);
            Box::pin(async move { Ok(role) })
        }));
    }
    let mut supervised = supervise(specs, Limits::default(), host.outage(), stop.clone()).await?;
    say(&format!(
        "{} works for machine class {}{} ({})",
        plan.node,
        plan.class,
        if plan.modules { " and its modules" } else { "" },
        plan.duties
            .iter()
            .map(|duty| format!("{duty:?}").to_lowercase())
            .collect::<Vec<_>>()
            .join(", ")
    ));
    // The message about the first signal is written below.
    watch.hush(true);
    let failed = tokio::select! {
        () = watch.asked().cancelled() => None,
        subject = not_its_own() => {
            Some(format!("{} cannot work with its key", plan.node) + "\n  " + &not_allowed(&subject))
        }
        state = supervised.wait() => match state {
            RoleState::Failed(words) => Some(words),
            _ => None,
        },
    };
    if failed.is_none() {
        say(
            "stopping: finishing the current work, handing back the rest (a second signal stops at once)…",
        );
    }
    stop.cancel();
    let closed = supervised.close(plan.grace).await;
    let drained = bus.drain().await;
    if let Some(words) = failed {
        anyhow::bail!("{words}");
    }
    if let RoleState::Failed(words) = closed {
        say(&format!(
            "warning: {words}; the broker delivers its unfinished messages again"
        ));
        return Ok(false);
    }
    drained?;
    Ok(true)
}

/// Waits until the broker refuses something that a role cannot work without: its queue, its log or its lease. The
/// refusal is permanent: the key belongs to another holder.
async fn not_its_own() -> String {
    let needed = |subject: &str| subject.starts_with("$JS.API.") || subject.starts_with("$KV.");
    let mut refusals = flopsmith_bus::refusals();
    let refused = refusals.wait_for(|last| last.as_deref().is_some_and(needed));
    match refused.await {
        Ok(subject) => subject.clone().unwrap_or_default(),
        // The sender is gone, so there are no further refusals.
        Err(_) => std::future::pending().await,
    }
}

/// The source of this worker's status page.
struct Asked {
    host: Host,
    stop: CancellationToken,
}

impl Status for Asked {
    fn metrics(&self) -> String {
        self.host.metrics.text(&self.host)
    }

    fn ready(&self) -> Result<(), String> {
        if self.stop.is_cancelled() {
            return Err("it is stopping".into());
        }
        if !self.host.bus.is_connected() {
            return Err("this node is not connected to the bus".into());
        }
        match self.host.bus.unable() {
            Some(queue) => Err(format!("it cannot take work from {queue}")),
            None => Ok(()),
        }
    }
}

/// Serves the status page at `listen`, if an address is given, until the guard is dropped.
async fn answering(
    listen: Option<SocketAddr>,
    host: &Host,
    stop: &CancellationToken,
) -> Result<Option<AbortOnDrop>> {
    let Some(address) = listen else {
        return Ok(None);
    };
    host.metrics.watch_gpus();
    let endpoint = Endpoint::bind(address).await.with_context(|| {
        format!("cannot listen at {address}; if another process uses this address, name another one with --listen")
    })?;
    say(&format!("answers at http://{}", endpoint.address()?));
    let asked = Asked {
        host: host.clone(),
        stop: stop.clone(),
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "it only answers, and is aborted with the guard"
    )]
    let task = tokio::spawn(endpoint.serve(Arc::new(asked)));
    Ok(Some(AbortOnDrop(task)))
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The roles of these duties that evaluate programs of any run.
pub(crate) fn specs(duties: &[Duty], host: &Host, benches: &Arc<Benches>) -> Vec<Spec> {
    let mut specs = Vec::new();
    let parts = || (host.clone(), Arc::clone(benches));
    if duties.contains(&Duty::Compiler) {
        let (host, stage_contexts) = parts();
        specs.push(spec("compiler", move || {
            let role = Compiler::for_runs(host.clone(), Arc::clone(&stage_contexts) as _);
            Box::pin(async move { Ok(role) })
        }));
    }
    if duties.contains(&Duty::Verifier) {
        let (host, stage_contexts) = parts();
        specs.push(spec("verifier", move || {
            let role = Verifier::for_runs(host.clone(), Arc::clone(&stage_contexts) as _);
            Box::pin(async move { Ok(role) })
        }));
    }
    if duties.contains(&Duty::Timer) {
        let (host, stage_contexts) = parts();
        specs.push(spec("timer", move || {
            let role = Timer::for_runs(host.clone(), Arc::clone(&stage_contexts) as _);
            Box::pin(async move { Ok(role) })
        }));
    }
    specs
}
