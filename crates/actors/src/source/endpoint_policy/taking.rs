//! Samples as they end: written down, read as programs, and handed over.

use std::collections::HashMap;
use std::ops::ControlFlow;

use flopsmith_endpoint::{Draw, Drawn, Error as Refusal, Reason};
use flopsmith_protocol::{PolicyVersion, Task};

use crate::answer::{Answer, Answers, Sampled};
use crate::error::Error;
use crate::node::Context;
use crate::source::draws::{Draws, Kept};
use crate::source::reading::{Form, Reading};
use crate::supervisor::words;

/// A task whose samples are asked for.
pub(super) struct OpenTask {
    pub(super) task: usize,
    pub(super) form: Form,
    pub(super) prompt: Vec<u32>,
}

impl OpenTask {
    /// The answer of a sample that the server drew.
    pub(super) fn answer(&self, reading: &Reading, kept: &Kept) -> Result<Answer, Error> {
        let sampled = Sampled {
            prompt: self.prompt.clone(),
            tokens: kept.tokens.clone(),
            logprobs: kept.logprobs.clone(),
            finished: kept.finished,
        };
        reading.answer(sampled, &self.form)
    }
}

/// Takes samples as they end.
pub(super) struct Taking<'a> {
    pub(super) tasks: &'a [Task],
    pub(super) version: PolicyVersion,
    pub(super) open: HashMap<String, OpenTask>,
    pub(super) reading: &'a Reading,
    pub(super) vocabulary: i64,
    pub(super) draws: &'a mut Draws,
    pub(super) context: &'a Context,
    pub(super) answers: &'a Answers,
    /// Requests whose adapter the server does not have, as long as they can be sent again.
    pub(super) refused: Option<Vec<Draw>>,
    pub(super) is_answered: bool,
    /// The last reason for which there is no sample.
    pub(super) unanswered: Option<String>,
    pub(super) failed: Option<Error>,
}

impl Taking<'_> {
    /// Takes the end of a request.
    pub(super) fn take(&mut self, draw: Draw, drawn: Result<Drawn, Refusal>) -> ControlFlow<()> {
        let Some(of_task) = self.open.get(&draw.problem) else {
            return ControlFlow::Continue(());
        };
        let at = of_task.task;
        match drawn.map(|drawn| self.known(drawn)) {
            Ok(Ok(drawn)) => {
                let Drawn {
                    tokens,
                    logprobs,
                    finished,
                    ..
                } = drawn;
                let sample = (tokens, logprobs, finished);
                let kept = Kept::new(&self.tasks[at], draw.number, self.version, sample);
                let answer = of_task.answer(self.reading, &kept);
                let done = answer.and_then(|answer| {
                    self.draws.keep(kept)?;
                    self.answers.take(at, draw.number, Ok(answer));
                    Ok(())
                });
                self.is_answered = true;
                match done {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => {
                        self.failed = Some(error);
                        ControlFlow::Break(())
                    }
                }
            }
            Ok(Err(why)) => self.lack(at, draw.number, why),
            Err(error) => match error.reason() {
                Some(Reason::Denied) if self.refused.is_some() => {
                    if let Some(refused) = &mut self.refused {
                        refused.push(draw);
                    }
                    ControlFlow::Continue(())
                }
                Some(reason) => {
                    if reason == Reason::Budget {
                        // Before the outcome, which may end the step.
                        self.context.note_asked(|asked| asked.exhausted = true);
                    }
                    self.lack(at, draw.number, error.to_string())
                }
                None => {
                    self.failed = Some(Error::Generator(words(&error)));
                    ControlFlow::Break(())
                }
            },
        }
    }

    /// The sample, if all of its tokens are the model's.
    fn known(&self, drawn: Drawn) -> Result<Drawn, String> {
        let is_foreign = |id: &u32| i64::from(*id) >= self.vocabulary;
        match drawn.tokens.iter().copied().find(is_foreign) {
            Some(id) => Err(format!(
                "the answer has token {id}, and the model has {} tokens",
                self.vocabulary
            )),
            None => Ok(drawn),
        }
    }

    /// Hands over that there is no sample: a failure of the infrastructure, which no reward counts.
    fn lack(&mut self, at: usize, sample: u32, why: String) -> ControlFlow<()> {
        let why = format!("the endpoint gave no sample: {why}");
        self.answers.take(at, sample, Err(why.clone()));
        self.unanswered = Some(why);
        ControlFlow::Continue(())
    }
}
