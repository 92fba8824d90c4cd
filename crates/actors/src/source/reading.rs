//! Tasks as token ids, and sampled tokens as programs: the same wherever the tokens are sampled.

use std::sync::Arc;

use flopsmith_config::Generator;
use flopsmith_policy::chat::Message;
use flopsmith_policy::{Stops, Tokenizer};
use flopsmith_problem::{Language, Problem, prompt};
use flopsmith_protocol::{EliteHint, Exchange, RawAnswer, Sampling, Task};

use crate::answer::{Answer, Sampled};
use crate::error::Error;

/// How a run writes prompts for its model and reads the model's answers.
pub(super) struct Reading {
    pub(super) tokenizer: Arc<Tokenizer>,
    pub(super) style: prompt::Style,
    pub(super) stops: Option<Arc<Stops>>,
    /// Positions of the model: the most tokens of a prompt and its answer.
    positions: i64,
}

impl Reading {
    pub(super) fn new(tokenizer: Arc<Tokenizer>, positions: i64, settings: &Generator) -> Self {
        let stops = Stops::new(Arc::clone(&tokenizer), settings.stop.iter().cloned());
        Self {
            tokenizer,
            style: settings.prompt.style(),
            stops: (!settings.stop.is_empty()).then(|| Arc::new(stops)),
            positions,
        }
    }

    /// The tokens before an answer to a task: the prompt, and what was said since. A program to build on is left out where
    /// the prompt with it leaves no room for an answer. Of a conversation that leaves none, the oldest answers are left
    /// out. Gives the sampling of the answer, too.
    ///
    /// The turns of a conversation do not decide about the program, so all of them begin with the same prompt.
    ///
    /// Prompts of fresh nests have any length. An answer to a long one has less room than others, and one that does not
    /// fit the model at all is answered without its beginning, which gives no right program.
    pub(super) fn prompt(
        &self,
        problem: &Problem,
        task: &Task,
    ) -> Result<(Vec<u32>, Sampling), Error> {
        let room = self.positions - i64::from(task.sampling.max_tokens);
        let text = self.text(problem, task, room)?;
        let mut history = task.history.as_slice();
        let mut ids = loop {
            let ids = self.encode(&text, history, problem)?;
            match history.split_first() {
                Some((_, newer)) if ids.len() as i64 > room => history = newer,
                _ => break ids,
            }
        };
        let most = usize::try_from(self.positions - 1).unwrap_or(usize::MAX);
        ids.drain(..ids.len().saturating_sub(most));
        let room = u32::try_from(self.positions - ids.len() as i64).unwrap_or(1);
        let sampling = Sampling {
            max_tokens: task.sampling.max_tokens.min(room),
            ..task.sampling.clone()
        };
        Ok((ids, sampling))
    }

    /// The prompt of a task, with its program to build on if the prompt then has `room` tokens at most.
    fn text(&self, problem: &Problem, task: &Task, room: i64) -> Result<String, Error> {
        let of = |elite: Option<&EliteHint>| {
            let text = flopsmith_nest::prompt::render(problem, task.permitted, elite, self.style);
            text.map_err(failed)
        };
        if let Some(elite) = &task.elite {
            let text = of(Some(elite))?;
            let tokens = self.encode(&text, &[], problem)?.len();
            if tokens as i64 <= room {
                return Ok(text);
            }
            tracing::debug!(task = %task.id, tokens, room, "the prompt has no room for its elite");
        }
        of(None)
    }

    /// Programs stand in fenced blocks in a conversation with a chat model, and bare in plain text.
    fn encode(
        &self,
        text: &str,
        history: &[Exchange],
        problem: &Problem,
    ) -> Result<Vec<u32>, Error> {
        let chat = self.style.is_chat();
        let fence = chat.then(|| problem.language.fence());
        let mut messages = vec![Message::user(text)];
        for Exchange { answer, result } in history {
            messages.push(Message::assistant(prompt::answer(answer, fence)));
            messages.push(Message::user(result));
        }
        let ids = self.tokenizer.encode_messages(&messages, chat);
        ids.map_err(failed)
    }

    /// The program in sampled tokens.
    pub(super) fn answer(&self, sampled: Sampled, language: Language) -> Result<Answer, Error> {
        let whole = self.tokenizer.decode(&sampled.tokens).map_err(failed)?;
        let text = self
            .stops
            .as_ref()
            .map_or(whole.as_str(), |s| s.cut(&whole));
        let found = prompt::extract(text, self.style, language);
        // The raw answer includes the stop that ended it, because the stop may be the reason that no program is left.
        let raw = found
            .is_none()
            .then(|| RawAnswer::of(&whole, sampled.finished));
        Ok(Answer {
            source: found.unwrap_or_default(),
            raw,
            sampled: Some(sampled),
            parent: None,
        })
    }
}

/// The seed of a sample of a task.
pub(super) fn seed_of(task: &Task, sample: u32) -> u64 {
    let sample = u64::from(sample).wrapping_mul(0xd134_2543_de82_ef95);
    task.seed.wrapping_add(sample)
}

pub(super) fn failed(error: impl std::error::Error) -> Error {
    Error::Generator(crate::supervisor::words(&error))
}
