//! Gradients and log-probabilities of many rows, computed on all workers at once.

use std::sync::Arc;

use flopsmith_policy::{Entropy, Model, Plan, Scores, Slopes, Tensor};

use crate::adamw::{AdamW, wide};
use crate::batch::{Row, deal};
use crate::error::{Doing, Error, Result};
use crate::loss::Tally;
use crate::pool::Pool;

/// The numbers of one row's counted positions; numbers that the objective does not use are empty.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RowScores<'a> {
    pub logprobs: &'a [f64],
    pub values: &'a [f64],
    pub entropy: &'a [f64],
}

/// Derivatives of the loss by a row's numbers, initially 0.
#[derive(Debug, Default)]
pub(crate) struct RowSlopes<'a> {
    pub logprobs: &'a mut [f64],
    pub values: &'a mut [f64],
    pub entropy: &'a mut [f64],
}

/// The minimised loss, evaluated for one unit of rows at a time.
pub(crate) trait Objective: Send + Sync + 'static {
    /// The numbers that the objective needs. The engine decides about recomputation and dropout.
    fn wants(&self) -> Plan;

    /// The loss of a unit of rows, and its derivatives. A unit is one row, unless rows were distributed together.
    fn differentiate(
        &self,
        rows: &[usize],
        scores: &[RowScores<'_>],
        slopes: &mut [RowSlopes<'_>],
    ) -> Tally;
}

/// Settings that bound memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Thrift {
    /// Positions of a micro-batch.
    pub budget: usize,
    /// Compute blocks again in the backward pass instead of keeping them.
    pub recompute: bool,
    /// Seed of an adapter's dropout.
    pub seed: u64,
}

/// Computes over rows with a pool of workers.
pub(crate) struct Engine {
    pool: Pool,
    thrift: Thrift,
}

/// The rows that one worker computes.
struct Hand {
    model: Model,
    rows: Arc<Vec<Row>>,
    /// Micro-batches of units of rows.
    batches: Vec<Vec<Vec<usize>>>,
    recompute: bool,
    /// Seed of this worker's dropout; `None` without training.
    dropout: Option<u64>,
}

impl Engine {
    pub fn new(model: &Model, workers: Option<usize>, thrift: Thrift) -> Result<Self> {
        Self::on_cores(model, workers, None, thrift)
    }

    /// An engine that uses the given number of the machine's cores; all of them if `cores` is `None`.
    pub fn on_cores(
        model: &Model,
        workers: Option<usize>,
        cores: Option<usize>,
        thrift: Thrift,
    ) -> Result<Self> {
        Ok(Engine {
            pool: Pool::new(model.parameter_count(), model.device(), workers, cores)?,
            thrift,
        })
    }

    /// Sets the seed of dropout.
    pub fn set_seed(&mut self, seed: u64) {
        self.thrift.seed = seed;
    }

    /// Gradient of the objective summed over `units`, flat as [`Model::trained`], and the sums to report. Each unit is
    /// one row or several that are computed together.
    ///
    /// If log-probabilities or losses are not finite, the result is [`Error::NotFinite`] for `update`.
    pub fn gradient(
        &self,
        model: &Model,
        rows: &Arc<Vec<Row>>,
        units: &[Vec<usize>],
        objective: &Arc<impl Objective>,
        update: u64,
    ) -> Result<(Tensor, Tally)> {
        let mut hands = self.hands(model, rows, units)?;
        for (hand, place) in hands.iter_mut().zip(0u64..) {
            // A different seed for each update and worker.
            let mixed = update.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (place << 48);
            hand.dropout = Some(self.thrift.seed ^ mixed);
        }
        let jobs = hands.into_iter().map(|hand| {
            let objective = Arc::clone(objective);
            move || hand.gradient(objective.as_ref(), update)
        });
        let mut sum: Option<Tensor> = None;
        let mut tally = Tally::default();
        let _guard = tch::no_grad_guard();
        // The sum follows the workers' order, not the order in which they finish: it must not depend on timing.
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
        let scores = self.scores(model, rows, picked, Plan::LOGPROBS)?;
        let narrow = |s: Scores| s.logprobs.into_iter().map(|x| x as f32).collect();
        Ok(scores.into_iter().map(narrow).collect())
    }

    /// The numbers of the counted positions of `picked` rows, in their order.
    pub fn scores(
        &self,
        model: &Model,
        rows: &Arc<Vec<Row>>,
        picked: &[usize],
        plan: Plan,
    ) -> Result<Vec<Scores>> {
        let units: Vec<Vec<usize>> = picked.iter().map(|row| vec![*row]).collect();
        let jobs = self
            .hands(model, rows, &units)?
            .into_iter()
            .map(|hand| move || hand.scores(plan));
        let mut all = vec![Scores::default(); rows.len()];
        for part in self.pool.run(jobs)? {
            for (row, scores) in part? {
                all[row] = scores;
            }
        }
        Ok(picked
            .iter()
            .map(|row| std::mem::take(&mut all[*row]))
            .collect())
    }

    /// One optimizer update, distributed over the workers.
    pub fn update(
        &self,
        optimizer: &mut AdamW,
        model: &Model,
        gradient: &Tensor,
        rate: f64,
        scale: f64,
    ) -> Result<()> {
        let mut pieces =
            optimizer.begin(model, gradient, rate, scale, self.pool.threads_of_each())?;
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

    fn hands(
        &self,
        model: &Model,
        rows: &Arc<Vec<Row>>,
        units: &[Vec<usize>],
    ) -> Result<Vec<Hand>> {
        if units.is_empty() {
            return Ok(Vec::new());
        }
        let sizes: Vec<(usize, usize)> = units
            .iter()
            .map(|unit| {
                let longest = unit.iter().map(|row| rows[*row].ids.len()).max();
                (unit.len(), longest.unwrap_or_default())
            })
            .collect();
        deal(&sizes, self.pool.workers(), self.thrift.budget)
            .into_iter()
            .map(|batches| {
                Ok(Hand {
                    model: model.replica().doing("share its weights")?,
                    rows: Arc::clone(rows),
                    batches: batches
                        .into_iter()
                        .map(|batch| batch.into_iter().map(|i| units[i].clone()).collect())
                        .collect(),
                    recompute: self.thrift.recompute,
                    dropout: None,
                })
            })
            .collect()
    }
}

impl Hand {
    fn gradient(&self, objective: &impl Objective, update: u64) -> Result<(Tensor, Tally)> {
        let flat = blank(&self.model)?;
        let trained = self.model.trained();
        let mut views = trained.views_of(&flat).doing("cut a gradient")?;
        let mut tally = Tally::default();
        for (number, batch) in (0u64..).zip(&self.batches) {
            let plan = Plan {
                recompute: self.recompute,
                dropout: self.dropout.map(|seed| seed.wrapping_add(number)),
                ..objective.wants()
            };
            let rows: Vec<usize> = batch.concat();
            let given = self.given(&rows)?;
            let pass = self
                .model
                .pass(&given.ids, &given.wanted, &given.temperatures, plan)
                .doing("score tokens")?;
            let (slopes, part) = self.slopes(batch, pass.scores(), objective, plan);
            let numbers = || {
                slopes
                    .logprobs
                    .iter()
                    .chain(&slopes.values)
                    .chain(&slopes.entropy)
            };
            if !part.loss.is_finite() || numbers().any(|s| !s.is_finite()) {
                return Err(Error::NotFinite {
                    what: "the loss",
                    update,
                });
            }
            tally.add(&part);
            if numbers().all(|s| *s == 0.0) {
                continue;
            }
            pass.back(&slopes, &mut views)
                .doing("run the backward pass")?;
        }
        Ok((flat, tally))
    }

    /// The slopes that the objective gives for a micro-batch's numbers.
    fn slopes(
        &self,
        batch: &[Vec<usize>],
        scores: &Scores,
        objective: &impl Objective,
        plan: Plan,
    ) -> (Slopes, Tally) {
        let mut slopes = Slopes {
            logprobs: vec![0.0; scores.logprobs.len()],
            values: vec![0.0; scores.values.len()],
            // Only numbers with a gradient have slopes.
            entropy: match plan.entropy {
                Entropy::Train => vec![0.0; scores.entropy.len()],
                _ => Vec::new(),
            },
        };
        let mut tally = Tally::default();
        let mut logprobs = (scores.logprobs.as_slice(), slopes.logprobs.as_mut_slice());
        let mut values = (scores.values.as_slice(), slopes.values.as_mut_slice());
        let mut entropy = scores.entropy.as_slice();
        let mut by_entropy = slopes.entropy.as_mut_slice();
        for unit in batch {
            let (mut of, mut by) = (Vec::new(), Vec::new());
            for row in unit {
                let n = self.rows[*row].counted();
                let (l, by_l) = take(&mut logprobs, n);
                let (v, by_v) = take(&mut values, n);
                of.push(RowScores {
                    logprobs: l,
                    values: v,
                    entropy: first(&mut entropy, n),
                });
                by.push(RowSlopes {
                    logprobs: by_l,
                    values: by_v,
                    entropy: first_mut(&mut by_entropy, n),
                });
            }
            tally.add(&objective.differentiate(unit, &of, &mut by));
        }
        (slopes, tally)
    }

    fn scores(&self, plan: Plan) -> Result<Vec<(usize, Scores)>> {
        let mut all = Vec::new();
        for batch in &self.batches {
            let rows: Vec<usize> = batch.concat();
            let given = self.given(&rows)?;
            let scores = self
                .model
                .scores(&given.ids, &given.wanted, &given.temperatures, plan)
                .doing("score tokens")?;
            let mut logprobs = scores.logprobs.as_slice();
            let mut values = scores.values.as_slice();
            let mut entropy = scores.entropy.as_slice();
            for row in rows {
                let n = self.rows[row].counted();
                let own = Scores {
                    logprobs: first(&mut logprobs, n).to_vec(),
                    values: first(&mut values, n).to_vec(),
                    entropy: first(&mut entropy, n).to_vec(),
                };
                all.push((row, own));
            }
        }
        Ok(all)
    }

    fn given(&self, rows: &[usize]) -> Result<Given> {
        let rows: Vec<&Row> = rows.iter().map(|row| &self.rows[*row]).collect();
        let length = rows.iter().map(|r| r.ids.len()).max().unwrap_or_default();
        let mut ids = vec![0i64; rows.len() * length];
        for (row, place) in rows.iter().zip(ids.chunks_mut(length.max(1))) {
            place[..row.ids.len()].copy_from_slice(&row.ids);
        }
        let ids = Tensor::f_from_slice(&ids)
            .and_then(|t| t.f_view([rows.len() as i64, length as i64]))
            .and_then(|t| t.f_to_device(self.model.device()))
            .doing("hand over token ids")?;
        Ok(Given {
            ids,
            wanted: rows.iter().map(|r| r.wanted()).collect(),
            temperatures: rows.iter().map(|r| r.temperature).collect(),
        })
    }
}

/// A micro-batch as input of the model.
struct Given {
    ids: Tensor,
    wanted: Vec<std::ops::Range<usize>>,
    temperatures: Vec<f64>,
}

/// Removes the first `n` numbers from a list and returns them; an empty list gives none.
fn first<'a>(list: &mut &'a [f64], n: usize) -> &'a [f64] {
    let (own, rest) = list.split_at(n.min(list.len()));
    *list = rest;
    own
}

fn first_mut<'a>(list: &mut &'a mut [f64], n: usize) -> &'a mut [f64] {
    let whole = std::mem::take(list);
    let n = n.min(whole.len());
    let (own, rest) = whole.split_at_mut(n);
    *list = rest;
    own
}

/// Removes the first `n` numbers from two lists of the same length.
fn take<'a>(lists: &mut (&'a [f64], &'a mut [f64]), n: usize) -> (&'a [f64], &'a mut [f64]) {
    (first(&mut lists.0, n), first_mut(&mut lists.1, n))
}

/// A flat gradient of zeros.
fn blank(model: &Model) -> Result<Tensor> {
    let flat = model.trained().flat();
    Tensor::f_zeros(flat.size().as_slice(), (wide(flat.kind()), flat.device()))
        .doing("allocate a gradient")
}
