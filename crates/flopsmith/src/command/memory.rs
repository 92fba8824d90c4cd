//! Advice on the settings to lower if a model, its training or its samples do not fit into memory.

use flopsmith_policy::error::tells_of_memory;

/// Advice for training by a recipe with this table; `then` names the setting to lower after the batch size of each
/// worker.
pub fn of_training(table: &str, then: &str) -> String {
    format!(
        "lower `micro_batch_tokens` of [{table}] first (the positions in memory at once), then {then}; `activation_checkpointing` keeps less of \
         each position, [{table}.lora] gives only an adapter a gradient and moments, and `dtype = \"bfloat16\"` halves the memory of the weights"
    )
}

/// Advice for sampling.
pub const OF_SAMPLES: &str = "lower `--max-tokens` or the number of samples (`-n`), use weights of half the size (`--dtype bfloat16`), or use a smaller model";

/// Advice for serving a model.
pub const OF_SERVICE: &str = "lower `--cache-mib`, `--rows` or `--max-length`, use weights of half the size (`--dtype bfloat16`), or serve a smaller model";

/// Advice for evaluations.
pub const OF_EVALUATIONS: &str = "lower `--max-tokens` or `--samples`, use weights of half the size (`--dtype bfloat16`), or evaluate a smaller model";

/// Advice for the stages of an alignment.
pub const OF_CHAINS: &str = "lower `micro_batch_tokens` in the table of the stage first (the positions in memory at once), then its `batch` or `batch_tokens`, and for \
     answers `max_tokens` and `samples`; `lora` in the table gives only an adapter a gradient and moments, and `dtype = \"bfloat16\"` halves the memory of the weights";

/// Advice for inspecting or merging a model.
pub const OF_WHOLE: &str = "this command needs memory for the whole model (in single precision; a merge uses the model's own number format); use a machine with more memory";

/// Adds the advice to an error that was caused by too little memory; other errors stay as they are.
pub fn advise(error: anyhow::Error, advice: &str) -> anyhow::Error {
    let short = error
        .chain()
        .any(|cause| tells_of_memory(&cause.to_string()));
    match short {
        true => error.context(format!("memory is short: {advice}")),
        false => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_about_memory_get_advice() {
        let of = |words: &'static str| {
            let error = anyhow::anyhow!(words).context("the training failed");
            format!("{:#}", advise(error, &of_training("dpa", "`batch`")))
        };
        let said = of("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes");
        for part in [
            "memory is short",
            "[dpa]",
            "[dpa.lora]",
            "you tried to allocate",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert_eq!(of("no such file"), "the training failed: no such file");
    }
}
