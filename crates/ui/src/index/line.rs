//! The fields of a line that the index keeps. The source is skipped, which makes most of a line.

use std::borrow::Cow;

use flopsmith_protocol::{CandidateFault, CandidateId, Purpose, StopReason, TaskId, TechniqueSet};
use serde::Deserialize;

use super::names::Names;
use super::record::{Party, Record, hash};

/// Reads a line of a log. Offset and length of the record are those of the caller.
pub type Read = fn(&[u8], &mut Names) -> Option<Record>;

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    candidate: Candidate<'a>,
    #[serde(default)]
    techniques: Option<TechniqueSet>,
    verdict: Verdict,
    #[serde(default)]
    decided_unix_ms: u64,
}

#[derive(Deserialize)]
struct Candidate<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    step: u64,
    #[serde(borrow)]
    problem: Cow<'a, str>,
    stage: u32,
    purpose: Purpose,
    #[serde(default)]
    remeasures: Option<String>,
    #[serde(default)]
    follows: Option<String>,
    #[serde(default)]
    exploration: bool,
}

/// All verdicts in one: a tagged enumeration would be copied first.
#[derive(Deserialize)]
struct Verdict {
    #[serde(rename = "type")]
    party: Kind,
    #[serde(default)]
    fault: Option<CandidateFault>,
    #[serde(default)]
    cause: Option<String>,
    #[serde(default)]
    measurement: Option<Measured>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Measured,
    Rejected,
    Infrastructure,
    Unknown,
}

#[derive(Deserialize)]
struct Measured {
    gflops: f64,
    ratio: f64,
    log_ratio_se: f64,
    stop: StopReason,
    reused: bool,
}

impl Measured {
    fn converged(&self) -> bool {
        self.stop != StopReason::Unconverged
    }

    /// The share of the speed that is known, as for [`flopsmith_protocol::Measurement::known_gflops`].
    fn known(&self) -> f64 {
        match self.converged() {
            true => 1.0,
            false => (-1.96 * self.log_ratio_se).exp(),
        }
    }
}

/// A line of `outcomes.jsonl`; none if it is no outcome.
pub fn outcome(line: &[u8], names: &mut Names) -> Option<Record> {
    let line: Line<'_> = serde_json::from_slice(line).ok()?;
    let (candidate, verdict) = (&line.candidate, &line.verdict);
    let (party, reason) = match verdict.party {
        Kind::Measured => (Party::Measured, "measured"),
        Kind::Rejected => (Party::Rejected, verdict.fault?.name()),
        Kind::Infrastructure => (Party::Infrastructure, verdict.cause.as_deref()?),
        Kind::Unknown => (Party::Unknown, "unknown"),
    };
    let measured = match verdict.party {
        Kind::Measured => Some(verdict.measurement.as_ref()?),
        _ => None,
    };
    let finite = |value: f64| {
        let value = value as f32;
        if value.is_finite() { value } else { 0.0 }
    };
    let parent = candidate.remeasures.as_deref();
    let parent = parent.or(candidate.follows.as_deref());
    Some(Record {
        offset: 0,
        id: hash(&candidate.id),
        parent: parent.map_or(0, hash),
        length: 0,
        step: u32::try_from(candidate.step).unwrap_or(u32::MAX),
        gflops: measured.map_or(0.0, |m| finite(m.gflops * m.known())),
        ratio: measured.map_or(0.0, |m| finite(m.ratio * m.known())),
        seconds: u32::try_from(line.decided_unix_ms / 1000).unwrap_or(u32::MAX),
        problem: names.problems.note(&candidate.problem),
        reason: names.reasons.note(reason),
        techniques: line.techniques,
        stage: u16::try_from(candidate.stage).unwrap_or(u16::MAX),
        party,
        purpose: candidate.purpose,
        exploration: candidate.exploration,
        converged: measured.is_some_and(Measured::converged),
        reused: measured.is_some_and(|m| m.reused),
        built: match party {
            Party::Measured => true,
            Party::Rejected => verdict.fault.is_some_and(CandidateFault::built),
            Party::Infrastructure | Party::Unknown => false,
        },
    })
}

#[derive(Deserialize)]
struct Answer {
    task: TaskId,
    sample: u32,
}

/// A line of `answers.jsonl`, under the id of the candidate that the answer became; none if it is no answer.
pub fn answer(line: &[u8], names: &mut Names) -> Option<Record> {
    let answer: Answer = serde_json::from_slice(line).ok()?;
    Some(Record {
        offset: 0,
        id: hash(CandidateId::of(&answer.task, answer.sample).as_str()),
        parent: 0,
        length: 0,
        step: 0,
        gflops: 0.0,
        ratio: 0.0,
        seconds: 0,
        problem: names.problems.note("answers"),
        reason: names.reasons.note("answer"),
        techniques: None,
        stage: 0,
        party: Party::Unknown,
        purpose: Purpose::Search,
        exploration: false,
        converged: false,
        reused: false,
        built: false,
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_protocol::{InfrastructureCause, Outcome};
    use flopsmith_test_support::{
        Measured as Made, again, first, infrastructure, measured, outcome as of, rejected, unknown,
        wrong,
    };

    use super::*;

    fn read(outcome: &Outcome) -> (Record, Names) {
        let mut names = Names::default();
        let line = serde_json::to_vec(outcome).unwrap();
        (super::outcome(&line, &mut names).unwrap(), names)
    }

    #[test]
    fn a_record_agrees_with_the_outcome_of_its_line() {
        let program = first(1, "int x;", "simd", measured(40.0));
        let outcomes = [
            again(
                &program,
                Made::at(39.0).se(0.2).unconverged().reused().verdict(),
            ),
            first(2, "int y;", "unroll", wrong()),
            of(
                program.candidate.clone(),
                rejected(CandidateFault::CompileError),
            ),
            of(
                program.candidate.clone(),
                infrastructure(InfrastructureCause::Jail),
            ),
            of(program.candidate.clone(), unknown()),
            program,
        ];
        for outcome in &outcomes {
            let (record, names) = read(outcome);
            let measurement = outcome.verdict.measurement();
            let known = measurement.map_or(0.0, |m| m.known_gflops());
            assert!((f64::from(record.gflops) - known).abs() < 1e-4);
            let known = measurement.map_or(0.0, |m| m.known_ratio());
            assert!((f64::from(record.ratio) - known).abs() < 1e-4);
            assert_eq!(names.reasons.name(record.reason), outcome.verdict.kind());
            assert_eq!(names.problems.name(record.problem), "dgemm");
            assert_eq!(record.techniques, outcome.techniques);
            assert_eq!(record.id, hash(outcome.candidate.id.as_str()));
            assert_eq!(record.repeats(), record.parent != 0);
            assert_eq!(record.purpose, outcome.candidate.purpose);
            assert_eq!(record.reused, measurement.is_some_and(|m| m.reused));
        }
    }

    #[test]
    fn other_lines_are_no_outcomes() {
        for line in [
            "",
            "null",
            "{}",
            "{\"candidate\":{}}",
            "[1,2]",
            "{\"verdict\":{\"type\":\"measured\"}}",
        ] {
            assert!(
                super::outcome(line.as_bytes(), &mut Names::default()).is_none(),
                "{line}"
            );
        }
    }

    #[test]
    fn an_answer_has_the_id_of_its_candidate() {
        let line = br#"{"task":"r-s1-g0","sample":3,"seed":1,"prompt":"p","answer":"a"}"#;
        let record = answer(line, &mut Names::default()).unwrap();
        assert_eq!(record.id, hash("r-s1-g0-c3"));
    }
}
