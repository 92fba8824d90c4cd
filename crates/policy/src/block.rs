//! One transformer block over whole sequences.

use tch::{Kind, Tensor};

use crate::error::{Doing, Result};
use crate::lora::Noise;
use crate::model::{Linear, Model};

/// What the blocks of one forward pass have in common.
#[derive(Debug)]
pub(crate) struct Sequences {
    pub rows: i64,
    pub length: i64,
    /// [length, 1, head / 2], complex.
    pub rotations: Tensor,
    /// Seed of an adapter's dropout; none outside training.
    pub noise: Option<u64>,
}

impl Sequences {
    /// The noise of a block's product.
    fn noise(&self, block: usize, product: u64) -> Option<Noise> {
        let seed = self.noise?;
        Some(Noise {
            seed,
            place: block as u64 * 4 + product,
        })
    }
}

impl Linear<'_> {
    /// `x` [n, inputs] → [n, outputs].
    pub fn apply(&self, x: &Tensor, noise: Option<Noise>) -> Result<Tensor> {
        let y = x
            .f_linear(self.weight, self.bias)
            .doing("multiply by a weight")?;
        match &self.low {
            None => Ok(y),
            Some(low) => low.add_to(&y, x, noise),
        }
    }

    /// The weights with what an adapter adds.
    pub fn merged(&self) -> Result<Tensor> {
        match &self.low {
            None => Ok(self.weight.shallow_clone()),
            Some(low) => low
                .product()?
                .f_add(self.weight)
                .doing("merge an adapter into the weights"),
        }
    }

    /// `to` + the product of `x`; there is no bias where this is used.
    pub fn add_to(&self, to: &Tensor, x: &Tensor, noise: Option<Noise>) -> Result<Tensor> {
        let y = self
            .weight
            .f_tr()
            .and_then(|w| to.f_addmm(x, &w))
            .doing("multiply by a weight")?;
        match &self.low {
            None => Ok(y),
            Some(low) => low.add_to(&y, x, noise),
        }
    }
}

impl Model {
    /// Block `n`: `x` [rows · length, hidden] → the same shape. `keep` is shown its keys and values, [rows, kv heads, length, head].
    pub(crate) fn run_block(
        &self,
        n: usize,
        x: &Tensor,
        s: &Sequences,
        keep: &mut dyn FnMut(usize, &Tensor, &Tensor) -> Result<()>,
    ) -> Result<Tensor> {
        let c = self.config();
        let (d, heads, kv) = (c.head(), c.num_attention_heads, c.kv_heads());
        let w = self.block(n);
        let qkv = w
            .qkv
            .apply(&self.norm(x, w.norm1)?, s.noise(n, 0))?
            .f_view([s.rows, s.length, heads + 2 * kv, d])
            .and_then(|t| t.f_split_with_sizes([heads + kv, kv], 2))
            .doing("project queries, keys and values")?;
        let qk = self.rotary.rotate(&qkv[0], &s.rotations)?;
        let (q, k, v) = qk
            .f_split_with_sizes([heads, kv], 2)
            .and_then(|qk| {
                Ok((
                    qk[0].f_transpose(1, 2)?,
                    qk[1].f_transpose(1, 2)?,
                    qkv[1].f_transpose(1, 2)?,
                ))
            })
            .doing("split heads")?;
        keep(n, &k, &v)?;
        let y = Tensor::f_scaled_dot_product_attention(
            &q,
            &k,
            &v,
            None::<&Tensor>,
            0.0,
            true,
            None,
            heads != kv,
        )
        .and_then(|y| {
            y.f_transpose(1, 2)?
                .f_reshape([s.rows * s.length, heads * d])
        })
        .doing("attend")?;
        let x = w.out.add_to(x, &y, s.noise(n, 1))?;
        let i = c.intermediate_size;
        let gated = w
            .gate_up
            .apply(&self.norm(&x, w.norm2)?, s.noise(n, 2))?
            .f_split_with_sizes([i, i], 1)
            .and_then(|t| t[0].f_silu()?.f_mul(&t[1]))
            .doing("run a feed-forward layer")?;
        w.down.add_to(&x, &gated, s.noise(n, 3))
    }

    /// The embeddings of `ids` [rows, length]: [rows · length, hidden]. Two dimensions for everything but attention: libtorch then goes straight to
    /// one matrix product.
    pub(crate) fn embed(&self, ids: &Tensor) -> Result<Tensor> {
        Tensor::f_embedding(self.embedding(), ids, -1, false, false)
            .and_then(|x| x.f_view([-1, self.config.hidden_size]))
            .doing("embed tokens")
    }

    /// RMSNorm over the last dimension (Zhang & Sennrich, 2019).
    pub(crate) fn norm(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        x.f_rms_norm(
            [self.config.hidden_size],
            Some(weight),
            self.config.rms_norm_eps,
        )
        .doing("normalize hidden states")
    }

    /// What softmax and scalar heads compute in whatever the weights are: single precision, except that double stays double.
    pub(crate) fn wide(&self) -> Kind {
        if self.kind() == Kind::Double {
            Kind::Double
        } else {
            Kind::Float
        }
    }
}
