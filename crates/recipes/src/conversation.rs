//! Conversations about exercises: after each answer the policy is told the result and writes another answer.

use anyhow::Result;
use flopsmith_generator::measured::exercises::{Exercise, Feedback, follow_up};
use flopsmith_policy::chat::Message;
use flopsmith_policy::{Extras, Model, Request, Sample, sample};
use flopsmith_protocol::Sampling;

use crate::Reader;
use crate::rewards::{Answer, Failure, Rewards, Worth};

/// The sampling of answers.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// Greatest number of answers in a conversation.
    pub turns: usize,
    /// Softmax temperature.
    pub temperature: f32,
    /// Longest answer, tokens.
    pub max_tokens: u32,
    /// Seed of the first answer to the first exercise; each further answer has the next number.
    pub seed: u64,
}

/// An answer with its prompt and its worth.
pub struct Turn {
    /// The tokens of everything before the answer.
    pub prompt: Vec<u32>,
    /// The answer.
    pub sample: Sample,
    /// Its text.
    pub text: String,
    /// The worth of the answer.
    pub worth: Worth,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

/// A conversation about an exercise.
pub struct Conversation<'a> {
    /// The exercise.
    pub exercise: &'a Exercise,
    /// The answers so far.
    pub turns: Vec<Turn>,
    /// The prompt's tokens of the next answer; `None` if there is no room for another answer.
    next: Option<Vec<u32>>,
}

/// Holds a conversation about each of these exercises, which are given with their prompts' tokens. A conversation ends
/// when it has no room for another answer.
pub fn hold<'a>(
    model: &Model,
    rewards: &mut Rewards,
    reader: &Reader,
    asked: &[(&'a Exercise, &[u32])],
    manner: Manner,
) -> Result<Vec<Conversation<'a>>> {
    let mut all: Vec<Conversation<'a>> = asked
        .iter()
        .map(|(exercise, prompt)| Conversation {
            exercise,
            turns: Vec::new(),
            next: Some(prompt.to_vec()),
        })
        .collect();
    for turn in 0..manner.turns {
        let first = manner.seed.wrapping_add((turn * asked.len()) as u64);
        let open: Vec<(u64, &mut Conversation<'a>)> = (0u64..)
            .zip(&mut all)
            .filter(|(_, conversation)| conversation.next.is_some())
            .collect();
        let requests: Vec<Request> = open
            .iter()
            .map(|(place, conversation)| Request {
                prompt: conversation.next.clone().unwrap_or_default(),
                seed: first.wrapping_add(*place),
                sampling: Sampling {
                    temperature: manner.temperature,
                    top_p: 1.0,
                    top_k: 0,
                    max_tokens: manner.max_tokens,
                },
                detour: None,
                extras: Extras::default(),
            })
            .collect();
        let written = sample(model, &requests, reader.tokenizer.eos(), |_| {})?;
        let texts = written
            .iter()
            .map(|sample| reader.tokenizer.decode(&sample.tokens))
            .collect::<flopsmith_policy::Result<Vec<String>>>()?;
        let answers: Vec<Answer<'_>> = open
            .iter()
            .zip(written.iter().zip(&texts))
            .map(|((_, conversation), (sample, text))| Answer {
                exercise: conversation.exercise,
                text: text.clone(),
                finished: sample.finished,
            })
            .collect();
        let worths = rewards.worth(&answers, reader)?;
        let turns = requests.into_iter().zip(written).zip(texts).zip(worths);
        for ((_, conversation), (((request, sample), text), (worth, failure))) in
            open.into_iter().zip(turns)
        {
            conversation.turns.push(Turn {
                prompt: request.prompt,
                sample,
                text,
                worth,
                failure,
            });
            conversation.next = match turn + 1 < manner.turns {
                true => conversation.following(model, reader, manner.max_tokens)?,
                false => None,
            };
        }
    }
    Ok(all)
}

impl Conversation<'_> {
    /// The worth of each answer, plus a discounted share of the later answers' worth:
    /// [`flopsmith_reward::turns::discounted`].
    pub fn discounted(&self, discount: f64) -> Vec<Option<f64>> {
        flopsmith_reward::turns::discounted(&self.scores(), discount)
    }

    /// The worth of the conversation, for each answer that has a worth of its own:
    /// [`flopsmith_reward::turns::first_and_best`].
    pub fn first_and_best(&self, first: f64) -> Vec<Option<f64>> {
        let scores = self.scores();
        let whole = flopsmith_reward::turns::first_and_best(&scores, first);
        scores.iter().map(|score| score.and(whole)).collect()
    }

    fn scores(&self) -> Vec<Option<f64>> {
        self.turns.iter().map(|t| t.worth.score()).collect()
    }

    /// The tokens of the conversation so far, with the result of the last answer; `None` if the next answer does not
    /// fit.
    fn following(
        &self,
        model: &Model,
        reader: &Reader,
        max_tokens: u32,
    ) -> Result<Option<Vec<u32>>> {
        let mut messages = vec![Message::user(&self.exercise.prompt)];
        for turn in &self.turns {
            let feedback = match turn.worth {
                Worth::Timed { seconds, .. } => Feedback::Timed(seconds),
                Worth::Judged { score } => Feedback::Judged(score),
                Worth::Failed => Failure::feedback(turn.failure.as_ref()),
                // Without a result there is nothing to tell the policy.
                Worth::Unknown => return Ok(None),
            };
            messages.push(Message::assistant(turn.text.trim_end()));
            messages.push(Message::user(follow_up(feedback)));
        }
        let ids = reader.conversation(&messages)?;
        let most = model.config().max_position_embeddings;
        let fits = ids.len() as i64 + i64::from(max_tokens) <= most;
        Ok(fits.then_some(ids))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::path::Path;

    use flopsmith_policy::End;
    use flopsmith_protocol::CandidateFault;

    use super::*;

    fn turn(text: &str, worth: Worth) -> Turn {
        Turn {
            prompt: vec![1],
            sample: Sample {
                tokens: vec![2],
                logprobs: vec![-0.5],
                raw: Vec::new(),
                top: Vec::new(),
                finished: true,
                end: End::Token,
            },
            text: text.to_owned(),
            worth,
            failure: (worth == Worth::Failed).then(|| Failure {
                fault: CandidateFault::CompileError,
                detail: "no `;`".to_owned(),
            }),
        }
    }

    #[test]
    fn an_answer_follows_all_that_was_said_and_is_worth_what_comes_of_it() {
        let starter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/starter");
        let at = crate::Placement::of(flopsmith_config::Device::Cpu, None).unwrap();
        let (model, reader) = crate::open(Path::new(""), &starter, false, at).unwrap();
        let exercise = Exercise {
            workloads: Vec::new(),
            kind: None,
            problem: "dgemm".into(),
            prompt: "// dgemm: unroll\n".into(),
            median_s: Some(1.0),
        };
        let mut conversation = Conversation {
            exercise: &exercise,
            turns: vec![turn("int first;\n", Worth::Failed)],
            next: None,
        };
        let following = |conversation: &Conversation<'_>, most: u32| {
            let ids = conversation.following(&model, &reader, most).unwrap();
            ids.map(|ids| reader.tokenizer.decode(&ids).unwrap())
        };
        let said = following(&conversation, 20).unwrap();
        let failed = follow_up(Feedback::Failed {
            fault: CandidateFault::CompileError.name(),
            detail: "no `;`",
        });
        assert_eq!(said, format!("// dgemm: unroll\nint first;\n{failed}\n"));
        // Without room for an answer the conversation ends.
        assert_eq!(following(&conversation, 1020), None);

        let timed = Worth::Timed {
            score: 1.0,
            seconds: 2.5e-3,
        };
        conversation.turns.push(turn("int second;\n", timed));
        let said = following(&conversation, 20).unwrap();
        let parts = ["int first;", &failed, "int second;", "2.500e-3 s a call"];
        let places: Vec<usize> = parts.iter().map(|part| said.find(part).unwrap()).collect();
        assert!(places.is_sorted(), "{said}");
        assert_eq!(conversation.discounted(0.4), [Some(-0.6), Some(1.0)]);
        assert_eq!(conversation.discounted(0.0), [Some(-1.0), Some(1.0)]);

        conversation
            .turns
            .push(turn("int third;\n", Worth::Unknown));
        assert_eq!(following(&conversation, 20), None);
        assert_eq!(conversation.discounted(0.4), [Some(-0.6), Some(1.0), None]);
        // 3/4 of -1 and 1/4 of 1.
        let whole = conversation.first_and_best(0.75);
        assert_eq!(whole, [Some(-0.5), Some(-0.5), None]);
    }
}
