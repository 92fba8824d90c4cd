//! The files of a folder that hold a model's weights.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use safetensors::tensor::TensorInfo;
use serde::Deserialize;
use serde_json::Value;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::files;
use crate::quantization::quantization;

/// The weights file of a model with a single file.
pub(crate) const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Bytes of the length of a header, which a safetensors file begins with.
const LENGTH: u64 = 8;
/// The longest header that the format permits, bytes.
const LONGEST_HEADER: u64 = 100_000_000;

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// The weight files of a folder: the single file if it exists, otherwise the shards of the index.
fn names(folder: &Path) -> Result<BTreeSet<String>> {
    let index = folder.join(INDEX);
    let names: BTreeSet<String> = if !folder.join(WEIGHTS).exists() && index.exists() {
        let parsed: Index = files::json(&index)?;
        parsed.weight_map.into_values().collect()
    } else {
        BTreeSet::from([WEIGHTS.to_owned()])
    };
    // Folders come from untrusted sources: an index must not name a file outside its folder.
    if let Some(name) = names
        .iter()
        .find(|n| n.contains('/') || n.contains('\\') || n.as_str() == "..")
    {
        return Err(Error::Input(format!(
            "`{}` names the shard `{name}`, but a shard must be a file of this folder",
            index.display()
        )));
    }
    Ok(names)
}

/// Opens a weight file of a folder. Also returns its path.
fn open(folder: &Path, name: &str, config: &Config) -> Result<(PathBuf, File)> {
    let path = folder.join(name);
    match File::open(&path) {
        Ok(file) => Ok((path, file)),
        Err(source) => {
            let reason = match source.kind() {
                ErrorKind::NotFound => missing(folder, name, config),
                _ => None,
            };
            Err(reason.unwrap_or(Error::Read { path, source }))
        }
    }
}

/// Maps the weight files of a folder.
pub(crate) fn map(folder: &Path, config: &Config) -> Result<Vec<(String, Mmap)>> {
    names(folder)?
        .into_iter()
        .map(|name| {
            let (path, file) = open(folder, &name, config)?;
            let map = mapped(&file).map_err(|source| Error::Read {
                path: path.clone(),
                source,
            })?;
            files::refuse_pointer(&path, &map)?;
            Ok((name, map))
        })
        .collect()
}

/// The names, kinds and shapes of the tensors in a folder's weight files. Reads the headers of the files only, so that
/// the weights themselves may still be missing.
pub(crate) fn headers(folder: &Path, config: &Config) -> Result<BTreeMap<String, TensorInfo>> {
    let mut found = BTreeMap::new();
    for name in names(folder)? {
        let (path, file) = open(folder, &name, config)?;
        let mut head = Vec::new();
        let read = |source| Error::Read {
            path: path.clone(),
            source,
        };
        (&file).take(LENGTH).read_to_end(&mut head).map_err(read)?;
        // A pointer of Git is longer than the length of a header, and its first letters would be an absurd length.
        if head.starts_with(b"version ") {
            let mut pointer = head.clone();
            let mut rest = (&file).take(files::POINTER_BYTES as u64);
            rest.read_to_end(&mut pointer).map_err(read)?;
            files::refuse_pointer(&path, &pointer)?;
        }
        let length = <[u8; 8]>::try_from(head.as_slice()).map(u64::from_le_bytes);
        let length = length.ok().filter(|length| *length <= LONGEST_HEADER);
        let Some(length) = length else {
            return Err(Error::Input(format!(
                "`{}` is no safetensors file: it does not begin with the length of a header",
                path.display()
            )));
        };
        let mut text = Vec::new();
        (&file).take(length).read_to_end(&mut text).map_err(read)?;
        let parsed: BTreeMap<String, Value> =
            serde_json::from_slice(&text).map_err(|source| Error::Json {
                path: path.clone(),
                source,
            })?;
        for (tensor, info) in parsed {
            if tensor == "__metadata__" {
                continue;
            }
            let info = serde_json::from_value(info).map_err(|source| Error::Json {
                path: path.clone(),
                source,
            })?;
            found.insert(tensor, info);
        }
    }
    Ok(found)
}

/// The error for a missing weights file, if the folder shows the reason: quantizers and older programs use other file
/// names.
fn missing(folder: &Path, name: &str, config: &Config) -> Option<Error> {
    let origin = folder.display().to_string();
    if let Some(how) = quantization(config, std::iter::empty()) {
        return Some(Error::Quantized { origin, how });
    }
    if name != WEIGHTS {
        return None;
    }
    let of_weights = |name: &String| {
        let begins = ["pytorch_model", "consolidated"];
        let ends = [".gguf", ".safetensors"];
        !name.starts_with("adapter_")
            && (begins.iter().any(|begin| name.starts_with(begin))
                || ends.iter().any(|end| name.ends_with(end)))
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(of_weights)
        .collect();
    found.sort();
    let other = found.first()?;
    Some(Error::Input(format!(
        "there is no `{name}` in `{origin}`, and `{other}` cannot be read: provide the weights as safetensors files with transformers' names \
         (`model.save_pretrained(folder)` in transformers writes them)"
    )))
}

#[expect(unsafe_code, reason = "a memory map is only as stable as its file")]
fn mapped(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the map is only read, and weights are replaced by renaming (`replace`), never rewritten in place. If
    // another process truncates a model file while it is being opened, the kernel sends this process a bus error, as
    // for every mapped file.
    unsafe { Mmap::map(file) }
}
