//! The files of a folder that hold a model's weights.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use memmap2::Mmap;
use serde::Deserialize;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::files;
use crate::quantization::quantization;

/// The weights file of a model with a single file.
pub(crate) const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// Maps the weight files of a folder: the single file if it exists, otherwise the shards of the index.
pub(crate) fn map(folder: &Path, config: &Config) -> Result<Vec<(String, Mmap)>> {
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
    names
        .into_iter()
        .map(|name| {
            let path = folder.join(&name);
            let read = |source| Error::Read {
                path: path.clone(),
                source,
            };
            let file = File::open(&path).map_err(|source| match source.kind() {
                ErrorKind::NotFound => {
                    missing(folder, &name, config).unwrap_or_else(|| read(source))
                }
                _ => read(source),
            })?;
            let map = mapped(&file).map_err(read)?;
            files::refuse_pointer(&path, &map)?;
            Ok((name, map))
        })
        .collect()
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
