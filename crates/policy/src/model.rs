//! The weights of a model and the ways to make one.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tch::{Device, Kind, Tensor};

use crate::config::{Config, Scalar};
use crate::error::{Doing, Error, Result};
use crate::layout::{Layout, Product, SCORE, VALUE, block, bytes_of};
use crate::lora::{Adapter, LoraConfig, LowRank};
use crate::parameters::Parameters;
use crate::rotary::Rotary;

/// A Qwen2 or Llama language model, or a reward model of that shape, perhaps with an adapter.
///
/// The weights are views into one flat tensor. A model is `Send` and not `Sync`: one thread uses a model; other threads
/// get a [`Model::replica`].
#[derive(Debug)]
pub struct Model {
    pub(crate) config: Config,
    pub(crate) rotary: Rotary,
    base: Parameters,
    adapter: Option<Adapter>,
    trainable: bool,
}

/// The weights of one transformer block, in the model's own fused form.
pub(crate) struct Block<'a> {
    pub norm1: &'a Tensor,
    pub qkv: Linear<'a>,
    pub out: Linear<'a>,
    pub norm2: &'a Tensor,
    pub gate_up: Linear<'a>,
    pub down: Linear<'a>,
}

/// A product with weights.
pub(crate) struct Linear<'a> {
    pub weight: &'a Tensor,
    /// `None` if the architecture has no bias.
    pub bias: Option<&'a Tensor>,
    /// The adapter's low-rank update of the product.
    pub low: Option<LowRank<'a>>,
}

impl Model {
    /// A model with freshly drawn weights: matrices from N(0, `initializer_range`²), biases 0, norms 1.
    ///
    /// The same seed gives the same weights on every device.
    pub fn random(config: Config, seed: i64, device: Device, kind: Kind) -> Result<Self> {
        let model = Self::zeros(config, device, kind)?;
        let mut normal = Normal::new(seed);
        let std = model.config.initializer_range as f32;
        let _guard = tch::no_grad_guard();
        for (slot, (name, parameter)) in model.base.slots().iter().zip(model.base.leaves()) {
            let count = usize::try_from(slot.len()).unwrap_or_default();
            let values: Vec<f32> = if name.ends_with("norm.weight") || name.contains("layernorm") {
                vec![1.0; count]
            } else if slot.is_matrix() && name != VALUE {
                (0..count).map(|_| normal.draw() * std).collect()
            } else {
                vec![0.0; count]
            };
            Tensor::f_from_slice(&values)
                .and_then(|t| t.f_reshape(slot.shape.as_slice()))
                .and_then(|t| parameter.shallow_clone().f_copy_(&t))
                .doing("fill in fresh weights")?;
        }
        Ok(model)
    }

    /// Like [`Model::random`], but the device's own generator draws the weights. Weights differ between kinds of
    /// devices, and a shape of billions takes a moment. For measurements, where weights only have to be of the usual
    /// size.
    pub fn noise(config: Config, seed: i64, device: Device, kind: Kind) -> Result<Self> {
        let model = Self::zeros(config, device, kind)?;
        let std = model.config.initializer_range;
        let _guard = tch::no_grad_guard();
        tch::manual_seed(seed);
        for (slot, (name, parameter)) in model.base.slots().iter().zip(model.base.leaves()) {
            let mut parameter = parameter.shallow_clone();
            let _same = if name.ends_with("norm.weight") || name.contains("layernorm") {
                parameter.f_fill_(1.0)
            } else if slot.is_matrix() && name != VALUE {
                parameter.f_normal_(0.0, std)
            } else {
                continue;
            }
            .doing("fill in fresh weights")?;
        }
        Ok(model)
    }

    /// A model whose weights are all zero: loading a checkpoint overwrites them.
    pub(crate) fn zeros(config: Config, device: Device, kind: Kind) -> Result<Self> {
        config.check()?;
        if bytes_of(kind).is_none() {
            return Err(Error::Input(format!(
                "weights of kind {kind:?} are not supported: use Float, BFloat16, Half or Double"
            )));
        }
        let base = Parameters::zeros(Layout::of(&config), device, kind)?;
        let rotary = Rotary::new(&config, device, kind)?;
        Ok(Self::over(config, rotary, base, None))
    }

    fn over(config: Config, rotary: Rotary, base: Parameters, adapter: Option<Adapter>) -> Self {
        Model {
            config,
            rotary,
            base,
            adapter,
            trainable: false,
        }
    }

    /// This model with a fresh scalar head. A reward model's head is drawn as all matrices are; a policy's head for
    /// values begins at 0. A head of the requested kind that the model already has stays. With an adapter, the adapter
    /// owns the head, like everything that is trained.
    pub fn with_scalar(self, scalar: Scalar, seed: i64) -> Result<Self> {
        if self.config.scalar == scalar {
            return Ok(self);
        }
        let mut config = self.config.clone();
        config.scalar = scalar;
        let adapter = self.adapter.as_ref();
        let adapter = adapter.map(|a| a.with_head_of(&config)).transpose()?;
        let mut new = Self::zeros(config, self.device(), self.kind())?;
        let _guard = tch::no_grad_guard();
        let std = new.config.initializer_range as f32;
        for (name, leaf) in new.base.leaves() {
            let mut place = leaf.shallow_clone();
            let old = self.base.leaves().iter().find(|(n, _)| n == name);
            if let Some((_, old)) = old {
                place.f_copy_(old).doing("take over weights")?;
            } else if name == SCORE {
                let mut normal = Normal::new(seed);
                let values: Vec<f32> = (0..place.numel()).map(|_| normal.draw() * std).collect();
                Tensor::f_from_slice(&values)
                    .and_then(|t| t.f_reshape_as(&place))
                    .and_then(|t| place.f_copy_(&t))
                    .doing("fill in a fresh head")?;
            }
        }
        if let Some(adapter) = adapter {
            new.put_on(adapter)?;
        }
        Ok(new)
    }

    /// A second handle on the same weights with separate gradients.
    ///
    /// A weight changed through one handle changes for both; gradients are not shared. Several threads can thus each
    /// run forward and backward on a part of a batch.
    pub fn replica(&self) -> Result<Self> {
        let adapter = self.adapter.as_ref().map(Adapter::replica).transpose()?;
        let mut model = Self::over(
            self.config.clone(),
            self.rotary.replica(),
            self.base.replica()?,
            adapter,
        );
        model.set_trainable(self.trainable);
        Ok(model)
    }

    /// A model of the same shape with a copy of the weights, not trainable: a frozen reference.
    pub fn frozen_copy(&self) -> Result<Self> {
        let adapter = self.adapter.as_ref().map(Adapter::copy).transpose()?;
        Ok(Self::over(
            self.config.clone(),
            self.rotary.replica(),
            self.base.copy()?,
            adapter,
        ))
    }

    /// A second handle on the same weights without the adapter, not trainable: the reference of a policy that trains an
    /// adapter, or the base of another adapter.
    pub fn bare(&self) -> Result<Self> {
        Ok(Self::over(
            self.config.clone(),
            self.rotary.replica(),
            self.base.replica()?,
            None,
        ))
    }

    /// A second handle on the same weights with a copy of the adapter, not trainable: a snapshot of a model with an
    /// adapter.
    pub fn sibling(&self) -> Result<Self> {
        let mut model = self.bare()?;
        model.adapter = self.adapter.as_ref().map(Adapter::copy).transpose()?;
        Ok(model)
    }

    /// Attaches an adapter and drops an earlier one. From here on the adapter is trained, not the weights.
    ///
    /// # Errors
    /// If the adapter was made for models of another shape.
    pub fn attach(&mut self, adapter: Adapter) -> Result<()> {
        let fitting = Layout::adapter(&self.config, adapter.config());
        if fitting.slots != adapter.parameters().slots() {
            return Err(Error::Input(
                "the adapter was made for a model of another shape".into(),
            ));
        }
        self.adapter = Some(adapter);
        self.set_trainable(self.trainable);
        Ok(())
    }

    /// Attaches a fresh adapter, which changes no output yet. The model's own scalar head, if any, is copied into the
    /// adapter.
    pub fn adapt(&mut self, lora: LoraConfig, seed: u64) -> Result<()> {
        let adapter = Adapter::fresh(&self.config, lora, seed, self.device(), self.kind())?;
        self.put_on(adapter)
    }

    /// Attaches an adapter and copies the model's own scalar head into it.
    fn put_on(&mut self, adapter: Adapter) -> Result<()> {
        if let (Some(own), Some(new)) = (self.own_scalar(), adapter.scalar(self.config.scalar)) {
            let _guard = tch::no_grad_guard();
            let copied = new.shallow_clone().f_copy_(own);
            copied.doing("take over a head")?;
        }
        self.attach(adapter)
    }

    /// Detaches the adapter and returns it.
    pub fn detach(&mut self) -> Option<Adapter> {
        let adapter = self.adapter.take();
        self.set_trainable(self.trainable);
        adapter
    }

    /// The attached adapter.
    pub fn adapter(&self) -> Option<&Adapter> {
        self.adapter.as_ref()
    }

    /// Adds the adapter's update to the weights themselves and removes the adapter. All handles that share the weights
    /// see the change.
    pub fn merge(&mut self) -> Result<()> {
        let Some(adapter) = self.adapter.take() else {
            return Ok(());
        };
        let _guard = tch::no_grad_guard();
        for n in 0..self.blocks() {
            for product in Product::ALL {
                let Some(low) = adapter.low_rank(n, product) else {
                    continue;
                };
                let weight = self.linear(n, product).weight;
                let sum = low
                    .product()?
                    .f_add(weight)
                    .doing("merge an adapter into the weights")?;
                weight
                    .shallow_clone()
                    .f_copy_(&sum)
                    .doing("merge an adapter into the weights")?;
            }
        }
        if let (Some(own), Some(trained)) = (self.own_scalar(), adapter.scalar(self.config.scalar))
        {
            own.shallow_clone()
                .f_copy_(trained)
                .doing("take over a head")?;
        }
        self.set_trainable(self.trainable);
        Ok(())
    }

    /// Copies the numbers of `adapter` into the attached adapter if both have the same configuration, so that replicas
    /// see the new numbers; otherwise attaches `adapter`.
    pub(crate) fn take_over(&mut self, adapter: Adapter) -> Result<()> {
        match &self.adapter {
            Some(own) if own.config() == adapter.config() => {
                let _guard = tch::no_grad_guard();
                let mut flat = own.parameters().flat().shallow_clone();
                flat.f_copy_(adapter.parameters().flat())
                    .doing("take over an adapter")
            }
            _ => self.attach(adapter),
        }
    }

    /// The model's shape.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The device of the weights.
    pub fn device(&self) -> Device {
        self.base.flat().device()
    }

    /// The kind of the weights.
    pub fn kind(&self) -> Kind {
        self.base.flat().kind()
    }

    /// Number of weights, without those of an adapter.
    pub fn parameter_count(&self) -> i64 {
        self.base.count()
    }

    /// The model's own weights.
    pub fn base(&self) -> &Parameters {
        &self.base
    }

    /// The parameters that training changes: the adapter's if there is one, otherwise the weights themselves.
    pub fn trained(&self) -> &Parameters {
        match &self.adapter {
            Some(adapter) => adapter.parameters(),
            None => &self.base,
        }
    }

    /// Sets whether gradients are collected in [`Model::trained`].
    pub fn set_trainable(&mut self, trainable: bool) {
        self.trainable = trainable;
        self.base.set_trainable(trainable && self.adapter.is_none());
        if let Some(adapter) = &self.adapter {
            adapter.parameters().set_trainable(trainable);
        }
    }

    pub(crate) fn embedding(&self) -> &Tensor {
        self.base.leaf(0)
    }

    pub(crate) fn block(&self, n: usize) -> Block<'_> {
        let (first, end) = (self.first_slot(n), self.first_slot(n + 1));
        Block {
            norm1: self.base.leaf(first + block::NORM1),
            qkv: self.linear(n, Product::Qkv),
            out: self.linear(n, Product::Out),
            norm2: self.base.leaf(end - block::NORM2),
            gate_up: self.linear(n, Product::GateUp),
            down: self.linear(n, Product::Down),
        }
    }

    fn linear(&self, n: usize, product: Product) -> Linear<'_> {
        let (first, end) = (self.first_slot(n), self.first_slot(n + 1));
        let slot = match product {
            Product::Qkv => first + block::QKV,
            Product::Out => end - block::OUT,
            Product::GateUp => end - block::GATE_UP,
            Product::Down => end - block::DOWN,
        };
        let biased = product == Product::Qkv && self.config.has_bias();
        Linear {
            weight: self.base.leaf(slot),
            bias: biased.then(|| self.base.leaf(first + block::QKV_BIAS)),
            low: self.adapter.as_ref().and_then(|a| a.low_rank(n, product)),
        }
    }

    /// The slots of block `n`.
    pub(crate) fn block_slots(&self, n: usize) -> std::ops::Range<usize> {
        self.first_slot(n)..self.first_slot(n + 1)
    }

    /// Slot at which block `n` begins; the embedding's slot precedes the first block.
    fn first_slot(&self, n: usize) -> usize {
        1 + n * block::len(self.config.has_bias())
    }

    /// The slot of block `n`'s last product.
    pub(crate) fn down_slot(&self, n: usize) -> usize {
        self.first_slot(n + 1) - block::DOWN
    }

    pub(crate) fn blocks(&self) -> usize {
        usize::try_from(self.config.num_hidden_layers).unwrap_or_default()
    }

    /// The slot of the last norm.
    pub(crate) fn last_norm_slot(&self) -> usize {
        self.first_slot(self.blocks())
    }

    pub(crate) fn last_norm(&self) -> &Tensor {
        self.base.leaf(self.last_norm_slot())
    }

    /// The slot of [`Model::head`].
    pub(crate) fn head_slot(&self) -> usize {
        if self.config.tie_word_embeddings {
            0
        } else {
            self.last_norm_slot() + 1
        }
    }

    /// The matrix that scores the vocabulary, [vocabulary, hidden]; the embedding itself if the two are tied.
    ///
    /// # Errors
    /// If the model is a reward model, which has no such matrix.
    pub(crate) fn head(&self) -> Result<&Tensor> {
        if self.config.scalar == Scalar::Score {
            return Err(Error::Input(
                "a reward model cannot give probabilities of tokens".into(),
            ));
        }
        Ok(self.base.leaf(self.head_slot()))
    }

    /// The scalar head, [1, hidden]: the adapter's if one is attached.
    pub(crate) fn scalar(&self) -> Option<&Tensor> {
        match &self.adapter {
            Some(adapter) => adapter.scalar(self.config.scalar),
            None => self.own_scalar(),
        }
    }

    fn own_scalar(&self) -> Option<&Tensor> {
        let last = self.base.slots().len() - 1;
        (self.config.scalar != Scalar::None).then(|| self.base.leaf(last))
    }

    /// Index of the scalar head among the trained leaves.
    pub(crate) fn scalar_slot(&self) -> Option<usize> {
        (self.config.scalar != Scalar::None).then(|| self.trained().slots().len() - 1)
    }
}

/// Standard normal numbers from a seed, independent of libtorch's generators (Box and Muller's method).
pub(crate) struct Normal {
    random: ChaCha8Rng,
    spare: Option<f32>,
}

impl Normal {
    pub fn new(seed: i64) -> Self {
        Normal {
            random: ChaCha8Rng::seed_from_u64(seed.cast_unsigned()),
            spare: None,
        }
    }

    pub fn uniform(&mut self) -> f64 {
        // 53 bits, shifted by half a step to exclude 0.
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
