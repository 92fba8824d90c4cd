//! The weights of an adapter.

use std::ops::Range;

use tch::{Device, Kind, Tensor};

use super::{LoraConfig, LowRank};
use crate::config::{Config, Scalar};
use crate::error::{Doing, Error, Result};
use crate::layout::{Layout, Product, SCORE, VALUE};
use crate::model::Normal;
use crate::parameters::Parameters;

/// A low-rank adapter for models of one shape. A scalar head (reward model, value), if the model has one, is part of
/// the adapter and trained whole.
#[derive(Debug)]
pub struct Adapter {
    config: LoraConfig,
    parameters: Parameters,
    /// For each block and product, the slots of its matrices.
    products: Vec<[Option<Place>; 4]>,
    /// The slots of each block.
    blocks: Vec<Range<usize>>,
}

/// The slots of one adapted product.
#[derive(Debug, Clone)]
struct Place {
    a: usize,
    /// For each part of the product its number of outputs, and the slot of its B if the part is adapted.
    parts: Vec<(i64, Option<usize>)>,
}

impl Adapter {
    /// A fresh adapter for models of the shape of `model`, which changes no output yet: A is drawn from U(−1/√inputs,
    /// 1/√inputs), as in PEFT, and B is 0. Its numbers are in single precision (double for a model in double
    /// precision).
    pub fn fresh(
        model: &Config,
        config: LoraConfig,
        seed: u64,
        device: Device,
        kind: Kind,
    ) -> Result<Self> {
        let adapter = Self::zeros(model, config, device, kind)?;
        let mut random = Normal::new(seed.cast_signed());
        let _guard = tch::no_grad_guard();
        for (slot, (name, leaf)) in adapter
            .parameters
            .slots()
            .iter()
            .zip(adapter.parameters.leaves())
        {
            if !name.ends_with("lora_A.weight") {
                continue;
            }
            let bound = 1.0 / (slot.shape[1] as f64).sqrt();
            let values: Vec<f32> = (0..slot.len())
                .map(|_| ((random.uniform() * 2.0 - 1.0) * bound) as f32)
                .collect();
            Tensor::f_from_slice(&values)
                .and_then(|t| t.f_reshape(slot.shape.as_slice()))
                .and_then(|t| leaf.shallow_clone().f_copy_(&t))
                .doing("fill in a fresh adapter")?;
        }
        Ok(adapter)
    }

    /// An adapter whose numbers are all 0.
    pub(super) fn zeros(
        model: &Config,
        config: LoraConfig,
        device: Device,
        kind: Kind,
    ) -> Result<Self> {
        config.check().map_err(Error::Input)?;
        let layout = Layout::adapter(model, &config);
        let products = (0..model.num_hidden_layers)
            .map(|block| {
                Product::ALL.map(|product| {
                    let stem = product.stem(block);
                    let a =
                        layout.slot_named(&format!("{stem}{}.lora_A.weight", product.name()))?;
                    let parts = product
                        .parts(model)
                        .into_iter()
                        .map(|(target, rows, _)| {
                            let name = format!("{stem}{}.lora_B.weight", target.name());
                            (rows, layout.slot_named(&name))
                        })
                        .collect();
                    Some(Place { a, parts })
                })
            })
            .collect();
        let mut end = 0;
        let blocks = (0..model.num_hidden_layers)
            .map(|block| {
                let begin = end;
                let stem = format!("model.layers.{block}.");
                let own = layout.slots[begin..].iter();
                end += own.take_while(|s| s.name.starts_with(&stem)).count();
                begin..end
            })
            .collect();
        let wide = match kind {
            Kind::Double => Kind::Double,
            _ => Kind::Float,
        };
        Ok(Adapter {
            parameters: Parameters::zeros(layout, device, wide)?,
            config,
            products,
            blocks,
        })
    }

    /// The adapter's shape.
    pub fn config(&self) -> &LoraConfig {
        &self.config
    }

    /// The adapter's numbers.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The same numbers with separate gradients.
    pub(crate) fn replica(&self) -> Result<Self> {
        Ok(Adapter {
            config: self.config.clone(),
            parameters: self.parameters.replica()?,
            products: self.products.clone(),
            blocks: self.blocks.clone(),
        })
    }

    /// A copy of the adapter.
    pub(crate) fn copy(&self) -> Result<Self> {
        Ok(Adapter {
            config: self.config.clone(),
            parameters: self.parameters.copy()?,
            products: self.products.clone(),
            blocks: self.blocks.clone(),
        })
    }

    /// The same numbers for `model`, which may differ from the earlier model in its scalar head only: a head that
    /// `model` lacks is left out, and a new head is 0.
    pub(crate) fn with_head_of(&self, model: &Config) -> Result<Self> {
        let own = self.parameters.flat();
        let new = Self::zeros(model, self.config.clone(), own.device(), own.kind())?;
        let _guard = tch::no_grad_guard();
        for (name, leaf) in new.parameters.leaves() {
            let mut leaves = self.parameters.leaves().iter();
            if let Some((_, old)) = leaves.find(|(known, _)| known == name) {
                leaf.shallow_clone()
                    .f_copy_(old)
                    .doing("take over an adapter")?;
            }
        }
        Ok(new)
    }

    /// The adapter's update of a block's product.
    pub(crate) fn low_rank(&self, block: usize, product: Product) -> Option<LowRank<'_>> {
        let place = self.products[block][product as usize].as_ref()?;
        Some(LowRank {
            a: self.parameters.leaf(place.a),
            parts: place
                .parts
                .iter()
                .map(|(rows, slot)| (*rows, slot.map(|slot| self.parameters.leaf(slot))))
                .collect(),
            rank: i64::from(self.config.rank),
            scale: self.config.scale(),
            dropout: self.config.dropout,
        })
    }

    /// The slots of block `n`.
    pub(crate) fn block_slots(&self, n: usize) -> Range<usize> {
        self.blocks[n].clone()
    }

    /// The scalar head that is trained with the adapter.
    pub(crate) fn scalar(&self, kind: Scalar) -> Option<&Tensor> {
        let name = match kind {
            Scalar::None => return None,
            Scalar::Score => SCORE,
            Scalar::Value => VALUE,
        };
        let leaves = self.parameters.leaves();
        leaves.iter().find(|(n, _)| n == name).map(|(_, t)| t)
    }
}
