//! Compiler: candidate → compiled, or an outcome.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use flopsmith_bus::{Delivery, ErrorClass, Worker};
use flopsmith_compile::Built;
use flopsmith_coordination::duplicates::TAKEOVER_AFTER;
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{
    Candidate, CandidateFault, CandidateId, CandidateRef, Compiled, Digest, Failure,
    InfrastructureCause, TechniqueSet, Verdict,
};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::Role;
use crate::answer::without_program;
use crate::error::Error;
use crate::host::{Decided, Host};
use crate::node::Context;
use crate::outcome_cache::{BuiltBefore, Known, Lookup};
use crate::runs::{Only, Runs};
use crate::stage_failure::StageFailure;
use crate::trace::candidate_span;

/// A compile stage: [`flopsmith_compile::Compiler`], or in tests a stage that fails as they need it.
pub trait Stage: Send + Sync + 'static {
    /// Checks and compiles `source` in this language, which may use the `permitted` techniques only.
    fn compile(
        &self,
        language: Language,
        problem: &Problem,
        source: &str,
        permitted: TechniqueSet,
    ) -> Result<Built, Failure>;
}

impl Stage for flopsmith_compile::Compiler {
    fn compile(
        &self,
        language: Language,
        problem: &Problem,
        source: &str,
        permitted: TechniqueSet,
    ) -> Result<Built, Failure> {
        self.compile_as(language, problem, source, permitted)
    }
}

/// The stage context that compiles candidates for the first problem of its context.
pub struct StageContext {
    /// The run.
    pub context: Arc<Context>,
    /// The compile stage.
    pub stage: Arc<dyn Stage>,
}

/// Compiles candidates, one per core at a time.
pub struct Compiler {
    host: Host,
    stage_contexts: Arc<dyn Runs<StageContext>>,
}

impl Compiler {
    /// A compiler for one run.
    pub fn new<S: Stage>(context: Arc<Context>, stage: Arc<S>) -> Self {
        let host = context.host.clone();
        let (run, problem) = (context.run.clone(), context.first().problem.id.clone());
        let only = Only::new(run, problem, StageContext { context, stage });
        Self::for_runs(host, Arc::new(only))
    }

    /// A compiler for all runs that have work for this node.
    pub fn for_runs(host: Host, stage_contexts: Arc<dyn Runs<StageContext>>) -> Self {
        Self {
            host,
            stage_contexts,
        }
    }
}

/// At most this many duplicates wait here for the outcomes of the programs they equal.
const DUPLICATES: usize = 64;

/// A candidate with its stage context and its key.
struct Job {
    delivery: Delivery<Candidate>,
    stage_context: Arc<StageContext>,
    key: Digest,
}

/// The next action for a candidate.
enum Found {
    /// No further work is possible or needed: this is its outcome.
    Decided(Delivery<Candidate>, Box<Known>),
    /// This node cannot work for its run.
    Unfit(Delivery<Candidate>, Box<StageFailure>),
    /// A duplicate is being evaluated: wait for its outcome.
    Duplicate(Job, CandidateId),
    /// Compile it, unless it was compiled before.
    New(Job, Option<BuiltBefore>),
}

/// The held work. All of it is awaited together, because one candidate may produce the result that another one waits
/// for.
#[derive(Default)]
struct Hand {
    /// Candidates that are being looked up.
    looking: FuturesUnordered<BoxFuture<'static, Found>>,
    /// Candidates that are being compiled, and outcomes that are being published.
    running: FuturesUnordered<BoxFuture<'static, Result<(), Error>>>,
    /// Waiting duplicates. A duplicate that waited too long returns the id of the candidate that it waited for.
    parked: FuturesUnordered<BoxFuture<'static, (Job, Option<CandidateId>)>>,
}

#[async_trait]
impl Role for Compiler {
    async fn run(&mut self, stop: CancellationToken) -> Result<(), Error> {
        let slots = self.host.cores.total() as usize * 2;
        let queue = Queue::compile(&self.host.machine_class);
        let mut worker: Worker<Candidate> =
            self.host.stage_worker(&queue, slots, DUPLICATES).await?;
        let mut hand = Hand::default();
        loop {
            self.host.rest_if_due("compile", &mut worker);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(result) = hand.running.next(), if !hand.running.is_empty() => { let () = result?; }
                Some(found) = hand.looking.next(), if !hand.looking.is_empty() => {
                    self.go_on(found, &stop, &mut hand);
                }
                Some((job, instead)) = hand.parked.next(), if !hand.parked.is_empty() => {
                    job.delivery.park(false);
                    // An outcome does not always hold for a duplicate: look the duplicate up again.
                    hand.looking.push(Box::pin(look_up(self.host.clone(), job, instead)));
                }
                delivery = worker.next(), if hand.running.len() + hand.looking.len() < slots => {
                    let Some(delivery) = delivery else { break };
                    let (host, stage_contexts) = (self.host.clone(), Arc::clone(&self.stage_contexts));
                    hand.looking.push(Box::pin(take(host, stage_contexts, delivery)));
                }
            }
        }
        while let Some(found) = hand.looking.next().await {
            let delivery = match found {
                Found::Duplicate(job, _) | Found::New(job, _) => job.delivery,
                Found::Decided(delivery, _) | Found::Unfit(delivery, _) => delivery,
            };
            delivery.retry(ErrorClass::Shutdown).await?;
        }
        while let Some((job, _)) = hand.parked.next().await {
            job.delivery.retry(ErrorClass::Shutdown).await?;
        }
        while let Some(result) = hand.running.next().await {
            let () = result?;
        }
        Ok(())
    }
}

impl Compiler {
    fn go_on(&self, found: Found, stop: &CancellationToken, hand: &mut Hand) {
        let host = self.host.clone();
        match found {
            Found::Decided(delivery, known) => {
                let span = span_of(&delivery);
                let work = decide(host, delivery, *known).instrument(span);
                hand.running.push(Box::pin(work));
            }
            Found::Unfit(delivery, stage_failure) => {
                let span = span_of(&delivery);
                let work = async move {
                    let message = delivery.message().clone();
                    let decided = |verdict| undone(&message, verdict, None, 0.0);
                    host.give_up_or_retry("compile", delivery, *stage_failure, decided)
                        .await
                };
                hand.running.push(Box::pin(work.instrument(span)));
            }
            Found::Duplicate(job, holder) => {
                // Another program may use the slot. The worker asks for as many programs as can begin here and keeps no
                // others from other nodes.
                job.delivery.park(true);
                let (cache, stop) = (host.outcome_cache, stop.clone());
                hand.parked.push(Box::pin(async move {
                    let run = &job.stage_context.context.run;
                    let deadline = tokio::time::Instant::now() + TAKEOVER_AFTER;
                    let settled = tokio::select! {
                        biased;
                        () = stop.cancelled() => true,
                        // If the entry cannot be read, the next look-up meets the error and handles it.
                        settled = cache.settled(run, &job.key, deadline) => settled.unwrap_or(true),
                    };
                    (job, (!settled).then_some(holder))
                }));
            }
            Found::New(job, built) => {
                let span = span_of(&job.delivery);
                let work = compile(host, job, built);
                hand.running.push(Box::pin(work.instrument(span)));
            }
        }
    }
}

/// Looks up a candidate that was just delivered.
async fn take(
    host: Host,
    stage_contexts: Arc<dyn Runs<StageContext>>,
    delivery: Delivery<Candidate>,
) -> Found {
    let message = delivery.message();
    if message.source.trim().is_empty() {
        let verdict = Verdict::Rejected {
            fault: CandidateFault::Format,
            detail: without_program(message.answer.as_ref()),
        };
        let known = Known {
            techniques: None,
            vector_bits: None,
            verdict,
        };
        return Found::Decided(delivery, Box::new(known));
    }
    let problem = &message.candidate.problem;
    match stage_contexts.of(&message.candidate).await {
        Ok(stage_context) => {
            let of = stage_context.context.of(problem);
            let key = of.map(|of| of.key(&message.source, &message.candidate));
            let Some(key) = key else {
                let lacks = stage_context.context.lacks(problem);
                return Found::Unfit(delivery, Box::new(lacks));
            };
            let job = Job {
                delivery,
                stage_context,
                key,
            };
            look_up(host, job, None).await
        }
        Err(stage_failure) => Found::Unfit(delivery, Box::new(stage_failure)),
    }
}

/// Looks a program up. `instead` is the duplicate that the candidate waited for too long.
async fn look_up(host: Host, job: Job, instead: Option<CandidateId>) -> Found {
    let candidate = &job.delivery.message().candidate;
    let found = host
        .outcome_cache
        .look_up(&job.key, candidate, instead.as_ref())
        .await;
    let found = found.unwrap_or_else(|error| {
        // At worst the program is evaluated twice.
        let error = crate::supervisor::words(&error);
        tracing::warn!(candidate = %candidate.id, error, "the outcome cache cannot be read");
        Lookup::New(None)
    });
    match found {
        Lookup::Known(known) => Found::Decided(job.delivery, known),
        Lookup::UnderWay(holder) => Found::Duplicate(job, holder),
        Lookup::New(built) => Found::New(job, built),
    }
}

/// Publishes the known outcome of a program without compiling it.
async fn decide(host: Host, delivery: Delivery<Candidate>, known: Known) -> Result<(), Error> {
    let decided = Decided {
        techniques: known.techniques,
        vector_bits: known.vector_bits,
        ..undone(delivery.message(), known.verdict, None, 0.0)
    };
    host.publish_outcome(decided).await?;
    Ok(delivery.done().await?)
}

/// The span of a compile job. A waiting duplicate has no span until it is its turn.
fn span_of(delivery: &Delivery<Candidate>) -> Span {
    let candidate = &delivery.message().candidate;
    let span = candidate_span!("compile", candidate, attempt = delivery.attempt());
    delivery.continue_trace(span)
}

/// The outcome of a program that was not compiled.
fn undone<'a>(
    message: &'a Candidate,
    verdict: Verdict,
    key: Option<&'a Digest>,
    seconds: f32,
) -> Decided<'a> {
    Decided {
        candidate: &message.candidate,
        source: &message.source,
        techniques: None,
        vector_bits: None,
        verdict,
        stage_seconds: [seconds, 0.0, 0.0],
        object: None,
        key,
    }
}

async fn compile(host: Host, job: Job, built: Option<BuiltBefore>) -> Result<(), Error> {
    let Job {
        delivery,
        stage_context,
        key,
    } = job;
    if let Some(before) = built {
        return pass_on(&stage_context.context, delivery, before, key, 0.0).await;
    }
    let mut took = 0.0;
    let message = delivery.message().clone();
    match build(&stage_context, &message, &mut took).await {
        Ok((built, seconds)) => {
            pass_on(&stage_context.context, delivery, built, key, seconds).await
        }
        Err(stage_failure) => {
            Span::current().record("seconds", f64::from(took));
            let decided = |verdict| undone(&message, verdict, Some(&key), took);
            host.give_up_or_retry("compile", delivery, stage_failure, decided)
                .await
        }
    }
}

/// Compiles on a thread for blocking work and stores the object. Returns the seconds of the stage as well. `took` gets
/// the seconds of the compilation without the wait for a core, even if the compilation fails.
async fn build(
    stage_context: &StageContext,
    message: &Candidate,
    took: &mut f32,
) -> Result<(BuiltBefore, f32), StageFailure> {
    let context = &stage_context.context;
    let problem = &message.candidate.problem;
    let Some(of) = context.of(problem) else {
        return Err(context.lacks(problem));
    };
    let lease = context.host.cores.one("compile").await;
    let began = Instant::now();
    let work = {
        let (stage, problem) = (Arc::clone(&stage_context.stage), Arc::clone(&of.problem));
        let (source, permitted) = (message.source.clone(), message.candidate.permitted);
        let language = of.language(&message.candidate);
        tokio::task::spawn_blocking(move || stage.compile(language, &problem, &source, permitted))
    };
    let built = work.await;
    *took = began.elapsed().as_secs_f32();
    drop(lease);
    let built = built?.map_err(|failure| failed(failure, &message.candidate))?;
    let stored = BuiltBefore {
        object: context.host.store.put(built.object).await?,
        techniques: built.techniques,
        vector_bits: built.vector_bits,
    };
    Ok((stored, built.seconds as f32))
}

/// A node without the compiler of a language can work off programs in the problems' own languages.
fn failed(failure: Failure, candidate: &CandidateRef) -> StageFailure {
    let of_compiler = matches!(
        &failure,
        Failure::Infrastructure {
            cause: InfrastructureCause::Compiler,
            ..
        }
    );
    StageFailure {
        lacks_tool: of_compiler && candidate.language.is_some(),
        ..StageFailure::from(failure)
    }
}

/// Hands a built program to the next stage.
async fn pass_on(
    context: &Context,
    delivery: Delivery<Candidate>,
    built: BuiltBefore,
    key: Digest,
    compile_seconds: f32,
) -> Result<(), Error> {
    let span = Span::current();
    span.record("seconds", f64::from(compile_seconds));
    span.record("techniques", tracing::field::display(built.techniques));
    let message = delivery.message().clone();
    let compiled = Compiled {
        candidate: message.candidate,
        source: message.source,
        object: built.object,
        techniques: built.techniques,
        vector_bits: built.vector_bits,
        toolchain: context.toolchain.clone(),
        key: Some(key),
        compile_seconds,
    };
    let host = &context.host;
    let candidate = &compiled.candidate;
    let subject = Queue::verify(&candidate.machine_class).of(&candidate.run);
    host.bus.publish(&subject, &compiled).await?;
    host.circuit_breaker.worked("compile");
    Ok(delivery.done().await?)
}
