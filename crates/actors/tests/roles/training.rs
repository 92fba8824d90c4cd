//! The learner as a role: updates without a finite gradient.

use std::collections::BTreeSet;
use std::path::Path;

use flopsmith_actors::role::learner::Learner;
use flopsmith_actors::role::recorder::{Progress, Recorder};
use flopsmith_actors::skipped::{self, Skipped};
use flopsmith_actors::{Error, skipped::Sample};
use flopsmith_config::{GeneratorKind, PpoConfig, Settings};
use flopsmith_policy::{Device, Kind, Model};
use flopsmith_protocol::{
    InfrastructureCause, Outcome, PolicyPublished, Purpose, Rollout, subjects,
};
use flopsmith_test_support::{Measured, infrastructure, outcome, rollout, run_id, wrong};
use tokio::sync::watch;

use crate::{World, candidate, settings, soon, start};

/// A log-probability that is finite, with an infinite ratio to the current policy's: e to the power of 2000.
const UNHEARD_OF: f32 = -2000.0;

fn training(limit: u32) -> Settings {
    let mut settings = Settings {
        skipped_steps_limit: limit,
        ..settings()
    };
    settings.generator.kind = GeneratorKind::Policy;
    settings.generator.model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/starter");
    settings
}

/// A step with a right and a wrong program in each group; the wrong ones were drawn from a policy that gave them almost
/// no probability.
fn step(number: u64, logprob: f32) -> (Vec<Outcome>, Vec<Rollout>) {
    let mut outcomes = Vec::new();
    for group in 0..2 {
        let of = |sample| candidate(number, group, sample, Purpose::Train);
        outcomes.push(Measured::at(10.0).outcome(of(0)));
        outcomes.push(outcome(of(1), wrong()));
    }
    let rollouts = outcomes.iter().map(|outcome| {
        let logprob = match outcome.verdict.measurement() {
            Some(_) => -1.0,
            None => logprob,
        };
        Rollout {
            logprobs: vec![logprob; 2],
            ..rollout(outcome)
        }
    });
    let rollouts = rollouts.collect();
    (outcomes, rollouts)
}

async fn publish(world: &World, number: u64, logprob: f32) {
    let (outcomes, rollouts) = step(number, logprob);
    let of = subjects::rollout(&run_id());
    world.bus.publish_many(&of, &rollouts).await.unwrap();
    let of = subjects::outcome(&run_id());
    world.bus.publish_many(&of, &outcomes).await.unwrap();
}

/// A step without a measurement, which leaves nothing to train on.
async fn publish_nothing(world: &World, number: u64) {
    let of = |group, sample| candidate(number, group, sample, Purpose::Train);
    let all = [(0, 0), (0, 1), (1, 0), (1, 1)]
        .map(|(g, s)| outcome(of(g, s), infrastructure(InfrastructureCause::Jail)));
    let rollouts: Vec<Rollout> = all.iter().map(rollout).collect();
    let subject = subjects::rollout(&run_id());
    world.bus.publish_many(&subject, &rollouts).await.unwrap();
    let subject = subjects::outcome(&run_id());
    world.bus.publish_many(&subject, &all).await.unwrap();
}

/// The policy versions up to this one, once it exists.
async fn versions(world: &World, last: u64) -> Vec<PolicyPublished> {
    let subject = subjects::policy(&run_id());
    let mut log = soon(world.bus.log::<PolicyPublished>(&subject, 0))
        .await
        .unwrap();
    let mut found: Vec<PolicyPublished> = Vec::new();
    while found.last().is_none_or(|p| p.version.0 < last) {
        found.push(soon(log.next()).await.unwrap().1);
    }
    found
}

fn kept(published: &PolicyPublished) -> Option<&flopsmith_protocol::ArtifactRef> {
    published.metrics.as_ref()?.skipped_batch.as_ref()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_without_a_finite_gradient_is_kept_and_too_many_in_a_row_end_the_run() {
    let world = World::new().await;
    let context = world.context(training(2));
    publish(&world, 1, UNHEARD_OF).await;
    publish(&world, 2, -1.0).await;
    publish(&world, 3, UNHEARD_OF).await;
    publish(&world, 4, UNHEARD_OF).await;
    let ended = soon(start(Learner::new(context.clone())).ended)
        .await
        .unwrap();
    // One version with an update lies between the first two.
    let error = ended.unwrap_err();
    assert!(matches!(error, Error::Hopeless(_)), "{error}");
    assert!(error.is_final());
    let said = error.to_string();
    assert!(said.contains("2 updates in a row"), "{said}");
    assert!(said.contains("skipped/step-000004.msgpack"), "{said}");

    let published = versions(&world, 4).await;
    let skipped: Vec<bool> = published.iter().map(|p| kept(p).is_some()).collect();
    assert_eq!(skipped, [false, true, false, true, true]);
    let weights = |version: usize| &published[version].weights.digest;
    assert_eq!(weights(0), weights(1));
    assert_ne!(weights(1), weights(2));
    assert_eq!(weights(2), weights(4));
    let artifact = kept(&published[4]).unwrap();
    assert!(said.contains(artifact.digest.as_str()), "{said}");
    let bytes = world.store.get(artifact).await.unwrap();
    let batch = Skipped::parse(&bytes).unwrap();
    assert_eq!((batch.step, batch.version.0), (4, 3));
    assert_eq!(batch.settings, skipped::digest(&context.settings));
    assert!(batch.error.contains("not finite"), "{}", batch.error);
    let (_, rollouts) = step(4, UNHEARD_OF);
    let same = |sample: &Sample, rollout: &Rollout| {
        sample.candidate == rollout.candidate.id
            && sample.prompt_tokens == rollout.prompt_tokens
            && sample.tokens == rollout.tokens
            && sample.logprobs == rollout.logprobs
            && (sample.advantage > 0.0) == (rollout.logprobs[0] == -1.0)
    };
    assert_eq!(batch.samples.len(), rollouts.len());
    for (sample, rollout) in batch.samples.iter().zip(&rollouts) {
        assert!(same(sample, rollout), "{sample:?} {rollout:?}");
    }

    // They are in the run's folder too, for any learner.
    let recorder = Recorder::new(context.clone(), watch::Sender::new(Progress::default()));
    let recorder = start(recorder);
    recorder.end().await.unwrap();
    let files = skipped::files(&context.folder);
    assert_eq!(files.len(), 3);
    assert_eq!(std::fs::read(&files[2]).unwrap(), bytes);

    // A learner that resumes the run starts after that step, with a new count.
    let learner = start(Learner::new(context.clone()));
    publish(&world, 5, UNHEARD_OF).await;
    publish(&world, 6, -1.0).await;
    let published = versions(&world, 6).await;
    let last = published.last().unwrap();
    assert_eq!((last.version.0, last.step, kept(last)), (6, 6, None));
    learner.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_without_anything_to_learn_begins_no_new_count_of_skipped_updates() {
    let world = World::new().await;
    let learner = start(Learner::new(world.context(training(2))));
    publish(&world, 1, UNHEARD_OF).await;
    publish_nothing(&world, 2).await;
    versions(&world, 2).await;
    publish(&world, 3, UNHEARD_OF).await;
    let ended = soon(learner.ended).await.unwrap();
    assert!(matches!(ended, Err(Error::Hopeless(_))), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_begins_no_new_count_of_skipped_updates() {
    let world = World::new().await;
    let context = world.context(training(2));
    let learner = start(Learner::new(context.clone()));
    publish(&world, 1, UNHEARD_OF).await;
    versions(&world, 1).await;
    learner.end().await.unwrap();
    publish(&world, 2, UNHEARD_OF).await;
    let ended = soon(start(Learner::new(context)).ended).await.unwrap();
    assert!(matches!(ended, Err(Error::Hopeless(_))), "{ended:?}");
}

fn by_ppo(limit: u32) -> Settings {
    Settings {
        ppo: Some(PpoConfig {
            learning_rate: 1e-4,
            ..PpoConfig::default()
        }),
        ..training(limit)
    }
}

/// A sampler has no value head, so it could not load weights with one.
#[tokio::test(flavor = "multi_thread")]
async fn ppo_trains_on_rewards_and_publishes_what_a_sampler_takes_over() {
    let world = World::new().await;
    let context = world.context(by_ppo(1));
    let learner = start(Learner::new(context.clone()));
    publish(&world, 1, -1.0).await;
    publish(&world, 2, -1.0).await;
    let published = versions(&world, 2).await;
    learner.end().await.unwrap();
    let digests: BTreeSet<&str> = published
        .iter()
        .map(|p| p.weights.digest.as_str())
        .collect();
    assert_eq!(digests.len(), 3);
    let mut sampler = Model::load(&context.settings.generator.model, Device::Cpu, Kind::Float);
    let sampler = sampler.as_mut().unwrap();
    for version in &published {
        let weights = world.store.get(&version.weights).await.unwrap();
        sampler.set_weights(&weights).unwrap();
    }
    let metrics: Vec<_> = published[1..]
        .iter()
        .map(|p| p.metrics.clone().unwrap())
        .collect();
    for metrics in &metrics {
        let ppo = metrics.ppo.unwrap();
        assert_eq!(metrics.samples, 4);
        assert!(
            ppo.divergence.is_finite() && ppo.divergence_weight > 0.0,
            "{ppo:?}"
        );
        assert!(ppo.value_loss > 0.0, "{ppo:?}");
        assert!(metrics.entropy > 0.0, "{metrics:?}");
    }
    // The weight of the divergence follows the divergence, so the second step has another weight.
    let weight = |step: usize| metrics[step].ppo.unwrap().divergence_weight;
    assert_ne!(weight(0), weight(1));

    // A learner that takes over continues like one that never stopped.
    let learner = start(Learner::new(context));
    publish(&world, 3, -1.0).await;
    let third = versions(&world, 3).await.pop().unwrap();
    learner.end().await.unwrap();
    let other = World::new().await;
    let learner = start(Learner::new(other.context(by_ppo(1))));
    for step in 1..=3 {
        publish(&other, step, -1.0).await;
    }
    let same = versions(&other, 3).await.pop().unwrap();
    learner.end().await.unwrap();
    assert_eq!(third.weights.digest, same.weights.digest);
}

#[tokio::test(flavor = "multi_thread")]
async fn ppo_keeps_a_batch_without_a_finite_gradient_and_too_many_in_a_row_end_the_run() {
    let world = World::new().await;
    let context = world.context(by_ppo(2));
    publish(&world, 1, UNHEARD_OF).await;
    publish(&world, 2, UNHEARD_OF).await;
    let ended = soon(start(Learner::new(context)).ended).await.unwrap();
    let error = ended.unwrap_err();
    assert!(matches!(error, Error::Hopeless(_)), "{error}");
    let published = versions(&world, 2).await;
    let skipped: Vec<bool> = published.iter().map(|p| kept(p).is_some()).collect();
    assert_eq!(skipped, [false, true, true]);
    assert_eq!(published[0].weights.digest, published[2].weights.digest);
    let batch = world.store.get(kept(&published[2]).unwrap()).await.unwrap();
    let batch = Skipped::parse(&batch).unwrap();
    assert_eq!(batch.samples.len(), 4);
    assert!(batch.error.contains("not finite"), "{}", batch.error);
}
