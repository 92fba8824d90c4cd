//! The program that the candidates of a request are compared with, beside the plain reference. Pure.
//!
//! A timer measures each program in turns with the baseline, and no two programs in turns with each other. So the ratio of two programs
//! is the quotient of their ratios to the plain reference, without the error of the reference that both have in common.

use flopsmith_measure::ranking::{Compared, LogRatio, placement_log_se};
use flopsmith_measure::stats::SYSTEMATIC_LOG_SE;
use flopsmith_protocol::Measurement;
use serde::{Deserialize, Serialize};

use crate::refusal::{Kind, Mistake, Refusal};
use crate::wire::{Answer, Outcome, Purpose, is_not_timed};

/// The place of `against` in a request.
pub const POINTER: &str = "/against";

/// The part that the program of an `against` has in a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// None: ratios are to the plain reference alone.
    #[default]
    None,
    /// The job measures it for a request that follows, and has no other candidate.
    Measured,
    /// The candidates are compared with it.
    With(Speed),
}

impl Comparison {
    /// A comparison with the program of this answer; none if its speed is not known at all.
    ///
    /// # Errors
    /// A refusal of the request, which names the fault of the program or the failure of the machine.
    pub fn with(answer: &Answer) -> Result<Self, Refusal> {
        let reason = answer.reason.as_deref().unwrap_or_default();
        let mistaken = |detail: String| {
            let pointer = POINTER.into();
            Err(Refusal::invalid(vec![Mistake { pointer, detail }]))
        };
        match answer.outcome {
            Outcome::Measured | Outcome::Unconverged => {
                Ok(Speed::of(answer).map_or(Self::None, Self::With))
            }
            Outcome::Rejected => mistaken(format!(
                "the program is refused ({reason}): {}; send a right one, or leave `against` out",
                answer.diagnostics
            )),
            Outcome::Unknown if is_not_timed(answer) => mistaken(format!(
                "the program has no speed here ({reason}): {}; leave `against` out",
                answer.diagnostics
            )),
            Outcome::Infrastructure | Outcome::Unknown => {
                let detail = format!(
                    "the program of `against` was not evaluated ({reason}): {}; ask again",
                    answer.diagnostics
                );
                Err(Refusal::new(Kind::Infrastructure, detail).retry_after(5))
            }
        }
    }

    /// Completes the answer to a candidate.
    pub fn enter(&self, answer: &mut Answer) {
        if let Self::With(other) = self
            && let Some(own) = Speed::of(answer)
            && let Some(compared) = own.over(other)
        {
            answer.ratio_to_against = Some(compared.ratio);
            answer.interval_to_against = Some(compared.interval);
        }
    }
}

/// The speed of a program relative to others with the same reference, with the error that a single process adds.
pub fn log_ratio(measurement: &Measurement, purpose: Purpose) -> LogRatio {
    let own = LogRatio {
        value: measurement.ratio.ln(),
        se: measurement.log_ratio_se.max(SYSTEMATIC_LOG_SE),
    };
    own.widened(placement_log_se(purpose.into()))
}

/// The speed of a measured program. All numbers are finite: JSON has no others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// ln(the plain reference's time / the program's).
    log_ratio: f64,
    /// Its standard error, without that of the reference.
    log_se: f64,
    /// Names the measurement of the reference.
    reference: String,
    /// Standard error that the reference adds beside a speed with another measurement of it.
    reference_log_se: f64,
}

impl Speed {
    /// The speed in an answer, if it has one.
    pub fn of(answer: &Answer) -> Option<Self> {
        let own = log_ratio(answer.measurement.as_ref()?, answer.purpose);
        let reference = answer.reference.as_ref()?;
        let placed = placement_log_se(answer.purpose.into());
        let reference_log_se = reference.log_se.hypot(placed);
        let mut numbers = [own.value, own.se, reference_log_se].into_iter();
        numbers.all(f64::is_finite).then(|| Self {
            log_ratio: own.value,
            log_se: own.se,
            reference: reference.id.clone(),
            reference_log_se,
        })
    }

    /// How many times as fast this program is as another one; none if nothing is known about that.
    pub fn over(&self, other: &Self) -> Option<Compared> {
        let same = self.reference == other.reference;
        let own = |speed: &Self| {
            let own = LogRatio {
                value: speed.log_ratio,
                se: speed.log_se,
            };
            match same {
                true => own,
                // Two measurements of the reference have no error in common.
                false => own.widened(speed.reference_log_se),
            }
        };
        let compared = own(self).over(own(other));
        let interval = compared.interval;
        let mut numbers = [compared.ratio, interval.low, interval.high].into_iter();
        numbers.all(f64::is_finite).then_some(compared)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_protocol::{CandidateFault, Failure, InfrastructureCause, UnknownCause, Verdict};
    use flopsmith_reward::Reward;
    use flopsmith_test_support::{Measured, infrastructure, wrong};
    use proptest::prelude::*;

    use super::*;
    use crate::program::{Asked, Judged};

    fn answer(verdict: Verdict, purpose: Purpose, reference: &str) -> Answer {
        let judged = Judged {
            verdict,
            reference: Some(crate::reference::tests::reference(reference, 1).speeds),
            ..Judged::failed(Failure::candidate(CandidateFault::Format, ""))
        };
        let asked = Asked {
            id: "a".into(),
            problem: "dgemm".into(),
            purpose,
        };
        judged.answer(0, &asked, &Reward::default())
    }

    fn at(ratio: f64, se: f64, purpose: Purpose, reference: &str) -> Answer {
        answer(Measured::at(ratio).se(se).verdict(), purpose, reference)
    }

    fn over(answer: &Answer, other: &Answer) -> Option<Compared> {
        Speed::of(answer)?.over(&Speed::of(other)?)
    }

    /// Half of the interval of ln(ratio), in standard errors.
    fn log_se(compared: &Compared) -> f64 {
        (compared.interval.high / compared.interval.low).ln() / 2.0 / 1.96
    }

    #[test]
    fn the_interval_of_a_quotient_has_the_errors_that_the_two_do_not_share() {
        let of = |purpose, reference| {
            let other = at(4.0, 0.004, purpose, reference);
            over(&at(6.0, 0.003, purpose, "r"), &other).unwrap()
        };
        // A certification measures many processes.
        let certified = of(Purpose::Certify, "r");
        assert!((certified.ratio - 1.5).abs() < 1e-12);
        assert!((log_se(&certified) - 0.005).abs() < 1e-12);
        // A process of its own adds 0.02 to either.
        let ranked = of(Purpose::Rank, "r");
        let expected = (0.005f64.powi(2) + 2.0 * 0.02f64.powi(2)).sqrt();
        assert!((log_se(&ranked) - expected).abs() < 1e-12);
        // The tests' reference has an error of 0.004.
        let apart = of(Purpose::Certify, "another");
        let expected = (0.005f64.powi(2) + 2.0 * 0.004f64.powi(2)).sqrt();
        assert!((log_se(&apart) - expected).abs() < 1e-12);
        assert!(log_se(&of(Purpose::Rank, "another")) > log_se(&ranked));
    }

    #[test]
    fn only_programs_that_were_measured_compare() {
        let right = at(4.0, 0.004, Purpose::Rank, "r");
        let rejected = answer(wrong(), Purpose::Rank, "r");
        assert!(over(&rejected, &right).is_none());
        let mut without = right.clone();
        without.reference = None;
        assert!(over(&right, &without).is_none());
        let vague = at(4.0, 1e3, Purpose::Rank, "r");
        assert!(Speed::of(&vague).is_some() && over(&right, &vague).is_none());
        let nothing = at(4.0, f64::INFINITY, Purpose::Rank, "r");
        assert_eq!(Comparison::with(&nothing), Ok(Comparison::None));
        let with = Comparison::with(&right).unwrap();
        let text = serde_json::to_string(&with).unwrap();
        let with: Comparison = serde_json::from_str(&text).unwrap();
        let mut compared = rejected.clone();
        with.enter(&mut compared);
        assert_eq!(compared, rejected);
        let mut compared = right.clone();
        Comparison::None.enter(&mut compared);
        assert_eq!(compared, right);
        with.enter(&mut compared);
        assert_eq!(compared.ratio_to_against, Some(1.0));
        assert!(compared.interval_to_against.unwrap().low < 1.0);
    }

    #[test]
    fn a_program_without_a_speed_is_a_refusal_that_names_its_fault() {
        let kind = |verdict: Verdict| {
            let refusal = Comparison::with(&answer(verdict, Purpose::Rank, "r")).unwrap_err();
            (refusal.kind, refusal.details())
        };
        let (refused, details) = kind(wrong());
        assert_eq!(refused, Kind::Invalid);
        assert_eq!(details.errors[0].pointer, "/against");
        assert!(details.detail.contains("wrong_result"), "{details:?}");
        let gpu = Failure::unknown(UnknownCause::NotTimed, "needs a GPU");
        let (untimed, details) = kind(gpu.into());
        assert_eq!(untimed, Kind::Invalid);
        assert!(details.detail.contains("needs a GPU"), "{details:?}");
        let (failed, details) = kind(infrastructure(InfrastructureCause::Jail));
        assert_eq!(failed, Kind::Infrastructure);
        assert!(details.errors.is_empty(), "{details:?}");
        let unsure = Measured::at(4.0).unconverged().verdict();
        let unsure = Comparison::with(&answer(unsure, Purpose::Rank, "r"));
        assert!(matches!(unsure, Ok(Comparison::With(_))), "{unsure:?}");
    }

    proptest! {
        #[test]
        fn a_comparison_is_the_reciprocal_of_the_opposite_one(
            ratios in (0.01f64..1000.0, 0.01f64..1000.0),
            errors in (0.0f64..0.5, 0.0f64..0.5),
            same in any::<bool>(),
        ) {
            let one = at(ratios.0, errors.0, Purpose::Rank, "r");
            let other = at(ratios.1, errors.1, Purpose::Rank, if same { "r" } else { "s" });
            let (there, back) = (over(&one, &other).unwrap(), over(&other, &one).unwrap());
            prop_assert!((there.ratio * back.ratio - 1.0).abs() < 1e-9);
            prop_assert!((there.interval.low * back.interval.high - 1.0).abs() < 1e-9);
            prop_assert!((there.ratio * ratios.1 / ratios.0 - 1.0).abs() < 1e-9);
            prop_assert!(there.interval.low < there.ratio && there.ratio < there.interval.high);
            // The quotient is known less well than either.
            prop_assert!(log_se(&there) >= errors.0.max(errors.1) - 1e-9);
        }
    }
}
