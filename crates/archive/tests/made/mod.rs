//! Outcomes for tests.
#![expect(clippy::unwrap_used, reason = "tests")]
#![allow(dead_code, reason = "each test file uses its own part")]

use flopsmith_archive::{Archive, Config, Effect, Elite, Sqd};
use flopsmith_protocol::*;

pub fn run() -> RunId {
    RunId::new("run").unwrap()
}

pub fn problem() -> ProblemId {
    ProblemId::new("dgemm").unwrap()
}

pub fn class() -> MachineClass {
    MachineClass::new("test-2c").unwrap()
}

pub fn set(text: &str) -> TechniqueSet {
    text.parse().unwrap()
}

pub fn sqd(config: Config) -> Sqd {
    Sqd::new(config, run(), problem(), class()).unwrap()
}

pub fn archive(elites_per_cell: usize) -> Archive {
    Archive::new(problem(), class(), TechniqueSet::all(), elites_per_cell)
}

/// A measurement whose interval is `ratio` ± about two standard errors.
pub fn measurement(ratio: f64, se: f64) -> Measurement {
    Measurement {
        gflops: 2.0 * ratio,
        seconds_per_call: 0.01 / ratio,
        ratio,
        interval: Interval {
            low: ratio * (-1.96 * se).exp(),
            high: ratio * (1.96 * se).exp(),
            confidence: 0.95,
        },
        log_ratio_se: se,
        calls: 64,
        blocks: 8,
        mdape: 0.01,
        stop: StopReason::Precise,
        samples: None,
        attestation: Digest::of(b"machine"),
        share_of_peak: ratio / 25.0,
        reused: false,
    }
}

/// Where a candidate comes from.
#[derive(Debug, Clone, Copy)]
pub struct From {
    pub step: u64,
    pub group: u32,
    pub sample: u32,
    pub stage: u32,
    pub permitted: TechniqueSet,
    pub purpose: Purpose,
}

impl Default for From {
    fn default() -> Self {
        Self {
            step: 0,
            group: 0,
            sample: 0,
            stage: 0,
            permitted: TechniqueSet::all(),
            purpose: Purpose::Train,
        }
    }
}

pub fn outcome(
    from: From,
    source: &str,
    techniques: Option<TechniqueSet>,
    verdict: Verdict,
) -> Outcome {
    let task = TaskId::of(&run(), from.step, from.group);
    Outcome {
        candidate: CandidateRef {
            id: CandidateId::of(&task, from.sample),
            run: run(),
            task: task.clone(),
            step: from.step,
            tasks_in_step: 8,
            group: GroupId::of(&task),
            group_size: 16,
            sample: from.sample,
            problem: problem(),
            stage: from.stage,
            permitted: from.permitted,
            purpose: from.purpose,
            policy: Some(PolicyVersion(from.step)),
            remeasures: None,
            machine_class: class(),
        },
        source: source.to_owned(),
        techniques,
        vector_bits: None,
        verdict,
        stage_seconds: [0.1, 0.1, 0.1],
        node: NodeId::new("node").unwrap(),
        machine_class: class(),
        decided_unix_ms: 0,
    }
}

pub fn good(from: From, source: &str, techniques: TechniqueSet, ratio: f64, se: f64) -> Outcome {
    let verdict = Verdict::Measured {
        measurement: measurement(ratio, se),
    };
    outcome(from, source, Some(techniques), verdict)
}

pub fn bad(from: From, fault: CandidateFault) -> Outcome {
    let verdict = Verdict::Rejected {
        fault,
        detail: String::new(),
    };
    outcome(from, "broken", None, verdict)
}

/// The outcome of a repeated measurement.
pub fn again(first: &CandidateRef, repetition: u32, verdict: Verdict) -> Outcome {
    let mut o = outcome(From::default(), "the same", None, verdict);
    o.candidate = CandidateRef {
        id: first.id.remeasured(repetition),
        purpose: Purpose::Certify,
        remeasures: Some(first.id.clone()),
        ..first.clone()
    };
    o
}

/// An elite that was measured again.
pub fn elite(source: &str, ratio: f64, se: f64) -> Elite {
    let first = Elite::from_outcome(&good(
        From::default(),
        source,
        TechniqueSet::EMPTY,
        ratio,
        se,
    ));
    first
        .unwrap()
        .measured_again(&measurement(ratio, se))
        .unwrap()
}

/// An infrastructure failure.
pub fn lost() -> Verdict {
    Verdict::Infrastructure {
        cause: InfrastructureCause::Store,
        detail: String::new(),
    }
}

/// The outcome that answers the n-th waiting program.
pub fn repetition(sqd: &Sqd, n: usize, factor: Option<f64>) -> Option<Outcome> {
    let p = sqd.pending().nth(n)?;
    let verdict = match factor {
        Some(f) => Verdict::Measured {
            measurement: measurement(p.elite.ratio * f, p.elite.log_ratio_se),
        },
        None => lost(),
    };
    Some(again(&p.candidate, p.repetition, verdict))
}

/// Hands in that outcome.
pub fn answer(sqd: &mut Sqd, n: usize, factor: Option<f64>) -> Vec<Effect> {
    match repetition(sqd, n, factor) {
        Some(outcome) => sqd.on_outcome(&outcome),
        None => Vec::new(),
    }
}

/// The n-th sample of a step's first task.
pub fn sample(step: u64, sample: u32) -> From {
    From {
        step,
        sample,
        ..From::default()
    }
}
