//! The archive without outcomes, and the end of a run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flopsmith_actors::node::{Context, Parts};
use flopsmith_actors::role::archive::Archive;
use flopsmith_actors::stream;
use flopsmith_bus::{RunSetup, WorkerOptions};
use flopsmith_config::Job;
use flopsmith_config::{Mix, Settings};
use flopsmith_problem::Problem;
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{
    ArtifactRef, Candidate, CandidateRef, Compiled, Digest, InfrastructureCause, Outcome, Purpose,
    RunId, StageChanged, Task, TechniqueSet, Verdict, Verified, subjects,
};
use flopsmith_store::Checkpoints;
use flopsmith_test_support::{Measured, machine_class, node_id, outcome, run_id, wrong};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{World, candidate, settings, soon, start};

fn impatient() -> Settings {
    Settings {
        lost_after_seconds: 1.0,
        ..settings()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_missing_sample_gets_one_outcome_and_no_known_one_does() {
    // The server forgets ids at once: a message that is published twice is stored twice.
    let setup = RunSetup {
        duplicate_window: Duration::from_millis(100),
        ..RunSetup::default()
    };
    let world = World::with(&setup).await;
    let subject = subjects::outcome(&run_id());
    let known: Vec<Outcome> = [(0, 1), (1, 0)]
        .map(|(task, sample)| outcome(candidate(0, task, sample, Purpose::Search), wrong()))
        .into();
    world.bus.publish_many(&subject, &known).await.unwrap();
    let finished = CancellationToken::new();
    let archive = Archive::new(world.context(impatient()), Job::Search, finished.clone());
    let working = start(archive);
    // The lost ones complete the only step, so the run is over.
    soon(finished.cancelled()).await;
    working.end().await.unwrap();

    let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut log = world.bus.log::<Outcome>(&subject, 0).await.unwrap();
    assert_eq!(log.pending(), 4, "each once");
    for (_, outcome) in soon(log.replay()).await.unwrap() {
        if let Verdict::Infrastructure { cause, .. } = &outcome.verdict {
            assert_eq!(*cause, InfrastructureCause::Bus);
            assert!(outcome.candidate.policy.is_none() && outcome.source.is_empty());
        }
        let kind = outcome.verdict.kind().to_owned();
        let ids = kinds.entry(kind).or_default();
        ids.push(outcome.candidate.id.to_string());
    }
    assert_eq!(kinds["wrong_result"], ["r-s0-g0-c1", "r-s0-g1-c0"]);
    assert_eq!(kinds["bus"], ["r-s0-g0-c0", "r-s0-g1-c1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_while_a_role_is_at_work() {
    let world = World::new().await;
    let context = world.context(impatient());
    let lease = context.host.cores.one("generate").await;
    let finished = CancellationToken::new();
    let working = start(Archive::new(context, Job::Search, finished.clone()));
    let mut queue = world
        .bus
        .worker::<Task>(WorkerOptions::new(Queue::generate("schedule").all(), 2))
        .await
        .unwrap();
    // Held, as by a slow generator.
    let tasks = (
        soon(queue.next()).await.unwrap(),
        soon(queue.next()).await.unwrap(),
    );
    let mut log = world
        .bus
        .log::<Outcome>(&subjects::outcome(&run_id()), 0)
        .await
        .unwrap();
    let long = Duration::from_millis(2500);
    assert!(
        tokio::time::timeout(long, log.next()).await.is_err(),
        "somebody is at work"
    );
    drop(lease);
    let (_, lost) = soon(log.next()).await.unwrap();
    assert_eq!(lost.verdict.kind(), "bus");
    soon(finished.cancelled()).await;
    drop(tasks);
    queue.close();
    working.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_archive_tells_the_time_without_the_step_that_it_breaks_off() {
    let world = World::new().await;
    let (elapsed, mut told) = watch::channel(0.0);
    let archive = Archive::new(
        world.context(settings()),
        Job::Search,
        CancellationToken::new(),
    );
    let working = start(archive.telling(elapsed));
    drop(soon(told.wait_for(|seconds| *seconds > 1.0)).await.unwrap());
    working.end().await.unwrap();
    assert!(*told.borrow() < 1.0, "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tasks_of_two_problems_take_turns_and_an_elite_is_one_of_its_own_problem() {
    let world = World::new().await;
    let context = world.context_of(settings(), &["dot"]);
    let working = start(Archive::new(context, Job::Search, CancellationToken::new()));
    let queue = WorkerOptions::new(Queue::generate("schedule").all(), 2);
    let mut tasks = world.bus.worker::<Task>(queue).await.unwrap();
    let mut problems = Vec::new();
    let mut outcomes = Vec::new();
    for _ in 0..2 {
        let delivery = soon(tasks.next()).await.unwrap();
        let task = delivery.message().clone();
        let number = task.id.group().unwrap();
        for sample in 0..task.group_size {
            let of = CandidateRef {
                problem: task.problem.clone(),
                ..candidate(0, number, sample, Purpose::Search)
            };
            outcomes.push(match task.problem.as_str() {
                "dot" if sample == 0 => Measured::at(10.0).outcome(of),
                _ => outcome(of, wrong()),
            });
        }
        problems.push(task.problem.to_string());
        delivery.done().await.unwrap();
    }
    problems.sort();
    assert_eq!(problems, ["dgemm", "dot"]);
    let subject = subjects::outcome(&run_id());
    world.bus.publish_many(&subject, &outcomes).await.unwrap();
    // The only correct program is measured again, for its problem.
    let queue = WorkerOptions::new(Queue::compile(&machine_class()).all(), 1);
    let mut again = world.bus.worker::<Candidate>(queue).await.unwrap();
    let again = soon(again.next()).await.unwrap();
    assert_eq!(again.message().candidate.problem.as_str(), "dot");
    working.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_many_problems_has_its_own_pool_and_a_share_of_the_tasks() {
    let world = World::new().await;
    let mut many = Settings {
        problem: String::new(),
        problems: vec!["dgemm".into(), "dot".into()],
        mix: Mix::LearningProgress,
        tasks: 4,
        ..settings()
    };
    many.sqd.enabled = false;
    let pool = many.sqd.techniques;
    let context = world.context_of(many, &["dot"]);
    let pools: Vec<(String, TechniqueSet)> = context
        .problems()
        .map(|of| {
            (
                of.problem.id.to_string(),
                pool.intersection(of.problem.techniques),
            )
        })
        .collect();
    assert_ne!(pools[0].1, pools[1].1);
    let working = start(Archive::new(context, Job::Search, CancellationToken::new()));
    let queue = WorkerOptions::new(Queue::generate("schedule").all(), 4);
    let mut tasks = world.bus.worker::<Task>(queue).await.unwrap();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let delivery = soon(tasks.next()).await.unwrap();
        let task = delivery.message();
        seen.push((task.problem.to_string(), task.permitted));
        delivery.done().await.unwrap();
    }
    seen.sort();
    // Nothing is known of either problem yet, so the shares are equal.
    let expected = [&pools[0], &pools[0], &pools[1], &pools[1]].map(Clone::clone);
    assert_eq!(seen, expected);
    working.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_evaluates_the_same_nests_and_trains_on_fresh_ones() {
    let world = World::new().await;
    let of_stream = Settings {
        problem: String::new(),
        suite: "random".into(),
        tasks: 2,
        evaluate_tasks: 2,
        ..settings()
    };
    let evaluated = stream::evaluated(&of_stream).unwrap();
    let nests = evaluated.iter().map(|id| stream::problem(&of_stream, id));
    let mut nests: Vec<Arc<Problem>> = nests.map(|nest| Arc::new(nest.unwrap())).collect();
    let context = Context::new(Parts {
        run: run_id(),
        settings: of_stream.clone(),
        folder: world.folder.path().to_owned(),
        problem: nests.remove(0),
        others: nests,
        toolchain: Digest::of(b"gcc"),
        host: world.host(),
    });
    let working = start(Archive::new(context, Job::Train, CancellationToken::new()));
    let queue = WorkerOptions::new(Queue::generate("schedule").all(), 2);
    let mut tasks = world.bus.worker::<Task>(queue).await.unwrap();
    let trained = |number| stream::trained(&of_stream, 1, number).unwrap();
    for (step, purpose, expected) in [
        (0, Purpose::EvaluateStart, evaluated),
        (1, Purpose::Train, vec![trained(0), trained(1)]),
    ] {
        let mut seen = BTreeMap::new();
        let mut outcomes = Vec::new();
        for _ in 0..2 {
            let delivery = soon(tasks.next()).await.unwrap();
            let task = delivery.message().clone();
            let number = task.id.group().unwrap();
            assert_eq!((task.step, task.purpose), (step, purpose));
            let nest = stream::problem(&of_stream, &task.problem).unwrap();
            let pool = of_stream.sqd.techniques.intersection(nest.techniques);
            assert_eq!(task.permitted, pool, "a nest occurs once");
            for sample in 0..task.group_size {
                let of = CandidateRef {
                    problem: task.problem.clone(),
                    ..candidate(step, number, sample, purpose)
                };
                outcomes.push(outcome(of, wrong()));
            }
            seen.insert(number, task.problem);
            delivery.done().await.unwrap();
        }
        assert_eq!(seen.into_values().collect::<Vec<_>>(), expected);
        let subject = subjects::outcome(&run_id());
        world.bus.publish_many(&subject, &outcomes).await.unwrap();
    }
    working.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn fresh_nests_join_named_problems_in_training_steps_only() {
    let world = World::new().await;
    let mixed = Settings {
        problem: String::new(),
        problems: vec!["dgemm".into(), "dot".into()],
        random: 1,
        tasks: 3,
        evaluate_tasks: 2,
        ..settings()
    };
    let fresh = stream::trained(&mixed, 1, 2).unwrap();
    let context = world.context_of(mixed.clone(), &["dot"]);
    let working = start(Archive::new(context, Job::Train, CancellationToken::new()));
    let queue = WorkerOptions::new(Queue::generate("schedule").all(), 3);
    let mut tasks = world.bus.worker::<Task>(queue).await.unwrap();
    for (step, purpose, expected) in [
        (0, Purpose::EvaluateStart, vec!["dgemm", "dot"]),
        (1, Purpose::Train, vec!["dgemm", "dot", fresh.as_str()]),
    ] {
        let mut seen = BTreeMap::new();
        let mut outcomes = Vec::new();
        for _ in 0..expected.len() {
            let delivery = soon(tasks.next()).await.unwrap();
            let task = delivery.message().clone();
            let number = task.id.group().unwrap();
            assert_eq!((task.step, task.purpose), (step, purpose));
            for sample in 0..task.group_size {
                let of = CandidateRef {
                    problem: task.problem.clone(),
                    ..candidate(step, number, sample, purpose)
                };
                outcomes.push(outcome(of, wrong()));
            }
            if task.problem == fresh {
                let nest = stream::problem(&mixed, &fresh).unwrap();
                let pool = mixed.sqd.techniques.intersection(nest.techniques);
                assert_eq!(task.permitted, pool, "a nest occurs once");
            }
            seen.insert(number, task.problem.to_string());
            delivery.done().await.unwrap();
        }
        assert_eq!(seen.into_values().collect::<Vec<_>>(), expected);
        let subject = subjects::outcome(&run_id());
        world.bus.publish_many(&subject, &outcomes).await.unwrap();
    }
    working.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_resumed_at_its_end_still_waits_for_second_measurements() {
    let world = World::new().await;
    let subject = subjects::outcome(&run_id());
    let of = |task, sample| candidate(0, task, sample, Purpose::Search);
    let outcomes = [
        outcome(of(0, 0), wrong()),
        outcome(of(0, 1), wrong()),
        outcome(of(1, 0), wrong()),
        Measured::at(10.0).outcome(of(1, 1)),
    ];
    world.bus.publish_many(&subject, &outcomes).await.unwrap();
    let finished = CancellationToken::new();
    let archive = Archive::new(world.context(settings()), Job::Search, finished.clone());
    let working = start(archive);
    // The only step is over, and the last measurement still runs.
    let checkpoints = Checkpoints::new(world.store.clone(), "archive");
    soon(async {
        loop {
            let latest = checkpoints.latest(&run_id()).await.unwrap();
            if latest.is_some_and(|c| c.meta["finished"] == true) {
                break;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    working.end().await.unwrap();
    assert!(!finished.is_cancelled());

    let finished = CancellationToken::new();
    let archive = Archive::new(world.context(settings()), Job::Search, finished.clone());
    let working = start(archive);
    let some_ticks = Duration::from_millis(1500);
    assert!(
        tokio::time::timeout(some_ticks, finished.cancelled())
            .await
            .is_err(),
        "a measurement is under way"
    );
    let mut queue = world
        .bus
        .worker::<Candidate>(WorkerOptions::new(
            Queue::compile(&machine_class()).all(),
            1,
        ))
        .await
        .unwrap();
    let again = soon(queue.next()).await.unwrap();
    let candidate = again.message().candidate.clone();
    assert_eq!(candidate.remeasures, Some(of(1, 1).id));
    let repeated = Measured::at(10.0).outcome(candidate);
    world.bus.publish(&subject, &repeated).await.unwrap();
    soon(finished.cancelled()).await;
    again.done().await.unwrap();
    queue.close();
    working.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_answer_comes_back_with_its_diagnostics() {
    let world = World::new().await;
    let mut repairing = settings();
    repairing.max_steps = 2;
    repairing.sqd.repair_share = 1.0;
    let working = start(Archive::new(
        world.context(repairing),
        Job::Search,
        CancellationToken::new(),
    ));
    let queue = WorkerOptions::new(Queue::generate("schedule").all(), 2);
    let mut tasks = world.bus.worker::<Task>(queue).await.unwrap();
    for step in 0..2 {
        let mut outcomes = Vec::new();
        for _ in 0..2 {
            let delivery = soon(tasks.next()).await.unwrap();
            let task = delivery.message().clone();
            assert_eq!(task.step, step);
            assert_eq!(task.history.len() as u64, step, "{task:?}");
            for said in &task.history {
                assert!(said.answer.starts_with("int wrong"), "{said:?}");
                assert!(said.result.contains("(wrong_result)"), "{said:?}");
            }
            let number = task.id.group().unwrap();
            for sample in 0..task.group_size {
                let of = CandidateRef {
                    permitted: task.permitted,
                    stage: task.stage,
                    ..candidate(step, number, sample, Purpose::Search)
                };
                outcomes.push(Outcome {
                    source: format!("int wrong{number}{sample};"),
                    ..outcome(of, wrong())
                });
            }
            delivery.done().await.unwrap();
        }
        let subject = subjects::outcome(&run_id());
        world.bus.publish_many(&subject, &outcomes).await.unwrap();
    }
    working.end().await.unwrap();
}

/// A model with only refused answers continues neither for the whole budget nor to harder stages.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_a_correct_program_ends_in_the_stage_it_began_with() {
    let world = World::new().await;
    let subject = subjects::outcome(&run_id());
    let all: Vec<Outcome> = (0..30)
        .flat_map(|step| [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(task, n)| (step, task, n)))
        .map(|(step, task, n)| outcome(candidate(step, task, n, Purpose::Search), wrong()))
        .collect();
    world.bus.publish_many(&subject, &all).await.unwrap();
    let in_vain = Settings {
        max_steps: 0,
        fruitless_steps_limit: 12,
        ..settings()
    };
    let finished = CancellationToken::new();
    let archive = Archive::new(world.context(in_vain), Job::Search, finished.clone());
    let working = start(archive);
    soon(finished.cancelled()).await;
    working.end().await.unwrap();
    let tasks: Vec<Task> = queued(&world).await;
    let last = tasks.iter().map(|task| task.step).max();
    assert_eq!(last, Some(11), "twelve steps, counted from 0");
    assert!(tasks.iter().all(|task| task.stage == 0), "{tasks:?}");
    let changes: Vec<StageChanged> = world.log(&subjects::stage(&run_id())).await;
    assert_eq!(changes, []);
}

/// The tasks that wait for a generator.
async fn queued(world: &World) -> Vec<Task> {
    let options = WorkerOptions::new(Queue::generate("schedule").all(), 64);
    let mut queue = world.bus.worker::<Task>(options).await.unwrap();
    let count = world.bus.queued(&run_id()).await.unwrap();
    let mut tasks = Vec::new();
    for _ in 0..count {
        let delivery = soon(queue.next()).await.unwrap();
        tasks.push(delivery.message().clone());
        delivery.done().await.unwrap();
    }
    queue.close();
    tasks
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_that_is_told_goes_on_from_what_was_saved() {
    let world = World::new().await;
    let (elapsed, mut told) = watch::channel(0.0);
    let begin = || {
        let finished = CancellationToken::new();
        let archive = Archive::new(world.context(settings()), Job::Search, finished);
        start(archive.telling(elapsed.clone()))
    };
    let working = begin();
    soon(told.wait_for(|seconds| *seconds > 1.0)).await.unwrap();
    // With the end of the step its time is saved.
    let of = |task, sample| outcome(candidate(0, task, sample, Purpose::Search), wrong());
    let outcomes = [of(0, 0), of(0, 1), of(1, 0), of(1, 1)];
    let subject = subjects::outcome(&run_id());
    world.bus.publish_many(&subject, &outcomes).await.unwrap();
    let checkpoints = Checkpoints::new(world.store.clone(), "archive");
    soon(async {
        loop {
            let latest = checkpoints.latest(&run_id()).await.unwrap();
            if latest.is_some_and(|c| c.meta["finished"] == true) {
                break;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    working.end().await.unwrap();

    elapsed.send_replace(0.0);
    let working = begin();
    let now = *soon(told.wait_for(|seconds| *seconds > 0.0)).await.unwrap();
    assert!(now > 1.0, "{now}");
    working.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_get_their_outcome_at_once() {
    let world = World::new().await;
    let finished = CancellationToken::new();
    // With the default wait, which is longer than any test.
    let archive = Archive::new(world.context(settings()), Job::Search, finished.clone());
    let working = start(archive);
    let mut queue = world
        .bus
        .worker::<Task>(WorkerOptions::new(Queue::generate("schedule").all(), 2))
        .await
        .unwrap();
    for _ in 0..2 {
        let task = soon(queue.next()).await.unwrap();
        if task.message().id == candidate(0, 0, 0, Purpose::Search).task {
            task.dead("nobody understands it").await.unwrap();
        } else {
            task.done().await.unwrap();
        }
    }
    queue.close();
    // The samples of the other task progress, and one belongs to an unknown run.
    let of = |sample| candidate(0, 1, sample, Purpose::Search);
    let program = |candidate: CandidateRef| Candidate {
        source: format!("program of {}", candidate.id),
        candidate,
        answer: None,
    };
    let foreign = CandidateRef {
        run: RunId::new("other").unwrap(),
        ..candidate(0, 1, 1, Purpose::Search)
    };
    let programs = [program(foreign), program(of(0))];
    let compile = Queue::compile(&machine_class());
    world
        .dead_letter(&compile, &programs, "it kills compilers")
        .await;
    let verified = Verified {
        compiled: Compiled {
            candidate: of(1),
            source: "compiled".into(),
            object: ArtifactRef {
                digest: Digest::of(b"object"),
                size: 6,
            },
            techniques: TechniqueSet::all(),
            vector_bits: Some(256),
            toolchain: Digest::of(b"gcc"),
            key: None,
            compile_seconds: 0.5,
        },
        worst_error_share: 0.0,
        cases: 1,
        sizes: None,
        verify_seconds: 0.25,
        node: node_id(),
    };
    let time = Queue::time(&machine_class());
    world
        .dead_letter(&time, &[verified], "it kills timers")
        .await;
    // They complete the only step, so the run is over.
    soon(finished.cancelled()).await;
    working.end().await.unwrap();

    let lost = || async {
        let mut lost = BTreeMap::new();
        for outcome in world.log::<Outcome>(&subjects::outcome(&run_id())).await {
            let id = outcome.candidate.id.to_string();
            // The programs of the first task were never written, and the others' messages were lost.
            let kind = if id.starts_with("r-s0-g0-") {
                "generator"
            } else {
                "bus"
            };
            assert_eq!(outcome.verdict.kind(), kind, "{outcome:?}");
            lost.insert(id, outcome);
        }
        lost
    };
    let all = lost().await;
    let ids: Vec<&str> = all.keys().map(String::as_str).collect();
    assert_eq!(
        ids,
        ["r-s0-g0-c0", "r-s0-g0-c1", "r-s0-g1-c0", "r-s0-g1-c1"]
    );
    for (id, words, source) in [
        ("r-s0-g0-c1", "nobody understands it", ""),
        ("r-s0-g1-c0", "it kills compilers", "program of r-s0-g1-c0"),
        ("r-s0-g1-c1", "it kills timers", "compiled"),
    ] {
        let said = format!("{:?}", all[id].verdict);
        assert!(said.contains(words), "{said}");
        assert_eq!(all[id].source, source);
    }
    assert_eq!(all["r-s0-g1-c1"].techniques, Some(TechniqueSet::all()));

    // An archive that reads the dead letters again later finds that everything is decided.
    let finished = CancellationToken::new();
    let archive = Archive::new(world.context(settings()), Job::Search, finished.clone());
    let working = start(archive);
    soon(finished.cancelled()).await;
    working.end().await.unwrap();
    assert_eq!(lost().await, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_that_cannot_be_read_counts_as_lost_and_the_run_goes_on() {
    let world = World::new().await;
    let subject = subjects::outcome(&run_id());
    // An outcome of another version, under the name that any other outcome of the sample would have.
    let unknown = outcome(candidate(0, 0, 0, Purpose::Search), wrong());
    world.publish_other_version(&subject, &unknown).await;
    let known: Vec<Outcome> = [(0, 1), (1, 0), (1, 1)]
        .map(|(task, sample)| outcome(candidate(0, task, sample, Purpose::Search), wrong()))
        .into();
    world.bus.publish_many(&subject, &known).await.unwrap();
    let finished = CancellationToken::new();
    // With the default wait, which is longer than any test.
    let archive = Archive::new(world.context(settings()), Job::Search, finished.clone());
    let working = start(archive);
    soon(finished.cancelled()).await;
    working.end().await.unwrap();

    let mut dead = world.bus.dead_letters(0).await.unwrap();
    assert_eq!(dead.pending(), 1);
    let letter = soon(dead.next()).await.unwrap();
    assert_eq!(letter.subject, subject);
    assert!(letter.reason.contains("version"), "{}", letter.reason);
    let read = world.log::<Outcome>(&subject).await;
    let kinds: BTreeMap<String, &str> = read
        .iter()
        .map(|o| (o.candidate.id.to_string(), o.verdict.kind()))
        .collect();
    assert_eq!(kinds.len(), 4);
    assert_eq!(kinds["r-s0-g0-c0"], "bus");
    assert_eq!(kinds["r-s0-g1-c1"], "wrong_result");
}

/// The outcomes of a step: three programs that are wrong or slow, and one that is fast.
fn step_of(step: u64, gflops: [f64; 4]) -> Vec<Outcome> {
    let places = [(0, 0), (0, 1), (1, 0), (1, 1)];
    let outcome = |((task, sample), gflops): ((u32, u32), f64)| {
        Measured::at(gflops).outcome(candidate(step, task, sample, Purpose::Search))
    };
    places.into_iter().zip(gflops).map(outcome).collect()
}

/// The programs of a run of one step that are measured again if their outcomes come in this order.
async fn measured_again(outcomes: Vec<Outcome>) -> Vec<String> {
    let world = World::new().await;
    let subject = subjects::outcome(&run_id());
    world.bus.publish_many(&subject, &outcomes).await.unwrap();
    let finished = CancellationToken::new();
    let archive = Archive::new(world.context(settings()), Job::Search, finished.clone());
    let working = start(archive);
    let compile = Queue::compile(&machine_class()).all();
    let mut queue = world
        .bus
        .worker::<Candidate>(WorkerOptions::new(compile, 4))
        .await
        .unwrap();
    let mut asked = Vec::new();
    loop {
        tokio::select! {
            again = soon(queue.next()) => {
                let again = again.unwrap();
                let candidate = again.message().candidate.clone();
                asked.push(candidate.id.to_string());
                let outcome = Measured::at(10.0).outcome(candidate);
                world.bus.publish(&subject, &outcome).await.unwrap();
                again.done().await.unwrap();
            }
            () = finished.cancelled() => break,
        }
    }
    queue.close();
    working.end().await.unwrap();
    asked.sort();
    asked
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_of_outcomes_does_not_matter() {
    let outcomes = step_of(0, [10.0, 20.0, 30.0, 40.0]);
    let reversed: Vec<Outcome> = outcomes.iter().rev().cloned().collect();
    let asked = measured_again(outcomes).await;
    assert!(!asked.is_empty());
    assert_eq!(measured_again(reversed).await, asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_rests_on_the_second_measurements_that_were_asked_for_before_the_last_one() {
    let world = World::new().await;
    let subject = subjects::outcome(&run_id());
    let settings = Settings {
        max_steps: 3,
        ..settings()
    };
    let finished = CancellationToken::new();
    let working = start(Archive::new(world.context(settings), Job::Search, finished));
    let mut tasks = world
        .bus
        .worker::<Task>(WorkerOptions::new(Queue::generate("schedule").all(), 8))
        .await
        .unwrap();
    let mut next = async || {
        let task = soon(tasks.next()).await.unwrap();
        let message = task.message().clone();
        task.done().await.unwrap();
        message
    };
    for step in 0..2 {
        for _ in 0..2 {
            assert_eq!(next().await.step, step);
        }
        // No program of the second step qualifies for a second measurement.
        let gflops = if step == 0 { 40.0 } else { 1.0 };
        let outcomes = step_of(step, [gflops; 4]);
        world.bus.publish_many(&subject, &outcomes).await.unwrap();
    }
    let third = tokio::time::timeout(Duration::from_secs(1), next()).await;
    assert!(third.is_err(), "a second measurement is missing: {third:?}");
    let compile = Queue::compile(&machine_class()).all();
    let mut queue = world
        .bus
        .worker::<Candidate>(WorkerOptions::new(compile, 4))
        .await
        .unwrap();
    let task = loop {
        tokio::select! {
            again = soon(queue.next()) => {
                let again = again.unwrap();
                let outcome = Measured::at(39.0).outcome(again.message().candidate.clone());
                world.bus.publish(&subject, &outcome).await.unwrap();
                again.done().await.unwrap();
            }
            task = next() => break task,
        }
    };
    assert_eq!(task.step, 2);
    let mut log = world.bus.log::<Outcome>(&subject, 0).await.unwrap();
    let last = soon(log.replay()).await.unwrap().last().unwrap().0;
    assert_eq!(task.outcomes_seen, last, "it says what it rests on");
    queue.close();
    working.end().await.unwrap();
}
