//! Outcomes of identical programs are reused within a run.
//!
//! The key is everything that decides the outcome: source, problem, machine
//! class, toolchain and harness version. What the key does not hold (the
//! permitted techniques) is checked again on reuse.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use flopsmith_protocol::{
    CandidateFault, CandidateRef, Digest, Outcome, Purpose, TechniqueSet, Verdict,
};

/// What is kept of an outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// Techniques found in the program.
    pub techniques: Option<TechniqueSet>,
    /// Its verdict.
    pub verdict: Verdict,
}

#[derive(Default)]
struct State {
    known: HashMap<Digest, Known>,
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
pub fn key(source: &str, candidate: &CandidateRef, toolchain: &Digest, harness: &str) -> Digest {
    let mut text = String::with_capacity(source.len() + 200);
    for part in [
        candidate.problem.as_str(),
        candidate.machine_class.as_str(),
        toolchain.as_str(),
        harness,
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
        if candidate.purpose == Purpose::Certify {
            return Lookup::New;
        }
        let mut state = self.state();
        if let Some(known) = state.known.get(key) {
            return Lookup::Known(Box::new(reuse(known, candidate.permitted)));
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
        if outcome.candidate.purpose == Purpose::Certify || !keeps(&outcome.verdict) {
            return;
        }
        state.known.entry(key.clone()).or_insert_with(|| Known {
            techniques: outcome.techniques,
            verdict: outcome.verdict.clone(),
        });
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
        verdict,
    }
}
