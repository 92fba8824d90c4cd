//! Training on pairs: reward models and direct performance alignment.
//!
//! Both take the same pairs, batches, order and optimizer. They differ in the scores (of the whole text by a scalar
//! head, or of the answer's tokens by the policy and its frozen reference) and in the loss ([`crate::pairwise`]).

use std::sync::Arc;

use flopsmith_config::{DpaConfig, RewardModelConfig, Training as _};
use flopsmith_policy::{Model, Plan, Scalar};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};

use crate::error::{Doing, Error, Result};
use crate::learner::{adapt, shuffle};
use crate::loss::Tally;
use crate::pair_objective::{Aim, Dealt, PairMetrics, Pairs, TokenPair, metrics};
use crate::skips::SkippedUpdate;
use crate::trainer::Trainer;
use crate::{pair_state, state};

/// Number of answers that the reference scores between two reports of progress.
const ASKED_AT_ONCE: usize = 512;

/// The progress of a training on pairs after one update.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PairProgress {
    /// Updates done or skipped, this one included.
    pub step: u64,
    /// Updates planned.
    pub steps: u64,
    /// The update's pairs, evaluated before the update; none if it was skipped because its loss or gradient was not
    /// finite.
    pub batch: Option<PairMetrics>,
    /// Gradient norm before clipping.
    pub grad_norm: Option<f64>,
    /// Step size.
    pub learning_rate: f64,
    /// Updates skipped so far.
    pub skipped: u64,
    /// Positions computed, prompts included and padding left out.
    pub positions: u64,
}

/// A model in training on pairs.
pub struct PairTraining {
    /// The model. Its weights change with every [`PairTraining::step`].
    pub model: Model,
    aim: Aim,
    config: RewardModelConfig,
    train: Dealt,
    held_out: Dealt,
    trainer: Trainer,
    steps: u64,
    /// The order of the pairs in the pass that was last requested.
    order: Option<(u64, Vec<usize>)>,
}

impl PairTraining {
    /// Makes a reward model of `model`; a model without a head for rewards gets a fresh one.
    pub fn reward_model(
        model: Model,
        pairs: &[TokenPair],
        validation: &[TokenPair],
        config: &RewardModelConfig,
    ) -> Result<Self> {
        config.check()?;
        let seed = config.seed.cast_signed();
        let model = model
            .with_scalar(Scalar::Score, seed)
            .doing("get a head for rewards")?;
        Self::new(model, Aim::Rewards, pairs, validation, config.clone())
    }

    /// Aligns `model`; its present state is the reference.
    pub fn alignment(
        model: Model,
        pairs: &[TokenPair],
        validation: &[TokenPair],
        config: &DpaConfig,
    ) -> Result<Self> {
        config.check()?;
        if model.config().scalar == Scalar::Score {
            return Err(Error::Input(
                "a reward model writes no programs, so there is nothing to align".into(),
            ));
        }
        let aim = Aim::Alignment { beta: config.beta };
        Self::new(model, aim, pairs, validation, config.fit())
    }

    fn new(
        mut model: Model,
        aim: Aim,
        pairs: &[TokenPair],
        validation: &[TokenPair],
        config: RewardModelConfig,
    ) -> Result<Self> {
        if pairs.is_empty() {
            return Err(Error::Input("there are no pairs".into()));
        }
        let train = Dealt::new(&model, aim, pairs, config.margin_cap, "pair")?;
        let held_out = Dealt::new(
            &model,
            aim,
            validation,
            config.margin_cap,
            "validation pair",
        )?;
        adapt(&mut model, config.lora.as_ref(), config.seed)?;
        let trainer = Trainer::new(&mut model, config.shared(), None, config.seed)?;
        let pass = train.pairs().div_ceil(config.batch) as u64;
        Ok(PairTraining {
            steps: config.steps.unwrap_or(pass * u64::from(config.epochs)),
            model,
            aim,
            config,
            train,
            held_out,
            trainer,
            order: None,
        })
    }

    /// Updates done or skipped.
    pub fn steps_done(&self) -> u64 {
        self.trainer.tried()
    }

    /// Updates skipped.
    pub fn skipped(&self) -> u64 {
        self.trainer.skipped()
    }

    /// Performs the next update; `None` if all are done.
    ///
    /// An update whose loss or gradient is not finite is skipped and changes nothing.
    ///
    /// # Errors
    /// [`Error::TooManySkipped`] if more than [`RewardModelConfig::most_skipped`] updates in a row were skipped.
    pub fn step(&mut self) -> Result<Option<PairProgress>> {
        if self.steps_done() >= self.steps {
            return Ok(None);
        }
        self.ask_reference()?;
        let picked = self.pick();
        let rate = self.config.rate(self.steps_done(), self.steps);
        let updated = self.update(&picked, rate);
        let most = self.config.most_skipped;
        let updated = self.trainer.may_skip(updated, &picked, most)?;
        Ok(Some(PairProgress {
            step: self.steps_done(),
            steps: self.steps,
            batch: updated.as_ref().map(|(tally, _)| metrics(tally)),
            grad_norm: updated.map(|(_, norm)| norm),
            learning_rate: rate,
            skipped: self.trainer.skipped(),
            positions: picked
                .iter()
                .flat_map(|pair| [2 * pair, 2 * pair + 1])
                .map(|row| self.train.rows[row].ids.len() as u64)
                .sum(),
        }))
    }

    /// The updates skipped since the last call, including those of a [`PairTraining::step`] that failed.
    pub fn take_skipped(&mut self) -> Vec<SkippedUpdate> {
        self.trainer.take_skipped()
    }

    /// Loss and accuracy on the validation pairs; `None` if there are none.
    pub fn judge(&mut self) -> Result<Option<PairMetrics>> {
        self.ask_reference()?;
        let pairs = self.held_out.pairs();
        if pairs == 0 {
            return Ok(None);
        }
        let objective = self.objective(&self.held_out, pairs);
        let everything: Vec<usize> = (0..2 * pairs).collect();
        let scores = self.trainer.engine.scores(
            &self.model,
            &self.held_out.rows,
            &everything,
            self.aim.plan(),
        )?;
        let mut tally = Tally::default();
        for (pair, scores) in scores.chunks_exact(2).enumerate() {
            let sum = |i: usize| match self.aim {
                Aim::Rewards => scores[i].values.iter().sum(),
                Aim::Alignment { .. } => scores[i].logprobs.iter().sum(),
            };
            tally.add(&objective.tally(&objective.judge(pair, sum(0), sum(1))));
        }
        Ok(Some(metrics(&tally)))
    }

    fn update(&mut self, picked: &[usize], rate: f64) -> Result<(Tally, f64)> {
        let units: Vec<Vec<usize>> = picked
            .iter()
            .map(|pair| vec![2 * pair, 2 * pair + 1])
            .collect();
        let objective = Arc::new(self.objective(&self.train, picked.len()));
        self.trainer
            .update(&self.model, &self.train.rows, &units, &objective, rate)
    }

    /// The pairs of the present update. They depend on seed and step alone.
    fn pick(&mut self) -> Vec<usize> {
        let (pairs, batch) = (self.train.pairs(), self.config.batch);
        let in_pass = pairs.div_ceil(batch) as u64;
        let step = self.steps_done();
        let (pass, place) = (step / in_pass, (step % in_pass) as usize);
        if self.order.as_ref().is_none_or(|(of, _)| *of != pass) {
            let mut random = ChaCha8Rng::seed_from_u64(self.config.seed);
            random.set_stream(pass);
            let mut order: Vec<usize> = (0..pairs).collect();
            shuffle(&mut order, &mut random);
            self.order = Some((pass, order));
        }
        let order = self.order.as_ref().map_or(&[][..], |(_, order)| order);
        order[place * batch..((place + 1) * batch).min(pairs)].to_vec()
    }

    /// Has the model, as it is before the first update, score all answers. No copy of the model is then needed.
    fn ask_reference(&mut self) -> Result<()> {
        self.prepare(|_, _| {})
    }

    /// Does the work that precedes the first update, which [`PairTraining::step`] would otherwise do: for an alignment
    /// the model scores all answers in its initial state. `tell` receives the number of answers scored and their total.
    /// If the scores were computed or restored before, nothing is done.
    pub fn prepare(&mut self, mut tell: impl FnMut(usize, usize)) -> Result<()> {
        if self.aim == Aim::Rewards {
            return Ok(());
        }
        for dealt in [&mut self.train, &mut self.held_out] {
            if dealt.references.is_some() {
                continue;
            }
            let everything: Vec<usize> = (0..dealt.rows.len()).collect();
            let mut sums: Vec<f64> = Vec::with_capacity(everything.len());
            for asked in everything.chunks(ASKED_AT_ONCE) {
                let (model, rows) = (&self.model, &dealt.rows);
                let scores = self
                    .trainer
                    .engine
                    .scores(model, rows, asked, Plan::LOGPROBS)?;
                sums.extend(scores.iter().map(|s| s.logprobs.iter().sum::<f64>()));
                tell(sums.len(), everything.len());
            }
            if let Some(row) = sums.iter().position(|sum| !sum.is_finite()) {
                return Err(Error::Input(format!(
                    "the model gives an answer of pair {} no finite log-probability before any training: its weights cannot be used",
                    row / 2
                )));
            }
            dealt.references = Some(Arc::new(sums));
        }
        Ok(())
    }

    fn objective(&self, dealt: &Dealt, pairs: usize) -> Pairs {
        Pairs {
            aim: self.aim,
            margins: Arc::clone(&dealt.margins),
            references: dealt.references.clone(),
            weight: 1.0 / pairs.max(1) as f64,
        }
    }

    /// The training's whole state, as files: the trained parameters, the optimizer, counters and the reference's
    /// log-probabilities.
    pub fn state(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let mut files = self.trainer.state(&self.model, self.own())?;
        if let (Some(train), Some(held_out)) = (&self.train.references, &self.held_out.references) {
            files.push((
                pair_state::REFERENCES.to_owned(),
                pair_state::references_bytes(train, held_out)?,
            ));
        }
        Ok(files)
    }

    /// Restores the files of [`PairTraining::state`]. The training must have been begun on the same model, pairs and
    /// settings.
    ///
    /// With the same number of workers the training continues bit by bit like the one that wrote the files. After an
    /// error, restore again or discard the training: a part of the files may have been taken over.
    pub fn restore(&mut self, files: &[(String, Vec<u8>)]) -> Result<()> {
        let opened = self.trainer.open::<pair_state::Own>(&self.model, files)?;
        opened
            .own()
            .fits(&self.own(), opened.seed() == self.config.seed)?;
        // Once a weight has changed, the reference's log-probabilities cannot be computed any more.
        let asked = files.iter().any(|(n, _)| n == pair_state::REFERENCES);
        if self.aim != Aim::Rewards && (asked || opened.updates() > 0) {
            let bytes = state::find(files, pair_state::REFERENCES)?;
            let lengths = [self.train.rows.len(), self.held_out.rows.len()];
            let [train, held_out] = pair_state::parse_references(bytes, lengths)?;
            self.train.references = Some(Arc::new(train));
            self.held_out.references = Some(Arc::new(held_out));
        }
        self.trainer.restore(&mut self.model, opened)?;
        Ok(())
    }

    fn own(&self) -> pair_state::Own {
        pair_state::Own {
            steps: self.steps,
            batch: self.config.batch,
            pairs: pair_state::digest(&self.train.rows, &self.train.margins),
        }
    }
}
