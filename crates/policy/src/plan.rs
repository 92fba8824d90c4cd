//! The memory that training and sampling a model take on one GPU, computed from its shape.
//!
//! Reads `config.json` and the headers of the weights, and nothing else: no weight and no GPU is needed. The terms follow
//! what this crate and `learner` allocate; the factors of activations and of the allocator's surplus were fitted to
//! measured peaks on an H100 (`docs/results/gpu-h100.json`), which the plan never falls below.
//!
//! With b = 2 bytes of bfloat16, L blocks, hidden width h, feed-forward width i, widths q of queries and k of keys,
//! vocabulary V, T trained weights, and P positions of a micro-batch (at least one whole sample):
//! - weights: b for each, once for the generator and once for the learner;
//! - optimizer: gradient 4 T, two moments 8 T, master copies 4 T (AdamW in single precision);
//! - activations: the inputs of all blocks, b P h (L + 1), and one block with its backward pass,
//!   12 b P (h + q + 2 k + i); without checkpointing also 6 b P (h + q + 2 k + i) for each block;
//! - logits of the learner: three pieces of at most 2^27 numbers of 4 bytes;
//! - keys and values: 2 b L k for each position of each answer in flight;
//! - scores of the sampler: 30 V bytes for each answer in flight;
//! - the libraries' context and the surplus of the allocator: 1 GiB.

use std::path::Path;

use serde::Serialize;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::layout::{HEAD, Layout};
use crate::lora::LoraConfig;
use crate::origin::Origin;
use crate::quantization::quantization;
use crate::sample::Bounds;
use crate::shards;

/// Bytes of a weight in bfloat16.
const WEIGHT: i64 = 2;
/// Bytes of a number in single precision.
const WIDE: i64 = 4;
/// Numbers of a block with its backward pass, per position and width.
const BLOCK: i64 = 12;
/// Numbers that a block keeps for its backward pass, per position and width.
const KEPT: i64 = 6;
/// The largest number of logits in one piece, and the number of pieces at once.
const LOGITS: i64 = 1 << 27;
const PIECES: i64 = 3;
/// Bytes of the sampler for each token of the vocabulary and answer: logits, probabilities and their sums.
const SCORES: i64 = 30;
/// Context of the libraries and surplus of the allocator, bytes.
const SURPLUS: i64 = 1 << 30;
const MIB: i64 = 1 << 20;
/// `learner.micro_batch_tokens` by default.
const MICRO: i64 = 2048;

/// The GPU of a user and the lengths of prompts and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Memory of the GPU, bytes.
    pub gpu_bytes: i64,
    /// Positions of the longest sample, prompt and answer.
    pub context: i64,
    /// Answers of a step.
    pub answers: i64,
}

/// Memory for each way to use a model on a GPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// Number of the model's weights.
    pub parameters: i64,
    /// Number of the weights of an adapter of the default shape.
    pub adapter_parameters: i64,
    /// Memory of the GPU, bytes.
    pub gpu_bytes: i64,
    /// Positions of the longest sample.
    pub context: i64,
    /// Answers of a step.
    pub answers: i64,
    /// Training an adapter, training all weights, and sampling only.
    pub ways: Vec<Way>,
}

/// A way to use a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Use {
    /// A run trains an adapter and samples.
    Adapter,
    /// A run trains all weights and samples.
    Full,
    /// A model samples and is not trained.
    Sample,
}

/// The memory of one way, with the settings that take the least of it that is needed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Way {
    /// Which.
    #[serde(rename = "use")]
    pub of: Use,
    /// True if it fits.
    pub fits: bool,
    /// Memory in all, bytes.
    pub total_bytes: i64,
    /// Its parts.
    pub parts: Vec<Part>,
    /// `generator.rows`: answers in flight.
    pub rows: i64,
    /// `generator.cache_mib`.
    pub cache_mib: i64,
    /// `learner.micro_batch_tokens`.
    pub micro_batch_tokens: i64,
    /// `learner.activation_checkpointing`.
    pub activation_checkpointing: bool,
}

/// A part of the memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Its contents.
    pub what: &'static str,
    /// Bytes.
    pub bytes: i64,
}

/// Settings that the plan chooses.
#[derive(Debug, Clone, Copy)]
struct Choice {
    rows: i64,
    cache_bytes: i64,
    micro: i64,
    recompute: bool,
}

/// The shape of the model in a folder. An adapter's folder has the shape of its base model.
///
/// # Errors
/// A missing or unusable `config.json`, missing or quantized weights, and headers that do not fit the configuration.
pub fn shape(folder: &Path) -> Result<Config> {
    let origin = Origin::of(folder)?;
    let mut config = Config::load(&origin.base)?;
    let found = shards::headers(&origin.base, &config)?;
    let kinds = found.iter().map(|(name, info)| (name.as_str(), info.dtype));
    let shown = origin.base.display().to_string();
    if let Some(how) = quantization(&config, kinds) {
        return Err(Error::Quantized { origin: shown, how });
    }
    // A head of its own is used, whatever the configuration says.
    config.tie_word_embeddings &= !found.contains_key(HEAD);
    let layout = Layout::of(&config);
    let problems = layout.parts.iter().filter_map(|part| {
        let Some(info) = found.get(&part.name) else {
            return Some(format!("{} is missing", part.name));
        };
        let shape: Vec<i64> = info.shape.iter().map(|n| *n as i64).collect();
        (shape != part.shape).then(|| {
            let name = &part.name;
            format!("{name} has shape {shape:?} instead of {:?}", part.shape)
        })
    });
    let problems: Vec<String> = problems.collect();
    match problems.is_empty() {
        true => origin.shape(config),
        false => Err(Error::Weights {
            origin: shown,
            problems,
        }),
    }
}

impl Plan {
    /// The plan for a model of this shape.
    pub fn of(config: &Config, wanted: Wanted) -> Self {
        let lora = LoraConfig::default();
        Plan {
            parameters: Layout::of(config).parameters(),
            adapter_parameters: Layout::adapter(config, &lora).parameters(),
            gpu_bytes: wanted.gpu_bytes,
            context: wanted.context,
            answers: wanted.answers,
            ways: [Use::Adapter, Use::Full, Use::Sample]
                .map(|of| way(config, of, wanted))
                .into(),
        }
    }
}

/// Takes the settings that cost the least time among those that fit: first the activations are computed again, then
/// micro-batches hold one sample, then fewer answers are in flight.
fn way(config: &Config, of: Use, wanted: Wanted) -> Way {
    let answer = wanted.context * bytes_of_position(config);
    let rows = wanted.answers.clamp(1, Bounds::default().rows as i64);
    let choice = |micro, recompute| Choice {
        rows,
        cache_bytes: rows * answer,
        micro,
        recompute,
    };
    let long = MICRO.max(wanted.context);
    let choices = [
        choice(long, false),
        choice(long, true),
        choice(wanted.context, true),
    ];
    let total = |choice: &Choice| sum(&parts(config, of, *choice));
    let [.., mut chosen] = choices;
    match choices.iter().find(|c| total(c) <= wanted.gpu_bytes) {
        Some(fitting) => chosen = *fitting,
        None => {
            let row = answer + SCORES * config.vocab_size;
            let over = total(&chosen) - wanted.gpu_bytes;
            chosen.rows = (rows - (over + row - 1) / row).max(1);
            chosen.cache_bytes = chosen.rows * answer;
        }
    }
    let parts = parts(config, of, chosen);
    let total_bytes = sum(&parts);
    Way {
        of,
        fits: total_bytes <= wanted.gpu_bytes,
        total_bytes,
        parts,
        rows: chosen.rows,
        cache_mib: (chosen.cache_bytes + MIB - 1) / MIB,
        micro_batch_tokens: chosen.micro,
        activation_checkpointing: chosen.recompute,
    }
}

fn sum(parts: &[Part]) -> i64 {
    parts.iter().map(|part| part.bytes).sum()
}

/// Bytes of keys and values of one position of one answer.
fn bytes_of_position(config: &Config) -> i64 {
    2 * WEIGHT * config.num_hidden_layers * config.kv_heads() * config.head()
}

fn parts(config: &Config, of: Use, choice: Choice) -> Vec<Part> {
    let whole = Layout::of(config).total;
    let adapter = match of {
        Use::Adapter => Layout::adapter(config, &LoraConfig::default()).total,
        Use::Full | Use::Sample => 0,
    };
    let mut parts = Vec::new();
    let mut add = |what, bytes| parts.push(Part { what, bytes });
    add("weights of the generator", WEIGHT * (whole + adapter));
    add("keys and values", choice.cache_bytes);
    add(
        "scores of the sampler",
        SCORES * choice.rows * config.vocab_size,
    );
    if of != Use::Sample {
        let trained = match of {
            Use::Adapter => adapter,
            _ => whole,
        };
        add("weights of the learner", WEIGHT * (whole + adapter));
        add("gradient", WIDE * trained);
        add("moments of the optimizer", 2 * WIDE * trained);
        add("master copies", WIDE * trained);
        add("activations", activations(config, choice));
        let logits = LOGITS.min(choice.micro * config.vocab_size);
        add("logits of the learner", PIECES * WIDE * logits);
    }
    add("context and surplus", SURPLUS);
    parts
}

fn activations(config: &Config, choice: Choice) -> i64 {
    let (h, d) = (config.hidden_size, config.head());
    let (q, k) = (config.num_attention_heads * d, config.kv_heads() * d);
    let width = h + q + 2 * k + config.intermediate_size;
    let kept = match choice.recompute {
        true => 0,
        false => KEPT * width * config.num_hidden_layers,
    };
    let inputs = h * (config.num_hidden_layers + 1);
    WEIGHT * choice.micro * (inputs + BLOCK * width + kept)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    const GIB: i64 = 1 << 30;

    /// Qwen2.5-Coder-14B.
    fn large() -> Config {
        let mut config = Config::new(152_064, 5120, 13_824, 48, 40, 8);
        config.tie_word_embeddings = false;
        config.max_position_embeddings = 32_768;
        config
    }

    /// Qwen2.5-Coder-1.5B.
    fn small() -> Config {
        Config::new(151_936, 1536, 8960, 28, 12, 2)
    }

    fn plan(config: &Config, gib: i64, context: i64, answers: i64) -> Plan {
        let wanted = Wanted {
            gpu_bytes: gib * GIB,
            context,
            answers,
        };
        Plan::of(config, wanted)
    }

    /// A folder with `config.json` and the headers of the weights, in two shards, without any weight.
    fn headers_of(
        config: &Config,
        change: impl Fn(&mut BTreeMap<String, Vec<i64>>),
    ) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let text = serde_json::to_string(config).unwrap();
        std::fs::write(folder.path().join("config.json"), text).unwrap();
        let parts = Layout::of(config).parts.into_iter();
        let mut tensors: BTreeMap<String, Vec<i64>> =
            parts.map(|part| (part.name, part.shape)).collect();
        change(&mut tensors);
        let mut shards: [BTreeMap<String, serde_json::Value>; 2] = Default::default();
        let mut map = BTreeMap::new();
        let name = |shard: usize| format!("model-0000{}-of-00002.safetensors", shard + 1);
        for (number, (tensor, shape)) in tensors.into_iter().enumerate() {
            let bytes = WEIGHT * shape.iter().product::<i64>();
            let info = json!({ "dtype": "BF16", "shape": shape, "data_offsets": [0, bytes] });
            shards[number % 2].insert(tensor.clone(), info);
            map.insert(tensor, name(number % 2));
        }
        for (number, shard) in shards.iter().enumerate() {
            let header = serde_json::to_vec(shard).unwrap();
            let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
            bytes.extend(header);
            std::fs::write(folder.path().join(name(number)), bytes).unwrap();
        }
        let index = json!({ "metadata": {}, "weight_map": map }).to_string();
        std::fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
        folder
    }

    /// Peaks of the whole card in `docs/results/gpu-h100.json`.
    #[test]
    fn a_plan_is_at_least_what_was_measured_and_not_far_above() {
        let of = |config: &Config, of: Use, rows: i64, context: i64, micro: i64| {
            let choice = Choice {
                rows,
                cache_bytes: rows * context * bytes_of_position(config),
                micro,
                recompute: true,
            };
            let sampled = [
                "weights of the generator",
                "keys and values",
                "scores of the sampler",
            ];
            let parts = parts(config, of, choice).into_iter();
            // The learner was measured by itself.
            let parts = parts.filter(|part| of == Use::Sample || !sampled.contains(&part.what));
            sum(&parts.collect::<Vec<_>>()) / MIB
        };
        for (planned, measured) in [
            (of(&small(), Use::Sample, 64, 32 + 512, 0), 5101),
            (of(&large(), Use::Sample, 64, 32 + 128, 0), 31_305),
            (of(&small(), Use::Adapter, 0, 0, 8704), 7587),
            (of(&large(), Use::Adapter, 0, 0, 4096), 35_797),
        ] {
            let ratio = planned as f64 / measured as f64;
            assert!((1.0..1.25).contains(&ratio), "{planned} of {measured} MiB");
        }
    }

    #[test]
    fn an_adapter_of_a_model_of_14_billion_weights_fits_a_card_of_80_gib() {
        let plan = plan(&large(), 80, 4096, 64);
        assert_eq!(plan.parameters, 14_770_033_664);
        let [adapter, full, sample] = &plan.ways[..] else {
            unreachable!("three ways")
        };
        assert!(adapter.fits && sample.fits && !full.fits, "{plan:?}");
        assert!(adapter.activation_checkpointing);
        assert!(adapter.total_bytes <= 80 * GIB);
        assert_eq!(adapter.total_bytes, sum(&adapter.parts));
        assert!((1..=64).contains(&adapter.rows), "{adapter:?}");
        // 14 bytes of optimizer and weights for each weight, and the weights of the generator.
        assert!(full.total_bytes > 18 * plan.parameters);
        assert_eq!(full.rows, 1, "nothing smaller would fit either");
    }

    #[test]
    fn the_examples_fit_the_cards_that_they_name() {
        let examples = [
            (
                large(),
                79,
                include_str!("../../../examples/qwen2.5-coder-14b.toml"),
            ),
            (
                small(),
                23,
                include_str!("../../../examples/qwen2.5-coder-1.5b.toml"),
            ),
        ];
        for (config, gib, text) in examples {
            assert!(text.contains(&format!("--gpu {gib}GiB --context 8192")));
            let settings = flopsmith_config::parse(text, "example", &[]).unwrap();
            let (generator, learner) = (settings.generator, settings.learner);
            let choice = Choice {
                rows: generator.rows.unwrap().into(),
                cache_bytes: i64::from(generator.cache_mib.unwrap()) * MIB,
                micro: learner.micro_batch_tokens as i64,
                recompute: learner.activation_checkpointing,
            };
            assert_eq!(learner.lora, Some(LoraConfig::default()));
            assert_eq!(choice.micro, 8192);
            let answer = 8192 * bytes_of_position(&config);
            assert!(choice.cache_bytes >= choice.rows * answer, "{gib} GiB");
            let total = sum(&parts(&config, Use::Adapter, choice));
            assert!(total <= gib * GIB, "{total} bytes of {gib} GiB");
        }
    }

    #[test]
    fn less_memory_costs_time_before_it_costs_answers() {
        let at = |gib: i64| plan(&small(), gib, 2048, 64).ways[0].clone();
        let roomy = at(80);
        assert!(roomy.fits && !roomy.activation_checkpointing);
        assert_eq!(roomy.rows, 64);
        let mut last = roomy;
        for gib in (4..80).rev() {
            let way = at(gib);
            assert!(way.total_bytes <= last.total_bytes, "{gib} GiB");
            assert!(way.rows == 64 || way.activation_checkpointing, "{gib} GiB");
            assert_eq!(way.fits, way.total_bytes <= gib * GIB);
            last = way;
        }
        assert!(!last.fits && last.rows == 1, "{last:?}");
    }

    #[test]
    fn a_folder_is_planned_by_its_headers_alone() {
        let config = large();
        let folder = headers_of(&config, |_| {});
        let found = shape(folder.path()).unwrap();
        assert_eq!(Layout::of(&found).parameters(), 14_770_033_664);
        // A head that the configuration ties, and the weights have, counts.
        let mut tied = small();
        let head = vec![tied.vocab_size, tied.hidden_size];
        let folder = headers_of(&tied, |tensors| {
            tensors.insert(HEAD.to_owned(), head.clone());
        });
        tied.tie_word_embeddings = false;
        let found = shape(folder.path()).unwrap();
        let all = |config: &Config| Layout::of(config).parameters();
        assert_eq!(all(&found), all(&tied));
    }

    #[test]
    fn a_strange_folder_is_an_error_of_the_input_that_names_the_cause() {
        let refused = |folder: &Path, wanted: &str| {
            let error = shape(folder).unwrap_err();
            assert!(error.is_of_the_input(), "{error:?}");
            let text = error.to_string();
            assert!(text.contains(wanted), "{wanted}: {text}");
        };
        let empty = tempfile::tempdir().unwrap();
        refused(empty.path(), "config.json");
        std::fs::write(
            empty.path().join("config.json"),
            "{\"model_type\": \"mamba\"}",
        )
        .unwrap();
        refused(empty.path(), "`mamba`");
        let norm = "model.layers.3.input_layernorm.weight";
        let lacking = headers_of(&small(), |tensors| {
            tensors.remove(norm);
        });
        refused(
            lacking.path(),
            "model.layers.3.input_layernorm.weight is missing",
        );
        let narrow = headers_of(&small(), |tensors| {
            tensors.insert(norm.to_owned(), vec![7]);
        });
        refused(narrow.path(), "[7] instead of [1536]");
        let shard = narrow.path().join("model-00001-of-00002.safetensors");
        std::fs::write(&shard, "short").unwrap();
        refused(narrow.path(), "no safetensors file");
        let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n";
        std::fs::write(&shard, pointer).unwrap();
        refused(narrow.path(), "git lfs pull");
        std::fs::remove_file(&shard).unwrap();
        refused(narrow.path(), "cannot read");
    }
}
