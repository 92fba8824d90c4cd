//! The fields of a line that the index keeps. The source is skipped, which makes most of a line.

use std::borrow::Cow;

use flopsmith_protocol::{
    CandidateFault, CandidateId, Purpose, StopReason, TaskId, TechniqueSet, UnknownCause,
};
use serde::Deserialize;

use super::names::{Names, OTHER};
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
    #[serde(borrow, default)]
    node: Cow<'a, str>,
    #[serde(default)]
    stage_seconds: [f32; 3],
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
    #[serde(default)]
    mdape: f64,
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
        Kind::Unknown => match verdict.cause.as_deref() {
            Some(cause) if cause == UnknownCause::Asked.name() => (Party::Unknown, cause),
            _ => (Party::Unknown, "unknown"),
        },
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
        node: names.nodes.note(&line.node),
        noise: measured.map_or(0.0, |m| finite(m.mdape)),
        // Seconds of a clock that was set back are negative.
        work: finite(f64::from(
            line.stage_seconds.map(|s| s.max(0.0)).iter().sum::<f32>(),
        )),
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
        id: hash(CandidateId::of(&answer.task, answer.sample).as_str()),
        ..other(names, "answer")
    })
}

#[derive(Deserialize)]
struct Attempt<'a> {
    #[serde(borrow)]
    candidate: Cow<'a, str>,
    #[serde(default)]
    nearest: Option<String>,
    #[serde(default)]
    parent: Option<String>,
}

/// A line of `attempts.jsonl`: a candidate, and the one that it was made from, the nearest if there were several; none if
/// it is no attempt.
pub fn attempt(line: &[u8], names: &mut Names) -> Option<Record> {
    let attempt: Attempt<'_> = serde_json::from_slice(line).ok()?;
    let parent = attempt.nearest.or(attempt.parent);
    Some(Record {
        id: hash(&attempt.candidate),
        parent: parent.as_deref().map_or(0, hash),
        ..other(names, "attempt")
    })
}

#[derive(Deserialize)]
struct Trained {
    step: u64,
    metrics: Option<Rewarded>,
}

#[derive(Deserialize)]
struct Rewarded {
    mean_reward: f64,
}

/// A line of `training.jsonl`: a step, with its mean reward in the place of the speed. None if it is no line of a step or
/// has no reward, as the line of a run's first weights.
pub fn training(line: &[u8], names: &mut Names) -> Option<Record> {
    let trained: Trained = serde_json::from_slice(line).ok()?;
    Some(Record {
        step: u32::try_from(trained.step).unwrap_or(u32::MAX),
        gflops: trained.metrics?.mean_reward as f32,
        ..other(names, "training")
    })
}

/// The record of a line that is no outcome. It counts in no step.
fn other(names: &mut Names, kind: &str) -> Record {
    Record {
        offset: 0,
        id: 0,
        parent: 0,
        length: 0,
        step: 0,
        gflops: 0.0,
        ratio: 0.0,
        seconds: 0,
        problem: names.problems.note(kind),
        reason: names.reasons.note(kind),
        node: OTHER,
        noise: 0.0,
        work: 0.0,
        techniques: None,
        stage: 0,
        party: Party::Unknown,
        purpose: Purpose::Certify,
        exploration: false,
        converged: false,
        reused: false,
        built: false,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_protocol::{InfrastructureCause, Outcome, Request};
    use flopsmith_test_support::{
        Measured as Made, again, asked, first, infrastructure, measured, outcome as of, rejected,
        unknown, wrong,
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
        let document = "gemm.md".to_owned();
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
            asked(program.candidate.clone(), Request::Read { document }),
            program,
        ];
        for outcome in &outcomes {
            let outcome = &Outcome {
                stage_seconds: [1.0, 2.0, 3.0],
                ..outcome.clone()
            };
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
            assert_eq!(names.nodes.name(record.node), outcome.node.as_str());
            assert_eq!(record.noise, measurement.map_or(0.0, |m| m.mdape as f32));
            assert_eq!(record.work, 6.0);
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
    #[test]
    fn an_attempt_names_the_program_it_was_made_from() {
        let parent_of = |line: &str| {
            let record = attempt(line.as_bytes(), &mut Names::default()).unwrap();
            assert_eq!(record.id, hash("r-s1-g0-c3"));
            record.parent
        };
        let bred = r#"{"candidate":"r-s1-g0-c3","island":0,"parents":["a","b"],"nearest":"b"}"#;
        assert_eq!(parent_of(bred), hash("b"));
        let turn = r#"{"candidate":"r-s1-g0-c3","turn":0,"island":0,"parent":"p","answer":"x"}"#;
        assert_eq!(parent_of(turn), hash("p"));
        let first = r#"{"candidate":"r-s1-g0-c3","island":0,"parents":[]}"#;
        assert_eq!(parent_of(first), 0);
        assert!(attempt(b"{}", &mut Names::default()).is_none());
    }

    #[test]
    fn a_trained_step_has_its_reward_and_counts_as_no_step_of_outcomes() {
        let read = |line: &str| training(line.as_bytes(), &mut Names::default());
        let record = read(r#"{"step":7,"metrics":{"mean_reward":-0.5,"loss":1.0}}"#).unwrap();
        assert_eq!((record.step, record.gflops), (7, -0.5));
        let mut totals = crate::totals::Totals::default();
        totals.add(0, &record);
        assert!(totals.steps.is_empty() && totals.nodes.is_empty());
        assert!(read(r#"{"step":0,"metrics":null}"#).is_none());
        assert!(read(r#"{"metrics":null}"#).is_none());
    }
}
