//! The contents of a dead letter: the samples that will get no other outcome. Pure.

use flopsmith_bus::DeadLetter;
use flopsmith_protocol::{
    Candidate, CandidateRef, Compiled, Digest, InfrastructureCause, RunId, Task, TechniqueSet,
    Verified, subjects,
};

/// Work of a run that no node will do any more.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Work {
    Task(Task),
    Candidate(Candidate),
    Compiled(Compiled),
    Verified(Verified),
}

/// A sample and the data that were known of it when its work was given up.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lost {
    pub candidate: CandidateRef,
    pub source: String,
    pub techniques: Option<TechniqueSet>,
    pub vector_bits: Option<u32>,
    pub stage_seconds: [f32; 3],
    /// The key under which identical programs wait for its outcome, if it is known.
    pub key: Option<Digest>,
}

impl Work {
    /// None if the letter cannot be read, for example because a later version wrote it, or if it is no work of ours.
    pub fn of(letter: &DeadLetter) -> Option<Self> {
        letter
            .decode()
            .map(Work::Task)
            .or_else(|_| letter.decode().map(Work::Candidate))
            .or_else(|_| letter.decode().map(Work::Compiled))
            .or_else(|_| letter.decode().map(Work::Verified))
            .ok()
    }

    /// The run of the work. The dead letters of a bus are those of all its runs.
    pub fn run(&self) -> &RunId {
        match self {
            Work::Task(task) => &task.run,
            Work::Candidate(message) => &message.candidate.run,
            Work::Compiled(message) => &message.candidate.run,
            Work::Verified(message) => &message.compiled.candidate.run,
        }
    }

    /// The id of the task or the candidate, for people.
    pub fn id(&self) -> &str {
        match self {
            Work::Task(task) => task.id.as_str(),
            Work::Candidate(message) => message.candidate.id.as_str(),
            Work::Compiled(message) => message.candidate.id.as_str(),
            Work::Verified(message) => message.compiled.candidate.id.as_str(),
        }
    }

    /// The cause of the failure: the programs of a task that no generator could work off were never written; all other
    /// work was lost on its way.
    pub fn cause(&self) -> InfrastructureCause {
        match self {
            Work::Task(_) => InfrastructureCause::Generator,
            Work::Candidate(_) | Work::Compiled(_) | Work::Verified(_) => InfrastructureCause::Bus,
        }
    }

    /// The samples that have no outcome because of this letter; for a task, all its samples.
    pub fn samples(self) -> Vec<Lost> {
        match self {
            Work::Task(task) => (0..task.group_size)
                .map(|sample| unknown(task.candidate(sample, None), String::new()))
                .collect(),
            Work::Candidate(message) => vec![unknown(message.candidate, message.source)],
            Work::Compiled(message) => vec![built(message, 0.0)],
            Work::Verified(message) => vec![built(message.compiled, message.verify_seconds)],
        }
    }
}

/// The samples of the `tasks` of a run that have no outcome because of a letter that cannot be read, for example one
/// that another version wrote. The letter's queue or log tells the run, and its id tells the task or candidate.
pub(crate) fn unreadable(letter: &DeadLetter, run: &RunId, tasks: &[Task]) -> Vec<Lost> {
    let name = letter.id.as_deref().and_then(|id| id.split_once('/'));
    let ours =
        subjects::is_work_of(&letter.subject, run) || letter.subject == subjects::outcome(run);
    let Some((_, name)) = name.filter(|_| ours) else {
        return Vec::new();
    };
    tasks
        .iter()
        .flat_map(|task| (0..task.group_size).map(move |sample| (task, sample)))
        .map(|(task, sample)| (task, task.candidate(sample, None)))
        .filter(|(task, candidate)| task.id.as_str() == name || candidate.id.as_str() == name)
        .map(|(_, candidate)| unknown(candidate, String::new()))
        .collect()
}

fn unknown(candidate: CandidateRef, source: String) -> Lost {
    Lost {
        candidate,
        source,
        techniques: None,
        vector_bits: None,
        stage_seconds: [0.0; 3],
        key: None,
    }
}

fn built(compiled: Compiled, verify_seconds: f32) -> Lost {
    Lost {
        techniques: Some(compiled.techniques),
        vector_bits: compiled.vector_bits,
        stage_seconds: [compiled.compile_seconds, verify_seconds, 0.0],
        key: compiled.key,
        ..unknown(compiled.candidate, compiled.source)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use flopsmith_protocol::{ArtifactRef, Message, encode};
    use flopsmith_test_support::{candidate, node_id, run_id, task, wrong};

    fn letter(message: &impl Message) -> DeadLetter {
        DeadLetter {
            sequence: 1,
            subject: "fs.v1.work.compile.local".into(),
            reason: "nobody could".into(),
            attempts: 5,
            payload: encode(message).unwrap().into(),
            truncated: false,
            died_unix_ms: 0,
            id: None,
        }
    }

    #[test]
    fn a_task_leaves_all_its_samples_and_a_program_itself_with_what_is_known_of_it() {
        let work = Work::of(&letter(&task(1, 0))).unwrap();
        assert_eq!((work.run(), work.id()), (&run_id(), "r-s1-g0"));
        assert_eq!(work.cause(), InfrastructureCause::Generator);
        let ids: Vec<String> = work
            .samples()
            .into_iter()
            .map(|lost| lost.candidate.id.to_string())
            .collect();
        assert_eq!(ids, ["r-s1-g0-c0", "r-s1-g0-c1"]);

        let program = Candidate {
            candidate: candidate(1, 0, 1),
            source: "int x;".into(),
            answer: None,
        };
        let work = Work::of(&letter(&program)).unwrap();
        assert_eq!((work.run(), work.id()), (&run_id(), "r-s1-g0-c1"));
        assert_eq!(work.cause(), InfrastructureCause::Bus);
        let expected = unknown(program.candidate.clone(), "int x;".into());
        assert_eq!(work.samples(), [expected]);

        let compiled = Compiled {
            candidate: program.candidate,
            source: program.source,
            object: ArtifactRef {
                digest: Digest::of(b"object"),
                size: 6,
            },
            techniques: TechniqueSet::all(),
            vector_bits: Some(512),
            toolchain: Digest::of(b"gcc"),
            key: Some(Digest::of(b"key")),
            compile_seconds: 0.5,
        };
        let verified = Verified {
            compiled: compiled.clone(),
            worst_error_share: 0.0,
            cases: 1,
            sizes: None,
            verify_seconds: 0.25,
            node: node_id(),
        };
        for (work, seconds) in [
            (Work::of(&letter(&compiled)), [0.5, 0.0, 0.0]),
            (Work::of(&letter(&verified)), [0.5, 0.25, 0.0]),
        ] {
            let lost = work.unwrap().samples().pop().unwrap();
            assert_eq!(lost.techniques, Some(TechniqueSet::all()));
            assert_eq!((lost.vector_bits, lost.stage_seconds), (Some(512), seconds));
            assert_eq!(lost.key, compiled.key);
        }
    }

    #[test]
    fn unreadable_messages_are_identified_by_queue_and_id() {
        let tasks = [task(1, 0), task(1, 1)];
        let about = |id: &str, queue: &str| {
            let letter = DeadLetter {
                id: Some(id.to_owned()),
                subject: queue.to_owned(),
                ..letter(&task(1, 0))
            };
            let lost = unreadable(&letter, &run_id(), &tasks);
            let ids = lost.into_iter().map(|lost| lost.candidate.id.to_string());
            ids.collect::<Vec<_>>()
        };
        let ours = "fs.v1.work.verify.local.r";
        assert_eq!(about("compiled/r-s1-g1-c0", ours), ["r-s1-g1-c0"]);
        assert_eq!(
            about("task/r-s1-g0", "fs.v1.work.generate.policy.r"),
            ["r-s1-g0-c0", "r-s1-g0-c1"]
        );
        assert_eq!(
            about("outcome/r-s1-g0-c1", "fs.v1.outcome.r"),
            ["r-s1-g0-c1"]
        );
        let none: [&str; 0] = [];
        assert_eq!(about("outcome/r-s1-g0-c1", "fs.v1.outcome.other"), none);
        assert_eq!(
            about("compiled/r-s1-g1-c0", "fs.v1.work.verify.local.other"),
            none
        );
        assert_eq!(about("compiled/r-s9-g1-c0", ours), none);
        assert_eq!(about("r-s1-g1-c0", ours), none);
    }

    #[test]
    fn letters_that_hold_no_work_are_left_alone() {
        let outcome = flopsmith_test_support::outcome(candidate(1, 0, 0), wrong());
        assert_eq!(Work::of(&letter(&outcome)), None);
        let truncated = DeadLetter {
            payload: Vec::<u8>::new().into(),
            ..letter(&outcome)
        };
        assert_eq!(Work::of(&truncated), None);
    }
}
