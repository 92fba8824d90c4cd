//! Keys and values of one row.

use tch::{Kind, Tensor};

use super::weights::Shape;
use crate::decode::prefill::Stretch;
use crate::decode::space::zeros;
use crate::error::{Doing, Result};

/// A row's cache. Every row has its own cache, with room for the row's own length.
#[derive(Debug)]
pub(super) struct Row {
    /// For each block and key head, keys in runs of one vector's width: [runs][head][lanes]. One vector then holds the
    /// scores of adjacent positions.
    keys: Vec<f32>,
    /// For each block and value head [capacity, value stride].
    values: Vec<f32>,
    filled: usize,
    capacity: usize,
    /// Count of numbers of one block and head in `keys`, and in `values`.
    key_size: usize,
    value_size: usize,
    kv_heads: usize,
}

impl Row {
    /// Allocates room for `capacity` tokens; [`fill`] writes the first `filled` of them.
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

    /// Copies the beginning of `other`, up to this row's filled length.
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

    /// Number of tokens there is room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The place of the next token.
    ///
    /// A finished row stays in the batch until several are finished, and is fed meaningless tokens. In a full row each
    /// of them overwrites the last place; their output is not read.
    pub fn position(&self) -> usize {
        self.filled.min(self.capacity.saturating_sub(1))
    }

    /// Advances the place of the next token by one.
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

/// Writes the keys and values of a stretch of prompts, [prompts, kv heads, length, head], into the rows that begin with
/// these prompts.
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

/// The numbers of a tensor, in the tensor's order.
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
