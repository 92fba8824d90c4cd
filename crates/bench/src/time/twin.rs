//! What must come out of a timed call, where no formula says so: what the baseline computes from the same inputs.
//!
//! Every call gets inputs that were never seen before, so there is nothing to
//! look up. The baseline is called as often as the candidate anyway: it gets
//! the seeds that the candidate had, and the two are compared at places which
//! are chosen after the candidate's call has returned.

use std::collections::VecDeque;

use flopsmith_harness::control::Element;
use flopsmith_harness::inputs::{POISON_F32, POISON_F64};
use flopsmith_protocol::CandidateFault;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use crate::Failure;
use crate::supervise::{Arena, Array, Placement, Specification};

/// Elements of the outputs that are compared after each timed call.
const PLACES: usize = 48;

/// An output array and how far candidate and baseline may differ in an element of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slack {
    /// Number of the array.
    pub array: usize,
    /// Largest difference; 0 where results are exact.
    pub most: f64,
}

/// What a call of the candidate left, until the baseline has had the same inputs.
struct Pending {
    seed: u64,
    /// Array, element and value.
    places: Vec<(usize, usize, f64)>,
    /// Everything, for calls that are checked in full: the values of each output array.
    all: Option<Vec<Vec<f64>>>,
}

/// Holds results of the candidate against those of the baseline.
pub struct Twin<'a> {
    slack: &'a [Slack],
    pending: VecDeque<Pending>,
}

/// Where the results of a call lie.
#[derive(Clone, Copy)]
pub struct Results<'a> {
    /// The buffers.
    pub arena: &'a Arena,
    /// Where the arrays lie.
    pub placement: &'a Placement,
    /// The arguments.
    pub specification: &'a Specification,
}

impl Results<'_> {
    fn array(&self, n: usize) -> &Array {
        &self.specification.arrays[n]
    }

    /// One element; none where nothing has been written to it.
    fn element(&self, n: usize, index: usize) -> Option<f64> {
        let offset = self.placement.arrays[n].0;
        let mapping = self.arena.mapping();
        match self.array(n).element {
            Element::F64 => {
                let x: f64 = mapping.get(offset + 8 * index);
                (x.to_bits() != POISON_F64).then_some(x)
            }
            Element::F32 => {
                let x: f32 = mapping.get(offset + 4 * index);
                (x.to_bits() != POISON_F32).then_some(f64::from(x))
            }
            // Every integer may be a result.
            Element::I32 => Some(f64::from(mapping.get::<i32>(offset + 4 * index))),
        }
    }

    /// All elements.
    pub fn all(&self, n: usize) -> Vec<f64> {
        let (offset, bytes) = self.placement.arrays[n];
        let mut found = vec![0u8; bytes];
        self.arena.mapping().read(offset, &mut found);
        self.array(n).values(&found)
    }
}

fn skipped(detail: String) -> Failure {
    Failure::candidate(CandidateFault::SkippedWork, detail)
}

impl<'a> Twin<'a> {
    /// Nothing has been called yet.
    pub fn new(slack: &'a [Slack]) -> Self {
        Self {
            slack,
            pending: VecDeque::new(),
        }
    }

    /// Keeps some elements of what the candidate's call left, right after it. All are read before anything is judged, so
    /// that work which is still going on has no time to finish.
    pub fn keep(
        &mut self,
        results: Results,
        seed: u64,
        rng: &mut ChaCha8Rng,
    ) -> Result<(), Failure> {
        let mut found = [(0usize, 0usize, None); PLACES];
        for (n, place) in found.iter_mut().enumerate() {
            let array = self.slack[n % self.slack.len()].array;
            let count = results.array(array).count().max(1);
            *place = (array, rng.random_range(0..count), None);
        }
        for (array, index, value) in &mut found {
            *value = results.element(*array, *index);
        }
        let mut places = Vec::with_capacity(PLACES);
        for (array, index, value) in found {
            let Some(value) = value else {
                return Err(skipped(format!(
                    "when a timed call returned, element {index} of array argument {} had not been written",
                    array + 1
                )));
            };
            places.push((array, index, value));
        }
        self.pending.push_back(Pending {
            seed,
            places,
            all: None,
        });
        Ok(())
    }

    /// Keeps every element of the call that was kept last.
    pub fn keep_all(&mut self, results: Results) {
        let all = self.slack.iter().map(|s| results.all(s.array)).collect();
        if let Some(last) = self.pending.back_mut() {
            last.all = Some(all);
        }
    }

    /// The seed that the baseline has to be called with next.
    pub fn due(&self) -> Option<u64> {
        self.pending.front().map(|p| p.seed)
    }

    /// Compares, after the baseline's call with the seed that was due.
    pub fn settle(&mut self, results: Results) -> Result<(), Failure> {
        let Some(pending) = self.pending.pop_front() else {
            return Ok(());
        };
        for (array, index, value) in pending.places {
            let expected = results.element(array, index).unwrap_or(f64::NAN);
            self.compare(array, index, value, expected)?;
        }
        for (slack, found) in self.slack.iter().zip(pending.all.into_iter().flatten()) {
            let expected = results.all(slack.array);
            let wrong = found
                .iter()
                .zip(&expected)
                .position(|(x, y)| !near(*x, *y, slack.most));
            if let Some(at) = wrong {
                self.compare(slack.array, at, found[at], expected[at])?;
            }
        }
        Ok(())
    }

    /// Keeps of what is left only what shall still be settled: calls that were checked in full, and `some` others by lot.
    pub fn thin_out(&mut self, some: usize, rng: &mut ChaCha8Rng) {
        let (full, mut rest): (Vec<Pending>, Vec<Pending>) =
            self.pending.drain(..).partition(|p| p.all.is_some());
        while rest.len() > some {
            let at = rng.random_range(0..rest.len());
            rest.swap_remove(at);
        }
        self.pending.extend(full.into_iter().chain(rest));
    }

    fn compare(
        &self,
        array: usize,
        index: usize,
        found: f64,
        expected: f64,
    ) -> Result<(), Failure> {
        let slack = self.slack.iter().find(|s| s.array == array);
        if near(found, expected, slack.map_or(0.0, |s| s.most)) {
            return Ok(());
        }
        Err(skipped(format!(
            "after a timed call element {index} of array argument {} held {found:e}, where the baseline computes {expected:e} from the same inputs",
            array + 1
        )))
    }
}

/// NaN is near nothing.
fn near(x: f64, y: f64, most: f64) -> bool {
    x == y || (x - y).abs() <= most
}
