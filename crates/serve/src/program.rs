//! Programs to evaluate, and the results of their evaluation.

use std::sync::Arc;
use std::time::Duration;

use flopsmith_evaluate::Evaluated;
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{CandidateFault, Digest, Failure, TechniqueSet, Verdict};
use flopsmith_reward::{Context, Reward};
use serde::{Deserialize, Serialize};

use crate::circumstances::Circumstances;
use crate::reference::Reference;
use crate::wire::{Answer, Outcome, Purpose, ReferenceSpeeds, Sanitized};

/// The techniques that programs for a problem may use, with any number of threads: prompts name these, and the compile stage
/// refuses others.
pub fn permitted(problem: &Problem) -> TechniqueSet {
    problem.techniques
}

/// A program to evaluate.
#[derive(Debug)]
pub struct Program {
    /// Its problem, with the workloads at which it is timed.
    pub problem: Arc<Problem>,
    /// Its language.
    pub language: Language,
    /// Its source.
    pub source: String,
    /// The standard of its measurement.
    pub purpose: Purpose,
    key: Digest,
}

impl Program {
    /// Makes a program and its key.
    pub fn new(
        problem: Arc<Problem>,
        language: Language,
        source: String,
        purpose: Purpose,
    ) -> Self {
        let text = format!(
            "{}\0{}\0{}\0{}\0{source}",
            problem.id,
            problem.digest,
            language.name(),
            purpose.name(),
        );
        Self {
            key: Digest::of(text.as_bytes()),
            problem,
            language,
            source,
            purpose,
        }
    }

    /// Identical programs for the same problem and purpose have the same key.
    pub fn key(&self) -> &Digest {
        &self.key
    }
}

/// Evaluates programs: one at a time, in a thread of its own.
pub trait Judge: Send {
    /// Evaluates a program.
    fn judge(&mut self, program: &Program) -> Judged;
}

/// The result of an evaluation, without the reward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The verdict.
    pub verdict: Verdict,
    /// The techniques, once the program was compiled.
    pub techniques: Option<TechniqueSet>,
    /// Width of the widest vector register in the object, bits.
    pub vector_bits: Option<u32>,
    /// Compiler warnings.
    pub warnings: String,
    /// The sanitizers that checked the program, if they did.
    pub sanitizers: Option<Sanitized>,
    /// Why the machine was not quiet, if the program was timed nevertheless.
    pub machine_busy: Option<String>,
    /// The speeds that the numbers refer to.
    pub reference: Option<ReferenceSpeeds>,
    /// The circumstances of the measurement; none in results from the cache.
    #[serde(skip)]
    pub circumstances: Option<Circumstances>,
    /// True if this result was read from the cache.
    #[serde(skip)]
    pub cached: bool,
    /// Time that the evaluation took on a cluster, without its waits; none if the caller knows it.
    #[serde(skip)]
    pub took: Option<Duration>,
}

impl Judged {
    /// The result of an evaluation that referred to `reference`.
    pub fn of(done: Evaluated, reference: Reference) -> Self {
        Self {
            verdict: done.verdict,
            techniques: done.techniques,
            vector_bits: done.vector_bits,
            warnings: done.diagnostics,
            sanitizers: done.checked.map(|checked| Sanitized {
                by: checked.by,
                left_out: checked.left_out,
            }),
            machine_busy: done.busy,
            reference: Some(reference.speeds),
            circumstances: Some(reference.circumstances),
            cached: false,
            took: None,
        }
    }

    /// The result of a program that was not evaluated for this reason.
    pub fn failed(failure: Failure) -> Self {
        Self {
            verdict: failure.into(),
            techniques: None,
            vector_bits: None,
            warnings: String::new(),
            sanitizers: None,
            machine_busy: None,
            reference: None,
            circumstances: None,
            cached: false,
            took: None,
        }
    }

    /// The result of an answer without a program.
    pub fn without_program(language: Language) -> Self {
        let detail = format!(
            "the answer has no complete fenced block in {}; write the program between ```{} and ```",
            language.name(),
            language.fence(),
        );
        Self::failed(Failure::candidate(CandidateFault::Format, detail))
    }

    /// True if another evaluation would say the same: a failure of the infrastructure may pass, and a number that did not
    /// converge may converge.
    pub fn is_final(&self) -> bool {
        match &self.verdict {
            Verdict::Measured { measurement } => measurement.converged(),
            other => other.counts(),
        }
    }

    /// The answer to a candidate, with the reward and without a comparison.
    pub fn answer(self, index: usize, asked: &Asked, reward: &Reward) -> Answer {
        let context = Context {
            peak_gflops: self.reference.as_ref().map(|r| r.peak_gflops),
            // A best speed changes with every program, and equal programs must have equal rewards.
            stage_best_gflops: None,
        };
        let (outcome, reason) = Outcome::of(&self.verdict);
        let outcome = outcome.beside(self.reference.as_ref());
        let correct = match &self.verdict {
            Verdict::Measured { .. } => Some(true),
            Verdict::Rejected { .. } => Some(false),
            Verdict::Infrastructure { .. } | Verdict::Unknown { .. } => None,
        };
        let diagnostics = match &self.verdict {
            Verdict::Measured { .. } => self.warnings,
            Verdict::Rejected { detail, .. }
            | Verdict::Infrastructure { detail, .. }
            | Verdict::Unknown { detail, .. } => detail.clone(),
        };
        let of_reward = reward.reward(&self.verdict, &context);
        let reward_se = reward.reward_se(&self.verdict, &context);
        let measurement = self.verdict.measurement().cloned();
        Answer {
            index,
            id: asked.id.clone(),
            problem: asked.problem.clone(),
            purpose: asked.purpose,
            outcome,
            reason: reason.map(str::to_owned),
            correct,
            reward: of_reward,
            reward_se,
            ratio: measurement.as_ref().map(|m| m.ratio),
            interval: measurement.as_ref().map(|m| m.interval),
            ratio_to_against: None,
            interval_to_against: None,
            gflops: measurement.as_ref().map(|m| m.gflops),
            techniques: self.techniques,
            vector_bits: self.vector_bits,
            diagnostics,
            sanitizers: self.sanitizers,
            machine_busy: self.machine_busy,
            cached: self.cached,
            reference: self.reference,
            measurement,
        }
    }
}

/// The parts of a candidate that its answer repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Its id.
    pub id: String,
    /// Its problem.
    pub problem: String,
    /// The standard of its measurement.
    pub purpose: Purpose,
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_protocol::InfrastructureCause;
    use flopsmith_test_support::{Measured, infrastructure, measured, unknown, wrong};

    use super::*;

    fn judged(verdict: Verdict) -> Judged {
        Judged {
            verdict,
            reference: Some(ReferenceSpeeds {
                id: "r".into(),
                gflops: 2.0,
                peak_gflops: 80.0,
                measured_unix_ms: 1,
                log_se: 0.004,
                converged: true,
                machine_busy: None,
            }),
            ..Judged::failed(Failure::candidate(CandidateFault::Format, ""))
        }
    }

    fn answer(verdict: Verdict) -> Answer {
        let asked = Asked {
            id: "a".into(),
            problem: "dgemm".into(),
            purpose: Purpose::Rank,
        };
        judged(verdict).answer(3, &asked, &Reward::default())
    }

    #[test]
    fn a_reward_is_that_of_a_run_with_the_peak_of_the_reference() {
        let answer = answer(measured(40.0));
        assert_eq!((answer.index, answer.id.as_str()), (3, "a"));
        assert_eq!(answer.reward, Some(0.5));
        assert_eq!(answer.correct, Some(true));
        assert_eq!(answer.gflops, Some(40.0));
        assert_eq!(answer.reason, None);
    }

    #[test]
    fn numbers_beside_a_reference_that_did_not_converge_did_not_converge() {
        let asked = Asked {
            id: "a".into(),
            problem: "dgemm".into(),
            purpose: Purpose::Rank,
        };
        let beside = |converged: bool, verdict: Verdict| {
            let mut judged = judged(verdict);
            judged.reference.as_mut().unwrap().converged = converged;
            judged.answer(0, &asked, &Reward::default()).outcome
        };
        assert_eq!(beside(true, measured(40.0)), Outcome::Measured);
        assert_eq!(beside(false, measured(40.0)), Outcome::Unconverged);
        assert_eq!(beside(false, wrong()), Outcome::Rejected);
    }

    #[test]
    fn only_a_candidate_at_fault_is_worth_less_than_nothing() {
        let rejected = answer(wrong());
        assert_eq!(rejected.outcome, Outcome::Rejected);
        assert_eq!(rejected.reward, Some(-0.1));
        assert_eq!(rejected.correct, Some(false));
        for verdict in [infrastructure(InfrastructureCause::Jail), unknown()] {
            let failed = answer(verdict);
            assert_eq!(failed.reward, None);
            assert_eq!(failed.correct, None);
            assert!(failed.reason.is_some());
        }
    }

    #[test]
    fn verdicts_that_another_evaluation_may_change_are_not_final() {
        assert!(judged(measured(1.0)).is_final());
        assert!(judged(wrong()).is_final());
        let unsure = Measured::at(1.0).unconverged().verdict();
        for verdict in [unsure, infrastructure(InfrastructureCause::Jail), unknown()] {
            assert!(!judged(verdict).is_final());
        }
    }

    #[test]
    fn a_result_is_read_as_it_was_written() {
        for verdict in [measured(40.0), wrong()] {
            let before = judged(verdict);
            let text = serde_json::to_string(&before).unwrap();
            assert_eq!(serde_json::from_str::<Judged>(&text).unwrap(), before);
        }
    }
}
