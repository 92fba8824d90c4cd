//! The fastest program of a run so far, by one rule for every display of it.
//!
//! A program whose measurement was repeated outranks one that was measured once: the best of many first measurements is too
//! high. Among programs of the same certainty the lower ends of the intervals decide ([`Measurement::reaches`]), as in
//! [`Measurement::compare`].

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use flopsmith_protocol::{
    CandidateFault, CandidateId, Digest, Measurement, Outcome, Purpose, TechniqueSet, Verdict,
};
use serde::{Deserialize, Serialize};

/// How certain the speed of a program is, the least certain first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// Measured once, and that did not converge.
    Imprecise,
    /// Measured once.
    Once,
    /// Measured again.
    Again,
}

impl Certainty {
    /// Words for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Imprecise => "measured once, imprecisely",
            Self::Once => "measured once",
            Self::Again => "measured again",
        }
    }
}

/// The speed of the fastest program so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BestSoFar {
    /// 10⁹ floating-point operations a second.
    pub gflops: f64,
    /// How certain this is.
    pub certainty: Certainty,
}

/// A program with the measurement that counts for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The candidate whose outcome has that measurement.
    pub candidate: CandidateId,
    /// Speed in 10⁹ floating-point operations a second, and how certain it is.
    pub speed: BestSoFar,
    /// The plain reference's time / the program's.
    pub ratio: f64,
    /// Techniques that were detected in it.
    pub techniques: TechniqueSet,
    /// Its worst workload, and its ratio to the plain reference there; none where there is one workload.
    pub worst: Option<(String, f64)>,
    /// See [`Measurement::reaches`].
    reaches: f64,
}

impl Claim {
    /// The claim of an outcome with this measurement. A second measurement that comes from the cache or did not converge
    /// confirms nothing, and claims nothing.
    fn of(outcome: &Outcome, measurement: &Measurement) -> Option<Self> {
        let repeated = outcome.candidate.purpose == Purpose::Certify;
        let certainty = match (repeated, measurement.converged()) {
            (true, true) if !measurement.reused => Certainty::Again,
            (true, _) => return None,
            (false, true) => Certainty::Once,
            (false, false) => Certainty::Imprecise,
        };
        Some(Self {
            candidate: outcome.candidate.id.clone(),
            speed: BestSoFar {
                gflops: measurement.gflops,
                certainty,
            },
            ratio: measurement.ratio,
            techniques: outcome.techniques.unwrap_or_default(),
            worst: measurement
                .worst()
                .map(|worst| (worst.name.clone(), worst.ratio)),
            reaches: measurement.reaches(),
        })
    }

    /// The order of claims, the best last. Total, so that it does not depend on the order of the outcomes.
    fn compare(&self, other: &Self) -> Ordering {
        let certainty = self.speed.certainty.cmp(&other.speed.certainty);
        certainty
            .then_with(|| self.reaches.total_cmp(&other.reaches))
            .then_with(|| self.speed.gflops.total_cmp(&other.speed.gflops))
            .then_with(|| other.candidate.cmp(&self.candidate))
    }
}

/// Finds the fastest program among the outcomes of one problem.
#[derive(Debug, Clone, Default)]
pub struct Fastest {
    /// The best claim of each source; once a measurement was repeated, of sources with a repeated measurement only.
    claims: HashMap<Digest, Claim>,
    /// Sources that do not count.
    refused: HashSet<Digest>,
    leader: Option<Digest>,
}

impl Fastest {
    /// The same for a run in which programs with these sources do not count, whatever their measurements.
    pub fn without<'a>(sources: impl Iterator<Item = &'a str>) -> Self {
        Self {
            refused: sources
                .map(|source| Digest::of(source.as_bytes()))
                .collect(),
            ..Self::default()
        }
    }

    /// Takes an outcome into account. A program in which sanitizers found a fault no longer counts; its first measurement
    /// came before they looked.
    pub fn note(&mut self, outcome: &Outcome) {
        let source = || Digest::of(outcome.source.as_bytes());
        match &outcome.verdict {
            Verdict::Measured { measurement } => {
                if let Some(claim) = Claim::of(outcome, measurement) {
                    self.claim(source(), claim);
                }
            }
            Verdict::Rejected {
                fault: CandidateFault::UndefinedBehaviour,
                ..
            } => self.refuse(source()),
            _ => {}
        }
    }

    /// The fastest program so far; none before the first verified one.
    pub fn best(&self) -> Option<&Claim> {
        self.claims.get(self.leader.as_ref()?)
    }

    fn claim(&mut self, source: Digest, claim: Claim) {
        if self.refused.contains(&source) {
            return;
        }
        let certainty = |claim: &Claim| claim.speed.certainty;
        let settled = self.best().map(certainty) == Some(Certainty::Again);
        if settled && certainty(&claim) < Certainty::Again {
            return;
        }
        let known = self.claims.get(&source);
        if known.is_some_and(|known| claim.compare(known).is_le()) {
            return;
        }
        if !settled && certainty(&claim) == Certainty::Again {
            self.claims.clear();
            self.leader = None;
        }
        let leads = self.best().is_none_or(|best| claim.compare(best).is_gt());
        if leads {
            self.leader = Some(source.clone());
        }
        self.claims.insert(source, claim);
    }

    fn refuse(&mut self, source: Digest) {
        self.claims.remove(&source);
        if self.leader.as_ref() == Some(&source) {
            let all = self.claims.iter();
            let best = all.max_by(|(_, one), (_, other)| one.compare(other));
            self.leader = best.map(|(source, _)| source.clone());
        }
        self.refused.insert(source);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_test_support::{Measured, again, first, measured, rejected};
    use proptest::prelude::*;

    use super::*;

    /// Speed and certainty of the fastest of these programs.
    fn found(outcomes: &[Outcome]) -> Option<(f64, Certainty)> {
        let mut fastest = Fastest::default();
        outcomes.iter().for_each(|outcome| fastest.note(outcome));
        let best = fastest.best()?;
        Some((best.speed.gflops, best.speed.certainty))
    }

    #[test]
    fn a_repeated_measurement_outranks_any_first_one() {
        let lucky = first(0, "lucky", "simd", measured(90.0));
        let good = first(1, "good", "simd", measured(60.0));
        let unsure = Measured::at(99.0).unconverged();
        let mut outcomes = vec![first(2, "unsure", "simd", unsure.verdict())];
        assert_eq!(found(&outcomes), Some((99.0, Certainty::Imprecise)));
        outcomes.push(lucky.clone());
        assert_eq!(found(&outcomes), Some((90.0, Certainty::Once)));
        // Neither confirms anything.
        outcomes.push(again(&lucky, unsure.verdict()));
        outcomes.push(again(&good, Measured::at(95.0).reused().verdict()));
        assert_eq!(found(&outcomes), Some((90.0, Certainty::Once)));
        outcomes.push(again(&good, measured(58.0)));
        assert_eq!(found(&outcomes), Some((58.0, Certainty::Again)));
        outcomes.push(first(3, "later", "simd", measured(97.0)));
        outcomes.push(again(&lucky, measured(57.0)));
        assert_eq!(found(&outcomes), Some((58.0, Certainty::Again)));
    }

    #[test]
    fn the_lower_end_of_the_interval_decides() {
        let wide = first(0, "wide", "simd", Measured::at(50.0).se(0.1).verdict());
        let sure = first(1, "sure", "simd", Measured::at(48.0).verdict());
        assert_eq!(found(&[wide, sure]).unwrap().0, 48.0);
    }

    #[test]
    fn a_program_that_is_refused_leaves_the_place_to_the_next_one() {
        let fast = first(0, "fast", "simd", measured(90.0));
        let fault = rejected(CandidateFault::UndefinedBehaviour);
        let outcomes = [
            fast.clone(),
            first(1, "slow", "simd", measured(40.0)),
            again(&fast, fault),
            first(2, "fast", "simd", measured(91.0)),
        ];
        assert_eq!(found(&outcomes), Some((40.0, Certainty::Once)));
        let mut fastest = Fastest::without(["slow"].into_iter());
        outcomes.iter().for_each(|outcome| fastest.note(outcome));
        assert_eq!(fastest.best(), None);
    }

    proptest! {
        #[test]
        fn the_order_of_first_measurements_makes_no_difference(
            speeds in prop::collection::vec((1.0f64..100.0, 0.001f64..0.2, any::<bool>()), 1..12),
        ) {
            let mut outcomes: Vec<Outcome> = (0..)
                .zip(&speeds)
                .map(|(sample, (gflops, se, converged))| {
                    let measured = Measured::at(*gflops).se(*se);
                    let measured = if *converged { measured } else { measured.unconverged() };
                    first(sample, &format!("program {sample}"), "simd", measured.verdict())
                })
                .collect();
            let best = found(&outcomes);
            outcomes.reverse();
            prop_assert_eq!(found(&outcomes), best);
        }
    }
}
