//! Measures sampling speed on a `config.json`, for comparison with the same shapes in plain PyTorch.
//!
//! `sample_speed CONFIG.json [--batch 64] [--prompt 32] [--tokens 256] [--steps 3] [--threads 2] [--prompts 64] [--rows 256] [--cache-mib MIB] [--dtype float32] [--device cpu]`
//!
//! Every row runs to its full length. `--prompts` is the number of distinct prompts in the batch, `--rows` the largest
//! number of rows in flight. Prints one JSON object; `sample_tokens_per_s` is the best of `--steps` after a warm-up step, and
//! `median_tokens_per_s` their median.
//! `peak_memory_mib` is the peak memory of sampling: it includes the model, but not the memory that only building the
//! model took. `tokens_per_cpu_s` counts the processor time of all threads, which other programs disturb less.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Instant;

use flopsmith_policy::{Bounds, Config, Device, Extras, Kind, Model, Request, sample_stream};
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
            ("rows", Bounds::default().rows),
            ("cache-mib", 0),
        ]
        .map(|(k, v)| (k.to_owned(), v)),
    );
    let mut dtype = "float32".to_owned();
    let mut device = Device::Cpu;
    while let (Some(key), Some(value)) = (arguments.next(), arguments.next()) {
        let key = key.trim_start_matches("--").to_owned();
        if key == "dtype" {
            dtype = value;
            continue;
        }
        if key == "device" {
            device = match value.as_str() {
                "cpu" => Device::Cpu,
                "cuda" => Device::Cuda(0),
                other => return Err(format!("--device {other}: cpu or cuda").into()),
            };
            continue;
        }
        if !options.contains_key(&key) {
            return Err(format!("unknown option --{key}").into());
        }
        options.insert(key, value.parse::<usize>()?);
    }
    let get = |k: &str| options.get(k).copied().unwrap_or(1);
    let (batch, prompt, tokens) = (get("batch"), get("prompt"), get("tokens"));
    flopsmith_policy::keep_freed_memory();
    flopsmith_policy::threads::compute_on(get("threads"));
    let mut config = Config::parse(&std::fs::read_to_string(path)?)?;
    config.max_position_embeddings = config.max_position_embeddings.max((prompt + tokens) as i64);
    let vocabulary = config.vocab_size as usize;
    let kind = match dtype.as_str() {
        "float32" => Kind::Float,
        "bfloat16" => Kind::BFloat16,
        other => return Err(format!("--dtype {other}: float32 or bfloat16").into()),
    };
    let model = Model::noise(config, 0, device, kind)?;
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
    let usual = Bounds::on(device);
    let bounds = Bounds {
        rows: get("rows"),
        cache_bytes: match get("cache-mib") {
            0 => usual.cache_bytes,
            mib => mib << 20,
        },
    };
    // The memory for building the model does not count for sampling.
    std::fs::write("/proc/self/clear_refs", "5")?;
    let (mut best, mut least) = (f64::INFINITY, f64::INFINITY);
    let mut seconds = Vec::new();
    for step in 0..=get("steps") {
        let (begun, before) = (Instant::now(), cpu_seconds()?);
        let answers = sample_stream(
            &model,
            &requests,
            &[],
            bounds,
            |_| ControlFlow::Continue(()),
        )?;
        if answers.iter().any(|a| a.tokens.len() != tokens) {
            return Err("a row ended early".into());
        }
        let wall = begun.elapsed().as_secs_f64();
        best = best.min(wall);
        // The first step warms up.
        if step > 0 {
            seconds.push(wall);
        }
        least = least.min(cpu_seconds()? - before);
    }
    let middle = median(seconds).unwrap_or(best);
    println!(
        "{}",
        serde_json::json!({
            "parameters": model.parameter_count(), "batch": batch, "prompt": prompt, "tokens": tokens,
            "threads": get("threads"), "dtype": dtype, "peak_memory_mib": peak()?, "sample_tokens_per_s": ((batch * tokens) as f64 / best).round(),
            "median_tokens_per_s": ((batch * tokens) as f64 / middle).round(), "tokens_per_cpu_s": ((batch * tokens) as f64 / least).round(),
        })
    );
    Ok(())
}

/// The median of some numbers; none of no number.
fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let upper = numbers.get(numbers.len() / 2)?;
    let lower = numbers.get((numbers.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

/// Peak memory of this process since the last reset, in MiB.
fn peak() -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().strip_suffix(" kB"));
    Ok(kib
        .ok_or("the kernel tells no peak")?
        .trim()
        .parse::<u64>()?
        / 1024)
}

/// Processor time of all threads of this process, in seconds.
fn cpu_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // After the name, which may contain any character, user and system time are the 12th and the 13th number, in
    // hundredths of a second.
    let (_, fields) = stat.rsplit_once(')').ok_or("the kernel tells no times")?;
    let times = fields.split_whitespace().skip(11).take(2);
    let ticks: Vec<u64> = times.map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<u64>() as f64 / 100.0)
}
