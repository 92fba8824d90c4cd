//! The run registry informs nodes of runs.

use flopsmith_actors::registry::RunRegistry;
use flopsmith_bus::{Change, RunSetup};
use flopsmith_test_support::{machine_class, problem_id, run_id};

use crate::{World, soon};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_over_waits_until_it_can_be_withdrawn() {
    let world = World::with(&RunSetup::default()).await;
    let registry = RunRegistry::open(&world.bus).await.unwrap();
    let (run, class) = (run_id(), machine_class());
    registry
        .in_common(&run, &problem_id(), &class, 7u32)
        .await
        .unwrap();
    // A part of the bus fails, like one that has no space to write.
    let jetstream = async_nats::jetstream::new(world.client().await);
    let stubborn = async_nats::jetstream::stream::Config {
        name: "KV_fs_classes".into(),
        subjects: vec!["$KV.fs_classes.>".into()],
        max_messages_per_subject: 1,
        deny_purge: true,
        ..async_nats::jetstream::stream::Config::default()
    };
    jetstream.delete_key_value("fs_classes").await.unwrap();
    jetstream.create_stream(stubborn).await.unwrap();
    let runs = world.bus.kv("fs_runs").await.unwrap();
    let mut told = runs.watch().await.unwrap();
    let withdrawing = tokio::spawn({
        let (bus, run) = (world.bus.clone(), run.clone());
        async move { RunRegistry::withdraw_patiently(&bus, &run).await }
    });
    // It starts anew with the run's entry.
    for _ in 0..2 {
        let change = soon(told.next()).await.unwrap();
        assert!(matches!(change, Change::Gone(_)), "{change:?}");
    }
    jetstream.delete_key_value("fs_classes").await.unwrap();
    world.bus.set_up_bucket("fs_classes", 1).await.unwrap();
    soon(withdrawing).await.unwrap().unwrap();
}
