//! Supervised fine-tuning: answers to prompts, by maximum likelihood.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flopsmith_policy::{Model, Plan};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};

use crate::batch::Row;
use crate::error::{Doing, Error, Result};
use crate::gradient::{Engine, Objective, RowScores, RowSlopes};
use crate::learner::{adapt, check_ids, shuffle};
use crate::loss::Tally;
use crate::pair_state;
use crate::report::{SftProgress, SftReport};
use crate::skips::SkippedUpdate;
use crate::trainer::{self, Trainer};
use flopsmith_config::{Labels, SftConfig, Training as _};

/// Trains `model` on the answers to the prompts of `examples`, each a pair of token ids: [`SftTraining`] from beginning
/// to end.
///
/// `progress` is called after every update that was not skipped and may end the training.
///
/// # Errors
/// With [`Error::TooManySkipped`] the model keeps the weights of the last update that was not skipped.
pub fn sft(
    model: &mut Model,
    examples: &[(Vec<u32>, Vec<u32>)],
    config: &SftConfig,
    validation: &[(Vec<u32>, Vec<u32>)],
    mut progress: impl FnMut(&SftProgress) -> ControlFlow<()>,
) -> Result<SftReport> {
    let rows = begin(model, examples, config, validation)?;
    adapt(model, config.lora.as_ref(), config.seed)?;
    // The replica has the same weights, and its own gradients.
    let own = model.replica().doing("share its weights")?;
    let mut training = SftTraining::over(own, rows, config)?;
    while let Some(done) = training.step()? {
        // This function does not report skipped updates.
        training.take_skipped();
        if progress(&done).is_break() {
            break;
        }
    }
    training.finish()
}

/// Mean negative log-probability of the taught tokens of `examples`, nats per token; `None` without examples.
pub fn evaluate(
    model: &Model,
    examples: &[(Vec<u32>, Vec<u32>)],
    config: &SftConfig,
) -> Result<Option<f64>> {
    config.check()?;
    let rows = rows_of(model, examples, config.labels, "example")?;
    let thrift = trainer::thrift(config.shared(), config.seed);
    let engine = Engine::new(model, config.workers, thrift)?;
    mean_loss(&engine, model, &rows)
}

/// Rows to train on and rows to validate on.
type Rows = (Arc<Vec<Row>>, Arc<Vec<Row>>);

fn begin(
    model: &Model,
    examples: &[(Vec<u32>, Vec<u32>)],
    config: &SftConfig,
    validation: &[(Vec<u32>, Vec<u32>)],
) -> Result<Rows> {
    config.check()?;
    let rows = rows_of(model, examples, config.labels, "example")?;
    let held_out = rows_of(model, validation, config.labels, "validation example")?;
    if rows.is_empty() {
        return Err(Error::Input("there are no examples".into()));
    }
    Ok((rows, held_out))
}

/// The position of a training in its passes over the examples.
struct Epochs {
    rows: Arc<Vec<Row>>,
    seed: u64,
    batch_tokens: usize,
    short_first: f64,
    /// The pass that `batches` belong to, and the index of the next batch.
    epoch: u64,
    next: usize,
    batches: Vec<Vec<usize>>,
}

impl Epochs {
    fn new(rows: Arc<Vec<Row>>, config: &SftConfig) -> Self {
        let mut epochs = Epochs {
            rows,
            seed: config.seed,
            batch_tokens: config.batch_tokens,
            short_first: config.short_first,
            epoch: 0,
            next: 0,
            batches: Vec::new(),
        };
        epochs.batches = epochs.cut(0);
        epochs
    }

    /// The next update's rows.
    fn next(&mut self) -> Vec<usize> {
        if self.next == self.batches.len() {
            self.go_to(self.epoch + 1, 0);
        }
        self.next += 1;
        // There is at least one row, so every pass has at least one update.
        self.batches[self.next - 1].clone()
    }

    fn go_to(&mut self, epoch: u64, next: usize) {
        self.batches = self.cut(epoch);
        self.epoch = epoch;
        self.next = next.min(self.batches.len());
    }

    /// The updates of one pass: the examples in a random order, added to an update while they fit.
    fn cut(&self, epoch: u64) -> Vec<Vec<usize>> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(epoch);
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        shuffle(&mut order, &mut random);
        if epoch == 0 {
            self.begin_short(&mut order);
        }
        let mut batches = Vec::new();
        let (mut batch, mut tokens) = (Vec::new(), 0);
        for row in order {
            let length = self.rows[row].ids.len();
            if !batch.is_empty() && tokens + length > self.batch_tokens {
                batches.push(std::mem::take(&mut batch));
                tokens = 0;
            }
            batch.push(row);
            tokens += length;
        }
        batches.push(batch);
        batches
    }

    /// Moves long examples back within the first `short_first` of a pass: none keeps a place before the one that its rank by length
    /// gives it there.
    fn begin_short(&self, order: &mut [usize]) {
        let mut by_length = order.to_vec();
        by_length.sort_by_key(|row| self.rows[*row].ids.len());
        let mut places = vec![0; order.len()];
        for (rank, row) in by_length.into_iter().enumerate() {
            places[row] = (self.short_first * rank as f64) as usize;
        }
        for (at, row) in order.iter().enumerate() {
            places[*row] = places[*row].max(at);
        }
        order.sort_by_key(|row| places[*row]);
    }
}

/// A model in supervised fine-tuning.
///
/// An update minimises the mean negative log-probability of the taught tokens of about `batch_tokens` tokens. The same
/// seed and number of workers give the same weights. An update whose loss or gradient is not finite is skipped.
pub struct SftTraining {
    /// The model. Its weights change with every [`SftTraining::step`].
    pub model: Model,
    config: SftConfig,
    rows: Arc<Vec<Row>>,
    held_out: Arc<Vec<Row>>,
    trainer: Trainer,
    epochs: Epochs,
    report: SftReport,
    /// Updates planned.
    steps: u64,
    /// Time spent on updates in this process, and the positions of these updates.
    training: Duration,
    positions: u64,
    began: Instant,
    /// Seconds of earlier sessions.
    earlier: f64,
    /// True if the validation loss in the report was measured after the last update.
    looked: bool,
}

impl SftTraining {
    /// Begins to train `model` on the answers of `examples`. With `config.lora` a model without an adapter gets a fresh
    /// one.
    pub fn new(
        mut model: Model,
        examples: &[(Vec<u32>, Vec<u32>)],
        config: &SftConfig,
        validation: &[(Vec<u32>, Vec<u32>)],
    ) -> Result<Self> {
        let rows = begin(&model, examples, config, validation)?;
        adapt(&mut model, config.lora.as_ref(), config.seed)?;
        Self::over(model, rows, config)
    }

    fn over(mut model: Model, (rows, held_out): Rows, config: &SftConfig) -> Result<Self> {
        let trainer = Trainer::new(&mut model, config.shared(), None, config.seed)?;
        let epochs = Epochs::new(Arc::clone(&rows), config);
        let passes = u64::from(config.epochs);
        let steps = config
            .steps
            .unwrap_or_else(|| (0..passes).map(|e| epochs.cut(e).len() as u64).sum());
        Ok(SftTraining {
            model,
            config: config.clone(),
            rows,
            held_out,
            trainer,
            epochs,
            report: SftReport::default(),
            steps,
            training: Duration::ZERO,
            positions: 0,
            began: Instant::now(),
            earlier: 0.0,
            looked: false,
        })
    }

    /// Updates done, skipped ones included.
    pub fn steps_done(&self) -> u64 {
        self.report.steps
    }

    /// Performs the next update that is not skipped; `None` if all are done.
    ///
    /// # Errors
    /// [`Error::TooManySkipped`] if more than [`SftConfig::most_skipped`] updates in a row were skipped.
    pub fn step(&mut self) -> Result<Option<SftProgress>> {
        while self.report.steps < self.steps {
            let picked = self.epochs.next();
            let update = Instant::now();
            let rate = self.config.rate(self.report.steps, self.steps);
            let updated = self.update(&picked, rate);
            let most = self.config.most_skipped;
            let updated = self.trainer.may_skip(updated, &picked, most)?;
            self.report.steps = self.trainer.tried();
            self.report.skipped = self.trainer.skipped();
            let Some((tally, grad_norm)) = updated else {
                continue;
            };
            self.training += update.elapsed();
            return self.tell(&picked, &tally, grad_norm, rate).map(Some);
        }
        Ok(None)
    }

    /// The updates skipped since the last call, including those of a [`SftTraining::step`] that failed.
    pub fn take_skipped(&mut self) -> Vec<SkippedUpdate> {
        self.trainer.take_skipped()
    }

    /// The progress after an update, at intervals with the loss of the validation examples.
    fn tell(
        &mut self,
        picked: &[usize],
        tally: &Tally,
        grad_norm: f64,
        learning_rate: f64,
    ) -> Result<SftProgress> {
        let positions = picked
            .iter()
            .map(|i| self.rows[*i].ids.len() as u64)
            .sum::<u64>();
        self.positions += positions;
        let report = &mut self.report;
        if report.tokens == 0 {
            report.first_loss = tally.loss;
        }
        report.tokens += tally.tokens;
        report.positions += positions;
        report.tokens_per_s = self.positions as f64 / self.training.as_secs_f64().max(1e-9);
        report.last_loss = tally.loss;
        let (step, every) = (report.steps, self.config.validate_every);
        self.looked = step == self.steps || (every > 0 && step.is_multiple_of(every));
        if self.looked {
            self.report.val_loss = self.judge()?;
        }
        self.report.seconds = self.earlier + self.began.elapsed().as_secs_f64();
        Ok(SftProgress {
            step,
            steps: self.steps,
            loss: tally.loss,
            val_loss: self.report.val_loss.filter(|_| self.looked),
            grad_norm,
            learning_rate,
            tokens_per_s: self.report.tokens_per_s,
            seconds: self.report.seconds,
        })
    }

    /// Mean loss of the validation examples, nats per token; `None` if there are none.
    pub fn judge(&self) -> Result<Option<f64>> {
        mean_loss(&self.trainer.engine, &self.model, &self.held_out)
    }

    /// Ends the training and gives its report.
    pub fn finish(mut self) -> Result<SftReport> {
        if !self.looked {
            self.report.val_loss = self.judge()?;
        }
        self.report.stopped = self.report.steps < self.steps;
        self.report.perplexity = self.report.val_loss.map(f64::exp);
        self.report.seconds = self.earlier + self.began.elapsed().as_secs_f64();
        Ok(self.report)
    }

    fn update(&mut self, picked: &[usize], rate: f64) -> Result<(Tally, f64)> {
        let taught: usize = picked.iter().map(|i| self.rows[*i].counted()).sum();
        let objective = Arc::new(Likelihood {
            weight: 1.0 / taught.max(1) as f64,
        });
        let units: Vec<Vec<usize>> = picked.iter().map(|row| vec![*row]).collect();
        self.trainer
            .update(&self.model, &self.rows, &units, &objective, rate)
    }

    /// The training's whole state, as files: the trained parameters, the optimizer, and counters.
    pub fn state(&self) -> Result<Vec<(String, Vec<u8>)>> {
        self.trainer.state(&self.model, self.own())
    }

    /// Restores the files of [`SftTraining::state`]. The training must have been begun on the same model, examples and
    /// settings.
    ///
    /// With the same number of workers the training continues bit by bit like the one that wrote the files. After an
    /// error, restore again or discard the training: a part of the files may have been taken over.
    pub fn restore(&mut self, files: &[(String, Vec<u8>)]) -> Result<()> {
        let opened = self.trainer.open::<Own>(&self.model, files)?;
        opened
            .own()
            .fits(&self.own(), opened.seed() == self.config.seed)?;
        let saved = self.trainer.restore(&mut self.model, opened)?;
        self.epochs.go_to(saved.epoch, saved.next);
        self.earlier = saved.report.seconds;
        self.report = saved.report;
        self.looked = false;
        Ok(())
    }

    fn own(&self) -> Own {
        Own {
            epoch: self.epochs.epoch,
            next: self.epochs.next,
            steps: self.steps,
            batch_tokens: self.config.batch_tokens,
            short_first: self.config.short_first,
            examples: pair_state::digest(&self.rows, &[]),
            report: self.report,
        }
    }
}

/// The saved counters that only supervised fine-tuning has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Own {
    epoch: u64,
    /// Number of updates of this pass.
    next: usize,
    steps: u64,
    batch_tokens: usize,
    #[serde(default)]
    short_first: f64,
    /// Digest of the examples.
    examples: String,
    /// The report so far. Nothing is computed from it.
    report: SftReport,
}

impl trainer::Own for Own {
    const KIND: &'static str = "sft";
}

impl Own {
    /// Checks that the files were saved by a training like `own`.
    fn fits(&self, own: &Self, same_seed: bool) -> Result<()> {
        trainer::made_alike(&[
            ("other examples", self.examples != own.examples),
            ("another `seed`", !same_seed),
            (
                "another `batch_tokens`",
                self.batch_tokens != own.batch_tokens,
            ),
            ("another `short_first`", self.short_first != own.short_first),
            ("another number of updates", self.steps != own.steps),
        ])
    }
}

/// −Σ weight · log-probability.
struct Likelihood {
    weight: f64,
}

impl Objective for Likelihood {
    fn wants(&self) -> Plan {
        Plan::LOGPROBS
    }

    fn differentiate(
        &self,
        _rows: &[usize],
        scores: &[RowScores<'_>],
        slopes: &mut [RowSlopes<'_>],
    ) -> Tally {
        let mut tally = Tally::default();
        for (scores, slopes) in scores.iter().zip(slopes) {
            slopes.logprobs.fill(-self.weight);
            tally.loss -= self.weight * scores.logprobs.iter().sum::<f64>();
            tally.tokens += scores.logprobs.len() as u64;
        }
        tally
    }
}

fn mean_loss(engine: &Engine, model: &Model, rows: &Arc<Vec<Row>>) -> Result<Option<f64>> {
    let everything: Vec<usize> = (0..rows.len()).collect();
    let (mut sum, mut tokens) = (0.0, 0usize);
    for logprobs in engine.logprobs(model, rows, &everything)? {
        tokens += logprobs.len();
        sum -= logprobs.iter().map(|lp| f64::from(*lp)).sum::<f64>();
    }
    Ok((tokens > 0).then(|| sum / tokens as f64))
}

fn rows_of(
    model: &Model,
    examples: &[(Vec<u32>, Vec<u32>)],
    labels: Labels,
    what: &str,
) -> Result<Arc<Vec<Row>>> {
    let mut rows = Vec::with_capacity(examples.len());
    for (i, (prompt, answer)) in examples.iter().enumerate() {
        if prompt.is_empty() || answer.is_empty() {
            return Err(Error::Input(format!(
                "{what} {i} has an empty prompt or answer"
            )));
        }
        check_ids(model, what, i, prompt, answer)?;
        let mut row = Row::new(prompt, answer, 1.0);
        if labels == Labels::All {
            row.start = 1;
        }
        rows.push(row);
    }
    Ok(Arc::new(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLES: usize = 200;

    /// The lengths of the examples of a pass, in its order; all are different.
    fn lengths(short_first: f64, epoch: u64) -> Vec<usize> {
        let rows = (0..EXAMPLES).map(|n| {
            let answer = vec![2; 1 + n * 7 % EXAMPLES];
            Row::new(&[1], &answer, 1.0)
        });
        let rows: Arc<Vec<Row>> = Arc::new(rows.collect());
        let config = SftConfig {
            short_first,
            batch_tokens: 1,
            ..SftConfig::default()
        };
        let order = Epochs::new(Arc::clone(&rows), &config).cut(epoch).concat();
        order.into_iter().map(|row| rows[row].ids.len()).collect()
    }

    #[test]
    fn a_first_pass_may_begin_with_short_examples() {
        let (random, growing) = (lengths(0.0, 0), lengths(0.5, 0));
        let longest = |lengths: &[usize]| lengths.iter().max().copied();
        // A tenth of the part that grows, and then all of it.
        assert!(longest(&growing[..10]) < Some(EXAMPLES / 2), "{growing:?}");
        assert!(longest(&random[..10]) > Some(EXAMPLES / 2), "{random:?}");
        let sum = |lengths: &[usize]| lengths.iter().sum::<usize>();
        assert!(sum(&growing[..50]) < sum(&growing[50..100]));
        // The rest is as random as without it, and each example occurs once.
        assert_eq!(growing[100..], random[100..]);
        let sorted = |mut lengths: Vec<usize>| {
            lengths.sort_unstable();
            lengths
        };
        assert_eq!(sorted(growing), sorted(random));
        assert_eq!(lengths(0.5, 1), lengths(0.0, 1));
    }
}
