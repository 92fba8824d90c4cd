//! Verification: is what a program computes right, for inputs it has never seen?
//!
//! One jail start per candidate. The inputs, the expected results and the
//! bounds stay with the supervisor; the candidate's process sees only arrays.
//! The cheapest cases come first and the first failure ends it.

pub(crate) mod cases;
mod content;
pub(crate) mod oracle;
mod sizes;
pub mod soundness;
pub mod weakness;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flopsmith_harness::Waiting;
use flopsmith_problem::{Distribution, Params, Problem};
use flopsmith_protocol::{CandidateFault, InfrastructureCause, TechniqueSet};
use flopsmith_sandbox::Sandbox;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::Failure;
use crate::compile::Compiler;
use crate::supervise::{Arena, Placing, Process, Setup, plan, specify};
use crate::toolchain::Toolchain;
use cases::{Case, Finding, Yardstick};
use sizes::{Sizes, largest};

/// Candidates that are verified between two renewals of a case.
const RENEW_EVERY: u32 = 64;
/// Which of the chosen cases is of the timed size and uneven.
const UNEVEN: usize = 3;
/// Processor time a candidate may use for all its cases.
const CPU_LIMIT: Duration = Duration::from_secs(60);

/// What a passed verification saw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report {
    /// Calls that were checked.
    pub cases: u32,
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
    threads: u32,
    reference: Vec<u8>,
    magnitude: Option<Object>,
    arena: Arena,
    pool: Pool,
    rng: ChaCha8Rng,
    since_renewal: u32,
}

/// A compiled program of the problem's own.
pub(crate) struct Object {
    /// The shared object.
    pub bytes: Vec<u8>,
    /// Name of its function.
    pub entry: String,
}

/// The secret cases, by what they are for.
struct Pool {
    /// The smallest sizes, where loops do not fill a vector or do not run at all.
    edge: Vec<Case>,
    /// Small hidden sizes: wrong programs fail here within a millisecond.
    small: Vec<Case>,
    /// The timed size; the first has uniform inputs, as timed calls have, the others uneven ones where the problem
    /// has such: every candidate meets one of each.
    timed: Vec<Case>,
    /// Hidden sizes from the timed one upwards.
    large: Vec<Case>,
    /// The largest size: now and then.
    largest: Vec<Case>,
}

impl Pool {
    fn groups(&mut self) -> [&mut Vec<Case>; 5] {
        [
            &mut self.edge,
            &mut self.small,
            &mut self.timed,
            &mut self.large,
            &mut self.largest,
        ]
    }
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
        let arena = arena_for(&problem)?;
        let mut verifier = Self {
            sandbox,
            harness,
            threads: problem.threads.iter().copied().max().unwrap_or(1),
            problem,
            reference,
            magnitude,
            arena,
            pool: Pool {
                edge: vec![],
                small: vec![],
                timed: vec![],
                large: vec![],
                largest: vec![],
            },
            rng: ChaCha8Rng::from_seed(seed),
            since_renewal: 0,
        };
        verifier.fill_pool()?;
        Ok(verifier)
    }

    /// Checks one compiled candidate. `rng_seed` chooses among the secret cases and where the arrays lie.
    pub fn verify(&mut self, object: &[u8], rng_seed: u64) -> Result<Report, Failure> {
        let start = Instant::now();
        self.since_renewal += 1;
        if self.since_renewal > RENEW_EVERY {
            self.refresh()?;
        }
        let mut rng = ChaCha8Rng::seed_from_u64(rng_seed ^ self.rng.random::<u64>());
        // The process before is gone, and with it whatever may still have written after it failed.
        self.arena.reset();
        let entry = self.problem.entry.name.clone();
        let mut process = self.start(object, &entry, Some(CPU_LIMIT))?;
        let mut worst: f64 = 0.0;
        let mut calls = 0;
        for (step, case) in self.choose(&mut rng).into_iter().enumerate() {
            let placing = match step {
                // Bands tell how far outside a program writes; inaccessible pages only kill it.
                0 => Placing::Between,
                // Where timed calls find their arrays, with inputs that they do not have.
                UNEVEN => Placing::Fixed,
                _ => [Placing::Between, Placing::AtStart, Placing::AtEnd][rng.random_range(0..3)],
            };
            // One small case is called twice: the same input must give the same bits.
            let twice = step == 0 && self.problem.deterministic;
            let outcome = self.run_case(case, &mut process, placing, twice, &mut rng)?;
            worst = worst.max(outcome);
            calls += 1 + u32::from(twice);
        }
        let stillness = process.settle()?;
        crate::supervise::judge_stillness(stillness, self.threads)?;
        process.exit()?;
        Ok(Report {
            cases: calls,
            worst_error_share: worst,
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    /// Replaces one secret case of each kind. `verify` calls it now and then.
    pub fn refresh(&mut self) -> Result<(), Failure> {
        self.since_renewal = 0;
        let mut yardstick = self.start_yardstick()?;
        let mut rng = ChaCha8Rng::seed_from_u64(self.rng.random());
        for group in self.pool.groups() {
            // The largest size costs as much as all others together.
            let spare = group
                .first()
                .is_none_or(|c| c.specification.arrays.iter().any(|a| a.bytes() > (1 << 20)));
            if spare && rng.random_range(0..8) != 0 {
                continue;
            }
            let n = rng.random_range(0..group.len());
            let params = group[n].params.clone();
            let distribution = match n {
                0 => group[0].distribution,
                _ if group[n].distribution.is_uneven() => {
                    uneven_distribution(&self.problem, &mut rng)
                }
                _ => other_distribution(&self.problem, &mut rng),
            };
            group[n] = Case::draw(
                &self.problem,
                params,
                distribution,
                &self.arena,
                &mut yardstick,
                &mut rng,
            )?;
        }
        yardstick.exit()
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
            cores: None,
            waiting: Waiting::Sleep,
            cpu_limit,
        };
        Process::start(&setup, object)
    }

    fn start_yardstick(&self) -> Result<Yardstick, Failure> {
        let start = |object: &[u8], entry: &str, what: &str| {
            self.start(object, entry, None)
                .map_err(|failure| match failure {
                    Failure::Candidate { detail, .. } => Failure::infrastructure(
                        InfrastructureCause::Baseline,
                        format!("the problem's own {what} cannot be run: {detail}"),
                    ),
                    other => other,
                })
        };
        Ok(Yardstick {
            reference: start(&self.reference, &self.problem.entry.name, "reference")?,
            magnitude: self
                .magnitude
                .as_ref()
                .map(|m| start(&m.bytes, &m.entry, "magnitude.c"))
                .transpose()?,
        })
    }

    fn fill_pool(&mut self) -> Result<(), Failure> {
        let mut yardstick = self.start_yardstick()?;
        let problem = Arc::clone(&self.problem);
        let mut rng = ChaCha8Rng::seed_from_u64(self.rng.random());
        let mut draw = |params: Params, distribution: Distribution, rng: &mut ChaCha8Rng| {
            Case::draw(
                &problem,
                params,
                distribution,
                &self.arena,
                &mut yardstick,
                rng,
            )
        };
        let sizes = Sizes { problem: &problem };
        for n in 0..3 {
            let params = sizes.edge(n == 0, &mut rng);
            let content = other_distribution(&problem, &mut rng);
            self.pool.edge.push(draw(params, content, &mut rng)?);
        }
        for _ in 0..3 {
            let params = sizes.below(&mut rng);
            let content = other_distribution(&problem, &mut rng);
            self.pool.small.push(draw(params, content, &mut rng)?);
        }
        self.pool.timed.push(draw(
            problem.timed.clone(),
            Distribution::Uniform,
            &mut rng,
        )?);
        for params in problem
            .verify
            .visible
            .iter()
            .take(2)
            .chain([&problem.timed, &problem.timed])
        {
            let content = uneven_distribution(&problem, &mut rng);
            self.pool
                .timed
                .push(draw(params.clone(), content, &mut rng)?);
        }
        for n in 0..3 {
            // Above the timed size, where a program that is right only up to it fails; mostly just above, since
            // slow programs are checked as well.
            let params = sizes.above(if n == 0 { 3 } else { 1 }, &mut rng);
            let content = other_distribution(&problem, &mut rng);
            self.pool.large.push(draw(params, content, &mut rng)?);
        }
        self.pool
            .largest
            .push(draw(largest(&problem), Distribution::Uniform, &mut rng)?);
        yardstick.exit()
    }

    /// The cases of one candidate, cheapest first.
    fn choose(&self, rng: &mut ChaCha8Rng) -> Vec<&Case> {
        fn one<'a>(from: &'a [Case], rng: &mut ChaCha8Rng) -> &'a Case {
            &from[rng.random_range(0..from.len())]
        }
        let large = if rng.random_range(0..12) == 0 {
            &self.pool.largest
        } else {
            &self.pool.large
        };
        vec![
            one(&self.pool.small, rng),
            one(&self.pool.edge, rng),
            &self.pool.timed[0],
            one(&self.pool.timed[1..], rng),
            one(large, rng),
        ]
    }

    fn run_case(
        &self,
        case: &Case,
        process: &mut Process,
        placing: Placing,
        twice: bool,
        rng: &mut ChaCha8Rng,
    ) -> Result<f64, Failure> {
        let told = |failure: Failure| match failure {
            Failure::Candidate { fault, detail } => {
                Failure::candidate(fault, format!("{detail} (called with {})", case.name()))
            }
            other => other,
        };
        let placement = case.lay_out(&self.arena, placing, rng).ok_or_else(|| {
            Failure::infrastructure(
                InfrastructureCause::Harness,
                "a case does not fit the buffers",
            )
        })?;
        process.plan(&plan(&case.specification, &placement))?;
        let result = process.call(case.limit).map_err(told).and_then(|_| {
            let share = passed(case, &case.judge(&self.arena, &placement))?;
            if twice {
                let first = case.output(&self.arena, &placement);
                case.poison(&self.arena, &placement);
                process.call(case.limit).map_err(told)?;
                passed(case, &case.judge(&self.arena, &placement))?;
                let again = case.output(&self.arena, &placement);
                let differ = first.iter().zip(&again).filter(|(x, y)| x != y).count();
                if differ > 0 {
                    return Err(Failure::candidate(
                        CandidateFault::Nondeterministic,
                        format!("{differ} elements have other bits when the same inputs come again ({})", case.name()),
                    ));
                }
            }
            Ok(share)
        });
        self.arena.restore(&placement);
        result
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

fn other_distribution(problem: &Problem, rng: &mut ChaCha8Rng) -> Distribution {
    one_of(problem, rng, |d| d != Distribution::Uniform).unwrap_or(Distribution::Uniform)
}

/// One that methods with errors in proportion to the largest element fail on.
fn uneven_distribution(problem: &Problem, rng: &mut ChaCha8Rng) -> Distribution {
    one_of(problem, rng, Distribution::is_uneven)
        .unwrap_or_else(|| other_distribution(problem, rng))
}

fn one_of(
    problem: &Problem,
    rng: &mut ChaCha8Rng,
    wanted: impl Fn(Distribution) -> bool,
) -> Option<Distribution> {
    let known = problem.verify.distributions.iter().copied();
    let fit: Vec<Distribution> = known.filter(|d| wanted(*d)).collect();
    (!fit.is_empty()).then(|| fit[rng.random_range(0..fit.len())])
}

/// Buffers that hold the largest case of a problem, between inaccessible pages.
fn arena_for(problem: &Problem) -> Result<Arena, Failure> {
    let mut bytes: Vec<usize> = Vec::new();
    for params in [&problem.timed, &largest(problem)]
        .into_iter()
        .chain(&problem.verify.visible)
    {
        let arrays = specify(problem, params)?.arrays;
        bytes.resize(arrays.len(), 0);
        for (most, array) in bytes.iter_mut().zip(&arrays) {
            *most = (*most).max(array.bytes());
        }
    }
    Arena::new(&bytes, true).map_err(|e| {
        Failure::infrastructure(
            InfrastructureCause::Resources,
            format!("no shared memory for the buffers: {e}"),
        )
    })
}

/// Compiles what computes the magnitudes of a scaled bound, where there is one.
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

/// Compiles a source of the problem itself, called `what`, with everything permitted.
pub(crate) fn compile_own(
    sandbox: &Arc<Sandbox>,
    toolchain: &Toolchain,
    problem: &Problem,
    source: &str,
    what: &str,
) -> Result<Vec<u8>, Failure> {
    Compiler::new(Arc::clone(sandbox), toolchain.clone())
        .compile(problem, source, TechniqueSet::all())
        .map(|built| built.object)
        .map_err(|failure| match failure {
            Failure::Candidate { fault, detail } => Failure::infrastructure(
                InfrastructureCause::Baseline,
                format!("the problem's {what} is refused ({fault}): {detail}"),
            ),
            other => other,
        })
}
