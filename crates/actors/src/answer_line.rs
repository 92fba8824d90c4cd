//! A line of `answers.jsonl`: an answer as a language model wrote it, with its prompt.

use flopsmith_endpoint::Amount;
use flopsmith_protocol::{Rollout, TaskId};
use serde::{Deserialize, Serialize};

/// Bytes of a prompt or an answer of the run's own model that are kept: a hostile answer must not fill a disk.
const LONGEST: usize = 64 << 10;

/// An answer of an endpoint, or of the run's own model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerLine {
    /// The task.
    pub task: TaskId,
    /// The number of the sample.
    pub sample: u32,
    /// Seed of the request to an endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The prompt. Of the run's own model it has the special tokens, and its beginning alone if it is very long.
    pub prompt: String,
    /// As the model wrote it. Of the run's own model it is the beginning alone if it is very long.
    pub answer: String,
    /// Bytes of the whole answer, if this is its beginning alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// False if the limit on its tokens cut it off; none if the server does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<bool>,
    /// Tokens, and the cost of the request that was answered.
    #[serde(flatten)]
    pub amount: Amount,
    /// Number of the rollout in its log, if the run's own model wrote the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<u64>,
}

impl AnswerLine {
    /// The answer of a rollout, which has this number in its log. `prompt` and `answer` are the texts of its tokens.
    pub fn of_rollout(rollout: &Rollout, number: u64, prompt: String, answer: String) -> Self {
        let whole = answer.len();
        let answer = beginning(answer);
        Self {
            task: rollout.candidate.task.clone(),
            sample: rollout.candidate.sample,
            seed: None,
            prompt: beginning(prompt),
            bytes: (answer.len() < whole).then_some(whole as u64),
            answer,
            finished: Some(rollout.finished),
            amount: Amount {
                input_tokens: rollout.prompt_tokens.len() as u64,
                output_tokens: rollout.tokens.len() as u64,
                ..Amount::NOTHING
            },
            rollout: Some(number),
        }
    }
}

/// The part of a text that is kept.
fn beginning(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(LONGEST));
    text
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_test_support::{candidate, outcome, rollout, wrong};

    use super::*;

    #[test]
    fn a_long_answer_is_kept_as_its_beginning_and_its_length() {
        let rollout = rollout(&outcome(candidate(1, 0, 1), wrong()));
        let long = format!("x{}", "é".repeat(LONGEST));
        let line = AnswerLine::of_rollout(&rollout, 7, long.clone(), long.clone());
        for text in [&line.prompt, &line.answer] {
            assert_eq!(text.len(), LONGEST - 1);
            assert!(long.starts_with(text));
        }
        assert_eq!(line.bytes, Some(long.len() as u64));
        let short = AnswerLine::of_rollout(&rollout, 7, "p".into(), "a".into());
        assert_eq!((short.answer.as_str(), short.bytes), ("a", None));
        assert_eq!(short.amount.output_tokens, rollout.tokens.len() as u64);
    }

    #[test]
    fn a_line_of_an_earlier_version_is_read() {
        let line = r#"{"task":"r-s1-g0","sample":3,"seed":1,"prompt":"p","answer":"a","input_tokens":5,"output_tokens":2,"cost":"0.25"}"#;
        let read: AnswerLine = serde_json::from_str(line).unwrap();
        assert_eq!((read.seed, read.finished), (Some(1), None));
        assert_eq!((read.bytes, read.rollout), (None, None));
        assert_eq!(read.amount.input_tokens, 5);
        assert_eq!(read.amount.cost.to_string(), "0.25");
    }
}
