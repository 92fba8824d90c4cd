//! Language models behind endpoints.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use anyhow::Result;
use flopsmith_config::Endpoint;
use flopsmith_endpoint::{Ask, Client, Error, Key, Reason, Reply, Spending};
use flopsmith_problem::Problem;
use flopsmith_problem::prompt::{self, Style};
use flopsmith_run::console::{say, usage};
use flopsmith_run::endpoint::{ask_all, unusable};
use tokio_util::sync::CancellationToken;

use crate::answer::Answer;
use crate::folder::Folder;
use crate::model::{Kind, Model};
use crate::prompts::prompt_for;
use crate::{Order, Prompt};

/// Checks before any model answers that the endpoint's key is there, if answers are missing.
///
/// # Errors
/// Wrong usage: the environment has no key.
pub fn check(order: &Order, model: &Model, folder: &Folder) -> Result<()> {
    let Kind::Endpoint(endpoint) = &model.kind else {
        return Ok(());
    };
    if asks(order, model, folder)?.is_empty() {
        return Ok(());
    }
    Key::of(endpoint).map_err(unusable)?;
    Ok(())
}

/// Adds the answers that the folder does not have yet, each as it ends. False if a stop was requested before all were
/// asked for. An answer that the endpoint did not give stays missing.
///
/// # Errors
/// Wrong usage: the endpoint refuses every request. Files that cannot be written.
pub fn answer(
    order: &Order,
    model: &Model,
    endpoint: &Endpoint,
    folder: &mut Folder,
    stopped: &CancellationToken,
) -> Result<bool> {
    let asks = asks(order, model, folder)?;
    if asks.is_empty() {
        return Ok(true);
    }
    let before = Spending::of(folder.evaluation().requests(&model.name));
    let journal = folder.journal(&model.name)?;
    let name = format!("{} ({})", model.name, endpoint.url);
    let client = Client::open(endpoint, &order.sampling, &before, journal)
        .map_err(unusable)?
        .telling(Box::new(move |repetition| {
            say(&format!("{name}: {repetition}"))
        }));
    if client.shows_key() {
        say(&format!(
            "warning: {}: the URL begins with http://, so the key goes through the network unencrypted",
            model.name
        ));
    }
    let mut answers = Answers {
        order,
        model,
        style: style(order),
        total: asks.len(),
        ended: 0,
        client: &client,
        folder: &mut *folder,
        refused: Vec::new(),
        failed: None,
    };
    let asked = ask_all(&client, asks, stopped, |ask, reply| {
        answers.take(ask, reply)
    })?;
    let Answers {
        refused, failed, ..
    } = answers;
    if let Some(error) = failed {
        return Err(error);
    }
    folder.read_requests()?;
    if asked && client.is_denied() {
        // Requests that were under way then may have ended later.
        let requests = folder.evaluation().requests(&model.name);
        let denied = requests.filter(|entry| entry.reason == Some(Reason::Denied));
        let why = denied.last().map(|entry| entry.detail.clone());
        let why = why.unwrap_or_default();
        return Err(usage(format!(
            "{}: {} refuses every request: {why}; check the URL, the model's name and the key",
            model.name, endpoint.url
        )));
    }
    refused.iter().for_each(|line| say(line));
    Ok(asked)
}

/// Takes answers as they end.
struct Answers<'a> {
    order: &'a Order,
    model: &'a Model,
    style: Style,
    total: usize,
    ended: usize,
    client: &'a Client,
    folder: &'a mut Folder,
    /// Messages about refusals before the first answer. If none comes, all requests are refused, and one message says so.
    refused: Vec<String>,
    failed: Option<anyhow::Error>,
}

impl Answers<'_> {
    fn take(&mut self, ask: Ask, reply: Result<Reply, Error>) -> ControlFlow<()> {
        self.ended += 1;
        let of = format!(
            "[{}/{}] {}: answer {} to {}",
            self.ended, self.total, self.model.name, ask.number, ask.problem
        );
        let reply = match reply {
            Ok(reply) => reply,
            // The journal has the reason, and the results name it. A reason that all answers share is said once, at the end.
            Err(error) => match error.reason() {
                Some(reason) => {
                    let line = format!("{of} is missing: {error}");
                    match reason {
                        Reason::Budget => {}
                        Reason::Denied if !self.client.has_answered() => self.refused.push(line),
                        _ => say(&line),
                    }
                    return ControlFlow::Continue(());
                }
                None => {
                    self.failed = Some(error.into());
                    return ControlFlow::Break(());
                }
            },
        };
        for line in self.refused.drain(..) {
            say(&line);
        }
        let tokens = reply.amount.output_tokens;
        say(&format!("{of} has {tokens} tokens"));
        let mut problems = self.order.problems.iter();
        let Some(problem) = problems.find(|p| p.id.as_str() == ask.problem) else {
            return ControlFlow::Continue(());
        };
        let answer = Answer {
            model: self.model.name.clone(),
            problem: ask.problem,
            number: ask.number,
            seed: Some(ask.seed),
            prompt: Some(ask.prompt),
            program: prompt::extract(&reply.text, self.style, problem.language),
            answer: Some(reply.text),
            finished: reply.finished,
        };
        match self.folder.add_answers(vec![answer]) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// The requests for the answers that are missing: first the first answers to all problems, then the second ones, so that a
/// budget that ends early leaves no problem without answers.
fn asks(order: &Order, model: &Model, folder: &Folder) -> Result<Vec<Ask>> {
    let style = style(order);
    let mut rounds: BTreeMap<u32, Vec<(&Problem, String)>> = BTreeMap::new();
    for problem in &order.problems {
        let missing = folder.missing(&model.name, problem.id.as_str());
        if missing.is_empty() {
            continue;
        }
        let text = prompt_for(order, problem, style)?;
        for number in missing {
            let round = rounds.entry(number).or_default();
            round.push((problem.as_ref(), text.clone()));
        }
    }
    let asks = rounds.into_iter().flat_map(|(number, round)| {
        round.into_iter().map(move |(problem, prompt)| Ask {
            problem: problem.id.as_str().to_owned(),
            number,
            prompt,
            seed: order.seed.wrapping_add(u64::from(number)),
        })
    });
    Ok(asks.collect())
}

/// Models behind endpoints read messages, so the whole task in words is the usual prompt.
fn style(order: &Order) -> Style {
    match order.prompt {
        Prompt::Compact => Style::Compact,
        Prompt::Nest => Style::Nest,
        Prompt::Auto | Prompt::Full => Style::Full,
    }
}
