//! Downloaded model folders: with fields that do not matter, own heads, quantized weights, pointers, byte-order marks.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::path::Path;

use flopsmith_policy::chat::Message;
use flopsmith_policy::{
    Adapter, Config, Device, Error, Kind, LoraConfig, Model, Tokenizer, check, inspect, train_bpe,
};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};

mod fields;
mod heads;
mod refused;
mod texts;

const EMBEDDING: &str = "model.embed_tokens.weight";
const HEAD: &str = "lm_head.weight";
const WEIGHTS: &str = "model.safetensors";

type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

fn config() -> Config {
    Config::new(300, 16, 24, 2, 4, 2)
}

/// A whole model, with a tokenizer that has a chat template.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let model = Model::random(config(), 1, Device::Cpu, Kind::Float).unwrap();
    model.save(folder.path()).unwrap();
    let texts = ["for (int i = 0; i < n; i++) { a[i] += b[i]; }".to_owned()];
    let tokenizer = train_bpe(&texts, 300, &["<|end|>", "<|task|>"]).unwrap();
    tokenizer.save(folder.path()).unwrap();
    std::fs::write(
        folder.path().join("chat_template.jinja"),
        "{{ messages[0].content }}{{ eos_token }}",
    )
    .unwrap();
    folder
}

fn load(folder: &Path) -> Result<Model, Error> {
    Model::load(folder, Device::Cpu, Kind::Float)
}

fn edit(folder: &Path, file: &str, change: impl FnOnce(&mut Value)) {
    let path = folder.join(file);
    let mut value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut value);
    std::fs::write(&path, value.to_string()).unwrap();
}

fn rewrite(folder: &Path, change: impl FnOnce(&mut Tensors)) {
    let bytes = std::fs::read(folder.join(WEIGHTS)).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors = file
        .tensors()
        .into_iter()
        .map(|(n, v)| (n, (v.dtype(), v.shape().to_vec(), v.data().to_vec())))
        .collect();
    change(&mut tensors);
    let views = tensors
        .iter()
        .map(|(n, (d, s, b))| (n.as_str(), TensorView::new(*d, s.clone(), b).unwrap()));
    let bytes = safetensors::serialize(views, None).unwrap();
    std::fs::write(folder.join(WEIGHTS), bytes).unwrap();
}

fn halved(bytes: &[u8]) -> Vec<u8> {
    // bfloat16 is the upper half of a float32.
    bytes.chunks(4).flat_map(|b| [b[2], b[3]]).collect()
}
