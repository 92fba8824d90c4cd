//! `flopsmith model`: look at a model.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use flopsmith_policy::{Device, Kind, Model as Loaded, Request, Tokenizer, inspect, sample};
use flopsmith_problem::prompt;
use flopsmith_protocol::Sampling;

use crate::args::{Format, Model};
use crate::exit::{self, data, say, usage};
use crate::paths;

/// Inspects or samples.
pub fn run(args: &Model) -> Result<ExitCode> {
    match args {
        Model::Inspect {
            folder,
            tokens: Some(tokens),
            ..
        } => logprobs(folder, tokens),
        Model::Inspect {
            folder,
            tokens: None,
            format,
        } => {
            let found = inspect(&paths::model(folder))
                .map_err(|e| usage(flopsmith_actors::supervisor::words(&e)))?;
            if *format == Format::Json {
                data(&serde_json::to_string(&found)?);
            } else {
                describe(&found);
            }
            let usable = found.loads.is_ok() && found.tokenizer.is_ok();
            Ok(ExitCode::from(if usable { exit::OK } else { exit::USAGE }))
        }
        Model::Sample {
            folder,
            problem,
            prompt: text,
            permit,
            full,
            number,
            temperature,
            top_p,
            top_k,
            max_tokens,
            seed,
        } => {
            let (model, tokenizer) = load(folder)?;
            let style = if *full {
                prompt::Style::Full
            } else {
                prompt::Style::Compact
            };
            let text = match (problem, text) {
                (Some(problem), _) => {
                    let definition = paths::problem(problem)?;
                    let permitted = super::problem::permitted(permit.as_deref(), &definition)?;
                    prompt::render(&definition, permitted, None, style)
                }
                (None, Some(text)) => text.clone(),
                (None, None) => return Err(usage("give --problem or --prompt")),
            };
            let ids = encode(&tokenizer, text, style)?;
            let sampling = Sampling {
                temperature: *temperature,
                top_p: *top_p,
                top_k: *top_k,
                max_tokens: *max_tokens,
            };
            let requests: Vec<Request> = (0..u64::from(*number))
                .map(|i| Request {
                    detour: None,
                    prompt: ids.clone(),
                    seed: seed.wrapping_add(i),
                    sampling: sampling.clone(),
                })
                .collect();
            let samples = sample(&model, &requests, tokenizer.eos(), |_| {})?;
            say(&format!("prompt: {} tokens", ids.len()));
            for (i, s) in samples.iter().enumerate() {
                let mean = s.logprobs.iter().sum::<f32>() / s.logprobs.len().max(1) as f32;
                say(&format!(
                    "sample {}: {} tokens, {}, mean log-probability {mean:.3}",
                    i + 1,
                    s.tokens.len(),
                    if s.finished {
                        "ended by itself"
                    } else {
                        "cut at the limit"
                    }
                ));
                data(tokenizer.decode(&s.tokens)?.trim_end());
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The ids of a prompt, as the generator makes them: a full one is a message to a chat model.
pub fn encode(
    tokenizer: &Tokenizer,
    text: String,
    style: prompt::Style,
) -> flopsmith_policy::Result<Vec<u32>> {
    if style == prompt::Style::Full && tokenizer.has_chat_template() {
        tokenizer.encode_chat(&[flopsmith_policy::chat::Message::user(text)])
    } else {
        tokenizer.encode(&text)
    }
}

fn describe(found: &flopsmith_policy::Inspection) {
    data(&format!("architecture  {}", found.architecture));
    data(&format!(
        "parameters    {:.2} M",
        found.parameters as f64 / 1e6
    ));
    for (kind, bytes) in &found.memory_bytes {
        data(&format!(
            "memory        {:.1} MB as {kind}",
            *bytes as f64 / 1e6
        ));
    }
    match &found.tokenizer {
        Ok(t) => data(&format!(
            "tokenizer     {} tokens, end tokens {:?}, {} chat template",
            t.tokens,
            t.eos,
            if t.chat_template { "with a" } else { "no" }
        )),
        Err(e) => data(&format!(
            "tokenizer     unusable: {}",
            flopsmith_actors::supervisor::words(e)
        )),
    }
    match &found.loads {
        Ok(()) => data("loads         yes"),
        Err(e) => data(&format!(
            "loads         no: {}",
            flopsmith_actors::supervisor::words(e)
        )),
    }
}

fn load(folder: &Path) -> Result<(Loaded, Tokenizer)> {
    let folder = paths::model(folder);
    let wrong = |e: &dyn std::error::Error| usage(flopsmith_actors::supervisor::words(e));
    let model =
        Loaded::load(&folder, Device::cuda_if_available(), Kind::Float).map_err(|e| wrong(&e))?;
    let tokenizer = Tokenizer::load(&folder).map_err(|e| wrong(&e))?;
    Ok((model, tokenizer))
}

fn logprobs(folder: &Path, tokens: &[u32]) -> Result<ExitCode> {
    let folder = paths::model(folder);
    let wrong = |e: &dyn std::error::Error| usage(flopsmith_actors::supervisor::words(e));
    let model =
        Loaded::load(&folder, Device::cuda_if_available(), Kind::Float).map_err(|e| wrong(&e))?;
    let vocabulary = model.config().vocab_size as usize;
    if let Some(bad) = tokens.iter().find(|t| **t as usize >= vocabulary) {
        return Err(usage(format!(
            "token {bad} is outside the vocabulary of {vocabulary}"
        )));
    }
    if tokens.is_empty() {
        return Err(usage(
            "--tokens needs at least one token id, e.g. --tokens 1,2,3",
        ));
    }
    let logprobs = model.logits_all(tokens)?;
    data(&serde_json::json!({ "tokens": tokens, "logprobs": logprobs }).to_string());
    Ok(ExitCode::SUCCESS)
}
