//! The weights of a model and the ways to make one.

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tch::{Device, Kind, Tensor};

use crate::config::Config;
use crate::error::{Doing, Error, Result};
use crate::layout::{Layout, Slot, block, bytes_of};
use crate::rotary::Rotary;

/// A Qwen2 or Llama language model.
///
/// The weights are views into one flat tensor ([`Model::flat`]). A model is
/// `Send` and not `Sync`: it lives on one thread; other threads get a
/// [`Model::replica`].
#[derive(Debug)]
pub struct Model {
    pub(crate) config: Config,
    pub(crate) layout: Arc<Layout>,
    pub(crate) rotary: Rotary,
    flat: Tensor,
    parameters: Vec<(String, Tensor)>,
    trainable: bool,
}

/// The weights of one transformer block, in the model's own fused form.
pub(crate) struct Block<'a> {
    pub norm1: &'a Tensor,
    pub qkv: &'a Tensor,
    /// None where the architecture has no bias.
    pub qkv_bias: Option<&'a Tensor>,
    pub out: &'a Tensor,
    pub norm2: &'a Tensor,
    pub gate_up: &'a Tensor,
    pub down: &'a Tensor,
}

impl Model {
    /// A model with freshly drawn weights: matrices from N(0, `initializer_range`²), biases 0, norms 1.
    ///
    /// The same seed gives the same weights on every device.
    pub fn random(config: Config, seed: i64, device: Device, kind: Kind) -> Result<Self> {
        let mut model = Self::zeros(config, device, kind)?;
        let mut normal = Normal::new(seed);
        let std = model.config.initializer_range as f32;
        let _guard = tch::no_grad_guard();
        for (slot, (name, parameter)) in model.layout.slots.iter().zip(&mut model.parameters) {
            let count = usize::try_from(slot.len()).unwrap_or_default();
            let values: Vec<f32> = if name.ends_with("norm.weight") || name.contains("layernorm") {
                vec![1.0; count]
            } else if slot.is_matrix() {
                (0..count).map(|_| normal.draw() * std).collect()
            } else {
                vec![0.0; count]
            };
            Tensor::f_from_slice(&values)
                .and_then(|t| t.f_reshape(slot.shape.as_slice()))
                .and_then(|t| parameter.f_copy_(&t))
                .doing("fill in fresh weights")?;
        }
        Ok(model)
    }

    /// A model whose weights are all zero: the ground that loading writes on.
    pub(crate) fn zeros(config: Config, device: Device, kind: Kind) -> Result<Self> {
        config.check()?;
        if bytes_of(kind).is_none() {
            return Err(Error::Input(format!(
                "weights of kind {kind:?} are not possible: use Float, BFloat16, Half or Double"
            )));
        }
        let layout = Arc::new(Layout::of(&config));
        let flat = Tensor::f_zeros([layout.total], (kind, device)).doing("allocate the weights")?;
        let rotary = Rotary::new(&config, device, kind)?;
        let parameters = leaves(&layout, &flat)?;
        Ok(Model {
            config,
            layout,
            rotary,
            flat,
            parameters,
            trainable: false,
        })
    }

    /// A second handle on the same weights with gradients of its own.
    ///
    /// Weights changed through one are changed for both; gradients are not
    /// shared. So several threads can each run forward and backward on a part of a batch.
    pub fn replica(&self) -> Result<Self> {
        let flat = self.flat.shallow_clone();
        let parameters = leaves(&self.layout, &flat)?;
        let mut model = Model {
            config: self.config.clone(),
            layout: Arc::clone(&self.layout),
            rotary: self.rotary.replica(),
            flat,
            parameters,
            trainable: false,
        };
        model.set_trainable(self.trainable);
        Ok(model)
    }

    /// A model of the same shape with a copy of the weights, not trainable: a frozen reference.
    pub fn frozen_copy(&self) -> Result<Self> {
        let flat = {
            let _guard = tch::no_grad_guard();
            self.flat.f_detach_copy().doing("copy the weights")?
        };
        let parameters = leaves(&self.layout, &flat)?;
        Ok(Model {
            config: self.config.clone(),
            layout: Arc::clone(&self.layout),
            rotary: self.rotary.replica(),
            flat,
            parameters,
            trainable: false,
        })
    }

    /// The model's shape.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where the weights are.
    pub fn device(&self) -> Device {
        self.flat.device()
    }

    /// The kind of the weights.
    pub fn kind(&self) -> Kind {
        self.flat.kind()
    }

    /// Number of weights.
    pub fn parameter_count(&self) -> i64 {
        self.layout.parameters()
    }

    /// The model's own tensors, each with its name; leaves that collect gradients while the model is trainable.
    ///
    /// Query, key and value are fused (`….self_attn.qkv_proj.weight`, `….qkv_proj.bias`), as are gate
    /// and up (`….mlp.gate_up_proj.weight`); all others have Hugging Face's names and shapes. Rows of
    /// query and key heads are stored in rotary pairs (see [`crate::layout`]).
    pub fn parameters(&self) -> &[(String, Tensor)] {
        &self.parameters
    }

    /// Name, shape and place in [`Model::flat`] of every parameter, in the order of [`Model::parameters`].
    pub fn slots(&self) -> &[Slot] {
        &self.layout.slots
    }

    /// All weights as one vector, with a few zeros between slots for alignment.
    ///
    /// Changing it in place (under [`tch::no_grad_guard`]) changes the parameters. It never requires a gradient itself.
    pub fn flat(&self) -> &Tensor {
        &self.flat
    }

    /// Shall gradients be collected in [`Model::parameters`]?
    pub fn set_trainable(&mut self, trainable: bool) {
        self.trainable = trainable;
        for (_, parameter) in &self.parameters {
            let _same = parameter.set_requires_grad(trainable);
        }
    }

    /// Are gradients collected?
    pub fn is_trainable(&self) -> bool {
        self.trainable
    }

    pub(crate) fn flat_mut(&mut self) -> &mut Tensor {
        &mut self.flat
    }

    pub(crate) fn embedding(&self) -> &Tensor {
        &self.parameters[0].1
    }

    pub(crate) fn block(&self, n: usize) -> Block<'_> {
        let (first, end) = (self.first_slot(n), self.first_slot(n + 1));
        let at = |k: usize| &self.parameters[first + k].1;
        let back = |k: usize| &self.parameters[end - k].1;
        Block {
            norm1: at(block::NORM1),
            qkv: at(block::QKV),
            qkv_bias: self.config.has_bias().then(|| at(block::QKV_BIAS)),
            out: back(block::OUT),
            norm2: back(block::NORM2),
            gate_up: back(block::GATE_UP),
            down: back(block::DOWN),
        }
    }

    /// Where block `n` begins in the parameters: the embedding stands before the first.
    fn first_slot(&self, n: usize) -> usize {
        1 + n * block::len(self.config.has_bias())
    }

    pub(crate) fn blocks(&self) -> usize {
        usize::try_from(self.config.num_hidden_layers).unwrap_or_default()
    }

    pub(crate) fn last_norm(&self) -> &Tensor {
        &self.parameters[self.first_slot(self.blocks())].1
    }

    /// The matrix that scores the vocabulary, [vocabulary, hidden]; the embedding itself when tied.
    pub(crate) fn head(&self) -> &Tensor {
        if self.config.tie_word_embeddings {
            self.embedding()
        } else {
            &self.parameters[self.first_slot(self.blocks()) + 1].1
        }
    }
}

/// Views of `flat` in the shapes of the layout, cut off from it for autograd.
fn leaves(layout: &Layout, flat: &Tensor) -> Result<Vec<(String, Tensor)>> {
    layout
        .slots
        .iter()
        .map(|slot| {
            let view = flat
                .f_narrow(0, slot.offset, slot.len())
                .and_then(|t| t.f_view(slot.shape.as_slice()))
                .and_then(|t| t.f_detach())
                .doing("view a weight in the flat buffer")?;
            Ok((slot.name.clone(), view))
        })
        .collect()
}

/// Standard normal numbers from a seed, independent of libtorch's generators (Box and Muller's method).
struct Normal {
    random: ChaCha8Rng,
    spare: Option<f32>,
}

impl Normal {
    fn new(seed: i64) -> Self {
        Normal {
            random: ChaCha8Rng::seed_from_u64(seed.cast_unsigned()),
            spare: None,
        }
    }

    fn uniform(&mut self) -> f64 {
        // 53 bits, shifted by half a step so that 0 cannot come up.
        ((self.random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn draw(&mut self) -> f32 {
        if let Some(value) = self.spare.take() {
            return value;
        }
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        let angle = std::f64::consts::TAU * self.uniform();
        self.spare = Some((radius * angle.sin()) as f32);
        (radius * angle.cos()) as f32
    }
}
