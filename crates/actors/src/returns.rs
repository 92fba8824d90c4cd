//! Scores of the turns of conversations, and the turns that are compared with each other. Pure.
//!
//! Places are those of samples among all samples of a step, group by group.

use std::collections::BTreeMap;

use flopsmith_config::Turns;
use flopsmith_config::recipe::Returns;
use flopsmith_protocol::{CandidateId, Outcome};
use flopsmith_reward::turns::{discounted, discounted_se, first_and_best, first_and_best_se};

use crate::ledger::Groups;

/// The conversations of a step: the places of each one's turns, `most` at most. Without further turns each sample is one.
pub(crate) fn conversations(groups: &Groups, most: u32) -> Vec<Vec<usize>> {
    let outcomes: Vec<&Outcome> = groups.iter().flatten().map(|s| &s.outcome).collect();
    let places = || outcomes.iter().copied().enumerate();
    let known: BTreeMap<&CandidateId, usize> = match most {
        0 | 1 => BTreeMap::new(),
        _ => places().map(|(at, o)| (&o.candidate.id, at)).collect(),
    };
    let before = |outcome: &Outcome| {
        let follows = outcome.candidate.follows.as_ref()?;
        known.get(follows).copied()
    };
    let next: BTreeMap<usize, usize> = places()
        .filter_map(|(at, outcome)| Some((before(outcome)?, at)))
        .collect();
    let firsts = places().filter(|(_, outcome)| before(outcome).is_none());
    firsts
        .map(|(first, _)| {
            let turns = std::iter::successors(Some(first), |at| next.get(at).copied());
            turns.take(most.max(1) as usize).collect()
        })
        .collect()
}

/// The samples that are compared with each other, as places: the answers of one turn in the conversations that begin in one
/// group. After the first turn their prompts differ. The returns of the other conversations do not depend on the answer, so
/// their mean is a baseline for it all the same.
pub(crate) fn by_turn(groups: &Groups, conversations: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let numbers = groups.iter().enumerate();
    let group_of: Vec<usize> = numbers
        .flat_map(|(group, samples)| std::iter::repeat_n(group, samples.len()))
        .collect();
    let mut compared: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for turns in conversations {
        let Some(first) = turns.first() else { continue };
        for (turn, at) in turns.iter().enumerate() {
            let of_turn = compared.entry((group_of[*first], turn)).or_default();
            of_turn.push(*at);
        }
    }
    compared.into_values().collect()
}

/// The returns of a step's samples ([`flopsmith_reward::turns`]) with their standard errors, from the rewards with theirs. The
/// samples that are `asked` made a request. Such a turn has no reward of its own and takes a turn: its return is what later turns
/// earn, and it has none if no later turn has a reward.
pub(crate) fn returns(
    conversations: &[Vec<usize>],
    turns: &Turns,
    rewards: &[(Option<f64>, f64)],
    asked: &[bool],
) -> Vec<(Option<f64>, f64)> {
    let mut found = rewards.to_vec();
    for places in conversations {
        let (rewards, errors): (Vec<Option<f64>>, Vec<f64>) =
            places.iter().map(|at| rewards[*at]).unzip();
        let last = rewards.iter().rposition(Option::is_some).unwrap_or(0);
        let turn_by_turn = (0..).zip(places.iter().zip(&rewards));
        let counted: Vec<Option<f64>> = turn_by_turn
            .map(|(turn, (at, reward))| match asked[*at] && turn < last {
                true => Some(0.0),
                false => *reward,
            })
            .collect();
        let of_turns: Vec<(Option<f64>, f64)> = match turns.returns {
            Returns::Discounted => {
                let errors = discounted_se(&counted, &errors, turns.discount);
                discounted(&counted, turns.discount)
                    .into_iter()
                    .zip(errors)
                    .collect()
            }
            Returns::FirstAndBest => {
                let whole = first_and_best(&rewards, turns.first);
                let error = first_and_best_se(&rewards, &errors, turns.first);
                let of_turn = |reward: &Option<f64>| (reward.and(whole), error);
                counted.iter().map(of_turn).collect()
            }
        };
        for (at, of_turn) in places.iter().zip(of_turns) {
            found[*at] = of_turn;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use flopsmith_test_support::{candidate, outcome, wrong};
    use proptest::prelude::*;

    use super::*;
    use crate::ledger::Sample;

    /// The groups of a step: so many conversations in each group of the first round, each with its number of turns and
    /// the rewards of them, and behind them the later turns, round by round, in groups of one.
    fn step(lengths: &[Vec<usize>]) -> (Groups, Vec<(usize, usize, usize)>) {
        let rounds = lengths.iter().flatten().copied().max().unwrap_or(0);
        let (mut groups, mut said) = (Groups::new(), Vec::new());
        let mut ids = BTreeMap::new();
        let mut next = u32::try_from(lengths.len()).unwrap_or(u32::MAX);
        for turn in 0..rounds {
            for (group, conversations) in lengths.iter().enumerate() {
                let mut of_group = Vec::new();
                for (number, _) in conversations.iter().enumerate().filter(|(_, n)| **n > turn) {
                    let mut of = match turn {
                        0 => candidate(1, group as u32, number as u32),
                        _ => candidate(1, next, 0),
                    };
                    if turn > 0 {
                        next += 1;
                        of.follows = ids.get(&(group, number)).cloned();
                    }
                    ids.insert((group, number), of.id.clone());
                    let sample = Sample {
                        outcome: outcome(of, wrong()),
                        rollout: None,
                    };
                    said.push((group, number, turn));
                    match turn {
                        0 => of_group.push(sample),
                        _ => groups.push(vec![sample]),
                    }
                }
                if turn == 0 {
                    groups.push(of_group);
                }
            }
        }
        (groups, said)
    }

    fn lengths() -> impl Strategy<Value = Vec<Vec<usize>>> {
        prop::collection::vec(prop::collection::vec(1usize..5, 1..4), 1..4)
    }

    /// Rewards with standard errors, enough for all samples of a step.
    fn rewards() -> impl Strategy<Value = Vec<(Option<f64>, f64)>> {
        prop::collection::vec((prop::option::weighted(0.8, -1.0..5.0), 0.0..1.0), 64)
    }

    #[test]
    fn a_request_earns_what_later_turns_earn_and_takes_a_turn() {
        // Turns 0 and 2 make requests, and no later turn of the second conversation has a reward.
        let conversations = [vec![0, 1, 2, 3], vec![4, 5]];
        let mut rewards = [(None, 0.0); 6];
        (rewards[1], rewards[3], rewards[4]) =
            ((Some(-1.0), 0.1), (Some(8.0), 0.2), (Some(2.0), 0.0));
        let asked = [true, false, true, false, false, true];
        let mut settings = Turns {
            discount: 0.5,
            first: 0.75,
            ..Turns::default()
        };
        let scores = |settings: &Turns| -> Vec<Option<f64>> {
            let found = returns(&conversations, settings, &rewards, &asked);
            found.into_iter().map(|(score, _)| score).collect()
        };
        let wanted = [0.5, 1.0, 4.0, 8.0, 2.0].map(Some);
        assert_eq!(scores(&settings), [&wanted[..], &[None]].concat());
        let (_, error) = returns(&conversations, &settings, &rewards, &asked)[2];
        assert!((error - 0.1).abs() < 1e-12, "{error}");
        settings.returns = Returns::FirstAndBest;
        // The first turn with a reward is the first program.
        let whole = Some(0.25 * 8.0 - 0.75);
        let wanted = [whole, whole, whole, whole, Some(2.0), None];
        assert_eq!(scores(&settings), wanted);
    }

    proptest! {
        #[test]
        fn each_turn_has_the_return_of_its_own_conversation(
            lengths in lengths(),
            all in rewards(),
            discount in 0.0..=1.0,
        ) {
            let (groups, said) = step(&lengths);
            let rewards: &[(Option<f64>, f64)] = &all[..said.len()];
            let conversations = conversations(&groups, 4);
            let mut settings = Turns { discount, ..Turns::default() };
            let asked = vec![false; rewards.len()];
            let found = returns(&conversations, &settings, rewards, &asked);
            settings.returns = Returns::FirstAndBest;
            let whole = returns(&conversations, &settings, rewards, &asked);
            for (at, (group, number, turn)) in said.iter().enumerate() {
                // The turns of this conversation with a reward, by brute force.
                let own: Vec<(usize, f64)> = said
                    .iter()
                    .zip(rewards)
                    .filter(|(of, _)| (of.0, of.1) == (*group, *number))
                    .filter_map(|(of, (reward, _))| Some((of.2, (*reward)?)))
                    .collect();
                if rewards[at].0.is_none() {
                    prop_assert_eq!((found[at].0, whole[at].0), (None, None));
                    continue;
                }
                let later = own.iter().filter(|(of, _)| of >= turn);
                let sum: f64 = (0..)
                    .zip(later)
                    .map(|(distance, (_, r))| f64::powi(discount, distance) * r)
                    .sum();
                let own_return = found[at].0.unwrap_or(f64::NAN);
                prop_assert!((own_return - sum).abs() < 1e-9, "{} {}", own_return, sum);
                let best = own.iter().map(|(_, r)| *r).fold(f64::NEG_INFINITY, f64::max);
                let mixed = settings.first * own[0].1 + (1.0 - settings.first) * best;
                let of_whole = whole[at].0.unwrap_or(f64::NAN);
                prop_assert!((of_whole - mixed).abs() < 1e-9, "{} {}", of_whole, mixed);
            }
        }

        #[test]
        fn each_turn_is_compared_once_with_that_turn_of_its_groups_conversations(lengths in lengths()) {
            let (groups, said) = step(&lengths);
            let compared = by_turn(&groups, &conversations(&groups, 4));
            let mut seen: Vec<usize> = compared.iter().flatten().copied().collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..said.len()).collect::<Vec<_>>());
            for places in &compared {
                let (group, _, turn) = said[places[0]];
                let wanted = lengths[group].iter().filter(|n| **n > turn).count();
                prop_assert_eq!(places.len(), wanted);
                prop_assert!(places.iter().all(|at| (said[*at].0, said[*at].2) == (group, turn)));
            }
            // Without conversations the groups are what they are.
            let alone = by_turn(&groups, &conversations(&groups, 1));
            let sizes: Vec<usize> = alone.iter().map(Vec::len).collect();
            prop_assert_eq!(sizes, groups.iter().map(Vec::len).collect::<Vec<_>>());
            prop_assert!(alone.iter().flatten().copied().eq(0..said.len()));
        }
    }
}
