//! What the archive does when outcomes do not come, and how a run ends.

use std::collections::BTreeMap;
use std::time::Duration;

use flopsmith_actors::Settings;
use flopsmith_actors::course::Job;
use flopsmith_actors::role::archive::Archive;
use flopsmith_bus::{RunSetup, WorkerOptions};
use flopsmith_protocol::{
    Candidate, InfrastructureCause, Outcome, Purpose, Task, Verdict, subjects,
};
use flopsmith_store::Checkpoints;
use flopsmith_test_support::{Measured, outcome, run_id, wrong};
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
    // The server forgets ids at once: what is published twice is stored twice.
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
    // With the lost ones the only step is complete, and the run over.
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
    let lease = context.cores.one("generate").await;
    let finished = CancellationToken::new();
    let working = start(Archive::new(context, Job::Search, finished.clone()));
    let mut queue = world
        .bus
        .worker::<Task>(WorkerOptions::new(subjects::generate("schedule"), 2))
        .await
        .unwrap();
    // Held, as by a generator that takes long.
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
    // The only step is over, and the last measurement under way.
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
        .worker::<Candidate>(WorkerOptions::new(subjects::compile("cpu"), 1))
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
