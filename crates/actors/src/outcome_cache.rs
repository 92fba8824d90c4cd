//! Outcomes of identical programs are reused within a run.
//!
//! The key holds everything that decides the outcome: source, language, machine class and the [`ComparabilityKey`]. The
//! permitted techniques are not in the key; they are checked again on reuse.
//!
//! All nodes share one [`Entry`] for each program ([`OutcomeCache`]). Of the candidates with the same program one is
//! evaluated, and the others wait for its outcome.

use flopsmith_coordination::duplicates::{Holder, Turn};
use flopsmith_problem::Problem;
use flopsmith_protocol::{
    ArtifactRef, CandidateFault, CandidateId, CandidateRef, Digest, Outcome, Purpose, TechniqueSet,
    Verdict,
};
use serde::{Deserialize, Serialize};

mod shared;

pub(crate) use shared::BUCKET;
pub use shared::OutcomeCache;

/// Everything but the machine that outcomes depend on. Outcomes are reused only under the same key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparabilityKey {
    /// The problem's definition: parameters, bounds, reference, baseline.
    pub problem: Digest,
    /// Compiler, version and flags.
    pub toolchain: Digest,
    /// The harness and its hand-shake.
    pub harness: String,
    /// Flopsmith's own version and its method ([`flopsmith_measure::METHOD`]): supervisor, checks and statistics.
    pub version: String,
}

impl ComparabilityKey {
    /// The comparability key of this build.
    pub fn of(problem: &Problem, toolchain: &Digest) -> Self {
        Self {
            problem: problem.digest.clone(),
            toolchain: toolchain.clone(),
            harness: flopsmith_measure::HARNESS_VERSION.to_owned(),
            version: version(),
        }
    }
}

/// This build's version and method.
pub fn version() -> String {
    let steady = if cfg!(feature = "steady") {
        " steady"
    } else {
        ""
    };
    format!(
        "{} method {}{steady}",
        env!("CARGO_PKG_VERSION"),
        flopsmith_measure::METHOD
    )
}

/// The version of a run with candidates in other languages than their problems'. A node that knows no language of candidates
/// would build them as programs of the problem's, and blame them: to such a node this is another version, and it leaves the run
/// to others.
pub fn version_with_languages() -> String {
    format!("{} languages", version())
}

/// True if this build works for runs of a version.
pub fn knows(version_of_run: &str) -> bool {
    version_of_run == version() || version_of_run == version_with_languages()
}

/// The part of an outcome that the cache keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Known {
    /// Techniques found in the program.
    pub techniques: Option<TechniqueSet>,
    /// Width of the widest vector register in its object.
    pub vector_bits: Option<u32>,
    /// Its verdict.
    pub verdict: Verdict,
}

/// A shared object that was built from a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BuiltBefore {
    /// Where it lies.
    pub object: ArtifactRef,
    /// Techniques found in source and object.
    pub techniques: TechniqueSet,
    /// Width of the widest vector register in the object.
    pub vector_bits: Option<u32>,
}

/// The next action for a candidate.
#[derive(Debug, Clone, PartialEq)]
pub enum Lookup {
    /// It is this candidate's turn: evaluate it. If the program is measured once more, it may have been built before.
    New(Option<BuiltBefore>),
    /// A duplicate is being evaluated: wait for its outcome.
    UnderWay(CandidateId),
    /// The outcome of the program is known.
    Known(Box<Known>),
}

/// The entry of one program, which all nodes share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The candidate that is on its way with it.
    holder: Holder<CandidateId>,
    /// Its shared object.
    built: Option<BuiltBefore>,
    /// Its outcome.
    known: Option<Known>,
}

impl Entry {
    /// The next action for a candidate with this program, and the changed entry; none if the entry stays as it is.
    ///
    /// A candidate that waited too long for the duplicate `instead` takes that duplicate's place, see [`Holder::turn`].
    pub fn look_up(
        &self,
        candidate: &CandidateRef,
        instead: Option<&CandidateId>,
    ) -> (Lookup, Option<Self>) {
        let again = candidate.purpose == Purpose::Certify;
        // A second measurement ignores the known outcome, unless the program broke under sanitizers.
        if let Some(known) = &self.known
            && (!again || is_broken(&known.verdict))
        {
            let known = reuse(known, candidate.permitted);
            return (Lookup::Known(Box::new(known)), None);
        }
        if again {
            return (Lookup::New(self.built_for(candidate)), None);
        }
        match self.holder.turn(&candidate.id, instead) {
            Turn::Mine => (Lookup::New(None), None),
            Turn::Wait(holder) => (Lookup::UnderWay(holder), None),
            Turn::Take => {
                let taken = Self {
                    holder: Holder::taken_by(candidate.id.clone()),
                    ..self.clone()
                };
                (Lookup::New(None), Some(taken))
            }
        }
    }

    /// The entry after an outcome of its program; none if the entry stays as it is.
    pub fn decided(&self, outcome: &Outcome, object: Option<&ArtifactRef>) -> Option<Self> {
        let again = outcome.candidate.purpose == Purpose::Certify;
        let mut entry = self.clone();
        entry.holder.ended(&outcome.candidate.id);
        // An outcome that says nothing of the program may mean that the object is lost.
        if outcome.verdict.counts()
            && let (Some(object), Some(techniques)) = (object, outcome.techniques)
        {
            entry.built.get_or_insert_with(|| BuiltBefore {
                object: object.clone(),
                techniques,
                vector_bits: outcome.vector_bits,
            });
        }
        let known = || Known {
            techniques: outcome.techniques,
            vector_bits: outcome.vector_bits,
            verdict: outcome.verdict.clone(),
        };
        // Only programs that are about to become elites are checked with sanitizers. The first measurement had no such
        // check, so a finding replaces its outcome.
        if is_broken(&outcome.verdict) {
            entry.known = Some(known());
        } else if !again && keeps(&outcome.verdict) {
            entry.known.get_or_insert_with(known);
        }
        (entry != *self).then_some(entry)
    }

    /// True if no candidate has to wait for this program's outcome (any longer).
    pub fn is_settled(&self) -> bool {
        self.known.is_some() || self.holder.is_free()
    }

    /// The object that the program of `candidate` was compiled to before: the compiler would give the same object
    /// again. None if the task forbids a technique of the program, so that the compile stage reports which one.
    fn built_for(&self, candidate: &CandidateRef) -> Option<BuiltBefore> {
        let built = self.built.clone()?;
        built
            .techniques
            .difference(candidate.permitted)
            .is_empty()
            .then_some(built)
    }
}

/// The key of a program's outcome.
pub fn key(source: &str, candidate: &CandidateRef, comparability_key: &ComparabilityKey) -> Digest {
    let mut text = String::with_capacity(source.len() + 300);
    // In front of the others, where no source can look like it.
    if let Some(language) = candidate.language {
        text.push_str(language.name());
        text.push('\0');
    }
    for part in [
        candidate.problem.as_str(),
        candidate.machine_class.as_str(),
        comparability_key.problem.as_str(),
        comparability_key.toolchain.as_str(),
        &comparability_key.harness,
        &comparability_key.version,
        source,
    ] {
        text.push_str(part);
        text.push('\0');
    }
    Digest::of(text.as_bytes())
}

/// Verdicts that hold for every duplicate. A forbidden technique depends on the task, and an infrastructure failure on
/// chance.
fn keeps(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Measured { .. } => true,
        Verdict::Rejected { fault, .. } => !matches!(fault, CandidateFault::ForbiddenTechnique),
        Verdict::Infrastructure { .. } | Verdict::Unknown { .. } => false,
    }
}

/// True if sanitizers found a fault in the program. Such a finding overrides every measurement.
fn is_broken(verdict: &Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Rejected {
            fault: CandidateFault::UndefinedBehaviour,
            ..
        }
    )
}

fn reuse(known: &Known, permitted: TechniqueSet) -> Known {
    let extra = known.techniques.unwrap_or_default().difference(permitted);
    let verdict = if extra.is_empty() {
        match known.verdict.clone() {
            Verdict::Measured { mut measurement } => {
                measurement.reused = true;
                Verdict::Measured { measurement }
            }
            other => other,
        }
    } else {
        Verdict::Rejected {
            fault: CandidateFault::ForbiddenTechnique,
            detail: format!("uses {extra}, which this task forbids"),
        }
    };
    Known {
        techniques: known.techniques,
        vector_bits: known.vector_bits,
        verdict,
    }
}

#[cfg(test)]
#[expect(clippy::panic, reason = "tests")]
mod tests {
    use super::*;
    use flopsmith_protocol::{InfrastructureCause, Language, Technique};
    use flopsmith_test_support::{candidate, infrastructure, rejected, shipped, wrong};

    fn permitting(techniques: TechniqueSet, purpose: Purpose, sample: u32) -> CandidateRef {
        CandidateRef {
            permitted: techniques,
            purpose,
            ..candidate(1, 0, sample)
        }
    }

    fn outcome(of: &CandidateRef, techniques: TechniqueSet, verdict: Verdict) -> Outcome {
        Outcome {
            techniques: Some(techniques),
            vector_bits: Some(256),
            ..flopsmith_test_support::outcome(of.clone(), verdict)
        }
    }

    /// Looks a program up and keeps what comes of that.
    fn look_up(entry: &mut Entry, candidate: &CandidateRef) -> Lookup {
        let (lookup, after) = entry.look_up(candidate, None);
        if let Some(after) = after {
            *entry = after;
        }
        lookup
    }

    fn decide(entry: &mut Entry, outcome: &Outcome, object: Option<&ArtifactRef>) {
        if let Some(after) = entry.decided(outcome, object) {
            *entry = after;
        }
    }

    fn known(lookup: Lookup) -> Known {
        match lookup {
            Lookup::Known(known) => *known,
            other => panic!("the outcome is known: {other:?}"),
        }
    }

    #[test]
    fn no_outcome_is_reused_under_another_key() {
        let problem = Problem::load(&shipped::at("dgemm")).expect("the shipped problem");
        let toolchain = Digest::of(b"gcc");
        let now = ComparabilityKey::of(&problem, &toolchain);
        assert_eq!(now.harness, flopsmith_measure::HARNESS_VERSION);
        let candidate = candidate(1, 0, 0);
        let of =
            |comparability_key: &ComparabilityKey| key("a program", &candidate, comparability_key);
        assert_eq!(of(&now), of(&ComparabilityKey::of(&problem, &toolchain)));
        let mut edited = problem.clone();
        edited.digest = Digest::of(b"another reference");
        let others = [
            ComparabilityKey::of(&edited, &toolchain),
            ComparabilityKey::of(&problem, &Digest::of(b"clang")),
            ComparabilityKey {
                harness: "another".into(),
                ..now.clone()
            },
            ComparabilityKey {
                version: "another".into(),
                ..now.clone()
            },
        ];
        for other in others {
            assert_ne!(of(&now), of(&other), "{other:?}");
        }
    }

    #[test]
    fn a_text_in_two_languages_is_two_programs() {
        let problem = Problem::load(&shipped::at("dgemm")).expect("the shipped problem");
        let comparability_key = ComparabilityKey::of(&problem, &Digest::of(b"gcc"));
        let languages = [None, Some(Language::Cxx), Some(Language::Fortran)];
        let keys = languages.map(|language| {
            let candidate = CandidateRef {
                language,
                ..candidate(1, 0, 0)
            };
            key("a program", &candidate, &comparability_key)
        });
        assert!(keys[0] != keys[1] && keys[0] != keys[2] && keys[1] != keys[2]);
    }

    #[test]
    fn a_run_with_languages_is_one_of_another_version_to_builds_that_know_none() {
        assert_ne!(version_with_languages(), version());
        assert!(knows(&version()) && knows(&version_with_languages()));
        assert!(!knows("0.0.1 method 1"));
    }

    #[test]
    fn a_duplicate_waits_and_then_shares_the_outcome() {
        let mut entry = Entry::default();
        let simd = TechniqueSet::default().with(Technique::Simd);
        let first = permitting(simd, Purpose::Train, 0);
        let duplicate = permitting(simd, Purpose::Train, 1);
        assert!(entry.is_settled());
        assert_eq!(look_up(&mut entry, &first), Lookup::New(None));
        assert_eq!(
            look_up(&mut entry, &duplicate),
            Lookup::UnderWay(first.id.clone())
        );
        assert!(!entry.is_settled());
        // Given out once more, it does not wait for itself.
        assert_eq!(look_up(&mut entry, &first), Lookup::New(None));
        decide(&mut entry, &outcome(&first, simd, wrong()), None);
        assert!(entry.is_settled());
        let found = known(look_up(&mut entry, &duplicate));
        assert_eq!(found.verdict, wrong());
        assert_eq!(found.vector_bits, Some(256), "one program, one object");
        // The task's permitted techniques are checked anew for each duplicate.
        let strict = permitting(TechniqueSet::default(), Purpose::Train, 1);
        let found = known(look_up(&mut entry, &strict));
        assert!(matches!(
            found.verdict,
            Verdict::Rejected {
                fault: CandidateFault::ForbiddenTechnique,
                ..
            }
        ));
    }

    #[test]
    fn bad_luck_and_forbidden_techniques_are_not_handed_on() {
        let none = TechniqueSet::default();
        let [first, duplicate] = [0, 1].map(|sample| permitting(none, Purpose::Train, sample));
        let luck = infrastructure(InfrastructureCause::Jail);
        let forbidden = rejected(CandidateFault::ForbiddenTechnique);
        for verdict in [luck, forbidden] {
            let mut entry = Entry::default();
            assert_eq!(look_up(&mut entry, &first), Lookup::New(None));
            decide(&mut entry, &outcome(&first, none, verdict.clone()), None);
            assert!(entry.is_settled(), "{verdict:?}");
            assert_eq!(
                look_up(&mut entry, &duplicate),
                Lookup::New(None),
                "{verdict:?}"
            );
            let waits = Lookup::UnderWay(duplicate.id.clone());
            assert_eq!(look_up(&mut entry, &first), waits, "{verdict:?}");
        }
    }

    #[test]
    fn a_duplicate_that_waits_too_long_is_evaluated_and_a_late_outcome_counts() {
        let none = TechniqueSet::default();
        let [first, duplicate, third] =
            [0, 1, 2].map(|sample| permitting(none, Purpose::Train, sample));
        let mut entry = Entry::default();
        look_up(&mut entry, &first);
        let (lookup, after) = entry.look_up(&duplicate, Some(&first.id));
        assert_eq!(lookup, Lookup::New(None));
        entry = after.expect("it changes hands");
        let waits = Lookup::UnderWay(duplicate.id.clone());
        assert_eq!(look_up(&mut entry, &first), waits);
        // A third candidate that also waited for the first one begins to wait for the second one.
        assert_eq!(entry.look_up(&third, Some(&first.id)), (waits, None));
        // An infrastructure failure of the first candidate says nothing of the candidate that took its place.
        let luck = infrastructure(InfrastructureCause::Jail);
        decide(&mut entry, &outcome(&first, none, luck), None);
        assert!(!entry.is_settled());
        decide(&mut entry, &outcome(&first, none, wrong()), None);
        assert_eq!(known(look_up(&mut entry, &duplicate)).verdict, wrong());
        // The first outcome stays.
        let late = outcome(&duplicate, none, flopsmith_test_support::measured(5.0));
        decide(&mut entry, &late, None);
        assert_eq!(known(look_up(&mut entry, &duplicate)).verdict, wrong());
    }

    #[test]
    fn programs_refused_by_sanitizers_are_not_tried_again() {
        let mut entry = Entry::default();
        let none = TechniqueSet::default();
        let first = permitting(none, Purpose::Train, 0);
        let again = permitting(none, Purpose::Certify, 0);
        let fast = flopsmith_test_support::measured(50.0);
        assert_eq!(look_up(&mut entry, &first), Lookup::New(None));
        decide(&mut entry, &outcome(&first, none, fast), None);
        assert_eq!(look_up(&mut entry, &again), Lookup::New(None));
        let broken = rejected(CandidateFault::UndefinedBehaviour);
        decide(&mut entry, &outcome(&again, none, broken.clone()), None);
        for duplicate in [first, again] {
            assert_eq!(known(look_up(&mut entry, &duplicate)).verdict, broken);
        }
    }

    #[test]
    fn a_second_measurement_is_made_anew_from_the_object_of_the_first() {
        let mut entry = Entry::default();
        let simd = TechniqueSet::default().with(Technique::Simd);
        let object = ArtifactRef {
            digest: Digest::of(b"object"),
            size: 6,
        };
        let again = permitting(simd, Purpose::Certify, 0);
        assert_eq!(look_up(&mut entry, &again), Lookup::New(None));
        assert_eq!(entry, Entry::default(), "nobody waits for it");
        let first = permitting(simd, Purpose::Train, 0);
        look_up(&mut entry, &first);
        decide(&mut entry, &outcome(&first, simd, wrong()), Some(&object));
        let built = BuiltBefore {
            object,
            techniques: simd,
            vector_bits: Some(256),
        };
        assert_eq!(look_up(&mut entry, &again), Lookup::New(Some(built)));
        let strict = permitting(TechniqueSet::default(), Purpose::Certify, 0);
        assert_eq!(look_up(&mut entry, &strict), Lookup::New(None));
        // A second outcome changes nothing.
        let once_more = outcome(&again, simd, flopsmith_test_support::measured(5.0));
        assert_eq!(entry.decided(&once_more, None), None);
    }
}
