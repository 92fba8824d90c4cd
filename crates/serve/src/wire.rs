//! The JSON of the interface.

use std::fmt;

use flopsmith_problem::Language;
use flopsmith_protocol::{Interval, Measurement, TechniqueSet, UnknownCause, Verdict};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

/// The most candidates of one request.
pub const MOST_CANDIDATES: usize = 4096;
/// Length of the longest id of a candidate, bytes.
pub const LONGEST_ID: usize = 200;

/// Standards of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A first look: tens of milliseconds of calls.
    Screen,
    /// Precise enough to order programs: up to 0.6 s of calls.
    #[default]
    Rank,
    /// A number to publish: five layouts of the code, in several processes each, and sanitizers.
    Certify,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Purpose; 3] = [Self::Screen, Self::Rank, Self::Certify];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Screen => "screen",
            Self::Rank => "rank",
            Self::Certify => "certify",
        }
    }
}

impl From<Purpose> for flopsmith_measure::Purpose {
    fn from(purpose: Purpose) -> Self {
        match purpose {
            Purpose::Screen => Self::Screen,
            Purpose::Rank => Self::Rank,
            Purpose::Certify => Self::Certify,
        }
    }
}

/// The body of `POST /v1/evaluate` and `POST /v1/jobs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The programs; answers come in this order.
    #[schemars(length(min = 1, max = 4096))]
    pub candidates: Vec<Candidate>,
    /// The standard of the measurements.
    #[serde(default)]
    pub purpose: Purpose,
    /// The program that the candidates are compared with.
    #[serde(default, skip_serializing_if = "Against::is_reference")]
    pub against: Against,
    /// Check the request and say what would be done, without doing it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// The program that all candidates of a request are compared with: `reference`, `best`, or a program of the client's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Against {
    /// A program that the service knows.
    Known(KnownProgram),
    /// A program of the client's own.
    Own(OwnProgram),
}

/// A program that the service knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KnownProgram {
    /// The plain reference, which every `ratio` refers to.
    Reference,
    /// The fastest program for the problem and the workloads that the service has measured in the present circumstances.
    Best,
}

/// A program of the client's own for the problem of all candidates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnProgram {
    /// The program.
    pub source: String,
    /// The language; that of the problem when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "language_schema")]
    pub language: Option<Language>,
}

impl Against {
    /// True if candidates are compared with the plain reference alone.
    pub fn is_reference(&self) -> bool {
        *self == Self::Known(KnownProgram::Reference)
    }
}

impl Default for Against {
    fn default() -> Self {
        Self::Known(KnownProgram::Reference)
    }
}

/// Errors name the field or the value at fault, which those of a derived untagged enum do not.
impl<'de> Deserialize<'de> for Against {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameOrProgram)
    }
}

struct NameOrProgram;

impl<'de> Visitor<'de> for NameOrProgram {
    type Value = Against;

    fn expecting(&self, words: &mut fmt::Formatter<'_>) -> fmt::Result {
        words.write_str("`reference`, `best`, or an object with the `source` of a program")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Against, E> {
        KnownProgram::deserialize(StrDeserializer::<E>::new(name)).map(Against::Known)
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Against, M::Error> {
        OwnProgram::deserialize(MapAccessDeserializer::new(map)).map(Against::Own)
    }
}

/// The answer to a request with `dry_run`: what the request without it would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DryRun {
    /// The problems, each once, in the order of the candidates.
    pub problems: Vec<String>,
    /// The standard of the measurements.
    pub purpose: Purpose,
    /// Number of candidates.
    pub candidates: usize,
    /// Number of different programs whose result is not known.
    pub evaluations: usize,
    /// Number of evaluations before the first of these; null without any.
    pub position: Option<usize>,
    /// Expected time until the last of these ends, seconds; null without any.
    pub expected_wait_seconds: Option<f64>,
}

/// A program to evaluate. It has either `source` or `answer`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// A name of the caller's, which the answer repeats; the index of the candidate when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub id: Option<String>,
    /// The name of the problem that the program solves.
    pub problem: String,
    /// Names of the workloads at which the program is timed; all of the problem when left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<String>,
    /// The program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// A model's answer. The program is its last complete fenced block in the language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The language; that of the problem when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "language_schema")]
    pub language: Option<Language>,
}

/// The names of languages, or null.
pub fn language_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "null"], "enum": ["c", "c++", "fortran", "fortran77", "python", null] })
}

/// Kinds of outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Right, and timed as precisely as the purpose asks.
    Measured,
    /// Right, and timed less precisely than that, or beside a reference that did not converge. `interval` gives the error of
    /// the candidate.
    Unconverged,
    /// The program is at fault; `reason` names the fault.
    Rejected,
    /// The service or its machine is at fault; `reason` names the part. There is no reward.
    Infrastructure,
    /// The service cannot tell who is at fault. There is no reward.
    Unknown,
}

impl Outcome {
    /// The kind of a verdict, and the reason if there is no measurement.
    pub fn of(verdict: &Verdict) -> (Self, Option<&'static str>) {
        match verdict {
            Verdict::Measured { measurement } if measurement.converged() => (Self::Measured, None),
            Verdict::Measured { .. } => (Self::Unconverged, None),
            Verdict::Rejected { fault, .. } => (Self::Rejected, Some(fault.name())),
            Verdict::Infrastructure { cause, .. } => (Self::Infrastructure, Some(cause.name())),
            Verdict::Unknown { cause, .. } => (Self::Unknown, Some(cause.name())),
        }
    }

    /// The outcome of numbers that refer to `reference`: a ratio to a speed that did not converge did not converge either.
    pub fn beside(self, reference: Option<&ReferenceSpeeds>) -> Self {
        match (self, reference) {
            (Self::Measured, Some(reference)) if !reference.converged => Self::Unconverged,
            (outcome, _) => outcome,
        }
    }

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Unconverged => "unconverged",
            Self::Rejected => "rejected",
            Self::Infrastructure => "infrastructure",
            Self::Unknown => "unknown",
        }
    }
}

/// The speeds that the ratio and the reward of a program refer to. Numbers with the same `id` are comparable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReferenceSpeeds {
    /// Names this measurement of the reference.
    pub id: String,
    /// Speed of the plain reference, 10⁹ operations a second: over several workloads the geometric mean.
    pub gflops: f64,
    /// Measured peak of the timed cores, 10⁹ operations a second.
    pub peak_gflops: f64,
    /// Time of the measurement, milliseconds since 1970.
    pub measured_unix_ms: u64,
    /// Standard error of ln(`gflops`), beside the baseline that programs are timed beside, too.
    #[serde(default)]
    pub log_se: f64,
    /// False if that is more than its target. The reference is then provisional: it is measured again soon.
    #[serde(default)]
    pub converged: bool,
    /// Why the machine was not quiet while the reference was measured, which makes it provisional, too.
    #[serde(default)]
    pub machine_busy: Option<String>,
}

impl ReferenceSpeeds {
    /// Number of reasons to measure the reference again soon.
    pub fn defects(&self) -> usize {
        usize::from(!self.converged) + usize::from(self.machine_busy.is_some())
    }
}

/// The sanitizers that found nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sanitized {
    /// Their names.
    pub by: Vec<String>,
    /// Sanitizers that this machine lacks, with the reason.
    pub left_out: Vec<String>,
}

/// The result of a candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// Its place in the request, from 0.
    pub index: usize,
    /// Its id.
    pub id: String,
    /// Its problem.
    pub problem: String,
    /// The standard of its measurement.
    pub purpose: Purpose,
    /// The kind of its outcome.
    pub outcome: Outcome,
    /// The fault of the program or the part of the machine that failed; null if the program was measured.
    pub reason: Option<String>,
    /// Whether the program is right; null if that is not known.
    pub correct: Option<bool>,
    /// The reward by the service's `[reward]` table; null unless the program was measured or rejected.
    pub reward: Option<f64>,
    /// Standard error of the reward due to the measurement.
    pub reward_se: Option<f64>,
    /// The plain reference's time divided by the program's; of a module that of its fastest baseline, of those that its
    /// definition names (eager PyTorch and TorchInductor if it names none).
    pub ratio: Option<f64>,
    /// The 95 % interval of `ratio`.
    pub interval: Option<Interval>,
    /// The time of the program of `against` divided by this program's; null if the request names none, and if the two do not compare.
    pub ratio_to_against: Option<f64>,
    /// The 95 % interval of `ratio_to_against`.
    pub interval_to_against: Option<Interval>,
    /// Speed, 10⁹ operations a second.
    pub gflops: Option<f64>,
    /// The techniques that detection found, once the program was compiled.
    pub techniques: Option<TechniqueSet>,
    /// Width of the widest vector register in the object, bits.
    pub vector_bits: Option<u32>,
    /// The cause of a failure in words, or the compiler's warnings.
    pub diagnostics: String,
    /// The sanitizers that checked the program, if they did.
    pub sanitizers: Option<Sanitized>,
    /// Why the machine was not quiet, if the program was timed nevertheless.
    pub machine_busy: Option<String>,
    /// True if the service had evaluated the same program before.
    pub cached: bool,
    /// The speeds that `ratio` and `reward` refer to.
    pub reference: Option<ReferenceSpeeds>,
    /// The whole measurement.
    pub measurement: Option<Measurement>,
}

/// True if the program may be right, and no machine of this service can time it: another evaluation says the same.
pub fn is_not_timed(answer: &Answer) -> bool {
    answer.outcome == Outcome::Unknown
        && answer.reason.as_deref() == Some(UnknownCause::NotTimed.name())
}

/// States of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// No candidate is decided.
    Queued,
    /// Some candidates are decided.
    Running,
    /// All candidates are decided.
    Done,
}

/// A job, as `POST /v1/jobs` and `GET /v1/jobs/{id}` show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobState {
    /// Its id.
    pub id: String,
    /// Its state.
    pub status: Status,
    /// Time of the request, milliseconds since 1970.
    pub created_unix_ms: u64,
    /// Number of candidates.
    pub total: usize,
    /// Number of decided candidates.
    pub done: usize,
    /// Number of evaluations before the next one of this job; null once the job is done.
    pub position: Option<usize>,
    /// Expected time until the job is done, seconds; null once it is done.
    pub expected_wait_seconds: Option<f64>,
    /// The answers so far, in the order of the candidates.
    pub results: Vec<Answer>,
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_schema_names_every_language() {
        let schema = language_schema(&mut SchemaGenerator::default());
        let named = schema.get("enum").unwrap().as_array().unwrap().clone();
        for language in Language::ALL.into_iter().chain([Language::Python]) {
            let name = serde_json::to_value(language).unwrap();
            assert!(named.contains(&name), "{name}");
            let read: Language = serde_json::from_value(name).unwrap();
            assert_eq!(read, language);
        }
        assert_eq!(named.len(), Language::ALL.len() + 2);
    }

    #[test]
    fn names_are_those_of_the_json() {
        for purpose in Purpose::ALL {
            assert_eq!(serde_json::to_value(purpose).unwrap(), purpose.name());
            let measured: flopsmith_measure::Purpose = purpose.into();
            assert_eq!(serde_json::to_value(measured).unwrap(), purpose.name());
        }
        for outcome in [
            Outcome::Measured,
            Outcome::Unconverged,
            Outcome::Rejected,
            Outcome::Infrastructure,
            Outcome::Unknown,
        ] {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.name());
        }
    }

    #[test]
    fn an_unknown_field_is_an_error_that_names_it() {
        let text = r#"{"candidates":[{"problem":"dgemm","sorce":"x"}]}"#;
        let error = serde_json::from_str::<Request>(text).unwrap_err();
        assert!(error.to_string().contains("`sorce`"), "{error}");
    }

    #[test]
    fn candidates_are_compared_with_a_known_program_or_one_of_the_client() {
        let read = |against: &str| {
            let text = format!(r#"{{"candidates":[],"purpose":"rank","against":{against}}}"#);
            let request = serde_json::from_str::<Request>(&text);
            request.map(|request| (serde_json::to_string(&request).unwrap(), text))
        };
        for against in [
            r#""best""#,
            r#"{"source":"int x;"}"#,
            r#"{"source":"int x;","language":"c++"}"#,
        ] {
            let (written, text) = read(against).unwrap();
            assert_eq!(written, text);
        }
        let (written, _) = read(r#""reference""#).unwrap();
        assert_eq!(written, r#"{"candidates":[],"purpose":"rank"}"#);
        for (wrong, named) in [
            (r#""fastest""#, "`fastest`"),
            (r#"{"sorce":"int x;"}"#, "`sorce`"),
            (r#"{"language":"c"}"#, "`source`"),
            (r#"{"source":"int x;","language":"basic"}"#, "`basic`"),
            ("7", "`best`"),
            ("null", "`best`"),
        ] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains(named), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_request_that_is_no_dry_run_does_not_say_so() {
        let text = r#"{"candidates":[],"purpose":"rank"}"#;
        let request: Request = serde_json::from_str(text).unwrap();
        assert!(!request.dry_run);
        assert!(request.against.is_reference());
        assert_eq!(serde_json::to_string(&request).unwrap(), text);
    }
}
