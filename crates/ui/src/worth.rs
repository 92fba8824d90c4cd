//! Rewards and advantages of the samples of a step, by the settings of their run.
//!
//! The learner computes its own while it trains. The same code computes these again from the outcomes, so they lack what
//! only the learner has: best answers that it imitates, and samples that its filter leaves out.

use std::collections::BTreeMap;

use flopsmith_actors::advantages::Rewards;
use flopsmith_actors::peaks::Peaks;
use flopsmith_config::{Algorithm, Settings};
use flopsmith_protocol::{GroupId, Outcome, Purpose};

/// The worth of a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Worth {
    /// Its reward; none if the outcome says nothing about it.
    pub reward: Option<f64>,
    /// Its advantage in its group; none if it has none, or if it is not computed.
    pub advantage: Option<f64>,
}

/// True if advantages of these samples can be computed.
pub fn has_advantages(settings: &Settings, samples: &[Outcome]) -> bool {
    let mut samples = samples.iter().map(|outcome| outcome.candidate.purpose);
    // PPO computes advantages by a value model, and conversations share rewards between turns.
    let in_groups = match settings.algorithm() {
        Algorithm::Grpo(_) => settings.turns.most <= 1,
        Algorithm::Ppo(_) => false,
    };
    in_groups && samples.all(|purpose| purpose == Purpose::Train)
}

/// The worth of all samples of a step, in their order. `best` is the best speed of a sample's stage before the step.
pub fn of_step(
    samples: &[Outcome],
    settings: &Settings,
    peaks: &Peaks,
    best: impl Fn(&Outcome) -> Option<f64>,
) -> Vec<Worth> {
    let rewards = Rewards::of(samples.iter(), settings, peaks, best);
    let mut groups: BTreeMap<&GroupId, Vec<usize>> = BTreeMap::new();
    if has_advantages(settings, samples) {
        for (place, outcome) in samples.iter().enumerate() {
            let group = groups.entry(&outcome.candidate.group).or_default();
            group.push(place);
        }
    }
    let groups: Vec<Vec<usize>> = groups.into_values().collect();
    let advantages = rewards.advantages(&groups, settings);
    let worth = rewards.raw.into_iter().zip(advantages);
    worth
        .map(|((reward, _), advantage)| Worth { reward, advantage })
        .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_actors::advantages::{StageBests, with_advantages};
    use flopsmith_actors::best_answers::BestAnswers;
    use flopsmith_actors::ledger::Sample;
    use flopsmith_test_support::{
        candidate, infrastructure, measured, outcome as of, rollout, unknown, wrong,
    };

    use super::*;

    #[test]
    fn advantages_are_those_of_the_learner() {
        let verdicts = [measured(10.0), wrong(), measured(30.0), wrong()];
        let mut samples = Vec::new();
        for group in 0..2 {
            for (sample, verdict) in (0..).zip(&verdicts) {
                samples.push(of(candidate(1, group, sample), verdict.clone()));
            }
        }
        samples.push(of(candidate(1, 0, 4), unknown()));
        let jail = flopsmith_protocol::InfrastructureCause::Jail;
        samples.push(of(candidate(1, 1, 4), infrastructure(jail)));
        let settings = Settings::default();
        let peaks = Peaks::from(Some(50.0));
        let worth = of_step(&samples, &settings, &peaks, |_| None);
        let groups = [0, 1].map(|group| {
            let group = GroupId::of(&flopsmith_test_support::task(1, group).id);
            let of_group = samples.iter().filter(|o| o.candidate.group == group);
            let of_group = of_group.map(|outcome| Sample {
                outcome: outcome.clone(),
                rollout: Some(rollout(outcome)),
            });
            of_group.collect::<Vec<_>>()
        });
        let mut bests = StageBests::default();
        let mut answers = BestAnswers::default();
        let (learned, metrics) =
            with_advantages(groups.into(), &settings, peaks, &mut bests, &mut answers);
        let rewards = worth.iter().filter_map(|worth| worth.reward);
        let mean = rewards.clone().sum::<f64>() / rewards.count() as f64;
        assert!((mean - metrics.mean_reward).abs() < 1e-12);
        assert!(!learned.is_empty());
        for of in learned {
            let id = &of.rollout.candidate.id;
            let place = samples.iter().position(|o| o.candidate.id == *id).unwrap();
            assert!((worth[place].advantage.unwrap() - of.advantage).abs() < 1e-12);
        }
    }

    #[test]
    fn a_failure_of_the_machine_is_worth_nothing() {
        let samples = [of(candidate(1, 0, 0), unknown())];
        let worth = of_step(&samples, &Settings::default(), &Peaks::from(None), |_| None);
        assert_eq!(worth, [Worth::default()]);
    }
}
