//! The trained model as a Hugging Face folder, so that it can be sampled, trained further or opened elsewhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use flopsmith_config::Settings;
use flopsmith_protocol::ModelFile;
use flopsmith_store::{Checkpoints, Store};

use crate::folder::Folder;
use flopsmith_config::read_text;

/// The folder's name inside a run's folder.
pub const MODEL: &str = "model";
const WEIGHTS: &str = "model.safetensors";
/// The files of an adapter, as PEFT names them.
const ADAPTER: &str = "adapter_model.safetensors";
const ADAPTER_CONFIG: &str = "adapter_config.json";
/// The adapter's file name in a learner's checkpoint.
const TRAINED_ADAPTER: &str = "adapter.safetensors";

/// Writes the newest trained weights of a run to `RUN/model`, with all other files of the model that training began
/// with. `None` if nothing was trained.
///
/// # Errors
/// When the store cannot be read or the folder cannot be written.
pub async fn model(folder: &Folder, settings: &Settings, store: Store) -> Result<Option<PathBuf>> {
    if !settings.generator.kind.can_train() {
        return Ok(None);
    }
    let Some(checkpoint) = Checkpoints::new(store, "learner")
        .latest(&folder.id)
        .await?
    else {
        return Ok(None);
    };
    let target = folder.path.join(MODEL);
    let model = &settings.generator.model;
    let written = if checkpoint.names().any(|name| name == TRAINED_ADAPTER) {
        write_adapter(model, &target, &checkpoint.file(TRAINED_ADAPTER).await?)
    } else {
        write(model, &target, &checkpoint.file(WEIGHTS).await?)
    };
    written.with_context(|| format!("cannot write the trained model to {}", target.display()))?;
    Ok(Some(target))
}

/// Writes the weights of an earlier version, as the learner published them, to a folder of their own. The folder appears
/// when it is complete.
///
/// # Errors
/// If a folder cannot be read or written.
pub fn kept(origin: &Path, target: &Path, weights: &[u8]) -> std::io::Result<()> {
    let part = empty_part(target)?;
    if adapter_config(weights).is_ok() {
        write_adapter(origin, &part, weights)?;
    } else {
        write(origin, &part, weights)?;
    }
    std::fs::rename(part, target)
}

/// An empty folder beside this one, in the place of the rest of a crash.
fn empty_part(target: &Path) -> std::io::Result<PathBuf> {
    let part = target.with_extension("part");
    match std::fs::remove_dir_all(&part) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => std::fs::create_dir_all(&part)?,
    }
    Ok(part)
}

/// Writes an adapter, as the learner published it, to a folder that a server loads: PEFT's two files and nothing else. The
/// folder appears when it is complete; one that is there stays, so its name must stand for one content.
///
/// # Errors
/// If these weights are no adapter's, or the folder cannot be written.
pub fn adapter(origin: &Path, target: &Path, weights: &[u8]) -> std::io::Result<()> {
    if target.join(ADAPTER).is_file() {
        return Ok(());
    }
    let part = empty_part(target)?;
    write_lora(origin, &part, weights)?;
    std::fs::rename(part, target)
}

/// Puts a model into the store, for nodes that have no such folder.
///
/// # Errors
/// When the folder cannot be read or the store cannot be written.
pub async fn bundle(model: &Path, store: &Store) -> Result<Vec<ModelFile>> {
    let unreadable = || format!("cannot read the model in {}", model.display());
    // In the store, an adapter shares one folder with the base model that it belongs to; of two files of one name the
    // adapter's is taken.
    let mut paths = BTreeMap::new();
    for folder in [base(model), model.to_owned()] {
        for entry in std::fs::read_dir(folder).with_context(unreadable)? {
            let path = entry.with_context(unreadable)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_file() && (is_of_weights(&name) || is_of_the_model(&name)) {
                paths.insert(name.into_owned(), path);
            }
        }
    }
    let mut files = Vec::new();
    for (name, path) in paths {
        let bytes = std::fs::read(path).with_context(unreadable)?;
        let content = store.put(bytes).await?;
        files.push(ModelFile { name, content });
    }
    Ok(files)
}

/// Writes a model of the store into a folder.
///
/// # Errors
/// If a file is missing or damaged, or has a name that would place it outside the folder.
pub async fn unbundle(files: &[ModelFile], store: &Store, folder: &Path) -> Result<()> {
    for ModelFile { name, content } in files {
        anyhow::ensure!(
            Path::new(name).file_name() == Some(name.as_ref()),
            "`{name}` cannot be the name of a model's file"
        );
        let bytes = store.get(content).await?;
        std::fs::write(folder.join(name), bytes)
            .with_context(|| format!("cannot write the model to {}", folder.display()))?;
    }
    Ok(())
}

/// True if the folder holds a whole model or an adapter.
pub fn is_whole(model: &Path) -> bool {
    model.join(WEIGHTS).is_file() || model.join(ADAPTER).is_file()
}

/// The folder of the base model of an adapter's folder; the folder itself for anything else. Errors of the adapter's
/// files are reported when the model is opened.
pub fn base(model: &Path) -> PathBuf {
    let own = || model.to_owned();
    if model.join("config.json").exists() {
        return own();
    }
    let Ok(text) = read_text(&model.join(ADAPTER_CONFIG)) else {
        return own();
    };
    let file: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let name = file["base_model_name_or_path"].as_str().unwrap_or_default();
    [
        PathBuf::from(name),
        model.join(name),
        model.join("..").join(name),
    ]
    .into_iter()
    .find(|folder| !name.is_empty() && folder.join("config.json").exists())
    .unwrap_or_else(own)
}

/// Writes a folder that PEFT opens, with the tokenizer next to the adapter. The adapter's configuration names the base
/// model.
fn write_adapter(origin: &Path, target: &Path, weights: &[u8]) -> std::io::Result<()> {
    std::fs::create_dir_all(target)?;
    for entry in std::fs::read_dir(origin)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        let text = name.to_string_lossy();
        // With a `config.json` the folder would count as a whole model.
        let describes = [
            "config.json",
            "model.safetensors.index.json",
            ADAPTER_CONFIG,
        ];
        if path.is_file() && is_of_the_model(&text) && !describes.contains(&text.as_ref()) {
            std::fs::copy(&path, target.join(name))?;
        }
    }
    write_lora(origin, target, weights)
}

/// Writes PEFT's two files into a folder. The configuration names the base model of `origin`.
fn write_lora(origin: &Path, target: &Path, weights: &[u8]) -> std::io::Result<()> {
    let mut config = adapter_config(weights)?;
    let base = base(origin);
    let whole = base.canonicalize().unwrap_or(base);
    config["base_model_name_or_path"] = whole.display().to_string().into();
    let text = serde_json::to_string_pretty(&config).map_err(std::io::Error::other)?;
    std::fs::write(target.join(ADAPTER_CONFIG), text + "\n")?;
    place(target, ADAPTER, weights)
}

/// The header of a safetensors file. The file begins with the length of the header in eight bytes, and the header is
/// JSON.
fn header_of(weights: &[u8]) -> std::io::Result<serde_json::Value> {
    let broken = || std::io::Error::other("the checkpoint's weights are no safetensors file");
    let (length, rest) = weights.split_first_chunk().ok_or_else(broken)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| broken())?;
    let header = rest.get(..length).ok_or_else(broken)?;
    serde_json::from_slice(header).map_err(std::io::Error::other)
}

/// The adapter's PEFT configuration, from the metadata of its safetensors file.
fn adapter_config(weights: &[u8]) -> std::io::Result<serde_json::Value> {
    let broken =
        || std::io::Error::other("the checkpoint's adapter contains no PEFT configuration");
    let header = header_of(weights)?;
    let text = header["__metadata__"]["flopsmith.lora"].as_str();
    let shape: serde_json::Value =
        serde_json::from_str(text.ok_or_else(broken)?).map_err(std::io::Error::other)?;
    match shape["peft"].clone() {
        config @ serde_json::Value::Object(_) => Ok(config),
        _ => Err(broken()),
    }
}

/// Writes a whole model. The weights are renamed into place last, so a folder that has them is complete.
fn write(origin: &Path, target: &Path, weights: &[u8]) -> std::io::Result<()> {
    std::fs::create_dir_all(target)?;
    for entry in std::fs::read_dir(origin)? {
        let entry = entry?;
        let name = entry.file_name();
        let text = name.to_string_lossy();
        // Old weights, shards and their index are not copied: the new weights replace them.
        if entry.path().is_file() && !is_of_weights(&text) && is_of_the_model(&text) {
            std::fs::copy(entry.path(), target.join(&name))?;
        }
    }
    describe(&target.join("config.json"), weights)?;
    place(target, WEIGHTS, weights)
}

/// The element type of the weights by transformers' name; a safetensors header names the type of each tensor.
fn dtype_of(header: &serde_json::Value) -> Option<&'static str> {
    let mut tensors = header.as_object()?.iter();
    let (_, first) = tensors.find(|(name, _)| *name != "__metadata__")?;
    match first["dtype"].as_str()? {
        "F32" => Some("float32"),
        "BF16" => Some("bfloat16"),
        "F16" => Some("float16"),
        "F64" => Some("float64"),
        _ => None,
    }
}

/// Corrects `config.json` for the trained weights. The model that training began with may have had a narrower type, and
/// a reader that goes by the old type would round the trained weights. A trained output head is no longer tied to the
/// embedding.
fn describe(config: &Path, weights: &[u8]) -> std::io::Result<()> {
    let Ok(header) = header_of(weights) else {
        return Ok(());
    };
    let Ok(text) = read_text(config) else {
        return Ok(());
    };
    let Ok(serde_json::Value::Object(mut fields)) = serde_json::from_str(&text) else {
        return Ok(());
    };
    // The old and the new name of the same field.
    for name in ["torch_dtype", "dtype"] {
        if let (Some(dtype), Some(field)) = (dtype_of(&header), fields.get_mut(name)) {
            *field = dtype.into();
        }
    }
    if let (true, Some(tied)) = (
        header.get("lm_head.weight").is_some(),
        fields.get_mut("tie_word_embeddings"),
    ) {
        *tied = false.into();
    }
    let text = serde_json::to_string_pretty(&fields).map_err(std::io::Error::other)?;
    std::fs::write(config, text + "\n")
}

fn place(target: &Path, name: &str, weights: &[u8]) -> std::io::Result<()> {
    let part = target.join(format!("{name}.part"));
    std::fs::write(&part, weights)?;
    std::fs::File::open(&part)?.sync_all()?;
    std::fs::rename(part, target.join(name))
}

/// True for weights, their shards and the shards' index.
pub fn is_of_weights(name: &str) -> bool {
    name.contains(".safetensors") || name.ends_with(".bin")
}

/// True for the files that describe the model. `evaluation.json` is left out, since it is about the model before
/// training. `corpus_best.c` is kept: it still is the fastest program tried of the starter's corpus.
fn is_of_the_model(name: &str) -> bool {
    let kind = Path::new(name).extension().and_then(|e| e.to_str());
    matches!(kind, Some("json" | "txt" | "model" | "jinja")) && name != "evaluation.json"
        || name == "corpus_best.c"
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_model_goes_through_the_store_and_no_name_leads_elsewhere() {
        let place = tempfile::tempdir().unwrap();
        let [origin, copy] = ["origin", "copy"].map(|name| place.path().join(name));
        for folder in [&origin, &copy] {
            std::fs::create_dir(folder).unwrap();
        }
        let of_it = ["config.json", "model.safetensors", "tokenizer.json"];
        for name in of_it.into_iter().chain(["recipe.toml"]) {
            std::fs::write(origin.join(name), format!("the bytes of {name}")).unwrap();
        }
        let store = Store::open(place.path().join("store").to_str().unwrap()).unwrap();
        let mut files = bundle(&origin, &store).await.unwrap();
        unbundle(&files, &store, &copy).await.unwrap();
        let mut names: Vec<String> = std::fs::read_dir(&copy)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, of_it);
        let read = |folder: &Path, name: &str| std::fs::read(folder.join(name)).unwrap();
        for name in of_it {
            assert_eq!(read(&copy, name), read(&origin, name), "{name}");
        }
        for name in ["../config.json", "/etc/passwd", "a/b", "..", ""] {
            files[0].name = name.into();
            let refused = unbundle(&files, &store, &copy).await.unwrap_err();
            assert!(
                refused.to_string().contains("cannot be the name"),
                "{name}: {refused:#}"
            );
        }
    }

    /// A safetensors file without tensors whose metadata describe an adapter.
    fn adapter() -> Vec<u8> {
        let peft =
            serde_json::json!({ "peft_type": "LORA", "r": 4, "base_model_name_or_path": "" });
        let shape = serde_json::json!({ "lora": { "rank": 4 }, "peft": peft }).to_string();
        safetensors(&serde_json::json!({ "__metadata__": { "flopsmith.lora": shape } }).to_string())
    }

    /// A safetensors file with this header and no data.
    fn safetensors(header: &str) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes
    }

    #[test]
    fn a_server_gets_the_adapter_alone_once() {
        let place = tempfile::tempdir().unwrap();
        let origin = place.path().join("origin");
        std::fs::create_dir(&origin).unwrap();
        for name in ["config.json", "tokenizer.json"] {
            std::fs::write(origin.join(name), "{}").unwrap();
        }
        let target = place.path().join("adapters").join("run-v1-0123abcd");
        std::fs::create_dir_all(target.with_extension("part")).unwrap();
        super::adapter(&origin, &target, &adapter()).unwrap();
        let mut names: Vec<String> = std::fs::read_dir(&target)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, [ADAPTER_CONFIG, ADAPTER]);
        let text = std::fs::read_to_string(target.join(ADAPTER_CONFIG)).unwrap();
        let base = origin.canonicalize().unwrap();
        assert!(text.contains(base.to_str().unwrap()), "{text}");
        super::adapter(&origin, &target, &adapter()).unwrap();
        let whole = super::adapter(&origin, &place.path().join("whole"), b"no adapter");
        assert!(whole.is_err());
        assert!(!place.path().join("whole").exists());
    }

    #[test]
    fn an_earlier_version_is_kept_as_what_it_is_and_over_the_rest_of_a_crash() {
        let place = tempfile::tempdir().unwrap();
        let origin = place.path().join("origin");
        std::fs::create_dir(&origin).unwrap();
        for name in ["config.json", "tokenizer.json"] {
            std::fs::write(origin.join(name), "{}").unwrap();
        }
        let tensor = serde_json::json!({"dtype": "F32", "shape": [0], "data_offsets": [0, 0]});
        let whole = safetensors(&serde_json::json!({ "model.norm.weight": tensor }).to_string());
        for (name, weights, file, other) in [
            ("version-000002", adapter(), ADAPTER, WEIGHTS),
            ("version-000004", whole, WEIGHTS, ADAPTER),
        ] {
            let target = place.path().join("checkpoints").join(name);
            let part = target.with_extension("part");
            std::fs::create_dir_all(&part).unwrap();
            std::fs::write(part.join(other), "the rest of a crash").unwrap();
            kept(&origin, &target, &weights).unwrap();
            assert_eq!(std::fs::read(target.join(file)).unwrap(), weights);
            assert!(target.join("tokenizer.json").is_file() && !target.join(other).exists());
            assert!(is_whole(&target) && !part.exists());
        }
    }

    #[test]
    fn the_configuration_says_what_the_new_weights_are_held_in() {
        let place = tempfile::tempdir().unwrap();
        let [origin, target] = ["origin", "model"].map(|name| place.path().join(name));
        std::fs::create_dir(&origin).unwrap();
        let config = r#"{ "model_type": "qwen2", "torch_dtype": "bfloat16" }"#;
        std::fs::write(origin.join("config.json"), config).unwrap();
        let header = r#"{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}"#;
        write(&origin, &target, &safetensors(header)).unwrap();
        let text = std::fs::read_to_string(target.join("config.json")).unwrap();
        let written: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(written["torch_dtype"], "float32");
        assert_eq!(written["model_type"], "qwen2");
        assert!(written.get("dtype").is_none());
    }

    #[test]
    fn a_head_that_was_trained_is_not_said_to_be_tied() {
        for (head, tied) in [("lm_head.weight", false), ("model.norm.weight", true)] {
            let place = tempfile::tempdir().unwrap();
            let [origin, target] = ["origin", "model"].map(|name| place.path().join(name));
            std::fs::create_dir(&origin).unwrap();
            let config = "\u{feff}{ \"tie_word_embeddings\": true }";
            std::fs::write(origin.join("config.json"), config).unwrap();
            let tensor = serde_json::json!({"dtype": "F32", "shape": [0], "data_offsets": [0, 0]});
            let weights = safetensors(&serde_json::json!({ head: tensor }).to_string());
            write(&origin, &target, &weights).unwrap();
            let text = std::fs::read_to_string(target.join("config.json")).unwrap();
            let written: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(written["tie_word_embeddings"], tied, "{head}");
        }
    }

    #[tokio::test]
    async fn an_adapter_gets_a_folder_of_its_own_that_names_its_model() {
        let place = tempfile::tempdir().unwrap();
        let [origin, target] = ["origin", "model"].map(|name| place.path().join(name));
        std::fs::create_dir(&origin).unwrap();
        for name in ["config.json", "tokenizer.json", "model.safetensors"] {
            std::fs::write(origin.join(name), name).unwrap();
        }
        write_adapter(&origin, &target, &adapter()).unwrap();
        let text = std::fs::read_to_string(target.join(ADAPTER_CONFIG)).unwrap();
        let config: serde_json::Value = serde_json::from_str(&text).unwrap();
        let named = Path::new(config["base_model_name_or_path"].as_str().unwrap());
        assert_eq!(named, origin.canonicalize().unwrap());
        assert_eq!(config["r"], 4);
        assert!(is_whole(&target));
        assert!(target.join("tokenizer.json").exists());
        assert!(!target.join("config.json").exists());
        assert!(!target.join("model.safetensors").exists());
        // After further training the adapter still names the base model, and not the earlier adapter.
        let later = place.path().join("later");
        write_adapter(&target, &later, &adapter()).unwrap();
        let text = std::fs::read_to_string(later.join(ADAPTER_CONFIG)).unwrap();
        let config: serde_json::Value = serde_json::from_str(&text).unwrap();
        let named = Path::new(config["base_model_name_or_path"].as_str().unwrap());
        assert_eq!(named, origin.canonicalize().unwrap());
        // A node of a cluster gets base model and adapter in one folder.
        let store = Store::open(place.path().join("store").to_str().unwrap()).unwrap();
        let files = bundle(&target, &store).await.unwrap();
        let names: Vec<&str> = files.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "adapter_config.json",
                "adapter_model.safetensors",
                "config.json",
                "model.safetensors",
                "tokenizer.json"
            ]
        );
        for broken in [&b"short"[..], &[255; 40], b"\x02\0\0\0\0\0\0\0{}"] {
            assert!(write_adapter(&origin, &target, broken).is_err());
        }
    }

    #[test]
    fn the_folder_gets_new_weights_and_what_else_a_model_needs() {
        let place = tempfile::tempdir().unwrap();
        let (origin, target) = (place.path().join("origin"), place.path().join("model"));
        std::fs::create_dir(&origin).unwrap();
        for name in [
            "config.json",
            "tokenizer.json",
            "chat_template.jinja",
            "corpus_best.c",
            "recipe.toml",
            "model.safetensors",
            "model-00001-of-00002.safetensors",
            "model.safetensors.index.json",
        ] {
            std::fs::write(origin.join(name), name).unwrap();
        }
        assert!(!is_whole(&target));
        // The export runs twice, as after a run that was stopped and resumed.
        write(&origin, &target, b"first").unwrap();
        write(&origin, &target, b"weights").unwrap();
        assert!(is_whole(&target));
        let mut names: Vec<String> = std::fs::read_dir(&target)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let expected = [
            "chat_template.jinja",
            "config.json",
            "corpus_best.c",
            "model.safetensors",
            "tokenizer.json",
        ];
        assert_eq!(names, expected);
        assert_eq!(std::fs::read(target.join(WEIGHTS)).unwrap(), b"weights");
    }
}
