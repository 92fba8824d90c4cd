//! One session of a run on this machine: its folder, its broker, its roles and its end.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use flopsmith_actors::evaluation;
use flopsmith_actors::host::Host;
use flopsmith_actors::node::{Context, Node, Parts, unix_ms};
use flopsmith_actors::pool::{Pool, Shares};
use flopsmith_actors::registry::RunRegistry;
use flopsmith_actors::role::recorder::Progress;
use flopsmith_actors::supervisor::RoleState;
use flopsmith_bus::{Bus, RunSetup, Server, ServerOptions};
use flopsmith_config::Job;
use flopsmith_config::{Hosted, Settings};
use flopsmith_evaluate::{Evaluator, Pipeline};
use flopsmith_problem::Problem;
use flopsmith_protocol::{Digest, MachineClass, NodeId, RunId, subjects};
use flopsmith_store::Store;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::console::{say, usage};
use crate::event_files::EventFiles;
use crate::folder::{Folder, job_name};
use crate::interrupt::Watch;
use crate::output::unwritable;
use crate::summary::{Facts, Summary, summarise};
use crate::worker::benches::Benches;
use crate::{
    broker, certification, comparability, endpoint, export, machine, measuring_lock, paths, start,
    view,
};

mod announce;
mod meter;
mod ready;
mod remote_certification;
mod repeated;
pub mod roles;

use meter::Meter;

/// Time that roles may take to stop.
const GRACE: Duration = Duration::from_secs(30);
/// The same after the broker is lost: the roles can neither publish nor give messages back, so a longer wait is
/// useless.
const LOST_GRACE: Duration = Duration::from_secs(2);

/// The settings of a session.
pub struct Plan<'a> {
    /// Train or search.
    pub job: Job,
    /// The settings.
    pub settings: Settings,
    /// The folder.
    pub folder: &'a Folder,
    /// Show the live view.
    pub live: bool,
    /// The command that resumes the run, for messages.
    pub resume: String,
    /// Longest time, in all, that the measurements after the end wait until the machine is quiet.
    pub wait: Duration,
}

/// The result of a session.
pub struct Ended {
    /// The summary of the run.
    pub summary: Summary,
    /// True if the session was interrupted.
    pub interrupted: bool,
    /// True if a file of the result could not be written.
    pub unwritten: bool,
    /// The reason why the run counts as a failure of its programs, and advice; `None` if the run is no failure.
    pub fruitless: Option<String>,
}

/// Runs until the budget is spent or the user stops it.
pub fn execute(plan: Plan<'_>) -> Result<Ended> {
    let began = Instant::now();
    // The watch starts before the first measurement: the default action of a signal would not tell the user that the
    // run is kept and how to resume it.
    let watch = Watch::start()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    let Plan {
        job,
        mut settings,
        folder,
        live,
        resume,
        wait,
    } = plan;
    // The path is resolved once, so that all roles find a folder of the installation, whatever their working folder is.
    settings.generator.model = paths::model(&settings.generator.model);
    let mut facts = folder.facts()?;
    if !facts.concluded && !settings.evaluate.workers {
        measuring_lock::announce(&format!("{} {}", job_name(job), folder.id));
    }
    let meter = Meter::start(began, facts.seconds)?;
    let ended = |facts: &Facts, interrupted: bool| -> Result<Ended> {
        Ok(Ended {
            summary: summarise(folder.id.as_str(), &folder.path, facts)?,
            interrupted,
            unwritten: false,
            fruitless: None,
        })
    };
    let replays = settings.evaluate.replays();
    if facts.finished {
        let mut interrupted = false;
        if facts.concluded {
            say("this run is finished already; here is its result");
        } else {
            // The process was killed between the last step and the work after it.
            runtime.block_on(async {
                export::model(folder, &settings, store(&settings, folder)?).await
            })?;
            let stopped = watch.asked();
            let concluded = if replays {
                repeated::conclude(folder, &mut facts)
            } else if settings.evaluate.workers {
                runtime.block_on(by_workers(&settings, folder, &mut facts, stopped, &meter))
            } else {
                let evaluators = ready::evaluators(&settings, folder)?;
                conclude(
                    evaluators, &settings, folder, &mut facts, wait, stopped, &meter,
                )
            };
            interrupted = !concluded?;
        }
        return ended(&facts, interrupted);
    }
    facts.job = job_name(job).into();
    facts.problem = settings.problem.clone();
    if settings.has_many() {
        let problems = paths::problems_of(&settings)?.into_iter();
        facts.problems = problems.map(|problem| problem.id).collect();
    }
    facts.workloads = settings.workloads.clone();
    let first = start::first_program(&settings)?;
    facts.start = first.map(|source| Digest::of(source.as_bytes()));
    if facts.started_unix_ms == 0 {
        facts.started_unix_ms = unix_ms();
    }
    facts.sessions += 1;
    folder.write_facts(&facts)?;

    let here = !settings.evaluate.workers && !replays;
    let evaluation = if !here {
        None
    } else if ready::is_by_benches(&settings)? {
        ready::evaluators(&settings, folder)?;
        None
    } else {
        say("measuring this machine…");
        let Some(ready) = ready::measure(&settings, folder, &mut facts, watch.asked())? else {
            left_early(folder, &mut facts, &meter)?;
            return ended(&facts, true);
        };
        // `doctor` reports the rest.
        for line in ready.timer.attestation().warnings() {
            say(&format!("warning: {line}"));
        }
        Some(ready)
    };
    let (evaluator, evaluation) = match evaluation {
        Some(ready) => (Some(ready.evaluator), Some((ready.timer, ready.openblas))),
        None => (None, None),
    };
    let sat = runtime.block_on(session(
        job,
        settings.clone(),
        folder,
        live,
        evaluator.as_ref(),
        evaluation,
        &meter,
        &mut facts,
        &resume,
        &watch,
    ));
    let mut interrupted = match sat {
        Ok(interrupted) => interrupted,
        Err(error) => {
            runtime.shutdown_timeout(Duration::from_secs(2));
            return Err(error);
        }
    };
    if facts.finished && !interrupted {
        let stopped = watch.asked();
        let concluded = if here {
            let evaluators = match evaluator {
                Some(evaluator) => vec![Pipeline::Kernel(Box::new(evaluator))],
                None => ready::evaluators(&settings, folder)?,
            };
            conclude(
                evaluators, &settings, folder, &mut facts, wait, stopped, &meter,
            )
        } else if replays {
            repeated::conclude(folder, &mut facts)
        } else {
            runtime.block_on(by_workers(&settings, folder, &mut facts, stopped, &meter))
        };
        interrupted = !concluded?;
    }
    runtime.shutdown_timeout(Duration::from_secs(2));
    ended(&facts, interrupted)
}

/// Makes the measurements after the end. Their time counts for the run, however they end.
fn conclude(
    evaluators: Vec<Pipeline>,
    settings: &Settings,
    folder: &Folder,
    facts: &mut Facts,
    wait: Duration,
    stopped: &CancellationToken,
    meter: &Meter,
) -> Result<bool> {
    let concluded = certification::conclude(evaluators, settings, folder, facts, wait, stopped);
    meter.note(facts, 0);
    let noted = folder.write_facts(facts);
    let concluded = concluded?;
    noted?;
    Ok(concluded)
}

/// Has workers of a cluster make the measurements after the end. Then the run is over, and the nodes are told.
async fn by_workers(
    settings: &Settings,
    folder: &Folder,
    facts: &mut Facts,
    stopped: &CancellationToken,
    meter: &Meter,
) -> Result<bool> {
    let bus = Bus::connect(broker::options(&settings.nats)).await?;
    let store = store(settings, folder)?;
    let concluded =
        remote_certification::conclude(&bus, &store, settings, folder, facts, stopped).await;
    meter.note(facts, 0);
    let noted = folder.write_facts(facts);
    let withdrawn = match concluded {
        Ok(true) => RunRegistry::withdraw_patiently(&bus, &folder.id).await,
        _ => Ok(()),
    };
    bus.drain().await?;
    let concluded = concluded?;
    noted?;
    withdrawn?;
    Ok(concluded)
}

/// Notes a session that was stopped before its roles began.
fn left_early(folder: &Folder, facts: &mut Facts, meter: &Meter) -> Result<()> {
    meter.note(facts, 0);
    folder.write_facts(facts)
}

/// Checks the services that a run needs before its folder is made and the machine is measured: the devices of its models,
/// the store and the bus that the settings name, or the server of a private bus, and the server of its endpoint.
pub fn check_services(settings: &Settings) -> Result<()> {
    #[cfg(feature = "torch")]
    crate::devices::check(settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    runtime.block_on(async {
        if let Some(store) = check_store(&settings.store)? {
            store
                .probe()
                .await
                .map_err(|e| usage(flopsmith_actors::supervisor::words(&e)))
                .context("`store` cannot be used")?;
        }
        if settings.nats.is_empty() {
            Server::installed(None).await?;
        } else {
            let options = broker::options(&settings.nats);
            Bus::connect(options).await?.drain().await?;
        }
        endpoint::reach(settings).await
    })
}

/// Opens the store that the settings name, if they name one; otherwise the store is in the run's folder.
fn check_store(named: &str) -> Result<Option<Store>> {
    if named.is_empty() {
        return Ok(None);
    }
    let error = match Store::open(named) {
        Ok(store) => return Ok(Some(store)),
        Err(flopsmith_store::Error::Folder { path, source }) => {
            unwritable(Path::new(&path), source)
        }
        Err(error) => usage(flopsmith_actors::supervisor::words(&error)),
    };
    Err(error.context("`store` cannot be used"))
}

fn store(settings: &Settings, folder: &Folder) -> Result<Store> {
    Ok(if settings.store.is_empty() {
        Store::open(&folder.path.join("store").display().to_string())?
    } else {
        Store::open(&settings.store)?
    })
}

#[expect(
    clippy::too_many_arguments,
    reason = "the parts of a session, each made by the caller"
)]
async fn session(
    job: Job,
    settings: Settings,
    folder: &Folder,
    live: bool,
    evaluator: Option<&Evaluator>,
    measuring: Option<(
        flopsmith_measure::Timer,
        Option<flopsmith_machine::openblas::Best>,
    )>,
    meter: &Meter,
    facts: &mut Facts,
    resume: &str,
    watch: &Watch,
) -> Result<bool> {
    let (server, options) = if settings.nats.is_empty() {
        let server = Server::start(None, &folder.path.join("nats"), server_options()).await?;
        let options = server.connect_options();
        (Some(server), options)
    } else {
        (None, broker::options(&settings.nats))
    };
    let bus = Bus::connect(options).await?;
    bus.ensure_streams(&RunSetup::default()).await?;
    if watch.asked().is_cancelled() {
        // No work was begun, so there is none to finish.
        let drained = bus.drain().await;
        if let Some(server) = server {
            server.stop().await;
        }
        left_early(folder, facts, meter)?;
        drained?;
        return Ok(true);
    }
    let store = store(&settings, folder)?;
    let cores = Pool::new(machine::cores());
    let node = NodeId::new("local")?;
    let class = MachineClass::new(&settings.machine_class)?;
    let here = !settings.evaluate.workers && !settings.evaluate.replays();
    let problems: Vec<Arc<Problem>> = match evaluator {
        Some(evaluator) => vec![Arc::clone(&evaluator.problem)],
        None => {
            let problems = paths::prompted(&settings)?;
            if !here {
                comparability::keep_for_workers(&folder.path, &problems)?;
            }
            problems.into_iter().map(Arc::new).collect()
        }
    };
    // Benches know a run from the registry, also on a private bus.
    let benches = here && evaluator.is_none();
    let timer = match measuring {
        Some((timer, openblas)) => {
            let facts = evaluation::machine_facts(&folder.id, &node, &class, &timer, openblas);
            bus.publish(&subjects::machine(&folder.id), &facts).await?;
            Some(timer)
        }
        None => None,
    };
    let recorded = repeated::recorded(&settings)?;
    if let Some(recorded) = &recorded {
        repeated::say_machine(&bus, &folder.id, recorded, &class).await?;
    }
    if server.is_none() || benches {
        let chains = timer.as_ref().map(flopsmith_measure::Timer::chains);
        let first = facts.sessions == 1;
        let parts = (folder, &settings, &problems[..], &class);
        Box::pin(announce::announce(&bus, &store, job, parts, chains, first)).await?;
    }
    let (problem, others) = problems.split_first().context("a run has a problem")?;
    let context = Context::new(Parts {
        run: folder.id.clone(),
        settings: settings.clone(),
        folder: folder.path.clone(),
        problem: Arc::clone(problem),
        others: others.to_vec(),
        toolchain: match evaluator {
            Some(evaluator) => evaluator.toolchain.fingerprint.clone(),
            None => comparability::workers_toolchain(),
        },
        host: machine::with_gpu_of(
            Host::new(node, class, bus.clone(), store, cores.clone()),
            &settings,
        ),
    });
    let finished = CancellationToken::new();
    let stop = CancellationToken::new();
    let (progress_tx, progress) = watch::channel(Progress::default());
    let (elapsed_tx, elapsed) = watch::channel(facts.spent_seconds.unwrap_or_default());
    let spent = elapsed.clone();
    let told = roles::Told {
        finished: finished.clone(),
        ended: CancellationToken::new(),
        elapsed: elapsed_tx,
    };
    let evaluation = match (recorded, evaluator.zip(timer)) {
        (Some(recorded), _) => roles::Evaluation::Recorded(recorded),
        (None, Some((evaluator, timer))) => roles::Evaluation::Here(evaluator, Box::new(timer)),
        (None, None) if benches => {
            let registry = RunRegistry::open(&bus).await?;
            let host = context.host.clone();
            let weaker = settings.evaluate.allow_weaker_jail;
            roles::Evaluation::Benches(Arc::new(Benches::new(host, registry, weaker)))
        }
        (None, None) => roles::Evaluation::Workers,
    };
    let specs = roles::specs(job, &context, evaluation, progress_tx, &told, facts.seconds)?;
    let mut node = Node::start(Arc::clone(&context), specs, stop.clone()).await?;
    folder.begun();

    #[expect(
        clippy::disallowed_methods,
        reason = "it only shows, and is aborted as soon as the run ends"
    )]
    let view =
        live.then(|| tokio::spawn(view::show(progress.clone(), Arc::clone(&context), elapsed)));
    // A long run that is resumed reads gigabytes for it. Requests to stop are heard meanwhile.
    let (path, named) = (folder.path.clone(), facts.problems.clone());
    let opening = tokio::task::spawn_blocking(move || EventFiles::open(&path, &named));
    let (mut opening, mut events) = (Some(opening), None);
    let mut clock = tokio::time::interval(Duration::from_secs(5));
    let shares_before = facts.shares.clone();
    let disturbed_before = facts.disturbed;
    let note = |facts: &mut Facts| {
        facts.shares = add(&shares_before, &cores.shares());
        facts.disturbed = disturbed_before + context.disturbed();
        facts.spent_seconds = Some(*spent.borrow());
        let broker = server
            .as_ref()
            .and_then(Server::pid)
            .map_or(0, machine::peak_of_process);
        meter.note(facts, broker);
    };
    let mut broker_lost = false;
    let mut silent = server.is_none().then(Instant::now);
    watch.hush(true);
    let (interrupted, failed) = loop {
        tokio::select! {
            () = finished.cancelled() => break (false, None),
            state = node.wait() => break (false, Some(state)),
            () = watch.asked().cancelled() => break (true, None),
            () = told.ended.cancelled() => {
                say("the run was ended by `flopsmith cluster stop`; it can be resumed");
                break (true, None);
            }
            words = given_up(server.as_ref()) => {
                broker_lost = true;
                break (false, Some(RoleState::Failed(words)));
            }
            _ = clock.tick() => {
                note(facts);
                if let Some(opened) = opening.take_if(|opened| opened.is_finished()) {
                    events = opened.await.ok();
                }
                if let Some(events) = &mut events {
                    events.update();
                }
                if let Err(error) = folder.write_facts(facts) {
                    break (false, Some(RoleState::Failed(format!("{error:#}"))));
                }
                if silent.is_some_and(|since| since.elapsed() > SILENCE) {
                    silent = None;
                    if progress.borrow().total == 0 {
                        nobody_answers(&bus, &settings, &folder.id, live).await;
                    }
                }
            }
        }
    };
    if let Some(view) = view {
        view.abort();
        // The view completes the frame that it is drawing, so that no message lands in the middle of it.
        let _ = view.await;
        view::clear();
    }
    watch.hush(false);
    if interrupted {
        say(
            match settings.is_hosted(Hosted::Archive) && !told.ended.is_cancelled() {
                false => {
                    "stopping: finishing the current work (press Ctrl-C again to stop at once)…"
                }
                true => {
                    "leaving; the cluster continues the run (`flopsmith cluster stop` ends it)…"
                }
            },
        );
    }
    let state = node
        .close(if broker_lost { LOST_GRACE } else { GRACE })
        .await;
    note(facts);
    facts.finished = finished.is_cancelled();
    if let Some(opened) = opening {
        events = opened.await.ok();
    }
    if let Some(events) = &mut events {
        events.end(facts);
    }
    let noted = folder.write_facts(facts);
    let withdrawn = match facts.finished && server.is_none() && here {
        true => RunRegistry::withdraw_patiently(&bus, &folder.id).await,
        false => Ok(()),
    };
    // Without a broker nothing can be published any more.
    let drained = if broker_lost {
        Ok(())
    } else {
        bus.drain().await
    };
    let exported = export::model(folder, &settings, context.host.store.clone()).await;
    if let Some(server) = server {
        server.stop().await;
    }
    // A repetition that has diverged from its recorded run would diverge again, so no command to resume it is printed.
    let kept = |words: &str| match settings.evaluate.replays() {
        true => anyhow::anyhow!("{words}"),
        false => kept(words, resume),
    };
    let warning = roles_ended(failed, state).map_err(|words| kept(&words))?;
    if let Some(warning) = warning {
        say(&warning);
    }
    noted
        .and(drained.map_err(Into::into))
        .and(exported)
        .and(withdrawn.map_err(Into::into))
        .map_err(|error| kept(&format!("{error:#}")))?;
    Ok(interrupted)
}

/// Time without any outcome after which a user who follows a run of a cluster is warned.
const SILENCE: Duration = Duration::from_secs(20);

async fn nobody_answers(bus: &Bus, settings: &Settings, run: &RunId, live: bool) {
    let waiting = match bus.queued(run).await {
        Ok(0) => {
            "the queues have no work of this run; check that a node has the roles archive and generator"
                .to_owned()
        }
        Ok(waiting) => format!(
            "{waiting} pieces of its work wait in the queues; check that nodes have the roles compiler, verifier and timer for machine class {}",
            settings.machine_class
        ),
        Err(error) => format!("the queues cannot be read: {error}"),
    };
    if live {
        view::clear();
    }
    say(&format!(
        "no program was decided within {} s; {waiting} (`flopsmith top` shows queues and nodes)",
        SILENCE.as_secs()
    ));
}

/// The message about roles that ended. The failure of a role before the run's end is the error of the session; a role
/// that did not stop in time is a warning, also after a stop request.
fn roles_ended(failed: Option<RoleState>, closed: RoleState) -> Result<Option<String>, String> {
    match (failed, closed) {
        (Some(RoleState::Failed(words)), _) => Err(words),
        (_, RoleState::Failed(words)) => Ok(Some(format!("warning: {words}"))),
        _ => Ok(None),
    }
}

/// The error of a session that ended early, with the command that resumes the run.
fn kept(words: &str, resume: &str) -> anyhow::Error {
    anyhow::anyhow!("{words}\n  the run is kept; resume it with `{resume}`")
}

/// The reason why the private broker was given up. Pends as long as the broker works, and forever if the run has no
/// private broker.
async fn given_up(server: Option<&Server>) -> String {
    match server {
        Some(server) => flopsmith_actors::supervisor::words(&server.failed().await),
        None => std::future::pending().await,
    }
}

/// The server syncs each write before it confirms it, so that a killed server goes on at once. A server that syncs
/// later forgets which messages were delivered, and the run waits until they are delivered again: a short run with two
/// kills took 40 to 51 s that way, and 20 to 27 s with `Always`.
fn server_options() -> ServerOptions {
    ServerOptions {
        sync: flopsmith_bus::Sync::Always,
        ..ServerOptions::default()
    }
}

/// The shares of several sessions, weighted by the sessions' lengths.
fn add(before: &Shares, now: &Shares) -> Shares {
    let seconds = before.seconds + now.seconds;
    let part = |a: f64, b: f64| (a * before.seconds + b * now.seconds) / seconds.max(1e-9);
    let mut by_role = before.by_role.clone();
    for share in by_role.values_mut() {
        *share = part(*share, 0.0);
    }
    for (role, share) in &now.by_role {
        *by_role.entry(role.clone()).or_default() += part(0.0, *share);
    }
    Shares {
        by_role,
        idle: part(before.idle, now.idle),
        seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_that_does_not_come_to_rest_is_named_whoever_ended_the_session() {
        let late = || RoleState::Failed("a role did not drain".into());
        let warning = Ok(Some("warning: a role did not drain".to_owned()));
        // After ctrl-c no role has failed, and none has drained by itself.
        assert_eq!(roles_ended(None, late()), warning);
        assert_eq!(roles_ended(Some(RoleState::Drained), late()), warning);
        assert_eq!(roles_ended(None, RoleState::Drained), Ok(None));
        let failed = Some(RoleState::Failed("the timer failed".into()));
        let error = Err("the timer failed".to_owned());
        assert_eq!(roles_ended(failed, late()), error);
    }

    #[test]
    fn a_store_that_cannot_be_used_is_wrong_usage() {
        check_store("").expect("the run's own");
        for named in ["nowhere://bucket", "/proc/self/flopsmith-store"] {
            let error = check_store(named).expect_err("no store");
            assert!(
                error.chain().any(|e| e.is::<crate::console::Usage>()),
                "{error:#}"
            );
            assert!(format!("{error:#}").contains(named), "{error:#}");
        }
    }
}
