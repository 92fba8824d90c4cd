//! A step that does not fit into memory gives an error with this reason, and the process continues.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::process::Command;

use flopsmith_config::GrpoConfig;
use flopsmith_learner::{GrpoSample, Learner};
use flopsmith_policy::{Config, Device, Kind, Model};

/// Set in the process with little memory.
const LIMITED: &str = "FLOPSMITH_TEST_LIMITED";
/// Address space of that process, KiB: enough for libtorch, and not for the step.
const LIMIT: u64 = 6 << 20;

/// A model whose activations are much larger than its weights.
fn learner(micro_batch_tokens: usize) -> Learner {
    let mut config = Config::new(40, 32, 8192, 1, 4, 2);
    config.max_position_embeddings = 64;
    let model = Model::random(config, 3, Device::Cpu, Kind::Float).unwrap();
    let config = GrpoConfig {
        micro_batch_tokens,
        workers: Some(1),
        ..GrpoConfig::default()
    };
    Learner::new(model, config, 5).unwrap()
}

/// Samples that are all different.
fn samples(count: u32) -> Vec<GrpoSample> {
    (0..count)
        .map(|number| GrpoSample {
            prompt: vec![number % 40, number / 40 % 40, number / 1600 % 40],
            tokens: vec![7; 60],
            old_logprobs: vec![-3.7; 60],
            advantage: if number % 2 == 0 { 1.0 } else { -1.0 },
            temperature: 1.0,
        })
        .collect()
}

#[test]
fn a_step_that_does_not_fit_says_that_memory_is_short() {
    if std::env::var_os(LIMITED).is_some() {
        // Activations of one layer alone are 4096 · 63 · 8192 numbers, 8 GiB.
        let error = learner(usize::MAX).step(&samples(4096)).unwrap_err();
        assert!(error.is_out_of_memory(), "{error:?}");
        // The process is still sound.
        let done = learner(2048).step(&samples(8)).unwrap();
        assert_eq!(done.updates, 1);
        return;
    }
    let name = "memory::a_step_that_does_not_fit_says_that_memory_is_short";
    let child = Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -v {LIMIT} && exec \"$0\" \"$@\""))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(LIMITED, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout) + String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}
