//! Times candidates at one workload. [`Timer`](super::Timer) has one of these for each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flopsmith_harness::{Plan, Waiting};
use flopsmith_machine::environment::Surroundings;
use flopsmith_machine::pinning::Pinned;
use flopsmith_problem::Problem;
use flopsmith_protocol::{Failure, InfrastructureCause};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::adversarial::{AdversarialCalls, AdversarialCases};
use super::baseline_oracle::Results;
use super::check::Check;
use super::decision::{Limits, Purpose};
use super::equipment::{Equipment, PlacedArrays};
use super::idle::Glance;
use super::numbers::stopped;
use super::off_clock::OffClock;
use super::quarantine::Quarantine;
use super::recheck::{RecheckedBaseline, held_against};
use super::reference::{CHAIN, Chain};
use super::resolution::{self, Resolution};
use super::roof::Ceilings;
use super::session::{Request, Session, Trial};
use super::spot_checks::SpotChecks;
use super::tolerance::Tolerances;
use super::{CPU_LIMIT, Caches, Timed};
use crate::supervise::{
    Arena, Filler, Placement, Process, Product, Setup, Specification, plan, plan_to_fill,
};

/// Times candidates of one problem at one of its workloads, on certain cores.
pub(super) struct WorkloadTimer {
    pub(super) equipment: Arc<Equipment>,
    /// The problem, timed at this workload.
    pub(super) problem: Arc<Problem>,
    pub(super) arena: Arena,
    pub(super) placement: Placement,
    pub(super) specification: Specification,
    product: Option<Product>,
    pub(super) tolerances: Tolerances,
    pub(super) adversarial: AdversarialCases,
    /// True if one of the problem's own programs is in the candidate's place.
    pub(super) measuring_own: bool,
    pub(super) work_flops: f64,
    pub(super) call_limit: Duration,
    pub(super) baseline: Option<Process>,
    pub(super) filler: Option<Filler>,
    pub(super) chain: Chain,
    /// The error of the hand-shake, measured with the first processes.
    pub(super) resolution: Option<Resolution>,
    pub(super) rechecked: RecheckedBaseline,
    pub(super) cold_chain: Option<Chain>,
    /// Whether calls find their arrays in the caches, unless the caller decides otherwise.
    pub(super) caches: Caches,
    /// The machine's highest speeds, as this workload knows them.
    pub(super) ceilings: Ceilings,
    pub(super) limits: [Limits; 3],
    /// Divides the time of comparisons of plain reference and baseline, and of calls without caches.
    pub(super) divisor: u32,
    /// Disturbances around the present measurement.
    pub(super) meanwhile: Surroundings,
    pub(super) quarantine: Quarantine,
    /// The start of the quarantine's clock.
    pub(super) began: Instant,
}

impl WorkloadTimer {
    /// Starts the baseline and measures the reference at the size that `problem` is timed at; `divisor` divides the time of
    /// that.
    pub fn new(
        equipment: Arc<Equipment>,
        problem: Arc<Problem>,
        placed: PlacedArrays,
        ceilings: Ceilings,
        divisor: u32,
    ) -> Result<Self, Failure> {
        let PlacedArrays {
            specification,
            product,
            arena,
            placement,
        } = placed;
        let mut timer = Self {
            equipment,
            arena,
            placement,
            specification,
            product,
            tolerances: Tolerances::default(),
            adversarial: AdversarialCases::default(),
            measuring_own: false,
            work_flops: problem.work_flops(&problem.timed),
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
            rechecked: RecheckedBaseline::new(0.0),
            cold_chain: None,
            caches: Caches::of(&problem),
            ceilings,
            limits: [Purpose::Screen, Purpose::Rank, Purpose::Certify].map(Purpose::limits),
            divisor,
            problem,
            meanwhile: Surroundings::default(),
            quarantine: Quarantine::default(),
            began: Instant::now(),
        };
        timer.learn_tolerances()?;
        timer.measure_chain(&CHAIN)?;
        Ok(timer)
    }

    pub(super) fn results(&self) -> Results<'_> {
        Results {
            arena: &self.arena,
            placement: &self.placement,
            specification: &self.specification,
        }
    }

    /// The error of clock and hand-shake.
    pub fn resolution(&self) -> Resolution {
        self.resolution.unwrap_or_default()
    }

    /// Takes the ratio of plain reference and baseline from an earlier timer.
    pub fn go_on_with(&mut self, chain: &Chain) {
        self.chain.log_ratio = chain.log_ratio;
        self.chain.log_se = chain.log_se;
        self.chain.reference_seconds = self.chain.baseline_seconds * chain.log_ratio.exp();
    }

    /// Measures a verified candidate. With `best_gflops_known` a screening ends early for a program that is clearly
    /// slower.
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
        self.renew_adversarial()?;
        self.meanwhile = Surroundings::default();
        let candidate = self.start_candidate(object)?;
        let mut trial = self.try_out(candidate, &limits, best_log_ratio, seed, self.caches)?;
        let mut recheck = self.slowed(&trial.estimate)?;
        if recheck.is_some() {
            // The first result may be chance.
            let candidate = self.start_candidate(object)?;
            let seed = seed.wrapping_add(1);
            trial = self.try_out(candidate, &limits, best_log_ratio, seed, self.caches)?;
            recheck = recheck.filter(|_| self.is_slow(&trial.estimate));
        }
        let estimate = match &recheck {
            Some(recheck) => held_against(&trial.estimate, recheck),
            None => trial.estimate,
        };
        self.chain.saw(estimate.baseline);
        let estimate = self.believed(&estimate)?;
        trial.stop = stopped(trial.stop, &limits, estimate.log_se);
        let measurement = self.measurement(&trial, &estimate);
        let floor = trial.estimate.baseline;
        let raw = self.raw(purpose, seed, &trial, recheck.as_ref(), floor, None)?;
        self.note(estimate.baseline);
        Ok(Timed { measurement, raw })
    }

    pub(super) fn start_candidate(&self, object: &[u8]) -> Result<Process, Failure> {
        // The buffers may hold inputs of an earlier measurement, which may come again in this one.
        self.arena.restore(&self.placement);
        self.arena.sweep();
        self.start(object, &self.problem.entry.name, Some(CPU_LIMIT))
    }

    /// The plan of a process that fills the inputs.
    pub(super) fn plan_to_fill(&self) -> Plan {
        plan_to_fill(&self.specification, &self.placement)
    }

    pub(super) fn start(
        &self,
        object: &[u8],
        entry: &str,
        cpu_limit: Option<Duration>,
    ) -> Result<Process, Failure> {
        let setup = Setup {
            sandbox: &self.equipment.sandbox,
            harness: &self.equipment.harness,
            entry,
            arena: &self.arena,
            threads: self.equipment.threads,
            // At most as many cores as threads: otherwise a process could work on a further core while another process
            // has the cores of the timed calls.
            cores: Some(&self.equipment.cores.kernel[..self.equipment.threads.max(1) as usize]),
            waiting: self.equipment.waiting,
            cpu_limit,
        };
        let mut process = Process::start(&setup, object)?;
        process.plan(&plan(&self.specification, &self.placement))?;
        process.park()?;
        Ok(process)
    }

    /// The name of the baseline's source file.
    pub(super) fn baseline_name(&self) -> &'static str {
        match self.problem.baseline_source {
            Some(_) => "baseline.c",
            None => "reference.c",
        }
    }

    /// Measures a program against the baseline.
    pub(super) fn try_out(
        &mut self,
        mut candidate: Process,
        limits: &Limits,
        best_log_ratio: Option<f64>,
        seed: u64,
        caches: Caches,
    ) -> Result<Trial, Failure> {
        let (baseline, filler) = (self.baseline.take(), self.filler.take());
        let trusted = || {
            self.start(
                &self.equipment.baseline_object,
                &self.problem.entry.name,
                None,
            )
            .map_err(own_fault(self.baseline_name()))
        };
        let (mut baseline, mut filler) = match (baseline, filler) {
            (Some(baseline), Some(filler)) => (baseline, filler),
            _ => (
                trusted()?,
                Filler::new(trusted()?, self.equipment.waiting, &self.plan_to_fill())?,
            ),
        };
        // The previous candidate is gone; bytes that it may have written after its end must not be blamed on this one.
        self.arena.repair(&self.placement);
        let supervisor = self
            .equipment
            .cores
            .supervisor
            .filter(|_| self.equipment.waiting == Waiting::Spin);
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
                let renewed = known
                    .renewed(&mut baseline, &mut filler)
                    .map_err(hand_shake)?;
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
            check: Check::new(self.results(), self.product, &self.tolerances),
            candidate,
            baseline,
            filler,
            off_clock: OffClock::new(resolution.least()),
            resolution,
            call_limit: self.call_limit,
            threads: self.equipment.threads,
            cold: caches == Caches::Cold,
            trusted: self.measuring_own,
            adversarial: match self.measuring_own {
                true => AdversarialCalls::none(),
                false => self.adversarial.calls(&mut rng),
            },
            spot_checks: SpotChecks::new(self.tolerances.seeds(), limits.max, &mut rng),
            rng,
        };
        let before = Glance::take(&mut session, self.equipment.waiting);
        let result = session.run(&Request {
            limits: *limits,
            best_log_ratio,
        });
        // After a failure the reading says nothing about the machine, and the process may be gone.
        let seen = match (&result, before) {
            (Ok(_), Some(before)) => Glance::take(&mut session, self.equipment.waiting)
                .map(|after| before.until(&after, &self.equipment.watched)),
            _ => None,
        };
        let Session {
            candidate,
            mut baseline,
            mut filler,
            off_clock,
            ..
        } = session;
        // The empty calls between the others say more about hand-shakes than the few before them.
        if let Some(known) = &mut self.resolution {
            *known = known.lowered(off_clock.least());
        }
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
pub(super) fn own_fault(program: &str) -> impl Fn(Failure) -> Failure + '_ {
    move |failure| match failure {
        Failure::Candidate { fault, detail } => Failure::infrastructure(
            InfrastructureCause::Baseline,
            format!("the problem's own {program} failed ({fault}): {detail}"),
        ),
        other => other,
    }
}
