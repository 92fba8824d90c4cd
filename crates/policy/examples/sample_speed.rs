//! Sampling speed on a `config.json`, to be held against the same shapes in plain PyTorch.
//!
//! `sample_speed CONFIG.json [--batch 64] [--prompt 32] [--tokens 256] [--steps 3] [--threads 2] [--prompts 64]`
//!
//! Every row runs to its full length. `--prompts` is the number of distinct prompts in the batch. Prints one JSON object; the figure is the best of `--steps`.

use std::collections::HashMap;
use std::time::Instant;

use flopsmith_policy::{Config, Device, Extras, Kind, Model, Request, sample};
use flopsmith_protocol::Sampling;

#[expect(clippy::print_stdout, reason = "its output")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments
        .next()
        .ok_or("usage: sample_speed CONFIG.json …")?;
    let mut options = HashMap::from(
        [
            ("batch", 64),
            ("prompt", 32),
            ("tokens", 256),
            ("steps", 3),
            ("threads", 2),
            ("prompts", 64),
        ]
        .map(|(k, v)| (k.to_owned(), v)),
    );
    while let (Some(key), Some(value)) = (arguments.next(), arguments.next()) {
        let key = key.trim_start_matches("--").to_owned();
        if !options.contains_key(&key) {
            return Err(format!("unknown option --{key}").into());
        }
        options.insert(key, value.parse::<usize>()?);
    }
    let get = |k: &str| options.get(k).copied().unwrap_or(1);
    let (batch, prompt, tokens) = (get("batch"), get("prompt"), get("tokens"));
    flopsmith_policy::keep_freed_memory();
    tch::set_num_threads(i32::try_from(get("threads"))?);
    let mut config = Config::parse(&std::fs::read_to_string(path)?)?;
    config.max_position_embeddings = config.max_position_embeddings.max((prompt + tokens) as i64);
    let vocabulary = config.vocab_size as usize;
    let model = Model::random(config, 0, Device::Cpu, Kind::Float)?;
    let requests: Vec<Request> = (0..batch)
        .map(|row| Request {
            detour: None,
            extras: Extras::default(),
            prompt: (0..prompt)
                .map(|i| ((row % get("prompts") * 7919 + i * 104_729) % vocabulary) as u32)
                .collect(),
            seed: row as u64,
            sampling: Sampling {
                temperature: 1.0,
                top_p: 1.0,
                top_k: 0,
                max_tokens: tokens as u32,
            },
        })
        .collect();
    let mut best = f64::INFINITY;
    for _ in 0..=get("steps") {
        let begun = Instant::now();
        let answers = sample(&model, &requests, &[], |_| {})?;
        if answers.iter().any(|a| a.tokens.len() != tokens) {
            return Err("a row ended early".into());
        }
        best = best.min(begun.elapsed().as_secs_f64());
    }
    println!(
        "{}",
        serde_json::json!({
            "parameters": model.parameter_count(), "batch": batch, "prompt": prompt, "tokens": tokens,
            "threads": get("threads"), "sample_tokens_per_s": ((batch * tokens) as f64 / best).round(),
        })
    );
    Ok(())
}
