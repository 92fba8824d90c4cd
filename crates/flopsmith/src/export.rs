//! The trained model as a Hugging Face folder, so that it can be sampled, trained further or opened elsewhere.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use flopsmith_actors::settings::{GeneratorKind, Settings};
use flopsmith_protocol::ModelFile;
use flopsmith_store::{Checkpoints, Store};

use crate::folder::Folder;

/// The folder's name inside a run's folder.
pub const MODEL: &str = "model";
const WEIGHTS: &str = "model.safetensors";

/// Writes the newest trained weights of a run, with everything else of the model it began with, to `RUN/model`.
/// None where nothing was trained.
///
/// # Errors
/// When the store cannot be read or the folder cannot be written.
pub async fn model(folder: &Folder, settings: &Settings, store: Store) -> Result<Option<PathBuf>> {
    if settings.generator.kind != GeneratorKind::Policy {
        return Ok(None);
    }
    let Some(checkpoint) = Checkpoints::new(store, "learner")
        .latest(&folder.id)
        .await?
    else {
        return Ok(None);
    };
    let weights = checkpoint.file(WEIGHTS).await?;
    let target = folder.path.join(MODEL);
    write(&settings.generator.model, &target, &weights)
        .with_context(|| format!("cannot write the trained model to {}", target.display()))?;
    Ok(Some(target))
}

/// Puts a model into the store, for nodes that have no such folder.
///
/// # Errors
/// When the folder cannot be read or the store cannot be written.
pub async fn bundle(model: &Path, store: &Store) -> Result<Vec<ModelFile>> {
    let unreadable = || format!("cannot read the model in {}", model.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(model).with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_file() && (is_of_weights(&name) || is_of_the_model(&name)) {
            let bytes = std::fs::read(entry.path()).with_context(unreadable)?;
            let content = store.put(bytes).await?;
            files.push(ModelFile { name, content });
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

/// Writes a model of the store into a folder.
///
/// # Errors
/// When a file is missing or damaged, or has a name that would lie elsewhere.
pub async fn unbundle(files: &[ModelFile], store: &Store, folder: &Path) -> Result<()> {
    for ModelFile { name, content } in files {
        anyhow::ensure!(
            Path::new(name).file_name() == Some(name.as_ref()),
            "`{name}` is no name of a model's file"
        );
        let bytes = store.get(content).await?;
        std::fs::write(folder.join(name), bytes)
            .with_context(|| format!("cannot write the model to {}", folder.display()))?;
    }
    Ok(())
}

/// Is there a whole model in this folder?
pub fn is_whole(model: &Path) -> bool {
    model.join(WEIGHTS).is_file()
}

/// The weights are renamed into their place last: a folder that has them is whole.
fn write(origin: &Path, target: &Path, weights: &[u8]) -> std::io::Result<()> {
    std::fs::create_dir_all(target)?;
    for entry in std::fs::read_dir(origin)? {
        let entry = entry?;
        let name = entry.file_name();
        let text = name.to_string_lossy();
        // Shards and their index are what the new weights replace.
        if entry.path().is_file() && !is_of_weights(&text) && is_of_the_model(&text) {
            std::fs::copy(entry.path(), target.join(&name))?;
        }
    }
    let part = target.join("model.safetensors.part");
    std::fs::write(&part, weights)?;
    std::fs::File::open(&part)?.sync_all()?;
    std::fs::rename(part, target.join(WEIGHTS))
}

/// Weights, their shards, and what says which is where.
fn is_of_weights(name: &str) -> bool {
    name.contains(".safetensors") || name.ends_with(".bin")
}

/// What describes the model; not how it was made, which is no longer true of it. The fastest program tried of the starter's
/// corpus still is that.
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
                refused.to_string().contains("no name"),
                "{name}: {refused:#}"
            );
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
        // Twice, as after a run that was stopped and resumed.
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
