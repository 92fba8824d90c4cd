//! The answers of the run's own model, as texts. They follow from the log of rollouts, so a generator on another node has its
//! answers in the run's folder too, and a recorder that was killed goes on behind the last line.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use flopsmith_protocol::{CandidateId, Rollout, TaskId};
use serde::Deserialize;

use super::files;
use crate::answer_line::AnswerLine;
use crate::error::Error;
use crate::journal::Journal;

/// Bytes of the file. Beyond it the older half of the lines is removed.
pub(super) const MOST: u64 = 256 << 20;

/// The texts of a rollout's tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// The prompt, as the model read it.
    pub prompt: String,
    /// The answer, as the model wrote it.
    pub answer: String,
}

/// Reads the tokens of a rollout, or says why it cannot.
pub type Detokenize = Arc<dyn Fn(&Rollout) -> Result<Texts, String> + Send + Sync>;

/// Reads tokens by the tokenizer of the run's model: of prompts the special tokens are written out, of answers they are left out.
#[cfg(feature = "torch")]
pub fn detokenize(tokenizer: Arc<flopsmith_policy::Tokenizer>) -> Detokenize {
    Arc::new(move |rollout: &Rollout| {
        let prompt = tokenizer.decode_with_specials(&rollout.prompt_tokens);
        let answer = tokenizer.decode(&rollout.tokens);
        match (prompt, answer) {
            (Ok(prompt), Ok(answer)) => Ok(Texts { prompt, answer }),
            (Err(error), _) | (_, Err(error)) => Err(crate::supervisor::words(&error)),
        }
    })
}

/// The part of a line that tells which rollout it has.
#[derive(Deserialize)]
struct Key {
    task: TaskId,
    sample: u32,
    #[serde(default)]
    rollout: Option<u64>,
}

/// The file of the answers.
pub(super) struct AnswerFile {
    detokenize: Detokenize,
    file: Journal,
    most: u64,
    written: HashSet<CandidateId>,
    next: u64,
}

impl AnswerFile {
    /// The file in a run's folder, with the lines that it has. Where it grows beyond `most` bytes, its older half is removed.
    pub(super) fn open(folder: &Path, detokenize: Detokenize, most: u64) -> Result<Self, Error> {
        let (file, lines) = Journal::open::<Key>(folder.join(files::ANSWERS))?;
        let last = lines.iter().filter_map(|line| line.rollout).max();
        let ids = lines
            .iter()
            .map(|line| CandidateId::of(&line.task, line.sample));
        Ok(Self {
            detokenize,
            file,
            most,
            written: ids.collect(),
            next: last.map_or(0, |last| last.saturating_add(1)),
        })
    }

    /// The place in the log from which to read on. Lines of earlier places were written, also those that were removed since.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Writes the answer of a rollout, which has this number in the log, unless the file has one of its sample: of several
    /// rollouts of a sample the learner takes the first, too.
    pub(super) fn note(&mut self, number: u64, rollout: &Rollout) -> Result<(), Error> {
        self.next = number.saturating_add(1);
        let id = &rollout.candidate.id;
        if !self.written.insert(id.clone()) {
            return Ok(());
        }
        let Texts { prompt, answer } = match (self.detokenize)(rollout) {
            Ok(texts) => texts,
            // The run does not depend on this file.
            Err(error) => {
                tracing::warn!(candidate = %id, error, "an answer is not in the run's folder");
                return Ok(());
            }
        };
        let line = AnswerLine::of_rollout(rollout, number, prompt, answer);
        self.file.write(&line)?;
        if self.file.length()? > self.most {
            self.file.shorten(self.most / 2)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_test_support::{candidate, outcome, rollout, wrong};

    use super::*;

    /// Bytes that hold some tens of lines.
    const FEW: u64 = 8000;

    /// Texts for all steps but those whose last digit is a 9.
    fn read(rollout: &Rollout) -> Result<Texts, String> {
        match rollout.candidate.step % 10 {
            9 => Err("no such token".to_owned()),
            digit => Ok(Texts {
                prompt: format!("prompt {digit}"),
                answer: format!("answer {digit}"),
            }),
        }
    }

    fn open(folder: &Path) -> AnswerFile {
        AnswerFile::open(folder, Arc::new(read), FEW).unwrap()
    }

    fn note(answers: &mut AnswerFile, step: u64) {
        let rollout = rollout(&outcome(candidate(step, 0, 0), wrong()));
        answers.note(100 + step, &rollout).unwrap();
    }

    fn lines(folder: &Path) -> Vec<AnswerLine> {
        let path = folder.join(files::ANSWERS);
        Journal::open::<AnswerLine>(path).unwrap().1
    }

    #[test]
    fn a_full_file_keeps_the_newest_answers_and_is_continued_behind_them() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut answers = open(folder);
        assert_eq!(answers.next(), 0);
        for step in 0..200 {
            note(&mut answers, step);
            let length = folder.join(files::ANSWERS).metadata().unwrap().len();
            assert!(length <= FEW, "{length}");
        }
        // The last one could not be read.
        let numbers = |lines: &[AnswerLine]| -> Vec<u64> {
            lines.iter().filter_map(|line| line.rollout).collect()
        };
        let kept = numbers(&lines(folder));
        let all = (100..300).filter(|number| number % 10 != 9);
        let newest: Vec<u64> = all.skip_while(|number| *number < kept[0]).collect();
        assert_eq!(kept, newest);
        assert!(kept.len() > 10 && kept[0] > 200, "{kept:?}");

        let mut answers = open(folder);
        assert_eq!(answers.next(), 299);
        // A rollout that was published again is there already.
        note(&mut answers, 198);
        note(&mut answers, 200);
        let last = lines(folder).pop().unwrap();
        assert_eq!(last.rollout, Some(300));
        assert_eq!(last.answer, "answer 0");
        let continued = numbers(&lines(folder));
        assert_eq!(continued.len(), newest.len() + 1);
    }
}
