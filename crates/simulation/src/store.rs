//! Checkpoints in the artifact store: whole or not there, and never written twice to one place.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::message::{Name, Program, Sample, Single, Verdict};

/// A role's state.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Saved {
    /// The checkpoint that it rests on.
    pub parent: Option<Name>,
    pub state: State,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum State {
    Archive(Book),
    Learner(Lessons),
}

/// What the archive knows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Book {
    /// The current step; none before the first.
    pub step: Option<u32>,
    /// How many tasks of it were given out.
    pub tasks: u32,
    pub finished: bool,
    /// Outcomes up to here are in it.
    pub sequence: u64,
    pub outcomes: BTreeMap<Sample, Verdict>,
    /// The fastest program of each cell.
    pub cells: BTreeMap<u32, (u32, Program)>,
}

/// What the learner knows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Lessons {
    /// Gradient steps; also the policy's version.
    pub steps: u32,
    pub weights: u64,
    /// What the last of them learnt from.
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
