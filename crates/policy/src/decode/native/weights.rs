//! A model's weights, packed in the order in which the products read them, or in the model's own memory.

use tch::Tensor;

use super::kernels::Panels;
use super::low::Adapted;
use super::plain::Plain;
use super::row::numbers;
use crate::error::{Doing, Result};
use crate::model::{Linear, Model};

/// A model's widths, in numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub hidden: usize,
    pub intermediate: usize,
    pub vocabulary: usize,
    /// Width of a head.
    pub head: usize,
    pub query_heads: usize,
    /// Key heads, and value heads.
    pub kv_heads: usize,
    pub eps: f32,
    /// Width of the vectors for which all buffers are packed.
    pub lanes: usize,
    pub blocks: usize,
}

impl Shape {
    fn of(model: &Model, lanes: usize) -> Self {
        let c = model.config();
        let width = |n: i64| usize::try_from(n).unwrap_or_default();
        Shape {
            hidden: width(c.hidden_size),
            intermediate: width(c.intermediate_size),
            vocabulary: width(c.vocab_size),
            head: width(c.head()),
            query_heads: width(c.num_attention_heads),
            kv_heads: width(c.kv_heads()),
            eps: c.rms_norm_eps as f32,
            lanes,
            blocks: model.blocks(),
        }
    }

    /// Width of a value in the cache.
    pub fn value_stride(&self) -> usize {
        self.head.next_multiple_of(self.lanes)
    }
}

/// Weights of one transformer block, whose matrices are `M`; vectors are padded with zeros to whole panels.
#[derive(Debug)]
pub(super) struct Block<M> {
    pub norm1: Vec<f32>,
    pub qkv: M,
    pub qkv_bias: Vec<f32>,
    pub out: M,
    pub norm2: Vec<f32>,
    pub gate_up: M,
    pub down: M,
}

/// All weights of a model, and its rotations.
#[derive(Debug)]
pub(super) struct Weights<'a, M> {
    pub shape: Shape,
    /// [vocabulary, hidden].
    pub embedding: Plain<'a>,
    pub blocks: Vec<Block<M>>,
    pub norm: Vec<f32>,
    pub head: M,
    /// cos and sin of every pair, [positions, head].
    pub rotations: Vec<f32>,
}

impl<'a> Weights<'a, Panels> {
    /// Copies the weights into panels, and the rotations of the first `positions` positions.
    pub fn pack(model: &'a Model, lanes: usize, positions: usize) -> Result<Self> {
        Self::of(model, lanes, positions, |linear| {
            let weights = linear.merged()?;
            let (outputs, inputs) = weights.size2().doing("read the shape of weights")?;
            let width = |n: i64| usize::try_from(n).unwrap_or_default();
            let values = numbers(&weights)?;
            Panels::pack(&values, width(outputs), width(inputs), lanes)
        })
    }
}

impl<'a> Weights<'a, Adapted<'a>> {
    /// Borrows the matrices without copying them.
    pub fn look(model: &'a Model, lanes: usize, positions: usize) -> Result<Self> {
        Self::of(model, lanes, positions, Adapted::of)
    }

    /// Largest input length of a product whose weights fill tiles; `None` if there is no such product.
    pub fn tiled_inputs(&self) -> Option<usize> {
        let tiled = |m: &Adapted<'_>| m.plain.tiled().is_some().then(|| m.plain.inputs());
        let blocks = self.blocks.iter();
        let of_blocks = blocks.flat_map(|b| [&b.qkv, &b.out, &b.gate_up, &b.down].map(tiled));
        of_blocks.chain([tiled(&self.head)]).flatten().max()
    }

    /// Largest output length of an adapter's A.
    pub fn ranks(&self) -> usize {
        let blocks = self.blocks.iter();
        let of_block =
            |b: &Block<Adapted<'_>>| [&b.qkv, &b.out, &b.gate_up, &b.down].map(Adapted::ranks);
        blocks.flat_map(of_block).max().unwrap_or_default()
    }
}

impl<'a, M> Weights<'a, M> {
    fn of(
        model: &'a Model,
        lanes: usize,
        positions: usize,
        matrix: impl Fn(Linear<'a>) -> Result<M>,
    ) -> Result<Self> {
        let s = Shape::of(model, lanes);
        let vector = |weights: &Tensor| {
            let mut values = numbers(weights)?;
            values.resize(values.len().next_multiple_of(2 * lanes), 0.0);
            Ok::<_, crate::Error>(values)
        };
        let queries_keys_values = (s.query_heads + 2 * s.kv_heads) * s.head;
        let blocks = (0..s.blocks)
            .map(|n| {
                let b = model.block(n);
                Ok(Block {
                    norm1: vector(b.norm1)?,
                    qkv_bias: match b.qkv.bias {
                        Some(bias) => vector(bias)?,
                        None => vec![0.0; queries_keys_values.next_multiple_of(2 * lanes)],
                    },
                    qkv: matrix(b.qkv)?,
                    out: matrix(b.out)?,
                    norm2: vector(b.norm2)?,
                    gate_up: matrix(b.gate_up)?,
                    down: matrix(b.down)?,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let rotations = model
            .rotary
            .range(0, positions as i64)?
            .f_view_as_real()
            .doing("look up rotations")?;
        Ok(Weights {
            shape: s,
            embedding: Plain::of(model.embedding())?,
            blocks,
            norm: vector(model.last_norm())?,
            head: matrix(Linear::plain(model.head()?))?,
            rotations: numbers(&rotations)?,
        })
    }
}
