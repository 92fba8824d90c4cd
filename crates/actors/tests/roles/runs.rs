//! Nodes that work for several runs, and several nodes for one run.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use flopsmith_actors::host::Decided;
use flopsmith_actors::node::{Context, Parts};
use flopsmith_actors::role::compiler::{Compiler, Stage, StageContext};
use flopsmith_actors::runs::Runs;
use flopsmith_actors::stage_failure::StageFailure;
use flopsmith_bus::{Bus, WorkerOptions};
use flopsmith_compile::Built;
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{
    Candidate, CandidateRef, Compiled, Failure, Outcome, Purpose, RunId, TechniqueSet, Verdict,
    subjects,
};
use flopsmith_test_support::{machine_class, measured, run_id};
use tokio::sync::watch;

use crate::{World, candidate, settings, soon, start};

/// Builds everything except programs that it has to refuse.
struct Gcc;

impl Stage for Gcc {
    fn compile(
        &self,
        _: Language,
        _: &Problem,
        source: &str,
        _: TechniqueSet,
    ) -> Result<Built, Failure> {
        if source == "refused" {
            let fault = flopsmith_protocol::CandidateFault::CompileError;
            return Err(Failure::candidate(fault, "no"));
        }
        Ok(Built {
            object: source.as_bytes().to_vec(),
            techniques: TechniqueSet::EMPTY,
            vector_bits: None,
            diagnostics: String::new(),
            seconds: 0.0,
        })
    }
}

fn other_run() -> RunId {
    RunId::new("other").unwrap()
}

/// A context of one of two runs.
fn context(world: &World, run: RunId) -> Arc<Context> {
    let ours = world.context(settings());
    Context::new(Parts {
        run,
        settings: settings(),
        folder: world.folder.path().to_owned(),
        problem: Arc::clone(&ours.first().problem),
        others: Vec::new(),
        toolchain: ours.toolchain.clone(),
        host: ours.host.clone(),
    })
}

/// Knows two runs.
struct Two {
    stage_contexts: HashMap<RunId, Arc<StageContext>>,
    /// Number of requests for another one.
    unfit: watch::Sender<u32>,
}

impl Two {
    fn new(world: &World) -> Arc<Self> {
        let stage_contexts = [run_id(), other_run()].map(|run| {
            let context = context(world, run.clone());
            let stage = Arc::new(Gcc);
            (run, Arc::new(StageContext { context, stage }))
        });
        Arc::new(Self {
            stage_contexts: stage_contexts.into(),
            unfit: watch::Sender::default(),
        })
    }
}

#[async_trait]
impl Runs<StageContext> for Two {
    async fn of(&self, candidate: &CandidateRef) -> Result<Arc<StageContext>, StageFailure> {
        let known = self.stage_contexts.get(&candidate.run).cloned();
        known.ok_or_else(|| {
            self.unfit.send_modify(|asked| *asked += 1);
            StageFailure::other_node("this node is another version")
        })
    }
}

fn program(of: CandidateRef, source: &str) -> Candidate {
    Candidate {
        candidate: of,
        source: source.into(),
        answer: None,
    }
}

/// The next outcome of a run.
async fn first_outcome(world: &World, run: &RunId) -> Outcome {
    let subject = subjects::outcome(run);
    let mut log = world.bus.log::<Outcome>(&subject, 0).await.unwrap();
    soon(log.next()).await.unwrap().1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_works_for_every_run_it_knows_and_the_outcome_is_the_runs_own() {
    let world = World::new().await;
    let of = |run: &RunId| CandidateRef {
        run: run.clone(),
        ..candidate(0, 0, 0, Purpose::Search)
    };
    let third = RunId::new("third").unwrap();
    let runs = [run_id(), other_run(), third.clone()];
    for run in &runs {
        let subject = Queue::compile(&machine_class()).of(run);
        let mut message = program(of(run), "refused");
        // The ids really begin with the run's name.
        message.candidate.id = format!("{run}-s0-g0-c0").parse().unwrap();
        world.bus.publish(&subject, &message).await.unwrap();
    }
    let two = Two::new(&world);
    let mut unfit = two.unfit.subscribe();
    let working = start(Compiler::for_runs(world.host(), two));
    for run in &runs[..2] {
        let outcome = first_outcome(&world, run).await;
        assert_eq!(outcome.candidate.run, *run);
        assert_eq!(outcome.verdict.kind(), "compile_error");
    }
    // It leaves work that it cannot do to other nodes, each time.
    let limit = world.host().attempts;
    soon(unfit.wait_for(|asked| *asked > limit)).await.unwrap();
    let log = world
        .bus
        .log::<Outcome>(&subjects::outcome(&third), 0)
        .await;
    assert_eq!(log.unwrap().pending(), 0);
    assert_eq!(world.bus.queued(&third).await.unwrap(), 1);
    working.end().await.unwrap();
    let context = context(&world, third.clone());
    let fit = start(Compiler::new(context, Arc::new(Gcc)));
    let outcome = first_outcome(&world, &third).await;
    assert_eq!(outcome.verdict.kind(), "compile_error");
    fit.end().await.unwrap();
    assert_eq!(world.bus.dead_letters(0).await.unwrap().pending(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_programs_on_two_nodes_are_evaluated_once() {
    let world = World::new().await;
    // Two nodes share only the bus and the store.
    let mut nodes = Vec::new();
    for _ in 0..2 {
        let bus = Bus::connect(&world._server).await.unwrap();
        let host = flopsmith_actors::Host::new(
            flopsmith_test_support::node_id(),
            machine_class(),
            bus,
            world.store.clone(),
            flopsmith_actors::Pool::new(1),
        );
        nodes.push((
            host.clone(),
            start(Compiler::for_runs(host, Two::new(&world))),
        ));
    }
    let subject = Queue::compile(&machine_class()).of(&run_id());
    let duplicates: Vec<Candidate> = [(0, 0), (0, 1), (1, 0), (1, 1)]
        .map(|(task, sample)| program(candidate(0, task, sample, Purpose::Search), "program"))
        .into();
    world.bus.publish_many(&subject, &duplicates).await.unwrap();
    let options = WorkerOptions::new(Queue::verify(&machine_class()).all(), 4);
    let mut built = world.bus.worker::<Compiled>(options).await.unwrap();
    let first = soon(built.next()).await.unwrap();
    let compiled = first.message().clone();
    // The rest of its stages, on one of the two nodes.
    let decided = Decided {
        candidate: &compiled.candidate,
        source: &compiled.source,
        techniques: Some(compiled.techniques),
        vector_bits: None,
        verdict: measured(5.0),
        stage_seconds: [0.0; 3],
        object: Some(&compiled.object),
        key: compiled.key.as_ref(),
    };
    nodes[0].0.publish_outcome(decided).await.unwrap();
    first.done().await.unwrap();
    let verdicts = crate::stages::verdicts(&world, duplicates.len()).await;
    let reused = |verdict: &&Verdict| verdict.measurement().is_some_and(|m| m.reused);
    assert_eq!(verdicts.values().filter(reused).count(), 3, "{verdicts:?}");
    // A second measurement of a program does not build it again.
    let again = program(
        flopsmith_test_support::remeasured(&compiled.candidate, 1),
        "program",
    );
    world.bus.publish(&subject, &again).await.unwrap();
    let second = soon(built.next()).await.unwrap();
    assert_eq!(second.message().candidate, again.candidate);
    assert_eq!(second.message().object, compiled.object);
    second.done().await.unwrap();
    for (_, working) in nodes {
        working.end().await.unwrap();
    }
    assert_eq!(world.bus.dead_letters(0).await.unwrap().pending(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_that_waits_is_given_back_when_its_node_stops() {
    let world = World::new().await;
    let subject = Queue::compile(&machine_class()).of(&run_id());
    let of = |sample| program(candidate(0, 0, sample, Purpose::Search), "program");
    world.bus.publish_many(&subject, &[of(0)]).await.unwrap();
    let working = start(Compiler::for_runs(world.host(), Two::new(&world)));
    let options = WorkerOptions::new(Queue::verify(&machine_class()).all(), 4);
    let mut built = world.bus.worker::<Compiled>(options).await.unwrap();
    let first = soon(built.next()).await.unwrap();
    world.bus.publish(&subject, &of(1)).await.unwrap();
    soon(async {
        while world.bus.held() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    working.end().await.unwrap();
    let options = WorkerOptions::new(Queue::compile(&machine_class()).all(), 1);
    let mut queue = world.bus.worker::<Candidate>(options).await.unwrap();
    let back = soon(queue.next()).await.unwrap();
    assert_eq!(*back.message(), of(1));
    assert_eq!(back.failures(), 0, "stopping is no failure of it");
    back.done().await.unwrap();
    first.done().await.unwrap();
}
