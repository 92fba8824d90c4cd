//! Equal samples of a step, which are computed once.
//!
//! A policy that has found a good program writes it repeatedly: late in a run four samples of five are copies of
//! another sample of the same step. The tokens of copies have the same log-probabilities and the same gradients, and
//! every loss of [`crate::loss`] is linear in the advantage for advantages of one sign (the sign decides which ratios
//! are clipped). Copies are therefore one row whose weight is the sum of their weights, and whose advantage is the mean
//! of theirs by weight: the same sum, computed once.

use std::collections::HashMap;

use crate::learner::GrpoSample;

/// Log-probabilities of equal tokens differ by at most this under one policy (by rounding), and by more under different
/// policies.
const SAME_LOGPROB: f32 = 1e-4;

/// The copies among a step's samples.
pub(crate) struct Duplicates {
    /// For each row, the sample that represents it.
    pub first: Vec<usize>,
    /// For each sample, its row.
    pub row: Vec<usize>,
}

/// The picked samples of one update, summed by row.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Share {
    /// Samples.
    pub copies: u32,
    /// Sum of their token weights.
    pub weight: f64,
    /// Sum of weight times advantage.
    weighted_advantage: f64,
}

impl Share {
    /// Mean of the advantages by weight.
    pub fn advantage(&self) -> f64 {
        if self.weight > 0.0 {
            self.weighted_advantage / self.weight
        } else {
            0.0
        }
    }
}

impl Duplicates {
    /// Finds the copies among `samples`.
    pub fn of(samples: &[GrpoSample]) -> Self {
        type Key<'a> = (&'a [u32], &'a [u32], u32, bool);
        let mut known: HashMap<Key, Vec<usize>> = HashMap::new();
        let mut duplicates = Self {
            first: Vec::new(),
            row: Vec::with_capacity(samples.len()),
        };
        for (number, sample) in samples.iter().enumerate() {
            let key = (
                sample.prompt.as_slice(),
                sample.tokens.as_slice(),
                sample.temperature.to_bits(),
                sample.advantage > 0.0,
            );
            let rows = known.entry(key).or_default();
            let found = rows
                .iter()
                .copied()
                .find(|row| same_policy(&samples[duplicates.first[*row]], sample));
            let row = found.unwrap_or_else(|| {
                duplicates.first.push(number);
                rows.push(duplicates.first.len() - 1);
                duplicates.first.len() - 1
            });
            duplicates.row.push(row);
        }
        duplicates
    }

    /// Sums the picked samples by row, in the order of the rows' first appearance.
    pub fn shares(
        &self,
        samples: &[GrpoSample],
        picked: &[usize],
        weights: &[f64],
    ) -> Vec<(usize, Share)> {
        let mut order: Vec<(usize, Share)> = Vec::new();
        let mut place: HashMap<usize, usize> = HashMap::new();
        for (&sample, &weight) in picked.iter().zip(weights) {
            let row = self.row[sample];
            let at = *place.entry(row).or_insert_with(|| {
                order.push((row, Share::default()));
                order.len() - 1
            });
            let share = &mut order[at].1;
            share.copies += 1;
            share.weight += weight;
            share.weighted_advantage += weight * f64::from(samples[sample].advantage);
        }
        order
    }
}

fn same_policy(a: &GrpoSample, b: &GrpoSample) -> bool {
    a.old_logprobs.len() == b.old_logprobs.len()
        && a.old_logprobs
            .iter()
            .zip(&b.old_logprobs)
            .all(|(a, b)| (a - b).abs() <= SAME_LOGPROB)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(text: u32, advantage: f32, logprob: f32) -> GrpoSample {
        GrpoSample {
            prompt: vec![1],
            tokens: vec![text, 2],
            old_logprobs: vec![logprob, -0.5],
            advantage,
            temperature: 1.0,
        }
    }

    #[test]
    fn copies_of_another_policy_or_with_another_sign_stay_apart() {
        let samples = [
            sample(7, 1.0, -1.0),
            sample(7, 0.5, -1.000_01),
            sample(7, -0.5, -1.0),
            sample(7, 1.0, -1.2),
            sample(8, 1.0, -1.0),
        ];
        let duplicates = Duplicates::of(&samples);
        assert_eq!(duplicates.row, [0, 0, 1, 2, 3]);
        assert_eq!(duplicates.first, [0, 2, 3, 4]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_counted_twice(texts in prop::collection::vec((0u32..4, -1.0f32..1.0), 1..40)) {
            let samples: Vec<GrpoSample> = texts.iter().map(|(t, a)| sample(*t, *a, -1.0)).collect();
            let duplicates = Duplicates::of(&samples);
            let picked: Vec<usize> = (0..samples.len()).rev().collect();
            let weights: Vec<f64> = picked.iter().map(|i| 0.1 + *i as f64).collect();
            let shares = duplicates.shares(&samples, &picked, &weights);
            prop_assert_eq!(shares.iter().map(|(_, s)| s.copies as usize).sum::<usize>(), samples.len());
            for (row, share) in &shares {
                let own: Vec<usize> = picked.iter().copied().filter(|i| duplicates.row[*i] == *row).collect();
                let weight: f64 = own.iter().map(|i| 0.1 + *i as f64).sum();
                let sum: f64 = own.iter().map(|i| (0.1 + *i as f64) * f64::from(samples[*i].advantage)).sum();
                prop_assert!((share.weight - weight).abs() < 1e-9);
                prop_assert!((share.advantage() * share.weight - sum).abs() < 1e-9);
                prop_assert!(own.iter().all(|i| samples[*i].tokens == samples[duplicates.first[*row]].tokens));
            }
        }
    }
}
