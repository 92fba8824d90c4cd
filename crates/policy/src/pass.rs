//! A forward pass over a batch, and the backward pass from derivatives by its numbers to a gradient.
//!
//! This module knows no loss: a trainer reads [`Scores`], gives the derivative of its loss by each of them
//! ([`Slopes`]), and gets the gradient of the weights. Each block is a graph of its own. A block's gradients are thus
//! collected and freed before those of the next block are computed, and a block can be computed again instead of being
//! kept ([`Plan::recompute`]; Chen et al., 2016, arXiv:1604.06174). The embedding and the heads have no graph: their
//! derivatives are written out, which avoids a copy of the vocabulary's size.

use std::ops::Range;

use tch::{Device, Kind, Tensor};

use crate::block::Sequences;
use crate::error::{Doing, Error, Result};
use crate::forward::{Entropy, check};
use crate::model::Model;
use crate::vocabulary::Vocabulary;

/// The numbers that a pass computes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Log-probabilities of the wanted tokens.
    pub logprobs: bool,
    /// Entropies of the distributions that the wanted tokens were drawn from.
    pub entropy: Entropy,
    /// The scalar head's numbers.
    pub values: bool,
    /// Keep only the input of each block, and compute the block again in the backward pass: less memory, a third more
    /// work.
    pub recompute: bool,
    /// Seed of an adapter's dropout, a different one for each batch; `None` turns dropout off.
    pub dropout: Option<u64>,
}

impl Plan {
    /// Log-probabilities and nothing else.
    pub const LOGPROBS: Plan = Plan {
        logprobs: true,
        entropy: Entropy::Skip,
        values: false,
        recompute: false,
        dropout: None,
    };
}

/// Numbers of the wanted positions, row after row in the order of the ranges; numbers that the plan leaves out are
/// empty.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scores {
    /// ln p(token | tokens before it).
    pub logprobs: Vec<f64>,
    /// Entropy of the distribution that the token was drawn from, nats.
    pub entropy: Vec<f64>,
    /// The scalar head's output after the tokens before it.
    pub values: Vec<f64>,
}

/// Derivatives of a loss by [`Scores`]; empty if the loss does not depend on these scores.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Slopes {
    /// By each log-probability.
    pub logprobs: Vec<f64>,
    /// By each entropy.
    pub entropy: Vec<f64>,
    /// By each value.
    pub values: Vec<f64>,
}

/// A forward pass whose backward pass has not run yet.
#[derive(Debug)]
pub struct Pass<'a> {
    model: &'a Model,
    plan: Plan,
    /// [rows, length].
    ids: Tensor,
    sequences: Sequences,
    blocks: Vec<Segment>,
    /// The last block's output, a leaf.
    last: Tensor,
    /// Hidden states before the wanted tokens, normalized: [n, hidden].
    hidden: Tensor,
    vocabulary: Option<Vocabulary>,
    scores: Scores,
}

/// One block's part of the graph.
#[derive(Debug)]
struct Segment {
    /// The block's input: a leaf.
    x: Tensor,
    /// The ends of the block's graph, unless the block is computed again.
    kept: Option<Kept>,
}

/// The ends of a block's graph.
#[derive(Debug)]
enum Kept {
    /// The block's output.
    Whole(Tensor),
    /// The input of the rest of the feed-forward layer, whose derivatives are written out ([`Model::back_to_gate`]).
    ToGate { x: Tensor, gate_up: Tensor },
}

impl Model {
    /// The numbers of the `wanted` positions, without a backward pass.
    ///
    /// `ids` is [rows, length] of i64, padded at the end. `wanted` gives for each row the positions *of the tokens* in
    /// question (each at least 1, since the first token follows nothing); the vocabulary is scored only there. Without
    /// log-probabilities a position may be one past the last token: the position of the value of the whole text.
    /// `temperature` divides the logits: one number for all rows or one for each.
    pub fn scores(
        &self,
        ids: &Tensor,
        wanted: &[Range<usize>],
        temperature: &[f64],
        plan: Plan,
    ) -> Result<Scores> {
        let _guard = tch::no_grad_guard();
        let (batch, sequences) = self.batch(ids, wanted, temperature, plan)?;
        let mut x = self.embed(ids)?;
        for n in 0..self.blocks() {
            x = self.run_block(n, &x, &sequences, &mut |_, _, _| Ok(()))?;
        }
        let hidden = self.wanted_hidden(&x, &batch.before)?;
        drop(x);
        let mut vocabulary = batch.vocabulary;
        self.read(&hidden, vocabulary.as_mut(), plan, false)
    }

    /// [`Model::scores`] with a backward pass: [`Pass::back`].
    pub fn pass(
        &self,
        ids: &Tensor,
        wanted: &[Range<usize>],
        temperature: &[f64],
        plan: Plan,
    ) -> Result<Pass<'_>> {
        let (batch, sequences) = self.batch(ids, wanted, temperature, plan)?;
        let embedded = {
            let _guard = tch::no_grad_guard();
            self.embed(ids)?
        };
        let mut blocks = Vec::with_capacity(self.blocks());
        let mut x = embedded;
        for n in 0..self.blocks() {
            let mut segment = Segment { x, kept: None };
            if plan.recompute {
                let _guard = tch::no_grad_guard();
                x = self.run_block(n, &segment.x, &sequences, &mut |_, _, _| Ok(()))?;
            } else {
                let kept = self.run_segment(n, &mut segment, &sequences)?;
                x = match &kept {
                    Kept::Whole(y) => y.detach(),
                    Kept::ToGate { x, gate_up } => {
                        let _guard = tch::no_grad_guard();
                        self.run_from_gate(&self.block(n), n, x, gate_up, &sequences)?
                    }
                };
                segment.kept = Some(kept);
            }
            blocks.push(segment);
        }
        let last = x.set_requires_grad(true);
        let hidden = self.wanted_hidden(&last, &batch.before)?;
        let mut vocabulary = batch.vocabulary;
        let scores = {
            let _guard = tch::no_grad_guard();
            self.read(&hidden.detach(), vocabulary.as_mut(), plan, true)?
        };
        Ok(Pass {
            model: self,
            plan,
            ids: ids.shallow_clone(),
            sequences,
            blocks,
            last,
            hidden,
            vocabulary,
            scores,
        })
    }

    /// Runs a block with its graph, from a leaf. Without an adapter the graph ends at the part whose derivatives are
    /// written out.
    fn run_segment(&self, n: usize, segment: &mut Segment, s: &Sequences) -> Result<Kept> {
        let whole = self.adapter().is_none();
        // The first block's input needs a derivative only if the embedding is trained.
        segment.x = segment.x.detach().set_requires_grad(n > 0 || whole);
        let keep = &mut |_, _: &Tensor, _: &Tensor| Ok(());
        if whole {
            let (x, gate_up) = self.run_to_gate(&self.block(n), n, &segment.x, s, keep)?;
            Ok(Kept::ToGate { x, gate_up })
        } else {
            self.run_block(n, &segment.x, s, keep).map(Kept::Whole)
        }
    }

    fn batch(
        &self,
        ids: &Tensor,
        wanted: &[Range<usize>],
        temperature: &[f64],
        plan: Plan,
    ) -> Result<(Batch, Sequences)> {
        let (rows, length) = ids
            .size2()
            .doing("read the shape of token ids")
            .map(|(r, l)| (r as usize, l as usize))?;
        check(
            rows,
            length + usize::from(!plan.logprobs),
            wanted,
            temperature,
        )?;
        if plan.values && self.scalar().is_none() {
            return Err(Error::Input("the model has no head for values".into()));
        }
        let mut before = Vec::new();
        for (row, range) in wanted.iter().enumerate() {
            before.extend((range.start..range.end).map(|t| (row * length + t - 1) as i64));
        }
        let before = Tensor::f_from_slice(&before)
            .and_then(|t| t.f_to_device(ids.device()))
            .doing("list the wanted positions")?;
        let vocabulary = if plan.logprobs {
            self.head()?;
            let targets = ids
                .f_reshape([-1])
                .and_then(|t| t.f_index_select(0, &before.f_add_scalar(1)?))
                .doing("gather the wanted tokens")?;
            Some(Vocabulary::new(self, targets, wanted, temperature)?)
        } else {
            None
        };
        let sequences = self.sequences(rows as i64, length as i64, plan.dropout)?;
        Ok((Batch { before, vocabulary }, sequences))
    }

    /// The last norm of chosen rows of `x`.
    fn wanted_hidden(&self, x: &Tensor, before: &Tensor) -> Result<Tensor> {
        let chosen = x
            .f_index_select(0, before)
            .doing("gather the wanted hidden states")?;
        self.norm(&chosen, self.last_norm())
    }

    /// The heads' numbers for `hidden` [n, hidden].
    fn read(
        &self,
        hidden: &Tensor,
        vocabulary: Option<&mut Vocabulary>,
        plan: Plan,
        keep: bool,
    ) -> Result<Scores> {
        let mut scores = Scores::default();
        if let Some(vocabulary) = vocabulary {
            let (logprobs, entropy) =
                vocabulary.score(self, hidden, plan.entropy != Entropy::Skip, keep)?;
            scores.logprobs = logprobs;
            scores.entropy = entropy;
        }
        if let (true, Some(head)) = (plan.values, self.scalar()) {
            let values = hidden
                .f_to_kind(self.wide())
                .and_then(|h| {
                    h.f_matmul(&head.f_to_kind(self.wide())?.f_tr()?)?
                        .f_squeeze_dim(1)
                })
                .doing("read values")?;
            scores.values = numbers(&values)?;
        }
        Ok(scores)
    }
}

struct Batch {
    /// Indices of the hidden states before the wanted tokens, among all positions of the batch.
    before: Tensor,
    vocabulary: Option<Vocabulary>,
}

impl Pass<'_> {
    /// The numbers of the forward pass.
    pub fn scores(&self) -> &Scores {
        &self.scores
    }

    /// Adds the derivative of the loss by every trained weight to `gradient`. The tensors of `gradient` have the shapes
    /// of the leaves of [`Model::trained`], in single precision (double for a model in double precision).
    pub fn back(mut self, slopes: &Slopes, gradient: &mut [Tensor]) -> Result<()> {
        let model = self.model;
        let trained = model.trained();
        if gradient.len() != trained.leaves().len() {
            return Err(Error::Input(format!(
                "the call gives {} views of a gradient for {} tensors",
                gradient.len(),
                trained.leaves().len()
            )));
        }
        let by_hidden = self.heads_back(slopes, gradient)?;
        let whole = model.adapter().is_none();
        // From the heads back to the last block's output.
        let mut inputs = vec![&self.last];
        if whole {
            inputs.push(model.last_norm());
        }
        let ends = [(self.hidden.shallow_clone(), by_hidden)];
        let mut found = derivatives(&ends, &inputs)?;
        drop(ends);
        if whole {
            collect(&mut gradient[model.last_norm_slot()], &found.remove(1))?;
        }
        let mut by_x = found.remove(0);
        drop((self.hidden, self.last));
        for (n, mut segment) in self.blocks.into_iter().enumerate().rev() {
            let kept = match segment.kept.take() {
                Some(kept) => kept,
                None => model.run_segment(n, &mut segment, &self.sequences)?,
            };
            let slots = match model.adapter() {
                Some(adapter) => adapter.block_slots(n),
                None => model.block_slots(n),
            };
            let ends = match kept {
                Kept::Whole(y) => vec![(y, by_x.shallow_clone())],
                Kept::ToGate { x, gate_up } => {
                    let _guard = tch::no_grad_guard();
                    let down = &mut gradient[model.down_slot(n)];
                    let by_gate_up = model.back_to_gate(n, &gate_up.detach(), &by_x, down)?;
                    vec![(x, by_x.shallow_clone()), (gate_up, by_gate_up)]
                }
            };
            let carries_on = segment.x.requires_grad();
            let written_out = whole.then(|| model.down_slot(n));
            let slots: Vec<usize> = slots.filter(|slot| Some(*slot) != written_out).collect();
            let mut inputs: Vec<&Tensor> = slots.iter().map(|s| trained.leaf(*s)).collect();
            if carries_on {
                inputs.push(&segment.x);
            }
            if inputs.is_empty() {
                continue;
            }
            let mut found = derivatives(&ends, &inputs)?;
            drop(ends);
            if carries_on && let Some(by) = found.pop() {
                by_x = by;
            }
            for (slot, by) in slots.into_iter().zip(&found) {
                collect(&mut gradient[slot], by)?;
            }
        }
        if whole {
            let _guard = tch::no_grad_guard();
            let kind = gradient[0].kind();
            let _same = self
                .ids
                .f_reshape([-1])
                .and_then(|ids| gradient[0].f_index_add_(0, &ids, &by_x.f_to_kind(kind)?))
                .doing("collect gradients")?;
        }
        Ok(())
    }

    /// Gives the derivative by the hidden states, [n, hidden], and adds that of the heads' own weights to `gradient`.
    fn heads_back(&mut self, slopes: &Slopes, gradient: &mut [Tensor]) -> Result<Tensor> {
        let _guard = tch::no_grad_guard();
        let model = self.model;
        let hidden = self.hidden.detach();
        let mut by_hidden = hidden
            .f_zeros_like()
            .doing("allocate the derivative by the hidden states")?;
        if let Some(vocabulary) = &mut self.vocabulary {
            let whole = model.adapter().is_none();
            let weights = whole.then(|| &mut gradient[model.head_slot()]);
            by_hidden = vocabulary.back(model, &hidden, &self.scores.entropy, slopes, weights)?;
        }
        if let (true, Some(head), Some(slot)) = (
            self.plan.values && !slopes.values.is_empty(),
            model.scalar(),
            model.scalar_slot(),
        ) {
            let wide = model.wide();
            let slopes = column(&slopes.values, wide, model.device())?;
            let add = slopes
                .f_matmul(&head.f_to_kind(wide).doing("read values")?)
                .and_then(|t| t.f_to_kind(by_hidden.kind()))
                .doing("run the value head backward")?;
            let _same = by_hidden
                .f_add_(&add)
                .doing("run the value head backward")?;
            let _same = slopes
                .f_tr()
                .and_then(|t| gradient[slot].f_addmm_(&t, &hidden.f_to_kind(wide)?))
                .doing("run the value head backward")?;
        }
        Ok(by_hidden)
    }
}

/// Derivatives of a loss by `inputs`, where `ends` are tensors and the loss's derivatives by them.
fn derivatives(ends: &[(Tensor, Tensor)], inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
    // Scalars whose derivatives by the ends are the given ones.
    let surrogates = ends.iter().map(|(y, slopes)| {
        y.f_mul(slopes)
            .and_then(|t| t.f_sum(t.kind()))
            .doing("begin the backward pass")
    });
    let surrogates = surrogates.collect::<Result<Vec<_>>>()?;
    Tensor::f_run_backward(&surrogates, inputs, false, false).doing("run the backward pass")
}

fn collect(into: &mut Tensor, gradient: &Tensor) -> Result<()> {
    if gradient.defined() {
        let _guard = tch::no_grad_guard();
        let _same = into.f_add_(gradient).doing("collect gradients")?;
    }
    Ok(())
}

/// The values of a vector, in double precision.
pub(crate) fn numbers(vector: &Tensor) -> Result<Vec<f64>> {
    let vector = vector
        .f_to_device(Device::Cpu)
        .and_then(|t| t.f_to_kind(Kind::Double)?.f_contiguous())
        .doing("read numbers")?;
    let mut values = vec![0.0; vector.numel()];
    vector
        .f_copy_data(&mut values, vector.numel())
        .doing("read numbers")?;
    Ok(values)
}

/// Numbers as [n, 1].
pub(crate) fn column(values: &[f64], kind: Kind, device: Device) -> Result<Tensor> {
    Tensor::f_from_slice(values)
        .and_then(|t| t.f_to_kind(kind)?.f_to_device(device)?.f_unsqueeze(1))
        .doing("hand over numbers")
}
