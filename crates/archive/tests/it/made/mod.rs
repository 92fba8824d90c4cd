//! Outcomes for tests.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_archive::{Archive, Config, Effect, Elite, Sqd};
use flopsmith_protocol::*;
use flopsmith_test_support::{Measured, candidate, infrastructure, rejected, remeasured};
pub use flopsmith_test_support::{machine_class, problem_id, run_id};

pub fn set(text: &str) -> TechniqueSet {
    text.parse().unwrap()
}

pub fn sqd(config: Config) -> Sqd {
    Sqd::new(config, run_id(), problem_id(), machine_class()).unwrap()
}

pub fn archive(elites_per_cell: usize) -> Archive {
    Archive::new(
        problem_id(),
        machine_class(),
        TechniqueSet::general(),
        elites_per_cell,
    )
}

/// A measurement whose interval is `ratio` ± about two standard errors; the plain reference makes two GFLOPS.
pub fn measurement(ratio: f64, se: f64) -> Measurement {
    Measured::at(2.0 * ratio).ratio(ratio).se(se).measurement()
}

/// The origin of a candidate.
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
            permitted: TechniqueSet::general(),
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
    let candidate = CandidateRef {
        tasks_in_step: 8,
        group_size: 16,
        stage: from.stage,
        permitted: from.permitted,
        purpose: from.purpose,
        policy: Some(PolicyVersion(from.step)),
        ..candidate(from.step, from.group, from.sample)
    };
    Outcome {
        source: source.to_owned(),
        techniques,
        ..flopsmith_test_support::outcome(candidate, verdict)
    }
}

pub fn good(from: From, source: &str, techniques: TechniqueSet, ratio: f64, se: f64) -> Outcome {
    let verdict = Verdict::Measured {
        measurement: measurement(ratio, se),
    };
    outcome(from, source, Some(techniques), verdict)
}

pub fn bad(from: From, fault: CandidateFault) -> Outcome {
    outcome(from, "broken", None, rejected(fault))
}

/// The outcome of a repeated measurement.
pub fn again(first: &CandidateRef, repetition: u32, verdict: Verdict) -> Outcome {
    flopsmith_test_support::outcome(remeasured(first, repetition), verdict)
}

/// Ends a step with one correct program of the current stage, which the archive requires before it leaves a stage. The
/// program has its own cell.
pub fn end_step(sqd: &mut Sqd, step: u64) -> Vec<Effect> {
    let from = From {
        stage: sqd.stage(),
        group: 7,
        ..sample(step, 15)
    };
    let source = format!("int s{step};");
    sqd.on_outcome(&good(from, &source, set("openmp"), 1.0, 0.01));
    sqd.on_step_end(step)
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
    infrastructure(InfrastructureCause::Store)
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
