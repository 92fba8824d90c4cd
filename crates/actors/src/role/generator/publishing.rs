//! Publishes answers as they end.

use std::time::Instant;

use flopsmith_bus::{Delivery, ErrorClass};
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{
    Candidate, CandidateRef, Digest, InfrastructureCause, PolicyVersion, RawAnswer, Request,
    Rollout, Task, Verdict, subjects,
};
use tracing::{Instrument, Span};

use super::span_of;
use crate::answer::{Answer, Ended};
use crate::error::Error;
use crate::host::Decided;
use crate::node::Context;

/// Number of answers without a program whose text is kept per step: a model that gives only such answers must not fill
/// disk and bus.
const KEPT: usize = 8;

/// A task that is being answered.
pub(super) struct Open {
    /// None once all answers to it are published.
    delivery: Option<Delivery<Task>>,
    span: Span,
    published: u32,
}

impl Open {
    pub(super) fn new(delivery: Delivery<Task>) -> Self {
        let span = span_of(&delivery);
        Self {
            delivery: Some(delivery),
            span,
            published: 0,
        }
    }

    /// Acknowledges the task.
    async fn done(&mut self, started: Instant) -> Result<(), Error> {
        match self.delivery.take() {
            Some(delivery) => {
                self.span.record("seconds", started.elapsed().as_secs_f64());
                Ok(delivery.done().await?)
            }
            None => Ok(()),
        }
    }
}

/// Publishes the answers to some tasks.
pub(super) struct Publishing<'a> {
    pub(super) context: &'a Context,
    /// The step whose raw answers were kept last, and the number of answers kept of it.
    pub(super) kept: &'a mut (u64, usize),
    pub(super) version: Option<PolicyVersion>,
    pub(super) open: Vec<Open>,
}

impl Publishing<'_> {
    /// Publishes answers, and acknowledges the tasks that have all of theirs.
    pub(super) async fn publish(
        &mut self,
        mut ends: Vec<Ended>,
        started: Instant,
    ) -> Result<(), Error> {
        ends.sort_by_key(|end| (end.task, end.sample));
        let mut ends = ends.into_iter().peekable();
        while let Some(task) = ends.peek().map(|end| end.task) {
            let mut of_task = Vec::new();
            while let Some(end) = ends.next_if(|end| end.task == task) {
                of_task.push((end.sample, end.answer));
            }
            let Some(open) = self.open.get_mut(task) else {
                continue;
            };
            let Some(delivery) = &open.delivery else {
                continue;
            };
            let count = u32::try_from(of_task.len()).unwrap_or(u32::MAX);
            let message = delivery.message();
            publish(self.context, self.kept, self.version, message, of_task)
                .instrument(open.span.clone())
                .await?;
            open.published = open.published.saturating_add(count);
            if open.published >= message.group_size {
                open.done(started).await?;
            }
        }
        Ok(())
    }

    /// Acknowledges the tasks for which nothing more comes.
    pub(super) async fn end(&mut self, started: Instant) -> Result<(), Error> {
        for open in &mut self.open {
            open.done(started).await?;
        }
        Ok(())
    }

    /// Hands back the tasks that lack answers, because the node stops.
    pub(super) async fn hand_back(self) -> Result<(), Error> {
        for delivery in self.open.into_iter().filter_map(|open| open.delivery) {
            delivery.retry(ErrorClass::Shutdown).await?;
        }
        Ok(())
    }
}

/// Publishes answers to a task. A missing one is the infrastructure's fault.
async fn publish(
    context: &Context,
    kept: &mut (u64, usize),
    version: Option<PolicyVersion>,
    task: &Task,
    answers: Vec<(u32, Result<Answer, String>)>,
) -> Result<(), Error> {
    let mut rollouts = Vec::new();
    let mut candidates = Vec::with_capacity(answers.len());
    let mut asked = Vec::new();
    for (sample, answer) in answers {
        let mut candidate = task.candidate(sample, version);
        let answer = match answer {
            Ok(answer) => answer,
            Err(why) => {
                missing(context, &candidate, why).await?;
                continue;
            }
        };
        candidate.follows = answer.parent.or(candidate.follows);
        // No answer follows an exploration sample.
        let request = answer.request.filter(|_| !candidate.exploration);
        if let Some(sampled) = answer.sampled {
            let of_source = || Digest::of(answer.source.as_bytes());
            rollouts.push(Rollout {
                candidate: candidate.clone(),
                source: request.as_ref().map_or_else(of_source, Request::digest),
                prompt_tokens: sampled.prompt,
                tokens: sampled.tokens,
                logprobs: sampled.logprobs,
                finished: sampled.finished,
            });
        }
        if let Some(request) = request {
            asked.push((candidate, request));
            continue;
        }
        candidates.push(Candidate {
            candidate,
            source: answer.source,
            answer: answer.raw.map(|raw| keep_few(kept, task.step, raw)),
        });
    }
    let bus = &context.host.bus;
    // Rollouts are published first, so that an outcome never waits for tokens that were lost.
    bus.publish_many(&subjects::rollout(&task.run), &rollouts)
        .await?;
    for (candidate, request) in asked {
        context.host.publish_asked(&candidate, request).await?;
    }
    let compile = Queue::compile(&task.machine_class).of(&task.run);
    Ok(bus.publish_many(&compile, &candidates).await?)
}

/// Publishes the outcome of a candidate that the source could not write.
async fn missing(context: &Context, candidate: &CandidateRef, detail: String) -> Result<(), Error> {
    tracing::warn!(candidate = %candidate.id, detail, "the source has no answer");
    let decided = Decided {
        candidate,
        source: "",
        techniques: None,
        vector_bits: None,
        verdict: Verdict::Infrastructure {
            cause: InfrastructureCause::Generator,
            detail,
        },
        stage_seconds: [0.0; 3],
        object: None,
        key: None,
    };
    context.host.publish_outcome(decided).await
}

/// Keeps the text of [`KEPT`] raw answers of each step; of the others only the length and the kind of ending stay.
fn keep_few(kept: &mut (u64, usize), step: u64, raw: RawAnswer) -> RawAnswer {
    if kept.0 != step {
        *kept = (step, 0);
    }
    let keep = kept.1 < KEPT;
    kept.1 += usize::from(keep);
    if keep { raw } else { raw.without_text() }
}
