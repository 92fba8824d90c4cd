//! Trainings by recipes, on this machine and without a bus: supervised fine-tuning, reward models, direct performance
//! alignment, and reinforcement by performance feedback on exercises.
//!
//! Invariants:
//! - an interrupted training resumes from its newest checkpoint, with the same recipe only;
//! - a trained model is never written over the model that it began with, and is complete before it has its name.

#![cfg(feature = "torch")]

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use flopsmith_config::{Dtype, LoraConfig};
use flopsmith_policy::chat::Message;
use flopsmith_policy::{Adapter, Device, Model, Tokenizer, device};
use flopsmith_problem::prompt::Style;
use flopsmith_protocol::Digest;

use flopsmith_run::console::{say, usage};
use flopsmith_run::farm::Ways;
use flopsmith_run::interrupt::{CancellationToken, Watch};
use flopsmith_run::ticker::Ticker;
use flopsmith_run::{export, paths};
use serde::Serialize;

mod checkpoints;
mod conversation;
mod corpus_best;
mod examples;
mod exercises;
mod fit;
mod nests;
pub mod pairs;
mod reasons;
mod rewards;
pub mod rlpf;
mod skipped;
pub mod starter;
mod validation;

/// The request of a user.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// The recipe.
    pub recipe: &'a Path,
    /// The folder of the model; that of the recipe if there is none.
    pub output: Option<&'a Path>,
    /// True to continue from the newest checkpoint.
    pub resume: bool,
    /// True if programs run even where the jail gives less than its full protection.
    pub allow_weaker_jail: bool,
    /// The cluster whose workers evaluate programs; this machine does if there is none.
    pub farm: Option<&'a Ways>,
    /// True if the report is printed as JSON.
    pub json: bool,
    /// Cancelled once a stop was requested, perhaps before the training listens to signals itself.
    pub stopped: Option<&'a CancellationToken>,
}

impl Order<'_> {
    /// True once a stop was requested: by this watch of the training, or by the caller.
    fn is_stopped(&self, watch: &Watch) -> bool {
        watch.asked().is_cancelled() || self.stopped.is_some_and(CancellationToken::is_cancelled)
    }

    fn output(&self) -> PathBuf {
        let output = self.output.or_else(|| self.recipe.parent());
        output.map(Path::to_owned).unwrap_or_default()
    }
}

/// The report that is written next to a trained model.
const REPORT: &str = "training.json";

/// Reads the text of a recipe.
fn read_recipe(path: &Path) -> Result<String> {
    flopsmith_config::read_text(path)
        .map_err(|e| usage(format!("cannot read the recipe {}: {e}", path.display())))
}

/// True if a recipe has this entry or table.
fn has(recipe: &str, entry: &str) -> bool {
    let table = recipe.parse::<toml::Table>();
    table.is_ok_and(|table| table.contains_key(entry))
}

/// Writes the report of a training next to its model.
fn keep_report(output: &Path, report: &impl Serialize) -> Result<()> {
    std::fs::write(output.join(REPORT), serde_json::to_vec_pretty(report)?)
        .with_context(|| format!("cannot write into {}", output.display()))
}

/// True if a folder holds checkpoints of an unfinished training, which [`Order::resume`] continues.
pub fn is_unfinished(folder: &Path) -> bool {
    checkpoints::are_in(folder)
}

/// Where a model is opened, and in which number format.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placement {
    /// The device.
    pub device: Device,
    /// The format; that of the device if there is none.
    pub dtype: Option<Dtype>,
}

impl Placement {
    /// The place that settings name.
    ///
    /// # Errors
    /// A GPU that the settings name cannot be used.
    pub fn of(device: flopsmith_config::Device, dtype: Option<Dtype>) -> Result<Self> {
        let device = device::usable(device)?;
        Ok(Self { device, dtype })
    }

    /// True on a GPU.
    pub fn has_gpu(self) -> bool {
        self.device.is_cuda()
    }

    /// True if a training of the model in this folder gets an adapter where its settings say nothing of it: on a GPU,
    /// unless the model goes on with an adapter of its own.
    fn adapts(self, folder: &Path) -> bool {
        self.has_gpu() && !Adapter::is_in(folder)
    }

    /// Its format for settings that need a name; `auto` stays open.
    pub fn format(self) -> Dtype {
        self.dtype.unwrap_or_else(|| Dtype::usual(self.has_gpu()))
    }
}

/// Says where and how a model is trained.
fn say_placement(model: &Model, lora: Option<&LoraConfig>) {
    let words = device::words(model.device(), model.kind());
    let own = model.adapter().map(Adapter::config);
    let what = match own.or(lora) {
        Some(lora) => format!("an adapter of rank {}", lora.rank),
        None => "all weights".to_owned(),
    };
    say(&format!("trained {words}: {what}"));
}

/// A model's positions, and the tokens of prompts in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// Positions of the model, for prompt and answer together.
    pub positions: i64,
    /// Tokens of each prompt.
    pub prompts: Vec<usize>,
}

/// Opens a model as a training would, and tells how long these prompts are in it.
///
/// # Errors
/// Wrong usage: the folder has no usable model. Else: memory is short.
pub fn room(folder: &Path, chat: bool, at: Placement, prompts: &[&str]) -> Result<Room> {
    let (model, reader) = open(Path::new(""), folder, chat, at)?;
    let mut tokens = Vec::with_capacity(prompts.len());
    for prompt in prompts {
        tokens.push(reader.prompt(prompt)?.len());
    }
    Ok(Room {
        positions: model.config().max_position_embeddings,
        prompts: tokens,
    })
}

/// A file that a recipe names: relative to the working folder, or else to the recipe's folder.
pub fn beside(recipe: &Path, file: &Path) -> PathBuf {
    let inside = recipe.parent().unwrap_or(Path::new("")).join(file);
    match file.exists() || !inside.exists() {
        true => file.to_owned(),
        false => inside,
    }
}

/// A model's tokenizer and prompt style.
struct Reader {
    tokenizer: Tokenizer,
    style: Style,
    end: u32,
    /// [`base_of`] the model.
    base: PathBuf,
}

/// Refuses an output folder that is the model's own folder. An adapter may be written next to its base weights.
fn apart(recipe: &Path, model: &Path, output: &Path, lora: bool) -> Result<()> {
    let model = paths::model(&beside(recipe, model));
    let (Ok(from), Ok(to)) = (model.canonicalize(), output.canonicalize()) else {
        return Ok(());
    };
    if from != to || lora && !Adapter::is_in(&model) {
        return Ok(());
    }
    Err(usage(format!(
        "{} is the folder of the model that the training starts from, and the trained model would overwrite it; name another folder with --output",
        output.display()
    )))
}

/// Opens a model that a recipe names. If the model has an adapter, the adapter stays separate and is trained.
fn open(recipe: &Path, folder: &Path, chat: bool, at: Placement) -> Result<(Model, Reader)> {
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
    let model = load(&folder, at).map_err(unusable)?;
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

/// Loads a model, and reports the progress if loading takes long.
pub fn load(folder: &Path, at: Placement) -> flopsmith_policy::Result<Model> {
    let Placement { device, dtype } = at;
    let kind = flopsmith_policy::dtype::kind(dtype, folder, device)?;
    let began = Instant::now();
    let mut ticker = Ticker::new(1);
    let mut told = 0;
    let model = Model::load_telling(folder, device, kind, |reading| {
        let seconds = began.elapsed().as_secs();
        // A load of less than a second prints nothing.
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
    /// The token ids of a prompt.
    fn prompt(&self, text: &str) -> Result<Vec<u32>> {
        self.conversation(&[Message::user(text)])
    }

    /// The token ids of a conversation that an answer follows.
    fn conversation(&self, messages: &[Message]) -> Result<Vec<u32>> {
        let chat = self.style == Style::Full;
        Ok(self.tokenizer.encode_messages(messages, chat)?)
    }

    /// The text of these token ids.
    fn text(&self, ids: &[u32]) -> String {
        self.tokenizer.decode(ids).unwrap_or_default()
    }

    /// The token ids of an answer, including the token that ends it.
    fn answer(&self, text: &str) -> Result<Vec<u32>> {
        let mut ids = self.tokenizer.encode(text)?;
        ids.push(self.end);
        Ok(ids)
    }
}

/// Maps invalid settings and inputs to wrong usage.
fn refused(error: flopsmith_learner::Error) -> anyhow::Error {
    match error {
        flopsmith_learner::Error::Setting { .. } | flopsmith_learner::Error::Input(_) => {
            usage(error.to_string())
        }
        other => other.into(),
    }
}

/// Maps a saved state from which the training cannot resume to wrong usage.
fn unrestorable(error: flopsmith_learner::Error) -> anyhow::Error {
    match error {
        flopsmith_learner::Error::State { .. } => usage(format!(
            "{error}: the model or its files have changed since the checkpoint was written; continue with the model and files of the beginning, or start again in another folder"
        )),
        other => other.into(),
    }
}

/// Writes a trained model into its folder, and returns the digest of its weights. For a model with an adapter only the
/// adapter is written, in PEFT's files, which name `base`, the folder of the base model ([`base_of`]); an error if
/// there is no base.
///
/// Files of the other kind are removed first, so that at no time an adapter is next to weights that it does not belong
/// to.
fn save(
    model: &Model,
    tokenizer: &Tokenizer,
    folder: &Path,
    base: Option<&Path>,
) -> Result<Digest> {
    flopsmith_run::output::folder(folder)?;
    let weights = match model.adapter() {
        Some(adapter) => {
            let base = base.context("an adapter is to be saved, and its base model is unknown")?;
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

/// The folder of the base model of an adapter that is trained from the model in this folder.
fn base_of(folder: &Path) -> PathBuf {
    let base = export::base(folder);
    base.canonicalize().unwrap_or(base)
}

/// The configuration of a whole model, and an adapter's files.
const SHAPE: &str = "config.json";
const ADAPTER: [&str; 2] = ["adapter_model.safetensors", "adapter_config.json"];

/// True for a file with weights of a whole model, or a part of them.
fn is_whole(name: &str) -> bool {
    export::is_of_weights(name) && !ADAPTER.contains(&name)
}

/// Removes the files of a folder whose names `of` accepts.
fn forget(folder: &Path, of: impl Fn(&str) -> bool) -> Result<()> {
    let failed = || format!("cannot remove earlier files from {}", folder.display());
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
    fn recipes_with_files_or_nests_are_told_from_those_that_make_their_corpus() {
        assert!(has("model = \"m\"\nexamples = \"a.jsonl\"\n", "examples"));
        let corpus = "problem = \"dgemm\"\n[corpus]\nexamples = 40\n";
        for entry in ["examples", "nests"] {
            assert!(!has(corpus, entry) && !has("not toml =", entry));
        }
    }

    #[test]
    fn outputs_do_not_overwrite_their_inputs() {
        let folder = tempfile::tempdir().unwrap();
        let (recipe, model) = (folder.path().join("r.toml"), folder.path().join("model"));
        let other = folder.path().join("other");
        std::fs::create_dir(&model).unwrap();
        let of = |output: &Path, lora| apart(&recipe, &model, output, lora);
        // The output folder does not exist yet.
        of(&other, false).unwrap();
        std::fs::create_dir(&other).unwrap();
        for output in [model.clone(), other.join("../model")] {
            let error = of(&output, false).unwrap_err().to_string();
            assert!(error.contains("--output"), "{error}");
        }
        of(&other, false).unwrap();
        // An adapter may be written next to its base weights, but not over the adapter that training begins with.
        of(&model, true).unwrap();
        for file in ["adapter_config.json", "adapter_model.safetensors"] {
            std::fs::write(model.join(file), "{}").unwrap();
        }
        of(&model, true).unwrap_err();
    }
}
