//! Verdicts and outcomes, and their rollouts.

use flopsmith_protocol::{
    CandidateFault, CandidateRef, InfrastructureCause, Outcome, Request, Rollout, TechniqueSet,
    UnknownCause, Verdict,
};

use crate::candidate::{candidate, remeasured};
use crate::ids::node_id;

/// The candidate's own fault.
pub fn rejected(fault: CandidateFault) -> Verdict {
    Verdict::Rejected {
        fault,
        detail: String::new(),
    }
}

/// Wrong results.
pub fn wrong() -> Verdict {
    rejected(CandidateFault::WrongResult)
}

/// Nobody's fault.
pub fn infrastructure(cause: InfrastructureCause) -> Verdict {
    Verdict::Infrastructure {
        cause,
        detail: String::new(),
    }
}

/// A failure whose fault cannot be assigned.
pub fn unknown() -> Verdict {
    Verdict::Unknown {
        cause: UnknownCause::NoSamples,
        detail: String::new(),
    }
}

/// The outcome of `candidate`, with a program that no other candidate has. If it was measured, no technique was
/// detected in it, else detection did not run.
pub fn outcome(candidate: CandidateRef, verdict: Verdict) -> Outcome {
    Outcome {
        source: format!("program of {}", candidate.id),
        techniques: verdict.measurement().map(|_| TechniqueSet::EMPTY),
        vector_bits: None,
        verdict,
        request: None,
        stage_seconds: [0.0; 3],
        node: node_id(),
        machine_class: candidate.machine_class.clone(),
        decided_unix_ms: 0,
        candidate,
    }
}

/// The outcome of an answer that makes a request in place of writing a program.
pub fn asked(candidate: CandidateRef, request: Request) -> Outcome {
    let verdict = Verdict::Unknown {
        cause: UnknownCause::Asked,
        detail: request.to_string(),
    };
    Outcome {
        source: String::new(),
        request: Some(request),
        ..outcome(candidate, verdict)
    }
}

/// The outcome of the `sample`-th program of step 1, which has these techniques and 256-bit vectors.
pub fn first(sample: u32, source: &str, techniques: &str, verdict: Verdict) -> Outcome {
    let permitting = CandidateRef {
        permitted: TechniqueSet::all(),
        tasks_in_step: 1,
        group_size: 64,
        ..candidate(1, 0, sample)
    };
    Outcome {
        source: source.to_owned(),
        techniques: Some(techniques.parse().expect("techniques")),
        vector_bits: Some(256),
        ..outcome(permitting, verdict)
    }
}

/// The outcome of measuring the program of `first` a second time.
pub fn again(first: &Outcome, verdict: Verdict) -> Outcome {
    Outcome {
        candidate: remeasured(&first.candidate, 1),
        verdict,
        ..first.clone()
    }
}

/// The tokens that the program or the request of `outcome` was extracted from.
pub fn rollout(outcome: &Outcome) -> Rollout {
    Rollout {
        candidate: outcome.candidate.clone(),
        source: outcome.answer_digest(),
        prompt_tokens: vec![1],
        tokens: vec![2, 3],
        logprobs: vec![-0.5, -0.25],
        finished: true,
    }
}
