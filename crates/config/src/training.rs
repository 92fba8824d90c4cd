//! The settings that all trainings have.

use crate::lora::LoraConfig;
use crate::range::{OutOfRange, at_least, bad, positive};

/// The settings that all trainings have; [`GrpoConfig`](crate::GrpoConfig) documents each.
#[derive(Debug, Clone, Copy)]
pub struct Shared<'a> {
    /// Positions that one worker holds activations for at once.
    pub micro_batch_tokens: usize,
    /// Largest norm of a gradient; 0 for no limit.
    pub max_grad_norm: f64,
    /// Decay of matrices, relative to the step size.
    pub weight_decay: f64,
    /// Decay rates of the two moments.
    pub betas: [f64; 2],
    /// Added to the root of the second moment.
    pub eps: f64,
    /// The shape of the adapter that is trained instead of the weights.
    pub lora: Option<&'a LoraConfig>,
    /// True if all weights are trained, whatever the device is.
    pub full: bool,
    /// True if each block is computed again in the backward pass.
    pub activation_checkpointing: bool,
    /// Number of threads that compute gradients.
    pub workers: Option<usize>,
}

/// The settings of one kind of training.
pub trait Training {
    /// The settings that all kinds have.
    fn shared(&self) -> Shared<'_>;
}

impl Shared<'_> {
    /// Checks the ranges of the settings.
    pub fn check(&self) -> Result<(), OutOfRange> {
        at_least("max_grad_norm", self.max_grad_norm, 0.0)?;
        at_least("weight_decay", self.weight_decay, 0.0)?;
        if self.full && self.lora.is_some() {
            return Err(OutOfRange {
                field: "full",
                reason: "trains all weights, and `lora` an adapter instead; leave one of them out"
                    .into(),
            });
        }
        if let Some(lora) = self.lora {
            lora.check().map_err(|why| OutOfRange {
                field: "lora",
                reason: format!("cannot be used: {why}"),
            })?;
        }
        for beta in self.betas {
            if !(0.0..1.0).contains(&beta) {
                return Err(bad("betas", beta, "at least 0 and below 1"));
            }
        }
        if !(self.eps > 0.0 && self.eps.is_finite()) {
            return Err(bad("eps", self.eps, "above 0"));
        }
        positive("micro_batch_tokens", self.micro_batch_tokens as u64)?;
        match self.workers {
            Some(workers) => positive("workers", workers as u64),
            None => Ok(()),
        }
    }
}

/// Declares the settings of a training: its own, each with its default, and those that all trainings share.
macro_rules! settings {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$field_meta:meta])* pub $field:ident: $type:ty = $default:expr,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
            /// Positions (rows × longest row) that one worker holds activations for at once. Default 2048: more costs
            /// memory and gains nothing on a CPU.
            pub micro_batch_tokens: usize,
            /// Scale gradients longer than this down to it; 0 for no limit. Default 1.
            pub max_grad_norm: f64,
            /// Decay of matrices, relative to the step size. Default 0.
            pub weight_decay: f64,
            /// Decay rates of the two moments. Default 0.9 and 0.999.
            pub betas: [f64; 2],
            /// Added to the root of the second moment. Default 1e-8.
            pub eps: f64,
            /// Train a low-rank adapter of this shape instead of the weights. Generators receive only the adapter, and
            /// a frozen reference costs no memory. Default: none on a CPU; on a GPU an adapter of the default shape,
            /// unless `full` is set.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub lora: Option<$crate::lora::LoraConfig>,
            /// Train all weights also on a GPU, where an adapter is trained otherwise. Default false.
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            pub full: bool,
            /// Keep only the inputs of each block and compute the block again in the backward pass: less memory, a
            /// third more work. Default false.
            pub activation_checkpointing: bool,
            /// Number of threads that compute gradients of different rows at once. Default: one for each core for small
            /// models; one in all, which uses all cores, for large models.
            pub workers: Option<usize>,
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($field: $default,)*
                    micro_batch_tokens: 2048,
                    max_grad_norm: 1.0,
                    weight_decay: 0.0,
                    betas: [0.9, 0.999],
                    eps: 1e-8,
                    lora: None,
                    full: false,
                    activation_checkpointing: false,
                    workers: None,
                }
            }
        }

        impl $name {
            /// These settings on a GPU, or without one: on a GPU an adapter is trained unless they say otherwise.
            #[must_use]
            pub fn on(mut self, gpu: bool) -> Self {
                if gpu && !self.full {
                    self.lora.get_or_insert_default();
                }
                self
            }
        }

        impl $crate::training::Training for $name {
            fn shared(&self) -> $crate::training::Shared<'_> {
                $crate::training::Shared {
                    micro_batch_tokens: self.micro_batch_tokens,
                    max_grad_norm: self.max_grad_norm,
                    weight_decay: self.weight_decay,
                    betas: self.betas,
                    eps: self.eps,
                    lora: self.lora.as_ref(),
                    full: self.full,
                    activation_checkpointing: self.activation_checkpointing,
                    workers: self.workers,
                }
            }
        }
    };
}
pub(crate) use settings;
