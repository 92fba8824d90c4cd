//! Writes models and a tokenizer with this crate, for `tools/parity/check_saved.py` to open with transformers.

use std::path::PathBuf;

use flopsmith_policy::config::TokenIds;
use flopsmith_policy::{Config, Device, Kind, Model, Rope, Tensor, Yarn, train_bpe};
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
        let model = Model::random(config, 7, Device::Cpu, kind)?;
        {
            // Fresh biases are 0 and norms 1; noise on everything makes a mistake in any of them show.
            let _guard = tch::no_grad_guard();
            tch::manual_seed(1);
            let noise = Tensor::randn(model.base().flat().size(), (kind, Device::Cpu)) * 0.2;
            let _same = model.base().flat().shallow_clone().f_add_(&noise)?;
        }
        model.save(&folder)?;
        tokenizer.save(&folder)?;
        let ids = tokenizer.encode(&texts[3])?;
        let probes = [
            texts[7].as_str(),
            "x = 4096 * y1;\r\n\t/* ümlaut, 数 */ __builtin_prefetch(&A[0]);   \n",
            "<|task|>for (;;) {}<|end|>",
        ];
        let pairs = probes
            .iter()
            .map(|t| Ok(json!([t, tokenizer.encode(t)?])))
            .collect::<flopsmith_policy::Result<Vec<_>>>()?;
        let expected = json!({
            "ids": ids,
            "logprobs": model.logits_all(&ids)?,
            "tokens": tokenizer.vocab_size(),
            "eos": tokenizer.eos(),
            "texts": pairs,
        });
        std::fs::write(folder.join("expected.json"), expected.to_string())?;
    }
    Ok(())
}
