//! A model's weights in the order in which the products read them.

use tch::Tensor;

use super::kernels::Panels;
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
    /// Of the vectors everything is packed for.
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

/// Weights of one transformer block; vectors are filled up with zeros to whole panels.
#[derive(Debug)]
pub(super) struct Block {
    pub norm1: Vec<f32>,
    pub qkv: Panels,
    pub qkv_bias: Vec<f32>,
    pub out: Panels,
    pub norm2: Vec<f32>,
    pub gate_up: Panels,
    pub down: Panels,
}

/// All weights of a model, and its rotations.
#[derive(Debug)]
pub(super) struct Weights {
    pub shape: Shape,
    /// [vocabulary, hidden].
    pub embedding: Vec<f32>,
    pub blocks: Vec<Block>,
    pub norm: Vec<f32>,
    pub head: Panels,
    /// cos and sin of every pair, [positions, head].
    pub rotations: Vec<f32>,
}

impl Weights {
    /// Copies the weights, and the rotations of the first `positions`.
    pub fn pack(model: &Model, lanes: usize, positions: usize) -> Result<Self> {
        let s = Shape::of(model, lanes);
        let matrix = |weights: &Tensor, outputs: usize, inputs: usize| {
            Ok::<_, crate::Error>(Panels::pack(&numbers(weights)?, outputs, inputs, lanes))
        };
        let merged = |linear: &Linear<'_>, outputs: usize, inputs: usize| {
            matrix(&linear.merged()?, outputs, inputs)
        };
        let vector = |weights: &Tensor| {
            let mut values = numbers(weights)?;
            values.resize(values.len().next_multiple_of(2 * lanes), 0.0);
            Ok::<_, crate::Error>(values)
        };
        let queries = s.query_heads * s.head;
        let queries_keys_values = queries + 2 * s.kv_heads * s.head;
        let blocks = (0..s.blocks)
            .map(|n| {
                let b = model.block(n);
                Ok(Block {
                    norm1: vector(b.norm1)?,
                    qkv: merged(&b.qkv, queries_keys_values, s.hidden)?,
                    qkv_bias: match b.qkv.bias {
                        Some(bias) => vector(bias)?,
                        None => vec![0.0; queries_keys_values.next_multiple_of(2 * lanes)],
                    },
                    out: merged(&b.out, s.hidden, queries)?,
                    norm2: vector(b.norm2)?,
                    gate_up: merged(&b.gate_up, 2 * s.intermediate, s.hidden)?,
                    down: merged(&b.down, s.hidden, s.intermediate)?,
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
            embedding: numbers(model.embedding())?,
            blocks,
            norm: vector(model.last_norm())?,
            head: matrix(model.head()?, s.vocabulary, s.hidden)?,
            rotations: numbers(&rotations)?,
        })
    }
}
