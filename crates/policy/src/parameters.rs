//! Named tensors that are views into one flat vector.

use std::sync::Arc;

use tch::{Device, Kind, Tensor};

use crate::error::{Doing, Result};
use crate::layout::{Layout, Part, Slot};

/// Named tensors that are views into one flat vector: a model's own weights, or those of an adapter.
///
/// Only one thread uses them at a time, like every libtorch tensor.
#[derive(Debug)]
pub struct Parameters {
    pub(crate) layout: Arc<Layout>,
    flat: Tensor,
    leaves: Vec<(String, Tensor)>,
}

impl Parameters {
    /// All zero; loading overwrites the numbers.
    pub(crate) fn zeros(layout: Layout, device: Device, kind: Kind) -> Result<Self> {
        let flat = Tensor::f_zeros([layout.total], (kind, device)).doing("allocate the weights")?;
        Self::over(Arc::new(layout), flat)
    }

    fn over(layout: Arc<Layout>, flat: Tensor) -> Result<Self> {
        let leaves = leaves(&layout, &flat)?;
        Ok(Parameters {
            layout,
            flat,
            leaves,
        })
    }

    /// The same numbers with separate leaves: gradients are not shared.
    pub(crate) fn replica(&self) -> Result<Self> {
        Self::over(Arc::clone(&self.layout), self.flat.shallow_clone())
    }

    /// A copy of the numbers.
    pub(crate) fn copy(&self) -> Result<Self> {
        let _guard = tch::no_grad_guard();
        let flat = self.flat.f_detach_copy().doing("copy the weights")?;
        Self::over(Arc::clone(&self.layout), flat)
    }

    /// The tensors, each with its name. They are leaves that collect gradients while they are trained.
    ///
    /// Query, key and value are fused (`….self_attn.qkv_proj.weight`, `….qkv_proj.bias`), as are gate
    /// and up (`….mlp.gate_up_proj.weight`); all others have Hugging Face's names and shapes. Rows of
    /// query and key heads are stored in rotary pairs (see [`crate::layout`]).
    pub fn leaves(&self) -> &[(String, Tensor)] {
        &self.leaves
    }

    /// Name, shape and place in [`Parameters::flat`] of every tensor, in the order of [`Parameters::leaves`].
    pub fn slots(&self) -> &[Slot] {
        &self.layout.slots
    }

    /// All numbers as one vector, with a few zeros between slots for alignment.
    ///
    /// Changing the vector in place (under [`tch::no_grad_guard`]) changes the tensors. The vector itself never
    /// requires a gradient.
    pub fn flat(&self) -> &Tensor {
        &self.flat
    }

    /// Number of elements, without those for alignment.
    pub fn count(&self) -> i64 {
        self.layout.parameters()
    }

    /// Views of a flat vector of the same length, with the shapes and places of the leaves.
    pub fn views_of(&self, flat: &Tensor) -> Result<Vec<Tensor>> {
        self.layout.slots.iter().map(|s| view(flat, s)).collect()
    }

    pub(crate) fn leaf(&self, slot: usize) -> &Tensor {
        &self.leaves[slot].1
    }

    pub(crate) fn set_trainable(&self, trainable: bool) {
        for (_, leaf) in &self.leaves {
            let _same = leaf.set_requires_grad(trainable);
        }
    }

    /// The part of the flat vector that holds `part`.
    pub(crate) fn place(&self, part: &Part) -> Result<Tensor> {
        part.view(&view(&self.flat, &self.layout.slots[part.slot])?)
    }
}

fn view(flat: &Tensor, slot: &Slot) -> Result<Tensor> {
    flat.f_narrow(0, slot.offset, slot.len())
        .and_then(|t| t.f_view(slot.shape.as_slice()))
        .doing("view a weight in the flat buffer")
}

/// Views of `flat` in the shapes of the layout, detached from `flat` for autograd.
fn leaves(layout: &Layout, flat: &Tensor) -> Result<Vec<(String, Tensor)>> {
    layout
        .slots
        .iter()
        .map(|slot| {
            let leaf = view(flat, slot)?
                .f_detach()
                .doing("view a weight in the flat buffer")?;
            Ok((slot.name.clone(), leaf))
        })
        .collect()
}
