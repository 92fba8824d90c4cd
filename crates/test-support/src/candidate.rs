//! Tasks and their samples.

use flopsmith_protocol::{
    CandidateRef, GroupId, PolicyVersion, Purpose, Sampling, Task, TaskId, TechniqueSet,
};

use crate::ids::{machine_class, problem_id, run_id};

/// A training task of a step that has two tasks of two samples. It permits no technique.
pub fn task(step: u64, number: u32) -> Task {
    let id = TaskId::of(&run_id(), step, number);
    Task {
        group: GroupId::of(&id),
        id,
        run: run_id(),
        step,
        tasks_in_step: 2,
        group_size: 2,
        exploration_samples: 0,
        parents: Vec::new(),
        problem: problem_id(),
        stage: 0,
        permitted: TechniqueSet::EMPTY,
        elite: None,
        purpose: Purpose::Train,
        sampling: Sampling {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            max_tokens: 8,
        },
        seed: 1,
        machine_class: machine_class(),
        min_policy: PolicyVersion(0),
        outcomes_seen: 0,
        history: Vec::new(),
        follows: None,
        requests: None,
    }
}

/// A sample of `task`. A policy wrote it if the task is one of training: the version that has the step's number.
pub fn sample_of(task: &Task, sample: u32) -> CandidateRef {
    let trained = task.purpose == Purpose::Train;
    task.candidate(sample, trained.then_some(PolicyVersion(task.step)))
}

/// A sample of the task that [`task`] makes of the same step and group.
pub fn candidate(step: u64, group: u32, sample: u32) -> CandidateRef {
    sample_of(&task(step, group), sample)
}

/// The candidate under which `first` is measured again, for the `repetition`-th time.
pub fn remeasured(first: &CandidateRef, repetition: u32) -> CandidateRef {
    CandidateRef {
        id: first.id.remeasured(repetition),
        purpose: Purpose::Certify,
        remeasures: Some(first.id.clone()),
        ..first.clone()
    }
}
