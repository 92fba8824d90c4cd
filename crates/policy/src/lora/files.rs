//! Adapters in PEFT's files, `adapter_config.json` and `adapter_model.safetensors`, or in a single file for the bus.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use safetensors::SafeTensors;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tch::{Device, Kind};

use super::{Adapter, LoraConfig, Target};
use crate::checkpoint::{self, Wanted};
use crate::config::{Config, Scalar};
use crate::error::{Error, Result};
use crate::files;

const WEIGHTS: &str = "adapter_model.safetensors";
const CONFIG: &str = "adapter_config.json";

/// PEFT's prefix of the names of tensors.
const PREFIX: &str = "base_model.model.";

/// PEFT's task type of an adapter that scores texts.
const SCORES: &str = "SEQ_CLS";

/// The entry of a safetensors file's metadata that marks a sent adapter and holds its shape.
const SHAPE: &str = "flopsmith.lora";

/// The content of the entry [`SHAPE`], as JSON.
#[derive(Serialize, Deserialize)]
struct Shape {
    lora: LoraConfig,
    /// The same settings in PEFT's words, for programs that write a folder without this crate.
    peft: Value,
}

impl Adapter {
    /// True if this folder holds an adapter.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(CONFIG).exists()
    }

    /// True if the adapter in this folder turns its base model into a reward model.
    pub(crate) fn is_of_a_reward_model(folder: &Path) -> Result<bool> {
        let file = settings(folder)?;
        Ok(file.get("task_type").and_then(Value::as_str) == Some(SCORES))
    }

    /// Opens a PEFT folder for models of the shape of `model`.
    ///
    /// # Errors
    /// Unknown settings of the file, by name; every missing, misshapen and surplus tensor, in one error.
    pub fn load(folder: &Path, model: &Config, device: Device, kind: Kind) -> Result<Self> {
        let adapter = Self::zeros(model, parse(&settings(folder)?, model)?, device, kind)?;
        let path = folder.join(WEIGHTS);
        let bytes = std::fs::read(&path).map_err(|source| Error::Read {
            path: path.clone(),
            source,
        })?;
        files::refuse_pointer(&path, &bytes)?;
        adapter.fill(&path.display().to_string(), &bytes)?;
        Ok(adapter)
    }

    /// Writes a folder that PEFT opens. `base` is the name or folder of the base model.
    pub fn save(&self, folder: &Path, base: &str) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(|source| Error::Write {
            path: folder.to_owned(),
            source,
        })?;
        let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        // The value head is left out: other programs do not know it.
        let bytes = checkpoint::bytes_of(self.parameters(), PREFIX, metadata, |name| {
            name != crate::layout::VALUE
        })?;
        files::replace(folder, WEIGHTS, &bytes)?;
        let text = serde_json::to_string_pretty(&describe(self.config(), base, self.scores()))
            .map_err(|source| Error::Json {
                path: folder.join(CONFIG),
                source,
            })?;
        files::replace(folder, CONFIG, (text + "\n").as_bytes())
    }

    /// The whole adapter in one safetensors file, whose metadata hold its shape, also as PEFT's configuration without
    /// the base model's name. Equal adapters have equal bytes.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        self.bytes_of(|_| true)
    }

    /// The same, of the tensors whose names are `kept`.
    pub(crate) fn bytes_of(&self, kept: impl Fn(&str) -> bool) -> Result<Vec<u8>> {
        let shape = Shape {
            lora: self.config().clone(),
            peft: describe(self.config(), "", self.scores()),
        };
        let text = serde_json::to_string(&shape).map_err(|source| Error::Json {
            path: SHAPE.into(),
            source,
        })?;
        // One entry only: the order of several entries would differ each time, and equal adapters must have equal
        // digests.
        let metadata = HashMap::from([(SHAPE.to_owned(), text)]);
        checkpoint::bytes_of(self.parameters(), PREFIX, metadata, kept)
    }

    /// The adapter's shape if these bytes are an adapter's; otherwise `None`.
    pub(crate) fn shape_in(bytes: &[u8]) -> Result<Option<LoraConfig>> {
        let origin = || "the new weights".to_owned();
        let (_, metadata) =
            SafeTensors::read_metadata(bytes).map_err(|source| Error::Safetensors {
                origin: origin(),
                source,
            })?;
        let Some(text) = metadata.metadata().as_ref().and_then(|m| m.get(SHAPE)) else {
            return Ok(None);
        };
        serde_json::from_str(text)
            .map(|shape: Shape| Some(shape.lora))
            .map_err(|source| Error::Json {
                path: SHAPE.into(),
                source,
            })
    }

    /// An adapter from [`Adapter::bytes`].
    pub fn from_bytes(bytes: &[u8], model: &Config, device: Device, kind: Kind) -> Result<Self> {
        let Some(config) = Self::shape_in(bytes)? else {
            return Err(Error::Input(
                "these are the weights of a model, not of an adapter".into(),
            ));
        };
        let adapter = Self::zeros(model, config, device, kind)?;
        adapter.fill("the new adapter", bytes)?;
        Ok(adapter)
    }

    /// True if the adapter is a reward model's.
    fn scores(&self) -> bool {
        self.scalar(Scalar::Score).is_some()
    }

    fn fill(&self, origin: &str, bytes: &[u8]) -> Result<()> {
        let file = SafeTensors::deserialize(bytes).map_err(|source| Error::Safetensors {
            origin: origin.into(),
            source,
        })?;
        let found: BTreeMap<String, _> = file
            .tensors()
            .into_iter()
            .map(|(name, view)| {
                let name = name.strip_prefix(PREFIX).map(str::to_owned).unwrap_or(name);
                (name, view)
            })
            .collect();
        let wanted = Wanted {
            layout: &self.parameters().layout,
            tied: false,
        };
        wanted.compare(origin, &found)?;
        checkpoint::fill(self.parameters(), &found)
    }
}

/// `adapter_config.json`.
fn settings(folder: &Path) -> Result<Map<String, Value>> {
    files::json(&folder.join(CONFIG))
}

/// PEFT's settings that change an adapter's computation, unless they are false or empty.
const NEUTRAL: [&str; 20] = [
    "use_dora",
    "use_qalora",
    "use_bdlora",
    "fan_in_fan_out",
    "lora_bias",
    "rank_pattern",
    "alpha_pattern",
    "layers_to_transform",
    "layers_pattern",
    "layer_replication",
    "exclude_modules",
    "target_parameters",
    "trainable_token_indices",
    "alora_invocation_tokens",
    "megatron_config",
    "arrow_config",
    "kasa_config",
    "monteclora_config",
    "velora_config",
    "bdlora_config",
];

fn parse(file: &Map<String, Value>, model: &Config) -> Result<LoraConfig> {
    let fail = |field: &str, reason: String| {
        Error::Input(format!("adapter_config.json: `{field}` {reason}"))
    };
    let text = |field: &str| file.get(field).and_then(Value::as_str).unwrap_or_default();
    if text("peft_type") != "LORA" {
        return Err(fail(
            "peft_type",
            format!("is `{}`; only LORA is supported", text("peft_type")),
        ));
    }
    if !matches!(text("bias"), "" | "none") {
        return Err(fail(
            "bias",
            format!("is `{}`; only `none` is supported", text("bias")),
        ));
    }
    for field in NEUTRAL {
        let value = file.get(field).unwrap_or(&Value::Null);
        let empty = match value {
            Value::Null | Value::Bool(false) => true,
            Value::Array(a) => a.is_empty(),
            Value::Object(o) => o.is_empty(),
            _ => false,
        };
        if !empty {
            return Err(fail(field, format!("is {value}, which is not supported")));
        }
    }
    // PEFT changes the base weights when it opens an adapter with certain initialisations.
    let begun = file.get("init_lora_weights").unwrap_or(&Value::Null);
    let harmless = match begun {
        Value::Null | Value::Bool(_) => true,
        other => ["gaussian", "eva", "orthogonal"]
            .iter()
            .any(|known| other == known),
    };
    if !harmless {
        return Err(fail(
            "init_lora_weights",
            format!("is {begun}, which changes the model's own weights and is not supported"),
        ));
    }
    let saved: Vec<&str> = match file.get("modules_to_save") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let scores = model.scalar == Scalar::Score;
    if let Some(other) = saved
        .iter()
        .find(|name| !(scores && matches!(**name, "score" | "classifier")))
    {
        return Err(fail(
            "modules_to_save",
            format!("names `{other}`, which cannot be trained"),
        ));
    }
    let number = |field: &str, usual: f64| match file.get(field) {
        None | Some(Value::Null) => Ok(usual),
        Some(value) => value
            .as_f64()
            .ok_or_else(|| fail(field, format!("is {value}, which is not a number"))),
    };
    let rank = number("r", 8.0)?;
    if !(1.0..=4096.0).contains(&rank) || rank.fract() != 0.0 {
        return Err(fail("r", format!("is {rank}; it must be 1 to 4096")));
    }
    let config = LoraConfig {
        rank: rank as u32,
        alpha: number("lora_alpha", 8.0)?,
        dropout: number("lora_dropout", 0.0)?,
        targets: targets(file.get("target_modules"), model.num_hidden_layers)
            .map_err(|why| fail("target_modules", why))?,
        rank_stabilized: file.get("use_rslora") == Some(&Value::Bool(true)),
    };
    config.check().map_err(Error::Input)?;
    Ok(config)
}

/// The adapted products. PEFT names a product once for all blocks, or separately for each block.
fn targets(named: Option<&Value>, blocks: i64) -> Result<BTreeSet<Target>, String> {
    let names = match named {
        Some(Value::String(all)) if all == "all-linear" => return Ok(Target::ALL.into()),
        Some(Value::Array(names)) => names,
        other => {
            let other = other.unwrap_or(&Value::Null);
            return Err(format!(
                "is {other}; it must be a list of names or `all-linear`"
            ));
        }
    };
    let mut everywhere = BTreeSet::new();
    let mut places: BTreeMap<Target, BTreeSet<i64>> = BTreeMap::new();
    for name in names {
        let name = name.as_str().unwrap_or_default();
        let (target, block) = place(name).ok_or_else(|| {
            let known = Target::ALL.map(Target::name).join(", ");
            format!("names `{name}`; the supported names are {known}")
        })?;
        match block {
            None => {
                everywhere.insert(target);
            }
            Some(block) => {
                places.entry(target).or_default().insert(block);
            }
        }
    }
    for (target, found) in places {
        if !everywhere.contains(&target) && !(0..blocks).all(|block| found.contains(&block)) {
            return Err(format!(
                "names `{}` in some blocks only; an adapter must change all blocks",
                target.name()
            ));
        }
        everywhere.insert(target);
    }
    Ok(everywhere)
}

/// The product that a PEFT name means: `q_proj`, `self_attn.q_proj` or `model.layers.3.self_attn.q_proj`. The last form
/// also gives the block.
fn place(name: &str) -> Option<(Target, Option<i64>)> {
    let (path, last) = name.rsplit_once('.').unwrap_or(("", name));
    let target = Target::ALL.into_iter().find(|t| t.name() == last)?;
    let (path, module) = path.rsplit_once('.').unwrap_or(("", path));
    let feeds = matches!(target, Target::Gate | Target::Up | Target::Down);
    if !module.is_empty() && module != if feeds { "mlp" } else { "self_attn" } {
        return None;
    }
    if path.is_empty() {
        return Some((target, None));
    }
    let block = path.strip_prefix("model.layers.")?.parse().ok()?;
    Some((target, Some(block)))
}

fn describe(lora: &LoraConfig, base: &str, scores: bool) -> Value {
    let names: Vec<&str> = lora.targets.iter().map(|t| t.name()).collect();
    json!({
        "peft_type": "LORA",
        "task_type": if scores { SCORES } else { "CAUSAL_LM" },
        "base_model_name_or_path": base,
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "lora_dropout": lora.dropout,
        "target_modules": names,
        "use_rslora": lora.rank_stabilized,
        "modules_to_save": if scores { json!(["score"]) } else { Value::Null },
        "bias": "none",
        "fan_in_fan_out": false,
        "inference_mode": true,
        "init_lora_weights": true,
    })
}
