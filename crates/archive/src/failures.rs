//! Failed answers that later tasks ask to repair.

use std::collections::VecDeque;

use flopsmith_protocol::{Outcome, TechniqueSet, Verdict};
use serde::{Deserialize, Serialize};

use crate::draw::Draw;

/// Number of failures that are kept: recent ones are those that the present policy makes.
const MOST: usize = 64;

/// Longest source of a kept failure, bytes. All of them stay small beside the archive.
const LONGEST: usize = 1 << 14;

/// A failed answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// The techniques that its prompt permits.
    pub permitted: TechniqueSet,
    /// Its source.
    pub source: String,
    /// The fault, and the diagnostics.
    pub verdict: Verdict,
}

/// The most recent failures of one problem, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Failures(VecDeque<Failed>);

impl Failures {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes an outcome, if its program failed by its own fault. A program that is kept already stays in its place.
    pub(crate) fn note(&mut self, outcome: &Outcome) {
        let permitted = outcome.candidate.permitted;
        let source = &outcome.source;
        let is_kept = |kept: &Failed| kept.permitted == permitted && kept.source == *source;
        let is_unfit = source.is_empty() || source.len() > LONGEST;
        if is_unfit
            || !matches!(outcome.verdict, Verdict::Rejected { .. })
            || self.0.iter().any(is_kept)
        {
            return;
        }
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(Failed {
            permitted,
            source: source.clone(),
            verdict: outcome.verdict.clone(),
        });
    }

    /// A failure under a prompt that permits exactly these techniques; each is equally likely.
    pub(crate) fn one_of(&self, permitted: TechniqueSet, draw: &mut Draw) -> Option<&Failed> {
        let fits: Vec<&Failed> = self.0.iter().filter(|f| f.permitted == permitted).collect();
        Some(fits[draw.weighted(&vec![1.0; fits.len()])?])
    }
}
