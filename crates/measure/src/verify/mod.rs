//! Verification: checks that a program computes the right results for inputs it has never seen.
//!
//! Each candidate gets one jail, and one more for each call whose buffers, threads and cores are those of timed calls. The
//! inputs, the expected results and the bounds stay with the supervisor; the candidate's process sees only arrays. The
//! cheapest cases come first, and the first failure ends the verification. Module `pool` makes the cases and chooses
//! those of a candidate.

mod baseline;
pub(crate) mod cases;
pub(crate) mod content;
mod downgrades;
pub(crate) mod oracle;
mod pool;
mod probes;
mod repetitions;
mod shortcuts;
pub(crate) mod sizes;
pub mod soundness;
mod sweep;
mod swept;
pub mod weakness;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flopsmith_compile::toolchain::Toolchain;
use flopsmith_compile::{Compiler, largest_frame};
use flopsmith_harness::Waiting;
use flopsmith_machine::SharedCores;
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{
    CandidateFault, Failure, InfrastructureCause, TechniqueSet, VerifiedSizes,
};
use flopsmith_sandbox::Sandbox;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::supervise::{
    Arena, Placement, Placing, Process, Setup, about_the_stack, guarded_buffers, judge_stillness,
    plan, specify, timed_buffers,
};
use crate::time;
use cases::{Case, Finding, ReferenceProcesses};
pub use pool::Thoroughness;
use pool::{Again, Buffers, Group, Pool, Step};
use sizes::largest;
use sweep::Sweep;

/// Candidates that are verified between two renewals of a case.
const RENEW_EVERY: u32 = 64;
/// Cases with larger arrays are renewed less often, as the reference needs long for their results.
const DEAR_BYTES: usize = 1 << 20;
/// One in this many renewals of such a case takes place.
const DEAR_ONE_IN: u32 = 8;
/// Processor time a candidate may use for all its cases, for each timed size.
pub(crate) const CPU_LIMIT: Duration = Duration::from_secs(60);

/// Processor time a candidate of a problem with so many timed sizes may use: each size has its calls in one process.
pub(crate) fn cpu_limit(timed_sizes: usize) -> Duration {
    CPU_LIMIT * timed_sizes as u32
}

/// The result of a passed verification.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report {
    /// Calls that were checked.
    pub cases: u32,
    /// The verified sizes; none after a screening.
    pub sizes: Option<VerifiedSizes>,
    /// Largest error as a share of the bound, at most 1.
    pub worst_error_share: f64,
    /// Seconds it took.
    pub seconds: f64,
}

/// Verifies candidates of one problem.
pub struct Verifier {
    sandbox: Arc<Sandbox>,
    harness: PathBuf,
    problem: Arc<Problem>,
    /// Threads of a process whose buffers hold every case.
    threads: u32,
    /// The numbers of threads that candidates are timed with, as far as known.
    timed_with: Vec<u32>,
    reference: Vec<u8>,
    magnitude: Option<Object>,
    /// Has room for every case.
    arena: Arena,
    /// Have the layout of the buffers of timed calls, at each timed size.
    as_timed: Vec<Arena>,
    pool: Pool,
    rng: ChaCha8Rng,
    since_renewal: u32,
}

/// A candidate while it is verified.
struct Candidate<'a> {
    object: &'a [u8],
    /// The cores of its processes: other candidates may be verified on them at the same time.
    cores: SharedCores,
}

/// A compiled program of the problem's own.
pub(crate) struct Object {
    /// The shared object.
    pub bytes: Vec<u8>,
    /// Name of its function.
    pub entry: String,
}

impl Verifier {
    /// Compiles the reference, runs it in a process of its own, and draws the first secret cases.
    pub fn new(
        sandbox: Arc<Sandbox>,
        harness: PathBuf,
        problem: Arc<Problem>,
        toolchain: &Toolchain,
        seed: [u8; 32],
    ) -> Result<Self, Failure> {
        let reference = compile_own(
            &sandbox,
            toolchain,
            &problem,
            &problem.reference_source,
            "reference.c",
        )?;
        let magnitude = compile_magnitude(&sandbox, toolchain, &problem)?;
        // These come first: an error about them names the workload.
        let mut as_timed = Vec::new();
        for params in problem.timed_sizes() {
            let arrays = specify(&problem, params)?.arrays;
            as_timed.push(timed_buffers(&problem, params, &arrays)?);
        }
        let arena = arena_for(&problem)?;
        let mut verifier = Self {
            sandbox,
            harness,
            threads: problem.threads.iter().copied().max().unwrap_or(1),
            timed_with: Vec::new(),
            problem,
            reference,
            magnitude,
            arena,
            as_timed,
            pool: Pool::default(),
            rng: ChaCha8Rng::from_seed(seed),
            since_renewal: 0,
        };
        verifier.fill_pool()?;
        Ok(verifier)
    }

    /// Says that candidates will be timed with this number of threads, which may be more than the problem names. Called
    /// again, adds another number.
    #[must_use]
    pub fn for_threads(mut self, threads: u32) -> Self {
        self.threads = self.threads.max(threads);
        if !self.timed_with.contains(&threads) {
            self.timed_with.push(threads);
        }
        self
    }

    /// The numbers of threads in processes like those of timed calls; at least one.
    fn timed_with(&self) -> &[u32] {
        match self.timed_with.is_empty() {
            true => std::slice::from_ref(&self.threads),
            false => &self.timed_with,
        }
    }

    /// Checks one compiled candidate at the depth of a screening, see [`Verifier::verify_to`].
    pub fn verify(&mut self, object: &[u8], rng_seed: u64) -> Result<Report, Failure> {
        self.verify_to(object, rng_seed, Thoroughness::Screening)
    }

    /// Checks one compiled candidate. `rng_seed` chooses among the secret cases and where the arrays lie.
    pub fn verify_to(
        &mut self,
        object: &[u8],
        rng_seed: u64,
        thoroughness: Thoroughness,
    ) -> Result<Report, Failure> {
        let verified = self.checked(object, rng_seed, thoroughness);
        verified.map_err(|failure| about_the_stack(failure, || largest_frame(object)))
    }

    /// [`Verifier::verify_to`], without what the object says about a crash.
    fn checked(
        &mut self,
        object: &[u8],
        rng_seed: u64,
        thoroughness: Thoroughness,
    ) -> Result<Report, Failure> {
        let start = Instant::now();
        self.since_renewal += 1;
        if self.since_renewal > RENEW_EVERY {
            self.refresh()?;
        }
        let mut rng = ChaCha8Rng::seed_from_u64(rng_seed ^ self.rng.random::<u64>());
        // The process before is gone, and can no longer write; anything it wrote after it failed is overwritten.
        self.arena.reset();
        let limit = cpu_limit(self.as_timed.len());
        let candidate = Candidate {
            object,
            cores: SharedCores::take(self.threads as usize),
        };
        let mut process = self.start_candidate(&candidate, &self.arena, self.threads, limit)?;
        let mut worst: f64 = 0.0;
        let mut calls = 0;
        let any_order = self.adds_in_any_order(object);
        let steps = self.pool.choose(&self.problem, thoroughness, &mut rng);
        for mut step in steps.iter().copied() {
            step.same_bits = !any_order;
            let (share, times) = match step.buffers {
                Buffers::Guarded => {
                    let share = self.run_case(&step, &self.arena, &mut process, &mut rng)?;
                    (share, 1 + u32::from(step.again.is_some()))
                }
                Buffers::AsTimed(size) => {
                    let as_timed = &self.as_timed[size];
                    let share = self.run_as_timed(&step, as_timed, &candidate, &mut rng)?;
                    (share, self.timed_with().len() as u32)
                }
            };
            worst = worst.max(share);
            calls += times;
        }
        let met = steps
            .iter()
            .map(|s| &self.pool.of(s.group)[s.number].params);
        let sweep = Sweep::draw(&self.problem, thoroughness, met, &mut rng);
        let sizes = match sweep {
            Some(sweep) => {
                let (done, share) = self.sweep(&sweep, &mut process, &mut rng)?;
                worst = worst.max(share);
                calls += done as u32;
                Some(sweep.verified(done))
            }
            None => None,
        };
        finish(process, self.threads)?;
        Ok(Report {
            cases: calls,
            sizes,
            worst_error_share: worst,
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    /// True if a program may give other bits when the same inputs come again. Threads that add up parts of a sum do so
    /// in the order in which they finish, as reductions of OpenMP do; with three or more threads that order changes the
    /// sum. Each result has to be right nevertheless.
    fn adds_in_any_order(&self, object: &[u8]) -> bool {
        let calls = |name: &&[u8]| object.windows(name.len()).any(|at| at == *name);
        let parallel: [&[u8]; 2] = [b"GOMP_parallel", b"__kmpc_fork_call"];
        self.threads > 2 && parallel.iter().any(calls)
    }

    /// Replaces one secret case of each group by one of another size and content. `verify_to` calls this now and then.
    pub fn refresh(&mut self) -> Result<(), Failure> {
        self.since_renewal = 0;
        let mut references = self.start_references(&self.arena)?;
        let mut rng = ChaCha8Rng::seed_from_u64(self.rng.random());
        for group in Group::ALL {
            let count = self.pool.of(group).len();
            if count == 0 {
                continue;
            }
            let n = rng.random_range(0..count);
            let mut arrays = self.pool.of(group)[n].specification.arrays.iter();
            let dear = arrays.any(|array| array.bytes() > DEAR_BYTES);
            if dear && rng.random_range(0..DEAR_ONE_IN) != 0 {
                continue;
            }
            let case = self.draw(group, n, &mut references, &mut rng)?;
            self.pool.replace(group, n, case);
        }
        references.exit()
    }

    /// Starts a program of the problem's own, which may run on all cores.
    fn start(
        &self,
        object: &[u8],
        entry: &str,
        arena: &Arena,
        cpu_limit: Option<Duration>,
    ) -> Result<Process, Failure> {
        Process::start(&self.setup(entry, arena, cpu_limit), object)
    }

    /// Starts a candidate on as many cores as a timed process with this number of threads has: otherwise the number of
    /// cores would tell it whether it is timed.
    fn start_candidate(
        &self,
        candidate: &Candidate<'_>,
        arena: &Arena,
        threads: u32,
        cpu_limit: Duration,
    ) -> Result<Process, Failure> {
        let cores = candidate.cores.first(threads.max(1) as usize);
        let setup = Setup {
            threads,
            cores: Some(cores.as_slice()),
            ..self.setup(&self.problem.entry.name, arena, Some(cpu_limit))
        };
        Process::start(&setup, candidate.object)
    }

    fn setup<'a>(
        &'a self,
        entry: &'a str,
        arena: &'a Arena,
        cpu_limit: Option<Duration>,
    ) -> Setup<'a> {
        Setup {
            sandbox: &self.sandbox,
            harness: &self.harness,
            entry,
            arena,
            threads: self.threads,
            cores: None,
            waiting: Waiting::Sleep,
            cpu_limit,
        }
    }

    fn start_references(&self, arena: &Arena) -> Result<ReferenceProcesses, Failure> {
        let start = |object: &[u8], entry: &str, what: &str| {
            self.start(object, entry, arena, None)
                .map_err(|failure| match failure {
                    Failure::Candidate { detail, .. } => Failure::infrastructure(
                        InfrastructureCause::Baseline,
                        format!("cannot run the problem's own {what}: {detail}"),
                    ),
                    other => other,
                })
        };
        Ok(ReferenceProcesses {
            reference: start(&self.reference, &self.problem.entry.name, "reference")?,
            magnitude: self
                .magnitude
                .as_ref()
                .map(|m| start(&m.bytes, &m.entry, "magnitude.c"))
                .transpose()?,
        })
    }

    fn fill_pool(&mut self) -> Result<(), Failure> {
        let mut references = self.start_references(&self.arena)?;
        let mut rng = ChaCha8Rng::seed_from_u64(self.rng.random());
        for group in Group::ALL {
            for n in 0..group.count(&self.problem) {
                let case = self.draw(group, n, &mut references, &mut rng)?;
                self.pool.add(group, case);
            }
        }
        references.exit()
    }

    fn draw(
        &self,
        group: Group,
        n: usize,
        references: &mut ReferenceProcesses,
        rng: &mut ChaCha8Rng,
    ) -> Result<Case, Failure> {
        let (params, content) = group.draw(n, &self.problem, rng);
        Case::draw(&self.problem, params, content, &self.arena, references, rng)
    }

    /// Calls the candidate in a process of its own for each number of threads that it is timed with. Its buffers have the
    /// layout of timed calls: otherwise the distance of two arrays would tell it whether it is timed.
    fn run_as_timed(
        &self,
        step: &Step,
        as_timed: &Arena,
        candidate: &Candidate<'_>,
        rng: &mut ChaCha8Rng,
    ) -> Result<f64, Failure> {
        let mut worst: f64 = 0.0;
        for &threads in self.timed_with() {
            as_timed.reset();
            let mut process =
                self.start_candidate(candidate, as_timed, threads, time::CPU_LIMIT)?;
            worst = worst.max(self.run_case(step, as_timed, &mut process, rng)?);
            finish(process, threads)?;
        }
        Ok(worst)
    }

    /// Calls the candidate with the case of a step. Returns the worst error as a share of the bound.
    fn run_case(
        &self,
        step: &Step,
        arena: &Arena,
        process: &mut Process,
        rng: &mut ChaCha8Rng,
    ) -> Result<f64, Failure> {
        let case = &self.pool.of(step.group)[step.number];
        let placement = self.lay_out(case, arena, step.placing, process, rng)?;
        let result =
            call(case, process).and_then(|()| passed(case, &case.judge(arena, &placement)));
        let Some(again) = step.again.filter(|_| result.is_ok()) else {
            arena.restore(&placement);
            return result;
        };
        let first = case.output(arena, &placement);
        // The same input must give the same bits, wherever the arrays lie.
        let placement = match again {
            Again::Here => {
                case.renew(arena, &placement);
                placement
            }
            Again::Moved(placing) => {
                arena.restore(&placement);
                self.lay_out(case, arena, placing, process, rng)?
            }
        };
        let second = call(case, process).and_then(|()| {
            same(
                case,
                case.judge_again(arena, &placement, &first),
                step.same_bits,
            )
        });
        arena.restore(&placement);
        second.and(result)
    }

    fn lay_out(
        &self,
        case: &Case,
        arena: &Arena,
        placing: Placing,
        process: &mut Process,
        rng: &mut ChaCha8Rng,
    ) -> Result<Placement, Failure> {
        let placement = case.lay_out(arena, placing, rng).ok_or_else(|| {
            Failure::infrastructure(
                InfrastructureCause::Harness,
                "a case does not fit the buffers",
            )
        })?;
        process.plan(&plan(&case.specification, &placement))?;
        Ok(placement)
    }
}

/// Ends a process whose calls were all right; fails if threads in it still run, or are more than `threads`.
fn finish(mut process: Process, threads: u32) -> Result<(), Failure> {
    let stillness = process.settle()?;
    judge_stillness(stillness, threads)?;
    process.exit()
}

/// Calls the candidate with a case.
fn call(case: &Case, process: &mut Process) -> Result<(), Failure> {
    match process.call(case.limit) {
        Ok(_) => Ok(()),
        Err(Failure::Candidate { fault, detail }) => Err(Failure::candidate(
            fault,
            format!("{detail} (called with {})", case.name()),
        )),
        Err(other) => Err(other),
    }
}

/// Judges a second call with the same inputs.
fn same(case: &Case, found: Result<usize, Finding>, same_bits: bool) -> Result<(), Failure> {
    match found {
        Ok(differ) if differ == 0 || !same_bits => Ok(()),
        Ok(differ) => Err(Failure::candidate(
            CandidateFault::Nondeterministic,
            format!(
                "{differ} elements have other bits in a second call with the same inputs ({})",
                case.name()
            ),
        )),
        Err(finding) => passed(case, &finding).map(|_| ()),
    }
}

fn passed(case: &Case, finding: &Finding) -> Result<f64, Failure> {
    let fault = match finding {
        Finding::Right(share) => return Ok(*share),
        Finding::Wrong(_) => CandidateFault::WrongResult,
        Finding::InputChanged { .. } => CandidateFault::InputModified,
        Finding::BandBroken { .. } => CandidateFault::OutOfBounds,
    };
    Err(Failure::candidate(
        fault,
        format!("{}: {}", case.name(), case.words(finding)),
    ))
}

/// Buffers that hold the largest case of a problem, between inaccessible pages.
fn arena_for(problem: &Problem) -> Result<Arena, Failure> {
    let mut bytes: Vec<usize> = Vec::new();
    let largest = largest(problem);
    let sizes = problem.timed_sizes().into_iter().chain([&largest]);
    for params in sizes.chain(&problem.verify.visible) {
        let arrays = specify(problem, params)?.arrays;
        bytes.resize(arrays.len(), 0);
        for (most, array) in bytes.iter_mut().zip(&arrays) {
            *most = (*most).max(array.bytes());
        }
    }
    guarded_buffers(&bytes)
}

/// Compiles the program that computes the magnitudes of a scaled bound, if there is one.
pub(crate) fn compile_magnitude(
    sandbox: &Arc<Sandbox>,
    toolchain: &Toolchain,
    problem: &Problem,
) -> Result<Option<Object>, Failure> {
    let Some(source) = &problem.magnitude_source else {
        return Ok(None);
    };
    let mut own = problem.clone();
    let name = &problem.entry.name;
    own.entry.name = format!("{name}_magnitude");
    own.entry.prototype =
        problem
            .entry
            .prototype
            .replacen(&format!("{name}("), &format!("{name}_magnitude("), 1);
    let bytes = compile_own(sandbox, toolchain, &own, source, "magnitude.c")?;
    Ok(Some(Object {
        bytes,
        entry: own.entry.name,
    }))
}

/// Compiles a source of the problem itself, called `what`, with all techniques permitted.
pub(crate) fn compile_own(
    sandbox: &Arc<Sandbox>,
    toolchain: &Toolchain,
    problem: &Problem,
    source: &str,
    what: &str,
) -> Result<Vec<u8>, Failure> {
    Compiler::new(Arc::clone(sandbox), toolchain.clone())
        .compile_as(Language::C, problem, source, TechniqueSet::all())
        .map(|built| built.object)
        .map_err(|failure| match failure {
            Failure::Candidate { fault, detail } => Failure::infrastructure(
                InfrastructureCause::Baseline,
                format!(
                    "the problem's {what} is refused ({fault}): {}",
                    detail.replace("kernel.c:", &format!("{what}:"))
                ),
            ),
            other => other,
        })
}
