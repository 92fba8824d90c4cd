//! The place of each Hugging Face tensor in the model's own, fused tensors.
//!
//! All weights are views into one flat buffer, which an optimizer can treat as one vector. Query, key and value
//! projections form one matrix, gate and up another: one large product is faster than several small ones.
//!
//! Inside a query or key head, Hugging Face pairs dimension `j` with `j + d/2` for the rotary embedding. In this layout
//! the two are adjacent: a pair is one complex number, and one multiplication rotates it. The same permutation of query
//! and key leaves every dot product unchanged.

use tch::{Kind, Tensor};

use crate::config::{Config, Scalar};
use crate::error::{Doing, Result};
use crate::lora::{LoraConfig, Target};

/// The weights of the norm before the vocabulary is scored: logits are linear in these weights.
pub const FINAL_NORM: &str = "model.norm.weight";

/// The vectors of the tokens.
pub const EMBEDDING: &str = "model.embed_tokens.weight";

/// The matrix that scores the vocabulary, unless it is the embedding.
pub const HEAD: &str = "lm_head.weight";

/// The vector that scores a whole text, in a reward model.
pub const SCORE: &str = "score.weight";

/// The vector that estimates a policy's expected return; the policy keeps the head that scores the vocabulary.
pub const VALUE: &str = "v_head.weight";

/// Slots begin at multiples of this many elements, which aligns each for vector loads.
const ALIGN: i64 = 16;

/// One of the model's own tensors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Hugging Face's name; `….self_attn.qkv_proj.weight`, `….qkv_proj.bias`, `….mlp.gate_up_proj.weight` for fused
    /// tensors.
    pub name: String,
    /// The tensor's shape.
    pub shape: Vec<i64>,
    /// Index of the tensor's first element in the flat buffer.
    pub offset: i64,
}

impl Slot {
    /// Number of elements.
    pub fn len(&self) -> i64 {
        self.shape.iter().product()
    }

    /// Never true in a checked configuration; clippy requires this method of a type with `len`.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True for a matrix. AdamW decays matrices, but not norms and biases.
    pub fn is_matrix(&self) -> bool {
        self.shape.len() > 1
    }
}

/// One Hugging Face tensor and its place in a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub name: String,
    pub shape: Vec<i64>,
    pub slot: usize,
    /// First row in the slot.
    pub row: i64,
    /// Width of a head if the rows of each head are stored in rotary pairs.
    pub pairs: Option<i64>,
}

/// All slots and parts of a configuration.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub slots: Vec<Slot>,
    pub parts: Vec<Part>,
    /// Elements of the flat buffer, padding included.
    pub total: i64,
}

/// Positions of a block's slots. Those before the bias are counted from the block's first slot and those after it from
/// the block's end, since some architectures have no bias.
pub(crate) mod block {
    pub const NORM1: usize = 0;
    pub const QKV: usize = 1;
    pub const QKV_BIAS: usize = 2;
    pub const OUT: usize = 4;
    pub const NORM2: usize = 3;
    pub const GATE_UP: usize = 2;
    pub const DOWN: usize = 1;

    /// Slots of a block.
    pub const fn len(bias: bool) -> usize {
        if bias { 7 } else { 6 }
    }
}

/// The products of a block with weights. Each is one matrix here, and one or several matrices in Hugging Face's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    Qkv,
    Out,
    GateUp,
    Down,
}

impl Product {
    pub const ALL: [Product; 4] = [Product::Qkv, Product::Out, Product::GateUp, Product::Down];

    /// The prefix of the product's tensor names in a block.
    pub fn stem(self, block: i64) -> String {
        let module = match self {
            Product::Qkv | Product::Out => "self_attn",
            Product::GateUp | Product::Down => "mlp",
        };
        format!("model.layers.{block}.{module}.")
    }

    pub fn name(self) -> &'static str {
        match self {
            Product::Qkv => "qkv_proj",
            Product::Out => "o_proj",
            Product::GateUp => "gate_up_proj",
            Product::Down => "down_proj",
        }
    }

    pub fn inputs(self, config: &Config) -> i64 {
        match self {
            Product::Qkv | Product::GateUp => config.hidden_size,
            Product::Out => config.num_attention_heads * config.head(),
            Product::Down => config.intermediate_size,
        }
    }

    /// The targets that make up the product, with the outputs of each, and the width of a head if they are stored in
    /// rotary pairs.
    pub fn parts(self, config: &Config) -> Vec<(Target, i64, Option<i64>)> {
        let d = config.head();
        let (q, kv) = (config.num_attention_heads * d, config.kv_heads() * d);
        match self {
            Product::Qkv => vec![
                (Target::Query, q, Some(d)),
                (Target::Key, kv, Some(d)),
                (Target::Value, kv, None),
            ],
            Product::Out => vec![(Target::Out, config.hidden_size, None)],
            Product::GateUp => vec![
                (Target::Gate, config.intermediate_size, None),
                (Target::Up, config.intermediate_size, None),
            ],
            Product::Down => vec![(Target::Down, config.hidden_size, None)],
        }
    }
}

impl Layout {
    pub fn of(config: &Config) -> Self {
        let (h, i, v) = (
            config.hidden_size,
            config.intermediate_size,
            config.vocab_size,
        );
        let d = config.head();
        let (q, kv) = (config.num_attention_heads * d, config.kv_heads() * d);
        let mut layout = Layout {
            slots: Vec::new(),
            parts: Vec::new(),
            total: 0,
        };
        layout.plain(EMBEDDING, &[v, h]);
        for n in 0..config.num_hidden_layers {
            let p = format!("model.layers.{n}");
            layout.plain(&format!("{p}.input_layernorm.weight"), &[h]);
            let a = format!("{p}.self_attn");
            layout.fused(
                &format!("{a}.qkv_proj.weight"),
                &[q + 2 * kv, h],
                &[
                    (format!("{a}.q_proj.weight"), q, Some(d)),
                    (format!("{a}.k_proj.weight"), kv, Some(d)),
                    (format!("{a}.v_proj.weight"), kv, None),
                ],
            );
            if config.has_bias() {
                layout.fused(
                    &format!("{a}.qkv_proj.bias"),
                    &[q + 2 * kv],
                    &[
                        (format!("{a}.q_proj.bias"), q, Some(d)),
                        (format!("{a}.k_proj.bias"), kv, Some(d)),
                        (format!("{a}.v_proj.bias"), kv, None),
                    ],
                );
            }
            layout.plain(&format!("{a}.o_proj.weight"), &[h, q]);
            layout.plain(&format!("{p}.post_attention_layernorm.weight"), &[h]);
            layout.fused(
                &format!("{p}.mlp.gate_up_proj.weight"),
                &[2 * i, h],
                &[
                    (format!("{p}.mlp.gate_proj.weight"), i, None),
                    (format!("{p}.mlp.up_proj.weight"), i, None),
                ],
            );
            layout.plain(&format!("{p}.mlp.down_proj.weight"), &[h, i]);
        }
        layout.plain(FINAL_NORM, &[h]);
        if !config.tie_word_embeddings && config.scalar != Scalar::Score {
            layout.plain(HEAD, &[v, h]);
        }
        layout.scalar(config);
        layout
    }

    /// The layout of an adapter: for each adapted product a matrix A that all of its parts share, [parts · rank,
    /// inputs], and for each part a matrix B, [outputs, rank]. A scalar head is trained whole.
    pub fn adapter(config: &Config, lora: &LoraConfig) -> Self {
        let mut layout = Layout {
            slots: Vec::new(),
            parts: Vec::new(),
            total: 0,
        };
        let r = i64::from(lora.rank);
        for n in 0..config.num_hidden_layers {
            for product in Product::ALL {
                let adapted: Vec<(Target, i64, Option<i64>)> = product
                    .parts(config)
                    .into_iter()
                    .filter(|(target, ..)| lora.targets.contains(target))
                    .collect();
                if adapted.is_empty() {
                    continue;
                }
                let path = |name: &str| format!("{}{name}", product.stem(n));
                let parts: Vec<_> = adapted
                    .iter()
                    .map(|(target, ..)| {
                        let name = path(&format!("{}.lora_A.weight", target.name()));
                        (name, r, None)
                    })
                    .collect();
                layout.fused(
                    &path(&format!("{}.lora_A.weight", product.name())),
                    &[r * adapted.len() as i64, product.inputs(config)],
                    &parts,
                );
                for (target, rows, pairs) in adapted {
                    let name = path(&format!("{}.lora_B.weight", target.name()));
                    layout.fused(&name, &[rows, r], &[(name.clone(), rows, pairs)]);
                }
            }
        }
        layout.scalar(config);
        layout
    }

    fn scalar(&mut self, config: &Config) {
        match config.scalar {
            Scalar::None => {}
            Scalar::Score => self.plain(SCORE, &[1, config.hidden_size]),
            Scalar::Value => self.plain(VALUE, &[1, config.hidden_size]),
        }
    }

    /// The slot of that name.
    pub fn slot_named(&self, name: &str) -> Option<usize> {
        self.slots.iter().position(|slot| slot.name == name)
    }

    /// Number of weights, without padding.
    pub fn parameters(&self) -> i64 {
        self.slots.iter().map(Slot::len).sum()
    }

    fn slot(&mut self, name: &str, shape: &[i64]) -> usize {
        let slot = Slot {
            name: name.to_owned(),
            shape: shape.to_vec(),
            offset: self.total,
        };
        self.total += (slot.len() + ALIGN - 1) / ALIGN * ALIGN;
        self.slots.push(slot);
        self.slots.len() - 1
    }

    fn plain(&mut self, name: &str, shape: &[i64]) {
        self.fused(name, shape, &[(name.to_owned(), shape[0], None)]);
    }

    fn fused(&mut self, name: &str, shape: &[i64], parts: &[(String, i64, Option<i64>)]) {
        let slot = self.slot(name, shape);
        let mut row = 0;
        for (name, rows, pairs) in parts {
            let mut part_shape = shape.to_vec();
            part_shape[0] = *rows;
            self.parts.push(Part {
                name: name.clone(),
                shape: part_shape,
                slot,
                row,
                pairs: *pairs,
            });
            row += rows;
        }
    }
}

impl Part {
    /// This part of its slot's tensor, as a view with the file's shape; rotary pairs stay in memory order.
    pub fn view(&self, slot: &Tensor) -> Result<Tensor> {
        slot.f_narrow(0, self.row, self.shape[0])
            .doing("view a part of a fused weight")
    }

    /// The order of the file → the order in memory.
    pub fn to_memory(&self, tensor: &Tensor) -> Result<Tensor> {
        self.reorder(tensor, true)
    }

    /// The order in memory → the order of the file; always contiguous.
    pub fn to_file(&self, tensor: &Tensor) -> Result<Tensor> {
        self.reorder(tensor, false)?
            .f_contiguous()
            .doing("lay out a weight for its file")
    }

    fn reorder(&self, tensor: &Tensor, to_memory: bool) -> Result<Tensor> {
        let Some(d) = self.pairs else {
            return Ok(tensor.shallow_clone());
        };
        let (inner, outer) = if to_memory { (2, d / 2) } else { (d / 2, 2) };
        let columns: i64 = self.shape[1..].iter().product();
        tensor
            .f_reshape([self.shape[0] / d, inner, outer, columns])
            .and_then(|t| t.f_transpose(1, 2))
            .and_then(|t| t.f_reshape(self.shape.as_slice()))
            .doing("reorder the rotary pairs of a weight")
    }
}

/// Bytes of one element, for the kinds that weights may have.
pub(crate) fn bytes_of(kind: Kind) -> Option<i64> {
    match kind {
        Kind::Float => Some(4),
        Kind::BFloat16 | Kind::Half => Some(2),
        Kind::Double => Some(8),
        _ => None,
    }
}
