//! A node that fails repeatedly leaves its work to others.

use std::sync::Arc;

use flopsmith_actors::Host;
use flopsmith_actors::node::{Context, Parts};
use flopsmith_actors::role::verifier::{Stage, StageContext, Verifier};
use flopsmith_bus::WorkerOptions;
use flopsmith_measure::{Report, Thoroughness};
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{
    Compiled, Digest, Failure, InfrastructureCause, Outcome, Purpose, TechniqueSet, Verified,
    subjects,
};
use flopsmith_test_support::{machine_class, node_id, run_id};

use crate::role_lease::shared;
use crate::{World, candidate, settings, soon, start};

/// The behaviour of a node's jail.
#[derive(Clone, Copy)]
enum Jail {
    Works,
    DoesNotBegin,
    Panics,
}

impl Stage for Jail {
    fn verify(&mut self, _: &[u8], _: u64, _: Thoroughness) -> Result<Report, Failure> {
        match self {
            Jail::Works => Ok(Report {
                cases: 1,
                sizes: None,
                worst_error_share: 0.0,
                seconds: 0.0,
            }),
            Jail::DoesNotBegin => {
                let cause = InfrastructureCause::Jail;
                Err(Failure::infrastructure(cause, "no jail"))
            }
            Jail::Panics => unreachable!("as the test wants it"),
        }
    }
}

/// A node of a cluster that verifies.
async fn node(world: &World, jail: Jail) -> (Host, Verifier) {
    let ours = world.context(settings());
    let (bus, store) = (shared(world).await, world.store.clone());
    let host = Host::new(
        node_id(),
        machine_class(),
        bus,
        store,
        flopsmith_actors::Pool::new(2),
    );
    let context = Context::new(Parts {
        run: run_id(),
        settings: settings(),
        folder: world.folder.path().to_owned(),
        problem: Arc::clone(&ours.first().problem),
        others: Vec::new(),
        toolchain: ours.toolchain.clone(),
        host: host.clone(),
    });
    let stages = vec![jail, jail];
    (host, Verifier::new(StageContext::new(context, stages)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_jail_does_not_begin_rests_and_others_do_its_work() {
    rests_and_others_work(Jail::DoesNotBegin).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_stage_panics_rests_and_others_do_its_work() {
    rests_and_others_work(Jail::Panics).await;
}

async fn rests_and_others_work(jail: Jail) {
    let world = World::new().await;
    let object = world.store.put(b"object".to_vec()).await.unwrap();
    let programs: Vec<Compiled> = (0..12)
        .map(|number| Compiled {
            candidate: candidate(0, number, 0, Purpose::Search),
            source: format!("program {number}"),
            object: object.clone(),
            techniques: TechniqueSet::EMPTY,
            vector_bits: None,
            toolchain: Digest::of(b"gcc"),
            key: None,
            compile_seconds: 0.0,
        })
        .collect();
    let (host, verifier) = node(&world, jail).await;
    let broken = start(verifier);
    let queue = Queue::verify(&machine_class()).of(&run_id());
    world.bus.publish_many(&queue, &programs).await.unwrap();
    soon(async {
        while !host.circuit_breaker.doubtful().contains(&("verify", true)) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let (healthy, verifier) = node(&world, Jail::Works).await;
    let working = start(verifier);
    let options = WorkerOptions::new(Queue::time(&machine_class()).all(), 12);
    let mut timer = world.bus.worker::<Verified>(options).await.unwrap();
    for _ in 0..programs.len() {
        soon(timer.next()).await.unwrap().done().await.unwrap();
    }
    let outcomes = world.log::<Outcome>(&subjects::outcome(&run_id())).await;
    assert!(outcomes.is_empty(), "none was given up: {outcomes:?}");
    assert_eq!(healthy.circuit_breaker.doubtful(), [("verify", false)]);
    working.end().await.unwrap();
    broken.end().await.unwrap();
}
