//! Language models.

use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Result;
use flopsmith_policy::chat::Message;
use flopsmith_policy::{
    Bounds, Error, Extras, Model as Policy, Request, Tokenizer, fitting_tokenizer, sample_stream,
};
use flopsmith_problem::Problem;
use flopsmith_problem::prompt::{self, Style};
use flopsmith_protocol::Sampling;
use flopsmith_recipes::Placement;
use flopsmith_run::console::{say, usage};
use tokio_util::sync::CancellationToken;

use crate::answer::Answer;
use crate::folder::Folder;
use crate::model::Model;
use crate::prompts::prompt_for;
use crate::{Order, Prompt};

/// Adds the answers that the folder does not have yet. False if a stop was requested before all were there.
///
/// # Errors
/// Wrong usage: a folder without a usable model, and prompts that are too long for it.
pub fn answer(
    order: &Order,
    model: &Model,
    path: &Path,
    folder: &mut Folder,
    stopped: &CancellationToken,
) -> Result<bool> {
    let todo: Vec<(&Problem, Vec<u32>)> = order
        .problems
        .iter()
        .map(|problem| {
            let missing = folder.missing(&model.name, problem.id.as_str());
            (problem.as_ref(), missing)
        })
        .filter(|(_, missing)| !missing.is_empty())
        .collect();
    if todo.is_empty() {
        return Ok(true);
    }
    let (policy, tokenizer) = open(order, path)?;
    let style = match order.prompt {
        Prompt::Compact => Style::Compact,
        Prompt::Nest => Style::Nest,
        Prompt::Full => Style::Full,
        Prompt::Auto if tokenizer.has_chat_template() => Style::Full,
        Prompt::Auto => Style::Compact,
    };
    let mut asked = Vec::with_capacity(todo.len());
    // Every prompt is checked before the first answer.
    for (problem, missing) in todo {
        let text = prompt_for(order, problem, style)?;
        let messages = [Message::user(&text)];
        let ids = tokenizer.encode_messages(&messages, style.is_chat())?;
        let room = policy.config().max_position_embeddings - ids.len() as i64;
        let sampling = Sampling {
            max_tokens: order
                .sampling
                .max_tokens
                .min(u32::try_from(room).unwrap_or(0)),
            ..order.sampling.clone()
        };
        if sampling.max_tokens == 0 {
            return Err(usage(format!(
                "{}: the prompt for {} has {} tokens and leaves no room for an answer, as the model has {} positions; leave the problem out, or try --prompt compact",
                model.name,
                problem.id,
                ids.len(),
                policy.config().max_position_embeddings
            )));
        }
        asked.push((problem, missing, text, ids, sampling));
    }
    let problems = asked.len();
    for (n, (problem, missing, text, ids, sampling)) in asked.into_iter().enumerate() {
        say(&format!(
            "[{}/{problems}] {} answers {} …",
            n + 1,
            model.name,
            problem.id
        ));
        let seed = |number: u32| order.seed.wrapping_add(u64::from(number));
        let requests: Vec<Request> = missing
            .iter()
            .map(|number| Request {
                prompt: ids.clone(),
                seed: seed(*number),
                sampling: sampling.clone(),
                detour: None,
                extras: Extras::default(),
            })
            .collect();
        let bounds = Bounds::on(policy.device());
        let sampled = sample_stream(
            &policy,
            &requests,
            tokenizer.eos(),
            bounds,
            |_| match stopped.is_cancelled() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            },
        );
        let sampled = match sampled {
            Err(Error::Stopped) => return Ok(false),
            sampled => sampled?,
        };
        let mut answers = Vec::with_capacity(sampled.len());
        for (number, sample) in missing.into_iter().zip(sampled) {
            let answer = tokenizer.decode(&sample.tokens)?;
            answers.push(Answer {
                model: model.name.clone(),
                problem: problem.id.as_str().to_owned(),
                number,
                seed: Some(seed(number)),
                prompt: Some(text.clone()),
                program: prompt::extract(&answer, style, problem.language),
                answer: Some(answer),
                finished: Some(sample.finished),
            });
        }
        folder.add_answers(answers)?;
    }
    Ok(true)
}

fn open(order: &Order, path: &Path) -> Result<(Policy, Tokenizer)> {
    let wrong = |e: Error| match e.is_out_of_memory() {
        true => anyhow::Error::new(e),
        false => usage(format!(
            "the model in {} cannot be used: {}",
            path.display(),
            flopsmith_actors::supervisor::words(&e)
        )),
    };
    let at = Placement::of(order.device, Some(order.dtype))?;
    let policy = flopsmith_recipes::load(path, at).map_err(wrong)?;
    let tokenizer = fitting_tokenizer(path, policy.config()).map_err(wrong)?;
    Ok((policy, tokenizer))
}
