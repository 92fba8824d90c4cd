//! Starts roles as ractor actors and starts them again when they fail.
//!
//! A failed role is made anew after a delay that doubles with each failure in the window. A role that fails too often
//! ends the node, and the node reports the role's last error. So does a role whose failure a restart would repeat
//! ([`Error::is_final`]). Roles hold no state that a restart would lose: their state is on the bus and in the store.
//!
//! Drain order: all roles are told to stop at once, except those that leave last ([`Role::leaves_last`]). These are
//! told to stop when no other role is left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flopsmith_coordination::restart::Failures;
pub use flopsmith_coordination::restart::Limits;
use futures::future::BoxFuture;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::role::Role;

/// Makes a role; called again for every restart.
pub type Factory = Arc<dyn Fn() -> BoxFuture<'static, Result<Box<dyn Role>, Error>> + Send + Sync>;

/// A role to supervise.
#[derive(Clone)]
pub struct Spec {
    /// Its name in logs and reports.
    pub name: &'static str,
    /// How it is made.
    pub factory: Factory,
}

/// The state of all supervised roles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoleState {
    /// At least one role runs.
    Running,
    /// Every role has drained.
    Drained,
    /// A role failed too often; the others were told to stop.
    Failed(String),
}

/// A handle on supervised roles.
pub struct Supervised {
    role_state: watch::Receiver<RoleState>,
    stop: CancellationToken,
    actor: ActorRef<Message>,
}

impl Supervised {
    /// Tells every role to drain.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until every role has drained or one has failed too often.
    pub async fn wait(&mut self) -> RoleState {
        let found = self.role_state.wait_for(|s| *s != RoleState::Running).await;
        found.map(|s| s.clone()).unwrap_or(RoleState::Drained)
    }

    /// Tells every role to drain, and waits for that at most `grace`.
    pub async fn close(mut self, grace: Duration) -> RoleState {
        self.stop();
        let role_state = tokio::time::timeout(grace, self.wait()).await;
        self.actor.stop(None);
        role_state
            .unwrap_or_else(|_| RoleState::Failed(format!("a role did not drain within {grace:?}")))
    }
}

/// True while a cause outside of the node makes its roles fail, such as a broker that is away.
pub type Excuse = Arc<dyn Fn() -> bool + Send + Sync>;

/// Starts `specs` under one supervisor. A failure while there is an `excuse` is not counted: the role is started again,
/// at a slow pace, for as long as the excuse lasts.
pub async fn supervise(
    specs: Vec<Spec>,
    limits: Limits,
    excuse: Excuse,
    stop: CancellationToken,
) -> Result<Supervised, Error> {
    let (sender, role_state) = watch::channel(RoleState::Running);
    let arguments = Arguments {
        others: watch::Sender::new(specs.len()),
        specs,
        limits,
        excuse,
        stop: stop.clone(),
        role_state: sender,
    };
    let (actor, _join) = Actor::spawn(None, Supervisor, arguments)
        .await
        .map_err(|e| Error::Spawn(e.to_string()))?;
    Ok(Supervised {
        role_state,
        stop,
        actor,
    })
}

struct Supervisor;

struct Arguments {
    specs: Vec<Spec>,
    limits: Limits,
    excuse: Excuse,
    stop: CancellationToken,
    role_state: watch::Sender<RoleState>,
    /// Number of roles that are left and do not leave last.
    others: watch::Sender<usize>,
}

struct State {
    roles: Vec<Supervisee>,
    /// The origin of the moments at which roles failed.
    began: Instant,
    limits: Limits,
    excuse: Excuse,
    stop: CancellationToken,
    role_state: watch::Sender<RoleState>,
    /// Number of roles that are left and do not leave last.
    others: watch::Sender<usize>,
}

struct Supervisee {
    spec: Spec,
    actor: Option<ractor::ActorId>,
    failures: Failures,
    drained: bool,
    /// True if the role leaves last; known once the role was made.
    last: bool,
}

/// A message to the supervisor.
#[derive(Debug)]
pub enum Message {
    /// Start the role with this index.
    Start(usize),
}

impl Actor for Supervisor {
    type Msg = Message;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        arguments: Arguments,
    ) -> Result<State, ActorProcessingErr> {
        for index in 0..arguments.specs.len() {
            myself.cast(Message::Start(index))?;
        }
        Ok(State {
            roles: arguments
                .specs
                .into_iter()
                .map(|spec| Supervisee {
                    spec,
                    actor: None,
                    failures: Failures::default(),
                    drained: false,
                    last: false,
                })
                .collect(),
            began: Instant::now(),
            limits: arguments.limits,
            excuse: arguments.excuse,
            stop: arguments.stop,
            role_state: arguments.role_state,
            others: arguments.others,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        Message::Start(index): Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        // A role that leaves last has work to do even after the stop.
        if state.stop.is_cancelled() && !state.roles[index].last {
            state.roles[index].drained = true;
            state.settle();
            return Ok(());
        }
        let factory = Arc::clone(&state.roles[index].spec.factory);
        let name = state.roles[index].spec.name;
        let started = match factory().await {
            Ok(role) => {
                state.roles[index].last = role.leaves_last();
                state.settle();
                let employed = Employed {
                    role,
                    stop: state.stop.clone(),
                    others: state.others.subscribe(),
                };
                Actor::spawn_linked(None, RoleActor, employed, myself.get_cell())
                    .await
                    .map_err(|e| e.to_string())
            }
            Err(e) => Err(words(&e)),
        };
        match started {
            Ok((actor, _join)) => {
                state.roles[index].actor = Some(actor.get_id());
                actor.cast(Run)?;
            }
            Err(last) => state.failed(index, name, last, &myself),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Message>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorTerminated(cell, _, _) => {
                if let Some(index) = state.index_of(cell.get_id()) {
                    state.roles[index].actor = None;
                    state.roles[index].drained = true;
                    state.settle();
                }
            }
            SupervisionEvent::ActorFailed(cell, error) => {
                if let Some(index) = state.index_of(cell.get_id()) {
                    let name = state.roles[index].spec.name;
                    state.roles[index].actor = None;
                    let how = error.downcast_ref::<Ended>().map(|e| (e.replaced, e.last));
                    match how {
                        Some((true, _)) => {
                            state.over(index, format!("the {name} was replaced: {error}"));
                        }
                        Some((_, true)) => {
                            tracing::error!(role = name, %error, "role ended");
                            state.over(index, error.to_string());
                        }
                        _ => state.failed(index, name, error.to_string(), &myself),
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl State {
    fn index_of(&self, id: ractor::ActorId) -> Option<usize> {
        self.roles.iter().position(|r| r.actor == Some(id))
    }

    fn failed(
        &mut self,
        index: usize,
        name: &'static str,
        last: String,
        myself: &ActorRef<Message>,
    ) {
        if (self.excuse)() {
            let delay = self.limits.outage;
            tracing::warn!(role = name, error = %last, delay_ms = delay.as_millis() as u64, "a role failed while the bus was unreachable; it is started again");
            myself.send_after(delay, move || Message::Start(index));
            return;
        }
        let role = &mut self.roles[index];
        match role.failures.add(self.began.elapsed(), &self.limits) {
            Some(delay) => {
                tracing::warn!(role = name, error = %last, delay_ms = delay.as_millis() as u64, "a role failed; it is started again");
                myself.send_after(delay, move || Message::Start(index));
            }
            None => {
                let error = Error::TooOften {
                    role: name,
                    times: role.failures.count(),
                    last,
                };
                tracing::error!(role = name, %error, "a role failed too often");
                self.over(index, error.to_string());
            }
        }
    }

    /// Ends the node, because a role cannot go on.
    fn over(&mut self, index: usize, why: String) {
        self.roles[index].drained = true;
        self.stop.cancel();
        self.role_state.send_replace(RoleState::Failed(why));
        self.settle();
    }

    /// Publishes how many roles are left.
    fn settle(&mut self) {
        let others = self.roles.iter().filter(|r| !r.drained && !r.last).count();
        self.others.send_replace(others);
        if self.roles.iter().all(|r| r.drained) {
            self.role_state.send_if_modified(|s| {
                let running = *s == RoleState::Running;
                if running {
                    *s = RoleState::Drained;
                }
                running
            });
        }
    }
}

/// The end of a role that did not drain.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
struct Ended {
    words: String,
    /// Another process does the role's work now: a restarted role would only wait for that process to end.
    replaced: bool,
    /// A restarted role would end in the same way.
    last: bool,
}

struct RoleActor;

#[derive(Debug)]
struct Run;

/// A role and its stop signals.
struct Employed {
    role: Box<dyn Role>,
    stop: CancellationToken,
    others: watch::Receiver<usize>,
}

impl Actor for RoleActor {
    type Msg = Run;
    type State = Employed;
    type Arguments = Employed;

    async fn pre_start(
        &self,
        _myself: ActorRef<Run>,
        employed: Employed,
    ) -> Result<Employed, ActorProcessingErr> {
        Ok(employed)
    }

    async fn handle(
        &self,
        myself: ActorRef<Run>,
        Run: Run,
        employed: &mut Employed,
    ) -> Result<(), ActorProcessingErr> {
        let Employed { role, stop, others } = employed;
        let ended = if role.leaves_last() {
            let told = CancellationToken::new();
            let mut run = role.run(told.clone());
            tokio::select! {
                biased;
                ended = &mut run => ended,
                () = alone(stop, others) => {
                    told.cancel();
                    run.await
                }
            }
        } else {
            role.run(stop.clone()).await
        };
        ended.map_err(|error| Ended {
            replaced: matches!(error, Error::Replaced),
            last: error.is_final(),
            words: words(&error),
        })?;
        myself.stop(None);
        Ok(())
    }
}

/// Waits until the node stops and no other role is left.
async fn alone(stop: &CancellationToken, others: &mut watch::Receiver<usize>) {
    stop.cancelled().await;
    // A supervisor that is gone has no other roles either.
    let _ = others.wait_for(|left| *left == 0).await;
}

/// An error and its causes on one line, each said once: some libraries' errors quote their own causes.
pub fn words(error: &dyn std::error::Error) -> String {
    let mut text = untraced(&error.to_string()).to_owned();
    let mut source = error.source();
    while let Some(e) = source {
        let cause = e.to_string();
        let cause = untraced(&cause);
        if !text.contains(cause) {
            text.push_str(": ");
            text.push_str(cause);
        }
        source = e.source();
    }
    text
}

/// The text of an error without libtorch's stack trace, which tells a user nothing.
pub fn untraced(words: &str) -> &str {
    const WAYS: [&str; 2] = ["\nException raised from", "\nframe #0: "];
    let end = WAYS.iter().filter_map(|way| words.find(way)).min();
    words[..end.unwrap_or(words.len())].trim_end()
}

#[cfg(test)]
mod tests;
