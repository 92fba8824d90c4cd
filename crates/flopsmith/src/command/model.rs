//! `flopsmith model`: inspects, samples and merges models; `model_plan` plans their memory, and `model_serve` serves them.

use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use flopsmith_policy::{
    Adapter, Bounds, Device, End, Extras, Kind, Model as Loaded, Request, Stops, Tokenizer,
    inspect, sample_stream,
};
use flopsmith_problem::prompt::Style;
use flopsmith_protocol::Sampling;
use flopsmith_recipes::Placement;
use flopsmith_run::console::{data, piece, say, usage};
use flopsmith_run::paths;

use crate::args::{Dtype, Format, Model, Precision};
use crate::exit;

/// Executes a subcommand.
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
            let usable =
                found.loads.is_ok() && found.tokenizer.is_ok() && found.chat_template.is_ok();
            Ok(ExitCode::from(if usable { exit::OK } else { exit::USAGE }))
        }
        Model::Plan {
            folder,
            gpu,
            context,
            group,
            format,
        } => super::model_plan::run(&super::model_plan::Asked {
            folder,
            gpu_bytes: *gpu,
            context: *context,
            group: *group,
            format: *format,
        }),
        Model::Merge {
            adapter,
            output,
            dtype,
        } => merge(adapter, output, *dtype),
        Model::Serve(args) => super::model_serve::run(args),
        Model::Sample {
            folder,
            problem,
            prompt: text,
            permit,
            full,
            nest,
            number,
            temperature,
            top_p,
            top_k,
            min_p,
            max_tokens,
            stop,
            repeats,
            dtype,
            device,
            stream,
            seed,
        } => {
            let (model, tokenizer) = load(folder, *dtype, *device)?;
            let style = match (*full, *nest) {
                (true, _) => Style::Full,
                (_, true) => Style::Nest,
                _ => Style::Compact,
            };
            let text = match (problem, text) {
                (Some(problem), _) => {
                    let definition = paths::any(problem)?;
                    let permitted = super::problem::permitted(permit.as_deref(), &definition, 1)?;
                    super::problem::asked(&definition, permitted, style)?
                }
                (None, Some(text)) => text.clone(),
                (None, None) => return Err(usage("give --problem or --prompt")),
            };
            let messages = [flopsmith_policy::chat::Message::user(text)];
            let ids = tokenizer.encode_messages(&messages, style.is_chat())?;
            let sampling = Sampling {
                temperature: *temperature,
                top_p: *top_p,
                top_k: *top_k,
                max_tokens: *max_tokens,
            };
            let tokenizer = Arc::new(tokenizer);
            let stops = Stops::new(Arc::clone(&tokenizer), stop.clone());
            let stops = Arc::new(stops);
            let extras = Extras {
                min_p: *min_p,
                stops: (!stop.is_empty()).then(|| Arc::clone(&stops)),
                repeats: *repeats,
                ..Extras::default()
            };
            let requests: Vec<Request> = (0..u64::from(*number))
                .map(|i| Request {
                    detour: None,
                    extras: extras.clone(),
                    prompt: ids.clone(),
                    seed: seed.wrapping_add(i),
                    sampling: sampling.clone(),
                })
                .collect();
            say(&format!("prompt: {} tokens", ids.len()));
            let mut typed = Typed::default();
            let samples = sample_stream(
                &model,
                &requests,
                tokenizer.eos(),
                Bounds::on(model.device()),
                |tokens| {
                    if *stream {
                        typed.add(&tokenizer, &stops, tokens);
                    }
                    ControlFlow::Continue(())
                },
            )?;
            if *stream && let Some(sample) = samples.first() {
                let text = tokenizer.decode(&sample.tokens)?;
                data(&text_end(stops.cut(&text), typed.shown));
            }
            for (i, s) in samples.iter().enumerate() {
                let mean = s.logprobs.iter().sum::<f32>() / s.logprobs.len().max(1) as f32;
                say(&format!(
                    "sample {}: {} tokens, {}, mean log-probability {mean:.3}",
                    i + 1,
                    s.tokens.len(),
                    match s.end {
                        End::Token => "ended by itself",
                        End::Stop => "ended at a stop string",
                        End::Repetition => "cut because it repeated itself",
                        End::Length => "cut at the limit",
                    }
                ));
                let text = tokenizer.decode(&s.tokens)?;
                if !*stream {
                    data(stops.cut(&text).trim_end());
                }
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Writes the base model of an adapter with the adapter merged into its weights.
fn merge(adapter: &Path, output: &Path, dtype: Option<Precision>) -> Result<ExitCode> {
    let folder = paths::model(adapter);
    if !Adapter::is_in(&folder) {
        return Err(usage(format!(
            "there is no adapter in {}: it needs adapter_config.json and adapter_model.safetensors",
            folder.display()
        )));
    }
    if output.exists() && std::fs::read_dir(output).is_ok_and(|mut d| d.next().is_some()) {
        return Err(usage(format!(
            "{} exists and is not empty; name another folder",
            output.display()
        )));
    }
    let wrong = |e: &dyn std::error::Error| usage(flopsmith_actors::supervisor::words(e));
    let config = Loaded::check(&folder).map_err(|e| wrong(&e))?;
    let stored = ["dtype", "torch_dtype"].into_iter();
    let stored = stored
        .filter_map(|key| config.other.get(key)?.as_str())
        .next();
    let kind = match (dtype, stored) {
        (Some(Precision::Float32), _) => Kind::Float,
        (Some(Precision::Bfloat16), _) | (None, Some("bfloat16")) => Kind::BFloat16,
        (Some(Precision::Float16), _) | (None, Some("float16")) => Kind::Half,
        (None, _) => Kind::Float,
    };
    let mut model = Loaded::load(&folder, Device::Cpu, kind).map_err(|e| wrong(&e))?;
    let tokenizer =
        flopsmith_policy::fitting_tokenizer(&folder, model.config()).map_err(|e| wrong(&e))?;
    model.merge()?;
    model.save(output)?;
    tokenizer.save(output)?;
    say(&format!(
        "the model with its adapter merged, {:.1} M weights, is in {}",
        model.parameter_count() as f64 / 1e6,
        output.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// A sample that is printed as it is generated.
#[derive(Default)]
struct Typed {
    tokens: Vec<u32>,
    /// Number of bytes of its text that are printed.
    shown: usize,
}

impl Typed {
    /// Prints the text that is certain by now, without an incomplete character and without a possible beginning of a
    /// stop string.
    fn add(&mut self, tokenizer: &Tokenizer, stops: &Stops, tokens: &[(usize, u32)]) {
        self.tokens.extend(tokens.iter().map(|(_, token)| token));
        let Ok(text) = tokenizer.decode(&self.tokens) else {
            return;
        };
        let certain = stops.certain(text.trim_end_matches('\u{fffd}'));
        if let Some(new) = certain.get(self.shown..)
            && !new.is_empty()
        {
            piece(new);
            self.shown += new.len();
        }
    }
}

/// The rest of a text of which `shown` bytes are printed.
fn text_end(text: &str, shown: usize) -> String {
    text.get(shown..).unwrap_or_default().trim_end().to_owned()
}

fn describe(found: &flopsmith_policy::Inspection) {
    data(&format!("architecture  {}", found.architecture));
    if let Some(stretched) = found.config.rope.name() {
        data(&format!("rotary        stretched: {stretched}"));
    }
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
    if let Err(e) = &found.chat_template {
        data(&format!(
            "template      unusable: {}",
            flopsmith_actors::supervisor::words(e)
        ));
    }
    if found.untied {
        data("head          its own, although config.json ties it to the embedding");
    }
    match &found.loads {
        Ok(()) => data("loads         yes"),
        Err(e) => data(&format!(
            "loads         no: {}",
            flopsmith_actors::supervisor::words(e)
        )),
    }
}

/// The model of a folder, and its tokenizer.
pub fn load(
    folder: &Path,
    dtype: Option<Dtype>,
    device: flopsmith_config::Device,
) -> Result<(Loaded, Tokenizer)> {
    let folder = paths::model(folder);
    let wrong = |e: &dyn std::error::Error| usage(flopsmith_actors::supervisor::words(e));
    let dtype = dtype.map(|dtype| match dtype {
        Dtype::Float32 => flopsmith_config::Dtype::Float32,
        Dtype::Bfloat16 => flopsmith_config::Dtype::Bfloat16,
        Dtype::Auto => flopsmith_config::Dtype::Auto,
    });
    let at = Placement::of(device, dtype)?;
    let model = flopsmith_recipes::load(&folder, at).map_err(|e| match e.is_out_of_memory() {
        true => anyhow::Error::new(e),
        false => wrong(&e),
    })?;
    let tokenizer =
        flopsmith_policy::fitting_tokenizer(&folder, model.config()).map_err(|e| wrong(&e))?;
    Ok((model, tokenizer))
}

fn logprobs(folder: &Path, tokens: &[u32]) -> Result<ExitCode> {
    let folder = paths::model(folder);
    let wrong = |e: &dyn std::error::Error| usage(flopsmith_actors::supervisor::words(e));
    let device = flopsmith_policy::device::usable(flopsmith_config::Device::Auto)?;
    let model = Loaded::load(&folder, device, Kind::Float).map_err(|e| wrong(&e))?;
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
