//! Verifying and timing: the trusted processes, the candidate's process, and the calls of both.

mod profiling;
mod stages;

pub use stages::Effort;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use flopsmith_measure::time::{Limits, MemoryRoof};
use flopsmith_protocol::CandidateFault;
use flopsmith_sandbox::Sandbox;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::admission::{self, Finding};
use crate::baseline::Baseline;
use crate::check::{self, Triton};
use crate::compile::Built;
use crate::environment::{Environment, cpuinfo};
use crate::error::Error;
use crate::gpu::Architecture;
use crate::outcome::{NOT_TIMED, Outcome, Verdict};
use crate::package::Package;
use crate::problem::{Problem, Workload};
use crate::reference::{self, Reference};
use crate::time;
use crate::triton;
use crate::verify::{self, Bench, Lot, Patience};
use crate::worker::{self, CANDIDATE_AT, SLOW, Setup, Stop, Worker};

/// Options of a builder and an evaluator.
#[derive(Debug, Clone)]
pub struct Options {
    /// The cores on which all sides are called; the caller keeps them free.
    pub cores: Vec<usize>,
    /// The architectures for which kernels of Triton and of CUDA C++ are compiled.
    pub architectures: Vec<Architecture>,
    /// Longest time of Triton's interpreter for one candidate, such as [`INTERPRETATION`](crate::INTERPRETATION).
    pub interpretation: Duration,
    /// Run candidates even where the jail gives less than full protection.
    pub allow_weaker_jail: bool,
    /// Says what happens now; long steps take a minute.
    pub progress: fn(&str),
}

/// Verifies and times candidates of one problem.
pub struct Evaluator {
    problem: Problem,
    options: Options,
    environment: Environment,
    benches: Vec<Bench>,
    worker: Option<Worker>,
    /// Measured before anything is timed.
    roof: Option<MemoryRoof>,
    /// The scripts of the worker (`jail`), of the check (`check`) and of trusted processes (`trusted`), and the
    /// candidate's files (`candidate`).
    files: TempDir,
    rng: ChaCha8Rng,
    // Dropped last: it removes the folder of the jails.
    sandbox: Sandbox,
}

impl Evaluator {
    /// An evaluator; PyTorch is not used yet.
    ///
    /// # Errors
    /// [`Error::Python`] without an interpreter that has PyTorch, [`Error::Jail`] without a jail.
    pub fn new(problem: Problem, options: Options) -> Result<Self, Error> {
        let environment = Environment::find()?;
        let sandbox = Sandbox::new(flopsmith_sandbox::Options {
            allow_weaker: options.allow_weaker_jail,
            ..Default::default()
        })?;
        let failed = Error::system("write the scripts of a module's workers");
        let files = tempfile::Builder::new()
            .prefix("module-")
            .tempdir_in(sandbox.scratch())
            .map_err(&failed)?;
        for folder in ["jail", "trusted", "check", "candidate"] {
            fs::create_dir(files.path().join(folder)).map_err(&failed)?;
        }
        let cpuinfo = cpuinfo();
        for (name, text) in [
            ("jail/worker.py", worker::SCRIPT),
            ("jail/worker_triton.py", worker::TRITON_SCRIPT),
            ("jail/worker_profile.py", worker::PROFILE_SCRIPT),
            ("jail/cpuinfo", cpuinfo.as_str()),
            ("trusted/reference.py", reference::SCRIPT),
        ] {
            fs::write(files.path().join(name), text).map_err(&failed)?;
        }
        for (name, text) in check::SCRIPTS {
            fs::write(files.path().join("jail").join(name), text).map_err(&failed)?;
        }
        check::write_scripts(&files.path().join("check"), &problem.reference())?;
        let mut rng = ChaCha8Rng::seed_from_u64(rand::rng().random());
        let noise: Vec<u8> = (0..4096).map(|_| rng.random()).collect();
        fs::write(files.path().join("jail/urandom"), noise).map_err(&failed)?;
        Ok(Evaluator {
            problem,
            options,
            environment,
            benches: Vec::new(),
            worker: None,
            roof: None,
            files,
            rng,
            sandbox,
        })
    }

    /// Writes the end of a candidate's evaluation into its outcome, and gives up a worker that is not in order.
    ///
    /// # Errors
    /// The failure that no candidate can cause: also if it was refused, and a package is gone that it may have needed.
    fn settle(&mut self, end: Result<Verdict, Stop>, outcome: &mut Outcome) -> Result<(), Error> {
        let is_refused = matches!(end, Ok(Verdict::Refused(_)) | Err(Stop::Candidate(_)));
        if is_refused && let Err(gone) = self.environment.still_there() {
            self.worker = None;
            return Err(gone);
        }
        match end {
            Ok(verdict) => outcome.verdict = verdict,
            Err(Stop::Candidate(failure)) => {
                // A process that does not end in order is ended with its jail.
                let hangs = failure.fault == CandidateFault::Timeout;
                if hangs || self.worker.as_mut().is_none_or(|w| w.end().is_err()) {
                    self.worker = None;
                }
                outcome.verdict = Verdict::Refused(failure);
            }
            Err(Stop::Ours(error)) => {
                self.worker = None;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Checks that the problem can be learned from: its inputs and parameters matter, its results are spread and not
    /// random, and a call lasts neither too short nor too long.
    ///
    /// # Errors
    /// If the reference's process fails, or the reference does not keep its contract.
    pub fn admit(&mut self) -> Result<Vec<Finding>, Error> {
        self.prepare_benches()?;
        let mut findings = Vec::new();
        for bench in &mut self.benches {
            findings.extend(admission::admit(&self.problem, bench, &mut self.rng)?);
        }
        Ok(findings)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// Starts the eager processes of all workloads.
    fn prepare_benches(&mut self) -> Result<(), Error> {
        if !self.benches.is_empty() {
            return Ok(());
        }
        if let Some(note) = self.problem.left_out() {
            (self.options.progress)(&note);
        }
        self.benches = self.open_benches(&self.problem.workloads)?;
        Ok(())
    }

    /// The eager processes of these workloads.
    fn open_benches(&self, workloads: &[Workload]) -> Result<Vec<Bench>, Error> {
        (self.options.progress)("starting the reference");
        let started = self.references(workloads)?;
        let mut benches = Vec::new();
        for (workload, mut eager) in workloads.iter().zip(started) {
            eager.wait()?;
            let loaded = eager.load(&self.problem, workload)?;
            benches.push(Bench {
                workload: workload.clone(),
                loaded,
                eager,
                compiled: Vec::new(),
            });
        }
        Ok(benches)
    }

    /// A trusted process for each of these workloads. All import PyTorch at the same time.
    fn references(&self, workloads: &[Workload]) -> Result<Vec<Reference>, Error> {
        let script = self.path("trusted/reference.py");
        let cores = &self.options.cores;
        let start = |_: &Workload| Reference::start(&self.environment, &script, cores);
        workloads.iter().map(start).collect()
    }

    /// Compiles the reference by TorchInductor for all workloads, once for each baseline that needs it, which only a
    /// candidate that is timed does.
    fn prepare_compiled(&mut self) -> Result<(), Error> {
        let baselines: Vec<Baseline> = self.problem.timed_baselines().collect();
        for baseline in baselines {
            let Some(mode) = baseline.mode() else {
                continue;
            };
            let ready = |bench: &Bench| bench.compiled.iter().any(|(of, _)| *of == baseline);
            if self.benches.iter().all(ready) {
                continue;
            }
            let started = self.references(&self.problem.workloads)?;
            for (mut compiled, bench) in started.into_iter().zip(&mut self.benches) {
                (self.options.progress)(&format!(
                    "compiling the reference by TorchInductor for {}",
                    bench.workload.name
                ));
                let state = bench.fresh(&mut self.rng, "plain", true)?;
                compiled.wait()?;
                compiled.load(&self.problem, &bench.workload)?;
                compiled.arena.write(0, &state)?;
                compiled.set_parameters()?;
                compiled.compile(mode)?;
                // One of an attempt that failed at a later workload.
                bench.compiled.retain(|(of, _)| *of != baseline);
                bench.compiled.push((baseline, compiled));
            }
        }
        Ok(())
    }

    /// Makes sure that a worker runs whose memory fits every workload.
    fn prepare_worker(&mut self) -> Result<(), Error> {
        if self.worker.is_some() {
            return Ok(());
        }
        let layouts = self.benches.iter().map(|b| b.loaded.layout.expected_at);
        let setup = Setup {
            environment: &self.environment,
            scripts: self.path("jail"),
            candidate: self.path("candidate"),
            cores: self.options.cores.clone(),
            bytes: layouts.max().unwrap_or(0),
        };
        self.worker = Some(Worker::start(&self.sandbox, &setup)?);
        Ok(())
    }

    /// Forks a process for a candidate. If an earlier candidate left the worker in disorder, a fresh worker does it.
    fn fork_worker(&mut self, triton: bool) -> Result<(), Error> {
        let gradients = self.problem.gradients.any();
        self.prepare_worker()?;
        let forked = |worker: &mut Worker| worker.fork(triton, gradients).is_ok();
        if self.worker.as_mut().is_some_and(forked) {
            return Ok(());
        }
        self.worker = None;
        self.prepare_worker()?;
        let worker = self.worker.as_mut().ok_or_else(unprepared)?;
        worker.fork(triton, gradients)
    }

    /// Writes the candidate's files, and returns the order that loads them.
    fn write_candidate(&self, source: &str, built: &[Built]) -> Result<Value, Error> {
        let failed = Error::system("write the candidate's files");
        let folder = self.path("candidate");
        for entry in fs::read_dir(&folder).map_err(&failed)? {
            fs::remove_file(entry.map_err(&failed)?.path()).map_err(&failed)?;
        }
        fs::write(folder.join("solution.py"), source).map_err(&failed)?;
        let mut extensions = Vec::new();
        for extension in built {
            let name = format!("{}.so", extension.name);
            fs::write(folder.join(&name), &extension.object).map_err(&failed)?;
            extensions.push(json!({
                "name": extension.name,
                "path": format!("{CANDIDATE_AT}/{name}"),
                "functions": extension.functions,
            }));
        }
        Ok(json!({
            "do": "load",
            "source": format!("{CANDIDATE_AT}/solution.py"),
            "extensions": extensions,
            "triton": false,
            "knock_out": false,
        }))
    }

    /// Loads a candidate whose extensions or launches do nothing, and refuses it if its results are right.
    fn knock_out(&mut self, load: &Value, triton: bool, patience: Patience) -> Result<(), Stop> {
        let mut knocked_out = load.clone();
        knocked_out["knock_out"] = json!(true);
        self.fork_worker(triton)?;
        let worker = self.worker.as_mut().ok_or_else(unprepared)?;
        worker.ask(&knocked_out, SLOW)?;
        if let Some(bench) = self.benches.first_mut() {
            verify::knock_out(worker, &self.problem, bench, patience, &mut self.rng)?;
        }
        // A module without its extensions may have died.
        if worker.end().is_err() {
            self.worker = None;
        }
        Ok(())
    }

    /// Verifies a candidate that was loaded at every workload, by at least this many calls at each. With `one_form`, each
    /// workload gets one of the forms of inputs besides dense ones, which is drawn; else it gets all. Returns the largest
    /// error.
    fn verify_all(
        &mut self,
        calls: usize,
        one_form: bool,
        patience: Patience,
    ) -> Result<f64, Stop> {
        let worker = self.worker.as_mut().ok_or_else(unprepared)?;
        let (problem, rng) = (&self.problem, &mut self.rng);
        let calls = calls.max(problem.distributions.len());
        let mut worst: f64 = 0.0;
        for bench in &mut self.benches {
            let state = bench.fresh(rng, "plain", true)?;
            verify::build(worker, bench, &state)?;
            let kinds = || problem.distributions.iter().cycle().take(calls);
            for kind in kinds() {
                let lot = Lot::dense(kind);
                let error = verify::verified_call(worker, problem, bench, lot, patience, rng)?;
                worst = worst.max(error);
            }
            // After the calls without gradients, so that the configurations of a kernel take turns in both.
            for kind in kinds().filter(|_| problem.gradients.any()) {
                let lot = Lot::dense(kind);
                let error = verify::verified_gradients(worker, problem, bench, lot, patience, rng)?;
                worst = worst.max(error);
            }
            let mut forms = bench.loaded.layout.forms.clone();
            if one_form && !forms.is_empty() {
                forms = vec![forms.swap_remove(rng.random_range(0..forms.len()))];
            }
            for form in &forms {
                let error = verify::verified_form(worker, problem, bench, form, patience, rng)?;
                worst = worst.max(error);
            }
        }
        Ok(worst)
    }

    /// Verifies a program by Triton's interpreter, and compiles its kernels as verification launched them.
    fn run_triton(&mut self, triton: &Triton, outcome: &mut Outcome) -> Result<Verdict, Stop> {
        (self.options.progress)("verifying by Triton's interpreter");
        let mut load = self.write_candidate(&triton.source, &[])?;
        load["triton"] = json!(true);
        let patience = Patience::interpreted(self.options.interpretation);
        self.knock_out(&load, true, patience)?;
        self.fork_worker(true)?;
        let worker = self.worker.as_mut().ok_or_else(unprepared)?;
        worker.ask(&load, SLOW)?;
        // The configurations of a kernel take turns from call to call, first forwards and then backwards.
        let configurations = triton.kernels.iter().map(|k| k.configurations);
        let calls = 2 * configurations.max().unwrap_or(1);
        let error = self.verify_all(calls, true, patience)?;
        outcome.largest_error = Some(error);
        let worker = self.worker.as_mut().ok_or_else(unprepared)?;
        let launches = worker.launches()?;
        worker.end()?;
        let began = Instant::now();
        let compiled = triton::compile(
            &self.sandbox,
            &self.environment,
            &self.path("check"),
            triton,
            &launches,
            &self.options.architectures,
        )?;
        outcome.compile_seconds = began.elapsed().as_secs_f64();
        Ok(match compiled {
            Ok(kernels) => Verdict::Verified {
                detail: NOT_TIMED,
                kernels,
            },
            // Its process has ended.
            Err(failure) => Verdict::Refused(failure),
        })
    }

    /// Loads a compiled candidate and verifies it at every workload. Returns the largest error.
    fn load_verified(&mut self, package: &Package) -> Result<f64, Stop> {
        let load = self.write_candidate(&package.source, &package.extensions)?;
        let patience = Patience::compiled();
        if !package.extensions.is_empty() {
            self.knock_out(&load, false, patience)?;
        }
        self.fork_worker(false)?;
        let worker = self.worker.as_mut().ok_or_else(unprepared)?;
        worker.ask(&load, SLOW)?;
        self.verify_all(1, false, patience)
    }

    fn run(
        &mut self,
        package: &Package,
        limits: Limits,
        largest_error: &mut Option<f64>,
    ) -> Result<Verdict, Stop> {
        // Every workload is verified before anything is timed.
        let mut worst = self.load_verified(package)?;
        *largest_error = Some(worst);
        let worker = self.worker.as_mut().ok_or_else(unprepared)?;
        let (problem, rng) = (&self.problem, &mut self.rng);
        let cores = &self.options.cores;
        let roof = self.roof.get_or_insert_with(|| MemoryRoof::measure(cores));
        let mut timed = Vec::new();
        for bench in &mut self.benches {
            let state = bench.fresh(rng, "plain", true)?;
            verify::build(worker, bench, &state)?;
            for (_, compiled) in &mut bench.compiled {
                compiled.arena.write(0, &state)?;
                compiled.set_parameters()?;
            }
            let speeds = time::time(worker, problem, bench, limits, rng)?;
            // The module that was timed is verified again, on inputs of a kind that no one could foresee.
            // The timing had its own limits, so its time does not count here.
            let patience = Patience::compiled();
            let kinds = &problem.distributions;
            let drawn = kinds[rng.random_range(0..kinds.len())].as_str();
            for kind in ["plain", drawn] {
                let lot = Lot::dense(kind);
                let error = verify::verified_call(worker, problem, bench, lot, patience, rng)?;
                worst = worst.max(error);
            }
            if problem.gradients.any() {
                let lot = Lot::dense(drawn);
                let error = verify::verified_gradients(worker, problem, bench, lot, patience, rng)?;
                worst = worst.max(error);
            }
            *largest_error = Some(worst);
            // A wrong result would have been the candidate's fault.
            time::plausible(roof, &bench.loaded.layout, &speeds)?;
            timed.push(speeds);
        }
        worker.end()?;
        Verdict::of(timed).ok_or_else(|| unprepared().into())
    }
}

/// A step was left out; only a mistake in this file can cause it.
fn unprepared() -> Error {
    Error::Process {
        process: "the evaluator",
        detail: "a part was not prepared".into(),
    }
}
