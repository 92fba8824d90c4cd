//! Gradients and log-probabilities of many rows, on all workers at once.

use std::sync::Arc;

use flopsmith_policy::{Entropy, Model};
use tch::{Kind, Tensor};

use crate::adamw::{AdamW, wide};
use crate::batch::{Row, deal};
use crate::error::{Doing, Error, Result};
use crate::loss::Tally;
use crate::pool::Pool;

/// What is minimised, seen from one row at a time.
pub(crate) trait Objective: Send + Sync + 'static {
    /// Is the entropy of the distributions needed?
    fn entropy(&self) -> Entropy;

    /// The row's part of the loss; `slopes` gets its derivative by each log-probability.
    fn differentiate(&self, row: usize, logprobs: &[f64], slopes: &mut [f64]) -> Tally;

    /// How many equal samples the row stands for.
    fn copies(&self, _row: usize) -> u32 {
        1
    }

    /// Derivative of the loss by each of the row's entropies; only asked with [`Entropy::Train`].
    fn entropy_slope(&self, _row: usize) -> f64 {
        0.0
    }
}

/// Computes over rows with a pool of workers.
pub(crate) struct Engine {
    pool: Pool,
    /// Positions of a micro-batch.
    budget: usize,
}

/// The rows that one worker computes.
struct Hand {
    model: Model,
    rows: Arc<Vec<Row>>,
    batches: Vec<Vec<usize>>,
}

impl Engine {
    pub fn new(model: &Model, workers: Option<usize>, budget: usize) -> Result<Self> {
        Ok(Engine {
            pool: Pool::new(model.parameter_count(), model.device(), workers)?,
            budget,
        })
    }

    /// Gradient of the objective summed over `picked` rows, flat as [`Model::flat`], and the sums to report.
    ///
    /// Log-probabilities or losses that are not finite end it with [`Error::NotFinite`] for `update`.
    pub fn gradient(
        &self,
        model: &Model,
        rows: &Arc<Vec<Row>>,
        picked: &[usize],
        objective: &Arc<impl Objective>,
        update: u64,
    ) -> Result<(Tensor, Tally)> {
        let jobs = self.hands(model, rows, picked)?.into_iter().map(|hand| {
            let objective = Arc::clone(objective);
            move || hand.gradient(objective.as_ref(), update)
        });
        let mut sum: Option<Tensor> = None;
        let mut tally = Tally::default();
        let _guard = tch::no_grad_guard();
        // In the workers' order, not in that of their finishing: the sum must not depend on timing.
        for part in self.pool.run(jobs)? {
            let (gradient, part) = part?;
            tally.add(&part);
            sum = Some(match sum {
                None => gradient,
                Some(mut sum) => sum.f_add_(&gradient).doing("add gradients")?,
            });
        }
        let sum = match sum {
            Some(sum) => sum,
            None => blank(model)?,
        };
        Ok((sum, tally))
    }

    /// Log-probabilities of the counted tokens of `picked` rows, in their order.
    pub fn logprobs(
        &self,
        model: &Model,
        rows: &Arc<Vec<Row>>,
        picked: &[usize],
    ) -> Result<Vec<Vec<f32>>> {
        let jobs = self
            .hands(model, rows, picked)?
            .into_iter()
            .map(|hand| move || hand.logprobs());
        let mut all = vec![Vec::new(); rows.len()];
        for part in self.pool.run(jobs)? {
            for (row, logprobs) in part? {
                all[row] = logprobs;
            }
        }
        Ok(picked
            .iter()
            .map(|row| std::mem::take(&mut all[*row]))
            .collect())
    }

    /// One optimizer update, spread over the workers.
    pub fn update(
        &self,
        optimizer: &mut AdamW,
        model: &Model,
        gradient: &Tensor,
        rate: f64,
        scale: f64,
    ) -> Result<()> {
        let mut pieces = optimizer.begin(model, gradient, rate, scale)?;
        let share = pieces.len().div_ceil(self.pool.workers()).max(1);
        let mut shares = Vec::new();
        while !pieces.is_empty() {
            let rest = pieces.split_off(share.min(pieces.len()));
            shares.push(std::mem::replace(&mut pieces, rest));
        }
        let jobs = shares
            .into_iter()
            .map(|share| move || share.into_iter().try_for_each(|piece| piece.apply()));
        self.pool.run(jobs)?.into_iter().collect()
    }

    fn hands(&self, model: &Model, rows: &Arc<Vec<Row>>, picked: &[usize]) -> Result<Vec<Hand>> {
        if picked.is_empty() {
            return Ok(Vec::new());
        }
        let lengths: Vec<usize> = picked.iter().map(|row| rows[*row].ids.len()).collect();
        deal(&lengths, self.pool.workers(), self.budget)
            .into_iter()
            .map(|batches| {
                Ok(Hand {
                    model: model.replica().doing("share its weights")?,
                    rows: Arc::clone(rows),
                    batches: batches
                        .into_iter()
                        .map(|batch| batch.into_iter().map(|i| picked[i]).collect())
                        .collect(),
                })
            })
            .collect()
    }
}

impl Hand {
    fn gradient(&self, objective: &impl Objective, update: u64) -> Result<(Tensor, Tally)> {
        let flat = blank(&self.model)?;
        let mut views = Vec::new();
        for slot in self.model.slots() {
            let view = flat
                .f_narrow(0, slot.offset, slot.len())
                .and_then(|t| t.f_view(slot.shape.as_slice()))
                .doing("view a gradient in the flat buffer")?;
            views.push(view);
        }
        let leaves: Vec<&Tensor> = self.model.parameters().iter().map(|(_, t)| t).collect();
        let mut tally = Tally::default();
        for batch in &self.batches {
            let Some(surrogate) = self.surrogate(batch, objective, update, &mut tally)? else {
                continue;
            };
            let gradients = Tensor::f_run_backward(&[surrogate], &leaves, false, false)
                .doing("run the backward pass")?;
            let _guard = tch::no_grad_guard();
            for (view, gradient) in views.iter_mut().zip(&gradients) {
                if gradient.defined() {
                    let _same = view.f_add_(gradient).doing("collect gradients")?;
                }
            }
        }
        Ok((flat, tally))
    }

    /// A number whose derivative by the weights is that of the micro-batch's loss; `None` where that is 0.
    fn surrogate(
        &self,
        batch: &[usize],
        objective: &impl Objective,
        update: u64,
        tally: &mut Tally,
    ) -> Result<Option<Tensor>> {
        let kind = objective.entropy();
        let scored = self.score(batch, kind)?;
        let logprobs = numbers(&scored.logprobs)?;
        let mut slopes = vec![0.0; logprobs.len()];
        let mut part = Tally::default();
        let mut at = 0;
        let mut entropy_slopes = Vec::new();
        for row in batch {
            let n = self.rows[*row].counted();
            let range = at..at + n;
            part.add(&objective.differentiate(*row, &logprobs[range.clone()], &mut slopes[range]));
            at += n;
            if kind == Entropy::Train {
                entropy_slopes.extend(std::iter::repeat_n(objective.entropy_slope(*row), n));
            }
        }
        if let Some(entropy) = &scored.entropy {
            let entropies = numbers(entropy)?;
            let mut rest = entropies.as_slice();
            for row in batch {
                let (own, others) = rest.split_at(self.rows[*row].counted());
                let copies = objective.copies(*row);
                part.entropy += f64::from(copies) * own.iter().sum::<f64>();
                part.entropy_tokens += u64::from(copies) * own.len() as u64;
                rest = others;
            }
            // The bonus is a part of the loss too.
            part.loss += entropies
                .iter()
                .zip(&entropy_slopes)
                .map(|(h, slope)| h * slope)
                .sum::<f64>();
        }
        if !part.loss.is_finite() || slopes.iter().any(|s| !s.is_finite()) {
            return Err(Error::NotFinite {
                what: "the loss",
                update,
            });
        }
        tally.add(&part);
        let still = |slopes: &[f64]| slopes.iter().all(|s| *s == 0.0);
        if still(&slopes) && still(&entropy_slopes) {
            return Ok(None);
        }
        let by_logprobs = weighted(&scored.logprobs, &slopes)?;
        match &scored.entropy {
            Some(entropy) if kind == Entropy::Train => weighted(entropy, &entropy_slopes)?
                .f_add(&by_logprobs)
                .doing("add the entropy bonus")
                .map(Some),
            _ => Ok(Some(by_logprobs)),
        }
    }

    fn logprobs(&self) -> Result<Vec<(usize, Vec<f32>)>> {
        let _guard = tch::no_grad_guard();
        let mut all = Vec::new();
        for batch in &self.batches {
            let scored = self.score(batch, Entropy::Skip)?;
            let logprobs = numbers(&scored.logprobs)?;
            let mut at = 0;
            for row in batch {
                let n = self.rows[*row].counted();
                all.push((
                    *row,
                    logprobs[at..at + n].iter().map(|x| *x as f32).collect(),
                ));
                at += n;
            }
        }
        Ok(all)
    }

    fn score(&self, batch: &[usize], entropy: Entropy) -> Result<flopsmith_policy::TokenLogprobs> {
        let rows: Vec<&Row> = batch.iter().map(|row| &self.rows[*row]).collect();
        let length = rows.iter().map(|r| r.ids.len()).max().unwrap_or_default();
        let mut ids = vec![0i64; rows.len() * length];
        for (row, place) in rows.iter().zip(ids.chunks_mut(length.max(1))) {
            place[..row.ids.len()].copy_from_slice(&row.ids);
        }
        let ids = Tensor::f_from_slice(&ids)
            .and_then(|t| t.f_view([rows.len() as i64, length as i64]))
            .and_then(|t| t.f_to_device(self.model.device()))
            .doing("hand over token ids")?;
        let wanted: Vec<_> = rows.iter().map(|r| r.wanted()).collect();
        let temperatures: Vec<f64> = rows.iter().map(|r| r.temperature).collect();
        self.model
            .token_logprobs(&ids, &wanted, &temperatures, entropy)
            .doing("score tokens")
    }
}

/// A flat gradient of zeros.
fn blank(model: &Model) -> Result<Tensor> {
    let flat = model.flat();
    Tensor::f_zeros(flat.size().as_slice(), (wide(flat.kind()), flat.device()))
        .doing("allocate a gradient")
}

/// The values of a vector, in double precision.
fn numbers(vector: &Tensor) -> Result<Vec<f64>> {
    let vector = vector
        .detach()
        .f_to_device(tch::Device::Cpu)
        .and_then(|t| t.f_to_kind(Kind::Double))
        .doing("read log-probabilities")?;
    let mut values = vec![0.0; vector.numel()];
    vector
        .f_copy_data(&mut values, vector.numel())
        .doing("read log-probabilities")?;
    Ok(values)
}

/// Σ slope · value, differentiable by the values.
fn weighted(values: &Tensor, slopes: &[f64]) -> Result<Tensor> {
    Tensor::f_from_slice(slopes)
        .and_then(|t| t.f_to_kind(values.kind())?.f_to_device(values.device()))
        .and_then(|slopes| values.f_dot(&slopes))
        .doing("weigh log-probabilities")
}
