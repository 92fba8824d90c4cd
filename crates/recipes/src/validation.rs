//! Exercises that a reinforcement answers before and after the training, and never trains on.

use std::path::Path;

use anyhow::Result;
use flopsmith_config::recipe::Rlpf as Recipe;
use flopsmith_generator::measured::exercises::Exercise;
use flopsmith_policy::Model;
use serde::{Deserialize, Serialize};

use crate::Reader;
use crate::conversation::{Manner, hold};
use crate::exercises::{Limits, read_any};
use crate::rewards::{Rewards, Worth};

/// The exercises with the token ids of their prompts.
pub struct Validation {
    /// The exercises.
    pub exercises: Vec<Exercise>,
    /// The prompts.
    pub prompts: Vec<Vec<u32>>,
}

/// The result of the answers to all exercises, one turn each.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Answers with a worth.
    pub answers: usize,
    /// Answers with tests.
    pub tested: usize,
    /// Answers that passed them.
    pub right: usize,
    /// Mean worth of the answers; none if no answer has one.
    pub mean: Option<f64>,
}

impl Score {
    /// The score of answers with these worths.
    fn of(worths: &[Worth]) -> Self {
        let scores: Vec<f64> = worths.iter().filter_map(|worth| worth.score()).collect();
        let count = |wanted: fn(&Worth) -> bool| worths.iter().filter(|w| wanted(w)).count();
        let right = count(|worth| matches!(worth, Worth::Timed { .. }));
        let sum = scores.iter().sum::<f64>();
        Self {
            answers: scores.len(),
            tested: right + count(|worth| *worth == Worth::Failed),
            right,
            mean: (!scores.is_empty()).then(|| sum / scores.len() as f64),
        }
    }

    /// A few words about it.
    pub fn words(&self) -> String {
        let mean = self.mean.map_or("none".to_owned(), |m| format!("{m:.3}"));
        format!("score {mean}, {} of {} right", self.right, self.tested)
    }
}

impl Validation {
    /// The exercises of a file that have room for an answer; none for a file without a line.
    ///
    /// # Errors
    /// Wrong usage: a line cannot be read, or no exercise fits.
    pub fn read(file: &Path, limits: Limits, reader: &Reader) -> Result<Option<Self>> {
        let all = read_any(file)?;
        if all.is_empty() {
            return Ok(None);
        }
        let (exercises, prompts) = limits.fitting(all, reader)?;
        Ok(Some(Self { exercises, prompts }))
    }

    /// Answers each exercise as often as a step does, always with the same seeds.
    pub fn judge(
        &self,
        model: &Model,
        rewards: &mut Rewards,
        reader: &Reader,
        recipe: &Recipe,
    ) -> Result<Score> {
        let prompts = self.prompts.iter().map(Vec::as_slice);
        let asked: Vec<(&Exercise, &[u32])> = self
            .exercises
            .iter()
            .zip(prompts)
            .flat_map(|asked| std::iter::repeat_n(asked, recipe.samples))
            .collect();
        let mut worths = Vec::with_capacity(asked.len());
        // As many at once as in a step.
        for (number, part) in asked.chunks(recipe.prompts * recipe.samples).enumerate() {
            let manner = Manner {
                turns: 1,
                temperature: recipe.temperature,
                max_tokens: recipe.max_tokens,
                seed: recipe
                    .seed
                    .wrapping_add(1 << 62)
                    .wrapping_add((number * asked.len()) as u64),
            };
            let conversations = hold(model, rewards, reader, part, manner)?;
            let turns = conversations.iter().flat_map(|c| &c.turns);
            worths.extend(turns.map(|turn| turn.worth));
        }
        // Reasons of refusal are told of the answers that are trained on.
        rewards.take_unsuccessful();
        Ok(Score::of(&worths))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_counts_what_passed_and_leaves_out_what_is_unknown() {
        let timed = |score| Worth::Timed {
            score,
            seconds: 1.0,
        };
        let score = Score::of(&[
            timed(2.0),
            Worth::Failed,
            Worth::Unknown,
            Worth::Judged { score: 0.5 },
        ]);
        let expected = Score {
            answers: 3,
            tested: 2,
            right: 1,
            mean: Some(0.5),
        };
        assert_eq!(score, expected);
        assert_eq!(score.words(), "score 0.500, 1 of 2 right");
        let nothing = Score::of(&[Worth::Unknown]);
        assert_eq!((nothing.mean, nothing.answers), (None, 0));
        assert_eq!(nothing.words(), "score none, 0 of 0 right");
    }
}
