//! Scores of the turns of conversations. Pure.

use std::collections::BTreeMap;

use flopsmith_config::Turns;
use flopsmith_config::recipe::Returns;
use flopsmith_protocol::CandidateId;
use flopsmith_reward::turns::{discounted, first_and_best};

use crate::ledger::Groups;

/// Replaces the rewards of a step's answers by the returns of their conversations ([`flopsmith_reward::turns`]).
pub(crate) fn conversations(groups: &Groups, scores: &mut [Vec<Option<f64>>], turns: &Turns) {
    let places = || {
        (0..).zip(groups).flat_map(|(group, samples)| {
            (0..)
                .zip(samples)
                .map(move |(n, s)| ((group, n), &s.outcome))
        })
    };
    let next: BTreeMap<&CandidateId, (usize, usize)> = places()
        .filter_map(|(place, outcome)| Some((outcome.candidate.follows.as_ref()?, place)))
        .collect();
    let firsts = places().filter(|(_, outcome)| outcome.candidate.follows.is_none());
    for (first, _) in firsts {
        let mut said = vec![first];
        let mut last = first;
        while said.len() < turns.most as usize
            && let Some(place) = next.get(&groups[last.0][last.1].outcome.candidate.id)
        {
            said.push(*place);
            last = *place;
        }
        let rewards: Vec<Option<f64>> = said.iter().map(|(g, n)| scores[*g][*n]).collect();
        let returns = match turns.returns {
            Returns::Discounted => discounted(&rewards, turns.discount),
            Returns::FirstAndBest => {
                let whole = first_and_best(&rewards, turns.first);
                rewards.iter().map(|reward| reward.and(whole)).collect()
            }
        };
        for ((group, number), score) in said.into_iter().zip(returns) {
            scores[group][number] = score;
        }
    }
}
