//! Profiles of candidates, apart from verification and timing.

use std::time::Duration;

use serde_json::json;

use super::{Evaluator, unprepared};
use crate::error::Error;
use crate::outcome::Failure;
use crate::package::Package;
use crate::verify::{self, Bench};
use crate::worker::{SLOW, Setup, Stop, Worker};

/// Longest time of both calls of a profile.
const PROFILED: Duration = Duration::from_secs(120);

/// The answer about CUDA C++.
const NOTHING_RUNS: &str = "There is no profile: CUDA C++ is compiled here and runs on a GPU only, and no program of this machine gets one.";

impl Evaluator {
    /// The operators in which a call of a compiled candidate spends its time at the first workload, as a text of at most 8 KiB
    /// and a few bytes for readers. One in CUDA C++ has a sentence instead.
    ///
    /// The candidate's own process reports the times. They are shown and never believed: no verdict and no reward comes from
    /// them. The call has a jail of its own, so nothing of it stays in a process that verifies or times.
    ///
    /// # Errors
    /// Only for failures that the candidate cannot cause. `Ok(Err(_))` is the candidate's own failure.
    pub fn profile(&mut self, package: &Package) -> Result<Result<String, Failure>, Error> {
        if package.in_cuda {
            return Ok(Ok(NOTHING_RUNS.to_owned()));
        }
        if package.triton.is_some() {
            self.environment.needs_triton()?;
        }
        let first = self.problem.workloads.get(..1).unwrap_or_default();
        let mut benches = self.open_benches(first)?;
        let bench = benches.first_mut().ok_or_else(unprepared)?;
        match self.profile_at(bench, package) {
            Ok(text) => Ok(Ok(text)),
            Err(Stop::Candidate(failure)) => Ok(Err(failure)),
            Err(Stop::Ours(error)) => Err(error),
        }
    }

    fn profile_at(&mut self, bench: &mut Bench, package: &Package) -> Result<String, Stop> {
        let triton = package.triton.as_ref();
        let source = triton.map_or(&package.source, |triton| &triton.source);
        let mut load = self.write_candidate(source, &package.extensions)?;
        load["triton"] = json!(triton.is_some());
        load["profile"] = json!(true);
        let setup = Setup {
            environment: &self.environment,
            scripts: self.path("jail"),
            candidate: self.path("candidate"),
            cores: self.options.cores.clone(),
            bytes: bench.loaded.layout.expected_at,
        };
        let mut worker = Worker::start(&self.sandbox, &setup)?;
        worker.fork_to_profile(triton.is_some())?;
        worker.ask(&load, SLOW)?;
        let state = bench.fresh(&mut self.rng, "plain", true)?;
        verify::build(&mut worker, bench, &state)?;
        let profile = worker.profile(PROFILED)?;
        Ok(profile.in_words(&bench.workload.name, triton.is_some()))
    }
}
