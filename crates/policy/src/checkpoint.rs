//! Reading and writing Hugging Face folders: `config.json` and safetensors.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use memmap2::Mmap;
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, View};
use tch::{Device, Kind, Tensor};

use crate::config::{Config, Scalar};
use crate::error::{Doing, Error, Result};
use crate::files;
use crate::layout::{EMBEDDING, HEAD, Layout, VALUE};
use crate::lora::Adapter;
use crate::model::Model;
use crate::origin::Origin;
use crate::parameters::Parameters;
use crate::quantization::quantization;
use crate::shards::{self, WEIGHTS};

impl Model {
    /// Opens a Hugging Face folder: `config.json` with `model.safetensors`, or with the shards that
    /// `model.safetensors.index.json` names; or a PEFT folder of an adapter, with the model that the adapter belongs
    /// to.
    ///
    /// Weights are converted to `kind` on `device`. One error lists every missing, misshapen, unreadable and surplus
    /// tensor. If the configuration ties the head to the embedding and the weights have a different head, the head is
    /// not tied.
    pub fn load(folder: &Path, device: Device, kind: Kind) -> Result<Self> {
        Self::load_telling(folder, device, kind, |_| {})
    }

    /// [`Model::load`], which reports after each tensor how much is read.
    pub fn load_telling(
        folder: &Path,
        device: Device,
        kind: Kind,
        tell: impl FnMut(Reading),
    ) -> Result<Self> {
        let origin = Origin::of(folder)?;
        let mut config = Config::load(&origin.base)?;
        let maps = shards::map(&origin.base, &config)?;
        let tied = config.tie_word_embeddings;
        // Misfits are reported before memory is allocated for the weights.
        let found = fitting(&origin.base, &mut config, &maps)?;
        if tied && !config.tie_word_embeddings {
            tracing::warn!(
                folder = %origin.base.display(),
                "the weights contain a separate head, and the model uses it although config.json ties the head to the embedding: \
                 set `tie_word_embeddings` to false in config.json"
            );
        }
        let mut model = Model::zeros(origin.shape(config)?, device, kind)?;
        fill_telling(model.base(), &found, tell)?;
        if let Some(adapter) = &origin.adapter {
            model.attach(Adapter::load(adapter, model.config(), device, kind)?)?;
        }
        Ok(model)
    }

    /// The shape in which [`Model::load`] would open this folder. Reads `config.json` and the headers of the weights,
    /// and no weight but a head that repeats the embedding.
    ///
    /// # Errors
    /// The errors of `load`.
    pub fn check(folder: &Path) -> Result<Config> {
        let origin = Origin::of(folder)?;
        let mut config = Config::load(&origin.base)?;
        let maps = shards::map(&origin.base, &config)?;
        fitting(&origin.base, &mut config, &maps)?;
        let config = origin.shape(config)?;
        if let Some(adapter) = &origin.adapter {
            // The adapter is loaded whole, since it is small compared with the model.
            Adapter::load(adapter, &config, Device::Cpu, Kind::Float)?;
        }
        Ok(config)
    }

    /// Writes `config.json` and `model.safetensors` so that transformers opens the folder.
    ///
    /// Each file is written under a temporary name in the folder, flushed to the disk and renamed: a reader never sees
    /// half a file.
    ///
    /// # Errors
    /// If the model has an adapter, which would be lost: [`Model::merge`] it, or save it by itself.
    pub fn save(&self, folder: &Path) -> Result<()> {
        if self.adapter().is_some() {
            return Err(Error::Input(
                "a model with an adapter cannot be saved as a whole: merge the adapter first, or save the adapter by itself".into(),
            ));
        }
        std::fs::create_dir_all(folder).map_err(|source| Error::Write {
            path: folder.to_owned(),
            source,
        })?;
        // The value head serves training only; other programs do not know it.
        files::replace(folder, WEIGHTS, &self.own_bytes(|name| name != VALUE)?)?;
        let mut config = self.config.clone();
        let dtype = match self.kind() {
            Kind::BFloat16 => "bfloat16",
            Kind::Half => "float16",
            Kind::Double => "float64",
            _ => "float32",
        };
        // The older and the newer name of the same field.
        for field in ["torch_dtype", "dtype"] {
            config.other.insert(field.into(), dtype.into());
        }
        let text = config.to_json().map_err(|source| Error::Json {
            path: folder.join("config.json"),
            source,
        })?;
        files::replace(folder, "config.json", text.as_bytes())
    }

    /// All weights as safetensors, with Hugging Face's names and shapes; a tied head is not repeated. An adapter's
    /// update is not included.
    pub fn weights_bytes(&self) -> Result<Vec<u8>> {
        self.own_bytes(|_| true)
    }

    /// The trained weights: those of the adapter if there is one, otherwise [`Model::weights_bytes`].
    pub fn trained_bytes(&self) -> Result<Vec<u8>> {
        match self.adapter() {
            Some(adapter) => adapter.bytes(),
            None => self.weights_bytes(),
        }
    }

    /// The trained weights that a sampler needs: as [`Model::trained_bytes`], without the value head, which serves
    /// training only.
    pub fn policy_bytes(&self) -> Result<Vec<u8>> {
        match self.adapter() {
            Some(adapter) => adapter.bytes_of(|name| name != VALUE),
            None => self.own_bytes(|name| name != VALUE),
        }
    }

    fn own_bytes(&self, kept: impl Fn(&str) -> bool) -> Result<Vec<u8>> {
        let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        bytes_of(self.base(), "", metadata, kept)
    }

    /// Takes over weights written by [`Model::weights_bytes`] or [`Model::trained_bytes`], in place: replicas see them
    /// too. An adapter replaces the earlier one, and the weights below it stay.
    ///
    /// If the tensors do not fit, nothing is changed.
    pub fn set_weights(&mut self, bytes: &[u8]) -> Result<()> {
        if Adapter::shape_in(bytes)?.is_some() {
            let adapter = Adapter::from_bytes(bytes, self.config(), self.device(), self.kind())?;
            return self.take_over(adapter);
        }
        let origin = "the new weights";
        let file = SafeTensors::deserialize(bytes).map_err(|source| Error::Safetensors {
            origin: origin.into(),
            source,
        })?;
        let files = [file];
        let found = gather(origin, &files)?;
        if self.config.tie_word_embeddings && has_other_head(&found)? {
            return Err(Error::Input(format!(
                "{HEAD} of {origin} differs from the embedding, but this model has one matrix for both"
            )));
        }
        self.wanted().compare(origin, &found)?;
        fill(self.base(), &found)
    }

    fn wanted(&self) -> Wanted<'_> {
        Wanted {
            layout: &self.base().layout,
            tied: self.config.tie_word_embeddings,
        }
    }
}

/// The tensors of `parameters` whose names are `kept`, as safetensors; `prefix` is put before their names.
pub(crate) fn bytes_of(
    parameters: &Parameters,
    prefix: &str,
    metadata: HashMap<String, String>,
    kept: impl Fn(&str) -> bool,
) -> Result<Vec<u8>> {
    let _guard = tch::no_grad_guard();
    let mut tensors = Vec::with_capacity(parameters.layout.parts.len());
    for part in &parameters.layout.parts {
        if !kept(&part.name) {
            continue;
        }
        let tensor = part.to_file(
            &part
                .view(parameters.leaf(part.slot))?
                .f_to_device(Device::Cpu)
                .doing("fetch a weight")?,
        )?;
        let shape = part
            .shape
            .iter()
            .map(|n| usize::try_from(*n).unwrap_or_default())
            .collect();
        let bytes = TensorBytes::of(&tensor, shape).doing("read a weight")?;
        tensors.push((format!("{prefix}{}", part.name), bytes));
    }
    safetensors::serialize(tensors, Some(metadata)).map_err(|source| Error::Safetensors {
        origin: "the model's weights".into(),
        source,
    })
}

/// Progress of reading a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Bytes of weights read so far, in the files' format.
    pub bytes: u64,
    /// Bytes in total.
    pub of: u64,
}

/// Copies each found tensor into its parameter, converted to the parameter's kind.
pub(crate) fn fill(
    parameters: &Parameters,
    found: &BTreeMap<String, TensorView<'_>>,
) -> Result<()> {
    fill_telling(parameters, found, |_| {})
}

fn fill_telling(
    parameters: &Parameters,
    found: &BTreeMap<String, TensorView<'_>>,
    mut tell: impl FnMut(Reading),
) -> Result<()> {
    let _guard = tch::no_grad_guard();
    let (device, kind) = (parameters.flat().device(), parameters.flat().kind());
    let length = |view: &TensorView<'_>| view.data().len() as u64;
    let parts = parameters.layout.parts.iter();
    let mut reading = Reading {
        bytes: 0,
        of: parts
            .filter_map(|part| found.get(&part.name))
            .map(length)
            .sum(),
    };
    for part in &parameters.layout.parts {
        let Some(view) = found.get(&part.name) else {
            continue;
        };
        let tensor = read(view, &part.shape)?
            .f_to_device(device)
            .and_then(|t| t.f_to_kind(kind))
            .doing("convert a weight")?;
        parameters
            .place(part)?
            .f_copy_(&part.to_memory(&tensor)?)
            .doing("store a weight")?;
        reading.bytes += length(view);
        tell(reading);
    }
    Ok(())
}

/// The tensors of a folder's mapped files, which are exactly those that the configuration asks for. If the files have a
/// head that differs from the embedding, the configuration is untied.
fn fitting<'a>(
    folder: &Path,
    config: &mut Config,
    maps: &'a [(String, Mmap)],
) -> Result<BTreeMap<String, TensorView<'a>>> {
    let origin = folder.display().to_string();
    let files = maps
        .iter()
        .map(|(name, map)| {
            SafeTensors::deserialize(map).map_err(|source| Error::Safetensors {
                origin: folder.join(name).display().to_string(),
                source,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let mut found = gather(&origin, &files)?;
    if config.tie_word_embeddings && config.scalar != Scalar::Score {
        if has_other_head(&found)? {
            config.tie_word_embeddings = false;
        } else if !found.contains_key(EMBEDDING)
            && let Some(both) = found.remove(HEAD)
        {
            // Some files have the shared matrix under the head's name.
            found.insert(EMBEDDING.into(), both);
        }
    }
    let wanted = Wanted {
        layout: &Layout::of(config),
        tied: config.tie_word_embeddings,
    };
    wanted.compare(&origin, &found).map_err(|misfit| {
        match quantization(
            config,
            found
                .iter()
                .map(|(name, view)| (name.as_str(), view.dtype())),
        ) {
            Some(how) => Error::Quantized { origin, how },
            None => misfit,
        }
    })?;
    Ok(found)
}

/// True if there is a head that differs from the embedding.
fn has_other_head(found: &BTreeMap<String, TensorView<'_>>) -> Result<bool> {
    let (Some(head), Some(embedding)) = (found.get(HEAD), found.get(EMBEDDING)) else {
        return Ok(false);
    };
    if head.shape() != embedding.shape() {
        return Ok(true);
    }
    if head.dtype() == embedding.dtype() {
        return Ok(head.data() != embedding.data());
    }
    let shape: Vec<i64> = head.shape().iter().map(|n| *n as i64).collect();
    let [head, embedding] = [head, embedding].map(|view| {
        let tensor = read(view, &shape)?;
        tensor.f_to_kind(Kind::Float).doing("convert a weight")
    });
    let equal = head?.f_equal(&embedding?).doing("compare weights")?;
    Ok(!equal)
}

fn gather<'a>(origin: &str, files: &[SafeTensors<'a>]) -> Result<BTreeMap<String, TensorView<'a>>> {
    let mut found = BTreeMap::new();
    let mut twice = Vec::new();
    for file in files {
        for (name, view) in file.tensors() {
            if found.insert(name.clone(), view).is_some() {
                twice.push(format!("two files contain {name}"));
            }
        }
    }
    if twice.is_empty() {
        Ok(found)
    } else {
        Err(Error::Weights {
            origin: origin.to_owned(),
            problems: twice,
        })
    }
}

/// The tensors that a file has to have.
pub(crate) struct Wanted<'a> {
    pub layout: &'a Layout,
    /// True if the head is the embedding.
    pub tied: bool,
}

impl Wanted<'_> {
    /// Checks that exactly the wanted tensors are there, in the right shapes and in a readable kind.
    pub fn compare(&self, origin: &str, found: &BTreeMap<String, TensorView<'_>>) -> Result<()> {
        let mut problems = Vec::new();
        for part in &self.layout.parts {
            let Some(view) = found.get(&part.name) else {
                problems.push(format!("{} is missing", part.name));
                continue;
            };
            let shape: Vec<i64> = view.shape().iter().map(|n| *n as i64).collect();
            if shape != part.shape {
                problems.push(format!(
                    "{} has shape {shape:?} instead of {:?}",
                    part.name, part.shape
                ));
            }
            if kind_of(view.dtype()).is_none() {
                problems.push(format!(
                    "{} has kind {:?}, which is not supported for weights",
                    part.name,
                    view.dtype()
                ));
            }
        }
        let parts = self.layout.parts.iter();
        let wanted: BTreeSet<&str> = parts.map(|p| p.name.as_str()).collect();
        for name in found.keys() {
            if !wanted.contains(name.as_str()) && !self.is_harmless(name) {
                problems.push(format!("{name} is not part of this model"));
            }
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Error::Weights {
                origin: origin.to_owned(),
                problems,
            })
        }
    }

    /// True for surplus tensors without an effect: older files repeat a tied head and carry the rotary frequencies,
    /// which follow from the configuration; a policy that is trained with a value head is sampled without it.
    fn is_harmless(&self, name: &str) -> bool {
        (self.tied && name == HEAD) || name.ends_with(".rotary_emb.inv_freq") || name == VALUE
    }
}

fn read(view: &TensorView<'_>, shape: &[i64]) -> Result<Tensor> {
    let kind = kind_of(view.dtype()).unwrap_or(Kind::Float);
    Tensor::f_from_data_size(view.data(), shape, kind).doing("read a weight")
}

fn kind_of(dtype: Dtype) -> Option<Kind> {
    match dtype {
        Dtype::F32 => Some(Kind::Float),
        Dtype::BF16 => Some(Kind::BFloat16),
        Dtype::F16 => Some(Kind::Half),
        Dtype::F64 => Some(Kind::Double),
        _ => None,
    }
}

/// The name of a tensor's number format in files.
pub fn dtype_of(kind: Kind) -> Dtype {
    match kind {
        Kind::BFloat16 => Dtype::BF16,
        Kind::Half => Dtype::F16,
        Kind::Double => Dtype::F64,
        _ => Dtype::F32,
    }
}

/// A tensor's bytes, to be written into a file.
pub struct TensorBytes {
    dtype: Dtype,
    shape: Vec<usize>,
    data: Vec<u8>,
}

impl TensorBytes {
    /// Copies a tensor that lies in one piece in the memory of the CPU.
    pub fn of(tensor: &Tensor, shape: Vec<usize>) -> std::result::Result<Self, tch::TchError> {
        let dtype = dtype_of(tensor.kind());
        let mut data = vec![0; tensor.numel() * (dtype.bitsize() / 8)];
        tensor.f_copy_data_u8(&mut data, tensor.numel())?;
        Ok(Self { dtype, shape, data })
    }
}

impl View for TensorBytes {
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
