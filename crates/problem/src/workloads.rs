//! Workloads: the sizes at which a program is timed. A program's numbers are the geometric means over all of them.

use std::collections::BTreeSet;

use flopsmith_protocol::FIRST_WORKLOAD;

use crate::error::Error;
use crate::load::digest;
use crate::{Caches, Params, Problem, meant};

/// A size at which programs are timed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Its name, unique within the problem: the definition's, or else its size, e.g. `n=256`.
    pub name: String,
    /// Parameters of its calls.
    pub params: Params,
    /// Where its calls find their arrays.
    pub caches: Caches,
}

impl Workload {
    /// The size for people: `n = 256`.
    pub fn size(&self) -> String {
        size(&self.params)
    }
}

/// Parameters for people: `n = 256`.
pub(crate) fn size(params: &Params) -> String {
    let sizes = params.iter().map(|(name, size)| format!("{name} = {size}"));
    sizes.collect::<Vec<_>>().join(", ")
}

impl Problem {
    /// The same problem timed at the workload with this number.
    ///
    /// # Panics
    /// If there is no such workload.
    #[must_use]
    pub fn at(&self, index: usize) -> Problem {
        let Workload { params, caches, .. } = &self.workloads[index];
        Problem {
            timed: params.clone(),
            caches: *caches,
            ..self.clone()
        }
    }

    /// The same problem once for each workload, timed at it.
    pub fn each(&self) -> Vec<Problem> {
        match self.workloads.len() {
            0 | 1 => vec![self.clone()],
            count => (0..count).map(|index| self.at(index)).collect(),
        }
    }

    /// The sizes of all workloads, each once, that of [`Problem::timed`] first.
    pub fn timed_sizes(&self) -> Vec<&Params> {
        let mut sizes = vec![&self.timed];
        if self.workloads.len() > 1 {
            for workload in &self.workloads {
                if !sizes.contains(&&workload.params) {
                    sizes.push(&workload.params);
                }
            }
        }
        sizes
    }

    /// The parameters of each workload, in the order of the definition.
    pub fn params_of_each(&self) -> Vec<Params> {
        match self.workloads.len() {
            0 | 1 => vec![self.timed.clone()],
            _ => self.workloads.iter().map(|w| w.params.clone()).collect(),
        }
    }

    /// The sizes that are timed, for people: `n = 256`, or `n = 256; n = 512`.
    pub fn timed_size(&self) -> String {
        match self.workloads.len() {
            0 | 1 => size(&self.timed),
            _ => {
                let sizes = self.workloads.iter().map(Workload::size);
                sizes.collect::<Vec<_>>().join("; ")
            }
        }
    }

    /// The problem with the workloads of these names only, in the definition's order; with all of them if no name is
    /// given. Numbers of different selections are not comparable, so a selection has another digest, unless it is the
    /// whole. [`FIRST_WORKLOAD`] stands for the name of the first one, so both give the same digest.
    ///
    /// # Errors
    /// [`Error::NoWorkload`] for a name that no workload has, [`Error::WorkloadTwice`] for a workload that is named twice.
    pub fn select<S: AsRef<str>>(&self, names: &[S]) -> Result<Problem, Error> {
        let mut wanted: BTreeSet<&str> = BTreeSet::new();
        for name in names.iter().map(AsRef::as_ref) {
            let known = || self.workloads.iter().map(|w| w.name.as_str());
            let name = match name {
                FIRST_WORKLOAD => known().next().unwrap_or(name),
                name => name,
            };
            if !known().any(|other| other == name) {
                return Err(Error::NoWorkload {
                    problem: self.id.clone(),
                    name: name.to_owned(),
                    near: meant(name, known().chain([FIRST_WORKLOAD])),
                    known: known().map(str::to_owned).collect(),
                });
            }
            if !wanted.insert(name) {
                return Err(Error::WorkloadTwice {
                    name: name.to_owned(),
                });
            }
        }
        if wanted.is_empty() {
            return Ok(self.clone());
        }
        Ok(self.with_those(|workload| wanted.contains(workload.name.as_str())))
    }

    /// The problem with its first workload only: the one that it is timed at by default.
    #[must_use]
    pub fn only_first(&self) -> Problem {
        let first = self.workloads.first().map(|workload| workload.name.clone());
        self.with_those(|workload| Some(&workload.name) == first.as_ref())
    }

    /// The problem with those workloads only, of which there is at least one.
    pub(crate) fn with_those(&self, wanted: impl Fn(&Workload) -> bool) -> Problem {
        let mut workloads = self.workloads.clone();
        workloads.retain(wanted);
        if workloads.len() == self.workloads.len() {
            return self.clone();
        }
        let names = workloads.iter().map(|workload| workload.name.as_str());
        let parts = std::iter::once(self.digest.as_str()).chain(names);
        let digest = digest(parts.map(Some));
        let selection = Problem {
            workloads,
            digest,
            ..self.clone()
        };
        selection.at(0)
    }
}
