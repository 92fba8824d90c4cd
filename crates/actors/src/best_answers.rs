//! Self-imitation, our own variant, after Oh et al., "Self-Imitation Learning" (2018): the policy is trained again on
//! good answers that it found once and lost. Pure.
//!
//! A policy finds a much faster program by a slip that it makes once in some thousand samples. One update makes such a
//! program a little likelier, which is not enough to sample it again. Therefore the best answer to each prompt is kept
//! with its tokens. As long as a step's own answers fall short of the kept answer, the kept answer is one more sample
//! of that step. The current policy did not draw the kept answer, so there is no ratio to clip: its tokens are made
//! likelier in proportion to its lead over the step's own answers.
//!
//! An answer to one prompt is an answer to every prompt that permits its techniques. So an answer that was found under
//! a prompt that permits little, mostly by an exploration sample, is also used under prompts that permit more. Without
//! this, a policy can miss a combination for a hundred steps although the policy has long found it under a prompt that
//! it rarely gets.
//!
//! The original makes past decisions likelier by the positive part of return minus value, (R − V)₊. The differences:
//! - the original replays many past episodes out of a buffer, drawn by that difference; here each prompt has one
//!   answer, and it takes part only while a step's own answers fall short of it;
//! - there is no critic and so no separate loss: the mean reward of the step's own answers to the prompt stands in the
//!   place of V, and the difference is divided by their standard deviation and cut
//!   ([`crate::advantages::with_advantages`]), so that it counts as much as a sample of the step;
//! - rewards are measured, so an answer is kept by its lower bound, two standard errors below its reward.

use flopsmith_protocol::{ProblemId, Rollout, TechniqueSet};
use serde::{Deserialize, Serialize};

/// If a step's best answer is at most this share below the kept one, it counts as equally good.
const AS_GOOD: f64 = 0.05;

/// The best answers so far, by the problems of their prompts and what these permit. Part of the learner's state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BestAnswers(Vec<Kept>);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Kept {
    /// The techniques of the program, if they are known.
    techniques: Option<TechniqueSet>,
    /// The lower bound of the program's reward.
    reward: f64,
    /// Its tokens, which name problem and permitted techniques of its prompt. Their log-probabilities then say nothing
    /// now and are left out.
    rollout: Rollout,
}

/// The problem of a prompt, and the techniques that it permits.
fn prompt(rollout: &Rollout) -> (&ProblemId, TechniqueSet) {
    let candidate = &rollout.candidate;
    (&candidate.problem, candidate.permitted)
}

impl BestAnswers {
    /// The checkpoint file that holds the best answers.
    pub const FILE: &str = "best_answers.msgpack";

    /// Notes a verified program of these techniques, whose reward is `reward` with the standard error `error`. The
    /// program is kept by its lower bound, the reward less two standard errors: it replaces the kept one if that exceeds
    /// the kept one's lower bound, and is kept as the first one if that is above 0.
    pub fn note(
        &mut self,
        techniques: Option<TechniqueSet>,
        (reward, error): (f64, f64),
        rollout: &Rollout,
    ) {
        let reward = reward - 2.0 * error;
        let kept = || Kept {
            techniques,
            reward,
            rollout: Rollout {
                logprobs: Vec::new(),
                ..rollout.clone()
            },
        };
        let same = |kept: &&mut Kept| prompt(&kept.rollout) == prompt(rollout);
        match self.0.iter_mut().find(same) {
            Some(old) if reward > old.reward => *old = kept(),
            Some(_) => {}
            None if reward > 0.0 => self.0.push(kept()),
            None => {}
        }
    }

    /// The best kept answer to a prompt of `problem` that uses only permitted techniques, and its reward. None if `best`, the best reward of the
    /// step's own answers, does not fall short of it. The answer may belong to another prompt.
    pub fn missed(
        &self,
        problem: &ProblemId,
        permitted: TechniqueSet,
        best: f64,
    ) -> Option<(&Rollout, f64)> {
        let fits = |kept: &&Kept| {
            let candidate = &kept.rollout.candidate;
            let uses_no_more = kept.techniques.is_some_and(|t| t.is_subset(permitted));
            candidate.problem == *problem && (candidate.permitted == permitted || uses_no_more)
        };
        let kept = self.0.iter().filter(fits);
        let kept = kept.max_by(|a, b| a.reward.total_cmp(&b.reward))?;
        (best < kept.reward * (1.0 - AS_GOOD)).then_some((&kept.rollout, kept.reward))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopsmith_protocol::Technique;
    use flopsmith_test_support::{candidate, outcome, rollout, wrong};

    fn answer(number: u32, permitted: TechniqueSet) -> Rollout {
        let mut rollout = rollout(&outcome(candidate(1, 0, number), wrong()));
        rollout.candidate.permitted = permitted;
        rollout
    }

    #[test]
    fn the_best_answer_is_missed_until_a_step_has_one_as_good() {
        let simd = TechniqueSet::default().with(Technique::Simd);
        let problem = answer(0, simd).candidate.problem;
        let mut best_answers = BestAnswers::default();
        assert_eq!(best_answers.missed(&problem, simd, 0.0), None);
        best_answers.note(Some(simd), (0.5, 0.01), &answer(0, simd));
        // Better by less than its error.
        best_answers.note(Some(simd), (0.52, 0.03), &answer(1, simd));
        let missed = best_answers.missed(&problem, simd, 0.3);
        let (found, worth) = missed.expect("it falls short");
        assert_eq!(found.candidate, answer(0, simd).candidate);
        assert!(found.logprobs.is_empty() && (worth - 0.48).abs() < 1e-12);
        assert_eq!(best_answers.missed(&problem, simd, 0.47), None);
        let none = TechniqueSet::default();
        assert_eq!(best_answers.missed(&problem, none, 0.0), None);
        // It is an answer wherever its techniques are permitted, unless there is a better one.
        let more = simd.with(Technique::Packing);
        let found = |best_answers: &BestAnswers, set| {
            best_answers
                .missed(&problem, set, 0.0)
                .map(|(r, _)| r.candidate.clone())
        };
        let first = answer(0, simd).candidate;
        assert_eq!(found(&best_answers, more), Some(first.clone()));
        best_answers.note(Some(more), (0.9, 0.01), &answer(2, more));
        assert_eq!(found(&best_answers, more), Some(answer(2, more).candidate));
        assert_eq!(found(&best_answers, simd), Some(first));
        let bytes = rmp_serde::to_vec_named(&best_answers).expect("bytes");
        assert_eq!(
            rmp_serde::from_slice::<BestAnswers>(&bytes).expect("best answers"),
            best_answers
        );
    }

    #[test]
    fn an_answer_to_one_problem_is_none_to_another() {
        let simd = TechniqueSet::default().with(Technique::Simd);
        let ours = answer(0, simd);
        let mut theirs = answer(1, simd);
        theirs.candidate.problem = ProblemId::new("other").expect("a name");
        let mut best_answers = BestAnswers::default();
        best_answers.note(Some(simd), (0.5, 0.0), &ours);
        best_answers.note(Some(simd), (0.9, 0.0), &theirs);
        for rollout in [&ours, &theirs] {
            let problem = &rollout.candidate.problem;
            let found = best_answers.missed(problem, TechniqueSet::all(), 0.0);
            assert_eq!(found.map(|(r, _)| &r.candidate), Some(&rollout.candidate));
        }
    }
}
