//! The variants that a search made of the user's own program, in its summary.

use std::collections::{HashMap, HashSet};

use flopsmith_protocol::{CandidateId, Interval, Outcome};
use serde::{Deserialize, Serialize};

use super::start::{compared, measurement_of};
use super::{Best, Certified, finalists};
use crate::digits::{between, counted, four};

/// The origin of the best program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// It is the program with which the search began.
    Start,
    /// It is a variant of that program, or of another variant.
    Variant,
    /// The schedule space has it.
    Space,
}

/// The variants of the program with which a search began, and their variants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Family {
    /// Number of different programs among them that have an outcome.
    pub variants: u64,
    /// The fastest one; none if none was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fastest: Option<FastestVariant>,
    /// The origin of the best program; none without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_from: Option<Origin>,
}

/// The fastest variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FastestVariant {
    /// The candidate that wrote it first.
    pub candidate: CandidateId,
    /// Number of variants from the program of the user to this one, itself included.
    pub generations: u64,
    /// Its speed, GFLOPS.
    pub gflops: f64,
    /// How many times as fast as the program of the user it is; none if that one was not measured.
    pub ratio: Option<f64>,
    /// Interval of `ratio`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// True if both were measured once more after the end.
    pub certified: bool,
}

impl Family {
    /// The variants of the program `start`; none if the search made none.
    pub(super) fn of(
        start: &str,
        outcomes: &[Outcome],
        certified: &[Certified],
        refused: &[CandidateId],
        best: Option<&Best>,
    ) -> Option<Self> {
        let is_variant = |outcome: &&Outcome| outcome.candidate.follows.is_some();
        let variants: HashSet<&str> = outcomes
            .iter()
            .filter(is_variant)
            .map(|outcome| outcome.source.as_str())
            .filter(|source| *source != start)
            .collect();
        if variants.is_empty() {
            return None;
        }
        let refused: HashSet<&str> = outcomes
            .iter()
            .filter(|outcome| refused.contains(&outcome.candidate.id))
            .map(|outcome| outcome.source.as_str())
            .collect();
        let counts = |source: &str| variants.contains(source) && !refused.contains(source);
        // The best program is the fastest variant, if it is one.
        let best_variant = best.map(|best| best.source.as_str());
        let best_variant = best_variant.filter(|source| variants.contains(source));
        let mut measured = finalists(outcomes, usize::MAX).into_iter();
        let fastest = measured
            .find(|outcome| match best_variant {
                Some(source) => outcome.source == source,
                None => counts(outcome.source.as_str()),
            })
            .and_then(|found| FastestVariant::of(found, start, outcomes, certified));
        let best_from = best.map(|best| match best.source.as_str() {
            source if source == start => Origin::Start,
            source if variants.contains(source) => Origin::Variant,
            _ => Origin::Space,
        });
        Some(Self {
            variants: variants.len() as u64,
            fastest,
            best_from,
        })
    }

    /// The lines of the summary's table. The line before them says how the best program compares with the user's.
    pub(super) fn lines(&self) -> Vec<String> {
        let variants = counted(self.variants, "variant");
        let made = match self.best_from {
            Some(Origin::Variant) => {
                let generations = self.fastest.as_ref().map_or(0, |of| of.generations);
                let steps = counted(generations, "generation");
                format!(
                    "  the best program comes from yours: it is one of {variants}, after {steps}"
                )
            }
            Some(Origin::Space) => {
                format!(
                    "  the best program comes from the schedule space; the search made {variants} of yours"
                )
            }
            Some(Origin::Start) | None => {
                format!("  the search made {variants} of your program")
            }
        };
        let fastest = self
            .fastest
            .as_ref()
            .map(|of| match (of.ratio, &of.interval) {
                (Some(ratio), Some(interval)) => format!(
                    "  the fastest variant is {}× your program {} ({} GFLOPS{})",
                    four(ratio),
                    between(interval),
                    four(of.gflops),
                    match of.certified {
                        true => "",
                        false => ", not measured after the end",
                    }
                ),
                _ => format!("  the fastest variant has {} GFLOPS", four(of.gflops)),
            });
        let none = || "  none of the variants was right and measured".to_owned();
        vec![made, fastest.unwrap_or_else(none)]
    }
}

impl FastestVariant {
    fn of(
        found: &Outcome,
        start: &str,
        outcomes: &[Outcome],
        certified: &[Certified],
    ) -> Option<Self> {
        let source = found.source.as_str();
        let has = |source: &str| {
            let mut own = outcomes.iter().filter(|outcome| outcome.source == source);
            own.any(|outcome| {
                certified
                    .iter()
                    .any(|c| c.candidate == outcome.candidate.id)
            })
        };
        // Both measurements are of one kind: a first measurement of a program that looks fast is too high on average.
        let is_certified = has(source) && has(start);
        let kind = match is_certified {
            true => certified,
            false => &[],
        };
        let measured = measurement_of(source, outcomes, kind)?;
        let own = measurement_of(start, outcomes, kind);
        let ratio = own.map(|own| compared(measured, own));
        let (candidate, generations) = descent(source, outcomes)?;
        Some(Self {
            candidate: candidate.clone(),
            generations,
            gflops: measured.gflops,
            ratio: ratio.as_ref().map(|(ratio, _)| *ratio),
            interval: ratio.map(|(_, interval)| interval),
            certified: is_certified,
        })
    }
}

/// The candidate that wrote a variant first, and the number of variants from the program of the user to it.
fn descent<'a>(source: &str, outcomes: &'a [Outcome]) -> Option<(&'a CandidateId, u64)> {
    let written = outcomes
        .iter()
        .filter(|outcome| outcome.candidate.remeasures.is_none());
    let parents: HashMap<&CandidateId, &CandidateId> = written
        .clone()
        .filter_map(|of| Some((&of.candidate.id, of.candidate.follows.as_ref()?)))
        .collect();
    let mut own = written.filter(|of| of.source == source && of.candidate.follows.is_some());
    let first = &own.next()?.candidate.id;
    let mut generations = 0;
    let mut next = parents.get(first);
    // A damaged record may lead in a circle.
    while let Some(parent) = next
        && generations < parents.len() as u64
    {
        generations += 1;
        next = parents.get(*parent);
    }
    Some((first, generations))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_protocol::Verdict;
    use flopsmith_test_support::{Measured, again, first, measured, wrong};

    use super::super::best;
    use super::*;

    /// The outcome of a program, which was made of an earlier one if that is given.
    fn made(sample: u32, source: &str, of: Option<&Outcome>, verdict: Verdict) -> Outcome {
        let mut outcome = first(sample, source, "simd", verdict);
        outcome.candidate.follows = of.map(|of| of.candidate.id.clone());
        outcome
    }

    fn family(outcomes: &[Outcome], certified: &[Certified]) -> Option<Family> {
        let best = best(outcomes, certified, &[]);
        Family::of("own", outcomes, certified, &[], best.as_ref())
    }

    fn certified(outcome: &Outcome, gflops: f64) -> Certified {
        Certified {
            candidate: outcome.candidate.id.clone(),
            measurement: Measured::at(gflops).measurement(),
            record: None,
            machine_busy: None,
        }
    }

    #[test]
    fn the_fastest_variant_is_compared_with_the_users_program() {
        let own = made(0, "own", None, measured(20.0));
        assert_eq!(family(std::slice::from_ref(&own), &[]), None, "no variant");
        let slow = made(1, "a", Some(&own), measured(10.0));
        let fast = made(2, "b", Some(&slow), measured(50.0));
        let wrong = made(3, "c", Some(&own), wrong());
        let outcomes = [own, slow, fast, wrong];
        let found = family(&outcomes, &[]).unwrap();
        assert_eq!(
            (found.variants, found.best_from),
            (3, Some(Origin::Variant))
        );
        let fastest = found.fastest.as_ref().unwrap();
        assert_eq!(fastest.candidate, outcomes[2].candidate.id);
        assert_eq!((fastest.ratio, fastest.generations), (Some(2.5), 2));
        assert!(!fastest.certified && fastest.interval.is_some());
        let lines = found.lines();
        assert!(
            lines[0].contains("one of 3 variants, after 2 generations"),
            "{lines:?}"
        );
        assert!(
            lines[1].starts_with("  the fastest variant is 2.500×"),
            "{lines:?}"
        );
        // Measurements after the end count if there are two.
        let one = [certified(&outcomes[2], 40.0)];
        let fastest = family(&outcomes, &one).unwrap().fastest.unwrap();
        assert_eq!((fastest.ratio, fastest.certified), (Some(2.5), false));
        let both = [certified(&outcomes[2], 40.0), certified(&outcomes[0], 10.0)];
        let fastest = family(&outcomes, &both).unwrap().fastest.unwrap();
        assert_eq!((fastest.ratio, fastest.certified), (Some(4.0), true));
    }

    #[test]
    fn the_origin_of_the_best_program_is_named() {
        let own = made(0, "own", None, measured(20.0));
        let slow = made(1, "a", Some(&own), measured(10.0));
        let outcomes = [own.clone(), slow.clone()];
        let found = family(&outcomes, &[]).unwrap();
        assert_eq!(found.best_from, Some(Origin::Start));
        assert!(found.lines()[1].contains("0.5000×"), "{:?}", found.lines());
        let other = made(2, "of the space", None, measured(90.0));
        let found = family(&[own.clone(), slow, other], &[]).unwrap();
        assert_eq!(found.best_from, Some(Origin::Space));
        assert!(
            found.lines()[0].contains("schedule space"),
            "{:?}",
            found.lines()
        );
        // A variant that was refused later is none that was measured.
        let broken = made(1, "a", Some(&own), measured(70.0));
        let refused = [broken.candidate.id.clone()];
        let outcomes = [own, broken];
        let found = Family::of("own", &outcomes, &[], &refused, None).unwrap();
        assert_eq!((found.fastest.as_ref(), found.best_from), (None, None));
        assert!(found.lines()[1].contains("none of the variants"));
    }

    #[test]
    fn a_second_measurement_is_no_variant_and_a_circle_ends() {
        let own = made(0, "own", None, wrong());
        let mut child = made(1, "a", Some(&own), measured(30.0));
        let repeated = again(&child, measured(29.0));
        child.candidate.follows = Some(child.candidate.id.clone());
        let found = family(&[own, child, repeated], &[]).unwrap();
        let fastest = found.fastest.unwrap();
        assert_eq!((found.variants, fastest.generations), (1, 1));
        assert_eq!((fastest.ratio, fastest.gflops), (None, 29.0));
    }
}
