//! Learner: groups of outcomes → policy versions.

mod stage;

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use flopsmith_coordination::limits;
use flopsmith_policy::Adapter;
use flopsmith_protocol::{Digest, PolicyVersion, StepMetrics};
use flopsmith_store::Checkpoints;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::Role;
use crate::advantages::{StageBests, with_advantages};
use crate::batches::{Batch, Batches};
use crate::best_answers::BestAnswers;
use crate::error::Error;
use crate::memory;
use crate::node::Context;
use crate::peaks::Peaks;
use crate::recorded::Recorded;
use crate::role_lease::RoleLease;
use crate::sample_filter;
use crate::skipped::{self, Skipped};
use crate::versions::{Told, Versions};
use flopsmith_config::{Device, Settings};
use stage::Stage;

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

struct Working {
    /// Taken out while a blocking thread trains with it.
    stage: Option<Stage>,
    version: PolicyVersion,
    /// The first step that was not trained before this start.
    first: u64,
    versions: Versions,
    /// Held by the only learner of the run.
    lease: RoleLease,
    checkpoints: Checkpoints,
    stage_bests: StageBests,
    best_answers: BestAnswers,
    /// Known once a timer has published it.
    peaks: Peaks,
    /// Seconds of the run before this start.
    before: f64,
    started: Instant,
    skips: Skips,
    /// The run that is repeated, if one is.
    recorded: Option<Arc<Recorded>>,
}

/// Steps whose update was left out. Saved with every step, so that no restart begins to count anew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Skips {
    /// Those since the last update.
    in_a_row: u32,
    /// Batches that were kept in all.
    kept: u32,
}

impl Skips {
    /// The key in a checkpoint's description.
    const KEY: &str = "skips";

    /// The skips of a learner that starts. If the run had ended because of skips in a row, that count begins anew.
    fn saved(meta: &serde_json::Value, limit: u32) -> Self {
        let saved = meta.get(Self::KEY).map(Self::deserialize);
        let skips = saved.and_then(Result::ok).unwrap_or_default();
        Self {
            in_a_row: if skips.in_a_row >= limit {
                0
            } else {
                skips.in_a_row
            },
            ..skips
        }
    }
}

impl Working {
    /// Seconds the run has lasted.
    fn seconds(&self) -> f64 {
        self.before + self.started.elapsed().as_secs_f64()
    }

    /// Share of the budget that is spent by now, or, in a repeated run, that was spent when this step was recorded.
    fn progress(&self, settings: &Settings) -> Result<f64, Error> {
        match &self.recorded {
            Some(recorded) => recorded.progress(PolicyVersion(self.version.0 + 1)),
            None => Ok((self.seconds() / settings.budget_seconds.max(1e-3)).clamp(0.0, 1.0)),
        }
    }
}

#[async_trait]
impl Role for Learner {
    async fn run(&mut self, stop: CancellationToken) -> Result<(), Error> {
        let Some(lease) = RoleLease::of(&self.context, "learner", &stop).await? else {
            return Ok(());
        };
        let mut work = self.restore(lease).await?;
        let mut batches = Batches::open(&self.context, work.first, limits::ROLLOUT)
            .await?
            .behind(work.stage_bests.clone());
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                error = work.lease.lost() => return Err(error),
                batch = batches.next() => {
                    let batch = batch?;
                    let span = tracing::info_span!(
                        parent: None, "train", run = %self.context.run, step = batch.step, version = Empty,
                        samples = Empty, mean_reward = Empty, loss = Empty, kl = Empty, seconds = Empty
                    );
                    self.train(&mut work, batch).instrument(span).await?;
                }
            }
        }
        work.lease.leave().await
    }
}

impl Learner {
    /// The settings of the training on this node, for advice.
    fn trained(&self) -> Settings {
        let settings = &self.context.settings;
        let gpu = self.context.host.gpu.is_some() && settings.learner.device != Device::Cpu;
        settings.trained_on(gpu, Adapter::is_in(&settings.generator.model))
    }

    async fn restore(&self, lease: RoleLease) -> Result<Working, Error> {
        let context = &self.context;
        let checkpoints =
            Checkpoints::new(context.host.store.clone(), "learner").in_term(lease.term());
        let folder = context.settings.generator.model.clone();
        let cores = context.host.policy_cores(&context.settings) as usize;
        let settings = context.settings.clone();
        let latest = lease.latest(&checkpoints, &context.run).await?;
        let mut files = Vec::new();
        let mut version = PolicyVersion(0);
        let mut done = None;
        let mut before = 0.0;
        let mut stage_bests = StageBests::default();
        let mut best_answers = BestAnswers::default();
        let mut told = Told::default();
        let mut skips = Skips::default();
        let evaluate = &context.settings.evaluate;
        let recorded = match evaluate.replays() {
            true => Some(Recorded::read(&evaluate.recorded)?),
            false => None,
        };
        // A record of outcomes alone has no weights to compare and no progress to repeat.
        let recorded = recorded.filter(|of| of.versions().next().is_some());
        if let Some(checkpoint) = &latest {
            for name in checkpoint.names() {
                files.push((name.to_owned(), checkpoint.file(name).await?.to_vec()));
            }
            version = PolicyVersion(checkpoint.meta["version"].as_u64().unwrap_or(0));
            done = checkpoint.meta["step"].as_u64();
            before = checkpoint.meta["seconds"].as_f64().unwrap_or(0.0);
            told = Told::saved(&checkpoint.meta);
            skips = Skips::saved(&checkpoint.meta, context.settings.skipped_steps_limit);
            let answers = files.iter().find(|(name, _)| name == BestAnswers::FILE);
            let (_, bytes) = answers.ok_or_else(|| Error::Saved {
                role: "learner",
                detail: format!("it has no {}", BestAnswers::FILE),
            })?;
            best_answers = rmp_serde::from_slice(bytes).map_err(|e| Error::Saved {
                role: "learner",
                detail: e.to_string(),
            })?;
            stage_bests = StageBests::saved(&checkpoint.meta).map_err(|e| Error::Saved {
                role: "learner",
                detail: e.to_string(),
            })?;
        }
        let begun = move || Stage::begin(&folder, &settings, cores, &files);
        let stage = tokio::task::spawn_blocking(begun)
            .await
            .map_err(|_| Error::Thread("learner"))?
            .map_err(|unfit| match unfit.is_out_of_memory {
                true => Error::Memory {
                    role: "learner",
                    detail: memory::loading(&unfit.words, &self.trained()),
                },
                // Another reading of the model would meet the same error.
                false if unfit.is_of_settings => {
                    Error::Hopeless(format!("[learner]: {}", unfit.words))
                }
                false => Error::Learner(unfit.words),
            })?;
        let mut work = Working {
            stage: Some(stage),
            version,
            first: done.map_or(0, |s| s + 1),
            versions: Versions::open(context).await?,
            lease,
            checkpoints,
            stage_bests,
            best_answers,
            peaks: Peaks::default(),
            before,
            started: Instant::now(),
            skips,
            recorded: recorded.map(Arc::new),
        };
        // Published again after a restart: a generator may have missed it, and a repetition changes nothing.
        self.publish(&mut work, done.unwrap_or(0), told).await?;
        Ok(work)
    }

    async fn train(&self, work: &mut Working, batch: Batch) -> Result<(), Error> {
        let Batch {
            step,
            groups,
            traces,
        } = batch;
        // A step has many samples and a span one parent, so it links to them.
        let span = Span::current();
        flopsmith_bus::link(&span, &traces);
        let settings = &self.context.settings;
        let outcomes = || groups.iter().flatten().map(|sample| &sample.outcome);
        if !work.peaks.cover(outcomes()) {
            work.peaks = self.context.machine_peaks().await?;
        }
        let (samples, mut metrics) = with_advantages(
            groups,
            settings,
            work.peaks.clone(),
            &mut work.stage_bests,
            &mut work.best_answers,
        );
        if metrics.dropped > 0 {
            tracing::warn!(step, dropped = metrics.dropped, "samples left their groups");
        }
        let written_by = samples
            .iter()
            // Best answers were not drawn for this step.
            .filter(|sample| !sample.rollout.logprobs.is_empty())
            .filter_map(|sample| sample.rollout.candidate.policy)
            .map(|version| version.0)
            .min();
        let behind = work.version.0 - written_by.unwrap_or(work.version.0).min(work.version.0);
        metrics.staleness = u32::try_from(behind).unwrap_or(u32::MAX);
        let (samples, filtered) = sample_filter::filter(samples, &settings.advantage, work.version);
        if filtered > 0 {
            tracing::info!(
                step,
                filtered,
                "answers that were cut off or are too old are not trained on"
            );
        }
        metrics.filtered = filtered;
        let temperature = settings.generator.temperature;
        let samples = Arc::new(samples);
        let lease = self.context.host.policy_lease("learn", settings).await;
        let progress = work.progress(settings)?;
        let mut stage = work.stage.take().ok_or(Error::Thread("learner"))?;
        let given = Arc::clone(&samples);
        let (stage, done) = tokio::task::spawn_blocking(move || {
            let done = stage.step(&given, temperature, progress);
            (stage, done)
        })
        .await
        .map_err(|_| Error::Thread("learner"))?;
        let micro_batch_tokens = stage.micro_batch_tokens();
        work.stage = Some(stage);
        let done = done.map_err(|error| match error.is_out_of_memory() {
            true => {
                let longest = samples
                    .iter()
                    .map(|s| s.rollout.prompt_tokens.len() + s.rollout.tokens.len());
                let step = memory::Step {
                    samples: samples.len(),
                    longest: longest.max().unwrap_or_default(),
                    micro_batch_tokens,
                };
                Error::Memory {
                    role: "learner",
                    detail: memory::training(
                        &crate::supervisor::words(&error),
                        step,
                        &self.trained(),
                    ),
                }
            }
            false => Error::Learner(crate::supervisor::words(&error)),
        })?;
        let report = done.report;
        // A step without anything to learn from says nothing of the policy.
        if report.updates > 0 {
            work.skips.in_a_row = 0;
        }
        let mut hopeless = None;
        if let Some(error) = done.skipped {
            let batch = Skipped {
                format: skipped::FORMAT,
                run: self.context.run.clone(),
                step,
                version: work.version,
                error,
                settings: skipped::digest(settings),
                learner: settings.learner.clone(),
                progress,
                samples: samples
                    .iter()
                    .map(|sample| skipped::Sample::of(sample, temperature))
                    .collect(),
            };
            hopeless = self.skip(work, &batch, &mut metrics).await?;
        }
        metrics.progress = Some(progress);
        metrics.loss = report.loss;
        metrics.kl = report.kl;
        metrics.entropy = report.entropy;
        metrics.clip_share = report.clip_share;
        metrics.grad_norm = report.grad_norm;
        metrics.tokens = report.tokens;
        metrics.seconds = report.seconds;
        let has_gap = report.updates > 0 && done.ppo.is_none();
        metrics.sampler_gap = has_gap.then_some(report.sampler_gap);
        metrics.ppo = done.ppo;
        metrics.learning_rate = (report.updates > 0).then_some(report.learning_rate);
        metrics.left_out = u32::try_from(report.left_out).unwrap_or(u32::MAX);
        work.version = PolicyVersion(work.version.0 + 1);
        span.record("version", work.version.0);
        span.record("samples", metrics.samples);
        span.record("mean_reward", metrics.mean_reward);
        span.record("loss", metrics.loss);
        span.record("kl", metrics.kl);
        span.record("seconds", metrics.seconds);
        self.context.host.metrics.trained(
            work.version.0,
            written_by.unwrap_or(work.version.0),
            metrics.mean_reward,
        );
        let told = Told(Some(metrics));
        self.checkpoint(work, step, &told).await?;
        self.publish(work, step, told).await?;
        drop(lease);
        match hopeless {
            // The step is done nevertheless: a run that is continued goes on after this step.
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Keeps the batch of a step without a finite gradient. Returns the error that ends the run if the limit of skips
    /// in a row is reached.
    async fn skip(
        &self,
        work: &mut Working,
        batch: &Skipped,
        metrics: &mut StepMetrics,
    ) -> Result<Option<Error>, Error> {
        metrics.skipped_updates += 1;
        work.skips.in_a_row += 1;
        let limit = self.context.settings.skipped_steps_limit;
        let last = work.skips.in_a_row >= limit;
        if last || work.skips.kept < skipped::KEPT {
            metrics.skipped_batch = Some(batch.keep(&self.context.host.store).await?);
            work.skips.kept += 1;
        }
        let kept = metrics.skipped_batch.as_ref().map_or_else(
            || "not kept: there are many already".to_owned(),
            |kept| {
                let file = skipped::name(batch.step);
                format!("{file} in the run's folder, {} in the store", kept.digest)
            },
        );
        let (step, error) = (batch.step, &batch.error);
        tracing::error!(step, error, batch = kept, "an update was skipped");
        Ok(last.then(|| {
            Error::Hopeless(format!(
                "{limit} updates in a row had no finite gradient ({error}): the policy is broken; a smaller learning rate may keep \
                 it whole; the samples of the last one are kept: {kept}"
            ))
        }))
    }

    async fn checkpoint(&self, work: &mut Working, step: u64, told: &Told) -> Result<(), Error> {
        let stage = work.stage.as_ref().ok_or(Error::Thread("learner"))?;
        let mut files = stage
            .state()
            .map_err(|e| Error::Learner(crate::supervisor::words(&e)))?;
        let best_answers =
            rmp_serde::to_vec_named(&work.best_answers).map_err(|e| Error::Saved {
                role: "learner",
                detail: e.to_string(),
            })?;
        files.push((BestAnswers::FILE.to_owned(), best_answers));
        let meta = serde_json::json!({
            "step": step,
            "version": work.version.0,
            "seconds": work.seconds(),
            (StageBests::KEY): work.stage_bests,
            (Told::KEY): told,
            (Skips::KEY): work.skips,
        });
        let checkpoint = work
            .checkpoints
            .save(&self.context.run, step, files, meta)
            .await?;
        work.lease.commit(checkpoint.into()).await?;
        work.checkpoints.keep(&self.context.run, 2).await?;
        Ok(())
    }

    async fn publish(&self, work: &mut Working, step: u64, told: Told) -> Result<(), Error> {
        let stage = work.stage.as_ref().ok_or(Error::Thread("learner"))?;
        let bytes = stage
            .policy()
            .map_err(|e| Error::Learner(crate::supervisor::words(&e)))?;
        if let Some(recorded) = &work.recorded {
            recorded.check(work.version, &Digest::of(&bytes))?;
        }
        work.versions
            .publish(work.version, step, bytes, told.0)
            .await
    }
}
