//! Proximal policy optimization with a value head (Schulman et al., 2017; on language models Ziegler et al., 2019).
//!
//! A step takes answers that the policy has just written, each with a score for the whole answer. The present model
//! predicts the value before each token, and the frozen reference gives the tokens' log-probabilities. From these come
//! rewards and advantages ([`crate::gae`]), and some passes of small updates follow ([`crate::ppo_loss`]). Then the
//! weight of the divergence is adapted to the measured divergence ([`flopsmith_config::KlControl`]).

use std::sync::Arc;
use std::time::Instant;

use flopsmith_policy::{Entropy, Kind, Model, Plan, Scalar};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};

use crate::batch::Row;
use crate::error::{Doing, Error, Result};
use crate::gae::{Horizon, advantages, token_rewards, whiten};
use crate::learner::{adapt, shuffle};
use crate::loss::Tally;
use crate::ppo_loss::Terms;
use crate::ppo_objective::{Clipped, Prepared, explained};
use crate::ppo_sample::{PpoReport, PpoSample, check};
use crate::skips::SkippedUpdate;
use crate::state;
use crate::trainer::{Own, Trainer};
use flopsmith_config::rates::warm;
use flopsmith_config::{PpoConfig, Training as _};

/// A policy in training by PPO.
pub struct Ppo {
    /// The policy, with its value head. Its weights change with every [`Ppo::step`].
    pub model: Model,
    config: PpoConfig,
    trainer: Trainer,
    reference: Model,
    steps: u64,
    /// Finished share of the training, as set by the caller.
    progress: f64,
    kl_weight: f64,
}

/// The saved counters that only PPO has.
#[derive(Debug, Serialize, Deserialize)]
struct Saved {
    steps: u64,
    /// The weight of the divergence, bit by bit.
    kl_weight_bits: u64,
}

impl Own for Saved {
    const KIND: &'static str = "ppo";
}

impl Ppo {
    /// Sets the finished share of the training, 0 to 1; [`PpoConfig::schedule`] depends on it.
    pub fn set_progress(&mut self, share: f64) {
        self.progress = if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.0
        };
    }

    /// A learner for `model`, which gets a value head if it has none. The present model is kept as the reference: a
    /// frozen copy, or with an adapter the weights below it, plus a copy of an adapter that the model had before.
    ///
    /// `seed` determines the answers of each update. It uses at most `cores` processor cores; all if there is no number.
    pub fn new(model: Model, config: PpoConfig, cores: Option<usize>, seed: u64) -> Result<Self> {
        config.check()?;
        if model.config().scalar == Scalar::Score {
            return Err(Error::Input(
                "a reward model writes no programs, so it is no policy to train".into(),
            ));
        }
        let mut model = model
            .with_scalar(Scalar::Value, seed.cast_signed())
            .doing("get a head for values")?;
        let reference = match (&config.lora, model.adapter()) {
            (None, None) => model.frozen_copy(),
            // The weights below an adapter never change and need no copy.
            _ => model.sibling(),
        };
        let reference = reference.doing("keep itself as a reference")?;
        adapt(&mut model, config.lora.as_ref(), seed)?;
        let trainer = Trainer::new(&mut model, config.shared(), cores, seed)?;
        Ok(Ppo {
            kl_weight: config.kl.start(),
            model,
            config,
            trainer,
            reference,
            steps: 0,
            progress: 0.0,
        })
    }

    /// The settings.
    pub fn config(&self) -> &PpoConfig {
        &self.config
    }

    /// Number of calls of [`Ppo::step`] that trained.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Weight of the divergence in the next step.
    pub fn kl_weight(&self) -> f64 {
        self.kl_weight
    }

    /// Updates skipped so far.
    pub fn skipped(&self) -> u64 {
        self.trainer.skipped()
    }

    /// The updates skipped since the last call, by their samples in the last step, including those of a [`Ppo::step`]
    /// that failed.
    pub fn take_skipped(&mut self) -> Vec<SkippedUpdate> {
        self.trainer.take_skipped()
    }

    /// Trains on the given answers; without answers it does nothing.
    ///
    /// An update whose loss or gradient is not finite is skipped. The whole step is skipped, as one update, if the
    /// values or the log-probabilities of the policy or the reference are not finite. Samples that contradict
    /// themselves or the model are refused before the computation begins.
    ///
    /// # Errors
    /// [`Error::TooManySkipped`] if more than [`PpoConfig::most_skipped`] updates in a row were skipped.
    pub fn step(&mut self, samples: &[PpoSample]) -> Result<PpoReport> {
        let began = Instant::now();
        let mut report = PpoReport {
            kl_weight: self.kl_weight,
            answers: samples.len() as u64,
            ..PpoReport::default()
        };
        if samples.is_empty() {
            return Ok(report);
        }
        check(&self.model, samples)?;
        let mut order: Vec<usize> = (0..samples.len()).collect();
        let prepared = self.prepare(samples, &mut report);
        let most = self.config.most_skipped;
        let Some(prepared) = self.trainer.may_skip(prepared, &order, most)? else {
            self.steps += 1;
            // The answers' scores are known even if the step is skipped.
            let score = samples.iter().map(|s| s.score).sum::<f64>() / samples.len() as f64;
            return Ok(PpoReport {
                score,
                kl_weight: self.kl_weight,
                answers: samples.len() as u64,
                skipped: 1,
                seconds: began.elapsed().as_secs_f64(),
                ..PpoReport::default()
            });
        };
        let prepared = Arc::new(prepared);
        let mut random = ChaCha8Rng::seed_from_u64(self.trainer.seed());
        // Each step has its own random stream: the number of steps is the whole random state.
        random.set_stream(self.steps);
        let mut sums = Tally::default();
        for _ in 0..self.config.epochs {
            shuffle(&mut order, &mut random);
            for picked in order.chunks(self.config.batch) {
                self.update(&prepared, picked, &mut report, &mut sums)?;
            }
        }
        self.steps += 1;
        self.kl_weight = self
            .config
            .kl
            .next(self.kl_weight, report.kl, samples.len());
        let (updates, tokens) = (report.updates.max(1) as f64, sums.tokens.max(1) as f64);
        report.policy_loss = (sums.loss - sums.value_loss) / updates;
        report.value_loss = sums.value_loss / updates;
        report.grad_norm /= updates;
        report.approx_kl = sums.kl / tokens;
        report.clip_share = sums.clipped as f64 / tokens;
        report.value_clip_share = sums.values_clipped as f64 / tokens;
        report.seconds = began.elapsed().as_secs_f64();
        Ok(report)
    }

    /// Values, rewards, advantages and returns of a step's answers, under the present policy.
    fn prepare(&self, samples: &[PpoSample], report: &mut PpoReport) -> Result<Prepared> {
        let rows: Arc<Vec<Row>> = Arc::new(
            samples
                .iter()
                .map(|s| Row::new(&s.prompt, &s.tokens, f64::from(s.temperature)))
                .collect(),
        );
        let everything: Vec<usize> = (0..rows.len()).collect();
        let references = self
            .trainer
            .engine
            .logprobs(&self.reference, &rows, &everything)?;
        // In half precision the sampler's log-probabilities differ from the learner's by rounding, which would be
        // mistaken for learning; the learner therefore computes them itself.
        let half = matches!(self.model.kind(), Kind::BFloat16 | Kind::Half);
        let plan = Plan {
            logprobs: true,
            values: true,
            entropy: Entropy::Report,
            ..Plan::LOGPROBS
        };
        let values = self
            .trainer
            .engine
            .scores(&self.model, &rows, &everything, plan)?;
        let horizon = Horizon {
            discount: self.config.discount,
            lambda: self.config.lambda,
        };
        let mut prepared = Prepared {
            rows,
            old_logprobs: Vec::new(),
            old_values: Vec::new(),
            advantages: Vec::new(),
            returns: Vec::new(),
        };
        for ((sample, reference), scores) in samples.iter().zip(&references).zip(values) {
            let values = scores.values;
            let old = match half {
                true => scores.logprobs.iter().map(|lp| *lp as f32).collect(),
                false => sample.old_logprobs.clone(),
            };
            let finite = values.iter().all(|v| v.is_finite())
                && reference.iter().chain(&old).all(|lp| lp.is_finite());
            if !finite {
                return Err(Error::NotFinite {
                    what: "a value or a log-probability",
                    update: self.trainer.tried(),
                });
            }
            let rewards = token_rewards(&old, reference, self.kl_weight, sample.score);
            let own = advantages(&rewards, &values, horizon);
            let divergence = |(own, other): (&f32, &f32)| f64::from(*own) - f64::from(*other);
            report.kl += old.iter().zip(reference).map(divergence).sum::<f64>();
            report.score += sample.score;
            report.reward += rewards.iter().sum::<f64>();
            report.entropy += scores.entropy.iter().sum::<f64>();
            report.tokens += sample.tokens.len() as u64;
            prepared
                .returns
                .push(own.iter().zip(&values).map(|(a, v)| a + v).collect());
            prepared.advantages.push(own);
            prepared.old_values.push(values);
            prepared.old_logprobs.push(old);
        }
        let answers = samples.len() as f64;
        report.entropy /= report.tokens.max(1) as f64;
        report.kl /= answers;
        report.score /= answers;
        report.reward /= answers;
        report.explained = explained(&prepared.returns, &prepared.old_values);
        if self.config.whiten {
            whiten(&mut prepared.advantages);
        }
        Ok(prepared)
    }

    fn update(
        &mut self,
        prepared: &Arc<Prepared>,
        picked: &[usize],
        report: &mut PpoReport,
        sums: &mut Tally,
    ) -> Result<()> {
        let fallen = self.config.schedule.factor(self.progress);
        let warm = warm(self.trainer.updates(), self.config.warmup);
        let rate = self.config.learning_rate * fallen * warm;
        let updated = self.try_update(prepared, picked, rate);
        let most = self.config.most_skipped;
        match self.trainer.may_skip(updated, picked, most)? {
            Some((tally, norm)) => {
                report.updates += 1;
                report.grad_norm += norm;
                report.learning_rate = rate;
                sums.add(&tally);
            }
            None => report.skipped += 1,
        }
        Ok(())
    }

    fn try_update(
        &mut self,
        prepared: &Arc<Prepared>,
        picked: &[usize],
        rate: f64,
    ) -> Result<(Tally, f64)> {
        let tokens: usize = picked.iter().map(|row| prepared.rows[*row].counted()).sum();
        let objective = Arc::new(Clipped {
            terms: Terms {
                clip: self.config.clip,
                value_clip: self.config.value_clip,
                value_weight: self.config.value_weight,
            },
            prepared: Arc::clone(prepared),
            weight: 1.0 / tokens.max(1) as f64,
        });
        let units: Vec<Vec<usize>> = picked.iter().map(|row| vec![*row]).collect();
        self.trainer
            .update(&self.model, &prepared.rows, &units, &objective, rate)
    }

    /// The learner's whole state, as files: the trained parameters, the optimizer, counters and seed, and the reference
    /// unless it is the weights below the adapter.
    pub fn state(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let own = Saved {
            steps: self.steps,
            kl_weight_bits: self.kl_weight.to_bits(),
        };
        let mut files = self.trainer.state(&self.model, own)?;
        if self.keeps_reference() {
            let bytes = self.reference.trained_bytes();
            files.push((
                state::REFERENCE.to_owned(),
                bytes.doing("write the reference")?,
            ));
        }
        Ok(files)
    }

    /// True if the reference does not follow from the model alone.
    fn keeps_reference(&self) -> bool {
        self.reference.adapter().is_some() || self.model.adapter().is_none()
    }

    /// Restores the files of [`Ppo::state`], the seed included. The learner must have been made for a model of the same
    /// shape (with an adapter: for the same weights below it) with the same settings; other files are ignored.
    ///
    /// With the same number of workers the learner continues bit by bit like the one that wrote the files. After an
    /// error, restore again or discard the learner: a part of the files may have been taken over.
    pub fn restore(&mut self, files: &[(String, Vec<u8>)]) -> Result<()> {
        let opened = self.trainer.open::<Saved>(&self.model, files)?;
        if self.keeps_reference() {
            self.reference
                .set_weights(state::find(files, state::REFERENCE)?)
                .doing("take over the reference")?;
        }
        let saved = self.trainer.restore(&mut self.model, opened)?;
        self.steps = saved.steps;
        self.kl_weight = f64::from_bits(saved.kl_weight_bits);
        Ok(())
    }
}
