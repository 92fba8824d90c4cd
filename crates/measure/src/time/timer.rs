//! Times candidates at all workloads of a problem, one after the other.
//!
//! Each workload has buffers, a baseline, a reference ratio and checks of its own ([`WorkloadTimer`]); its processes sleep
//! while another workload is measured. Peak and roofs are measured once. The workloads share the time of a purpose
//! ([`Purpose`]) in equal parts, since each has the same weight in the geometric mean: with `k` workloads each gets a `k`th
//! of the time, and the standard error at which it is precise is √k times as large, as the mean divides the sum of the
//! variances by k². So a mean over k workloads takes as long as one workload would, and is as precise. Calls too long for
//! such a part take longer, as two calls are made at least.

use std::path::PathBuf;
use std::sync::Arc;

use flopsmith_compile::toolchain::Toolchain;
use flopsmith_harness::Waiting;
use flopsmith_machine::attest::{Attestation, Circumstances};
use flopsmith_machine::environment::Watched;
use flopsmith_machine::pinning::Cores;
use flopsmith_machine::roofline::{Bound, Place};
use flopsmith_problem::Problem;
use flopsmith_protocol::{
    AtWorkload, Failure, InfrastructureCause, Measurement, UnknownCause, geometric,
};
use flopsmith_sandbox::Sandbox;

use super::calibration::Calibration;
use super::certify::shared;
use super::equipment::{Equipment, PlacedArrays};
use super::quarantine::State;
use super::reference::{Chain, Chains};
use super::resolution::Resolution;
use super::roof::Ceilings;
use super::steps::{Listener, Step, Work};
use super::tolerance::program_of_magnitudes;
use super::workload::WorkloadTimer;
use super::{Limits, Purpose, SURPRISING, Timed};
use crate::verify::compile_own;

/// Distance between the seeds of two workloads. A workload uses some seeds from its first one on.
const SEEDS: u64 = 1 << 32;

/// Times candidates of one problem on certain cores.
pub struct Timer {
    equipment: Arc<Equipment>,
    /// At least one.
    workloads: Vec<Workload>,
    listener: Listener,
}

/// A workload and its timer.
struct Workload {
    name: String,
    timer: WorkloadTimer,
    /// Speed of the fastest program that was measured here, 10⁹ operations a second, where there are several workloads.
    best_gflops: Option<f64>,
}

impl Timer {
    /// Starts the baselines, measures this machine's peak and the reference at each workload, and collects the
    /// attestation.
    ///
    /// # Errors
    /// Infrastructure failures; among them a workload whose arrays do not fit into memory, with its name and its bytes.
    pub fn new(
        sandbox: Arc<Sandbox>,
        harness: PathBuf,
        problem: Arc<Problem>,
        toolchain: &Toolchain,
        cores: Cores,
        threads: u32,
    ) -> Result<Self, Failure> {
        let usual = Calibration::default();
        Self::calibrated(sandbox, harness, problem, toolchain, cores, threads, &usual)
    }

    /// The same with another calibration; tells its listener of each step, those of the start included.
    ///
    /// # Errors
    /// As [`Timer::new`].
    pub fn calibrated(
        sandbox: Arc<Sandbox>,
        harness: PathBuf,
        problem: Arc<Problem>,
        toolchain: &Toolchain,
        cores: Cores,
        threads: u32,
        calibration: &Calibration,
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
        let each = problem.each();
        let placed: Result<Vec<PlacedArrays>, Failure> =
            each.iter().map(PlacedArrays::of).collect();
        let placed = placed?;
        let alone = cores.supervisor.is_some_and(|s| !cores.kernel.contains(&s));
        let waiting = if alone { Waiting::Spin } else { Waiting::Sleep };
        let own =
            |source: &str, name: &str| compile_own(&sandbox, toolchain, &problem, source, name);
        let reference_object = own(&problem.reference_source, "reference.c")?;
        let baseline_object = match &problem.baseline_source {
            Some(source) => own(source, "baseline.c")?,
            None => reference_object.clone(),
        };
        let magnitude = program_of_magnitudes(&sandbox, toolchain, &problem)?;
        let (peak, roofs) = calibration.roofs(&cores.kernel, threads);
        let attestation = Attestation::collect(&Circumstances {
            supervisor_core: cores.supervisor.filter(|_| alone),
            kernel_cores: &cores.kernel,
            threads,
            buffers_in_huge_pages: placed.iter().all(|p| p.arena.mapping().huge()),
            compiler: &toolchain.version,
            flags: &toolchain.flags,
            linker: &toolchain.linker,
            other_compilers: &toolchain.others(),
            hand_shake: if alone { "spin" } else { "sleep" },
            peak,
            roofs: &roofs,
        });
        let equipment = Arc::new(Equipment {
            watched: Watched::of(&cores, threads, &attestation.smt_siblings),
            sandbox,
            harness,
            cores,
            threads,
            waiting,
            reference_object,
            baseline_object,
            magnitude,
            attestation_digest: attestation.digest(),
            attestation,
        });
        let ceilings = Ceilings {
            peak,
            integer_gops: 0.0,
        };
        let of = each.len();
        let several = of > 1;
        let mut workloads = Vec::with_capacity(of);
        let names = problem
            .workloads
            .iter()
            .map(|workload| workload.name.clone());
        let all = each.into_iter().zip(placed).zip(names);
        for (((problem, placed), name), number) in all.zip(1..) {
            calibration.listener().tell(Step {
                work: Work::Reference,
                workload: &name,
                number,
                of,
            });
            let equipment = Arc::clone(&equipment);
            let divisor = calibration.divisor();
            let timer = WorkloadTimer::new(equipment, Arc::new(problem), placed, ceilings, divisor)
                .map_err(|failure| at(&name, several, failure))?;
            workloads.push(Workload {
                name,
                timer,
                best_gflops: None,
            });
        }
        let mut timer = Self {
            equipment,
            workloads,
            listener: calibration.listener().clone(),
        };
        for purpose in [Purpose::Screen, Purpose::Rank, Purpose::Certify] {
            timer.set_limits(purpose, purpose.limits());
        }
        Ok(timer)
    }

    fn is_of_several(&self) -> bool {
        self.workloads.len() > 1
    }

    /// The mean of a number over the workloads; the number itself where there is one.
    fn mean(&self, of: impl Fn(&WorkloadTimer) -> f64) -> f64 {
        let numbers = self.workloads.iter().map(|workload| of(&workload.timer));
        geometric(numbers).unwrap_or(f64::NAN)
    }

    /// The attestation of this machine.
    pub fn attestation(&self) -> &Attestation {
        &self.equipment.attestation
    }

    /// The cores whose disturbances matter to this timer.
    pub fn watched(&self) -> &Watched {
        &self.equipment.watched
    }

    /// The error of clock and hand-shake; that with the longest hand-shake of several workloads.
    pub fn resolution(&self) -> Resolution {
        let all = self.workloads.iter().map(|w| w.timer.resolution());
        let longest =
            |a: &Resolution, b: &Resolution| a.hand_shake_seconds.total_cmp(&b.hand_shake_seconds);
        all.max_by(longest).unwrap_or_default()
    }

    /// The part of a measurement's standard error of ln(ratio) that clock and hand-shake cause. No further measurement
    /// reduces it.
    pub fn hidden_log_se(&self, measurement: &Measurement) -> f64 {
        let of = |workload: &Workload, seconds: f64| {
            let baseline = workload.timer.chain.baseline_seconds;
            workload.timer.resolution().log_se(seconds, baseline)
        };
        if let [only] = &self.workloads[..] {
            return of(only, measurement.seconds_per_call);
        }
        let pairs = self.workloads.iter().zip(&measurement.workloads);
        let squares: f64 = pairs
            .map(|(workload, found)| of(workload, found.seconds_per_call).powi(2))
            .sum();
        squares.sqrt() / self.workloads.len() as f64
    }

    /// The plain reference compared with the baseline, as measured last: the mean over the workloads.
    pub fn chain(&self) -> Chain {
        self.chains().whole()
    }

    /// The chains of all workloads.
    pub fn chains(&self) -> Chains {
        let all: Vec<Chain> = self.workloads.iter().map(|w| w.timer.chain).collect();
        Chains::of_each(&all).expect("a timer has a workload")
    }

    /// Takes the ratios of plain reference and baseline from an earlier timer for the same workloads on this machine. The
    /// speed of the reference depends on where its pages happen to lie; ratios that are compared with older ones must rest
    /// on one measurement of the reference.
    pub fn go_on_with(&mut self, chains: &Chains) {
        for (workload, chain) in self.workloads.iter_mut().zip(chains.each()) {
            workload.timer.go_on_with(chain);
        }
    }

    /// Measures the plain reference once more and for longer, in several processes for each workload, each with a baseline
    /// that is started anew: a reported ratio to the reference is only as certain as this, and single processes of plain
    /// loops differ by per cents. Takes some seconds; ordering programs does not need it. A reference whose calls take long
    /// is measured in one process nevertheless.
    ///
    /// # Errors
    /// Infrastructure failures only.
    pub fn refine_reference(&mut self) -> Result<(), Failure> {
        let of = self.workloads.len();
        for (workload, number) in self.workloads.iter_mut().zip(1..) {
            self.listener.tell(Step {
                work: Work::ReferenceAtLength,
                workload: &workload.name,
                number,
                of,
            });
            workload.timer.refine_reference()?;
        }
        Ok(())
    }

    /// Sets other limits for a purpose; the workloads share them.
    pub fn set_limits(&mut self, purpose: Purpose, limits: Limits) {
        let share = shared(&limits, self.workloads.len());
        for workload in &mut self.workloads {
            workload.timer.limits[purpose as usize] = share;
        }
    }

    /// Speed of the plain reference at the timed sizes, 10⁹ operations a second: a measurement's `gflops` is its `ratio`
    /// times this.
    pub fn reference_gflops(&self) -> f64 {
        self.mean(WorkloadTimer::reference_gflops)
    }

    /// The same for each of several workloads, in the order of a measurement's `workloads`; empty where there is one.
    pub fn reference_gflops_of_each(&self) -> Vec<f64> {
        let several = self.workloads.iter().filter(|_| self.is_of_several());
        several.map(|w| w.timer.reference_gflops()).collect()
    }

    /// Speed of the baseline at the timed sizes, 10⁹ operations a second.
    pub fn baseline_gflops(&self) -> f64 {
        self.mean(WorkloadTimer::baseline_gflops)
    }

    /// Least number of bytes that a call must move for each of its operations, by the problem's own formula.
    pub fn bytes_per_operation(&self) -> f64 {
        self.mean(WorkloadTimer::bytes_per_operation)
    }

    /// Measured peak at this thread count for the problem's type of numbers, 10⁹ operations a second: of multiply-adds
    /// for floats, and of additions of bytes for integers.
    pub fn peak_gflops(&self) -> f64 {
        let all = self.workloads.iter().map(|workload| workload.timer.roof());
        all.fold(0.0, f64::max)
    }

    /// The place of a measured program under the roofs; over several workloads the mean of [`Timer::places`].
    pub fn place(&self, measurement: &Measurement) -> Option<Place> {
        match &self.workloads[..] {
            [only] => only.timer.place(measurement.gflops),
            _ => {
                let places: Option<Vec<Place>> = self.places(measurement).into_iter().collect();
                Place::over(&places?)
            }
        }
    }

    /// The place of the plain reference under the roofs; over several workloads the mean.
    pub fn reference_place(&self) -> Option<Place> {
        let all = self.workloads.iter().map(|w| &w.timer);
        let places: Option<Vec<Place>> = all.map(|t| t.place(t.reference_gflops())).collect();
        Place::over(&places?)
    }

    /// The place at each of several workloads, in the order of a measurement's `workloads`; empty where there is one.
    pub fn places(&self, measurement: &Measurement) -> Vec<Option<Place>> {
        let pairs = self.workloads.iter().zip(&measurement.workloads);
        pairs
            .map(|(workload, found)| workload.timer.place(found.gflops))
            .collect()
    }

    /// The state of the machine, from the baseline's floors in the measurements so far: the worst state at any workload.
    /// This call does not wait: a caller that can wait shall check the state before each measurement.
    pub fn quarantine_state(&self) -> State {
        let states = || self.workloads.iter().map(|w| w.timer.quarantine_state());
        let disturbed = || states().find(|state| *state != State::Idle);
        let worst = states().find(State::is_quarantine).or_else(disturbed);
        worst.unwrap_or_default()
    }

    /// Times the baseline against itself for a moment, and returns the state of the machine after that. For a caller
    /// that waits for the end of a quarantine. Of several workloads those are timed at which there is a quarantine, or
    /// else the first.
    ///
    /// # Errors
    /// Infrastructure failures only.
    pub fn canary(&mut self) -> Result<State, Failure> {
        let waits = |workload: &Workload| workload.timer.quarantine_state().is_quarantine();
        let any = self.workloads.iter().any(waits);
        for (n, workload) in self.workloads.iter_mut().enumerate() {
            if waits(workload) || n == 0 && !any {
                workload.timer.canary()?;
            }
        }
        Ok(self.quarantine_state())
    }

    /// Ends a quarantine because the caller waits no longer: from now on the machine is taken as it is.
    pub fn go_on(&mut self) {
        for workload in &mut self.workloads {
            workload.timer.go_on();
        }
    }

    /// Measures a verified candidate at every workload. With `best_gflops_known` a program that is faster than could be
    /// expected is measured once more and at length. A screening ends early for a program that is clearly slower than the
    /// best one: that of `best_gflops_known`, and at each of several workloads the fastest that this timer has measured
    /// there.
    ///
    /// # Errors
    /// The candidate's fault at the first workload that reveals one, and infrastructure failures.
    pub fn measure(
        &mut self,
        object: &[u8],
        purpose: Purpose,
        seed: u64,
        best_gflops_known: Option<f64>,
    ) -> Result<Timed, Failure> {
        let timed = self.measure_once(object, purpose, seed, best_gflops_known)?;
        let gflops = timed.measurement.gflops;
        let surprising = best_gflops_known.is_some_and(|best| gflops > SURPRISING * best);
        if surprising && purpose == Purpose::Screen {
            let seed = seed.wrapping_add(1);
            return self.measure_once(object, Purpose::Rank, seed, None);
        }
        Ok(timed)
    }

    fn measure_once(
        &mut self,
        object: &[u8],
        purpose: Purpose,
        seed: u64,
        best_gflops_known: Option<f64>,
    ) -> Result<Timed, Failure> {
        let several = self.is_of_several();
        self.at_each(seed, |workload, seed| {
            let best = if several {
                workload.best_gflops
            } else {
                best_gflops_known
            };
            workload.timer.measure(object, purpose, seed, best)
        })
    }

    /// Measures a verified candidate for a report, at every workload: `layouts` are objects of it whose code lies at
    /// different places ([`flopsmith_compile::Compiler::layouts`] with [`PADDINGS`](super::PADDINGS)). The layouts share
    /// the time of a certification. All of them are measured again in further processes, at least twice, until the
    /// differences between processes at the same place average out. The number is the geometric mean over the places, each
    /// represented by the median of its processes, and its interval covers the differences between the places. Each time
    /// the baseline is started anew as well, and the data of both sides move to other lines of their pages, the same ones
    /// in every certification.
    ///
    /// # Errors
    /// As [`Timer::measure`]; also an error of the measurement if calls without caches are faster than memory permits.
    pub fn certify(&mut self, layouts: &[Vec<u8>], seed: u64) -> Result<Timed, Failure> {
        self.at_each(seed, |workload, seed| workload.timer.certify(layouts, seed))
    }

    /// Measures at each workload, and gives the mean over all. A failure at one of several names it.
    fn at_each(
        &mut self,
        seed: u64,
        mut measure: impl FnMut(&mut Workload, u64) -> Result<Timed, Failure>,
    ) -> Result<Timed, Failure> {
        let several = self.is_of_several();
        let of = self.workloads.len();
        let mut all = Vec::with_capacity(of);
        for n in 0..of {
            self.listener.tell(Step {
                work: Work::Program,
                workload: &self.workloads[n].name,
                number: n + 1,
                of,
            });
            let workload = &mut self.workloads[n];
            let seed = seed.wrapping_add(n as u64 * SEEDS);
            let timed =
                measure(workload, seed).map_err(|failure| at(&workload.name, several, failure))?;
            if several {
                let known = timed.measurement.known_gflops();
                workload.best_gflops = Some(workload.best_gflops.unwrap_or(0.0).max(known));
            }
            all.push(timed);
            self.share_ceilings(n);
        }
        self.over_all(all)
    }

    /// Tells all workloads what one of them found out about the speed of the machine.
    fn share_ceilings(&mut self, of: usize) {
        let found = self.workloads[of].timer.ceilings;
        for workload in &mut self.workloads {
            workload.timer.ceilings.raise(&found);
        }
    }

    /// The measurement over all workloads, whose measurements are `all`.
    fn over_all(&self, mut all: Vec<Timed>) -> Result<Timed, Failure> {
        if !self.is_of_several() {
            return all.pop().ok_or_else(nothing);
        }
        let raw = raw_of(self.workloads.iter().map(|w| w.name.as_str()), &all)?;
        let peak = self.peak_gflops();
        let pairs = self.workloads.iter().zip(all);
        let parts = pairs.map(|(workload, timed)| {
            let place = workload.timer.place(timed.measurement.gflops);
            let bytes = workload.timer.bytes_per_operation();
            AtWorkload {
                name: workload.name.clone(),
                gb_per_second: place
                    .filter(|place| place.bound == Bound::Memory)
                    .map(|_| timed.measurement.gflops * bytes),
                measurement: Measurement {
                    // The peak may have been raised after this workload was measured.
                    share_of_peak: timed.measurement.gflops / peak,
                    ..timed.measurement
                },
            }
        });
        let measurement = Measurement::over_workloads(parts.collect()).ok_or_else(nothing)?;
        Ok(Timed { measurement, raw })
    }
}

/// The raw samples of all workloads, each a JSON object, as one.
fn raw_of<'a>(names: impl Iterator<Item = &'a str>, all: &[Timed]) -> Result<Vec<u8>, Failure> {
    let mut raw = b"{\"workloads\":[".to_vec();
    for (n, (name, timed)) in names.zip(all).enumerate() {
        let name = serde_json::to_string(name).map_err(|e| {
            Failure::unknown(
                UnknownCause::UnwritableSamples,
                format!("the name of a workload cannot be written: {e}"),
            )
        })?;
        if n > 0 {
            raw.push(b',');
        }
        raw.extend(format!("{{\"name\":{name},\"samples\":").into_bytes());
        raw.extend(&timed.raw);
        raw.push(b'}');
    }
    raw.extend(b"]}");
    Ok(raw)
}

fn nothing() -> Failure {
    Failure::infrastructure(InfrastructureCause::Harness, "nothing was measured")
}

/// A failure, with the name of its workload if there are several.
fn at(name: &str, several: bool, failure: Failure) -> Failure {
    if !several {
        return failure;
    }
    let told = |detail: &str| format!("{detail} (at the workload `{name}`)");
    match failure {
        Failure::Candidate { fault, detail } => Failure::candidate(fault, told(&detail)),
        Failure::Infrastructure { cause, detail } => Failure::infrastructure(cause, told(&detail)),
        Failure::Unknown { cause, detail } => Failure::unknown(cause, told(&detail)),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_protocol::CandidateFault;
    use flopsmith_test_support::Measured;

    use super::*;

    #[test]
    fn raw_samples_of_several_workloads_are_one_object() {
        let timed = |raw: &str| Timed {
            measurement: Measured::at(40.0).measurement(),
            raw: raw.as_bytes().to_vec(),
        };
        let all = [timed("{\"seed\":1}"), timed("{\"seed\":2}")];
        let raw = raw_of(["n=8", "a \"b\""].into_iter(), &all).unwrap();
        let read: serde_json::Value = serde_json::from_slice(&raw).unwrap();
        assert_eq!(read["workloads"][0]["name"], "n=8");
        assert_eq!(read["workloads"][1]["name"], "a \"b\"");
        assert_eq!(read["workloads"][1]["samples"]["seed"], 2);
    }

    #[test]
    fn a_failure_names_its_workload_where_there_are_several() {
        let failure = || Failure::candidate(CandidateFault::Timeout, "a call takes too long");
        assert_eq!(at("n=8", false, failure()), failure());
        let named = at("n=8", true, failure());
        assert_eq!(
            named.to_string(),
            "timeout: a call takes too long (at the workload `n=8`)"
        );
    }

    /// With equal noise, the mean over workloads that share the time of a purpose is precise when each of them is.
    #[test]
    fn workloads_share_the_time_and_not_the_precision() {
        let whole = Purpose::Rank.limits();
        for count in [1usize, 2, 3, 7] {
            let each = shared(&whole, count);
            let k = count as f64;
            let variance: f64 = k * each.target_log_se.powi(2);
            assert!((variance.sqrt() / k / whole.target_log_se - 1.0).abs() < 1e-9);
            assert!((each.max.as_secs_f64() * k / whole.max.as_secs_f64() - 1.0).abs() < 1e-6);
        }
        assert_eq!(shared(&whole, 1), whole);
    }
}
