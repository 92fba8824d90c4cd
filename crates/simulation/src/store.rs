//! Checkpoints in the artifact store. A checkpoint is whole or does not exist, and no two checkpoints are written under
//! one name.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::message::{Name, Program, Sample, Single, Verdict};

/// A saved state of a role.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Saved {
    /// The checkpoint from which the state was made.
    pub parent: Option<Name>,
    pub state: State,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum State {
    Archive(Book),
    Learner(Lessons),
}

/// The archive's state.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Book {
    /// The current step; none before the first.
    pub step: Option<u32>,
    /// Number of tasks of the step that were given out.
    pub tasks: u32,
    pub finished: bool,
    /// The sequence of the last outcome in the book.
    pub sequence: u64,
    pub outcomes: BTreeMap<Sample, Verdict>,
    /// The fastest program of each cell.
    pub cells: BTreeMap<u32, (u32, Program)>,
}

/// The learner's state.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Lessons {
    /// Number of gradient steps, which is also the policy version.
    pub steps: u32,
    pub weights: u64,
    /// The samples and verdicts of the last gradient step.
    pub learnt: Vec<(Sample, Verdict)>,
}

#[derive(Debug)]
pub(crate) struct Store {
    pub up: bool,
    saved: BTreeMap<(Single, Name), Rc<Saved>>,
}

impl Store {
    pub fn new() -> Self {
        Self {
            up: true,
            saved: BTreeMap::new(),
        }
    }

    pub fn save(&mut self, single: Single, name: Name, saved: Rc<Saved>) {
        self.saved.insert((single, name), saved);
    }

    pub fn load(&self, single: Single, name: Name) -> Option<&Rc<Saved>> {
        self.saved.get(&(single, name))
    }
}
