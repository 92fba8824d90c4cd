//! The user's own program in the summary of the search that began with it.

use flopsmith_protocol::{CandidateId, Digest, Interval, Measurement, Outcome, Purpose, Verdict};
use serde::{Deserialize, Serialize};

use super::family::Family;
use super::{Best, Certified, confirms, finalists};
use crate::digits::{between, four};

/// Half the width of a 95 % interval in standard errors.
const NORMAL: f64 = 1.96;
/// Characters of a refusal's detail in the table.
const WIDTH: usize = 160;

/// The program with which a search began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StartProgram {
    /// The kind of its verdict: `measured`, or why it does not count.
    pub verdict: String,
    /// The detail of a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Its speed, GFLOPS.
    pub gflops: Option<f64>,
    /// Reference time divided by its time.
    pub ratio_to_reference: Option<f64>,
    /// Its time divided by the best program's time: how many times as fast the best program is.
    pub best_ratio: Option<f64>,
    /// Interval of `best_ratio`; none if no other program is the best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_interval: Option<Interval>,
    /// The variants that the search made of it; none if it made none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<Family>,
}

/// How many times as fast a program is as another one, with the 95 % interval.
pub(super) fn compared(fast: &Measurement, slow: &Measurement) -> (f64, Interval) {
    let ratio = fast.ratio / slow.ratio;
    // The error of the reference is the same in both.
    let error = fast.log_ratio_se.hypot(slow.log_ratio_se);
    let interval = Interval {
        low: ratio * (-NORMAL * error).exp(),
        high: ratio * (NORMAL * error).exp(),
        confidence: 0.95,
    };
    (ratio, interval)
}

impl StartProgram {
    /// The program of this digest, with its variants; none before it has an outcome.
    pub(super) fn of(
        digest: &Digest,
        outcomes: &[Outcome],
        certified: &[Certified],
        refused: &[CandidateId],
        best: Option<&Best>,
    ) -> Option<Self> {
        let first = outcomes.iter().find(|o| is(o, digest))?;
        let alone = Self::alone(first, outcomes, certified, refused, best);
        Some(Self {
            family: Family::of(&first.source, outcomes, certified, refused, best),
            ..alone
        })
    }

    /// The program of this outcome, without its variants.
    fn alone(
        first: &Outcome,
        outcomes: &[Outcome],
        certified: &[Certified],
        refused: &[CandidateId],
        best: Option<&Best>,
    ) -> Self {
        let source = first.source.as_str();
        let not_measured = |verdict: &str, detail: &str| Self {
            verdict: verdict.to_owned(),
            detail: Some(detail.to_owned()).filter(|detail| !detail.is_empty()),
            gflops: None,
            ratio_to_reference: None,
            best_ratio: None,
            best_interval: None,
            family: None,
        };
        let mut own = outcomes.iter().filter(|o| o.source == source);
        // A later refusal, as by sanitizers, outweighs an earlier measurement.
        let refusal = own.clone().find_map(|o| match &o.verdict {
            Verdict::Rejected { fault, detail } => Some((fault.name(), detail)),
            _ => None,
        });
        if let Some((fault, detail)) = refusal {
            return not_measured(fault, detail);
        }
        if own.any(|o| refused.contains(&o.candidate.id)) {
            let detail = "the final certification refused it";
            return not_measured("refused", detail);
        }
        let Some(measured) = measurement_of(source, outcomes, certified) else {
            return match &first.verdict {
                Verdict::Infrastructure { detail, .. } | Verdict::Unknown { detail, .. } => {
                    not_measured(first.verdict.kind(), detail)
                }
                _ => not_measured(first.verdict.kind(), ""),
            };
        };
        let fastest = best.and_then(|best| {
            let found = measurement_of(&best.source, outcomes, certified)?;
            Some((found, best.source == source))
        });
        let ratio = fastest.map(|(fastest, same)| match same {
            true => 1.0,
            false => fastest.ratio / measured.ratio,
        });
        let other = fastest.filter(|(_, same)| !same);
        let interval = other.map(|(fastest, _)| compared(fastest, measured).1);
        Self {
            verdict: first.verdict.kind().to_owned(),
            detail: None,
            gflops: Some(measured.gflops),
            ratio_to_reference: Some(measured.ratio),
            best_ratio: ratio,
            best_interval: interval,
            family: None,
        }
    }

    /// The lines of the summary's table.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.line()];
        lines.extend(self.family.iter().flat_map(Family::lines));
        lines
    }

    /// The line on the program itself.
    fn line(&self) -> String {
        let Some(gflops) = self.gflops else {
            let detail = self.detail.as_deref().unwrap_or_default();
            let detail = flopsmith_report::excerpt(detail, WIDTH);
            return match detail.is_empty() {
                true => format!("your program does not count ({})", self.verdict),
                false => format!("your program does not count ({}): {detail}", self.verdict),
            };
        };
        match (self.best_ratio, &self.best_interval) {
            (Some(ratio), Some(interval)) => format!(
                "  {}× your program {} ({} GFLOPS)",
                four(ratio),
                between(interval),
                four(gflops)
            ),
            (Some(_), None) => "  it is your program: the search found no faster one".to_owned(),
            (None, _) => format!("your program: {} GFLOPS", four(gflops)),
        }
    }
}

fn is(outcome: &Outcome, digest: &Digest) -> bool {
    Digest::of(outcome.source.as_bytes()) == *digest
}

/// The measurement of a program that counts: the certified one, else a repeated one, else the first.
pub(crate) fn measurement_of<'a>(
    source: &str,
    outcomes: &'a [Outcome],
    certified: &'a [Certified],
) -> Option<&'a Measurement> {
    let own = || outcomes.iter().filter(|o| o.source == source);
    let last = certified
        .iter()
        .find(|c| own().any(|o| o.candidate.id == c.candidate));
    if let Some(last) = last {
        return Some(&last.measurement);
    }
    let of = |again: bool| {
        own()
            .filter(|o| (o.candidate.purpose == Purpose::Certify) == again)
            .filter_map(|o| o.verdict.measurement())
            .filter(|m| confirms(m, again))
            .max_by(|a, b| a.compare(b))
    };
    of(true).or_else(|| of(false))
}

/// The programs to certify after the end of a run: the `count` fastest ones, and the one with which the search began, so that the two can
/// be compared.
pub fn to_certify<'a>(
    outcomes: &'a [Outcome],
    count: usize,
    start: Option<&Digest>,
) -> Vec<&'a Outcome> {
    let mut all = finalists(outcomes, count);
    if let Some(digest) = start.filter(|_| count > 0)
        && !all.iter().any(|o| is(o, digest))
    {
        let measured = finalists(outcomes, usize::MAX);
        all.extend(measured.into_iter().find(|o| is(o, digest)));
    }
    all
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_protocol::CandidateFault;
    use flopsmith_test_support::{
        Measured, again, first, infrastructure, measured, rejected, wrong,
    };

    use super::super::best;
    use super::*;

    fn own() -> Digest {
        Digest::of(b"own")
    }

    fn found(outcomes: &[Outcome], certified: &[Certified]) -> Option<StartProgram> {
        let best = best(outcomes, certified, &[]);
        StartProgram::of(&own(), outcomes, certified, &[], best.as_ref())
    }

    #[test]
    fn the_best_program_is_compared_with_the_users_own() {
        let outcomes = [
            first(0, "own", "simd", Measured::at(20.0).se(0.03).verdict()),
            first(1, "fast", "simd", Measured::at(50.0).se(0.04).verdict()),
        ];
        let said = found(&outcomes, &[]).unwrap();
        assert_eq!((said.gflops, said.best_ratio), (Some(20.0), Some(2.5)));
        let interval = said.best_interval.unwrap();
        let half = (1.96f64 * 0.05).exp();
        assert!((interval.high / 2.5 - half).abs() < 1e-9, "{interval:?}");
        assert!((2.5 / interval.low - half).abs() < 1e-9, "{interval:?}");
        let line = said.line();
        assert!(line.starts_with("  2.500× your program [2.2"), "{line}");
        assert!(line.ends_with("(20.00 GFLOPS)"), "{line}");
        // The measurements after the end count.
        let certified = [(0, 21.0), (1, 42.0)].map(|(n, gflops): (usize, f64)| Certified {
            candidate: outcomes[n].candidate.id.clone(),
            measurement: Measured::at(gflops).measurement(),
            record: None,
            machine_busy: None,
        });
        assert_eq!(found(&outcomes, &certified).unwrap().best_ratio, Some(2.0));
    }

    #[test]
    fn a_program_of_the_user_that_is_best_or_refused_says_so() {
        assert_eq!(
            found(&[first(0, "other", "simd", measured(9.0))], &[]),
            None
        );
        let alone = [first(0, "own", "simd", measured(20.0))];
        let said = found(&alone, &[]).unwrap();
        assert_eq!((said.best_ratio, said.best_interval), (Some(1.0), None));
        assert!(said.line().contains("no faster one"));
        let of = |verdict: Verdict| {
            let outcomes = [
                first(0, "own", "simd", verdict),
                first(1, "a", "simd", measured(9.0)),
            ];
            let said = found(&outcomes, &[]).unwrap();
            assert_eq!(said.gflops, None);
            said.line()
        };
        assert_eq!(of(wrong()), "your program does not count (wrong_result)");
        let lost = infrastructure(flopsmith_protocol::InfrastructureCause::Bus);
        assert_eq!(of(lost), "your program does not count (bus)");
        let later = rejected(CandidateFault::UndefinedBehaviour);
        let outcomes = [again(&alone[0], later), alone[0].clone()];
        let said = found(&outcomes, &[]).unwrap();
        assert_eq!(said.verdict, "undefined_behaviour");
        let refused = [alone[0].candidate.id.clone()];
        let said = StartProgram::of(&own(), &alone, &[], &refused, None).unwrap();
        assert!(said.line().contains("final certification refused it"));
    }

    #[test]
    fn the_users_own_program_is_certified_with_the_fastest_ones() {
        let outcomes = [
            first(0, "own", "simd", measured(20.0)),
            first(1, "a", "simd", measured(40.0)),
            first(2, "b", "simd", measured(30.0)),
        ];
        let sources = |count, start: Option<&Digest>| -> Vec<&str> {
            let all = to_certify(&outcomes, count, start);
            all.into_iter().map(|o| o.source.as_str()).collect()
        };
        assert_eq!(sources(1, Some(&own())), ["a", "own"]);
        assert_eq!(sources(3, Some(&own())), ["a", "b", "own"]);
        assert_eq!(sources(1, None), ["a"]);
        assert!(sources(0, Some(&own())).is_empty());
        assert_eq!(sources(1, Some(&Digest::of(b"x"))), ["a"]);
    }
}
