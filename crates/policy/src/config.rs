//! The shape of a model, as Hugging Face's `config.json` gives it.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::files;
use crate::rope::{self, Rope};

/// Model families: what `model_type` may be, and the class that transformers opens each with.
const ARCHITECTURES: [(&str, &str); 2] =
    [("qwen2", "Qwen2ForCausalLM"), ("llama", "LlamaForCausalLM")];

/// The shape of a Qwen2 or Llama model: `config.json` with `model_type` `qwen2` or `llama`. Qwen2 differs from Llama in
/// a bias on queries, keys and values.
///
/// [`Config::other`] keeps the fields that this crate does not use, and they are written back unchanged. A field with
/// an unusable value, such as a `pad_token_id` of −1, counts as missing if the model's computation does not need it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The architecture: `qwen2` or `llama`.
    #[serde(default)]
    pub model_type: String,
    /// Number of rows of the embedding, and of tokens that the head scores.
    pub vocab_size: i64,
    /// Width of the residual stream.
    pub hidden_size: i64,
    /// Width of the gated feed-forward layer.
    pub intermediate_size: i64,
    /// Number of transformer blocks.
    pub num_hidden_layers: i64,
    /// Number of query heads of each block.
    pub num_attention_heads: i64,
    /// Number of key and value heads of each block; query heads share them evenly. Missing means one for each query
    /// head.
    #[serde(default)]
    pub num_key_value_heads: Option<i64>,
    /// Width of one head; missing means `hidden_size / num_attention_heads`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_dim: Option<i64>,
    /// Added to the mean square under the root of RMSNorm.
    #[serde(default = "default_eps")]
    pub rms_norm_eps: f64,
    /// Base of the rotary frequencies. Newer files keep it in `rope_parameters`. [`Config::parse`] reads both places,
    /// and both are written.
    #[serde(default)]
    pub rope_theta: Option<f64>,
    /// Scaling of the rotary frequencies.
    #[serde(skip_deserializing)]
    pub rope: Rope,
    /// True if the head is the embedding itself. A folder whose weights have another head is opened as if this were
    /// false.
    #[serde(default, deserialize_with = "or_default")]
    pub tie_word_embeddings: bool,
    /// Longest sequence, prompt and answer together.
    #[serde(default = "default_positions")]
    pub max_position_embeddings: i64,
    /// Activation of the feed-forward gate; only `silu` is supported, by either of its names.
    #[serde(default = "default_activation")]
    pub hidden_act: String,
    /// Standard deviation of newly initialised matrices.
    #[serde(
        default = "default_initializer_range",
        deserialize_with = "usable_range"
    )]
    pub initializer_range: f64,
    /// Token that begins a sequence, if the tokenizer uses one; only written back, for other programs.
    #[serde(default, deserialize_with = "if_usable")]
    pub bos_token_id: Option<u32>,
    /// Tokens that end an answer.
    #[serde(default, deserialize_with = "usable_ids")]
    pub eos_token_id: Option<TokenIds>,
    /// Token that pads rows of a batch; only written back, for other programs.
    #[serde(default, deserialize_with = "if_usable")]
    pub pad_token_id: Option<u32>,
    /// A head with one output, beside the vocabulary's head or in its place.
    #[serde(skip)]
    pub scalar: Scalar,
    /// Everything else in the file.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A head that gives one number for a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scalar {
    /// None: a language model.
    #[default]
    None,
    /// In the place of the vocabulary's head: a reward model, as `…ForSequenceClassification` with one label.
    Score,
    /// Beside it: a policy that also says what it expects.
    Value,
}

/// One token id or several: `eos_token_id` comes in both forms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TokenIds {
    /// A single id.
    One(u32),
    /// Several ids, any of which ends an answer.
    Many(Vec<u32>),
}

impl TokenIds {
    /// The ids of a field. Numbers that can be no token, such as −1, are passed over; none where nothing is left.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
        match value {
            Value::Array(list) => {
                let ids: Vec<u32> = list.iter().filter_map(id).collect();
                (!ids.is_empty()).then_some(TokenIds::Many(ids))
            }
            one => id(one).map(TokenIds::One),
        }
    }

    /// The ids as a list.
    pub fn to_vec(&self) -> Vec<u32> {
        match self {
            TokenIds::One(id) => vec![*id],
            TokenIds::Many(ids) => ids.clone(),
        }
    }
}

fn default_eps() -> f64 {
    1e-6
}

fn default_positions() -> i64 {
    32_768
}

fn default_activation() -> String {
    "silu".into()
}

fn default_initializer_range() -> f64 {
    0.02
}

/// Null means that the field is absent.
fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// An unneeded value of another type or out of bounds counts as absent.
fn if_usable<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Ok(serde_json::from_value(Value::deserialize(from)?).ok())
}

fn usable_ids<'de, D: Deserializer<'de>>(from: D) -> Result<Option<TokenIds>, D::Error> {
    Ok(TokenIds::read(&Value::deserialize(from)?))
}

/// It matters for weights that are drawn anew only.
fn usable_range<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let value = Value::deserialize(from)?.as_f64();
    let usable = value.filter(|range| *range >= 0.0 && range.is_finite());
    Ok(usable.unwrap_or_else(default_initializer_range))
}

/// An error that says what stands in the place of a model's folder; none if its `config.json` is there.
fn no_model(folder: &Path) -> Option<Error> {
    let shown = folder.display();
    if folder.join("config.json").exists() {
        None
    } else if folder.join("model/config.json").exists() {
        Some(Error::Input(format!(
            "`{shown}` is the folder of a run, and its model is `{shown}/model`: name that one"
        )))
    } else if folder.is_dir() {
        Some(Error::Input(format!(
            "cannot read `{shown}/config.json`, because there is none: a model's folder has config.json, weights (*.safetensors) and tokenizer.json"
        )))
    } else {
        Some(Error::Input(format!(
            "there is no folder `{shown}`: a model's folder has config.json, weights (*.safetensors) and tokenizer.json"
        )))
    }
}

impl Config {
    /// A configuration with Qwen2's usual values and the given shape.
    pub fn new(
        vocab_size: i64,
        hidden_size: i64,
        intermediate_size: i64,
        num_hidden_layers: i64,
        num_attention_heads: i64,
        num_key_value_heads: i64,
    ) -> Self {
        Config {
            model_type: "qwen2".into(),
            vocab_size,
            hidden_size,
            intermediate_size,
            num_hidden_layers,
            num_attention_heads,
            num_key_value_heads: Some(num_key_value_heads),
            head_dim: None,
            rms_norm_eps: default_eps(),
            rope_theta: Some(10_000.0),
            rope: Rope::Default,
            tie_word_embeddings: true,
            max_position_embeddings: 1024,
            hidden_act: default_activation(),
            initializer_range: default_initializer_range(),
            bos_token_id: None,
            eos_token_id: None,
            pad_token_id: None,
            scalar: Scalar::None,
            other: Map::new(),
        }
    }

    /// Reads `config.json` of a model folder.
    pub fn load(folder: &Path) -> Result<Self> {
        let path = folder.join("config.json");
        let text = files::text(&path).map_err(|error| no_model(folder).unwrap_or(error))?;
        Self::parse(&text).map_err(|error| match error {
            ParseError::Json(source) => Error::Json { path, source },
            ParseError::Unusable(error) => error,
        })
    }

    /// Reads and checks the text of a `config.json`.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        // The architecture is checked first: a file of another one lacks fields, and an error about these would be less
        // helpful.
        let value: Value = serde_json::from_str(text).map_err(ParseError::Json)?;
        let found = value
            .get("model_type")
            .and_then(Value::as_str)
            .unwrap_or("none named");
        if ARCHITECTURES.iter().all(|(known, _)| *known != found) {
            return Err(ParseError::Unusable(Error::Architecture {
                found: found.to_owned(),
            }));
        }
        let mut config: Config = serde_json::from_str(text).map_err(ParseError::Json)?;
        config.absorb_rope().map_err(ParseError::Unusable)?;
        config.scalar = scalar_of(&value).map_err(ParseError::Unusable)?;
        config.check().map_err(ParseError::Unusable)?;
        Ok(config)
    }

    /// The file's text, in the form that both older and newer transformers open.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut value = serde_json::to_value(self)?;
        if let Some(map) = value.as_object_mut() {
            // Written as others read it, below.
            map.remove("rope");
            let class = ARCHITECTURES
                .iter()
                .find(|(name, _)| *name == self.model_type);
            if let Some((_, class)) = class {
                self.write_class(map, class);
            }
            map.insert("rope_theta".into(), serde_json::json!(self.theta()));
            let rope = self.rope.to_map(self.theta());
            if self.rope != Rope::Default {
                // The older name, and the older name of its kind.
                let mut older = rope.clone();
                older.remove("rope_theta");
                older.insert("type".into(), rope["rope_type"].clone());
                map.insert("rope_scaling".into(), older.into());
            }
            map.insert("rope_parameters".into(), rope.into());
            map.insert(
                "num_key_value_heads".into(),
                serde_json::json!(self.kv_heads()),
            );
        }
        Ok(serde_json::to_string_pretty(&value)? + "\n")
    }

    /// The class that transformers opens it with.
    fn write_class(&self, map: &mut Map<String, Value>, class: &str) {
        let named = map.get("architectures").and_then(|a| a.get(0));
        let named = named.and_then(Value::as_str).unwrap_or_default();
        let scores = named.ends_with(CLASSIFIER);
        if self.scalar == Scalar::Score {
            let class = class.replace("ForCausalLM", CLASSIFIER);
            map.insert("architectures".into(), serde_json::json!([class]));
            // That is how transformers keeps the number of labels.
            map.insert("id2label".into(), serde_json::json!({ "0": "LABEL_0" }));
            map.insert("label2id".into(), serde_json::json!({ "LABEL_0": 0 }));
        } else if named.is_empty() || scores {
            map.insert("architectures".into(), serde_json::json!([class]));
        }
    }

    fn absorb_rope(&mut self) -> Result<()> {
        let (theta, rope) = rope::read(&self.other, self.max_position_embeddings)?;
        self.rope_theta = theta.or(self.rope_theta);
        self.rope = rope;
        // Both are written from what was read.
        for field in ["rope_parameters", "rope_scaling"] {
            self.other.remove(field);
        }
        Ok(())
    }

    /// Checks that a model of this shape can be built. [`Config::parse`] and the model's constructors call it.
    pub fn check(&self) -> Result<()> {
        let fail = |field, reason: String| Err(Error::Config { field, reason });
        // The limits are far above every existing model, and low enough that no product of them overflows and no list of
        // a model's tensors fills the memory.
        for (field, value, most) in [
            ("vocab_size", self.vocab_size, 1 << 24),
            ("hidden_size", self.hidden_size, 1 << 20),
            ("intermediate_size", self.intermediate_size, 1 << 22),
            ("num_hidden_layers", self.num_hidden_layers, 1 << 12),
            ("num_attention_heads", self.num_attention_heads, 1 << 14),
            ("num_key_value_heads", self.kv_heads(), 1 << 14),
            ("head_dim", self.head_dim.unwrap_or(2), 1 << 14),
            (
                "max_position_embeddings",
                self.max_position_embeddings,
                1 << 30,
            ),
        ] {
            if value < 1 {
                return fail(field, format!("is {value}, not a positive number"));
            }
            if value > most {
                return fail(field, format!("is {value}; it must be at most {most}"));
            }
        }
        if self.head_dim.is_none() && self.hidden_size % self.num_attention_heads != 0 {
            return fail(
                "hidden_size",
                format!(
                    "is {}, which is not a multiple of the number of heads, {}",
                    self.hidden_size, self.num_attention_heads
                ),
            );
        }
        if self.head() < 2 || self.head() % 2 != 0 {
            return fail(
                "head_dim",
                format!("is {}; rotary embedding needs an even width", self.head()),
            );
        }
        if self.num_attention_heads % self.kv_heads() != 0 {
            return fail(
                "num_key_value_heads",
                format!(
                    "is {}, which does not divide {} query heads",
                    self.kv_heads(),
                    self.num_attention_heads
                ),
            );
        }
        if !["silu", "swish"].contains(&self.hidden_act.as_str()) {
            return fail(
                "hidden_act",
                format!("is `{}`; only `silu` is supported", self.hidden_act),
            );
        }
        if !(self.rms_norm_eps > 0.0 && self.rms_norm_eps < 1.0) {
            return fail(
                "rms_norm_eps",
                format!("is {}; it must be above 0 and below 1", self.rms_norm_eps),
            );
        }
        if !(self.theta() > 0.0 && self.theta().is_finite()) {
            return fail(
                "rope_theta",
                format!("is {}; it must be finite and above 0", self.theta()),
            );
        }
        if !(self.initializer_range >= 0.0 && self.initializer_range.is_finite()) {
            return fail(
                "initializer_range",
                format!(
                    "is {}; it must be finite and at least 0",
                    self.initializer_range
                ),
            );
        }
        for field in ["attention_bias", "mlp_bias"] {
            if !self.has_bias() && self.other.get(field) == Some(&Value::Bool(true)) {
                return fail(
                    field,
                    "is true; Llama is supported only without biases".into(),
                );
            }
        }
        if self.slides() {
            return fail(
                "use_sliding_window",
                "is true; only full attention is supported".into(),
            );
        }
        Ok(())
    }

    /// True if a block attends to the nearest positions only. Files may set a window that no block has, or that is as
    /// long as the longest sequence.
    fn slides(&self) -> bool {
        let number = |field: &str| self.other.get(field).and_then(Value::as_i64);
        let asked = self.other.get("use_sliding_window") == Some(&Value::Bool(true));
        if !asked || self.model_type != "qwen2" {
            return false;
        }
        // Missing means what transformers takes then.
        let window = match self.other.get("sliding_window") {
            Some(Value::Null) => return false,
            _ => number("sliding_window").unwrap_or(4096),
        };
        let some = match self.other.get("layer_types") {
            Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "sliding_attention"),
            _ => number("max_window_layers").unwrap_or(28) < self.num_hidden_layers,
        };
        some && window < self.max_position_embeddings
    }

    /// Number of key and value heads.
    pub fn kv_heads(&self) -> i64 {
        self.num_key_value_heads.unwrap_or(self.num_attention_heads)
    }

    /// True if queries, keys and values have a bias.
    pub fn has_bias(&self) -> bool {
        self.model_type != "llama"
    }

    /// Width of one head.
    pub fn head(&self) -> i64 {
        self.head_dim
            .unwrap_or_else(|| self.hidden_size / self.num_attention_heads.max(1))
    }

    /// Base of the rotary frequencies.
    pub fn theta(&self) -> f64 {
        self.rope_theta.unwrap_or(10_000.0)
    }

    /// Tokens that end an answer.
    pub fn eos(&self) -> Vec<u32> {
        self.eos_token_id
            .as_ref()
            .map(TokenIds::to_vec)
            .unwrap_or_default()
    }
}

/// The end of the names of transformers' classes that score texts.
const CLASSIFIER: &str = "ForSequenceClassification";

/// The scalar head of the file's class.
fn scalar_of(file: &Value) -> Result<Scalar> {
    let class = file.get("architectures").and_then(|a| a.get(0));
    if !class
        .and_then(Value::as_str)
        .is_some_and(|c| c.ends_with(CLASSIFIER))
    {
        return Ok(Scalar::None);
    }
    // Two labels are the default of transformers.
    let labels = file
        .get("id2label")
        .and_then(Value::as_object)
        .map(Map::len);
    let labels = labels.or_else(|| {
        let number = file.get("num_labels").and_then(Value::as_u64)?;
        usize::try_from(number).ok()
    });
    match labels.unwrap_or(2) {
        1 => Ok(Scalar::Score),
        n => Err(Error::Config {
            field: "id2label",
            reason: format!("has {n} labels; a reward model has one"),
        }),
    }
}

/// Why a text is no usable `config.json`.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// It is no JSON, or a field is missing or of the wrong kind.
    #[error("no usable JSON")]
    Json(#[source] serde_json::Error),
    /// It asks for something this model does not do.
    #[error(transparent)]
    Unusable(Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_model_is_said_to_be_what_it_is() {
        let place = tempfile::tempdir().expect("a folder");
        let said = |folder: &Path| {
            let error = Config::load(folder).expect_err("no model");
            assert!(error.is_of_the_input(), "{error}");
            error.to_string()
        };
        assert!(said(&place.path().join("startr")).starts_with("there is no folder"));
        assert!(said(place.path()).contains("because there is none"));
        let model = place.path().join("model");
        std::fs::create_dir(&model).expect("a folder");
        std::fs::write(model.join("config.json"), "{}").expect("a file");
        assert!(said(place.path()).contains("is the folder of a run"));
    }
}
