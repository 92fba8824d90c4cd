//! The units of a node's resources that roles hold while they work.

use flopsmith_config::{Device, Settings};
use futures::FutureExt;

use crate::{World, settings, soon};

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_on_a_gpu_leaves_a_core_to_compilers_and_nothing_to_a_timer() {
    let world = World::new().await;
    let host = world.host().with_gpu();
    let cores = host.cores.clone();
    let trained = soon(host.policy_lease("learn", &settings())).await;
    let compiled = cores.one("compile").now_or_never();
    assert!(compiled.is_some(), "one core is free");
    drop(compiled);
    assert!(cores.all("time").now_or_never().is_none());
    // Without `steps_ahead` training and sampling take turns on the GPU.
    let sampled = host.policy_lease("generate", &settings()).now_or_never();
    assert!(sampled.is_none());
    drop(trained);
    assert!(cores.all("time").now_or_never().is_some());
    soon(host.policy_lease("generate", &settings())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sampling_goes_on_beside_training_where_it_may_be_ahead() {
    let world = World::new().await;
    let mut ahead = settings();
    ahead.generator.steps_ahead = 1;
    for host in [world.host(), world.host().with_gpu()] {
        let side_by_side = |settings: &Settings| {
            let trained = host.policy_lease("learn", settings).now_or_never();
            let sampled = host.policy_lease("generate", settings).now_or_never();
            (trained.is_some(), sampled.is_some())
        };
        assert_eq!(side_by_side(&ahead), (true, true));
        assert_eq!(side_by_side(&settings()), (true, false));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_is_told_to_use_the_cpu_takes_its_cores_beside_a_gpu() {
    let world = World::new().await;
    let host = world.host().with_gpu();
    let mut settings = settings();
    settings.learner.device = Device::Cpu;
    let trained = soon(host.policy_lease("learn", &settings)).await;
    assert!(host.cores.one("compile").now_or_never().is_none());
    drop(trained);
    settings.learner.device = Device::Auto;
    let _trained = soon(host.policy_lease("learn", &settings)).await;
    assert!(host.cores.one("compile").now_or_never().is_some());
}
