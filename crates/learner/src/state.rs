//! The tensors of a training's state, as files.

use std::collections::BTreeMap;

use flopsmith_policy::{Model, TensorBytes, dtype_of};
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use tch::{Device, Kind, Tensor};

use crate::adamw::AdamW;
use crate::error::{Doing, Error, Result};

/// The policy's weights, as in a Hugging Face folder.
pub(crate) const MODEL: &str = "model.safetensors";
/// The policy's adapter, if one is trained.
pub(crate) const ADAPTER: &str = "adapter.safetensors";
/// Moments, and master copies of half-precision weights.
pub(crate) const OPTIMIZER: &str = "optimizer.safetensors";
/// The frozen starting policy.
pub(crate) const REFERENCE: &str = "reference.safetensors";
/// The file of a model's trained parameters.
pub(crate) fn trained(model: &Model) -> &'static str {
    match model.adapter() {
        Some(_) => ADAPTER,
        None => MODEL,
    }
}

/// A digest that identifies a model's own weights, since the files do not hold the weights below an adapter. The
/// weights are read in pieces, without a copy of a large model.
pub(crate) fn fingerprint(model: &Model) -> Result<String> {
    const PIECE: i64 = 1 << 22;
    let _guard = tch::no_grad_guard();
    let flat = model.base().flat();
    let count = flat.size().first().copied().unwrap_or_default();
    let mut hasher = blake3::Hasher::new();
    let mut bytes = Vec::new();
    let mut done = 0;
    while done < count {
        let piece = flat
            .f_narrow(0, done, PIECE.min(count - done))
            .and_then(|t| t.f_to_device(Device::Cpu)?.f_contiguous())
            .doing("look at the weights below an adapter")?;
        let width = match piece.kind() {
            Kind::Double => 8,
            Kind::Float => 4,
            _ => 2,
        };
        bytes.resize(piece.numel() * width, 0);
        piece
            .f_copy_data_u8(&mut bytes, piece.numel())
            .doing("look at the weights below an adapter")?;
        hasher.update(&bytes);
        done += PIECE;
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// The file of that name.
pub(crate) fn find<'a>(files: &'a [(String, Vec<u8>)], name: &'static str) -> Result<&'a [u8]> {
    files
        .iter()
        .find(|(n, _)| n == name)
        .map(|(_, bytes)| bytes.as_slice())
        .ok_or_else(|| Error::State {
            file: name,
            reason: "it is missing".into(),
        })
}

/// The optimizer's tensors as safetensors.
pub(crate) fn optimizer_bytes(optimizer: &AdamW) -> Result<Vec<u8>> {
    let mut tensors = Vec::new();
    for (name, tensor) in optimizer.tensors()? {
        let tensor = tensor
            .f_to_device(Device::Cpu)
            .and_then(|t| t.f_contiguous())
            .doing("fetch the optimizer's state")?;
        let shape = tensor.size().iter().map(|n| *n as usize).collect();
        let bytes = TensorBytes::of(&tensor, shape).doing("read the optimizer's state")?;
        tensors.push((name, bytes));
    }
    safetensors::serialize(tensors, None).map_err(|source| Error::Safetensors {
        file: OPTIMIZER,
        source,
    })
}

/// An optimizer file, opened.
pub(crate) struct OptimizerFile<'a> {
    tensors: BTreeMap<String, TensorView<'a>>,
}

impl<'a> OptimizerFile<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let file = SafeTensors::deserialize(bytes).map_err(|source| Error::Safetensors {
            file: OPTIMIZER,
            source,
        })?;
        Ok(OptimizerFile {
            tensors: file.tensors().into_iter().collect(),
        })
    }

    /// Checks that the file has exactly this optimizer's tensors, in their shapes and kind.
    pub fn fits(&self, optimizer: &AdamW) -> Result<()> {
        let wrong = |reason| {
            Err(Error::State {
                file: OPTIMIZER,
                reason,
            })
        };
        let wanted = optimizer.tensors()?;
        let dtype = dtype_of(optimizer.kind());
        for (name, tensor) in &wanted {
            let shape: Vec<usize> = tensor.size().iter().map(|n| *n as usize).collect();
            match self.tensors.get(name) {
                None => return wrong(format!("`{name}` is missing")),
                Some(found) if found.shape() != shape || found.dtype() != dtype => {
                    return wrong(format!(
                        "`{name}` is {:?} {:?} and should be {dtype:?} {shape:?}",
                        found.dtype(),
                        found.shape()
                    ));
                }
                Some(_) => {}
            }
        }
        if self.tensors.len() != wanted.len() {
            return wrong(format!(
                "it has {} tensors instead of {}",
                self.tensors.len(),
                wanted.len()
            ));
        }
        Ok(())
    }

    pub fn copy_into(&self, optimizer: &mut AdamW) -> Result<()> {
        let _guard = tch::no_grad_guard();
        let kind = optimizer.kind();
        for (name, mut place) in optimizer.tensors()? {
            if let Some(found) = self.tensors.get(&name) {
                Tensor::f_from_data_size(found.data(), &place.size(), kind)
                    .and_then(|t| place.f_copy_(&t))
                    .doing("take over the optimizer's state")?;
            }
        }
        Ok(())
    }
}
