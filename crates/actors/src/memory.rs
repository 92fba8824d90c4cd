//! Advice on what to lower when memory is short: text for users, made of the numbers at hand. Pure.

use flopsmith_config::{Dtype, Settings};

/// A gradient step that ran out of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Samples.
    pub samples: usize,
    /// Positions of the longest one, prompt and answer.
    pub longest: usize,
    /// `learner.micro_batch_tokens`.
    pub micro_batch_tokens: usize,
}

/// Explains `words`, libtorch's own error, for a gradient step.
///
/// Activations grow with the settings: they are held for one micro-batch at a time, and a micro-batch has at least one
/// sample. If one sample alone or the optimizer's moments need too much, only training less of the model helps.
pub fn training(words: &str, step: Step, settings: &Settings) -> String {
    let Step {
        samples,
        longest,
        micro_batch_tokens,
    } = step;
    let first = if micro_batch_tokens > longest {
        format!(
            "lower `learner.micro_batch_tokens` first ({micro_batch_tokens} positions at once; {longest} suffice for the longest sample)"
        )
    } else {
        format!(
            "`learner.micro_batch_tokens` ({micro_batch_tokens}) holds one sample at a time already"
        )
    };
    let learner = &settings.learner;
    let adapter = learner.lora.is_some();
    let copy = if learner.kl_beta > 0.0 && !adapter {
        "; `learner.kl_beta` above 0 keeps a second copy of the model"
    } else {
        ""
    };
    let mut less = String::new();
    if !learner.activation_checkpointing {
        less.push_str("; `learner.activation_checkpointing` keeps less of each");
    }
    if !adapter {
        less.push_str("; with `learner.lora` only an adapter has a gradient and moments");
    }
    if learner.dtype.is_none_or(|dtype| dtype == Dtype::Float32) {
        less.push_str("; `learner.dtype = \"bfloat16\"` takes half for weights and activations");
    }
    format!(
        "{words}\n  the step has {samples} samples of up to {longest} positions: {first}, then `generator.max_tokens` ({}), then \
         `group_size` ({}) or `tasks` ({}){copy}; fewer `learner.workers` hold fewer micro-batches side by side{less}",
        settings.generator.max_tokens, settings.group_size, settings.tasks
    )
}

/// The same for reading a model together with the data of its training: gradient, moments and master weights, and a
/// reference.
pub fn loading(words: &str, settings: &Settings) -> String {
    let mut less = vec!["`learner.dtype = \"bfloat16\"` takes half for the weights"];
    if settings.learner.lora.is_none() {
        less.insert(0, "with `learner.lora` only an adapter has a gradient and moments, which are three times the weights otherwise");
        if settings.learner.kl_beta > 0.0 {
            less.push("`learner.kl_beta` above 0 keeps a second copy");
        }
    }
    format!(
        "{words}\n  the model in {} and the memory of its training do not fit: {}; or take a smaller model",
        settings.generator.model.display(),
        less.join("; ")
    )
}

/// Answers that were to be sampled at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answers {
    /// Tasks they are answers to.
    pub tasks: usize,
    /// How many there are in all.
    pub answers: usize,
    /// Tokens of the longest prompt.
    pub longest_prompt: usize,
    /// `generator.max_tokens`.
    pub max_tokens: usize,
}

/// The same for sampling: the keys and values of all positions of all answers grow with the settings.
pub fn sampling(words: &str, batch: Answers) -> String {
    let Answers {
        tasks,
        answers,
        longest_prompt,
        max_tokens,
    } = batch;
    let most = longest_prompt + max_tokens;
    format!(
        "{words}\n  {answers} answers to {tasks} tasks, of up to {most} positions each, were asked for: lower how much is written \
         side by side (`generator.cache_mib`, `generator.rows`) or `generator.max_tokens` ({max_tokens}), or take weights of half the size \
         (`generator.dtype = \"bfloat16\"`)"
    )
}

#[cfg(test)]
mod tests {
    use flopsmith_config::LoraConfig;

    use super::*;

    fn settings() -> Settings {
        let mut settings = Settings {
            group_size: 16,
            tasks: 4,
            ..Settings::default()
        };
        settings.generator.max_tokens = 777;
        settings
    }

    #[test]
    fn the_memory_advice_names_settings_to_lower_and_their_values() {
        let step = Step {
            samples: 64,
            longest: 900,
            micro_batch_tokens: 4096,
        };
        let said = training("no memory", step, &settings());
        assert!(said.starts_with("no memory\n"), "{said}");
        let named = [
            "64 samples",
            "4096",
            "900 suffice",
            "`generator.max_tokens` (777)",
            "`group_size` (16)",
        ];
        for part in named {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(!said.contains("kl_beta"), "{said}");
        let batch = Answers {
            tasks: 4,
            answers: 64,
            longest_prompt: 100,
            max_tokens: 777,
        };
        let said = sampling("no memory", batch);
        for part in [
            "64 answers to 4 tasks",
            "877 positions",
            "(777)",
            "generator.cache_mib",
            "generator.rows",
            "generator.dtype",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn a_model_that_does_not_fit_is_told_of_by_name() {
        let mut settings = settings();
        settings.generator.model = "models/huge".into();
        settings.learner.kl_beta = 0.1;
        let said = loading("no memory", &settings);
        for part in ["models/huge", "learner.lora", "learner.dtype", "kl_beta"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        settings.learner.lora = Some(LoraConfig::default());
        let said = loading("no memory", &settings);
        for part in ["learner.lora", "kl_beta"] {
            assert!(!said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn settings_at_their_minimum_are_not_advised_to_be_lowered() {
        let step = Step {
            samples: 8,
            longest: 900,
            micro_batch_tokens: 512,
        };
        let mut settings = settings();
        settings.learner.kl_beta = 0.1;
        let said = training("no memory", step, &settings);
        assert!(said.contains("one sample at a time already"), "{said}");
        assert!(said.contains("second copy"), "{said}");
        assert!(said.contains("learner.lora"), "{said}");
        assert!(said.contains("learner.dtype"), "{said}");
        // With an adapter there is no second copy. A setting that is on already is not advised.
        settings.learner.lora = Some(LoraConfig::default());
        settings.learner.activation_checkpointing = true;
        settings.learner.dtype = Some(Dtype::Bfloat16);
        let said = training("no memory", step, &settings);
        for part in [
            "second copy",
            "learner.lora",
            "activation_checkpointing",
            "learner.dtype",
        ] {
            assert!(!said.contains(part), "{part}: {said}");
        }
    }
}
