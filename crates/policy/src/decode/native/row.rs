//! Keys and values of one row.

use tch::{Kind, Tensor};

use super::weights::Shape;
use crate::decode::prefill::Stretch;
use crate::decode::space::zeros;
use crate::error::{Doing, Result};

/// A row's cache. Every row has its own, as long as the row itself.
#[derive(Debug)]
pub(super) struct Row {
    /// For each block and key head, keys in runs of one vector's width: [runs][head][lanes], so that scores of neighbours come in one vector.
    keys: Vec<f32>,
    /// For each block and value head [capacity, value stride].
    values: Vec<f32>,
    filled: usize,
    capacity: usize,
    /// Numbers of one block and head in `keys`, and in `values`.
    key_size: usize,
    value_size: usize,
    kv_heads: usize,
}

impl Row {
    /// Room for `capacity` tokens, of which the first `filled` are put in by [`fill`].
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub fn new(shape: &Shape, filled: usize, capacity: usize) -> Result<Self> {
        let key_size = capacity.next_multiple_of(shape.lanes) * shape.head;
        let value_size = capacity * shape.value_stride();
        let heads = shape.blocks * shape.kv_heads;
        let to = "hold keys and values of a sample";
        Ok(Row {
            keys: zeros(heads * key_size, to)?,
            values: zeros(heads * value_size, to)?,
            filled,
            capacity,
            key_size,
            value_size,
            kv_heads: shape.kv_heads,
        })
    }

    /// Takes over the beginning of `other`, as far as this row is filled.
    pub fn begin_like(&mut self, shape: &Shape, other: &Row) {
        let keys = self.filled.next_multiple_of(shape.lanes) * shape.head;
        let values = self.filled * shape.value_stride();
        for head in 0..shape.blocks * self.kv_heads {
            let (to, from) = (head * self.key_size, head * other.key_size);
            self.keys[to..to + keys].copy_from_slice(&other.keys[from..from + keys]);
            let (to, from) = (head * self.value_size, head * other.value_size);
            self.values[to..to + values].copy_from_slice(&other.values[from..from + values]);
        }
    }

    /// Tokens there is room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Where the next token goes.
    ///
    /// A row that is done stays in the batch until several are, and is fed tokens nobody asked for. Once it is full,
    /// each goes to its last place: what comes of it is not read.
    pub fn position(&self) -> usize {
        self.filled.min(self.capacity.saturating_sub(1))
    }

    /// The next token goes one further.
    pub fn grow(&mut self) {
        self.filled = (self.filled + 1).min(self.capacity);
    }

    /// Keys of a block's head.
    pub fn keys(&self, block: usize, head: usize) -> &[f32] {
        let at = (block * self.kv_heads + head) * self.key_size;
        &self.keys[at..at + self.key_size]
    }

    /// Values of a block's head.
    pub fn values(&self, block: usize, head: usize) -> &[f32] {
        let at = (block * self.kv_heads + head) * self.value_size;
        &self.values[at..at + self.value_size]
    }

    /// Writes the key and the value at `position`.
    pub fn put(
        &mut self,
        shape: &Shape,
        (block, head): (usize, usize),
        position: usize,
        key: &[f32],
        value: &[f32],
    ) {
        let at = (block * self.kv_heads + head) * self.key_size;
        let run = position / shape.lanes * shape.lanes * shape.head;
        let keys = &mut self.keys[at + run..at + self.key_size];
        for (j, k) in key.iter().enumerate() {
            keys[j * shape.lanes + position % shape.lanes] = *k;
        }
        let at = (block * self.kv_heads + head) * self.value_size + position * shape.value_stride();
        self.values[at..at + value.len()].copy_from_slice(value);
    }
}

/// Puts the keys and values of a stretch of prompts, [prompts, kv heads, length, head], into the rows that begin with them.
pub(super) fn fill(
    rows: &mut [Row],
    block: usize,
    shape: &Shape,
    stretch: &Stretch<'_>,
    keys: &Tensor,
    values: &Tensor,
) -> Result<()> {
    let length = usize::try_from(keys.size()[2]).unwrap_or_default();
    let (keys, values) = (numbers(keys)?, numbers(values)?);
    let d = shape.head;
    for (row, from) in stretch.rows.iter().zip(stretch.from) {
        let row = &mut rows[*row];
        let from = usize::try_from(*from).unwrap_or_default();
        for head in 0..shape.kv_heads {
            let first = (from * shape.kv_heads + head) * length * d;
            for position in 0..length {
                let at = first + position * d..first + (position + 1) * d;
                row.put(
                    shape,
                    (block, head),
                    position,
                    &keys[at.clone()],
                    &values[at],
                );
            }
        }
    }
    Ok(())
}

/// The numbers of a tensor, in its order.
pub(super) fn numbers(tensor: &Tensor) -> Result<Vec<f32>> {
    let count = tensor.numel();
    let mut values = zeros(count, "read numbers of a tensor")?;
    tensor
        .f_detach()
        .and_then(|t| t.f_to_kind(Kind::Float)?.f_contiguous()?.f_view([-1]))
        .and_then(|t| t.f_copy_data(&mut values, count))
        .doing("read numbers of a tensor")?;
    Ok(values)
}
