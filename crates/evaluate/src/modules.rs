//! Modules of PyTorch: the stages of `flopsmith-module` put together, and given the types of the pipeline.
//!
//! A module's ratio is that to the fastest baseline of each workload, which stands where kernels have the plain reference.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flopsmith_compile::Built;
use flopsmith_machine::attest::{Attestation, Circumstances};
use flopsmith_machine::environment::{self, Watched};
use flopsmith_machine::pinning::Pinned;
use flopsmith_measure::stats::{mdape, median};
use flopsmith_measure::{Chain, Chains, Limits, Report, Timed};
use flopsmith_module::{
    Architecture, Builder, Effort, Environment, Error as Broken, Finding, Options, Outcome,
    Package, Verdict,
};
use flopsmith_problem::Problem;
use flopsmith_protocol::{
    AtWorkload, Digest, Failure, InfrastructureCause, Interval, Measurement, TechniqueSet,
    UnknownCause, geometric,
};
use serde_json::json;
use tempfile::TempDir;

use crate::prepared::Evaluated;
use crate::{Error, calibration, cores_for, cores_to_watch, tools};

/// Longest time of Triton's interpreter for one candidate. A role may hold a job for 15 minutes, in which others wait for
/// the judge.
const INTERPRETED: Duration = Duration::from_secs(240);
/// Modules compute in single precision, at twice the operations of double precision.
const SINGLE: f64 = 2.0;
/// How long the machine is observed before a batch is timed.
const LOOK: Duration = Duration::from_millis(100);

/// The stages for a module on the cores of its options, and the one place that puts them together.
#[derive(Clone)]
pub struct ModuleStages {
    builder: Arc<Builder>,
    /// Verifies and times, one candidate at a time: both use the same trusted processes.
    judge: Arc<Mutex<flopsmith_module::Evaluator>>,
    /// The core of the thread that times; none if the thread stays where its caller has put it.
    supervisor: Option<usize>,
}

impl ModuleStages {
    /// Finds Python with PyTorch; neither PyTorch nor a compiler is used yet.
    ///
    /// # Errors
    /// [`flopsmith_module::Error::Python`] without PyTorch, [`flopsmith_module::Error::Jail`] without a jail.
    pub fn open(problem: flopsmith_module::Problem, options: Options) -> Result<Self, Broken> {
        let builder = Builder::new(&problem, &options)?;
        let judge = flopsmith_module::Evaluator::new(problem, options)?;
        Ok(Self {
            builder: Arc::new(builder),
            judge: Arc::new(Mutex::new(judge)),
            supervisor: None,
        })
    }

    /// The Python environment.
    pub fn environment(&self) -> &Environment {
        self.builder.environment()
    }

    /// Checks that the problem can be learned from, see [`flopsmith_module::Evaluator::admit`].
    ///
    /// # Errors
    /// If the reference's process fails, or the reference does not keep its contract.
    pub fn admit(&self) -> Result<Vec<Finding>, Broken> {
        self.judge().admit()
    }

    /// Evaluates one program: all stages in turn. Asks `go_on` about a program that was built, so that a caller can wait for
    /// a quiet machine there.
    ///
    /// # Errors
    /// Only for failures that the candidate cannot cause, and [`flopsmith_module::Error::Stopped`] if `go_on` said no.
    pub fn evaluate(
        &self,
        source: &str,
        permitted: TechniqueSet,
        limits: Limits,
        go_on: impl FnOnce(&Package) -> bool,
    ) -> Result<Outcome, Broken> {
        let package = match self.builder.build(source, permitted)? {
            Ok(package) => package,
            Err(refused) => return Ok(refused),
        };
        if !go_on(&package) {
            return Err(Broken::Stopped);
        }
        // Timing verifies before and after, so only a program that is not timed needs the other stage.
        match package.needs_gpu() {
            true => self.judge().verify(&package),
            false => self.time(&package, limits),
        }
    }

    /// The operators in which a call of one program spends its time, as the program's own process reports them; or the verdict
    /// on one that cannot be built or called. See [`flopsmith_module::Evaluator::profile`].
    ///
    /// # Errors
    /// Only for failures that the candidate cannot cause.
    pub fn profile(
        &self,
        source: &str,
        permitted: TechniqueSet,
    ) -> Result<Result<String, Verdict>, Broken> {
        let package = match self.builder.build(source, permitted)? {
            Ok(package) => package,
            Err(refused) => return Ok(Err(refused.verdict)),
        };
        let said = self.judge().profile(&package)?;
        Ok(said.map_err(Verdict::Refused))
    }

    fn time(&self, package: &Package, limits: Limits) -> Result<Outcome, Broken> {
        // A thread that cannot be moved times all the same, with less certainty.
        let _pinned = Pinned::to(self.supervisor).ok();
        self.judge().time(package, limits)
    }

    /// The verifier and timer, even after a panic in it: each candidate begins anew.
    fn judge(&self) -> MutexGuard<'_, flopsmith_module::Evaluator> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The stages of one machine for a module, with the types of the pipeline.
#[derive(Clone)]
pub struct ModuleEvaluator {
    /// The problem.
    pub problem: Arc<Problem>,
    fingerprint: Digest,
    threads: u32,
    stages: ModuleStages,
    /// The problem's files.
    _files: Arc<TempDir>,
}

/// The machine as modules are timed on it.
#[derive(Debug, Clone)]
pub struct ModuleMachine {
    /// Its attestation.
    pub attestation: Attestation,
    /// Its peak in single precision, 10⁹ operations a second.
    pub peak_gflops: f64,
    /// Speed of the fastest baseline, the geometric mean over the workloads.
    pub reference_gflops: f64,
    efforts: Vec<Effort>,
}

impl ModuleMachine {
    /// The fastest baseline of each workload as the reference that ratios refer to. A candidate is timed beside it, so it is
    /// its own baseline: each chain has the ratio 1, without an error. None without workloads.
    pub fn chains(&self) -> Option<Chains> {
        let each = self.efforts.iter().map(|effort| Chain {
            log_ratio: 0.0,
            log_se: 0.0,
            reference_seconds: effort.baseline_seconds,
            baseline_seconds: effort.baseline_seconds,
        });
        Chains::of_each(&each.collect::<Vec<Chain>>())
    }

    /// Speed of the fastest baseline at each of several workloads, 10⁹ operations a second; empty where there is one.
    pub fn reference_gflops_of_each(&self) -> Vec<f64> {
        match self.efforts.len() {
            0 | 1 => Vec::new(),
            _ => self.efforts.iter().map(gflops_of).collect(),
        }
    }
}

/// Speed of the fastest baseline of a workload, 10⁹ operations a second.
fn gflops_of(effort: &Effort) -> f64 {
    effort.operations / effort.baseline_seconds / 1e9
}

impl ModuleEvaluator {
    /// Finds Python with PyTorch, and checks the definition. Candidates are timed with `threads` threads; `progress` says
    /// what takes long.
    ///
    /// # Errors
    /// [`Error::Input`] if the problem is no module or its definition has mistakes; [`Error::Stage`] without PyTorch or
    /// a jail.
    pub fn open(
        problem: Arc<Problem>,
        threads: u32,
        allow_weaker_jail: bool,
        progress: fn(&str),
    ) -> Result<Self, Error> {
        let files = tempfile::tempdir().map_err(|e| unwritable(&e))?;
        for (name, text) in [
            ("problem.toml", &problem.definition),
            ("reference.py", &problem.reference_source),
        ] {
            std::fs::write(files.path().join(name), text).map_err(|e| unwritable(&e))?;
        }
        let of_problem = |broken: Broken| match broken {
            Broken::Problem { detail, .. } => {
                Error::Input(format!("the definition of {}: {detail}", problem.id))
            }
            broken => Error::Stage(ours(&broken)),
        };
        let mut module = flopsmith_module::Problem::load(files.path()).map_err(of_problem)?;
        let kept = |name: &str| problem.workloads.iter().any(|kept| kept.name == name);
        module.workloads.retain(|workload| kept(&workload.name));
        let cores = cores_for(threads);
        let options = Options {
            cores: cores.kernel,
            architectures: Architecture::DEFAULT.to_vec(),
            interpretation: INTERPRETED,
            allow_weaker_jail,
            progress,
        };
        let mut stages = ModuleStages::open(module, options).map_err(of_problem)?;
        stages.supervisor = cores.supervisor;
        let known = stages.environment().versions();
        Ok(Self {
            fingerprint: Digest::of(known.as_bytes()),
            problem: Arc::clone(&problem),
            threads,
            stages,
            _files: Arc::new(files),
        })
    }

    /// Digest of everything but the machine that outcomes depend on: Python, its packages and the compilers.
    pub fn fingerprint(&self) -> &Digest {
        &self.fingerprint
    }

    /// The versions of Python and PyTorch, for people.
    pub fn versions(&self) -> String {
        let python = self.stages.environment();
        format!("Python {}, PyTorch {}", python.python, python.torch)
    }

    /// The tools and GPUs that decide which programs can be timed here, as [`timing_tools`](crate::timing_tools) returns
    /// them.
    pub fn tools(&self) -> Digest {
        tools::with(&self.fingerprint)
    }

    /// Checks a candidate and compiles its extensions.
    ///
    /// # Errors
    /// The candidate's fault, also if it uses a technique that is not permitted, or an infrastructure failure.
    pub fn compile(&self, source: &str, permitted: TechniqueSet) -> Result<Built, Failure> {
        let began = Instant::now();
        let built = self.stages.builder.build(source, permitted);
        let built = built.map_err(|e| ours(&e))?;
        let package = built.map_err(|outcome| without_speed(outcome.verdict))?;
        Ok(Built {
            object: package.to_bytes().map_err(|e| ours(&e))?,
            techniques: package.techniques,
            vector_bits: None,
            diagnostics: String::new(),
            seconds: began.elapsed().as_secs_f64(),
        })
    }

    /// Verifies a compiled candidate.
    ///
    /// # Errors
    /// The candidate's fault; [`UnknownCause::NotTimed`] for a right one that only a GPU can time, and for one in CUDA C++,
    /// which only a GPU can verify; or an infrastructure failure.
    pub fn verify(&self, object: &[u8]) -> Result<Report, Failure> {
        let package = Package::from_bytes(object).map_err(|e| ours(&e))?;
        let began = Instant::now();
        let mut judge = self.stages.judge();
        let outcome = judge.verify(&package).map_err(|e| ours(&e))?;
        match outcome.verdict {
            Verdict::Verified { .. } if !package.needs_gpu() => Ok(Report {
                cases: u32::try_from(judge.calls()).unwrap_or(u32::MAX),
                sizes: None,
                worst_error_share: outcome.largest_error.unwrap_or(0.0),
                seconds: began.elapsed().as_secs_f64(),
            }),
            verdict => Err(without_speed(verdict)),
        }
    }

    /// The profile of a call, as [`ModuleStages::profile`] returns it. The program's own process reports it, so it is shown and
    /// never believed: nothing is decided by it. The caller has the cores, as for a measurement.
    ///
    /// # Errors
    /// The candidate's fault, or an infrastructure failure.
    pub fn profile(&self, source: &str) -> Result<String, Failure> {
        let said = self.stages.profile(source, self.problem.techniques);
        said.map_err(|e| ours(&e))?.map_err(without_speed)
    }

    /// Prepares the baselines, which takes some tens of seconds for each workload, and attests the machine.
    ///
    /// # Errors
    /// If a trusted process fails.
    pub fn attest(&self) -> Result<ModuleMachine, Failure> {
        self.attest_with_roofs(None)
    }

    /// The same with the peak and the roofs of `known`, if they are those of the module's cores and threads; others are
    /// measured.
    ///
    /// # Errors
    /// If a trusted process fails.
    pub fn attest_with_roofs(&self, known: Option<&Attestation>) -> Result<ModuleMachine, Failure> {
        let cores = cores_for(self.threads);
        let (peak, roofs) = calibration(known).roofs(&cores.kernel, self.threads);
        let efforts = self.stages.judge().efforts().map_err(|e| ours(&e))?;
        let compiler = self.versions();
        let attestation = Attestation::collect(&Circumstances {
            supervisor_core: cores.supervisor,
            kernel_cores: &cores.kernel,
            threads: self.threads,
            buffers_in_huge_pages: false,
            compiler: &compiler,
            flags: &[],
            linker: "",
            other_compilers: &[],
            hand_shake: "sleep",
            peak,
            roofs: &roofs,
        });
        let speeds = efforts.iter().map(gflops_of);
        Ok(ModuleMachine {
            attestation,
            peak_gflops: SINGLE * peak.gflops,
            reference_gflops: geometric(speeds).unwrap_or(f64::NAN),
            efforts,
        })
    }

    /// Times a verified candidate within these limits.
    ///
    /// # Errors
    /// The candidate's fault, which the verification around the timing finds, or an infrastructure failure.
    pub fn measure(
        &self,
        machine: &ModuleMachine,
        object: &[u8],
        limits: Limits,
    ) -> Result<Timed, Failure> {
        let package = Package::from_bytes(object).map_err(|e| ours(&e))?;
        let outcome = self.stages.time(&package, limits).map_err(|e| ours(&e))?;
        measured(machine, outcome.verdict)
    }

    /// Evaluates one program as [`ModuleStages::evaluate`] does.
    pub fn evaluate(
        &self,
        machine: &ModuleMachine,
        source: &str,
        permitted: TechniqueSet,
        limits: Limits,
    ) -> Evaluated {
        let mut techniques = None;
        let built = |package: &Package| {
            techniques = Some(package.techniques);
            true
        };
        let outcome = self.stages.evaluate(source, permitted, limits, built);
        let outcome = outcome.map_err(|e| ours(&e));
        let (verdict, raw) = match outcome.and_then(|o| measured(machine, o.verdict)) {
            Ok(Timed { measurement, raw }) => {
                (flopsmith_protocol::Verdict::Measured { measurement }, raw)
            }
            Err(failure) => (failure.into(), Vec::new()),
        };
        Evaluated {
            verdict,
            techniques,
            vector_bits: None,
            diagnostics: String::new(),
            checked: None,
            raw,
            busy: None,
        }
    }

    /// The cores whose disturbances matter.
    pub fn watched(&self) -> Watched {
        cores_to_watch(self.threads)
    }

    /// Observes the machine while nothing is timed. Returns the reason against timing on it now, if there is one.
    pub fn look(&self) -> Option<String> {
        let watched = self.watched();
        environment::complaint(&environment::look(&watched, LOOK), &watched)
    }
}

/// The measurement of a candidate with this verdict.
fn measured(machine: &ModuleMachine, verdict: Verdict) -> Result<Timed, Failure> {
    let timed = match &verdict {
        Verdict::Measured { workloads, .. } => timed(machine, workloads),
        _ => None,
    };
    timed.ok_or_else(|| without_speed(verdict))
}

/// The measurement of a module that was timed at these workloads. None if there are none, a workload has no speed, or its
/// work is not known.
fn timed(machine: &ModuleMachine, workloads: &[flopsmith_module::Timed]) -> Option<Timed> {
    let parts = workloads.iter().map(|timed| at_workload(machine, timed));
    let parts: Option<Vec<AtWorkload>> = parts.collect();
    let measurement = Measurement::over_workloads(parts?)?;
    let raw = workloads.iter().map(|timed| {
        let speeds = timed.speeds.iter().map(
            |speed| json!({"baseline": speed.baseline, "speed": speed, "samples": speed.samples}),
        );
        json!({"name": timed.workload, "speeds": speeds.collect::<Vec<_>>()})
    });
    let raw = json!({ "workloads": raw.collect::<Vec<_>>() });
    Some(Timed {
        measurement,
        raw: raw.to_string().into_bytes(),
    })
}

/// The measurement at one workload, against its fastest baseline.
fn at_workload(machine: &ModuleMachine, timed: &flopsmith_module::Timed) -> Option<AtWorkload> {
    let mut efforts = machine.efforts.iter();
    let effort = efforts.find(|effort| effort.workload == timed.workload)?;
    let speed = timed.against_best()?;
    let samples = &speed.samples;
    let bursts = samples.candidate.iter();
    let seconds: Vec<f64> = bursts.flat_map(|b| b.counted().iter().copied()).collect();
    let gflops = effort.operations / speed.candidate_seconds / 1e9;
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let measurement = Measurement {
        gflops,
        seconds_per_call: speed.candidate_seconds,
        minimum_seconds: seconds.iter().copied().reduce(f64::min),
        median_seconds: median(seconds.iter().copied()),
        ratio: speed.speedup,
        interval: Interval {
            low: speed.low,
            high: speed.high,
            confidence: 0.95,
        },
        log_ratio_se: speed.log_se,
        calls: count(seconds.len()),
        blocks: count(samples.candidate.len() + samples.baseline.len()),
        mdape: mdape(&seconds),
        stop: speed.stop,
        samples: None,
        attestation: machine.attestation.digest(),
        share_of_peak: gflops / machine.peak_gflops,
        reused: false,
        certificate: None,
        rounds: speed.rounds,
        outlying: samples.outlying,
        sizes: None,
        workloads: Vec::new(),
    };
    Some(AtWorkload {
        name: timed.workload.clone(),
        measurement,
        gb_per_second: None,
    })
}

/// A failure that no candidate can cause.
pub(crate) fn ours(error: &Broken) -> Failure {
    // This node would time no program in CUDA C++ either if it had nvcc, so the lack of it is no failure of the node.
    if matches!(error, Broken::Cuda { .. }) {
        return Failure::unknown(UnknownCause::NotTimed, error.to_string());
    }
    let cause = match error {
        Broken::Jail(_) => InfrastructureCause::Jail,
        Broken::Compiler { .. } => InfrastructureCause::Compiler,
        Broken::Implausible { .. } => InfrastructureCause::Implausible,
        Broken::Problem { .. } | Broken::Process { .. } => InfrastructureCause::Baseline,
        _ => InfrastructureCause::Harness,
    };
    Failure::ours(cause, error)
}

fn unwritable(error: &std::io::Error) -> Error {
    Error::Stage(Failure::ours(InfrastructureCause::Resources, error))
}

/// Why a candidate has no speed: its own failure with the rule that refused it, or what nobody knows of it.
fn without_speed(verdict: Verdict) -> Failure {
    match verdict {
        Verdict::Refused(failure) => {
            let detail = match failure.rule {
                Some(rule) => format!("{rule}: {}", failure.detail),
                None => failure.detail,
            };
            Failure::candidate(failure.fault, detail)
        }
        Verdict::Verified { detail, .. } | Verdict::Compiled { detail, .. } => {
            Failure::unknown(UnknownCause::NotTimed, detail)
        }
        Verdict::Measured { .. } => Failure::unknown(
            UnknownCause::NoSamples,
            "the measurement of a module has no speed",
        ),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_machine::peak::Peak;
    use flopsmith_machine::roofline::Roofs;
    use flopsmith_measure::stats::Burst;
    use flopsmith_module::{Samples, Speed};
    use flopsmith_protocol::{CandidateFault, StopReason};
    use proptest::prelude::*;

    use super::*;

    fn machine(workloads: &[&str]) -> ModuleMachine {
        let peak = Peak {
            gflops: 50.0,
            bandwidth_gb_s: 10.0,
            vector_bits: 256,
            threads: 1,
        };
        let attestation = Attestation::collect(&Circumstances {
            supervisor_core: None,
            kernel_cores: &[],
            threads: 1,
            buffers_in_huge_pages: false,
            compiler: "Python",
            flags: &[],
            linker: "",
            other_compilers: &[],
            hand_shake: "sleep",
            peak,
            roofs: &Roofs::default(),
        });
        let efforts = workloads.iter().map(|name| Effort {
            workload: (*name).into(),
            operations: 4e6,
            baseline_seconds: 2e-3,
        });
        ModuleMachine {
            attestation,
            peak_gflops: 100.0,
            reference_gflops: 2.0,
            efforts: efforts.collect(),
        }
    }

    /// A candidate that is this many times as fast as each baseline.
    fn at(workload: &str, eager: f64, inductor: f64) -> flopsmith_module::Timed {
        let speed = |baseline, speedup: f64| {
            let burst = |seconds: f64| Burst {
                seconds: vec![9.0 * seconds, seconds, 1.5 * seconds],
                warm_up: 1,
            };
            Speed {
                baseline,
                speedup,
                low: 0.9 * speedup,
                high: 1.1 * speedup,
                log_se: 0.05,
                candidate_seconds: 1e-3,
                baseline_seconds: 1e-3 * speedup,
                rounds: 2,
                stop: StopReason::Budget,
                samples: Samples {
                    candidate: vec![burst(1e-3), burst(1.2e-3)],
                    baseline: vec![burst(1e-3 * speedup); 2],
                    outlying: 1,
                },
            }
        };
        flopsmith_module::Timed {
            workload: workload.into(),
            speeds: vec![speed("eager", eager), speed("inductor", inductor)],
        }
    }

    #[test]
    fn a_measurement_has_the_ratio_to_the_fastest_baseline_and_its_raw_samples() {
        let machine = machine(&["one"]);
        let Timed { measurement, raw } = timed(&machine, &[at("one", 3.0, 1.5)]).unwrap();
        assert!((measurement.ratio - 1.5).abs() < 1e-12);
        assert!(
            (measurement.gflops - 4.0).abs() < 1e-9,
            "4e6 operations in 1 ms"
        );
        assert!((measurement.share_of_peak - 0.04).abs() < 1e-12);
        assert_eq!(
            measurement.calls, 4,
            "two of three calls of each burst count"
        );
        assert_eq!(measurement.minimum_seconds, Some(1e-3));
        assert_eq!((measurement.rounds, measurement.outlying), (2, 1));
        assert_eq!(measurement.blocks, 4);
        assert!(measurement.workloads.is_empty());
        assert_eq!(measurement.attestation, machine.attestation.digest());
        assert_eq!(measurement.log_ratio_se, 0.05);
        let raw: serde_json::Value = serde_json::from_slice(&raw).unwrap();
        let calls = raw.pointer("/workloads/0/speeds/1/samples/candidate/0/seconds");
        assert_eq!(calls.unwrap().as_array().unwrap().len(), 3);
    }

    #[test]
    fn the_fastest_baselines_are_the_reference_of_a_module() {
        let one = machine(&["one"]);
        let chain = one.chains().unwrap().whole();
        assert_eq!((chain.log_ratio, chain.log_se), (0.0, 0.0));
        assert_eq!(chain.reference_seconds, 2e-3);
        assert!(one.reference_gflops_of_each().is_empty());
        let mut two = machine(&["one", "two"]);
        two.efforts[1].baseline_seconds = 1e-3;
        assert_eq!(two.chains().unwrap().each().len(), 2);
        let speeds = two.reference_gflops_of_each();
        assert!((speeds[0] - 2.0).abs() < 1e-9 && (speeds[1] - 4.0).abs() < 1e-9);
        assert_eq!(machine(&[]).chains(), None);
        // A measurement that is told in it keeps its ratio, and has the speed of that ratio.
        let mut measurement = timed(&one, &[at("one", 3.0, 1.5)]).unwrap().measurement;
        measurement.tell_in(2.0, &[], 50.0);
        assert!(
            (measurement.gflops - 3.0).abs() < 1e-9,
            "{}",
            measurement.gflops
        );
        assert!((measurement.share_of_peak - 0.06).abs() < 1e-12);
    }

    #[test]
    fn a_workload_that_nobody_counted_gives_no_number() {
        assert!(timed(&machine(&["one"]), &[at("other", 1.0, 1.0)]).is_none());
        assert!(timed(&machine(&["one"]), &[]).is_none());
    }

    #[test]
    fn a_refusal_names_its_rule_and_a_broken_machine_is_never_the_candidates_fault() {
        let failure = without_speed(Verdict::Refused(flopsmith_module::Failure {
            fault: CandidateFault::ForbiddenInclude,
            rule: Some("import".into()),
            detail: "line 1: `import os` is not permitted".into(),
        }));
        assert_eq!(
            failure,
            Failure::candidate(
                CandidateFault::ForbiddenInclude,
                "import: line 1: `import os` is not permitted"
            )
        );
        let broken = Broken::Process {
            process: "the reference",
            detail: "it ended".into(),
        };
        let Failure::Infrastructure { cause, .. } = ours(&broken) else {
            unreachable!("no candidate ends the reference");
        };
        assert_eq!(cause, InfrastructureCause::Baseline);
        let too_fast = Broken::Implausible {
            detail: "no memory is so fast".into(),
        };
        let Failure::Infrastructure { cause, .. } = ours(&too_fast) else {
            unreachable!("nobody is as fast as that");
        };
        assert_eq!(cause, InfrastructureCause::Implausible);
        let without_nvcc = Broken::Cuda {
            detail: "no nvcc was found".into(),
        };
        let Failure::Unknown { cause, .. } = ours(&without_nvcc) else {
            unreachable!("this node would time no CUDA C++ with nvcc either");
        };
        assert_eq!(cause, UnknownCause::NotTimed);
    }

    proptest! {
        /// The ratio over several workloads is the geometric mean of those to the fastest baselines, and the worst stop
        /// counts.
        #[test]
        fn several_workloads_are_averaged(ratios in prop::collection::vec((0.1f64..10.0, 0.1f64..10.0), 2..5)) {
            let names: Vec<String> = (0..ratios.len()).map(|n| format!("w{n}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let all: Vec<_> = names.iter().zip(&ratios).map(|(name, (eager, inductor))| at(name, *eager, *inductor)).collect();
            let Timed { measurement, .. } = timed(&machine(&names), &all).unwrap();
            let logs = ratios.iter().map(|(eager, inductor)| eager.min(*inductor).ln());
            let mean = (logs.sum::<f64>() / ratios.len() as f64).exp();
            prop_assert!((measurement.ratio / mean - 1.0).abs() < 1e-9, "{} and {mean}", measurement.ratio);
            prop_assert_eq!(measurement.workloads.len(), ratios.len());
            prop_assert_eq!(measurement.stop, StopReason::Budget);
        }
    }
}
