//! Training on files of examples, pairs and exercises: what `sft` with files, `reward-model`, `dpa` and `rlpf` have in common.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use flopsmith_policy::chat::Message;
use flopsmith_policy::{Adapter, Device, Dtype, Model, Tokenizer};
use flopsmith_problem::prompt::Style;
use flopsmith_protocol::Digest;

use flopsmith_run::console::usage;
use flopsmith_run::ticker::Ticker;
use flopsmith_run::{config, export, paths};

mod checkpoints;
mod conversation;
pub mod examples;
pub mod pairs;
mod rewards;
pub mod rlpf;
pub mod skipped;

/// What is written beside a model that was made here.
const REPORT: &str = "training.json";

/// A recipe's text.
pub fn read_recipe(path: &Path) -> Result<String> {
    config::read_text(path)
        .map_err(|e| usage(format!("cannot read the recipe {}: {e}", path.display())))
}

/// A file that a recipe names: as it stands, or in the recipe's folder.
fn beside(recipe: &Path, file: &Path) -> PathBuf {
    let inside = recipe.parent().unwrap_or(Path::new("")).join(file);
    match file.exists() || !inside.exists() {
        true => file.to_owned(),
        false => inside,
    }
}

/// A model and how it reads and writes.
struct Reader {
    tokenizer: Tokenizer,
    style: Style,
    end: u32,
    /// [`base_of`] the model.
    base: PathBuf,
}

/// Refuses to write what is made over what it is made from. An adapter may lie beside the weights it belongs to.
fn apart(recipe: &Path, model: &Path, output: &Path, lora: bool) -> Result<()> {
    let model = paths::model(&beside(recipe, model));
    let (Ok(from), Ok(to)) = (model.canonicalize(), output.canonicalize()) else {
        return Ok(());
    };
    if from != to || lora && !Adapter::is_in(&model) {
        return Ok(());
    }
    Err(usage(format!(
        "{} is the model to begin with, and what is made of it would be written over it: name another folder with --output",
        output.display()
    )))
}

/// Opens a model that a recipe names, in these numbers. An adapter of its own stays on it: that is what is trained then.
fn open(recipe: &Path, folder: &Path, chat: bool, dtype: Dtype) -> Result<(Model, Reader)> {
    let folder = paths::model(&beside(recipe, folder));
    let unusable = |e: flopsmith_policy::Error| {
        let words = format!(
            "the model in {} cannot be used: {}",
            folder.display(),
            flopsmith_actors::supervisor::words(&e)
        );
        match e.is_out_of_memory() {
            true => anyhow::Error::msg(words),
            false => usage(words),
        }
    };
    let model = load(&folder, dtype).map_err(unusable)?;
    let tokenizer =
        flopsmith_policy::fitting_tokenizer(&folder, model.config()).map_err(unusable)?;
    let end = *tokenizer
        .eos()
        .first()
        .with_context(|| format!("the tokenizer in {} has no end token", folder.display()))?;
    let style = match chat {
        true => Style::Full,
        false => Style::Compact,
    };
    Ok((
        model,
        Reader {
            tokenizer,
            style,
            end,
            base: base_of(&folder),
        },
    ))
}

/// Reads a model onto the device that there is, and says how far it is where that takes long.
pub fn load(folder: &Path, dtype: Dtype) -> flopsmith_policy::Result<Model> {
    let device = Device::cuda_if_available();
    let kind = dtype.kind(folder, device)?;
    let began = Instant::now();
    let mut ticker = Ticker::new(1);
    let mut told = 0;
    let model = Model::load_telling(folder, device, kind, |reading| {
        let seconds = began.elapsed().as_secs();
        // What is there at once needs no words.
        if seconds > told {
            told = seconds;
            ticker.tick(reading.bytes, reading.of, || {
                let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
                let (read, of) = (gib(reading.bytes), gib(reading.of));
                format!("reading the model: {read:.1} of {of:.1} GiB")
            });
        }
    });
    ticker.end();
    model
}

impl Reader {
    /// The ids of a prompt.
    fn prompt(&self, text: &str) -> Result<Vec<u32>> {
        let ids = super::model::encode(&self.tokenizer, text.to_owned(), self.style)?;
        Ok(ids)
    }

    /// The ids of a conversation that an answer follows: by the chat template where prompts are messages and there is one, otherwise one text
    /// after the other, each on lines of its own.
    fn conversation(&self, messages: &[Message]) -> Result<Vec<u32>> {
        if self.style == Style::Full && self.tokenizer.has_chat_template() {
            return Ok(self.tokenizer.encode_chat(messages)?);
        }
        let mut text = String::new();
        for message in messages {
            text.push_str(&message.content);
            if !text.ends_with('\n') {
                text.push('\n');
            }
        }
        Ok(self.tokenizer.encode_prompt(&text)?)
    }

    /// What these ids say.
    fn text(&self, ids: &[u32]) -> String {
        self.tokenizer.decode(ids).unwrap_or_default()
    }

    /// The ids of an answer, with the token that ends it.
    fn answer(&self, text: &str) -> Result<Vec<u32>> {
        let mut ids = self.tokenizer.encode(text)?;
        ids.push(self.end);
        Ok(ids)
    }
}

/// Settings and inputs that make no sense are wrong usage.
fn refused(error: flopsmith_learner::Error) -> anyhow::Error {
    match error {
        flopsmith_learner::Error::Setting { .. } | flopsmith_learner::Error::Input(_) => {
            usage(error.to_string())
        }
        other => other.into(),
    }
}

/// What was saved of a training that cannot be gone on with.
fn unrestorable(error: flopsmith_learner::Error) -> anyhow::Error {
    match error {
        flopsmith_learner::Error::State { .. } => usage(format!(
            "{error}: the model or its files have changed since; go on with what it was begun with, or begin anew in another folder"
        )),
        other => other.into(),
    }
}

/// Writes a model that was made into its folder; gives the digest of its weights. Of a model with an adapter that is the adapter alone, in
/// PEFT's files, which name `base`, the folder of the model it belongs to ([`base_of`]); an error where there is none.
///
/// What lies there of another kind goes first: whenever the process ends, no adapter lies beside weights that it does not belong to.
pub fn save(
    model: &Model,
    tokenizer: &Tokenizer,
    folder: &Path,
    base: Option<&Path>,
) -> Result<Digest> {
    flopsmith_run::output::folder(folder)?;
    let weights = match model.adapter() {
        Some(adapter) => {
            let base =
                base.context("an adapter is saved, and nobody has the weights it belongs to")?;
            if folder.canonicalize().ok().as_deref() != Some(base) {
                forget(folder, |name| name == SHAPE || is_whole(name))?;
            }
            adapter.save(folder, &base.display().to_string())?;
            ADAPTER[0]
        }
        None => {
            forget(folder, |name| ADAPTER.contains(&name))?;
            model.save(folder)?;
            "model.safetensors"
        }
    };
    tokenizer.save(folder)?;
    let weights = folder.join(weights);
    let bytes =
        std::fs::read(&weights).with_context(|| format!("cannot read {}", weights.display()))?;
    Ok(Digest::of(&bytes))
}

/// Where the model lies that an adapter made from what is in this folder belongs to.
pub fn base_of(folder: &Path) -> PathBuf {
    let base = export::base(folder);
    base.canonicalize().unwrap_or(base)
}

/// The shape of a whole model, and an adapter's files.
const SHAPE: &str = "config.json";
const ADAPTER: [&str; 2] = ["adapter_model.safetensors", "adapter_config.json"];

/// Is this a file of a whole model's weights, all of them or a part?
fn is_whole(name: &str) -> bool {
    export::is_of_weights(name) && !ADAPTER.contains(&name)
}

/// Removes files of a folder by their names.
pub fn forget(folder: &Path, of: impl Fn(&str) -> bool) -> Result<()> {
    let failed = || format!("cannot tidy up {}", folder.display());
    for entry in std::fs::read_dir(folder).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        let path = entry.path();
        if path.is_file() && of(&entry.file_name().to_string_lossy()) {
            std::fs::remove_file(&path)
                .with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_not_written_over_what_it_is_made_from() {
        let folder = tempfile::tempdir().unwrap();
        let (recipe, model) = (folder.path().join("r.toml"), folder.path().join("model"));
        let other = folder.path().join("other");
        std::fs::create_dir(&model).unwrap();
        let of = |output: &Path, lora| apart(&recipe, &model, output, lora);
        // Nothing is there yet.
        of(&other, false).unwrap();
        std::fs::create_dir(&other).unwrap();
        for output in [model.clone(), other.join("../model")] {
            let error = of(&output, false).unwrap_err().to_string();
            assert!(error.contains("--output"), "{error}");
        }
        of(&other, false).unwrap();
        // An adapter beside its weights, but not over the adapter that it goes on from.
        of(&model, true).unwrap();
        for file in ["adapter_config.json", "adapter_model.safetensors"] {
            std::fs::write(model.join(file), "{}").unwrap();
        }
        of(&model, true).unwrap_err();
    }
}
