//! Outcomes of programs.

use flopsmith_bench::compare::widened;
use flopsmith_bench::rows::{Machine, Row};
use flopsmith_bench::stages::Stages;
use flopsmith_evaluate::Evaluated;
use flopsmith_measure::Purpose;
use flopsmith_measure::ranking::LogRatio;
use flopsmith_protocol::{Digest, Measurement, TechniqueSet, UnknownCause, Verdict};
use flopsmith_report::clock::Clock;
use serde::{Deserialize, Serialize};

/// The outcome of a program at a number of threads: a line of `outcomes.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The problem.
    pub problem: String,
    /// Digest of the program.
    pub program: Digest,
    /// Number of threads that it was timed with.
    pub threads: u32,
    /// The result of its evaluation.
    pub outcome: State,
    /// The fault or the cause, unless it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Diagnostics of a program that was not measured.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// True if the program was built.
    pub built: bool,
    /// Its techniques, if it was built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub techniques: Option<TechniqueSet>,
    /// Its speed, if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<Speed>,
    /// The reference when the program was measured.
    pub reference: Reference,
    /// The disturbance of the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_busy: Option<String>,
    /// Digest of the attestation of the machine.
    pub attestation: Digest,
    /// The tools and GPUs with which the program cannot be timed ([`flopsmith_evaluate::timing_tools`]); only with the reason
    /// `not_timed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Digest>,
    /// The file with source, raw samples and attestation, in the folder of the evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
}

/// The result of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is correct, and was timed.
    Measured,
    /// It is correct, and its time is far less precise than its target.
    Unconverged,
    /// It failed.
    Rejected,
    /// The machine failed.
    Infrastructure,
    /// The program or the machine failed.
    Unknown,
}

/// The speed of a program. Of a measurement that did not converge it is the lower end of the 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// ln(time of the baseline kernel / time of the program), both timed side by side.
    pub log_ratio: f64,
    /// Its standard error.
    pub log_ratio_se: f64,
    /// Operations a second, 10⁹.
    pub gflops: f64,
    /// Seconds of an undisturbed call.
    pub seconds_per_call: f64,
    /// Seconds of the fastest timed call; none if it contradicts `seconds_per_call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_seconds: Option<f64>,
    /// The median of the seconds of all timed calls; none if it contradicts `seconds_per_call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_seconds: Option<f64>,
    /// Median absolute deviation of the timed calls from their median, as a share of it; none if it is not finite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mdape: Option<f64>,
    /// Bytes that calls move each second at least, 10⁹; none if the problem defines no bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gb_per_second: Option<f64>,
    /// The share of its roof that the program reaches, if the roof is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_of_roof: Option<f64>,
}

/// The plain reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// ln(time of the reference / time of the baseline kernel).
    pub log_ratio: f64,
    /// Its standard error.
    pub log_ratio_se: f64,
    /// The share of its roof that it reaches, if the roof is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_of_roof: Option<f64>,
    /// The limit that makes the roof: `compute` or `memory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
    /// True if it ran on several threads, as many as the program.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub threaded: bool,
}

/// Longest diagnostics that are kept, characters.
const LONGEST: usize = 2000;

impl Outcome {
    /// The outcome of a row that `stages` measured.
    pub fn of(
        problem: &str,
        program: Digest,
        row: &Row,
        machine: &Machine,
        stages: &Stages,
        purpose: Purpose,
    ) -> Self {
        let detail = row.detail_for_people();
        let done = Done {
            evaluated: &row.done,
            detail: &detail,
            speed: Speed::of(row, purpose),
            reference: Reference::of(stages, row.threads),
            attestation: &machine.digest,
        };
        Self::judged(problem, program, row.threads, done)
    }

    /// The outcome of a program whose measured ratio is the one to the reference: of a module, whose reference is the fastest
    /// baseline, or of a kernel on a cluster. `threaded` says whether the reference runs on as many threads.
    pub fn over_reference(
        problem: &str,
        program: Digest,
        threads: u32,
        threaded: bool,
        evaluated: &Evaluated,
        attestation: &Digest,
        purpose: Purpose,
    ) -> Self {
        let detail = match &evaluated.verdict {
            Verdict::Rejected { detail, .. }
            | Verdict::Infrastructure { detail, .. }
            | Verdict::Unknown { detail, .. } => detail.trim(),
            Verdict::Measured { .. } => "",
        };
        let done = Done {
            evaluated,
            detail,
            speed: Speed::over_reference(evaluated, purpose),
            reference: Reference {
                log_ratio: 0.0,
                log_ratio_se: 0.0,
                share_of_roof: None,
                bound: None,
                threaded,
            },
            attestation,
        };
        Self::judged(problem, program, threads, done)
    }

    fn judged(problem: &str, program: Digest, threads: u32, done: Done<'_>) -> Self {
        let verdict = &done.evaluated.verdict;
        let speed = done.speed;
        // Without a number that can be compared a measurement says nothing.
        let measured = verdict.measurement().is_some();
        let unusable = measured && speed.is_none();
        let reason = match verdict {
            Verdict::Measured { .. } => None,
            Verdict::Rejected { fault, .. } => Some(fault.name()),
            Verdict::Infrastructure { cause, .. } => Some(cause.name()),
            Verdict::Unknown { cause, .. } => Some(cause.name()),
        };
        let outcome = match verdict {
            _ if unusable => State::Unknown,
            Verdict::Measured { measurement } if measurement.converged() => State::Measured,
            Verdict::Measured { .. } => State::Unconverged,
            Verdict::Rejected { .. } => State::Rejected,
            Verdict::Infrastructure { .. } => State::Infrastructure,
            Verdict::Unknown { .. } => State::Unknown,
        };
        let built = match verdict {
            Verdict::Measured { .. } => true,
            Verdict::Rejected { fault, .. } => fault.built(),
            Verdict::Infrastructure { .. } | Verdict::Unknown { .. } => false,
        };
        Self {
            problem: problem.to_owned(),
            program,
            threads,
            outcome,
            reason: match unusable {
                true => Some("no_samples".to_owned()),
                false => reason.map(str::to_owned),
            },
            detail: match measured {
                true => String::new(),
                false => done.detail.chars().take(LONGEST).collect(),
            },
            built,
            techniques: done.evaluated.techniques,
            speed,
            reference: done.reference,
            machine_busy: done.evaluated.busy.clone(),
            attestation: done.attestation.clone(),
            tools: None,
            record: None,
        }
    }

    /// Notes the tools of the machine, if the program could not be timed with them.
    #[must_use]
    pub fn with_tools(mut self, tools: &Digest) -> Self {
        let untimed = self.reason.as_deref() == Some(UnknownCause::NotTimed.name());
        self.tools = untimed.then(|| tools.clone());
        self
    }

    /// True if the program cannot be timed with these tools, so that another evaluation would say so again.
    pub fn stays_untimed(&self, tools: Option<&Digest>) -> bool {
        self.tools.is_some() && self.tools.as_ref() == tools
    }

    /// True if another evaluation would say the same. Failures of the machine are evaluated again.
    pub fn is_final(&self) -> bool {
        !matches!(self.outcome, State::Infrastructure | State::Unknown)
    }
}

/// A program's evaluation.
struct Done<'a> {
    evaluated: &'a Evaluated,
    /// Diagnostics for people.
    detail: &'a str,
    /// Its speed, if it can be compared.
    speed: Option<Speed>,
    reference: Reference,
    /// Digest of the attestation of the machine.
    attestation: &'a Digest,
}

impl Speed {
    fn of(row: &Row, purpose: Purpose) -> Option<Self> {
        let measurement = row.done.verdict.measurement()?;
        let own = row.own?;
        let own = LogRatio {
            se: own.se.max(row.hidden_log_se),
            ..own
        };
        let speed = Self {
            // Two evaluations compare processes whose pages lie at other places.
            log_ratio_se: widened(own, purpose).se,
            ..Self::known(measurement, own)
        };
        let speed = speed.under_roof(measurement, row.gb_per_second(), row.share_of_roof());
        speed.finite()
    }

    fn over_reference(evaluated: &Evaluated, purpose: Purpose) -> Option<Self> {
        let measurement = evaluated.verdict.measurement()?;
        let own = LogRatio {
            value: measurement.ratio.ln(),
            se: measurement.log_ratio_se,
        };
        let speed = Self {
            log_ratio_se: widened(own, purpose).se,
            ..Self::known(measurement, own)
        };
        speed.finite()
    }

    /// This speed with the bytes a second and the share of the roof that `measurement` has, for the speed that is known.
    fn under_roof(
        self,
        measurement: &Measurement,
        gb_per_second: Option<f64>,
        share: Option<f64>,
    ) -> Self {
        let times = self.gflops / measurement.gflops;
        let known = |of: Option<f64>| of.map(|of| of * times).filter(|of| of.is_finite());
        Self {
            gb_per_second: known(gb_per_second),
            share_of_roof: known(share),
            ..self
        }
    }

    /// This speed, if all of the numbers that it needs are finite.
    fn finite(self) -> Option<Self> {
        let numbers = [
            self.log_ratio,
            self.log_ratio_se,
            self.gflops,
            self.seconds_per_call,
        ];
        numbers.iter().all(|n| n.is_finite()).then_some(self)
    }

    /// The speed by `own`, or by the lower end of its interval if the measurement did not converge. All numbers are of the
    /// same speed, so that one can be computed from another.
    fn known(measurement: &Measurement, own: LogRatio) -> Self {
        let log_ratio = match measurement.converged() {
            true => own.value,
            false => own.low(),
        };
        let times = (log_ratio - own.value).exp();
        let clock = Clock::of(measurement);
        Self {
            log_ratio,
            log_ratio_se: own.se,
            gflops: measurement.gflops * times,
            seconds_per_call: measurement.seconds_per_call / times,
            minimum_seconds: clock.minimum,
            median_seconds: clock.median,
            mdape: Some(clock.spread).filter(|spread| spread.is_finite()),
            gb_per_second: None,
            share_of_roof: None,
        }
    }
}

impl Reference {
    fn of(stages: &Stages, threads: u32) -> Self {
        let chain = stages.chains(threads).map(|chains| chains.whole());
        let place = stages.reference_place(threads);
        // JSON has no infinite numbers. A timer without a finite ratio of its reference does not start.
        let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
        Self {
            log_ratio: chain.map_or(0.0, |chain| finite(chain.log_ratio)),
            log_ratio_se: chain.map_or(0.0, |chain| finite(chain.log_se)),
            share_of_roof: place
                .as_ref()
                .map(|place| place.share)
                .filter(|share| share.is_finite() && *share > 0.0),
            bound: place.map(|place| place.bound.name().to_owned()),
            threaded: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use flopsmith_test_support::Measured;

    use super::*;

    #[test]
    fn the_speedup_of_a_module_is_its_ratio_to_the_fastest_baseline() {
        let of = |verdict: Verdict| {
            let evaluated = Evaluated {
                verdict,
                techniques: "fusion".parse().ok(),
                vector_bits: None,
                diagnostics: String::new(),
                checked: None,
                raw: Vec::new(),
                busy: Some("a compiler".into()),
            };
            let (program, machine) = (Digest::of(b"program"), Digest::of(b"machine"));
            Outcome::over_reference(
                "gelu",
                program,
                2,
                true,
                &evaluated,
                &machine,
                Purpose::Rank,
            )
        };
        let measurement = Measurement {
            ratio: 1.5,
            ..Measured::at(40.0).measurement()
        };
        let measured = of(Verdict::Measured {
            measurement: measurement.clone(),
        });
        let speed = measured.speed.expect("a speed");
        let speedup = (speed.log_ratio + measured.reference.log_ratio).exp();
        assert!((speedup - 1.5).abs() < 1e-12);
        assert!(speed.log_ratio_se >= measurement.log_ratio_se);
        assert_eq!(measured.outcome, State::Measured);
        assert_eq!((measured.threads, measured.built), (2, true));
        assert!(measured.reference.threaded);
        assert_eq!(measured.machine_busy.as_deref(), Some("a compiler"));
        assert_eq!(measured.techniques, "fusion".parse().ok());
        // A right kernel of Triton says nothing of a speed, and it is no failure.
        let untimed = of(Verdict::Unknown {
            cause: UnknownCause::NotTimed,
            detail: "it needs a GPU".into(),
        });
        assert_eq!(untimed.outcome, State::Unknown);
        assert_eq!(untimed.reason.as_deref(), Some("not_timed"));
        assert_eq!(
            (untimed.speed, untimed.detail.as_str()),
            (None, "it needs a GPU")
        );
        // Only that depends on the tools.
        let (tools, others) = (Digest::of(b"no GPU"), Digest::of(b"a GPU"));
        assert!(!untimed.stays_untimed(None));
        let untimed = untimed.with_tools(&tools);
        assert!(untimed.stays_untimed(Some(&tools)) && !untimed.is_final());
        assert!(!untimed.stays_untimed(Some(&others)) && !untimed.stays_untimed(None));
        assert_eq!(measured.with_tools(&tools).tools, None);
    }

    #[test]
    fn the_numbers_of_an_unconverged_speed_are_those_of_its_lower_end() {
        let own = LogRatio {
            value: 40f64.ln(),
            se: 0.5,
        };
        let sure = Speed::known(&Measured::at(40.0).measurement(), own);
        let unsure = Speed::known(&Measured::at(40.0).unconverged().measurement(), own);
        assert_eq!((sure.log_ratio, sure.gflops), (own.value, 40.0));
        assert_eq!(unsure.log_ratio, own.low());
        // The seconds of the baseline kernel are the same by both.
        let baseline = |speed: Speed| speed.seconds_per_call * speed.log_ratio.exp();
        assert!((baseline(unsure) / baseline(sure) - 1.0).abs() < 1e-9);
        let operations = |speed: Speed| speed.seconds_per_call * speed.gflops;
        assert!((operations(unsure) / operations(sure) - 1.0).abs() < 1e-9);
        // So are its bytes a second and its share of the roof, of a program that is half as fast as the roof.
        let placed = |measured: Measured, speed: Speed| {
            speed.under_roof(&measured.measurement(), Some(320.0), Some(0.5))
        };
        let [sure, unsure] = [
            placed(Measured::at(40.0), sure),
            placed(Measured::at(40.0).unconverged(), unsure),
        ];
        let shown = |speed: Speed| speed.gb_per_second.zip(speed.share_of_roof);
        assert_eq!(shown(sure), Some((320.0, 0.5)));
        let times = unsure.gflops / 40.0;
        assert!(times < 1.0);
        assert_eq!(shown(unsure), Some((320.0 * times, 0.5 * times)));
    }

    #[test]
    fn seconds_by_the_clock_stand_beside_a_speed_that_they_do_not_contradict() {
        let own = LogRatio {
            value: 40f64.ln(),
            se: 0.01,
        };
        let measurement = Measured::at(40.0).measurement();
        let speed = Speed::known(&measurement, own);
        assert_eq!(speed.minimum_seconds, measurement.minimum_seconds);
        assert_eq!(speed.median_seconds, measurement.median_seconds);
        assert_eq!(speed.mdape, Some(measurement.mdape));
        let unsure = Speed::known(&Measured::at(40.0).unconverged().measurement(), own);
        assert_eq!(
            (unsure.minimum_seconds, unsure.median_seconds),
            (None, None)
        );
        // A line names none of these that a speed lacks.
        let line = r#"{"log_ratio":1.0,"log_ratio_se":0.1,"gflops":2.0,"seconds_per_call":0.5}"#;
        let read: Speed = serde_json::from_str(line).expect("a speed");
        assert_eq!((read.mdape, read.gb_per_second), (None, None));
        assert_eq!(serde_json::to_string(&read).expect("text"), line);
    }
}
