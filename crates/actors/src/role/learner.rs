//! Learner: groups of outcomes → policy versions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use flopsmith_bus::TraceContext;
use flopsmith_learner::{GrpoConfig, GrpoSample, Learner as Stage, StepReport};
use flopsmith_policy::{Device, Kind, Model};
use flopsmith_protocol::{
    CandidateId, Digest, GroupId, Outcome, PolicyPublished, PolicyVersion, Purpose, Rollout,
    StepMetrics, subjects,
};
use flopsmith_reward::{Context as RewardContext, group_advantages, sharing};
use flopsmith_store::Checkpoints;
use tokio_util::sync::CancellationToken;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::Role;
use crate::error::Error;
use crate::node::Context;
use crate::steps::Steps;

/// Trains the policy on complete steps.
pub struct Learner {
    context: Arc<Context>,
}

impl Learner {
    /// The learner of the context's run.
    pub fn new(context: Arc<Context>) -> Self {
        Self { context }
    }
}

/// What has come of one step.
#[derive(Default)]
struct Collected {
    outcomes: BTreeMap<CandidateId, Outcome>,
    /// Where each of them was decided, for the links of the step's span.
    traces: Vec<TraceContext>,
}

struct Working {
    /// Taken out while a blocking thread trains with it.
    stage: Option<Box<Stage>>,
    version: PolicyVersion,
    steps: Steps,
    collected: BTreeMap<u64, Collected>,
    /// First rollout by candidate and source.
    rollouts: HashMap<(CandidateId, Digest), Rollout>,
    checkpoints: Checkpoints,
    stage_best: HashMap<u32, f64>,
    /// Seconds of the run before this start.
    before: f64,
    started: Instant,
}

impl Working {
    /// Seconds the run has lasted.
    fn seconds(&self) -> f64 {
        self.before + self.started.elapsed().as_secs_f64()
    }
}

#[async_trait]
impl Role for Learner {
    async fn run(&mut self, stop: CancellationToken) -> Result<(), Error> {
        let context = Arc::clone(&self.context);
        let mut work = self.restore().await?;
        let mut outcomes = context
            .bus
            .log::<Outcome>(&subjects::outcome(&context.run), 0)
            .await?;
        let mut rollouts = context
            .bus
            .log::<Rollout>(&subjects::rollout(&context.run), 0)
            .await?;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                next = rollouts.next() => {
                    let (_, rollout) = next?;
                    if rollout.candidate.purpose == Purpose::Train && !work.steps.knows(&rollout.candidate) {
                        let key = (rollout.candidate.id.clone(), rollout.source.clone());
                        work.rollouts.entry(key).or_insert(rollout);
                    }
                }
                next = outcomes.next() => {
                    let (_, outcome) = next?;
                    if outcome.candidate.purpose != Purpose::Train || !work.steps.note(&outcome.candidate) {
                        continue;
                    }
                    let step = outcome.candidate.step;
                    let collected = work.collected.entry(step).or_default();
                    collected.traces.push(outcomes.trace().clone());
                    collected.outcomes.insert(outcome.candidate.id.clone(), outcome);
                    if work.steps.complete(step) {
                        let span = tracing::info_span!(
                            parent: None, "train", run = %context.run, step, version = Empty,
                            samples = Empty, mean_reward = Empty, loss = Empty, kl = Empty, seconds = Empty
                        );
                        self.train(&mut work, step).instrument(span).await?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Learner {
    async fn restore(&self) -> Result<Working, Error> {
        let context = &self.context;
        let checkpoints = Checkpoints::new(context.store.clone(), "learner");
        let folder = context.settings.generator.model.clone();
        let config: GrpoConfig = serde_json::from_value(serde_json::Value::Object(
            context.settings.learner.0.clone(),
        ))
        .map_err(|e| Error::Learner(format!("the [learner] table of the configuration: {e}")))?;
        let seed = context.settings.seed;
        let latest = checkpoints.latest(&context.run).await?;
        let mut files = Vec::new();
        let mut version = PolicyVersion(0);
        let mut done = None;
        let mut before = 0.0;
        if let Some(checkpoint) = &latest {
            for name in checkpoint.names() {
                files.push((name.to_owned(), checkpoint.file(name).await?.to_vec()));
            }
            version = PolicyVersion(checkpoint.meta["version"].as_u64().unwrap_or(0));
            done = checkpoint.meta["step"].as_u64();
            before = checkpoint.meta["seconds"].as_f64().unwrap_or(0.0);
        }
        let stage = tokio::task::spawn_blocking(move || -> Result<Stage, String> {
            let model = Model::load(&folder, tch_device(), Kind::Float)
                .map_err(|e| crate::supervisor::words(&e))?;
            let mut stage =
                Stage::new(model, config, seed).map_err(|e| crate::supervisor::words(&e))?;
            if !files.is_empty() {
                stage
                    .restore(&files)
                    .map_err(|e| crate::supervisor::words(&e))?;
            }
            Ok(stage)
        })
        .await
        .map_err(|_| Error::Thread("learner"))?
        .map_err(Error::Learner)?;
        let mut work = Working {
            stage: Some(Box::new(stage)),
            version,
            steps: Steps::starting_at(done.map_or(0, |s| s + 1)),
            collected: BTreeMap::new(),
            rollouts: HashMap::new(),
            checkpoints,
            stage_best: HashMap::new(),
            before,
            started: Instant::now(),
        };
        // Said again after a restart: a generator may not have heard it, and hearing it twice changes nothing.
        self.publish(&mut work, done.unwrap_or(0), None).await?;
        Ok(work)
    }

    async fn train(&self, work: &mut Working, step: u64) -> Result<(), Error> {
        let Some(collected) = work.collected.remove(&step) else {
            return Ok(());
        };
        // A step has many samples and a span one parent, so it links to them.
        let span = Span::current();
        flopsmith_bus::link(&span, &collected.traces);
        let (samples, mut metrics) = self.samples(work, &collected)?;
        let lease = self.context.cores.all("learn").await;
        let progress = work.seconds() / self.context.settings.budget_seconds.max(1e-3);
        let mut stage = work.stage.take().ok_or(Error::Thread("learner"))?;
        let (stage, report) = tokio::task::spawn_blocking(move || {
            let report = if samples.is_empty() {
                Ok(StepReport::default())
            } else {
                stage.set_progress(progress);
                stage.step(&samples)
            };
            (stage, report)
        })
        .await
        .map_err(|_| Error::Thread("learner"))?;
        work.stage = Some(stage);
        let report = report.map_err(|e| Error::Learner(crate::supervisor::words(&e)))?;
        metrics.loss = report.loss;
        metrics.kl = report.kl;
        metrics.entropy = report.entropy;
        metrics.clip_share = report.clip_share;
        metrics.grad_norm = report.grad_norm;
        metrics.tokens = report.tokens;
        metrics.seconds = report.seconds;
        work.version = PolicyVersion(work.version.0 + 1);
        span.record("version", work.version.0);
        span.record("samples", metrics.samples);
        span.record("mean_reward", metrics.mean_reward);
        span.record("loss", metrics.loss);
        span.record("kl", metrics.kl);
        span.record("seconds", metrics.seconds);
        work.steps.close(step);
        work.rollouts.retain(|_, r| r.candidate.step > step);
        self.checkpoint(work, step).await?;
        self.publish(work, step, Some(metrics)).await?;
        drop(lease);
        Ok(())
    }

    /// The step's samples with their advantages. Samples whose outcome says nothing about them leave their group.
    fn samples(
        &self,
        work: &mut Working,
        collected: &Collected,
    ) -> Result<(Vec<GrpoSample>, StepMetrics), Error> {
        let settings = &self.context.settings;
        let mut metrics = StepMetrics::default();
        let mut groups: BTreeMap<&GroupId, Vec<&Outcome>> = BTreeMap::new();
        for outcome in collected.outcomes.values() {
            groups
                .entry(&outcome.candidate.group)
                .or_default()
                .push(outcome);
            if let Some(m) = outcome.verdict.measurement() {
                let best = work.stage_best.entry(outcome.candidate.stage).or_default();
                *best = best.max(m.gflops);
            }
        }
        let mut worth = Vec::new();
        for outcomes in groups.values() {
            for outcome in outcomes {
                let m = outcome.verdict.measurement();
                let context = RewardContext {
                    peak_gflops: m.map(|m| m.gflops / m.share_of_peak.max(1e-9)),
                    stage_best_gflops: work.stage_best.get(&outcome.candidate.stage).copied(),
                };
                let reward = settings.reward.reward(&outcome.verdict, &context);
                if reward.is_none() {
                    metrics.dropped += 1;
                }
                let error = settings
                    .reward
                    .reward_se(&outcome.verdict, &context)
                    .unwrap_or(0.0);
                // Programs that differ in white space only are one program.
                let program: String = outcome.source.split_whitespace().collect();
                worth.push(((outcome.candidate.permitted, program), reward, error));
            }
        }
        let all_rewards: Vec<f64> = worth.iter().filter_map(|(_, reward, _)| *reward).collect();
        sharing::share(&mut worth, settings.advantage.sharing);
        let mut worth = worth.into_iter();
        let mut rewarded = Vec::new();
        let mut flat = 0usize;
        for outcomes in groups.values() {
            let (rewards, errors): (Vec<Option<f64>>, Vec<f64>) = worth
                .by_ref()
                .take(outcomes.len())
                .map(|(_, reward, error)| (reward, error))
                .unzip();
            let valid: Vec<f64> = rewards.iter().flatten().copied().collect();
            if valid.windows(2).all(|w| (w[0] - w[1]).abs() < 1e-12) {
                flat += 1;
            }
            rewarded.push((outcomes, rewards, errors));
        }
        metrics.flat_groups = flat as f64 / groups.len().max(1) as f64;
        metrics.mean_reward = all_rewards.iter().sum::<f64>() / all_rewards.len().max(1) as f64;
        let groups_of_rewards: Vec<(Vec<Option<f64>>, Vec<f64>)> = rewarded
            .iter()
            .map(|(_, r, e)| (r.clone(), e.clone()))
            .collect();
        let advantages = group_advantages(
            &groups_of_rewards,
            settings.advantage.scale,
            settings.advantage.kind,
        );
        let mut samples = Vec::new();
        for ((outcomes, _, _), advantages) in rewarded.iter().zip(advantages) {
            for (outcome, advantage) in outcomes.iter().zip(advantages) {
                let Some(mut advantage) = advantage else {
                    continue;
                };
                if outcome.verdict.measurement().is_some() {
                    advantage += settings.advantage.imitation;
                }
                let key = (
                    outcome.candidate.id.clone(),
                    Digest::of(outcome.source.as_bytes()),
                );
                let Some(rollout) = work.rollouts.get(&key) else {
                    tracing::warn!(candidate = %key.0, "no rollout belongs to this outcome; the sample leaves its group");
                    metrics.dropped += 1;
                    continue;
                };
                metrics.samples += 1;
                // A sample without advantage adds nothing to the gradient.
                if advantage.abs() < 1e-9 {
                    continue;
                }
                samples.push(GrpoSample {
                    prompt: rollout.prompt_tokens.clone(),
                    tokens: rollout.tokens.clone(),
                    old_logprobs: rollout.logprobs.clone(),
                    advantage: advantage as f32,
                    temperature: settings.generator.temperature,
                });
            }
        }
        Ok((samples, metrics))
    }

    async fn checkpoint(&self, work: &mut Working, step: u64) -> Result<(), Error> {
        let stage = work.stage.as_ref().ok_or(Error::Thread("learner"))?;
        let files = stage
            .state()
            .map_err(|e| Error::Learner(crate::supervisor::words(&e)))?;
        let meta = serde_json::json!({
            "step": step,
            "version": work.version.0,
            "seconds": work.seconds(),
        });
        work.checkpoints
            .save(&self.context.run, step, files, meta)
            .await?;
        work.checkpoints.keep(&self.context.run, 2).await?;
        Ok(())
    }

    async fn publish(
        &self,
        work: &mut Working,
        step: u64,
        metrics: Option<StepMetrics>,
    ) -> Result<(), Error> {
        let stage = work.stage.as_ref().ok_or(Error::Thread("learner"))?;
        let bytes = stage
            .model
            .weights_bytes()
            .map_err(|e| Error::Learner(crate::supervisor::words(&e)))?;
        let weights = self.context.store.put(bytes).await?;
        let published = PolicyPublished {
            run: self.context.run.clone(),
            version: work.version,
            step,
            weights,
            metrics,
        };
        self.context
            .bus
            .publish(&subjects::policy(&self.context.run), &published)
            .await?;
        Ok(())
    }
}

fn tch_device() -> Device {
    Device::cuda_if_available()
}
