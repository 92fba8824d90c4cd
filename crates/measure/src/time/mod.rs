//! Timing: the speed of a verified program relative to a baseline on the same core in the same moments.
//!
//! Candidate and baseline run in processes of their own on the same cores and map the same buffers; the supervisor
//! holds the clock. Every timed call gets fresh inputs, which a third process makes while the called process sleeps.
//! Every timed call is probed, and some are checked in full; now and then there is an untimed call with hard inputs
//! between them. Only the ratio of the two sides, which take turns in short bursts, is trusted. The ratio to the plain
//! reference comes from a ratio of baseline and reference that is measured once, so that a slow reference need not be
//! called between all candidates.
//!
//! The caller guarantees that no other process runs on the cores meanwhile.

mod adversarial;
mod baseline_oracle;
mod certify;
mod check;
mod combine;
mod course;
mod decision;
mod numbers;
mod off_clock;
mod quarantine;
mod quiet;
mod raw;
mod recheck;
mod reference;
mod resolution;
mod roof;
mod session;
#[cfg(test)]
mod simulate;
mod spot_checks;
mod tolerance;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flopsmith_compile::toolchain::Toolchain;
use flopsmith_harness::memory::CAN_FLUSH;
use flopsmith_harness::{Plan, Waiting};
use flopsmith_machine::attest::{Attestation, Circumstances};
use flopsmith_machine::environment::{Surroundings, Watched};
use flopsmith_machine::peak::Peak;
use flopsmith_machine::pinning::{Cores, Pinned};
use flopsmith_problem::{Caches as Wanted, Problem};
use flopsmith_protocol::{Digest, Failure, InfrastructureCause, Measurement};
use flopsmith_sandbox::Sandbox;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::supervise::{
    Arena, Filler, Placement, Placing, Process, Product, Setup, Specification, plan, plan_to_fill,
    specify,
};
use crate::verify::{Object, compile_own};
use adversarial::{Hard, HardCalls};
use baseline_oracle::Results;
pub use certify::PADDINGS;
pub use decision::{Limits, Purpose};
use numbers::stopped;
use off_clock::OffClock;
pub use quarantine::{Change, Quarantine, State, Why};
use quiet::Glance;
use recheck::{Alone, held_against};
use reference::CHAIN;
pub use reference::Chain;
pub use resolution::Resolution;
use session::{Request, Session, Trial};
use spot_checks::SpotChecks;
use tolerance::{Tolerances, program_of_magnitudes};

/// Processor time that one candidate may use.
pub(crate) const CPU_LIMIT: Duration = Duration::from_secs(60);
/// If a program is this many times as fast as the best one known, it is measured again, and for longer, before the
/// result is believed.
const SURPRISING: f64 = 3.0;

/// A measured candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Timed {
    /// The numbers.
    pub measurement: Measurement,
    /// All raw samples of both sides as JSON, for the artifact store.
    pub raw: Vec<u8>,
}

/// Times candidates of one problem on certain cores.
pub struct Timer {
    sandbox: Arc<Sandbox>,
    harness: PathBuf,
    problem: Arc<Problem>,
    cores: Cores,
    threads: u32,
    waiting: Waiting,
    arena: Arena,
    placement: Placement,
    specification: Specification,
    product: Option<Product>,
    /// The program that computes the magnitudes of a scaled bound.
    magnitude: Option<Object>,
    tolerances: Tolerances,
    hard: Hard,
    /// True if one of the problem's own programs is in the candidate's place.
    measuring_own: bool,
    work_flops: f64,
    call_limit: Duration,
    reference_object: Vec<u8>,
    baseline_object: Vec<u8>,
    baseline: Option<Process>,
    filler: Option<Filler>,
    chain: Chain,
    /// The error of the hand-shake, measured with the first processes.
    resolution: Option<Resolution>,
    alone: Alone,
    cold_chain: Option<Chain>,
    /// Whether calls find their arrays in the caches, unless the caller decides otherwise.
    caches: Caches,
    peak: Peak,
    /// Best speed with integers when they were measured again, 10⁹ operations a second; 0 before that.
    integer_gops: f64,
    attestation: Attestation,
    attestation_digest: Digest,
    limits: [Limits; 3],
    watched: Watched,
    /// Disturbances around the present measurement.
    meanwhile: Surroundings,
    quarantine: Quarantine,
    /// The start of the quarantine's clock.
    began: Instant,
}

/// Whether calls find their arrays in the caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caches {
    /// Yes, as far as the arrays fit.
    Warm,
    /// No, in none.
    Cold,
}

impl Timer {
    /// Starts the baseline, measures this machine's peak and the reference, and collects the attestation.
    pub fn new(
        sandbox: Arc<Sandbox>,
        harness: PathBuf,
        problem: Arc<Problem>,
        toolchain: &Toolchain,
        cores: Cores,
        threads: u32,
    ) -> Result<Self, Failure> {
        if cores.kernel.len() < threads as usize {
            return Err(Failure::infrastructure(
                InfrastructureCause::Resources,
                format!(
                    "{threads} threads cannot be timed on {} cores",
                    cores.kernel.len()
                ),
            ));
        }
        let caches = match problem.caches {
            Wanted::Warm | Wanted::Both => Caches::Warm,
            Wanted::Cold => Caches::Cold,
        };
        if caches == Caches::Cold && !CAN_FLUSH {
            return Err(Failure::infrastructure(
                InfrastructureCause::Resources,
                "this problem is timed with cold caches, and Flopsmith cannot empty the caches of this processor: write `caches = \"warm\"` in [timed]",
            ));
        }
        let alone = cores.supervisor.is_some_and(|s| !cores.kernel.contains(&s));
        let waiting = if alone { Waiting::Spin } else { Waiting::Sleep };
        let mut specification = specify(&problem, &problem.timed)?;
        let product = specification.product(&problem.bound)?;
        specification.grade(&problem, product.as_ref());
        let no_buffers = |e: &dyn std::fmt::Display| {
            Failure::infrastructure(
                InfrastructureCause::Resources,
                format!("cannot place the buffers in shared memory: {e}"),
            )
        };
        let arena = Arena::timed(&specification.arrays).map_err(|e| no_buffers(&e))?;
        let placement = arena
            .place(
                &specification.arrays,
                Placing::Fixed,
                &mut ChaCha8Rng::seed_from_u64(0),
            )
            .ok_or_else(|| no_buffers(&"the arrays do not fit"))?;
        let reference = compile_own(
            &sandbox,
            toolchain,
            &problem,
            &problem.reference_source,
            "reference.c",
        )?;
        let baseline_object = match &problem.baseline_source {
            Some(source) => compile_own(&sandbox, toolchain, &problem, source, "baseline.c")?,
            None => reference.clone(),
        };
        let magnitude = program_of_magnitudes(&sandbox, toolchain, &problem)?;
        let (peak, roofs) = roof::measure(&cores.kernel, threads);
        let attestation = Attestation::collect(&Circumstances {
            supervisor_core: cores.supervisor.filter(|_| alone),
            kernel_cores: &cores.kernel,
            threads,
            buffers_in_huge_pages: arena.mapping().huge(),
            compiler: &toolchain.version,
            flags: &toolchain.flags,
            linker: &toolchain.linker,
            other_compilers: &toolchain.others(),
            hand_shake: if alone { "spin" } else { "sleep" },
            peak,
            roofs: &roofs,
        });
        let watched = Watched::of(&cores, threads, &attestation.smt_siblings);
        let work_flops = problem.work_flops(&problem.timed);
        let mut timer = Self {
            sandbox,
            harness,
            cores,
            threads,
            waiting,
            arena,
            placement,
            specification,
            product,
            magnitude,
            tolerances: Tolerances::default(),
            hard: Hard::default(),
            measuring_own: false,
            work_flops,
            call_limit: Duration::from_secs(60),
            baseline: None,
            filler: None,
            chain: Chain {
                log_ratio: 0.0,
                log_se: 0.0,
                reference_seconds: 0.0,
                baseline_seconds: 0.0,
            },
            resolution: None,
            alone: Alone::new(0.0),
            cold_chain: None,
            caches,
            peak,
            integer_gops: 0.0,
            attestation_digest: attestation.digest(),
            attestation,
            limits: [Purpose::Screen, Purpose::Rank, Purpose::Certify].map(Purpose::limits),
            reference_object: reference,
            baseline_object,
            problem,
            watched,
            meanwhile: Surroundings::default(),
            quarantine: Quarantine::default(),
            began: Instant::now(),
        };
        timer.learn_tolerances()?;
        timer.measure_chain(&CHAIN)?;
        Ok(timer)
    }

    fn results(&self) -> Results<'_> {
        Results {
            arena: &self.arena,
            placement: &self.placement,
            specification: &self.specification,
        }
    }

    /// The attestation of this machine.
    pub fn attestation(&self) -> &Attestation {
        &self.attestation
    }

    /// The error of clock and hand-shake.
    pub fn resolution(&self) -> Resolution {
        self.resolution.unwrap_or_default()
    }

    /// The plain reference compared with the baseline, as measured last.
    pub fn chain(&self) -> Chain {
        self.chain
    }

    /// Takes the ratio of plain reference and baseline from an earlier timer on this machine. The speed of the
    /// reference depends on where its pages happen to lie; ratios that are compared with older ones must rest on one
    /// measurement of the reference.
    pub fn go_on_with(&mut self, chain: Chain) {
        self.chain.log_ratio = chain.log_ratio;
        self.chain.log_se = chain.log_se;
        self.chain.reference_seconds = self.chain.baseline_seconds * chain.log_ratio.exp();
    }

    /// Sets other limits for a purpose.
    pub fn set_limits(&mut self, purpose: Purpose, limits: Limits) {
        self.limits[purpose as usize] = limits;
    }

    /// Measures a verified candidate. With `best_gflops_known` a screening ends early for a program that is clearly
    /// slower, and is repeated at length for a program that is faster than could be expected.
    pub fn measure(
        &mut self,
        object: &[u8],
        purpose: Purpose,
        seed: u64,
        best_gflops_known: Option<f64>,
    ) -> Result<Timed, Failure> {
        let best_log_ratio = best_gflops_known
            .filter(|best| purpose == Purpose::Screen && *best > 0.0)
            .map(|best| (best / self.baseline_gflops()).ln());
        let limits = self.limits[purpose as usize];
        self.renew_tolerances()?;
        self.renew_hard()?;
        self.meanwhile = Surroundings::default();
        let candidate = self.start_candidate(object)?;
        let mut trial = self.try_out(candidate, &limits, best_log_ratio, seed, self.caches)?;
        let mut alone = self.slowed(&trial.estimate)?;
        if alone.is_some() {
            // The first result may be chance.
            let candidate = self.start_candidate(object)?;
            let seed = seed.wrapping_add(1);
            trial = self.try_out(candidate, &limits, best_log_ratio, seed, self.caches)?;
            alone = alone.filter(|_| self.is_slow(&trial.estimate));
        }
        let estimate = match &alone {
            Some(alone) => held_against(&trial.estimate, alone),
            None => trial.estimate,
        };
        self.chain.saw(estimate.baseline);
        let estimate = self.believed(&estimate)?;
        trial.stop = stopped(trial.stop, &limits, estimate.log_se);
        let measurement = self.measurement(&trial, &estimate);
        let surprising =
            best_gflops_known.is_some_and(|best| measurement.gflops > SURPRISING * best);
        if surprising && purpose == Purpose::Screen {
            return self.measure(object, Purpose::Rank, seed.wrapping_add(1), None);
        }
        let floor = trial.estimate.baseline;
        let raw = self.raw(purpose, seed, &trial, alone.as_ref(), floor, None)?;
        self.note(estimate.baseline);
        Ok(Timed { measurement, raw })
    }

    fn start_candidate(&self, object: &[u8]) -> Result<Process, Failure> {
        // The buffers may hold inputs of an earlier measurement, which may come again in this one.
        self.arena.restore(&self.placement);
        self.arena.sweep();
        self.start(object, &self.problem.entry.name, Some(CPU_LIMIT))
    }

    /// The plan of a process that fills the inputs.
    fn plan_to_fill(&self) -> Plan {
        plan_to_fill(&self.specification, &self.placement)
    }

    fn start(
        &self,
        object: &[u8],
        entry: &str,
        cpu_limit: Option<Duration>,
    ) -> Result<Process, Failure> {
        let setup = Setup {
            sandbox: &self.sandbox,
            harness: &self.harness,
            entry,
            arena: &self.arena,
            threads: self.threads,
            // At most as many cores as threads: otherwise a process could work on a further core while another process
            // has the cores of the timed calls.
            cores: Some(&self.cores.kernel[..self.threads.max(1) as usize]),
            waiting: self.waiting,
            cpu_limit,
        };
        let mut process = Process::start(&setup, object)?;
        process.plan(&plan(&self.specification, &self.placement))?;
        process.park()?;
        Ok(process)
    }

    /// The name of the baseline's source file.
    fn baseline_name(&self) -> &'static str {
        match self.problem.baseline_source {
            Some(_) => "baseline.c",
            None => "reference.c",
        }
    }

    /// Measures a program against the baseline.
    fn try_out(
        &mut self,
        mut candidate: Process,
        limits: &Limits,
        best_log_ratio: Option<f64>,
        seed: u64,
        caches: Caches,
    ) -> Result<Trial, Failure> {
        let (baseline, filler) = (self.baseline.take(), self.filler.take());
        let trusted = || {
            self.start(&self.baseline_object, &self.problem.entry.name, None)
                .map_err(own_fault(self.baseline_name()))
        };
        let (mut baseline, mut filler) = match (baseline, filler) {
            (Some(baseline), Some(filler)) => (baseline, filler),
            _ => (
                trusted()?,
                Filler::new(trusted()?, self.waiting, &self.plan_to_fill())?,
            ),
        };
        // The previous candidate is gone; bytes that it may have written after its end must not be blamed on this one.
        self.arena.repair(&self.placement);
        let supervisor = self
            .cores
            .supervisor
            .filter(|_| self.waiting == Waiting::Spin);
        let _pinned = Pinned::to(supervisor).map_err(|e| {
            Failure::infrastructure(
                InfrastructureCause::Resources,
                format!("cannot pin the supervisor to its core: {e}"),
            )
        })?;
        let resolution = match self.resolution {
            // Making the inputs of long calls would take long, and their times hold no more than a trace of the error.
            Some(known) if self.chain.baseline_seconds > resolution::SHORT => known,
            Some(known) => {
                let renewed = known.renewed(&mut baseline, &mut filler).map_err(hand_shake)?;
                *self.resolution.insert(renewed)
            }
            // The first program that is measured is the plain reference.
            None => {
                let more: Result<Vec<Process>, Failure> =
                    (0..resolution::MORE).map(|_| trusted()).collect();
                let mut more = more?;
                let all = [&mut candidate, &mut baseline].into_iter().chain(&mut more);
                let measured = Resolution::measure(all, &mut filler).map_err(hand_shake)?;
                for process in more {
                    process.exit().map_err(hand_shake)?;
                }
                *self.resolution.insert(measured)
            }
        };
        // Code in the jail cannot know the seeds: they also depend on a secret random number of this process.
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ rand::rng().random::<u64>());
        let mut session = Session {
            check: check::Check::new(self.results(), self.product, &self.tolerances),
            candidate,
            baseline,
            filler,
            off_clock: OffClock::new(resolution.least()),
            resolution,
            call_limit: self.call_limit,
            threads: self.threads,
            cold: caches == Caches::Cold,
            trusted: self.measuring_own,
            hard: match self.measuring_own {
                true => HardCalls::none(),
                false => self.hard.calls(&mut rng),
            },
            spot_checks: SpotChecks::new(self.tolerances.seeds(), limits.max, &mut rng),
            rng,
        };
        let before = Glance::take(&mut session, self.waiting);
        let result = session.run(&Request {
            limits: *limits,
            best_log_ratio,
        });
        // After a failure the reading says nothing about the machine, and the process may be gone.
        let seen = match (&result, before) {
            (Ok(_), Some(before)) => Glance::take(&mut session, self.waiting)
                .map(|after| before.until(&after, &self.watched)),
            _ => None,
        };
        let Session {
            candidate,
            mut baseline,
            mut filler,
            ..
        } = session;
        // A candidate may have failed at any moment. A process of ours that is awake would spin on the kernel's core
        // until the next measurement.
        let at_rest = baseline.park().is_ok() && filler.park().is_ok();
        // Processes of ours that failed are started anew for the next candidate.
        let failed = matches!(
            &result,
            Err(Failure::Infrastructure {
                cause: InfrastructureCause::Baseline,
                ..
            })
        );
        if at_rest && !failed {
            self.baseline = Some(baseline);
            self.filler = Some(filler);
        }
        self.meanwhile += seen.unwrap_or_default();
        let mut trial = result?;
        candidate.exit()?;
        trial.hold(&resolution, limits);
        Ok(trial)
    }
}

/// An infrastructure failure: no candidate takes part while hand-shakes are measured.
fn hand_shake(failure: Failure) -> Failure {
    Failure::infrastructure(
        InfrastructureCause::Baseline,
        format!("cannot measure the hand-shake: {failure}"),
    )
}

/// A fault of the problem's own programs is no candidate's fault. `program` is the name of the program.
fn own_fault(program: &str) -> impl Fn(Failure) -> Failure + '_ {
    move |failure| match failure {
        Failure::Candidate { fault, detail } => Failure::infrastructure(
            InfrastructureCause::Baseline,
            format!("the problem's own {program} failed ({fault}): {detail}"),
        ),
        other => other,
    }
}
