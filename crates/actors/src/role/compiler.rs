//! Compiler: candidate → compiled, or an outcome.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use flopsmith_bench::{Built, Failure};
use flopsmith_bus::{Delivery, ErrorClass, Worker};
use flopsmith_problem::Problem;
use flopsmith_protocol::{
    Candidate, CandidateFault, Compiled, Digest, Outcome, TechniqueSet, Verdict, subjects,
};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::Role;
use crate::error::Error;
use crate::mishap::Mishap;
use crate::node::{Context, Decided};
use crate::results::{BuiltBefore, Known, Lookup, Results};
use crate::trace::candidate_span;

/// What compiles: [`flopsmith_bench::Compiler`], and in tests what fails as they need it.
pub trait Stage: Send + Sync + 'static {
    /// Checks and compiles `source`, which may use the `permitted` techniques only.
    fn compile(
        &self,
        problem: &Problem,
        source: &str,
        permitted: TechniqueSet,
    ) -> Result<Built, Failure>;
}

impl Stage for flopsmith_bench::Compiler {
    fn compile(
        &self,
        problem: &Problem,
        source: &str,
        permitted: TechniqueSet,
    ) -> Result<Built, Failure> {
        flopsmith_bench::Compiler::compile(self, problem, source, permitted)
    }
}

/// Compiles candidates, one per core at a time.
pub struct Compiler {
    context: Arc<Context>,
    stage: Arc<dyn Stage>,
    results: Results,
}

impl Compiler {
    /// A compiler for the node's problem.
    pub fn new<S: Stage>(context: Arc<Context>, stage: Arc<S>) -> Self {
        Self {
            context,
            stage,
            results: Results::default(),
        }
    }
}

/// Twins of a program that is under way wait here for its outcome.
type Parked = HashMap<Digest, Vec<(Instant, Delivery<Candidate>)>>;

/// A twin waits this long for the outcome of the program it equals.
const PATIENCE: Duration = Duration::from_secs(60);

fn overdue(parked: &Parked) -> Vec<Digest> {
    let late = |(since, _): &(Instant, _)| since.elapsed() > PATIENCE;
    parked
        .iter()
        .filter(|(_, twins)| twins.iter().any(late))
        .map(|(key, _)| key.clone())
        .collect()
}

#[async_trait]
impl Role for Compiler {
    async fn run(&mut self, stop: CancellationToken) -> Result<(), Error> {
        let context = Arc::clone(&self.context);
        let slots = context.cores.total() as usize * 2;
        // Twins keep a slot each while they wait, so more are asked for than can run.
        let mut worker: Worker<Candidate> = context
            .worker(&subjects::compile("cpu"), slots + 64)
            .await?;
        let mut outcomes = context
            .bus
            .log::<Outcome>(&subjects::outcome(&context.run), 0)
            .await?;
        let mut patience = tokio::time::interval(Duration::from_secs(5));
        let mut parked = Parked::new();
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                outcome = outcomes.next() => {
                    let (_, outcome) = outcome?;
                    let key = context.key(&outcome.source, &outcome.candidate);
                    self.results.note(&key, &outcome);
                    for (_, twin) in parked.remove(&key).unwrap_or_default() {
                        // What an outcome says of one does not always hold for its twin: look it up again.
                        self.take(twin, &mut parked, &mut running).await?;
                    }
                }
                // An outcome that never comes (its node is gone for good) must not hold its twins for ever.
                _ = patience.tick(), if !parked.is_empty() => {
                    for key in overdue(&parked) {
                        self.results.give_up(&key);
                        for (_, twin) in parked.remove(&key).unwrap_or_default() {
                            self.take(twin, &mut parked, &mut running).await?;
                        }
                    }
                }
                Some(result) = running.next(), if !running.is_empty() => { let () = result?; }
                delivery = worker.next(), if running.len() < slots => {
                    let Some(delivery) = delivery else { break };
                    self.take(delivery, &mut parked, &mut running).await?;
                }
            }
        }
        for (_, twin) in parked.into_values().flatten() {
            twin.retry(ErrorClass::Shutdown).await?;
        }
        while let Some(result) = running.next().await {
            let () = result?;
        }
        Ok(())
    }
}

type Running = FuturesUnordered<futures::future::BoxFuture<'static, Result<(), Error>>>;

impl Compiler {
    async fn take(
        &self,
        delivery: Delivery<Candidate>,
        parked: &mut Parked,
        running: &mut Running,
    ) -> Result<(), Error> {
        let candidate = &delivery.message().candidate;
        if delivery.message().source.trim().is_empty() {
            let verdict = Verdict::Rejected {
                fault: CandidateFault::Format,
                detail: "no program was found in the answer".into(),
            };
            let known = Known {
                techniques: None,
                vector_bits: None,
                verdict,
            };
            let span = span_of(&delivery);
            return decide(&self.context, delivery, known)
                .instrument(span)
                .await;
        }
        let key = self.context.key(&delivery.message().source, candidate);
        match self.results.look_up(&key, candidate) {
            Lookup::Known(known) => {
                let span = span_of(&delivery);
                decide(&self.context, delivery, *known)
                    .instrument(span)
                    .await
            }
            Lookup::UnderWay => {
                parked
                    .entry(key)
                    .or_default()
                    .push((Instant::now(), delivery));
                Ok(())
            }
            Lookup::New => {
                let context = Arc::clone(&self.context);
                let stage = Arc::clone(&self.stage);
                let results = self.results.clone();
                let span = span_of(&delivery);
                let work = compile(context, stage, results, delivery, key);
                running.push(Box::pin(work.instrument(span)));
                Ok(())
            }
        }
    }
}

/// The span of a compile job. A twin that waits has none until it is its turn.
fn span_of(delivery: &Delivery<Candidate>) -> Span {
    let candidate = &delivery.message().candidate;
    let span = candidate_span!("compile", candidate, attempt = delivery.attempt());
    delivery.continue_trace(span)
}

/// Publishes what is known of a program without compiling it.
async fn decide(
    context: &Context,
    delivery: Delivery<Candidate>,
    known: Known,
) -> Result<(), Error> {
    let message = delivery.message();
    let decided = Decided {
        candidate: &message.candidate,
        source: &message.source,
        techniques: known.techniques,
        vector_bits: known.vector_bits,
        verdict: known.verdict,
        stage_seconds: [0.0; 3],
    };
    context.publish_outcome(decided).await?;
    Ok(delivery.done().await?)
}

async fn compile(
    context: Arc<Context>,
    stage: Arc<dyn Stage>,
    results: Results,
    delivery: Delivery<Candidate>,
    key: Digest,
) -> Result<(), Error> {
    let mut took = 0.0;
    let message = delivery.message().clone();
    if let Some(before) = results.built(&key, &message.candidate) {
        return pass_on(&context, delivery, before, 0.0).await;
    }
    match build(&context, stage, &message, &mut took).await {
        Ok((built, seconds)) => {
            results.note_built(&key, built.clone());
            pass_on(&context, delivery, built, seconds).await?;
        }
        Err(mishap) if mishap.try_again(delivery.failures() + 1, context.attempts) => {
            tracing::warn!(verdict = ?mishap.verdict, candidate = %message.candidate.id, "compile stage failed; trying again");
            results.give_up(&key);
            delivery.retry(mishap.class).await?;
        }
        Err(mishap) => {
            let decided = Decided {
                candidate: &message.candidate,
                source: &message.source,
                techniques: None,
                vector_bits: None,
                verdict: mishap.verdict,
                stage_seconds: [took, 0.0, 0.0],
            };
            Span::current().record("seconds", f64::from(took));
            context.publish_outcome(decided).await?;
            delivery.done().await?;
        }
    }
    Ok(())
}

/// Compiles on a thread for blocking work and stores the object. Gives the seconds of the stage as well; what it took with
/// everything but waiting for a core is in `took` however it ends.
async fn build(
    context: &Context,
    stage: Arc<dyn Stage>,
    message: &Candidate,
    took: &mut f32,
) -> Result<(BuiltBefore, f32), Mishap> {
    let lease = context.cores.one("compile").await;
    let began = Instant::now();
    let work = {
        let problem = Arc::clone(&context.problem);
        let (source, permitted) = (message.source.clone(), message.candidate.permitted);
        tokio::task::spawn_blocking(move || stage.compile(&problem, &source, permitted))
    };
    let built = work.await;
    *took = began.elapsed().as_secs_f32();
    drop(lease);
    let built = built??;
    let stored = BuiltBefore {
        object: context.store.put(built.object).await?,
        techniques: built.techniques,
        vector_bits: built.vector_bits,
    };
    Ok((stored, built.seconds as f32))
}

/// Hands a built program to the next stage.
async fn pass_on(
    context: &Context,
    delivery: Delivery<Candidate>,
    built: BuiltBefore,
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
        compile_seconds,
    };
    context
        .bus
        .publish(&subjects::verify("cpu"), &compiled)
        .await?;
    Ok(delivery.done().await?)
}
