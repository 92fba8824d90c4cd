//! Results of programs, and the speeds of references that they refer to, in the folder of the service.
//!
//! ```text
//! results/PP/PROGRAM.json      the final result of a program; PP is the beginning of its key
//! references/PROBLEM-GRADE.json the reference of a problem
//! attestations/DIGEST.json     the machine that a measurement names
//! best/PROBLEM.json            the fastest programs of a problem (`crate::best`)
//! ```
//!
//! A result counts only beside results that refer to the same measurement of the reference, so it is used only as long as
//! that reference is the current one.

use std::collections::HashMap;
use std::io::Result;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use flopsmith_problem::Problem;
use flopsmith_protocol::Digest;
use serde::{Deserialize, Serialize};

use crate::journal::{make, remove_older, write};
use crate::program::{Judged, Program};
use crate::reference::{Grade, Reference};

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    /// The id of the reference that the result refers to.
    reference: String,
    judged: Judged,
}

/// The cache of a folder.
pub struct Cache {
    folder: PathBuf,
    current: Mutex<HashMap<(Digest, Grade), Current>>,
}

/// The reference that results refer to now.
#[derive(Debug, Clone)]
struct Current {
    id: String,
    /// The last time at which it holds, milliseconds since 1970.
    until_unix_ms: u64,
}

impl Cache {
    /// The cache in `folder`.
    pub fn open(folder: &Path) -> Result<Self> {
        for inner in ["results", "references", "attestations"] {
            make(&folder.join(inner))?;
        }
        Ok(Self {
            folder: folder.to_owned(),
            current: Mutex::default(),
        })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn current(&self) -> MutexGuard<'_, HashMap<(Digest, Grade), Current>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on results refer to this reference of the problem, which holds for `refresh` at most.
    pub fn refer_to(
        &self,
        problem: &Problem,
        grade: Grade,
        reference: &Reference,
        refresh: Duration,
    ) {
        let current = Current {
            id: reference.speeds.id.clone(),
            until_unix_ms: reference.holds_until_unix_ms(refresh),
        };
        let slot = (problem.digest.clone(), grade);
        self.current().insert(slot, current);
    }

    /// The known result of a program; none if there is none under the current reference, if that does not hold any more, or
    /// if no reference was measured or read since the service was started.
    pub fn look_up(&self, program: &Program, now_unix_ms: u64) -> Option<Judged> {
        let slot = (program.problem.digest.clone(), Grade::of(program.purpose));
        let current = self.current().get(&slot)?.clone();
        if now_unix_ms > current.until_unix_ms {
            return None;
        }
        let bytes = std::fs::read(self.result(program.key())).ok()?;
        let entry: Entry = serde_json::from_slice(&bytes).ok()?;
        (entry.reference == current.id).then_some(Judged {
            cached: true,
            ..entry.judged
        })
    }

    /// Keeps a result, unless another evaluation could change it.
    pub fn keep(&self, program: &Program, judged: &Judged) -> Result<()> {
        let Some(reference) = judged.reference.as_ref().filter(|_| judged.is_final()) else {
            return Ok(());
        };
        let path = self.result(program.key());
        if let Some(folder) = path.parent() {
            make(folder)?;
        }
        let entry = Entry {
            reference: reference.id.clone(),
            judged: judged.clone(),
        };
        write(&path, &entry)
    }

    fn result(&self, key: &Digest) -> PathBuf {
        let beginning = &key.short()[..2];
        let folder = self.folder.join("results").join(beginning);
        folder.join(format!("{key}.json"))
    }

    fn reference(&self, problem: &Problem, grade: Grade) -> PathBuf {
        let name = format!("{}-{}.json", problem.digest, grade.name());
        self.folder.join("references").join(name)
    }

    /// The kept reference of a problem.
    pub fn read_reference(&self, problem: &Problem, grade: Grade) -> Option<Reference> {
        let bytes = std::fs::read(self.reference(problem, grade)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// The reference that results refer to now; none if no reference was measured or read since the service was started.
    pub fn current_reference(&self, problem: &Problem, grade: Grade) -> Option<Reference> {
        let slot = (problem.digest.clone(), grade);
        let current = self.current().get(&slot)?.clone();
        let known = self.read_reference(problem, grade)?;
        (known.speeds.id == current.id).then_some(known)
    }

    /// The same, if that reference still holds.
    pub fn valid_reference(
        &self,
        problem: &Problem,
        grade: Grade,
        now_unix_ms: u64,
    ) -> Option<Reference> {
        let slot = (problem.digest.clone(), grade);
        let until_unix_ms = self.current().get(&slot)?.until_unix_ms;
        let holds = now_unix_ms <= until_unix_ms;
        holds.then(|| self.current_reference(problem, grade))?
    }

    /// Keeps the reference of a problem.
    pub fn keep_reference(
        &self,
        problem: &Problem,
        grade: Grade,
        reference: &Reference,
    ) -> Result<()> {
        write(&self.reference(problem, grade), reference)
    }

    /// Keeps the attestation of a machine under its digest.
    pub fn keep_attestation(&self, digest: &Digest, json: &str) -> Result<()> {
        let name = format!("{digest}.json");
        let path = self.folder.join("attestations").join(name);
        std::fs::write(path, json)
    }

    /// Removes results that are older than `keep`.
    pub fn sweep(&self, keep: Duration, now: SystemTime) -> Result<()> {
        for entry in std::fs::read_dir(self.folder.join("results"))? {
            remove_older(&entry?.path(), keep, now, |_| false)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::Arc;

    use flopsmith_problem::Language;
    use flopsmith_protocol::{CandidateFault, Failure};
    use flopsmith_test_support::{Measured, measured, shipped};

    use super::*;
    use crate::wire::Purpose;

    fn problem() -> Arc<Problem> {
        Arc::new(Problem::load(&shipped::at("dgemm")).unwrap())
    }

    fn program(purpose: Purpose) -> Program {
        Program::new(problem(), Language::C, "int x;".into(), purpose)
    }

    const DAY: Duration = Duration::from_secs(86_400);

    fn reference(id: &str) -> Reference {
        crate::reference::tests::reference(id, 7)
    }

    fn judged(under: &Reference, verdict: flopsmith_protocol::Verdict) -> Judged {
        Judged {
            verdict,
            reference: Some(under.speeds.clone()),
            ..Judged::failed(Failure::candidate(CandidateFault::Format, ""))
        }
    }

    #[test]
    fn a_result_is_known_as_long_as_its_reference_is_the_current_one() {
        let place = tempfile::tempdir().unwrap();
        let program = program(Purpose::Rank);
        let (first, second) = (reference("first"), reference("second"));
        {
            let cache = Cache::open(place.path()).unwrap();
            cache
                .keep(&program, &judged(&first, measured(40.0)))
                .unwrap();
            assert_eq!(cache.look_up(&program, 7), None, "no reference is current");
        }
        // After a restart.
        let cache = Cache::open(place.path()).unwrap();
        cache.refer_to(&program.problem, Grade::Quick, &first, DAY);
        let found = cache.look_up(&program, 7).unwrap();
        assert!(found.cached);
        assert_eq!(found.verdict, measured(40.0));
        cache.refer_to(&program.problem, Grade::Quick, &second, DAY);
        assert_eq!(cache.look_up(&program, 7), None);
    }

    #[test]
    fn a_certified_number_has_a_reference_and_an_entry_of_its_own() {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache::open(place.path()).unwrap();
        let (rank, certify) = (program(Purpose::Rank), program(Purpose::Certify));
        let reference = reference("quick");
        cache.refer_to(&rank.problem, Grade::Quick, &reference, DAY);
        cache
            .keep(&rank, &judged(&reference, measured(40.0)))
            .unwrap();
        assert!(cache.look_up(&rank, 7).is_some());
        assert_eq!(cache.look_up(&certify, 7), None);
    }

    #[test]
    fn a_number_that_did_not_converge_is_measured_again() {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache::open(place.path()).unwrap();
        let program = program(Purpose::Screen);
        let reference = reference("quick");
        cache.refer_to(&program.problem, Grade::Quick, &reference, DAY);
        let unsure = judged(&reference, Measured::at(40.0).unconverged().verdict());
        cache.keep(&program, &unsure).unwrap();
        assert_eq!(cache.look_up(&program, 7), None);
    }

    #[test]
    fn a_result_is_not_known_once_its_reference_is_to_be_measured_again() {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache::open(place.path()).unwrap();
        let program = program(Purpose::Rank);
        let mut reference = reference("quick");
        let result = judged(&reference, measured(40.0));
        cache.keep(&program, &result).unwrap();
        cache.refer_to(&program.problem, Grade::Quick, &reference, DAY);
        let minutes = |count: u64| 7 + count * 60_000;
        assert!(cache.look_up(&program, minutes(6)).is_some());
        reference.speeds.machine_busy = Some("core 1 is used".into());
        cache.refer_to(&program.problem, Grade::Quick, &reference, DAY);
        assert!(cache.look_up(&program, minutes(4)).is_some());
        assert_eq!(cache.look_up(&program, minutes(6)), None);
    }

    #[test]
    fn references_come_back_and_old_results_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache::open(place.path()).unwrap();
        let program = program(Purpose::Rank);
        let reference = reference("quick");
        let problem = &program.problem;
        cache
            .keep_reference(problem, Grade::Quick, &reference)
            .unwrap();
        let found = cache.read_reference(problem, Grade::Quick);
        assert_eq!(found.as_ref(), Some(&reference));
        assert_eq!(cache.current_reference(problem, Grade::Quick), None);
        assert_eq!(cache.read_reference(problem, Grade::Refined), None);
        cache.refer_to(problem, Grade::Quick, &reference, DAY);
        let found = cache.current_reference(problem, Grade::Quick);
        assert_eq!(found.as_ref(), Some(&reference));
        let found = cache.valid_reference(problem, Grade::Quick, 7);
        assert_eq!(found.as_ref(), Some(&reference));
        let later = reference.holds_until_unix_ms(DAY) + 1;
        assert_eq!(cache.valid_reference(problem, Grade::Quick, later), None);
        cache
            .keep(&program, &judged(&reference, measured(40.0)))
            .unwrap();
        let hour = Duration::from_secs(3600);
        cache.sweep(hour, SystemTime::now()).unwrap();
        assert!(cache.look_up(&program, 7).is_some());
        cache.sweep(hour, SystemTime::now() + 2 * hour).unwrap();
        assert_eq!(cache.look_up(&program, 7), None);
    }
}
