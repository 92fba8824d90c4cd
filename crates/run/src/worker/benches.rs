//! The stage contexts of a node: one bench for each problem of a run, made when the first program for it arrives, and kept
//! for the last few runs.
#![expect(
    clippy::result_large_err,
    reason = "a stage failure is large because a verdict is, and comes once in a while"
)]

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use flopsmith_actors::evaluation;
use flopsmith_actors::host::Host;
use flopsmith_actors::modules::ModuleTimer;
use flopsmith_actors::node::{Context, Parts};
use flopsmith_actors::outcome_cache::{knows, version};
use flopsmith_actors::registry::RunRegistry;
use flopsmith_actors::role::{compiler, timer, verifier};
use flopsmith_actors::runs::Runs;
use flopsmith_actors::stage_failure::StageFailure;
use flopsmith_actors::stream;
use flopsmith_actors::supervisor::words;
use flopsmith_config::Settings;
use flopsmith_evaluate::{Evaluator, ModuleEvaluator, Pipeline};
use flopsmith_machine::attest::Attestation;
use flopsmith_measure::{Limits, Purpose};
use flopsmith_protocol::{
    CandidateRef, Failure, InfrastructureCause, MachineFacts, ProblemFiles, RunId, RunSpec,
    subjects,
};
use flopsmith_store::Store;
use tokio::sync::OnceCell;

use crate::{evaluator, paths};

/// Number of benches kept. Each has processes and buffers of its own, and a node seldom works for more runs in turn.
const KEPT: usize = 4;
/// The same for a run over many problems, whose steps come back to each of them.
const KEPT_OF_RUN: usize = 64;

/// The benches of a node, the most recently used first.
pub struct Benches {
    host: Host,
    registry: RunRegistry,
    allow_weaker_jail: bool,
    known: tokio::sync::Mutex<VecDeque<Arc<Bench>>>,
}

/// The stage contexts that compile, verify and time the programs of one problem of a run; each is made when it is first
/// needed.
struct Bench {
    context: Arc<Context>,
    /// Number of benches that may be known while this one is.
    kept: usize,
    pipeline: Pipeline,
    compiler: OnceCell<Arc<compiler::StageContext>>,
    verifier: OnceCell<Arc<verifier::StageContext>>,
    timer: OnceCell<Arc<timer::StageContext>>,
}

impl Benches {
    /// The benches of `host`, without any bench yet.
    pub fn new(host: Host, registry: RunRegistry, allow_weaker_jail: bool) -> Self {
        Self {
            host,
            registry,
            allow_weaker_jail,
            known: tokio::sync::Mutex::default(),
        }
    }

    /// The bench for a run and a problem of it.
    async fn bench(&self, candidate: &CandidateRef) -> Result<Arc<Bench>, StageFailure> {
        let (run, problem) = (&candidate.run, &candidate.problem);
        let mut known = self.known.lock().await;
        let is_it = |bench: &Arc<Bench>| {
            let context = &bench.context;
            context.run == *run && context.first().problem.id == *problem
        };
        if let Some(place) = known.iter().position(is_it)
            && let Some(bench) = known.remove(place)
        {
            known.push_front(Arc::clone(&bench));
            return Ok(bench);
        }
        let spec = self.registry.find(run).await.map_err(|e| bus(&e))?;
        // The run is over or was never begun. The caller decides which, after some tries.
        let spec = spec.ok_or_else(|| {
            StageFailure::from(Failure::infrastructure(
                InfrastructureCause::Bus,
                format!("run {run} is not known on this bus"),
            ))
        })?;
        if !knows(&spec.version) {
            return Err(unusable(format!(
                "run {run} was begun with Flopsmith {}, and this node has {}",
                spec.version,
                version()
            )));
        }
        if let Some(theirs) = &spec.store {
            let store = &self.host.store;
            if store.identity().await.map_err(StageFailure::from)? != *theirs {
                return Err(unusable(another_store(run, store)));
            }
        }
        let settings = settings_of(&spec)?;
        let named = spec.problems().find(|files| files.id == *problem).cloned();
        // The name of a fresh nest is enough to make it.
        let made = || stream::files(problem).filter(|_| settings.has_fresh());
        let Some(files) = named.or_else(made) else {
            let known: Vec<&str> = spec.problems().map(|files| files.id.as_str()).collect();
            return Err(unusable(format!(
                "run {run} has problem {}, and the program is for problem {problem}",
                known.join(", ")
            )));
        };
        let of_a_step = match settings.is_stream() {
            true => settings.tasks.max(settings.evaluate_tasks) as usize,
            // Those of two steps: the nests of a step push out those of the step before, and no problem of the run.
            false => spec.problems().count() + 2 * settings.random as usize,
        };
        let kept = of_a_step.clamp(KEPT, KEPT_OF_RUN);
        tracing::info!(%run, %problem, "working for another run or problem");
        let (host, allow_weaker) = (self.host.clone(), self.allow_weaker_jail);
        let made = tokio::task::spawn_blocking(move || {
            make(spec.run, settings, files, host, allow_weaker, kept)
        });
        let bench = made.await.map_err(|e| unusable(e.to_string()))??;
        let bench = Arc::new(bench);
        known.push_front(Arc::clone(&bench));
        forget(&mut known, |bench| bench.kept);
        Ok(bench)
    }

    /// Measures this machine for a run and publishes the machine's facts to the run.
    async fn timer(&self, bench: &Arc<Bench>) -> Result<timer::StageContext, StageFailure> {
        let threads = bench.context.settings.threads;
        flopsmith_evaluate::has_cores(threads).map_err(|e| unusable(e.to_string()))?;
        let _lease = self.host.cores.all("prepare").await;
        match &bench.pipeline {
            Pipeline::Kernel(evaluator) => self.timer_of_kernels(&bench.context, evaluator).await,
            Pipeline::Module(evaluator) => self.timer_of_modules(&bench.context, evaluator).await,
        }
    }

    async fn timer_of_modules(
        &self,
        context: &Arc<Context>,
        evaluator: &ModuleEvaluator,
    ) -> Result<timer::StageContext, StageFailure> {
        let evaluator = evaluator.clone();
        let begun = evaluator.clone();
        let made = tokio::task::spawn_blocking(move || begun.attest().map_err(unfit));
        let machine = made.await.map_err(|e| unusable(e.to_string()))??;
        let host = &self.host;
        let (run, class) = (&context.run, &host.machine_class);
        if let Some(chains) = machine.chains() {
            // Nothing is timed with them here: they are for a service that tells its results in one reference.
            let problem = &context.first().problem.id;
            let told = self.registry.in_common(run, problem, class, chains).await;
            told.map_err(|e| bus(&e))?;
        }
        let facts = evaluation::machine_facts_of_modules(run, &host.node, class, &machine);
        self.tell(context, facts, &machine.attestation).await?;
        let layouts = Arc::new(evaluator.clone());
        let timer = ModuleTimer { evaluator, machine };
        #[cfg(feature = "steady")]
        let timer = flopsmith_actors::role::steady::Steady(timer);
        let timer = Arc::new(Mutex::new(timer));
        let stage_context = timer::StageContext::new(Arc::clone(context), timer);
        Ok(stage_context.with_layouts(layouts))
    }

    /// Publishes the facts of this machine, and warns of what is wrong with it.
    async fn tell(
        &self,
        context: &Context,
        facts: MachineFacts,
        attestation: &Attestation,
    ) -> Result<(), StageFailure> {
        let run = &context.run;
        let problem = &context.first().problem.id;
        let facts = MachineFacts {
            problem: context.settings.has_many().then(|| problem.clone()),
            ..facts
        };
        let told = self.host.bus.publish(&subjects::machine(run), &facts).await;
        told.map_err(|e| bus(&e))?;
        for line in attestation.warnings() {
            tracing::warn!(%run, line, "the machine is not set up for timing");
        }
        Ok(())
    }

    async fn timer_of_kernels(
        &self,
        context: &Arc<Context>,
        evaluator: &Evaluator,
    ) -> Result<timer::StageContext, StageFailure> {
        let host = &self.host;
        let run = &context.run;
        let threads = context.settings.threads;
        let begun = evaluator.clone();
        let made = tokio::task::spawn_blocking(move || -> Result<_, StageFailure> {
            let mut timer = begun.timer(threads).map_err(unfit)?;
            timer.set_limits(Purpose::Rank, Limits::SECOND_LOOK);
            Ok(timer)
        });
        let mut timer = made.await.map_err(|e| unusable(e.to_string()))??;
        let problem = &context.first().problem.id;
        let class = &host.machine_class;
        let chains = self.registry.in_common(run, problem, class, timer.chains());
        timer.go_on_with(&chains.await.map_err(|e| bus(&e))?);
        let facts = evaluation::machine_facts(run, &host.node, class, &timer, None);
        self.tell(context, facts, timer.attestation()).await?;
        let (context, evaluator) = (Arc::clone(context), evaluator.clone());
        #[cfg(feature = "steady")]
        let timer = flopsmith_actors::role::steady::Steady(timer);
        let made = tokio::task::spawn_blocking(move || {
            let timer = Arc::new(Mutex::new(timer));
            let layouts = evaluation::layouts(&evaluator, threads).map_err(unfit)?;
            let stage_context = timer::StageContext::new(context, timer);
            Ok(stage_context.with_layouts(layouts))
        });
        made.await.map_err(|e| unusable(e.to_string()))?
    }
}

#[async_trait]
impl Runs<compiler::StageContext> for Benches {
    async fn of(
        &self,
        candidate: &CandidateRef,
    ) -> Result<Arc<compiler::StageContext>, StageFailure> {
        let bench = self.bench(candidate).await?;
        let make = || async { Arc::new(evaluation::compiler(&bench.context, &bench.pipeline)) };
        Ok(Arc::clone(bench.compiler.get_or_init(make).await))
    }
}

#[async_trait]
impl Runs<verifier::StageContext> for Benches {
    async fn of(
        &self,
        candidate: &CandidateRef,
    ) -> Result<Arc<verifier::StageContext>, StageFailure> {
        let bench = self.bench(candidate).await?;
        let make = || async {
            let begun = Arc::clone(&bench);
            let slots = self.host.cores.total();
            // Making the verifier runs the reference, next to measurements for other runs, so it takes a core's lease.
            let _lease = self.host.cores.one("prepare").await;
            let made = tokio::task::spawn_blocking(move || -> Result<_, StageFailure> {
                evaluation::verifier(&begun.context, &begun.pipeline, slots).map_err(unfit)
            });
            let stage_context = made.await.map_err(|e| unusable(e.to_string()))??;
            Ok::<_, StageFailure>(Arc::new(stage_context))
        };
        Ok(Arc::clone(bench.verifier.get_or_try_init(make).await?))
    }
}

#[async_trait]
impl Runs<timer::StageContext> for Benches {
    async fn of(&self, candidate: &CandidateRef) -> Result<Arc<timer::StageContext>, StageFailure> {
        let bench = self.bench(candidate).await?;
        let make = || async { Ok::<_, StageFailure>(Arc::new(self.timer(&bench).await?)) };
        Ok(Arc::clone(bench.timer.get_or_try_init(make).await?))
    }
}

/// The error of a run and a node of two clusters that share a broker.
pub(super) fn another_store(run: &RunId, store: &Store) -> String {
    format!(
        "run {run} keeps its artifacts in another store than this node, which uses {}; give both the same `--store`, or give each cluster a broker of its own",
        store.name()
    )
}

/// The settings of a run.
fn settings_of(spec: &RunSpec) -> Result<Settings, StageFailure> {
    serde_json::from_str(&spec.settings_json).map_err(|e| {
        unusable(format!(
            "the settings of run {} cannot be read: {e}",
            spec.run
        ))
    })
}

/// Makes the bench of a problem of a run with this node's own jail setting: a run cannot weaken the node's jail.
fn make(
    run: RunId,
    settings: Settings,
    files: ProblemFiles,
    host: Host,
    allow_weaker_jail: bool,
    kept: usize,
) -> Result<Bench, StageFailure> {
    let problem = failing(paths::of_files(files, &settings))?;
    let progress = |text: &str| tracing::info!("{text}");
    let pipeline = evaluator::pipeline(Arc::new(problem), &settings, allow_weaker_jail, progress);
    let pipeline = failing(pipeline)?;
    let context = Context::new(Parts {
        run,
        settings,
        // A node that only evaluates writes no files of a run.
        folder: PathBuf::new(),
        problem: Arc::clone(pipeline.problem()),
        others: Vec::new(),
        toolchain: pipeline.fingerprint().clone(),
        host,
    });
    Ok(Bench {
        context,
        kept,
        pipeline,
        compiler: OnceCell::new(),
        verifier: OnceCell::new(),
        timer: OnceCell::new(),
    })
}

/// Drops what was used longest ago. Each stays while it is among as many as its own run keeps, so that a run with one problem pushes
/// out none of a run with many.
fn forget<T>(known: &mut VecDeque<T>, kept: impl Fn(&T) -> usize) {
    let mut place = 0;
    known.retain(|one| {
        place += 1;
        place <= kept(one)
    });
}

/// The failure of a node that lacks something or cannot work for a run; another node may be able to.
fn unusable(detail: impl Into<String>) -> StageFailure {
    StageFailure::other_node(detail)
}

/// The failure of a node on which the problem's own programs fail.
fn unfit(failure: Failure) -> StageFailure {
    unusable(failure.to_string())
}

/// The failure of a bus that does not answer; it tells nothing of the program either.
fn bus(error: &dyn std::error::Error) -> StageFailure {
    StageFailure::other_node(words(error))
}

/// Maps any error of preparing a node for a run to a failure that leaves the work to another node.
fn failing<T>(result: anyhow::Result<T>) -> Result<T, StageFailure> {
    result.map_err(|error| unusable(format!("{error:#}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_with_few_problems_pushes_out_none_of_a_run_with_many() {
        // The kernels of a service, and then selections of workloads, the newest first.
        let mut known: VecDeque<usize> = [64, 64, 64].into();
        for _ in 0..6 {
            known.push_front(4);
            forget(&mut known, |kept| *kept);
        }
        assert_eq!(known, [4, 4, 4, 4, 64, 64, 64]);
        let mut known: VecDeque<usize> = [3; 5].into();
        forget(&mut known, |kept| *kept);
        assert_eq!(known, [3; 3]);
    }
}
