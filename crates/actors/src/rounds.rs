//! The further rounds of a step ([`flopsmith_coordination::sampling`]): groups that are drawn again because their
//! rewards are all equal, or the next turns of conversations. Pure.
//!
//! The decision depends only on the outcomes of the step, read in any order, and on the best speeds before the step, so
//! that archive and learner agree.

use std::collections::BTreeMap;

use flopsmith_coordination::sampling::{Asked, asked};
use flopsmith_protocol::{Outcome, Purpose};
use flopsmith_reward::Context;
use flopsmith_reward::advantage::is_flat;

use crate::advantages::StageBests;
use crate::peaks::Peaks;
use flopsmith_config::{Settings, TurnPrompt};

/// The inputs of the decision.
#[derive(Debug, Clone)]
pub struct Rounds<'a> {
    /// The run's settings.
    pub settings: &'a Settings,
    /// The machine's peaks.
    pub peaks: &'a Peaks,
    /// The best speeds before the step.
    pub bests: &'a StageBests,
}

impl Rounds<'_> {
    /// The tasks of the step to which these outcomes belong. Only training has further rounds: an evaluation
    /// measures the policy as it is.
    pub fn asked<'a>(&self, outcomes: impl Iterator<Item = &'a Outcome>) -> Asked {
        let mut groups: BTreeMap<u32, Vec<&Outcome>> = BTreeMap::new();
        let (mut first, mut trains) = (u32::MAX, false);
        for outcome in outcomes {
            let candidate = &outcome.candidate;
            trains |= candidate.purpose == Purpose::Train;
            // The outcomes of the first round carry the number of tasks in that round.
            first = first.min(candidate.tasks_in_step);
            if let Some(group) = candidate.task.group() {
                groups.entry(group).or_default().push(outcome);
            }
        }
        let rounds = match trains {
            true => self.settings.rounds(),
            false => 0,
        };
        asked(first, rounds, |number| {
            let group = groups.get(&number)?;
            let size = group.first()?.candidate.group_size as usize;
            (group.len() >= size).then(|| match self.settings.turns.most {
                0 | 1 => u32::from(self.is_flat(group)),
                _ => {
                    let prompt = self.settings.turns.prompt;
                    let open = group.iter().filter(|outcome| goes_on(outcome, prompt));
                    open.count() as u32
                }
            })
        })
    }

    /// True if the rewards of a group are all equal, or if there are none. Each program is judged by its own reward,
    /// because duplicates in other groups are not known before all outcomes of the step are there. Exploration
    /// samples belong to no group.
    fn is_flat(&self, group: &[&Outcome]) -> bool {
        let of_group = group
            .iter()
            .filter(|outcome| !outcome.candidate.exploration);
        let rewards: Vec<Option<f64>> = of_group
            .map(|outcome| {
                let context = Context {
                    peak_gflops: self.peaks.get(&outcome.candidate.problem),
                    stage_best_gflops: self.bests.get(&outcome.candidate),
                };
                self.settings.reward.reward(&outcome.verdict, &context)
            })
            .collect();
        is_flat(&rewards)
    }
}

/// True if another answer may follow this one: there is a program, and a result to tell. An agent is also told why its answer has
/// no program, and the result of a request.
pub fn goes_on(outcome: &Outcome, prompt: TurnPrompt) -> bool {
    let is_told = !outcome.source.is_empty() || prompt == TurnPrompt::Agent;
    let has_result = outcome.verdict.counts() || outcome.asked().is_some();
    has_result && is_told && !outcome.candidate.exploration
}

#[cfg(test)]
mod tests {
    use flopsmith_protocol::{CandidateRef, InfrastructureCause, Request, Verdict};
    use flopsmith_test_support::{
        asked, candidate, infrastructure, measured, outcome, task, wrong,
    };

    use super::*;

    fn settings(rounds: u32) -> Settings {
        let mut settings = Settings::default();
        settings.advantage.dynamic_sampling = rounds;
        settings
    }

    fn of(settings: &Settings, outcomes: &[Outcome]) -> Asked {
        let rounds = Rounds {
            settings,
            peaks: &Peaks::from(Some(50.0)),
            bests: &StageBests::default(),
        };
        rounds.asked(outcomes.iter())
    }

    /// A group of two of a step that has so many tasks.
    fn group(number: u32, tasks: u32, verdicts: [Verdict; 2]) -> Vec<Outcome> {
        let of = |(sample, verdict)| {
            let candidate = CandidateRef {
                tasks_in_step: tasks,
                task: task(1, number).id,
                ..candidate(1, number, sample)
            };
            outcome(candidate, verdict)
        };
        (0..).zip(verdicts).map(of).collect()
    }

    #[test]
    fn groups_without_a_spread_are_drawn_again_until_there_are_none_or_it_is_enough() {
        let spread = || [measured(10.0), wrong()];
        let flat = || [wrong(), wrong()];
        let lost = || [wrong(), infrastructure(InfrastructureCause::Jail)];
        let mut outcomes = group(0, 3, spread());
        outcomes.extend(group(1, 3, flat()));
        let one = settings(1);
        // Nothing is decided before all outcomes of a round are there.
        let open = Asked {
            tasks: 3,
            round: 0,
            settled: false,
        };
        assert_eq!(of(&one, &outcomes), open);
        // One reward alone has nothing to be compared with.
        outcomes.extend(group(2, 3, lost()));
        let again = Asked {
            tasks: 5,
            round: 1,
            settled: false,
        };
        assert_eq!(of(&one, &outcomes), again);
        let plain = Asked {
            settled: true,
            tasks: 3,
            round: 0,
        };
        assert_eq!(of(&settings(0), &outcomes), plain);
        outcomes.extend(group(3, 5, spread()));
        outcomes.extend(group(4, 5, flat()));
        assert!(of(&one, &outcomes).settled);
        let further = Asked {
            tasks: 6,
            round: 2,
            settled: false,
        };
        assert_eq!(of(&settings(9), &outcomes), further);
        // The last of them decides that it is enough.
        outcomes.extend(group(5, 6, spread()));
        let done = Asked {
            settled: true,
            ..further
        };
        assert_eq!(of(&settings(9), &outcomes), done);
    }

    #[test]
    fn an_evaluation_is_drawn_once() {
        let mut outcomes = group(0, 1, [wrong(), wrong()]);
        for outcome in &mut outcomes {
            outcome.candidate.purpose = Purpose::EvaluateEnd;
        }
        assert!(of(&settings(3), &outcomes).settled);
    }

    #[test]
    fn an_exploration_sample_gives_no_group_a_spread() {
        let mut outcomes = group(0, 1, [wrong(), measured(10.0)]);
        assert!(of(&settings(1), &outcomes).settled);
        outcomes[1].candidate.exploration = true;
        assert_eq!(of(&settings(1), &outcomes).tasks, 2);
    }

    #[test]
    fn each_answer_that_can_be_continued_has_a_next_turn_until_there_are_enough() {
        let mut settings = settings(0);
        settings.turns.most = 3;
        let mut outcomes = group(0, 2, [measured(10.0), wrong()]);
        outcomes.extend(group(
            1,
            2,
            [infrastructure(InfrastructureCause::Jail), wrong()],
        ));
        // An answer without a program has no result to report, but to an agent.
        outcomes[3].source.clear();
        let second = Asked {
            tasks: 4,
            round: 1,
            settled: false,
        };
        assert_eq!(of(&settings, &outcomes), second);
        settings.turns.prompt = TurnPrompt::Agent;
        assert_eq!(of(&settings, &outcomes).tasks, 5);
        // A request has no verdict that counts, and a result all the same.
        let mut asking = outcomes.clone();
        let document = "gemm.md".to_owned();
        asking[1] = asked(asking[1].candidate.clone(), Request::Read { document });
        assert_eq!(of(&settings, &asking).tasks, 5);
        settings.turns.prompt = TurnPrompt::Brief;
        let single = |number: u32, tasks: u32, verdict: Verdict| {
            let mut outcome = group(number, tasks, [verdict, wrong()]).remove(0);
            outcome.candidate.group_size = 1;
            outcome
        };
        outcomes.push(single(2, 4, wrong()));
        assert_eq!(of(&settings, &outcomes), second);
        outcomes.push(single(3, 4, measured(12.0)));
        assert_eq!(of(&settings, &outcomes).tasks, 6);
        outcomes.push(single(4, 6, wrong()));
        outcomes.push(single(5, 6, measured(13.0)));
        let done = Asked {
            tasks: 6,
            round: 2,
            settled: true,
        };
        assert_eq!(of(&settings, &outcomes), done);
    }
}
