//! `flopsmith sft` with files of examples: prompts of any kind and their answers.

use std::path::Path;

use anyhow::Result;
use flopsmith_config::recipe::Examples as Recipe;
use flopsmith_generator::measured::instructions::Instruction;
use flopsmith_learner::{SftReport, SftTraining};
use flopsmith_policy::Model;
use flopsmith_protocol::Digest;
use flopsmith_run::console::{data, say, usage};
use flopsmith_run::{jsonl, paths};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Order;
use crate::checkpoints::Checkpoints;
use crate::fit::fit;
use crate::{Placement, Reader, apart, beside, keep_report, open, refused, save, say_placement};
use flopsmith_run::exit::{INTERRUPTED, OK};

/// The report on a finished model.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Report {
    /// Digest of the `model.safetensors`, or `adapter_model.safetensors`, that all this is of.
    model: Digest,
    /// Examples of the training.
    examples: usize,
    /// Examples that do not fit the model's positions and were left out, those for validation included.
    left_out: usize,
    /// Weights in all.
    parameters: i64,
    /// The report of the training.
    training: SftReport,
}

/// Trains by a recipe.
pub fn run(order: &Order<'_>, text: &str) -> Result<u8> {
    let recipe: Recipe = flopsmith_config::read(text, &order.recipe.display().to_string())?;
    let output = order.output();
    let at = Placement::of(recipe.device, recipe.dtype)?;
    let adapts = at.adapts(&paths::model(&beside(order.recipe, &recipe.model)));
    let sft = recipe.sft.clone().on(adapts);
    apart(order.recipe, &recipe.model, &output, sft.lora.is_some())?;
    let (checkpoints, saved) = Checkpoints::open(&output, text, order.resume)?;
    let (model, reader) = open(order.recipe, &recipe.model, recipe.chat, at)?;
    say_placement(&model, sft.lora.as_ref());
    let (examples, mut left_out) = read(&beside(order.recipe, &recipe.examples), &reader, &model)?;
    let validation = match &recipe.validation {
        Some(file) => {
            let (validation, more) = read(&beside(order.recipe, file), &reader, &model)?;
            left_out += more;
            validation
        }
        None => Vec::new(),
    };
    if examples.is_empty() {
        return Err(usage(format!(
            "no training example in {} fits the model's {} positions ({left_out} are too long)",
            recipe.examples.display(),
            model.config().max_position_embeddings
        )));
    }
    let (count, parameters) = (examples.len(), model.parameter_count());
    say(&format!(
        "{count} examples to train on, {} to validate on, {left_out} too long; {parameters} weights",
        validation.len()
    ));
    let mut training = SftTraining::new(model, &examples, &sft, &validation).map_err(refused)?;
    let shown = |place: usize| {
        let (prompt, answer) = &examples[place];
        json!({
            "prompt": reader.text(prompt), "prompt_tokens": prompt,
            "answer": reader.text(answer), "answer_tokens": answer,
        })
    };
    let (saved, every) = (saved.as_ref(), recipe.checkpoint_every);
    let fitted = fit(order, &mut training, &checkpoints, saved, every, shown)?;
    let Some(skipped) = fitted else {
        return Ok(INTERRUPTED);
    };
    let digest = save(
        &training.model,
        &reader.tokenizer,
        &output,
        Some(&reader.base),
    )?;
    let report = Report {
        model: digest,
        examples: count,
        left_out,
        parameters,
        training: training.finish()?,
    };
    keep_report(&output, &report)?;
    checkpoints.clear()?;
    if let Some(perplexity) = report.training.perplexity {
        say(&format!(
            "perplexity {perplexity:.3} of the validation answers"
        ));
    }
    skipped.tell();
    say(&format!("the model is in {}", output.display()));
    if order.json {
        data(&serde_json::to_string(&report)?);
    }
    Ok(OK)
}

type Tokens = (Vec<u32>, Vec<u32>);

/// Reads a file of examples as token ids. Also returns the number of examples that are too long for the model.
fn read(file: &Path, reader: &Reader, model: &Model) -> Result<(Vec<Tokens>, usize)> {
    let lines = jsonl::read(file, |line: &Instruction| {
        match line.prompt.is_empty() || line.answer.is_empty() {
            true => Err("`prompt` or `answer` is empty"),
            false => Ok(()),
        }
    })?;
    let most = usize::try_from(model.config().max_position_embeddings).unwrap_or(usize::MAX);
    let mut examples = Vec::with_capacity(lines.len());
    for line in &lines {
        let example = (reader.prompt(&line.prompt)?, reader.answer(&line.answer)?);
        if example.0.len() + example.1.len() <= most {
            examples.push(example);
        }
    }
    let left_out = lines.len() - examples.len();
    Ok((examples, left_out))
}
