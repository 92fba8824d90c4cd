//! Decoding by libtorch's operations, on any device: the key-value cache, the prompts that begin it and the step that extends it.

use tch::{Device, Kind, Tensor};

use crate::decode::{Decoder, Prompt, prefill};
use crate::error::{Doing, Result};
use crate::model::Model;

/// A batch of rows in libtorch's tensors.
pub(crate) struct Torch<'a> {
    model: &'a Model,
    cache: Cache,
    /// Scores of the next token, [rows, vocabulary].
    logits: Tensor,
}

impl<'a> Torch<'a> {
    /// Runs the prompts. They come sorted by descending length, equal ones side by side.
    pub fn begin(model: &'a Model, rows: &[Prompt<'_>]) -> Result<Self> {
        let (cache, logits) = fill(model, rows)?;
        Ok(Torch {
            model,
            cache,
            logits,
        })
    }
}

impl Decoder for Torch<'_> {
    fn probabilities(&mut self, sharpen: &[f32], into: &mut Vec<f32>) -> Result<()> {
        let plain = sharpen.iter().all(|by| *by == 1.0);
        let probabilities = self
            .logits
            .f_to_kind(Kind::Float)
            .and_then(|t| {
                if plain {
                    return Ok(t);
                }
                t.f_mul(
                    &Tensor::f_from_slice(sharpen)?
                        .f_unsqueeze(1)?
                        .f_to_device(self.model.device())?,
                )
            })
            .and_then(|t| t.f_softmax(-1, None)?.f_to_device(Device::Cpu))
            .doing("turn scores into probabilities")?;
        let count = probabilities.numel();
        into.resize(count, 0.0);
        probabilities
            .f_copy_data(into, count)
            .doing("read probabilities")
    }

    fn keep(&mut self, rows: &[usize], more: usize) -> Result<()> {
        let rows: Vec<i64> = rows.iter().map(|r| *r as i64).collect();
        self.cache
            .select(self.model, &rows, self.cache.filled + more as i64)
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
}

/// Keys and values of a batch of rows that all end at the same column.
///
/// Rows whose prompt is shorter begin further right; the columns before are
/// masked. So every row writes its next entry into the same column, which is one copy for the whole batch.
struct Cache {
    /// For each block [rows, 2 · kv heads, columns, head]: keys, then values.
    blocks: Vec<Tensor>,
    /// First column of each row.
    starts: Vec<i64>,
    /// [rows, 1, 1, columns], 0 or very negative; `None` when every row begins at 0.
    mask: Option<Tensor>,
    /// Columns in use.
    filled: i64,
    columns: i64,
}

/// Low enough to leave no weight behind the softmax, and finite, so that a stretch of masked columns yields no NaN.
fn masked(kind: Kind) -> f64 {
    if kind == Kind::Half { -6e4 } else { -1e30 }
}

impl Cache {
    /// Room for `starts.len()` rows and `columns` tokens of each, counted from column 0.
    fn new(model: &Model, starts: Vec<i64>, columns: i64) -> Result<Self> {
        let c = model.config();
        let shape = [starts.len() as i64, 2 * c.kv_heads(), columns, c.head()];
        let blocks = (0..model.blocks())
            .map(|_| Tensor::f_zeros(shape, (model.kind(), model.device())))
            .collect::<Result<Vec<_>, _>>()
            .doing("allocate the key-value cache")?;
        let mut cache = Cache {
            blocks,
            starts,
            mask: None,
            filled: 0,
            columns,
        };
        cache.mask(model)?;
        Ok(cache)
    }

    /// Writes keys and values [prompts, kv heads, length, head] of one block into `rows`, right-aligned at `end`;
    /// `from[i]` says which prompt the i-th of the rows begins with.
    fn put(
        &self,
        block: usize,
        rows: std::ops::Range<i64>,
        end: i64,
        (keys, values): (&Tensor, &Tensor),
        from: &[i64],
    ) -> Result<()> {
        let from = Tensor::f_from_slice(from)
            .and_then(|t| t.f_to_device(keys.device()))
            .doing("fill the key-value cache")?;
        let length = keys.size()[2];
        let kv = keys.size()[1];
        for (half, source) in [(0, keys), (kv, values)] {
            self.blocks[block]
                .f_narrow(0, rows.start, rows.end - rows.start)
                .and_then(|t| t.f_narrow(1, half, kv)?.f_narrow(2, end - length, length))
                .and_then(|mut place| place.f_copy_(&source.f_index_select(0, &from)?))
                .doing("fill the key-value cache")?;
        }
        Ok(())
    }

    /// Keeps only `rows` (positions in the present batch), and room for `columns`.
    fn select(&mut self, model: &Model, rows: &[i64], columns: i64) -> Result<()> {
        let index = Tensor::f_from_slice(rows)
            .and_then(|t| t.f_to_device(model.device()))
            .doing("shrink the key-value cache")?;
        let starts = rows.iter().map(|r| self.starts[*r as usize]).collect();
        let small = Cache::new(model, starts, columns)?;
        let used = self.filled.min(columns);
        for (old, new) in self.blocks.iter().zip(&small.blocks) {
            new.f_narrow(2, 0, used)
                .and_then(|mut place| {
                    place.f_copy_(&old.f_narrow(2, 0, used)?.f_index_select(0, &index)?)
                })
                .doing("shrink the key-value cache")?;
        }
        *self = Cache {
            filled: self.filled,
            ..small
        };
        Ok(())
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
    /// Runs one token of every row, `ids` [rows], and appends its keys and values: → the last hidden state [rows, hidden].
    fn step(&self, cache: &mut Cache, ids: &Tensor) -> Result<Tensor> {
        let c = self.config();
        let (d, n, kv) = (c.head(), c.num_attention_heads, c.kv_heads());
        let (rows, column) = (cache.starts.len() as i64, cache.filled);
        let rotations = match cache.mask {
            None => self.rotary.range(column, 1)?,
            Some(_) => {
                let positions: Vec<i64> = cache.starts.iter().map(|s| column - s).collect();
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
            // Keys and values lie side by side in the projection and in the cache: one copy.
            kept.f_select(2, column)
                .and_then(|mut place| place.f_copy_(&qkv.f_narrow(1, n, 2 * kv)?))
                .doing("append to the key-value cache")?;
            // The query heads that share a key head stand in as its "sequence": nothing is repeated.
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

/// A cache that holds the prompts, and the scores after each.
fn fill(model: &Model, rows: &[Prompt<'_>]) -> Result<(Cache, Tensor)> {
    let longest = rows
        .iter()
        .map(|r| r.tokens.len())
        .max()
        .unwrap_or_default();
    let capacity = rows
        .iter()
        .map(|r| longest + r.more)
        .max()
        .unwrap_or(longest);
    let starts = rows
        .iter()
        .map(|r| (longest - r.tokens.len()) as i64)
        .collect();
    let mut cache = Cache::new(model, starts, capacity as i64)?;
    let logits = prefill::run(model, rows, |block, rows, keys, values, from| {
        let rows = rows.start as i64..rows.end as i64;
        cache.put(block, rows, longest as i64, (keys, values), from)
    })?;
    cache.filled = longest as i64;
    Ok((cache, logits))
}
