//! Roles that each run has once, for all runs that leave them to nodes of the cluster.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use flopsmith_actors::Error;
use flopsmith_actors::host::Host;
use flopsmith_actors::node::{Context, Node, Parts};
use flopsmith_actors::outcome_cache::{knows, version};
use flopsmith_actors::registry::{RunChange, RunRegistry, RunWatch, key};
use flopsmith_actors::role::Role;
use flopsmith_actors::role_lease::RoleLease;
use flopsmith_actors::supervisor::{RoleState, words};
use flopsmith_config::Job;
use flopsmith_config::{GeneratorKind, Hosted, Settings};
use flopsmith_coordination::limits;
use flopsmith_protocol::RunSpec;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::benches::another_store;
use crate::run::roles::{self, Told};
use crate::{comparability, export, paths};

/// Runs certain once-per-run roles for all runs that leave them to nodes.
pub struct Hosting(Arc<House>);

struct House {
    host: Host,
    registry: RunRegistry,
    roles: Vec<Hosted>,
    /// Time that the roles of a run may take to stop.
    grace: Duration,
}

/// A run whose roles this node runs, or waits to run.
struct Guest {
    spec: RunSpec,
    /// A later announcement of the run; the roles start again with it once they have stopped.
    next: Option<RunSpec>,
    stop: CancellationToken,
}

type Ends = FuturesUnordered<BoxFuture<'static, String>>;

impl Hosting {
    /// Hosts `roles` at `host`; the roles of a run may take `grace` to stop.
    pub fn new(host: Host, registry: RunRegistry, roles: Vec<Hosted>, grace: Duration) -> Self {
        Self(Arc::new(House {
            host,
            registry,
            roles,
            grace,
        }))
    }

    fn hear(
        &self,
        change: RunChange,
        guests: &mut BTreeMap<String, Guest>,
        ends: &mut Ends,
        stop: &CancellationToken,
    ) {
        match change {
            RunChange::Over(key) => {
                if let Some(guest) = guests.get_mut(&key) {
                    guest.next = None;
                    guest.stop.cancel();
                }
            }
            RunChange::Told(spec) => match guests.get_mut(&key(&spec.run)) {
                // A run whose roles are stopping starts again with this announcement.
                Some(guest) if guest.spec == *spec => {
                    guest.next = guest.stop.is_cancelled().then_some(*spec);
                }
                Some(guest) => {
                    guest.next = Some(*spec);
                    guest.stop.cancel();
                }
                None => self.take_in(*spec, guests, ends, stop),
            },
        }
    }

    fn take_in(
        &self,
        spec: RunSpec,
        guests: &mut BTreeMap<String, Guest>,
        ends: &mut Ends,
        stop: &CancellationToken,
    ) {
        let (key, stop) = (key(&spec.run), stop.child_token());
        let (house, name) = (Arc::clone(&self.0), key.clone());
        let (told, asked) = (spec.clone(), stop.clone());
        ends.push(Box::pin(async move {
            house.attend(&told, &asked).await;
            name
        }));
        let next = None;
        guests.insert(key, Guest { spec, next, stop });
    }
}

#[async_trait]
impl Role for Hosting {
    async fn run(&mut self, stop: CancellationToken) -> Result<(), Error> {
        let mut guests = BTreeMap::new();
        let mut ends = Ends::new();
        let mut runs: Option<RunWatch> = None;
        loop {
            let changes = async {
                if runs.is_none() {
                    runs = Some(self.0.registry.watch().await?);
                }
                match &mut runs {
                    Some(runs) => runs.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(key) = ends.next(), if !ends.is_empty() => {
                    let ended: Option<Guest> = guests.remove(&key);
                    if let Some(spec) = ended.and_then(|guest| guest.next) {
                        self.take_in(spec, &mut guests, &mut ends, &stop);
                    }
                }
                change = changes => match change {
                    Ok(change) => self.hear(change, &mut guests, &mut ends, &stop),
                    Err(error) => {
                        tracing::info!(error = words(&error), "the watch of the run registry failed; restarting it");
                        runs = None;
                        // Roles that are running go on in the meantime: they are in `ends`, which the loop polls again
                        // after the pause.
                        tokio::select! {
                            () = stop.cancelled() => break,
                            () = tokio::time::sleep(Duration::from_millis(500)) => {}
                        }
                    }
                },
            }
        }
        while ends.next().await.is_some() {}
        Ok(())
    }
}

impl House {
    /// Runs the roles of a run until the run is over or `stop` is cancelled; after an error it tries again.
    async fn attend(&self, spec: &RunSpec, stop: &CancellationToken) {
        let run = &spec.run;
        if !knows(&spec.version) {
            let (theirs, ours) = (&spec.version, version());
            tracing::warn!(%run, theirs, ours, "this node leaves a run of another version to other nodes");
            return;
        }
        loop {
            match Box::pin(self.sit(spec, stop)).await {
                Ok(()) => return,
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::error!(%run, error, "the roles of a run failed on this node; trying again");
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(limits::ROLE_PAUSE) => {}
            }
        }
    }

    async fn sit(&self, spec: &RunSpec, stop: &CancellationToken) -> Result<()> {
        let run = &spec.run;
        let mut settings: Settings = serde_json::from_str(&spec.settings_json)
            .with_context(|| format!("the settings of run {run} cannot be read"))?;
        let job = match spec.trains {
            true => Job::Train,
            false => Job::Search,
        };
        let kind = settings.generator.kind;
        let roles: Vec<Hosted> = job
            .roles(kind)
            .filter(|role| self.roles.contains(role) && settings.is_hosted(*role))
            .filter(|role| can(*role, kind))
            .collect();
        if roles.is_empty() || RoleLease::is_over(&self.host.bus, run, "archive").await? {
            return Ok(());
        }
        if let Some(theirs) = &spec.store
            && self.host.store.identity().await? != *theirs
        {
            let why = another_store(run, &self.host.store);
            tracing::warn!(%run, why, "this node leaves the run to other nodes");
            return Ok(());
        }
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let model = |role: &Hosted| *role != Hosted::Archive && kind.has_policy();
        if roles.iter().any(model) {
            export::unbundle(&spec.model, &self.host.store, folder.path()).await?;
            folder.path().clone_into(&mut settings.generator.model);
        }
        let context = self.context(spec, settings, folder.path())?;
        let told = Told {
            finished: CancellationToken::new(),
            ended: CancellationToken::new(),
            elapsed: watch::Sender::new(0.0),
        };
        let mut specs = Vec::new();
        for role in &roles {
            specs.push(roles::single(*role, job, &context, &told, None)?);
        }
        if !roles.contains(&Hosted::Archive) {
            specs.push(roles::follower(&context, &told, 0.0));
        }
        tracing::info!(%run, ?roles, "this node has roles of a run");
        let mut node = Node::start(context, specs, CancellationToken::new()).await?;
        let failed = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            () = told.finished.cancelled() => None,
            state = node.wait() => Some(state),
        };
        let closed = node.close(self.grace).await;
        match failed.unwrap_or(closed) {
            RoleState::Failed(why) => anyhow::bail!(why),
            _ => {
                tracing::info!(%run, "this node has no role of the run any more");
                Ok(())
            }
        }
    }

    fn context(&self, spec: &RunSpec, settings: Settings, folder: &Path) -> Result<Arc<Context>> {
        let mut problems = paths::announced(spec, &settings)?.into_iter().map(Arc::new);
        let problem = problems.next().context("a run has a problem")?;
        let others = problems.collect();
        Ok(Context::new(Parts {
            run: spec.run.clone(),
            settings,
            folder: folder.to_owned(),
            problem,
            others,
            toolchain: comparability::workers_toolchain(),
            // Programs are measured by the run's machine class, not by this node's.
            host: Host {
                machine_class: spec.machine_class.clone(),
                ..self.host.clone()
            },
        }))
    }
}

/// True if this build can run the role: without libtorch it has neither a learner nor a policy.
fn can(role: Hosted, kind: GeneratorKind) -> bool {
    cfg!(feature = "torch") || role == Hosted::Archive || !kind.has_policy()
}
