//! Supervised fine-tuning: answers to prompts, by maximum likelihood.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flopsmith_policy::{Model, Plan};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::adamw::{AdamW, Constants};
use crate::batch::Row;
use crate::config::{Labels, SftConfig};
use crate::error::{Error, Result};
use crate::gradient::{Engine, Objective, RowScores, RowSlopes, Thrift};
use crate::learner::{adapt, check_ids, shuffle};
use crate::loss::Tally;
use crate::report::{SftProgress, SftReport};

/// Teaches `model` the answers to the prompts of `examples`, each a pair of token ids.
///
/// An update minimises the mean negative log-probability of the taught tokens
/// of about `batch_tokens` tokens. `progress` is called after every update and may end the training.
/// The same seed and number of workers give the same weights.
///
/// With [`Error::NotFinite`] the model is as the update before left it.
pub fn sft(
    model: &mut Model,
    examples: &[(Vec<u32>, Vec<u32>)],
    config: &SftConfig,
    validation: &[(Vec<u32>, Vec<u32>)],
    mut progress: impl FnMut(&SftProgress) -> ControlFlow<()>,
) -> Result<SftReport> {
    config.check()?;
    let rows = rows_of(model, examples, config.labels, "example")?;
    let held_out = rows_of(model, validation, config.labels, "validation example")?;
    if rows.is_empty() {
        return Err(Error::Input("there are no examples".into()));
    }
    let was_trainable = model.is_trainable();
    adapt(model, config.lora.as_ref(), config.seed)?;
    model.set_trainable(true);
    let result = Training::new(model, config, rows, held_out)
        .and_then(|mut training| training.run(&mut progress));
    model.set_trainable(was_trainable);
    result
}

/// Mean negative log-probability of the taught tokens of `examples`, nats per token; `None` without examples.
pub fn evaluate(
    model: &Model,
    examples: &[(Vec<u32>, Vec<u32>)],
    config: &SftConfig,
) -> Result<Option<f64>> {
    config.check()?;
    let rows = rows_of(model, examples, config.labels, "example")?;
    let engine = Engine::new(model, config.workers, thrift(config))?;
    mean_loss(&engine, model, &rows)
}

fn thrift(config: &SftConfig) -> Thrift {
    Thrift {
        budget: config.micro_batch_tokens,
        recompute: config.activation_checkpointing,
        seed: config.seed,
    }
}

/// A pass over the examples in a random order, cut into updates.
struct Epochs<'a> {
    rows: &'a [Row],
    seed: u64,
    batch_tokens: usize,
    epoch: u64,
    ahead: std::vec::IntoIter<Vec<usize>>,
}

impl Epochs<'_> {
    fn next(&mut self) -> Vec<usize> {
        loop {
            if let Some(batch) = self.ahead.next() {
                return batch;
            }
            self.ahead = self.cut(self.epoch).into_iter();
            self.epoch += 1;
        }
    }

    /// The updates of one pass. There is at least one row, so there is at least one update.
    fn cut(&self, epoch: u64) -> Vec<Vec<usize>> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(epoch);
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        shuffle(&mut order, &mut random);
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
}

struct Training<'a> {
    model: &'a Model,
    config: &'a SftConfig,
    rows: Arc<Vec<Row>>,
    held_out: Arc<Vec<Row>>,
    engine: Engine,
    optimizer: AdamW,
}

impl<'a> Training<'a> {
    fn new(
        model: &'a Model,
        config: &'a SftConfig,
        rows: Arc<Vec<Row>>,
        held_out: Arc<Vec<Row>>,
    ) -> Result<Self> {
        let constants = Constants {
            betas: config.betas,
            eps: config.eps,
            weight_decay: config.weight_decay,
        };
        Ok(Training {
            engine: Engine::new(model, config.workers, thrift(config))?,
            optimizer: AdamW::new(model, constants)?,
            model,
            config,
            rows,
            held_out,
        })
    }

    fn run(
        &mut self,
        progress: &mut dyn FnMut(&SftProgress) -> ControlFlow<()>,
    ) -> Result<SftReport> {
        let began = Instant::now();
        let rows = Arc::clone(&self.rows);
        let mut epochs = Epochs {
            rows: &rows,
            seed: self.config.seed,
            batch_tokens: self.config.batch_tokens,
            epoch: 0,
            ahead: Vec::new().into_iter(),
        };
        let passes = u64::from(self.config.epochs);
        let steps = match self.config.steps {
            Some(steps) => steps,
            None => (0..passes).map(|e| epochs.cut(e).len() as u64).sum(),
        };
        let mut report = SftReport {
            steps: 0,
            first_loss: 0.0,
            last_loss: 0.0,
            val_loss: None,
            perplexity: None,
            positions: 0,
            tokens: 0,
            tokens_per_s: 0.0,
            seconds: 0.0,
            stopped: false,
        };
        let mut training = Duration::ZERO;
        for step in 0..steps {
            let picked = epochs.next();
            let update = Instant::now();
            let rate = self.config.rate(step, steps);
            let (tally, grad_norm) = self.update(&picked, rate)?;
            training += update.elapsed();
            report.steps = step + 1;
            report.tokens += tally.tokens;
            report.positions += picked
                .iter()
                .map(|i| rows[*i].ids.len() as u64)
                .sum::<u64>();
            report.tokens_per_s = report.positions as f64 / training.as_secs_f64().max(1e-9);
            report.last_loss = tally.loss;
            if step == 0 {
                report.first_loss = tally.loss;
            }
            let every = self.config.validate_every;
            let last = step + 1 == steps;
            let looked = last || (every > 0 && (step + 1) % every == 0);
            if looked {
                report.val_loss = mean_loss(&self.engine, self.model, &self.held_out)?;
            }
            report.seconds = began.elapsed().as_secs_f64();
            let said = progress(&SftProgress {
                step: step + 1,
                steps,
                loss: tally.loss,
                val_loss: report.val_loss.filter(|_| looked),
                grad_norm,
                learning_rate: rate,
                tokens_per_s: report.tokens_per_s,
                seconds: report.seconds,
            });
            if said.is_break() {
                report.stopped = !last;
                if !looked {
                    report.val_loss = mean_loss(&self.engine, self.model, &self.held_out)?;
                }
                break;
            }
        }
        report.perplexity = report.val_loss.map(f64::exp);
        report.seconds = began.elapsed().as_secs_f64();
        Ok(report)
    }

    fn update(&mut self, picked: &[usize], rate: f64) -> Result<(Tally, f64)> {
        let taught: usize = picked.iter().map(|i| self.rows[*i].counted()).sum();
        let objective = Arc::new(Likelihood {
            weight: 1.0 / taught.max(1) as f64,
        });
        let done = self.optimizer.updates();
        let units: Vec<Vec<usize>> = picked.iter().map(|row| vec![*row]).collect();
        let (gradient, tally) = self
            .engine
            .gradient(self.model, &self.rows, &units, &objective, done)?;
        let (norm, scale) = AdamW::clip(&gradient, self.config.max_grad_norm)?;
        if !norm.is_finite() {
            return Err(Error::NotFinite {
                what: "the gradient",
                update: done,
            });
        }
        self.engine
            .update(&mut self.optimizer, self.model, &gradient, rate, scale)?;
        Ok((tally, norm))
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
