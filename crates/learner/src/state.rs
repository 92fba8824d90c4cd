//! The files of a learner's state.

use std::borrow::Cow;
use std::collections::BTreeMap;

use flopsmith_policy::Model;
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, View};
use serde::{Deserialize, Serialize};
use tch::{Device, Kind, Tensor};

use crate::adamw::AdamW;
use crate::error::{Doing, Error, Result};

/// The policy's weights, as in a Hugging Face folder.
pub(crate) const MODEL: &str = "model.safetensors";
/// The policy's adapter, if one is trained.
pub(crate) const ADAPTER: &str = "adapter.safetensors";
/// Moments, and master copies of half-precision weights.
pub(crate) const OPTIMIZER: &str = "optimizer.safetensors";
/// [`Counters`].
pub(crate) const COUNTERS: &str = "learner.json";
/// The frozen starting policy.
pub(crate) const REFERENCE: &str = "reference.safetensors";
/// Increases when the meaning of the files changes.
pub(crate) const VERSION: u32 = 1;

/// The part of the state that is not a tensor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counters {
    pub version: u32,
    /// With `steps`, the whole random state: each step draws from a stream of its own.
    pub seed: u64,
    pub steps: u64,
    pub updates: u64,
    /// Factor of the step size if the step size follows the divergence.
    #[serde(default = "one")]
    pub pace: f64,
    /// Factor by which the logits have grown.
    #[serde(default = "one")]
    pub sharpened: f64,
    /// [`fingerprint`] of the weights below an adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

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

fn one() -> f64 {
    1.0
}

impl Counters {
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec_pretty(self).map_err(|source| Error::Json {
            file: COUNTERS,
            source,
        })
    }

    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let counters: Counters = serde_json::from_slice(bytes).map_err(|source| Error::Json {
            file: COUNTERS,
            source,
        })?;
        if counters.version != VERSION {
            return Err(Error::State {
                file: COUNTERS,
                reason: format!(
                    "it has version {}, this build knows {VERSION}",
                    counters.version
                ),
            });
        }
        Ok(counters)
    }
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
        let (dtype, width) = dtype_of(optimizer.kind());
        let tensor = tensor
            .f_to_device(Device::Cpu)
            .and_then(|t| t.f_contiguous())
            .doing("fetch the optimizer's state")?;
        let mut data = vec![0; tensor.numel() * width];
        tensor
            .f_copy_data_u8(&mut data, tensor.numel())
            .doing("read the optimizer's state")?;
        let shape = tensor.size().iter().map(|n| *n as usize).collect();
        tensors.push((name, Owned { dtype, shape, data }));
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
        let (dtype, _) = dtype_of(optimizer.kind());
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

fn dtype_of(kind: Kind) -> (Dtype, usize) {
    if kind == Kind::Double {
        (Dtype::F64, 8)
    } else {
        (Dtype::F32, 4)
    }
}

struct Owned {
    dtype: Dtype,
    shape: Vec<usize>,
    data: Vec<u8>,
}

impl View for Owned {
    fn dtype(&self) -> Dtype {
        self.dtype
    }
    fn shape(&self) -> &[usize] {
        &self.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.data)
    }
    fn data_len(&self) -> usize {
        self.data.len()
    }
}
