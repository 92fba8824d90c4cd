//! Measures whole GRPO steps with known rewards: sampling, advantages, one update. Prints one JSON object.
//!
//! ```text
//! grpo_step CONFIG.json [--samples 64] [--group 8] [--prompt 24] [--tokens 256] [--steps 4]
//! ```
//!
//! CONFIG.json is a Qwen2 config.json; weights are random and every completion runs to its full length. A step's
//! prompts are different, and a group answers each. Seconds are the mean wall time of all steps but the first.

use std::io::Write;
use std::time::Instant;

use flopsmith_config::GrpoConfig;
use flopsmith_learner::{GrpoSample, Learner};
use flopsmith_policy::{Config, Device, Extras, Kind, Model, Request, sample};
use flopsmith_protocol::Sampling;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    flopsmith_policy::keep_freed_memory();
    let mut arguments = std::env::args().skip(1);
    let config = arguments
        .next()
        .ok_or("usage: grpo_step CONFIG.json [--samples N] …")?;
    let (mut samples, mut group, mut prompt) = (64usize, 8usize, 24usize);
    let (mut tokens, mut steps) = (256u32, 4u32);
    while let Some(name) = arguments.next() {
        let value: u32 = arguments
            .next()
            .ok_or(format!("{name} needs a value"))?
            .parse()?;
        match name.as_str() {
            "--samples" => samples = value as usize,
            "--group" => group = value as usize,
            "--prompt" => prompt = value as usize,
            "--tokens" => tokens = value,
            "--steps" => steps = value,
            _ => return Err(format!("unknown option {name}").into()),
        }
    }
    let config = Config::parse(&std::fs::read_to_string(config)?)?;
    let vocabulary = u32::try_from(config.vocab_size)?;
    let model = Model::random(config, 0, Device::Cpu, Kind::Float)?;
    let parameters = model.parameter_count();
    let mut learner = Learner::new(model, GrpoConfig::default(), 0)?;
    let (mut sampling, mut learning) = (0.0, 0.0);
    for step in 0..=steps {
        let began = Instant::now();
        let requests: Vec<Request> = (0..samples)
            .map(|n| Request {
                prompt: (0..prompt)
                    .map(|i| {
                        (step as usize * 31 + n / group * 7919 + i * 104_729) as u32 % vocabulary
                    })
                    .collect(),
                seed: u64::from(step) << 32 | n as u64,
                sampling: Sampling {
                    temperature: 1.0,
                    top_p: 1.0,
                    top_k: 0,
                    max_tokens: tokens,
                },
                detour: None,
                extras: Extras::default(),
            })
            .collect();
        let drawn = sample(&learner.model, &requests, &[], |_| {})?;
        let sampled = began.elapsed().as_secs_f64();
        // Any rewards will do, as long as those of a group differ: they are known, not measured.
        let reward = |n: usize| ((n * 37 + step as usize * 11) % 17) as f64 / 17.0;
        let groups: Vec<Vec<f64>> = (0..samples)
            .collect::<Vec<_>>()
            .chunks(group)
            .map(|members| {
                let mean = members.iter().map(|n| reward(*n)).sum::<f64>() / members.len() as f64;
                let squares = members
                    .iter()
                    .map(|n| (reward(*n) - mean).powi(2))
                    .sum::<f64>();
                let std = (squares / (members.len().max(2) - 1) as f64).sqrt();
                members
                    .iter()
                    .map(|n| (reward(*n) - mean) / (std + 1e-4))
                    .collect()
            })
            .collect();
        let batch: Vec<GrpoSample> = requests
            .into_iter()
            .zip(drawn)
            .zip(groups.concat())
            .map(|((request, sample), advantage)| GrpoSample {
                prompt: request.prompt,
                tokens: sample.tokens,
                old_logprobs: sample.logprobs,
                advantage: advantage as f32,
                temperature: 1.0,
            })
            .collect();
        let report = learner.step(&batch)?;
        assert_eq!(report.updates, 1, "a step is one update");
        if step > 0 {
            sampling += sampled;
            learning += began.elapsed().as_secs_f64() - sampled;
        }
    }
    let per_step = |seconds: f64| seconds / f64::from(steps.max(1));
    writeln!(
        std::io::stdout(),
        "{}",
        serde_json::json!({
            "parameters": parameters, "samples": samples, "tokens": tokens,
            "seconds_per_step": per_step(sampling + learning),
            "sampling_seconds_per_step": per_step(sampling),
            "learning_seconds_per_step": per_step(learning),
        })
    )?;
    Ok(())
}
