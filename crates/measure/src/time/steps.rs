//! The steps of a timer, for a caller whose user waits: a certification at several workloads takes a minute.

use std::sync::Arc;

/// The kind of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// The plain reference is compared with the baseline.
    Reference,
    /// The same once more, in several processes.
    ReferenceAtLength,
    /// A program is timed.
    Program,
}

/// A step that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'a> {
    /// Its kind.
    pub work: Work,
    /// The name of its workload.
    pub workload: &'a str,
    /// The place of the workload in the problem, 1 for the first one.
    pub number: usize,
    /// Number of workloads.
    pub of: usize,
}

/// A function that a timer tells of each step.
type Hears = dyn Fn(Step<'_>) + Send + Sync;

/// The one whom a timer tells of each step before it begins; by default nobody. It is told between measurements, never
/// during one.
#[derive(Clone, Default)]
pub struct Listener(Option<Arc<Hears>>);

impl Listener {
    /// A listener that calls `hears`, which should return at once.
    pub fn new(hears: impl Fn(Step<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hears)))
    }

    pub(super) fn tell(&self, step: Step<'_>) {
        if let Some(hears) = &self.0 {
            hears(step);
        }
    }
}
