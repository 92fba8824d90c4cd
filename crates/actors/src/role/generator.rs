//! Generator: task → rollouts and candidates.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use flopsmith_bus::{Delivery, ErrorClass, Worker};
use flopsmith_problem::Problem;
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{Outcome, PolicyPublished, Purpose, Task, subjects};
use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::Role;
use crate::answer::{Answers, Source};
use crate::error::Error;
use crate::host::PolicyLease;
use crate::node::Context;
use crate::pool::Unleased;
use crate::stream;
use crate::trace::task_span;

mod publishing;

use publishing::{Open, Publishing};

/// Tasks that are answered in one batch.
const BATCH: usize = 16;
/// Longest wait for the rest of a step's tasks if other nodes may have them.
const SHARED: Duration = Duration::from_millis(30);
/// The same wait if no other node can have them. The same tasks are then answered together in every run, so the results
/// are equal bit by bit: sums in matrix products may be rounded differently in a batch with other prompts. After a
/// restart some tasks do not come, because they were answered before.
const ALONE: Duration = Duration::from_secs(2);
/// Longest wait for the outcomes on which a task rests. They were in the log before the task was published; if they
/// have not been read after this time, the log no longer has them.
const OUTCOMES_WAIT: Duration = Duration::from_secs(10);
/// Answers that are published together, at most.
const MANY: usize = 1024;

/// Answers tasks with the programs of a source.
pub struct Generator {
    context: Arc<Context>,
    source: Box<dyn Source>,
    policy: &'static str,
    /// Outcomes that the source has not received yet, with their places in the log.
    unseen: VecDeque<(u64, Outcome)>,
    /// The newest step with a task that was answered here, and the number of its tasks that were answered here.
    answered: (u64, usize),
    /// The step whose raw answers were kept last, and the number of answers kept of it.
    kept: (u64, usize),
}

impl Generator {
    /// A generator for tasks addressed to `policy`.
    pub fn new(context: Arc<Context>, source: Box<dyn Source>, policy: &'static str) -> Self {
        Self {
            context,
            source,
            policy,
            unseen: VecDeque::new(),
            answered: (0, 0),
            kept: (0, 0),
        }
    }
}

#[async_trait]
impl Role for Generator {
    async fn run(&mut self, stop: CancellationToken) -> Result<(), Error> {
        let context = Arc::clone(&self.context);
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            begun = self.source.begin() => begun?,
        }
        let mut versions = context
            .host
            .bus
            .log::<PolicyPublished>(&subjects::policy(&context.run), 0)
            .await?;
        let mut outcomes = context
            .host
            .bus
            .log::<Outcome>(&subjects::outcome(&context.run), 0)
            .await?;
        let mut newest: Option<PolicyPublished> = None;
        self.source
            .set_cores(context.host.policy_cores(&context.settings));
        // The source gets all earlier versions and outcomes before the first task is answered.
        let past = async { Ok::<_, Error>((versions.replay().await?, outcomes.replay().await?)) };
        let (published, decided) = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            past = past => past?,
        };
        for (_, outcome) in &decided {
            self.source.decided_before(outcome);
        }
        self.unseen = decided.into();
        let last = published.into_iter().map(|(_, published)| published);
        if let Some(last) = last.max_by_key(|published| published.version) {
            newest = self.take_up_unless(&stop, last).await?;
            if newest.is_none() {
                return Ok(());
            }
        }
        let mut worker: Worker<Task> = context
            .host
            .own_worker(&Queue::generate(self.policy).of(&context.run), BATCH)
            .await?;
        let rest = match context.host.bus.is_private() {
            true => ALONE,
            false => SHARED,
        };
        let mut held: Vec<Delivery<Task>> = Vec::new();
        let mut since = Instant::now();
        loop {
            let wanted = held.iter().map(|d| self.left(d.message())).min();
            let wanted = wanted.unwrap_or(usize::MAX);
            let needed = held.iter().map(|d| d.message().outcomes_seen).max();
            let seen = needed.unwrap_or(0) <= outcomes.place() || since.elapsed() > OUTCOMES_WAIT;
            let ready = seen && !held.is_empty() && self.serves(&held);
            let full = ready && held.len() >= wanted.min(BATCH);
            if full {
                self.answer(std::mem::take(&mut held), &stop).await?;
                continue;
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                published = versions.next() => {
                    let (_, published) = published?;
                    if newest.as_ref().is_none_or(|n| n.version < published.version) {
                        newest = Some(published);
                    }
                    if let Some(published) = &newest
                        && self.source.version().is_none_or(|v| v < published.version)
                        && held.iter().all(|d| d.message().min_policy <= published.version)
                    {
                        let published = published.clone();
                        newest = self.take_up_unless(&stop, published).await?;
                        if newest.is_none() {
                            break;
                        }
                    }
                }
                outcome = outcomes.next() => self.unseen.push_back(outcome?),
                delivery = worker.next(), if held.len() < BATCH => {
                    let Some(delivery) = delivery else { break };
                    held.push(delivery);
                    since = Instant::now();
                }
                // The reader may advance in the log without returning a new outcome, so its place is checked again.
                () = tokio::time::sleep(Duration::from_millis(100)), if !seen => {}
                // The rest of the step does not come (another node has it): begin with the held tasks.
                () = tokio::time::sleep(rest), if ready => {
                    self.answer(std::mem::take(&mut held), &stop).await?;
                }
            }
        }
        for delivery in held {
            delivery.retry(ErrorClass::Shutdown).await?;
        }
        Ok(())
    }
}

impl Generator {
    /// Reports the outcomes up to a place in the log to the source. A failure of the infrastructure says nothing about
    /// a program and is left out.
    fn report_outcomes(&mut self, place: u64) {
        while let Some((at, _)) = self.unseen.front()
            && *at <= place
            && let Some((_, outcome)) = self.unseen.pop_front()
        {
            if outcome.verdict.counts() {
                self.source.outcome_reported(&outcome);
            }
        }
    }

    /// [`Self::take_up`]; none if the node stops before a server has taken the weights.
    async fn take_up_unless(
        &mut self,
        stop: &CancellationToken,
        published: PolicyPublished,
    ) -> Result<Option<PolicyPublished>, Error> {
        let computes = self.source.computes();
        tokio::select! {
            biased;
            () = stop.cancelled(), if !computes => Ok(None),
            taken = self.take_up(published) => taken.map(Some),
        }
    }

    /// Gives the source the weights of `published`. If these were superseded and removed before they could be read, the
    /// source gets the newest version instead. Returns the version that the source has now.
    async fn take_up(&mut self, mut published: PolicyPublished) -> Result<PolicyPublished, Error> {
        let context = Arc::clone(&self.context);
        let subject = subjects::policy(&context.run);
        loop {
            let updated = self
                .source
                .update(published.version, &published.weights)
                .await;
            let missing = match updated {
                Ok(()) => return Ok(published),
                Err(error @ Error::Store(flopsmith_store::Error::Missing { .. })) => error,
                Err(error) => return Err(error),
            };
            // A new reader: a reader in the middle of the log does not know the log's current end.
            let mut versions = context.host.bus.log::<PolicyPublished>(&subject, 0).await?;
            let later = versions.replay().await?.into_iter().map(|(_, later)| later);
            match later.max_by_key(|later| later.version) {
                Some(later) if later.version > published.version => published = later,
                _ => return Err(missing),
            }
        }
    }

    /// True if the source's policy is new enough for every task.
    fn serves(&self, held: &[Delivery<Task>]) -> bool {
        let oldest = self.source.version();
        held.iter().all(|d| {
            d.message().purpose == Purpose::Search
                || oldest.is_some_and(|v| d.message().min_policy <= v)
        })
    }

    /// Number of tasks of the same step that were not answered here yet, this one included.
    fn left(&self, task: &Task) -> usize {
        let all = task.tasks_in_step as usize;
        match self.answered {
            (step, answered) if step == task.step => all.saturating_sub(answered).max(1),
            _ => all,
        }
    }

    /// Answers tasks: first those that rest on fewer outcomes, then in the order of their steps and numbers.
    async fn answer(
        &mut self,
        mut deliveries: Vec<Delivery<Task>>,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        deliveries.sort_by_key(|delivery| {
            let task = delivery.message();
            (task.outcomes_seen, task.step, task.id.group())
        });
        for delivery in &deliveries {
            let step = delivery.message().step;
            let before = if step == self.answered.0 {
                self.answered.1
            } else {
                0
            };
            self.answered = (step, before + 1);
        }
        while let Some(first) = deliveries.first() {
            let seen = first.message().outcomes_seen;
            let alike = deliveries.partition_point(|d| d.message().outcomes_seen == seen);
            let later = deliveries.split_off(alike);
            self.report_outcomes(seen);
            let alike = std::mem::replace(&mut deliveries, later);
            self.answer_alike(alike, stop).await?;
        }
        Ok(())
    }

    /// Answers tasks that rest on the same outcomes, and publishes each answer as it ends.
    async fn answer_alike(
        &mut self,
        deliveries: Vec<Delivery<Task>>,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let Self {
            context,
            source,
            kept,
            ..
        } = self;
        let context: &Context = context;
        let tasks: Vec<Task> = deliveries.iter().map(|d| d.message().clone()).collect();
        let computes = source.computes();
        let mut occupied = Some(Occupied::of(context, computes).await);
        let started = Instant::now();
        let fresh = stream::of_tasks(context, &tasks)?;
        let problems = context.problems().map(|of| &*of.problem);
        let problems: Vec<&Problem> = problems.chain(&fresh).collect();
        let version = source.version();
        let mut publishing = Publishing {
            context,
            kept,
            version,
            open: deliveries.into_iter().map(Open::new).collect(),
        };
        let (answers, mut ended) = Answers::new();
        let mut answering = source.answer_each(&problems, &tasks, &answers);
        let mut ends = Vec::new();
        loop {
            tokio::select! {
                biased;
                // Requests to a server may take longer than a node may take to stop.
                () = stop.cancelled(), if !computes => return publishing.hand_back().await,
                _ = ended.recv_many(&mut ends, MANY) => {
                    publishing.publish(std::mem::take(&mut ends), started).await?;
                }
                answered = &mut answering, if occupied.is_some() => {
                    answered?;
                    occupied = None;
                }
                // Nothing more comes.
                () = std::future::ready(()), if occupied.is_none() => break,
            }
        }
        publishing.end(started).await?;
        let seconds = started.elapsed().as_secs_f64();
        let step = tasks.first().map(|task| task.step);
        tracing::info!(step, tasks = tasks.len(), seconds, "tasks are answered");
        Ok(())
    }
}

/// The resource of this node that a source holds while it answers.
enum Occupied {
    Leased { _lease: PolicyLease },
    Unleased { _work: Unleased },
}

impl Occupied {
    async fn of(context: &Context, computes: bool) -> Self {
        let host = &context.host;
        match computes {
            true => Self::Leased {
                _lease: host.policy_lease("generate", &context.settings).await,
            },
            false => Self::Unleased {
                _work: host.cores.unleased("generate"),
            },
        }
    }
}

fn span_of(delivery: &Delivery<Task>) -> Span {
    let span = task_span!("generate", delivery.message(), attempt = delivery.attempt());
    delivery.continue_trace(span)
}
