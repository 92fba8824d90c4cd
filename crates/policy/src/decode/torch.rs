//! Decoding with libtorch's operations, on any device: the key-value cache, the prompts that begin it and the step that
//! extends it.

use tch::{Device, Kind, Tensor};

use crate::decode::space::room;
use crate::decode::{Answer, Ask, Decoder, Prompt, prefill};
use crate::draw::Drawn;
use crate::error::{Doing, Error, Result};
use crate::model::Model;

/// A batch of rows in libtorch's tensors.
pub(crate) struct Torch<'a> {
    model: &'a Model,
    cache: Cache,
    /// Scores of the next token, [rows, vocabulary].
    logits: Tensor,
    /// Draw on the scores' device: on a GPU, copying the scores of a large vocabulary costs more than the rest of a
    /// step.
    draws: bool,
}

impl<'a> Torch<'a> {
    /// A decoder without rows.
    pub fn begin(model: &'a Model) -> Self {
        Torch {
            model,
            cache: Cache::default(),
            logits: Tensor::new(),
            draws: model.device().is_cuda(),
        }
    }

    /// The scores of the given rows.
    fn logits_of(&self, rows: &[usize]) -> Result<Tensor> {
        let rows: Vec<i64> = rows.iter().map(|row| *row as i64).collect();
        match rows.len() as i64 == self.logits.size()[0] {
            true => Ok(self.logits.shallow_clone()),
            false => Tensor::f_from_slice(&rows)
                .and_then(|rows| rows.f_to_device(self.model.device()))
                .and_then(|rows| self.logits.f_index_select(0, &rows)),
        }
        .doing("pick rows to draw for")
    }

    /// A decoder that draws on every device.
    #[cfg(test)]
    pub fn that_draws(model: &'a Model) -> Self {
        Torch {
            draws: true,
            ..Self::begin(model)
        }
    }
}

impl Decoder for Torch<'_> {
    fn room(&self, stay: &[usize], more: usize, join: &[Prompt<'_>]) -> usize {
        let plan = Plan::new(&self.cache, stay, more, join);
        plan.starts.len() * plan.columns as usize
    }

    fn turn(&mut self, stay: &[usize], more: usize, join: &[Prompt<'_>]) -> Result<()> {
        let plan = Plan::new(&self.cache, stay, more, join);
        self.cache.turn(self.model, &plan, join)
    }

    fn advance(&mut self, tokens: &[u32]) -> Result<()> {
        let ids: Vec<i64> = tokens.iter().map(|t| i64::from(*t)).collect();
        let ids = Tensor::f_from_slice(&ids)
            .and_then(|t| t.f_to_device(self.model.device()))
            .doing("hand over token ids")?;
        let head = self.model.head()?;
        self.logits = self
            .model
            .step(&mut self.cache, &ids)?
            .f_linear(head, None::<&Tensor>)
            .doing("score the vocabulary")?;
        Ok(())
    }

    fn probabilities(&mut self, sharpen: &[f32], into: &mut Vec<f32>) -> Result<()> {
        probabilities(&self.logits, sharpen, into)
    }

    fn probabilities_of(
        &mut self,
        rows: &[usize],
        sharpen: &[f32],
        into: &mut Vec<f32>,
    ) -> Result<()> {
        probabilities(&self.logits_of(rows)?, sharpen, into)
    }

    fn draw(&mut self, rows: &[usize], asks: &[Ask]) -> Result<Vec<Answer>> {
        draw(&self.logits_of(rows)?, asks)
    }

    fn draws(&self) -> bool {
        self.draws
    }
}

/// Copies the scores' softmax into this process's memory.
fn probabilities(scores: &Tensor, sharpen: &[f32], into: &mut Vec<f32>) -> Result<()> {
    let plain = sharpen.iter().all(|by| *by == 1.0);
    let probabilities = scores
        .f_to_kind(Kind::Float)
        .and_then(|t| {
            if plain {
                return Ok(t);
            }
            t.f_mul(
                &Tensor::f_from_slice(sharpen)?
                    .f_unsqueeze(1)?
                    .f_to_device(scores.device())?,
            )
        })
        .and_then(|t| t.f_softmax(-1, None)?.f_to_device(Device::Cpu))
        .doing("turn scores into probabilities")?;
    let count = probabilities.numel();
    room(into, count, "hold probabilities of the vocabulary")?;
    into.truncate(count);
    probabilities
        .f_copy_data(into, count)
        .doing("read probabilities")
}

/// Draws one token for each row of `scores` [rows, vocabulary], on the scores' device. The rule is that of
/// [`crate::draw::draw`]; the rounding of the sums differs. Three numbers of each row are copied back.
fn draw(scores: &Tensor, asks: &[Ask]) -> Result<Vec<Answer>> {
    let column = |values: &[f64]| {
        Tensor::f_from_slice(values)?
            .f_unsqueeze(1)?
            .f_to_device(scores.device())
    };
    let of = |number: fn(&Ask) -> f64| -> Vec<f64> { asks.iter().map(number).collect() };
    let numbers = || {
        let scores = scores.f_to_kind(Kind::Float)?;
        let last = scores.size()[1] - 1;
        let sharpen = column(&of(|ask| f64::from(ask.sharpen)))?.f_to_kind(Kind::Float)?;
        let p = scores.f_mul(&sharpen)?.f_softmax(-1, None)?;
        let sums = p.f_cumsum(-1, Kind::Double)?;
        let total = sums.f_narrow(1, last, 1)?;
        let target = column(&of(|ask| ask.u))?.f_mul(&total)?;
        let token = target
            .f_searchsorted(&sums, false, true, "right", None::<&Tensor>)?
            .f_clamp_max(last)?;
        // The likeliest token, if the request is greedy or rounding put the sum past the last token with a positive
        // probability.
        let best = scores.f_argmax(-1, true)?;
        let greedy = column(&of(|ask| f64::from(u8::from(ask.greedy))))?.f_gt(0.0)?;
        let none = p.f_gather(1, &token, false)?.f_le(0.0)?;
        let token = best.f_where_self(&greedy.f_logical_or(&none)?, &token)?;
        let logprob = p
            .f_gather(1, &token, false)?
            .f_to_kind(Kind::Double)?
            .f_div(&total)?
            .f_log()?;
        let raw = scores
            .f_gather(1, &token, false)?
            .f_to_kind(Kind::Double)?
            .f_sub(&scores.f_logsumexp([-1], true)?.f_to_kind(Kind::Double)?)?;
        Tensor::f_cat(&[token.f_to_kind(Kind::Double)?, logprob, raw], 1)?
            .f_to_device(Device::Cpu)?
            .f_contiguous()
    };
    let numbers = numbers().doing("draw tokens")?;
    let mut read = vec![0.0f64; numbers.numel()];
    numbers
        .f_copy_data(&mut read, numbers.numel())
        .doing("read drawn tokens")?;
    asks.iter()
        .zip(read.as_chunks::<3>().0)
        .map(|(ask, &[token, logprob, raw])| {
            if !(logprob.is_finite() && raw.is_finite()) {
                return Err(Error::Scores);
            }
            let logprob = if ask.greedy { 0.0 } else { logprob };
            Ok(Answer {
                drawn: Drawn {
                    token: token as u32,
                    logprob: logprob as f32,
                },
                raw: raw as f32,
            })
        })
        .collect()
}

/// Keys and values of a batch of rows that all end at the same column.
///
/// Rows that are shorter than the longest begin at a later column; their earlier columns are masked. Every row thus
/// writes its next entry into the same column, which is one copy for the whole batch. A row that joins later is placed
/// to end at the same column as the others.
#[derive(Debug, Default)]
struct Cache {
    /// For each block [rows, 2 · kv heads, columns, head]: keys, then values.
    blocks: Vec<Tensor>,
    /// First column of each row.
    starts: Vec<i64>,
    /// [rows, 1, 1, columns], 0 or very negative; `None` if every row begins at 0.
    mask: Option<Tensor>,
    /// Columns in use.
    filled: i64,
    columns: i64,
}

/// The layout of a cache after rows leave and join.
struct Plan {
    /// Present places of the rows that stay.
    stay: Vec<i64>,
    /// The first present column that is still needed, and the number of needed columns.
    first: i64,
    used: i64,
    /// First column of each row after the change.
    starts: Vec<i64>,
    /// Columns in use, and allocated columns, after the change.
    filled: i64,
    columns: i64,
}

impl Plan {
    /// Drops the columns that only leaving rows used.
    fn new(cache: &Cache, stay: &[usize], more: usize, join: &[Prompt<'_>]) -> Self {
        let first = stay.iter().map(|r| cache.starts[*r]).min();
        let first = first.unwrap_or(cache.filled);
        let used = cache.filled - first;
        let length = |p: &Prompt<'_>| p.tokens.len() as i64;
        let filled = join.iter().map(length).fold(used, i64::max);
        let stayed = stay
            .iter()
            .map(|r| filled - (cache.filled - cache.starts[*r]));
        let joined = join.iter().map(|p| filled - length(p));
        let most = join.iter().map(|p| p.more).fold(more, usize::max);
        Plan {
            stay: stay.iter().map(|r| *r as i64).collect(),
            first,
            used,
            starts: stayed.chain(joined).collect(),
            filled,
            columns: filled + most as i64,
        }
    }
}

/// Low enough that the softmax gives no weight, and finite, since a row of masked columns only must not give NaN.
fn masked(kind: Kind) -> f64 {
    if kind == Kind::Half { -6e4 } else { -1e30 }
}

impl Cache {
    /// Moves the rows that stay, and appends those that join.
    fn turn(&mut self, model: &Model, plan: &Plan, join: &[Prompt<'_>]) -> Result<()> {
        let c = model.config();
        let stayed = plan.stay.len();
        let shape = [
            plan.starts.len() as i64,
            2 * c.kv_heads(),
            plan.columns,
            c.head(),
        ];
        let index = |rows: &[i64]| Tensor::f_from_slice(rows)?.f_to_device(model.device());
        let stay = index(&plan.stay).doing("list the rows that stay")?;
        self.blocks.resize_with(model.blocks(), Tensor::new);
        // One block after the other, which bounds the memory to little more than one cache.
        for block in &mut self.blocks {
            let new = Tensor::f_zeros(shape, (model.kind(), model.device()))
                .doing("allocate the key-value cache")?;
            if stayed > 0 {
                new.f_narrow(0, 0, stayed as i64)
                    .and_then(|t| t.f_narrow(2, plan.filled - plan.used, plan.used))
                    .and_then(|mut place| {
                        let used = block.f_narrow(2, plan.first, plan.used)?;
                        place.f_copy_(&used.f_index_select(0, &stay)?)
                    })
                    .doing("move the key-value cache")?;
            }
            *block = new;
        }
        self.starts.clone_from(&plan.starts);
        (self.filled, self.columns) = (plan.filled, plan.columns);
        self.mask(model)?;
        for (row, prompt) in (stayed..).zip(join) {
            if let Some(like) = prompt.like {
                self.copy_beginning(like, row, prompt.tokens.len() as i64)?;
            }
        }
        prefill::run(model, join, false, |block, stretch, keys, values| {
            let rows: Vec<i64> = stretch.rows.iter().map(|r| (stayed + r) as i64).collect();
            index(&rows)
                .and_then(|rows| self.put(block, &rows, &index(stretch.from)?, keys, values))
                .doing("fill the key-value cache")
        })
    }

    /// Begins row `to` with the first `length` tokens of row `from`.
    fn copy_beginning(&self, from: usize, to: usize, length: i64) -> Result<()> {
        let cut = |block: &Tensor, row: usize| {
            block
                .f_select(0, row as i64)?
                .f_narrow(1, self.starts[row], length)
        };
        for block in &self.blocks {
            cut(block, to)
                .and_then(|mut place| place.f_copy_(&cut(block, from)?))
                .doing("copy a prompt's keys and values")?;
        }
        Ok(())
    }

    /// Writes keys and values [prompts, kv heads, length, head] of one block into `rows`, ending at the cache's last
    /// column; `from` is the index of each row's prompt.
    fn put(
        &self,
        block: usize,
        rows: &Tensor,
        from: &Tensor,
        keys: &Tensor,
        values: &Tensor,
    ) -> Result<(), tch::TchError> {
        let length = keys.size()[2];
        let both = Tensor::f_cat(&[keys, values], 1)?.f_index_select(0, from)?;
        self.blocks[block]
            .f_narrow(2, self.filled - length, length)?
            .f_index_copy_(0, rows, &both)
            .map(drop)
    }

    fn mask(&mut self, model: &Model) -> Result<()> {
        if self.starts.iter().all(|s| *s == 0) {
            self.mask = None;
            return Ok(());
        }
        let low = masked(model.kind()) as f32;
        let mut values = vec![0.0f32; self.starts.len() * self.columns as usize];
        for (row, start) in values.chunks_mut(self.columns as usize).zip(&self.starts) {
            row[..*start as usize].fill(low);
        }
        let mask = Tensor::f_from_slice(&values)
            .and_then(|t| t.f_view([self.starts.len() as i64, 1, 1, self.columns]))
            .and_then(|t| t.f_to_kind(model.kind())?.f_to_device(model.device()))
            .doing("mask the columns before short prompts")?;
        self.mask = Some(mask);
        Ok(())
    }
}

impl Model {
    /// Runs one token of every row, `ids` [rows], and appends its keys and values: → the last hidden state [rows,
    /// hidden].
    fn step(&self, cache: &mut Cache, ids: &Tensor) -> Result<Tensor> {
        let c = self.config();
        let (d, n, kv) = (c.head(), c.num_attention_heads, c.kv_heads());
        let (rows, column) = (cache.starts.len() as i64, cache.filled);
        let rotations = match cache.mask {
            None => self.rotary.range(column, 1)?,
            Some(_) => {
                // A finished row keeps running with the others until it is taken out, perhaps past the last position;
                // its output is not read.
                let last = c.max_position_embeddings - 1;
                let positions = cache.starts.iter().map(|s| (column - s).min(last));
                let positions: Vec<i64> = positions.collect();
                let positions = Tensor::f_from_slice(&positions)
                    .and_then(|t| t.f_to_device(self.device()))
                    .doing("look up rotations")?;
                self.rotary.at(&positions)?
            }
        }
        .f_unsqueeze(1)
        .doing("shape rotations")?;
        let mask = match &cache.mask {
            Some(mask) => Some(mask.f_narrow(3, 0, column + 1).doing("cut the mask")?),
            None => None,
        };
        let i = c.intermediate_size;
        let mut x =
            Tensor::f_embedding(self.embedding(), ids, -1, false, false).doing("embed tokens")?;
        for (layer, kept) in cache.blocks.iter().enumerate() {
            let w = self.block(layer);
            let qkv = w
                .qkv
                .apply(&self.norm(&x, w.norm1)?, None)?
                .f_view([rows, n + 2 * kv, d])
                .doing("project queries, keys and values")?;
            let mut qk = qkv.f_narrow(1, 0, n + kv).doing("split heads")?;
            self.rotary.rotate_(&mut qk, &rotations)?;
            // Keys and values are adjacent in the projection and in the cache: one copy writes both.
            kept.f_select(2, column)
                .and_then(|mut place| place.f_copy_(&qkv.f_narrow(1, n, 2 * kv)?))
                .doing("append to the key-value cache")?;
            // The query heads that share a key head take the place of the "sequence": no key is repeated.
            x = qkv
                .f_narrow(1, 0, n)
                .and_then(|q| q.f_view([rows, kv, n / kv, d]))
                .and_then(|q| {
                    let used = kept.f_narrow(2, 0, column + 1)?;
                    Tensor::f_scaled_dot_product_attention(
                        &q,
                        &used.f_narrow(1, 0, kv)?,
                        &used.f_narrow(1, kv, kv)?,
                        mask.as_ref(),
                        0.0,
                        false,
                        None,
                        false,
                    )
                })
                .and_then(|y| y.f_reshape([rows, n * d]))
                .doing("attend")
                .and_then(|y| w.out.add_to(&x, &y, None))?;
            let gated = w
                .gate_up
                .apply(&self.norm(&x, w.norm2)?, None)
                .and_then(|t| {
                    let halves = t
                        .f_narrow(1, 0, i)
                        .and_then(|gate| Ok((gate, t.f_narrow(1, i, i)?)));
                    let (mut gate, up) = halves.doing("run a feed-forward layer")?;
                    gate.f_silu_()
                        .and_then(|mut gate| gate.f_mul_(&up))
                        .doing("run a feed-forward layer")
                })?;
            x = w.down.add_to(&x, &gated, None)?;
        }
        cache.filled += 1;
        self.norm(&x, self.last_norm())
    }
}
