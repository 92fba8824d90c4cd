//! Outcomes of identical programs are reused within a run.
//!
//! The key is everything that decides the outcome: source, machine class and
//! the [`Yardstick`]. What the key does not hold (the permitted techniques) is
//! checked again on reuse.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use flopsmith_problem::Problem;
use flopsmith_protocol::{
    ArtifactRef, CandidateFault, CandidateRef, Digest, Outcome, Purpose, TechniqueSet, Verdict,
};
use serde::{Deserialize, Serialize};

/// What programs are held against beside the machine. Outcomes under different yardsticks are no twins' outcomes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Yardstick {
    /// The problem's definition: parameters, bounds, reference, baseline.
    pub problem: Digest,
    /// Compiler, version and flags.
    pub toolchain: Digest,
    /// The harness and its hand-shake.
    pub harness: String,
    /// Flopsmith's own version and its method ([`flopsmith_bench::METHOD`]): supervisor, checks and statistics.
    pub version: String,
}

impl Yardstick {
    /// The yardstick of this build.
    pub fn of(problem: &Problem, toolchain: &Digest) -> Self {
        Self {
            problem: problem.digest.clone(),
            toolchain: toolchain.clone(),
            harness: flopsmith_bench::HARNESS_VERSION.to_owned(),
            version: format!(
                "{} method {}",
                env!("CARGO_PKG_VERSION"),
                flopsmith_bench::METHOD
            ),
        }
    }
}

/// What is kept of an outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// Techniques found in the program.
    pub techniques: Option<TechniqueSet>,
    /// Width of the widest vector register in its object.
    pub vector_bits: Option<u32>,
    /// Its verdict.
    pub verdict: Verdict,
}

/// A shared object that was built from a program.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltBefore {
    /// Where it lies.
    pub object: ArtifactRef,
    /// Techniques found in source and object.
    pub techniques: TechniqueSet,
    /// Width of the widest vector register in the object.
    pub vector_bits: Option<u32>,
}

#[derive(Default)]
struct State {
    known: HashMap<Digest, Known>,
    built: HashMap<Digest, BuiltBefore>,
    /// Programs that are on their way, so that a twin waits for the outcome.
    under_way: HashMap<Digest, u32>,
}

/// The outcomes known on this node.
#[derive(Clone, Default)]
pub struct Results(Arc<Mutex<State>>);

/// What to do with a candidate.
#[derive(Debug, PartialEq)]
pub enum Lookup {
    /// Nobody has tried this program: evaluate it.
    New,
    /// A twin is on its way: wait for its outcome.
    UnderWay,
    /// Its outcome is known.
    Known(Box<Known>),
}

/// The key of a program's outcome.
pub fn key(source: &str, candidate: &CandidateRef, yardstick: &Yardstick) -> Digest {
    let mut text = String::with_capacity(source.len() + 300);
    for part in [
        candidate.problem.as_str(),
        candidate.machine_class.as_str(),
        yardstick.problem.as_str(),
        yardstick.toolchain.as_str(),
        &yardstick.harness,
        &yardstick.version,
        source,
    ] {
        text.push_str(part);
        text.push('\0');
    }
    Digest::of(text.as_bytes())
}

impl Results {
    /// Looks a program up; when it is new it is marked as under way.
    pub fn look_up(&self, key: &Digest, candidate: &CandidateRef) -> Lookup {
        let mut state = self.state();
        let again = candidate.purpose == Purpose::Certify;
        // A second measurement is made anew, but what broke under sanitizers is broken.
        if let Some(known) = state.known.get(key)
            && (!again || is_broken(&known.verdict))
        {
            return Lookup::Known(Box::new(reuse(known, candidate.permitted)));
        }
        if again {
            return Lookup::New;
        }
        if state.under_way.contains_key(key) {
            return Lookup::UnderWay;
        }
        state.under_way.insert(key.clone(), 1);
        Lookup::New
    }

    /// Notes an outcome from the log.
    pub fn note(&self, key: &Digest, outcome: &Outcome) {
        let mut state = self.state();
        state.under_way.remove(key);
        let known = || Known {
            techniques: outcome.techniques,
            vector_bits: outcome.vector_bits,
            verdict: outcome.verdict.clone(),
        };
        // Only programs that are about to become elites are looked at with sanitizers; the first measurement was none the wiser.
        if is_broken(&outcome.verdict) {
            state.known.insert(key.clone(), known());
        } else if outcome.candidate.purpose != Purpose::Certify && keeps(&outcome.verdict) {
            state.known.entry(key.clone()).or_insert_with(known);
        }
    }

    /// Notes what a program was compiled to.
    pub fn note_built(&self, key: &Digest, built: BuiltBefore) {
        self.state().built.insert(key.clone(), built);
    }

    /// What `candidate` was compiled to before, when it is measured a second time: a compiler gives the same object
    /// again. None where its task forbids a technique of it, so that the compile stage says which.
    pub fn built(&self, key: &Digest, candidate: &CandidateRef) -> Option<BuiltBefore> {
        if candidate.purpose != Purpose::Certify {
            return None;
        }
        let built = self.state().built.get(key).cloned()?;
        built
            .techniques
            .difference(candidate.permitted)
            .is_empty()
            .then_some(built)
    }

    /// The evaluation of a program was given up on this node: a twin may try.
    pub fn give_up(&self, key: &Digest) {
        self.state().under_way.remove(key);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Verdicts that hold for every twin. A forbidden technique depends on the task and an infrastructure failure on luck.
fn keeps(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Measured { .. } => true,
        Verdict::Rejected { fault, .. } => !matches!(fault, CandidateFault::ForbiddenTechnique),
        Verdict::Infrastructure { .. } | Verdict::Unknown { .. } => false,
    }
}

/// Did sanitizers find something? That holds whatever was measured before.
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
    use flopsmith_protocol::{InfrastructureCause, Technique};
    use flopsmith_test_support::{candidate, infrastructure, rejected, wrong};

    fn permitting(techniques: TechniqueSet, purpose: Purpose) -> CandidateRef {
        CandidateRef {
            permitted: techniques,
            purpose,
            ..candidate(1, 0, 0)
        }
    }

    fn outcome(of: &CandidateRef, techniques: TechniqueSet, verdict: Verdict) -> Outcome {
        Outcome {
            techniques: Some(techniques),
            vector_bits: Some(256),
            ..flopsmith_test_support::outcome(of.clone(), verdict)
        }
    }

    #[test]
    fn no_outcome_is_reused_under_another_yardstick() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemm");
        let problem = Problem::load(&root).expect("the shipped problem");
        let toolchain = Digest::of(b"gcc");
        let now = Yardstick::of(&problem, &toolchain);
        assert_eq!(now.harness, flopsmith_bench::HARNESS_VERSION);
        let candidate = candidate(1, 0, 0);
        let of = |yardstick: &Yardstick| key("a program", &candidate, yardstick);
        assert_eq!(of(&now), of(&Yardstick::of(&problem, &toolchain)));
        let mut edited = problem.clone();
        edited.digest = Digest::of(b"another reference");
        let others = [
            Yardstick::of(&edited, &toolchain),
            Yardstick::of(&problem, &Digest::of(b"clang")),
            Yardstick {
                harness: "another".into(),
                ..now.clone()
            },
            Yardstick {
                version: "another".into(),
                ..now.clone()
            },
        ];
        for other in others {
            assert_ne!(of(&now), of(&other), "{other:?}");
        }
    }

    #[test]
    fn a_twin_waits_and_then_shares_the_outcome() {
        let (results, key) = (Results::default(), Digest::of(b"program"));
        let simd = TechniqueSet::default().with(Technique::Simd);
        let first = permitting(simd, Purpose::Train);
        assert_eq!(results.look_up(&key, &first), Lookup::New);
        assert_eq!(results.look_up(&key, &first), Lookup::UnderWay);
        results.note(&key, &outcome(&first, simd, wrong()));
        let Lookup::Known(known) = results.look_up(&key, &first) else {
            panic!("the outcome is known");
        };
        assert_eq!(known.verdict, wrong());
        assert_eq!(known.vector_bits, Some(256), "one program, one object");
        // What a task forbids is decided anew for each twin.
        let strict = permitting(TechniqueSet::default(), Purpose::Train);
        let Lookup::Known(known) = results.look_up(&key, &strict) else {
            panic!("the outcome is known");
        };
        assert!(matches!(
            known.verdict,
            Verdict::Rejected {
                fault: CandidateFault::ForbiddenTechnique,
                ..
            }
        ));
    }

    #[test]
    fn bad_luck_and_forbidden_techniques_are_not_handed_on() {
        let first = permitting(TechniqueSet::default(), Purpose::Train);
        let luck = infrastructure(InfrastructureCause::Jail);
        let forbidden = rejected(CandidateFault::ForbiddenTechnique);
        for verdict in [luck, forbidden] {
            let (results, key) = (Results::default(), Digest::of(b"program"));
            assert_eq!(results.look_up(&key, &first), Lookup::New);
            results.note(
                &key,
                &outcome(&first, TechniqueSet::default(), verdict.clone()),
            );
            assert_eq!(results.look_up(&key, &first), Lookup::New, "{verdict:?}");
        }
    }

    #[test]
    fn what_broke_under_sanitizers_is_not_tried_again() {
        let (results, key) = (Results::default(), Digest::of(b"program"));
        let none = TechniqueSet::default();
        let first = permitting(none, Purpose::Train);
        let again = permitting(none, Purpose::Certify);
        let fast = flopsmith_test_support::measured(50.0);
        assert_eq!(results.look_up(&key, &first), Lookup::New);
        results.note(&key, &outcome(&first, none, fast));
        assert_eq!(results.look_up(&key, &again), Lookup::New);
        let broken = rejected(CandidateFault::UndefinedBehaviour);
        results.note(&key, &outcome(&again, none, broken.clone()));
        for twin in [first, again] {
            let Lookup::Known(known) = results.look_up(&key, &twin) else {
                panic!("the outcome is known");
            };
            assert_eq!(known.verdict, broken);
        }
    }

    #[test]
    fn a_second_measurement_is_made_anew_from_the_object_of_the_first() {
        let (results, key) = (Results::default(), Digest::of(b"program"));
        let simd = TechniqueSet::default().with(Technique::Simd);
        let built = BuiltBefore {
            object: ArtifactRef {
                digest: Digest::of(b"object"),
                size: 6,
            },
            techniques: simd,
            vector_bits: Some(512),
        };
        let again = permitting(simd, Purpose::Certify);
        assert_eq!(results.built(&key, &again), None);
        results.note_built(&key, built.clone());
        results.note(
            &key,
            &outcome(&permitting(simd, Purpose::Train), simd, wrong()),
        );
        assert_eq!(results.look_up(&key, &again), Lookup::New);
        assert_eq!(results.built(&key, &again), Some(built));
        let strict = permitting(TechniqueSet::default(), Purpose::Certify);
        assert_eq!(results.built(&key, &strict), None);
        let first = permitting(simd, Purpose::Train);
        assert_eq!(results.built(&key, &first), None);
    }
}
