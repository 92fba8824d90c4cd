//! Outcomes for tests.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_protocol::{
    CandidateFault, CandidateId, CandidateRef, Digest, GroupId, Interval, MachineClass,
    MachineFacts, Measurement, NodeId, Outcome, PolicyVersion, ProblemId, Purpose, RunId,
    StopReason, TaskId, TechniqueSet, Verdict,
};

/// A measurement on [`machine`] `first`.
pub fn measurement(gflops: f64) -> Measurement {
    Measurement {
        gflops,
        seconds_per_call: 0.03 / gflops,
        ratio: 2.0 * gflops,
        interval: Interval {
            low: 1.9 * gflops,
            high: 2.1 * gflops,
            confidence: 0.95,
        },
        log_ratio_se: 0.01,
        calls: 64,
        blocks: 8,
        mdape: 0.01,
        stop: StopReason::Precise,
        samples: None,
        attestation: Digest::of(b"first"),
        share_of_peak: gflops / 100.0,
        reused: false,
    }
}

/// Verified and measured.
pub fn measured(gflops: f64) -> Verdict {
    Verdict::Measured {
        measurement: measurement(gflops),
    }
}

/// The outcome of an identical program.
pub fn reused(gflops: f64) -> Verdict {
    Verdict::Measured {
        measurement: Measurement {
            reused: true,
            ..measurement(gflops)
        },
    }
}

/// Wrong results.
pub fn rejected() -> Verdict {
    Verdict::Rejected {
        fault: CandidateFault::WrongResult,
        detail: String::new(),
    }
}

/// The `sample`-th outcome of step 1.
pub fn first(sample: u32, source: &str, techniques: &str, verdict: Verdict) -> Outcome {
    let run = RunId::new("r").unwrap();
    let task = TaskId::of(&run, 1, 0);
    let machine_class = MachineClass::new("m").unwrap();
    Outcome {
        candidate: CandidateRef {
            id: CandidateId::of(&task, sample),
            group: GroupId::of(&task),
            task,
            run,
            step: 1,
            tasks_in_step: 1,
            group_size: 64,
            sample,
            problem: ProblemId::new("p").unwrap(),
            stage: 0,
            permitted: TechniqueSet::all(),
            purpose: Purpose::Train,
            policy: Some(PolicyVersion(1)),
            remeasures: None,
            machine_class: machine_class.clone(),
        },
        source: source.to_owned(),
        techniques: Some(techniques.parse().unwrap()),
        vector_bits: Some(256),
        verdict,
        stage_seconds: [0.1; 3],
        node: NodeId::new("local").unwrap(),
        machine_class,
        decided_unix_ms: 1,
    }
}

/// The outcome of measuring `first` a second time.
pub fn again(first: &Outcome, verdict: Verdict) -> Outcome {
    Outcome {
        candidate: CandidateRef {
            id: first.candidate.id.remeasured(1),
            purpose: Purpose::Certify,
            remeasures: Some(first.candidate.id.clone()),
            ..first.candidate.clone()
        },
        verdict,
        ..first.clone()
    }
}

/// A machine with this attestation.
pub fn machine(attested: &str, peak_gflops: f64) -> MachineFacts {
    MachineFacts {
        run: RunId::new("r").unwrap(),
        node: NodeId::new("local").unwrap(),
        machine_class: MachineClass::new("m").unwrap(),
        peak_gflops,
        reference_gflops: 1.0,
        openblas_gflops: None,
        openblas_core: None,
        attestation: Digest::of(attested.as_bytes()),
        attestation_json: "{}".into(),
    }
}
