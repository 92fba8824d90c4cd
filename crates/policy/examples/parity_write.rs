//! Writes models and a tokenizer with this crate, for `tools/parity/check_saved.py` to open with transformers.

use std::path::PathBuf;

use flopsmith_policy::config::TokenIds;
use flopsmith_policy::{
    Adapter, Config, Device, Kind, LoraConfig, Model, Plan, Rope, Scalar, Tensor, Yarn, train_bpe,
};
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = PathBuf::from(
        std::env::args()
            .nth(1)
            .ok_or("usage: parity_write FOLDER")?,
    );
    let texts: Vec<String> = (0..50)
        .map(|i| {
            format!(
                "void f{i}(int n, double *C) {{\n    for (int i = 0; i < n; i += {i}) {{\n        C[i] += 2.0 * C[i + {i}];\n    }}\n}}\n"
            )
        })
        .collect();
    let tokenizer = train_bpe(&texts, 320, &["<|end|>", "<|task|>"])?;
    let yarn = Rope::Yarn(Yarn {
        factor: 4.0,
        original: 16.0,
        beta_fast: 8.0,
        beta_slow: 0.5,
        attention_factor: 1.2,
        truncate: false,
    });
    let llama3 = Rope::Llama3 {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original: 32.0,
    };
    let linear = Rope::Linear { factor: 4.0 };
    for (name, family, rope, kv, tied, kind) in [
        ("reward_qwen2", "qwen2", Rope::Default, 2, true, Kind::Float),
        (
            "reward_llama",
            "llama",
            Rope::Default,
            2,
            false,
            Kind::Float,
        ),
        ("adapter", "qwen2", Rope::Default, 2, true, Kind::Float),
        (
            "adapter_stabilized",
            "llama",
            Rope::Default,
            4,
            false,
            Kind::Float,
        ),
        (
            "reward_adapter",
            "qwen2",
            Rope::Default,
            2,
            true,
            Kind::Float,
        ),
        (
            "reward_adapter_on_policy",
            "llama",
            Rope::Default,
            2,
            false,
            Kind::Float,
        ),
        (
            "adapter_with_values",
            "qwen2",
            Rope::Default,
            1,
            false,
            Kind::Float,
        ),
        ("values", "qwen2", Rope::Default, 2, true, Kind::Float),
        ("merged", "qwen2", Rope::Default, 2, false, Kind::Float),
        ("bfloat16", "qwen2", Rope::Default, 2, false, Kind::BFloat16),
        ("gqa_tied", "qwen2", Rope::Default, 2, true, Kind::Float),
        ("gqa_untied", "qwen2", Rope::Default, 1, false, Kind::Float),
        ("mha_tied", "qwen2", Rope::Default, 4, true, Kind::Float),
        ("mha_untied", "qwen2", Rope::Default, 4, false, Kind::Float),
        ("double", "qwen2", Rope::Default, 2, false, Kind::Double),
        ("yarn", "qwen2", yarn, 2, true, Kind::Float),
        ("llama", "llama", Rope::Default, 2, false, Kind::Float),
        ("llama_linear", "llama", linear, 4, false, Kind::Float),
        ("llama_llama3", "llama", llama3, 1, true, Kind::Float),
    ] {
        let folder = out.join(name);
        let mut config = Config::new(tokenizer.vocab_size() as i64, 64, 96, 3, 4, kv);
        config.model_type = family.into();
        config.rope = rope;
        config.tie_word_embeddings = tied;
        config.rope_theta = Some(25_000.0);
        config.eos_token_id = Some(TokenIds::Many(tokenizer.eos().to_vec()));
        let mut model = Model::random(config, 7, Device::Cpu, kind)?;
        let rewards = name.starts_with("reward");
        let on_policy = name.ends_with("on_policy");
        if rewards && !on_policy {
            model = model.with_scalar(Scalar::Score, 7)?;
        }
        // The form that PPO trains; other readers ignore the head.
        if name.ends_with("values") {
            model = model.with_scalar(Scalar::Value, 7)?;
        }
        {
            // New biases are 0 and norms 1; noise on everything makes a mistake in any of them show.
            let _guard = tch::no_grad_guard();
            tch::manual_seed(1);
            let noise = Tensor::randn(model.base().flat().size(), (kind, Device::Cpu)) * 0.2;
            let _same = model.base().flat().shallow_clone().f_add_(&noise)?;
        }
        // An adapter on each model, and one on a reward model, with its own head.
        let adapted = name.starts_with("adapter") || name.starts_with("reward_adapter");
        if adapted || name == "merged" {
            let lora = LoraConfig {
                rank: 5,
                alpha: 7.0,
                rank_stabilized: name.ends_with("stabilized"),
                ..LoraConfig::default()
            };
            let base = out.join(format!("base_of_{name}"));
            model.save(&base)?;
            tokenizer.save(&base)?;
            if on_policy {
                model = model.with_scalar(Scalar::Score, 7)?;
            }
            let adapter = Adapter::fresh(model.config(), lora, 3, Device::Cpu, kind)?;
            {
                let _guard = tch::no_grad_guard();
                tch::manual_seed(2);
                let noise = Tensor::randn(
                    adapter.parameters().flat().size(),
                    (Kind::Float, Device::Cpu),
                );
                let _same = adapter
                    .parameters()
                    .flat()
                    .shallow_clone()
                    .f_add_(&(noise * 0.1))?;
            }
            if adapted {
                let base = std::fs::canonicalize(base)?;
                adapter.save(&folder, &base.display().to_string())?;
            }
            model.attach(adapter)?;
        }
        let ids = tokenizer.encode(&texts[3])?;
        let mut said = None;
        if name == "merged" {
            said = Some(model.logits_all(&ids)?);
            model.merge()?;
        }
        if !adapted {
            model.save(&folder)?;
        }
        tokenizer.save(&folder)?;
        if kind == Kind::BFloat16 {
            // A reader of the folder gets the same numbers; its half-precision arithmetic may differ.
            model = Model::load(&folder, Device::Cpu, Kind::Float)?;
        }
        let probes = [
            texts[7].as_str(),
            "x = 4096 * y1;\r\n\t/* ümlaut, 数 */ __builtin_prefetch(&A[0]);   \n",
            "<|task|>for (;;) {}<|end|>",
        ];
        let pairs = probes
            .iter()
            .map(|t| Ok(json!([t, tokenizer.encode(t)?])))
            .collect::<flopsmith_policy::Result<Vec<_>>>()?;
        let (logprobs, reward) = match rewards {
            true => (None, Some(reward(&model, &ids)?)),
            // The merged model gives the logits that the adapter gave.
            false => match said {
                None => (Some(model.logits_all(&ids)?), None),
                said => (said, None),
            },
        };
        let expected = json!({
            "ids": ids,
            "logprobs": logprobs,
            "reward": reward,
            "adapter": adapted,
            "tokens": tokenizer.vocab_size(),
            "eos": tokenizer.eos(),
            "texts": pairs,
        });
        std::fs::write(folder.join("expected.json"), expected.to_string())?;
    }
    Ok(())
}

/// The reward that a reward model gives a whole text.
fn reward(model: &Model, ids: &[u32]) -> flopsmith_policy::Result<Option<f64>> {
    let length = ids.len();
    let ids: Vec<i64> = ids.iter().map(|id| i64::from(*id)).collect();
    let ids = Tensor::from_slice(&ids).view([1, length as i64]);
    let plan = Plan {
        logprobs: false,
        values: true,
        ..Plan::LOGPROBS
    };
    #[expect(
        clippy::single_range_in_vec_init,
        reason = "one range for the one row: the position behind its end"
    )]
    let scores = model.scores(&ids, &[length..length + 1], &[1.0], plan)?;
    Ok(scores.values.first().copied())
}
