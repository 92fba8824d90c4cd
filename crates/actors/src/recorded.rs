//! A recorded run that another run repeats: the outcome of each of its programs, and its weights after each step.
//!
//! Only three things in a run depend on the clock: the outcomes, the progress that step sizes follow from, and the
//! number of steps. These are taken from the recorded run. Everything else is computed anew and has to be the same:
//! each program, by its source, and each policy version, by the digest of its weights. A record may leave out sources and
//! versions: then those of the new run are compared with nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};

use flopsmith_protocol::{
    Candidate, CandidateId, CandidateRef, Digest, MachineClass, MachineFacts, Outcome,
    PolicyPublished, PolicyVersion, RunId, Verdict,
};

use crate::error::Error;
use crate::journal::Lines;
use crate::role::recorder::files;

/// The contents of a run's folder.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    folder: PathBuf,
    /// Outcomes by the part of the candidate's id after the run's name.
    outcomes: HashMap<String, Outcome>,
    versions: BTreeMap<PolicyVersion, PolicyPublished>,
    machines: Vec<MachineFacts>,
}

impl Recorded {
    /// Reads the folder of a run.
    ///
    /// # Errors
    /// [`Error::File`], for a file that cannot be read.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let mut recorded = Self {
            folder: folder.to_owned(),
            machines: lines(&folder.join(files::MACHINES))?,
            ..Self::default()
        };
        for outcome in lines::<Outcome>(&folder.join(files::OUTCOMES))? {
            recorded.note(outcome);
        }
        for published in lines::<PolicyPublished>(&folder.join(files::TRAINING))? {
            recorded
                .versions
                .entry(published.version)
                .or_insert(published);
        }
        Ok(recorded)
    }

    /// The first outcome of a candidate counts.
    fn note(&mut self, outcome: Outcome) {
        let candidate = &outcome.candidate;
        let name = behind(&candidate.id, &candidate.run).to_owned();
        self.outcomes.entry(name).or_insert(outcome);
    }

    /// The policy versions, and the digests of their weights.
    pub fn versions(&self) -> impl Iterator<Item = (PolicyVersion, &Digest)> {
        self.versions
            .values()
            .map(|published| (published.version, &published.weights.digest))
    }

    /// The first policy version that cannot be repeated, because its record does not say at which progress of the run it
    /// was trained.
    pub fn silent(&self) -> Option<PolicyVersion> {
        let trained = self.versions.values().filter(|p| p.version.0 > 0);
        trained
            .filter(|p| p.metrics.as_ref().is_none_or(|m| m.progress.is_none()))
            .map(|p| p.version)
            .next()
    }

    /// The machines on which the run's rewards rest: the first one that was published, and in a run over many problems the
    /// first one of each, as in [`crate::node::Context::machine_peaks`].
    pub fn machines(&self, class: &MachineClass) -> Vec<&MachineFacts> {
        let of_class = self.machines.iter().filter(|m| m.machine_class == *class);
        let mut seen = BTreeSet::new();
        of_class
            .filter(|m| m.peak_gflops > 0.0 && seen.insert(&m.problem))
            .collect()
    }

    /// Share of the budget that was spent when `version` was trained.
    ///
    /// # Errors
    /// [`Error::Diverged`], where the run had no such version.
    pub fn progress(&self, version: PolicyVersion) -> Result<f64, Error> {
        let metrics = self.versions.get(&version).and_then(|p| p.metrics.as_ref());
        metrics.and_then(|m| m.progress).ok_or_else(|| {
            Error::Diverged(format!(
                "{} has no policy version {} with the share of the budget that was spent at its training",
                self.folder.display(),
                version.0
            ))
        })
    }

    /// Checks that the recorded run had these weights.
    ///
    /// # Errors
    /// [`Error::Diverged`], which names both.
    pub fn check(&self, version: PolicyVersion, weights: &Digest) -> Result<(), Error> {
        let why = match self.versions.get(&version) {
            Some(recorded) if recorded.weights.digest == *weights => return Ok(()),
            Some(recorded) => format!(
                "policy version {} has the weights {weights}; in the recorded run it had {}",
                version.0, recorded.weights.digest
            ),
            None => format!("the recorded run has no policy version {}", version.0),
        };
        let hint = match version.0 {
            0 => " (it started from another model)",
            _ => "",
        };
        Err(Error::Diverged(format!(
            "{why} in {}{hint}",
            self.folder.display()
        )))
    }

    /// True if the same candidate has a recorded outcome.
    pub fn knows(&self, candidate: &CandidateRef) -> bool {
        self.outcomes
            .contains_key(behind(&candidate.id, &candidate.run))
    }

    /// The recorded outcome of the same candidate.
    ///
    /// # Errors
    /// [`Error::Diverged`] if there is none, or if the candidate was another program.
    pub fn outcome(&self, candidate: &Candidate) -> Result<&Outcome, Error> {
        let id = &candidate.candidate.id;
        let name = behind(id, &candidate.candidate.run);
        let Some(outcome) = self.outcomes.get(name) else {
            return Err(Error::Diverged(format!(
                "{} has no outcome of a candidate like {id}",
                self.folder.display()
            )));
        };
        // A sample that was lost before a generator had written it has no source, and neither has one whose source the
        // record leaves out. An answer without a program has none either, and is refused: that is a difference.
        let unknown =
            outcome.source.is_empty() && !matches!(outcome.verdict, Verdict::Rejected { .. });
        let digest = |source: &str| Digest::of(source.as_bytes());
        let (here, there) = (digest(&candidate.source), digest(&outcome.source));
        if here != there && !unknown {
            return Err(Error::Diverged(format!(
                "candidate {id} is another program (digest {here}) than {} in {} (digest {there})",
                outcome.candidate.id,
                self.folder.display()
            )));
        }
        Ok(outcome)
    }
}

/// The part of an id after its run's name.
fn behind<'a>(id: &'a CandidateId, run: &RunId) -> &'a str {
    let id = id.as_str();
    id.strip_prefix(run.as_str()).unwrap_or(id)
}

/// The lines of a file that can be read. A file that is not there has none.
fn lines<T: for<'a> serde::Deserialize<'a>>(path: &Path) -> Result<Vec<T>, Error> {
    let fail = |source| Error::File {
        path: path.to_owned(),
        source,
    };
    match File::open(path) {
        Ok(file) => Ok(Lines::read(path, file).map_err(fail)?.items),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(fail(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopsmith_protocol::{ArtifactRef, InfrastructureCause, StepMetrics, TaskId};
    use flopsmith_test_support::{
        candidate, infrastructure, machine, machine_class, measured, outcome, wrong,
    };

    /// The same sample in a run of another name.
    fn in_another_run(of: &CandidateRef) -> CandidateRef {
        let run = RunId::new("again").expect("an id");
        let task = TaskId::of(&run, of.step, 0);
        CandidateRef {
            id: CandidateId::of(&task, of.sample),
            run,
            task,
            ..of.clone()
        }
    }

    fn asked(of: &CandidateRef, source: &str) -> Candidate {
        Candidate {
            candidate: in_another_run(of),
            source: source.to_owned(),
            answer: None,
        }
    }

    #[test]
    fn the_same_sample_of_another_run_has_the_outcome_it_had() {
        let (first, lost) = (candidate(2, 0, 1), candidate(2, 0, 0));
        let known = outcome(first.clone(), wrong());
        let mut recorded = Recorded::default();
        recorded.note(known.clone());
        recorded.note(Outcome {
            source: String::new(),
            ..outcome(lost.clone(), infrastructure(InfrastructureCause::Bus))
        });
        let found = recorded.outcome(&asked(&first, &known.source));
        assert_eq!(found.expect("it is known"), &known);
        recorded
            .outcome(&asked(&lost, "int x;"))
            .expect("a lost candidate has an outcome for any program");
        let (fast, empty) = (candidate(2, 0, 2), candidate(2, 0, 3));
        for (of, verdict) in [(&fast, measured(1.0)), (&empty, wrong())] {
            recorded.note(Outcome {
                source: String::new(),
                ..outcome(of.clone(), verdict)
            });
        }
        let any = recorded.outcome(&asked(&fast, "int x;"));
        assert!(
            any.is_ok(),
            "a speed without a source is that of any program"
        );
        let other = recorded.outcome(&asked(&empty, "int x;"));
        assert!(other.is_err(), "a refused answer held no program");
        let other = recorded.outcome(&asked(&first, "int other;"));
        let said = other.expect_err("another program").to_string();
        assert!(
            said.contains("again-s2") && said.contains(first.id.as_str()),
            "{said}"
        );
        let none = recorded.outcome(&asked(&candidate(3, 0, 0), "int x;"));
        let said = none.expect_err("no outcome").to_string();
        assert!(
            said.contains("no outcome") && said.contains("again-s3"),
            "{said}"
        );
    }

    #[test]
    fn a_version_is_held_against_the_one_there_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let published = |version: u64, progress: Option<f64>| PolicyPublished {
            run: flopsmith_test_support::run_id(),
            version: PolicyVersion(version),
            step: version,
            weights: ArtifactRef {
                digest: Digest::of(&version.to_le_bytes()),
                size: 8,
            },
            metrics: progress.map(|progress| StepMetrics {
                progress: Some(progress),
                ..StepMetrics::default()
            }),
        };
        // No number in between is nearer to a third.
        let third = 1.0 / 3.0;
        let text = [
            published(0, None),
            published(1, Some(third)),
            published(2, None),
        ]
        .map(|p| serde_json::to_string(&p).expect("JSON") + "\n")
        .concat();
        std::fs::write(folder.path().join(files::TRAINING), text).expect("it is written");
        let line = serde_json::to_string(&machine("m")).expect("JSON") + "\n";
        std::fs::write(folder.path().join(files::MACHINES), line).expect("it is written");
        let recorded = Recorded::read(folder.path()).expect("a run");
        assert_eq!(recorded.versions().count(), 3);
        assert_eq!(recorded.machines(&machine_class()), [&machine("m")]);
        assert_eq!(recorded.silent(), Some(PolicyVersion(2)));
        let progress = recorded.progress(PolicyVersion(1)).expect("it is said");
        assert_eq!(progress.to_bits(), third.to_bits());
        assert!(recorded.progress(PolicyVersion(2)).is_err());
        let check = |version: u64, digest| recorded.check(PolicyVersion(version), &digest);
        check(1, Digest::of(&1u64.to_le_bytes())).expect("the same");
        for (version, word) in [
            (0, "another model"),
            (1, "version 1"),
            (9, "no policy version 9"),
        ] {
            let said = check(version, Digest::of(b"other"))
                .expect_err("differs")
                .to_string();
            assert!(said.contains(word), "{said}");
        }
    }
}
