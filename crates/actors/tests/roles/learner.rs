//! The samples of a training step, and the weights after it.

use std::time::Duration;

use flopsmith_actors::batches::Batches;
use flopsmith_actors::versions::{KEPT, Versions};
use flopsmith_coordination::limits;
use flopsmith_protocol::{
    InfrastructureCause, MachineClass, MachineFacts, NodeId, Outcome, PolicyPublished,
    PolicyVersion, Purpose, Rollout, subjects,
};
use flopsmith_test_support::{
    ATTESTED, infrastructure, machine, outcome, problem_id, rollout, run_id, wrong,
};

use crate::{World, candidate, settings, soon};

/// A training step: three programs with rewards, and one that the infrastructure failed.
fn step(step: u64) -> Vec<Outcome> {
    let sample = |group, sample, verdict| {
        let candidate = candidate(step, group, sample, Purpose::Train);
        outcome(candidate, verdict)
    };
    vec![
        sample(0, 0, wrong()),
        sample(0, 1, wrong()),
        sample(1, 0, infrastructure(InfrastructureCause::Jail)),
        sample(1, 1, wrong()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn outcomes_that_are_read_first_wait_for_their_rollouts() {
    let world = World::new().await;
    let context = world.context(settings());
    let outcomes = step(1);
    let rollouts: Vec<Rollout> = outcomes.iter().map(rollout).collect();
    let mut batches = Batches::open(&context, 1, limits::ROLLOUT).await.unwrap();
    let of = subjects::outcome(&run_id());
    world.bus.publish_many(&of, &outcomes).await.unwrap();
    let next = tokio::time::timeout(Duration::from_millis(300), batches.next()).await;
    assert!(next.is_err(), "there are no tokens yet");
    let of = subjects::rollout(&run_id());
    world.bus.publish_many(&of, &rollouts).await.unwrap();
    let batch = soon(batches.next()).await.unwrap();
    assert_eq!(batch.step, 1);
    let tokens = |group: usize| -> Vec<bool> {
        let samples = batch.groups[group].iter();
        samples.map(|s| s.rollout.is_some()).collect()
    };
    assert_eq!(
        (tokens(0), tokens(1)),
        (vec![true, true], vec![false, true])
    );

    // After a restart the learner reads both logs from their beginnings, and trains on no sample again.
    let mut again = Batches::open(&context, 1, limits::ROLLOUT).await.unwrap();
    assert_eq!(soon(again.next()).await.unwrap(), batch);
    let mut later = Batches::open(&context, 2, limits::ROLLOUT).await.unwrap();
    let next = tokio::time::timeout(Duration::from_millis(300), later.next()).await;
    assert!(next.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_that_is_nowhere_is_an_error_and_no_smaller_batch() {
    let world = World::new().await;
    let context = world.context(settings());
    let outcomes = step(1);
    // All except the last.
    let rollouts: Vec<Rollout> = outcomes[..3].iter().map(rollout).collect();
    let of = subjects::rollout(&run_id());
    world.bus.publish_many(&of, &rollouts).await.unwrap();
    let of = subjects::outcome(&run_id());
    world.bus.publish_many(&of, &outcomes).await.unwrap();
    let silence = Duration::from_secs(2);
    let mut batches = Batches::open(&context, 0, silence).await.unwrap();
    let error = soon(batches.next()).await.unwrap_err().to_string();
    assert!(
        error.contains("step 1") && error.contains("r-s1-g1-c1"),
        "{error}"
    );
}

async fn publish(versions: &mut Versions, version: u64) {
    // The second step trained nothing: its weights are those of the first.
    let content = if version == 2 { 1 } else { version };
    let bytes = format!("weights {content}").into_bytes();
    let done = versions.publish(PolicyVersion(version), version, bytes, None);
    soon(done).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn weights_that_nobody_needs_any_more_leave_the_store() {
    let world = World::new().await;
    let context = world.context(settings());
    let mut versions = Versions::open(&context).await.unwrap();
    for version in 0..4 {
        publish(&mut versions, version).await;
    }
    // The learner restarts, publishes its version once more and continues.
    let mut versions = Versions::open(&context).await.unwrap();
    for version in 3..8 {
        publish(&mut versions, version).await;
    }
    let published: Vec<PolicyPublished> = world.log(&subjects::policy(&run_id())).await;
    assert_eq!(published.len(), 8);
    for news in published {
        let version = news.version.0;
        let there = world.store.get(&news.weights).await.is_ok();
        let kept = version == 0 || version + KEPT as u64 >= 8;
        assert_eq!(there, kept, "version {version}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_peak_is_that_of_the_first_node_of_the_class() {
    let world = World::new().await;
    let context = world.context(settings());
    let peak = || async {
        soon(context.machine_peaks())
            .await
            .unwrap()
            .get(&problem_id())
    };
    assert_eq!(peak().await, None);
    for (node, class, peak) in [
        ("a", "other", 10.0),
        ("b", "local", 20.0),
        ("c", "local", 30.0),
    ] {
        let facts = MachineFacts {
            node: NodeId::new(node).unwrap(),
            machine_class: MachineClass::new(class).unwrap(),
            peak_gflops: peak,
            ..machine(ATTESTED)
        };
        let subject = subjects::machine(&run_id());
        world.bus.publish(&subject, &facts).await.unwrap();
    }
    assert_eq!(peak().await, Some(20.0));
}
