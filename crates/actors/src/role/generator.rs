//! Generator: task → rollouts and candidates.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use flopsmith_bus::{Delivery, ErrorClass, Worker};
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{
    Candidate, CandidateId, CandidateRef, Digest, Outcome, PolicyPublished, PolicyVersion, Purpose,
    Rollout, Task, subjects,
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::Role;
use crate::answer::{Answer, Source};
use crate::error::Error;
use crate::node::Context;
use crate::trace::task_span;

/// Tasks that are answered in one batch.
const BATCH: usize = 16;
/// How long the rest of a step's tasks may take to come where other nodes may have them.
const SHARED: Duration = Duration::from_millis(30);
/// The same where nobody else can: those that are answered together are then the same ones in every run, bit by bit, since sums in
/// matrix products may be rounded in another way beside other prompts. After a restart some do not come, as they were answered before.
const ALONE: Duration = Duration::from_secs(2);
/// A task comes when what it rests on is in the log of outcomes. Where that has not been read so long after, it is not there any more.
const HEARING: Duration = Duration::from_secs(10);
/// Answers without a program whose text is kept, of each step: a model whose answers all are such must not fill disk and bus.
const KEPT: usize = 8;

/// Answers tasks with the programs of a source.
pub struct Generator {
    context: Arc<Context>,
    source: Box<dyn Source>,
    policy: &'static str,
    /// Outcomes that the source was not told yet, with their places in the log.
    untold: VecDeque<(u64, Outcome)>,
    /// The newest step with a task that was answered here, and how many of its tasks were.
    answered: (u64, usize),
    /// The step that raw answers were kept of last, and how many of it.
    kept: (u64, usize),
}

impl Generator {
    /// A generator for tasks addressed to `policy`.
    pub fn new(context: Arc<Context>, source: Box<dyn Source>, policy: &'static str) -> Self {
        Self {
            context,
            source,
            policy,
            untold: VecDeque::new(),
            answered: (0, 0),
            kept: (0, 0),
        }
    }
}

#[async_trait]
impl Role for Generator {
    async fn run(&mut self, stop: CancellationToken) -> Result<(), Error> {
        let context = Arc::clone(&self.context);
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
        // What was tried and published before is known before the first task is answered.
        let past = async { Ok::<_, Error>((versions.replay().await?, outcomes.replay().await?)) };
        let (published, decided) = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            past = past => past?,
        };
        self.untold = decided.into();
        let last = published.into_iter().map(|(_, published)| published);
        if let Some(last) = last.max_by_key(|published| published.version) {
            newest = Some(self.take_up(last).await?);
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
            let heard = held.iter().map(|d| d.message().heard).max().unwrap_or(0);
            let heard = heard <= outcomes.place() || since.elapsed() > HEARING;
            let ready = heard && !held.is_empty() && self.serves(&held);
            let full = ready && held.len() >= wanted.min(BATCH);
            if full {
                self.answer(std::mem::take(&mut held)).await?;
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
                        newest = Some(self.take_up(published).await?);
                    }
                }
                outcome = outcomes.next() => self.untold.push_back(outcome?),
                delivery = worker.next(), if held.len() < BATCH => {
                    let Some(delivery) = delivery else { break };
                    held.push(delivery);
                    since = Instant::now();
                }
                // The log may have been read as far without an outcome that is new.
                () = tokio::time::sleep(Duration::from_millis(100)), if !heard => {}
                // The rest of the step does not come (another node has it): begin with what is here.
                () = tokio::time::sleep(rest), if ready => {
                    self.answer(std::mem::take(&mut held)).await?;
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
    /// Tells the source how programs did whose outcomes stand in the log up to a place. A failure of the infrastructure says nothing
    /// about a program.
    fn hear(&mut self, place: u64) {
        while let Some((at, _)) = self.untold.front()
            && *at <= place
            && let Some((_, outcome)) = self.untold.pop_front()
        {
            if outcome.verdict.counts() {
                let gflops = outcome.verdict.measurement().map(|m| m.gflops);
                self.source.heard(&outcome.source, gflops);
            }
        }
    }

    /// Gives the source the weights of `published`, or those of the newest version where these were superseded and removed
    /// before they could be read. Returns the version it has now.
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
            // Read anew: a reader that stands in the middle does not know how far the log goes by now.
            let mut versions = context.host.bus.log::<PolicyPublished>(&subject, 0).await?;
            let later = versions.replay().await?.into_iter().map(|(_, later)| later);
            match later.max_by_key(|later| later.version) {
                Some(later) if later.version > published.version => published = later,
                _ => return Err(missing),
            }
        }
    }

    /// Is the source's policy new enough for every task?
    fn serves(&self, held: &[Delivery<Task>]) -> bool {
        let oldest = self.source.version();
        held.iter().all(|d| {
            d.message().purpose == Purpose::Search
                || oldest.is_some_and(|v| d.message().min_policy <= v)
        })
    }

    /// Tasks of the same step that were not answered here yet, this one among them.
    fn left(&self, task: &Task) -> usize {
        let all = task.tasks_in_step as usize;
        match self.answered {
            (step, answered) if step == task.step => all.saturating_sub(answered).max(1),
            _ => all,
        }
    }

    /// Answers tasks, those first that rest on less, and in the order of their numbers.
    async fn answer(&mut self, mut deliveries: Vec<Delivery<Task>>) -> Result<(), Error> {
        deliveries.sort_by_key(|delivery| {
            let task = delivery.message();
            (task.heard, task.step, task.id.group())
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
            let heard = first.message().heard;
            let alike = deliveries.partition_point(|d| d.message().heard == heard);
            let later = deliveries.split_off(alike);
            // A task of an earlier version does not say it: then whatever is known.
            self.hear(if heard == 0 { u64::MAX } else { heard });
            self.answer_alike(std::mem::replace(&mut deliveries, later))
                .await?;
        }
        Ok(())
    }

    /// Answers tasks that rest on the same outcomes.
    async fn answer_alike(&mut self, deliveries: Vec<Delivery<Task>>) -> Result<(), Error> {
        let tasks: Vec<Task> = deliveries.iter().map(|d| d.message().clone()).collect();
        let spans: Vec<Span> = deliveries.iter().map(span_of).collect();
        let host = &self.context.host;
        let cores = host.policy_cores(&self.context.settings);
        let lease = host.cores.some("generate", cores).await;
        let started = Instant::now();
        let answers = self.source.answer(&self.context.problem, &tasks).await?;
        // The tasks of a batch are answered together, so each took as long as all.
        let seconds = started.elapsed().as_secs_f64();
        drop(lease);
        let version = self.source.version();
        let step = tasks.first().map(|task| task.step);
        tracing::info!(step, tasks = tasks.len(), seconds, "tasks are answered");
        for ((delivery, span), mut answers) in deliveries.into_iter().zip(spans).zip(answers) {
            span.record("seconds", seconds);
            self.keep_few(delivery.message().step, &mut answers);
            self.publish(delivery, answers, version)
                .instrument(span)
                .await?;
        }
        Ok(())
    }

    /// Leaves the text of [`KEPT`] raw answers of each step, and of the others how long they are and how they ended.
    fn keep_few(&mut self, step: u64, answers: &mut [Answer]) {
        if self.kept.0 != step {
            self.kept = (step, 0);
        }
        for answer in answers {
            let Some(raw) = answer.raw.take() else {
                continue;
            };
            let keep = self.kept.1 < KEPT;
            self.kept.1 += usize::from(keep);
            answer.raw = Some(if keep { raw } else { raw.without_text() });
        }
    }

    /// Publishes the answers to a task, and then lets it go.
    async fn publish(
        &self,
        delivery: Delivery<Task>,
        answers: Vec<Answer>,
        version: Option<PolicyVersion>,
    ) -> Result<(), Error> {
        let task = delivery.message();
        let mut rollouts = Vec::new();
        let mut candidates = Vec::with_capacity(answers.len());
        for (sample, answer) in (0u32..).zip(answers) {
            let candidate = candidate_ref(task, sample, version);
            if let Some(sampled) = answer.sampled {
                rollouts.push(Rollout {
                    candidate: candidate.clone(),
                    source: Digest::of(answer.source.as_bytes()),
                    prompt_tokens: sampled.prompt,
                    tokens: sampled.tokens,
                    logprobs: sampled.logprobs,
                    finished: sampled.finished,
                });
            }
            candidates.push(Candidate {
                candidate,
                source: answer.source,
                answer: answer.raw,
            });
        }
        // The rollout goes first: an outcome never waits for tokens that were lost.
        self.context
            .host
            .bus
            .publish_many(&subjects::rollout(&task.run), &rollouts)
            .await?;
        self.context
            .host
            .bus
            .publish_many(
                &Queue::compile(&task.machine_class).of(&task.run),
                &candidates,
            )
            .await?;
        Ok(delivery.done().await?)
    }
}

fn span_of(delivery: &Delivery<Task>) -> Span {
    let span = task_span!("generate", delivery.message(), attempt = delivery.attempt());
    delivery.continue_trace(span)
}

pub(crate) fn candidate_ref(
    task: &Task,
    sample: u32,
    version: Option<PolicyVersion>,
) -> CandidateRef {
    CandidateRef {
        id: CandidateId::of(&task.id, sample),
        run: task.run.clone(),
        task: task.id.clone(),
        step: task.step,
        tasks_in_step: task.tasks_in_step,
        group: task.group.clone(),
        group_size: task.group_size,
        sample,
        problem: task.problem.clone(),
        stage: task.stage,
        permitted: task.permitted,
        purpose: task.purpose,
        policy: version,
        remeasures: None,
        machine_class: task.machine_class.clone(),
        explorer: task.explores(sample),
        finalist: false,
    }
}
