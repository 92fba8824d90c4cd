//! One transformer block over whole sequences.

use tch::{Kind, Tensor};

use crate::error::{Doing, Result};
use crate::lora::Noise;
use crate::model::{Block, Linear, Model};

/// Inputs that all blocks of one forward pass share.
#[derive(Debug)]
pub(crate) struct Sequences {
    pub rows: i64,
    pub length: i64,
    /// [length, 1, head / 2], complex.
    pub rotations: Tensor,
    /// Seed of an adapter's dropout; `None` outside training.
    pub noise: Option<u64>,
}

impl Sequences {
    /// The dropout noise of a block's product.
    fn noise(&self, block: usize, product: u64) -> Option<Noise> {
        let seed = self.noise?;
        Some(Noise {
            seed,
            place: block as u64 * 4 + product,
        })
    }
}

impl<'a> Linear<'a> {
    /// A product with weights alone: no bias and no adapter.
    pub fn plain(weight: &'a Tensor) -> Self {
        Linear {
            weight,
            bias: None,
            low: None,
        }
    }

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

    /// The weights plus the adapter's update.
    pub fn merged(&self) -> Result<Tensor> {
        match &self.low {
            None => Ok(self.weight.shallow_clone()),
            Some(low) => low
                .product()?
                .f_add(self.weight)
                .doing("merge an adapter into the weights"),
        }
    }

    /// `to` plus the product of `x`; the products that use this have no bias.
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
    /// Block `n`: `x` [rows · length, hidden] → the same shape. `keep` receives the block's keys and values, [rows, kv
    /// heads, length, head].
    pub(crate) fn run_block(
        &self,
        n: usize,
        x: &Tensor,
        s: &Sequences,
        keep: &mut dyn FnMut(usize, &Tensor, &Tensor) -> Result<()>,
    ) -> Result<Tensor> {
        let w = self.block(n);
        let (x, gate_up) = self.run_to_gate(&w, n, x, s, keep)?;
        self.run_from_gate(&w, n, &x, &gate_up, s)
    }

    /// Block `n`, whose weights are `w`, up to its feed-forward layer's first product. Gives `x` after the attention,
    /// and gate and up in one tensor, [rows · length, 2 · intermediate].
    pub(crate) fn run_to_gate(
        &self,
        w: &Block<'_>,
        n: usize,
        x: &Tensor,
        s: &Sequences,
        keep: &mut dyn FnMut(usize, &Tensor, &Tensor) -> Result<()>,
    ) -> Result<(Tensor, Tensor)> {
        let c = self.config();
        let (d, heads, kv) = (c.head(), c.num_attention_heads, c.kv_heads());
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
        let gate_up = w.gate_up.apply(&self.norm(&x, w.norm2)?, s.noise(n, 2))?;
        Ok((x, gate_up))
    }

    /// The rest of block `n`, from the output of [`Model::run_to_gate`].
    pub(crate) fn run_from_gate(
        &self,
        w: &Block<'_>,
        n: usize,
        x: &Tensor,
        gate_up: &Tensor,
        s: &Sequences,
    ) -> Result<Tensor> {
        let (gate, up) = self.halves(gate_up)?;
        let gated = gate
            .f_silu()
            .and_then(|t| t.f_mul(&up))
            .doing("run a feed-forward layer")?;
        w.down.add_to(x, &gated, s.noise(n, 3))
    }

    /// Turns `by_y`, the derivative by the output of [`Model::run_from_gate`], into the derivative by `gate_up`, and
    /// adds the last product's weight derivative to `weights`. The derivative by the input `x` is `by_y` itself. For
    /// blocks without an adapter. The values between the two products, more than a third of a block's graph, are
    /// computed again instead of kept.
    pub(crate) fn back_to_gate(
        &self,
        n: usize,
        gate_up: &Tensor,
        by_y: &Tensor,
        weights: &mut Tensor,
    ) -> Result<Tensor> {
        let (gate, up) = self.halves(gate_up)?;
        let mut back = || {
            let by_gated = by_y.f_matmul(self.block(n).down.weight)?;
            let silu = gate.f_silu()?;
            let gated = silu.f_mul(&up)?;
            if weights.kind() == by_y.kind() {
                let _same = weights.f_addmm_(&by_y.f_tr()?, &gated)?;
            } else {
                let by_weight = by_y.f_tr()?.f_matmul(&gated)?;
                let _same = weights.f_add_(&by_weight)?;
            }
            drop(gated);
            let by_up = by_gated.f_mul(&silu)?;
            drop(silu);
            let by_gate = gate.f_silu_backward(&by_gated.f_mul(&up)?)?;
            Tensor::f_cat(&[by_gate, by_up], 1)
        };
        back().doing("run a feed-forward layer backward")
    }

    fn halves(&self, gate_up: &Tensor) -> Result<(Tensor, Tensor)> {
        let i = self.config.intermediate_size;
        gate_up
            .f_narrow(1, 0, i)
            .and_then(|gate| Ok((gate, gate_up.f_narrow(1, i, i)?)))
            .doing("run a feed-forward layer")
    }

    /// The embeddings of `ids` [rows, length]: [rows · length, hidden]. Everything but attention works on two
    /// dimensions: libtorch then uses one matrix product.
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

    /// The kind that softmax and scalar heads compute in: double for double weights, otherwise single precision.
    pub(crate) fn wide(&self) -> Kind {
        if self.kind() == Kind::Double {
            Kind::Double
        } else {
            Kind::Float
        }
    }
}
