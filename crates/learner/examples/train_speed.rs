//! Measures training speed on the shapes of a plain PyTorch loop. Prints one JSON object.
//!
//! ```text
//! train_speed CONFIG.json [--batch 64] [--prompt 32] [--tokens 256] [--steps 3] [--micro POSITIONS] [--workers N] [--lora RANK] [--recompute 1] [--dtype float32] [--device cpu]
//! ```
//!
//! CONFIG.json is a Qwen2 config.json; weights are random and all rows have the same length. A step is one GRPO update
//! on `--batch` rows; tokens/s counts all positions, and the figure is the best of `--steps`.

use std::io::Write;

use flopsmith_config::{Correction, GrpoConfig};
use flopsmith_learner::{GrpoSample, Learner};
use flopsmith_policy::{Config, Device, Kind, LoraConfig, Model};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    flopsmith_policy::keep_freed_memory();
    let mut arguments = std::env::args().skip(1);
    let config = arguments
        .next()
        .ok_or("usage: train_speed CONFIG.json [--batch N] …")?;
    let (mut batch, mut prompt, mut tokens, mut steps) = (64usize, 32usize, 256usize, 3usize);
    let mut grpo = GrpoConfig {
        learning_rate: 1e-5,
        // The other side needs no separate pass for the policy at the start of a step.
        correction: Correction::None,
        ..GrpoConfig::default()
    };
    let (mut kind, mut device) = (Kind::Float, Device::Cpu);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        match (name.as_str(), value.as_str()) {
            ("--dtype", "float32") | ("--device", "cpu") => continue,
            ("--dtype", "bfloat16") => {
                kind = Kind::BFloat16;
                continue;
            }
            ("--device", "cuda") => {
                device = Device::Cuda(0);
                continue;
            }
            _ => {}
        }
        let value: usize = value.parse()?;
        match name.as_str() {
            "--batch" => batch = value,
            "--prompt" => prompt = value,
            "--tokens" => tokens = value,
            "--steps" => steps = value,
            "--micro" => grpo.micro_batch_tokens = value,
            "--workers" => grpo.workers = Some(value),
            "--lora" => {
                grpo.lora = Some(LoraConfig {
                    rank: u32::try_from(value)?,
                    ..LoraConfig::default()
                });
            }
            "--recompute" => grpo.activation_checkpointing = value > 0,
            _ => return Err(format!("unknown option {name}").into()),
        }
    }
    let config = Config::parse(&std::fs::read_to_string(config)?)?;
    let vocabulary = u32::try_from(config.vocab_size)?;
    let model = Model::noise(config, 0, device, kind)?;
    let parameters = model.parameter_count();
    let samples: Vec<GrpoSample> = (0..batch)
        .map(|row| {
            // Any tokens work if neighbours differ.
            let id = |i: usize| (row * 7919 + i * 104_729) as u32 % vocabulary;
            GrpoSample {
                prompt: (0..prompt).map(id).collect(),
                tokens: (prompt..prompt + tokens).map(id).collect(),
                old_logprobs: vec![-(vocabulary as f32).ln(); tokens],
                advantage: if row % 2 == 0 { 1.0 } else { -1.0 },
                temperature: 1.0,
            }
        })
        .collect();
    let micro = grpo.micro_batch_tokens;
    let mut learner = Learner::new(model, grpo, 0)?;
    if steps > 1 {
        learner.step(&samples)?;
    }
    let mut seconds = f64::INFINITY;
    for _ in 0..steps {
        seconds = seconds.min(learner.step(&samples)?.seconds);
    }
    let rate = (batch * (prompt + tokens)) as f64 / seconds;
    writeln!(
        std::io::stdout(),
        "{{\"parameters\": {parameters}, \"batch\": {batch}, \"prompt\": {prompt}, \"tokens\": {tokens}, \"micro_batch_tokens\": {micro}, \"train_tokens_per_s\": {rate:.2}, \"peak_memory_mib\": {}}}",
        peak_mib()?
    )?;
    Ok(())
}

/// Peak memory of this process.
fn peak_mib() -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"));
    let kib = line.and_then(|l| l.split_whitespace().nth(1));
    Ok(kib.ok_or("no VmHWM in /proc/self/status")?.parse::<u64>()? / 1024)
}
