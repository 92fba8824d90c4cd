//! Programs that the workers of a cluster evaluate, without an archive and a generator: for labels and rewards.
//!
//! The nodes know them as a run with a name of its own. Each program is sent as a candidate, and its outcome is read from the
//! log of outcomes, so compiling, verifying and timing are those of every other run. The run is withdrawn when the [`Farm`]
//! is dropped. A [`Link`] looks at what the workers have in common.

mod link;

use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use flopsmith_actors::outcome_cache::version_with_languages;
use flopsmith_actors::registry::RunRegistry;
use flopsmith_actors::supervisor::words;
use flopsmith_bus::{Bus, LogReader, Options, RunSetup};
use flopsmith_config::Settings;
use flopsmith_problem::Problem;
use flopsmith_protocol::subjects::{self, Queue};
use flopsmith_protocol::{
    Candidate, CandidateId, CandidateRef, Digest, GroupId, Language, MachineClass, MachineFacts,
    Outcome, ProblemId, Purpose, RunId, RunSpec, TaskId, TechniqueSet, UnknownCause, Verdict,
};
use flopsmith_store::Store;
use futures::{Stream, StreamExt as _, stream};
use tokio::runtime::Runtime;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::console::{say, usage};
use crate::{broker, view};

pub use flopsmith_config::Standard;
pub use link::Link;

/// Number of times that a program is sent whose failure is not its own fault.
const ATTEMPTS: u32 = 2;
/// Programs that are under way at the same time.
const UNDER_WAY: usize = 256;
/// Time without an outcome after which the user is told that the workers do not answer.
const SILENCE: Duration = Duration::from_secs(120);
/// Time for which an outcome may still be on its way once no message of the run is left.
const ON_ITS_WAY: Duration = Duration::from_secs(5);
/// Time for which a bus is asked to forget the run.
const FAREWELL: Duration = Duration::from_secs(5);
/// Runs of this process so far: several may begin in one second, and each has a name of its own.
static RUNS: AtomicU32 = AtomicU32::new(0);

/// The ways to a cluster.
#[derive(Debug, Clone)]
pub struct Ways {
    /// URL of its broker.
    pub nats: String,
    /// Its artifact store: a folder or a URL.
    pub store: String,
    /// The class of the machines that time the programs.
    pub machine_class: String,
}

/// The problems, and how their programs are evaluated.
pub struct Order<'a> {
    /// Begins the name of the run.
    pub name: &'a str,
    /// The problems, with the workloads that were chosen.
    pub problems: &'a [Arc<Problem>],
    /// Names of the workloads, if they are not all of the problems'.
    pub workloads: &'a [String],
    /// The C compiler.
    pub compiler: &'a str,
    /// The standard of the measurements of programs that get a first look.
    pub standard: Standard,
    /// The same for programs that are verified in full.
    pub full: Standard,
    /// Number of threads that programs are timed with.
    pub threads: u32,
    /// True if sanitizers check the programs that are verified in full.
    pub sanitize: bool,
}

/// A program to evaluate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its problem, one of the order's.
    pub problem: ProblemId,
    /// The techniques that it may use.
    pub permitted: TechniqueSet,
    /// True if it is verified in full, as a number to publish needs; otherwise it gets a first look.
    pub full: bool,
    /// Its language, if that is not the problem's own.
    pub language: Option<Language>,
    /// Its source.
    pub source: String,
}

/// A run of given programs on the workers of a cluster.
pub struct Farm {
    runtime: Runtime,
    bus: Bus,
    log: LogReader<Outcome>,
    run: RunId,
    class: MachineClass,
    /// True if programs that are verified in full are certified.
    certifies: bool,
    /// Number of programs so far, which name their tasks.
    sent: u32,
    /// The machines that have measured programs, by the digests of their attestations.
    machines: HashMap<Digest, MachineFacts>,
    silence: Duration,
}

/// A program that is under way, with the caller's tag of it.
struct Asked<T, P> {
    tag: T,
    program: P,
    task: u32,
    attempt: u32,
}

impl Farm {
    /// Makes the run known to the nodes of a cluster.
    ///
    /// # Errors
    /// The bus or the store cannot be used, or there is no problem.
    pub fn open(ways: &Ways, order: &Order<'_>) -> Result<Self> {
        let store = Store::open(&ways.store).map_err(|e| usage(words(&e)))?;
        let options = broker::options(&ways.nats);
        Self::with(options, Some(store), ways, order)
    }

    fn with(
        options: Options,
        store: Option<Store>,
        ways: &Ways,
        order: &Order<'_>,
    ) -> Result<Self> {
        let class = MachineClass::new(&ways.machine_class).map_err(|e| usage(e.to_string()))?;
        let run = RunId::new(format!(
            "{}-{}-{}-{}",
            order.name,
            view::stamp(),
            std::process::id(),
            RUNS.fetch_add(1, Ordering::Relaxed)
        ))?;
        let runtime = runtime()?;
        let (bus, log) = runtime.block_on(async {
            let bus = Bus::connect(options).await?;
            bus.ensure_streams(&RunSetup::default()).await?;
            let identity = match &store {
                Some(store) => Some(store.identity().await?),
                None => None,
            };
            let spec = spec(&run, &class, identity, order)?;
            let log = bus.log::<Outcome>(&subjects::outcome(&run), 0).await?;
            RunRegistry::open(&bus).await?.announce_new(&spec).await?;
            anyhow::Ok((bus, log))
        })?;
        Ok(Self {
            runtime,
            bus,
            log,
            run,
            class,
            certifies: order.full == Standard::Certify,
            sent: 0,
            machines: HashMap::new(),
            silence: SILENCE,
        })
    }

    /// The run, as the nodes know it.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// Sets the time without an outcome after which the farm looks whether its programs are still queued, and says that the
    /// workers do not answer.
    pub fn set_silence(&mut self, silence: Duration) {
        self.silence = silence;
    }

    /// Evaluates programs, and hands over each number with its outcome and the machine that measured it, in the order in which
    /// outcomes arrive. An outcome that is not the program's own fault comes after [`ATTEMPTS`] of them. False if a stop was
    /// requested.
    ///
    /// # Errors
    /// The bus fails, no role processes the programs, or `each` fails.
    pub fn evaluate(
        &mut self,
        programs: &[Program],
        stopped: &CancellationToken,
        each: impl FnMut(usize, Outcome, Option<&MachineFacts>) -> Result<()>,
    ) -> Result<bool> {
        let numbered = stream::iter(programs.iter().enumerate());
        self.evaluate_stream(numbered, stopped, each)
    }

    /// The same of programs that come one by one, each with a tag that is handed over with its outcome, until the end of the
    /// stream.
    ///
    /// # Errors
    /// As [`Farm::evaluate`].
    pub fn evaluate_stream<T, P: Borrow<Program>>(
        &mut self,
        mut programs: impl Stream<Item = (T, P)> + Unpin,
        stopped: &CancellationToken,
        mut each: impl FnMut(T, Outcome, Option<&MachineFacts>) -> Result<()>,
    ) -> Result<bool> {
        let runtime = self.runtime.handle().clone();
        runtime.block_on(async {
            let mut open = true;
            let mut waiting: HashMap<CandidateId, Asked<T, P>> = HashMap::new();
            // New programs do not show that anybody works.
            let mut idle_since = Instant::now();
            let mut left = true;
            while open || !waiting.is_empty() {
                let silence = match left {
                    true => self.silence,
                    false => self.silence.min(ON_ITS_WAY),
                };
                let outcome = tokio::select! {
                    biased;
                    () = stopped.cancelled() => return Ok(false),
                    next = programs.next(), if open && waiting.len() < UNDER_WAY => {
                        let Some((tag, program)) = next else {
                            open = false;
                            continue;
                        };
                        if waiting.is_empty() {
                            idle_since = Instant::now();
                        }
                        let task = self.sent;
                        self.sent += 1;
                        let asked = Asked { tag, program, task, attempt: 0 };
                        let id = self.send(&asked).await?;
                        waiting.insert(id, asked);
                        continue;
                    }
                    // A log that nobody reads for a while is lost, so it is read while nothing is under way, too.
                    next = timeout_at(idle_since + silence, self.log.next()) => match next {
                        Ok(next) => next?.1,
                        Err(_) => {
                            if !waiting.is_empty() {
                                left = self.is_left(waiting.len(), left).await?;
                            }
                            idle_since = Instant::now();
                            continue;
                        }
                    },
                };
                idle_since = Instant::now();
                left = true;
                let Some(asked) = waiting.remove(&outcome.candidate.id) else {
                    continue;
                };
                let attempt = asked.attempt + 1;
                if is_final(&outcome.verdict) || attempt == ATTEMPTS {
                    let measurement = outcome.verdict.measurement();
                    let attestation = measurement.map(|m| m.attestation.clone());
                    let machine = match &attestation {
                        Some(digest) => self.machine(digest).await?,
                        None => None,
                    };
                    each(asked.tag, outcome, machine)?;
                    continue;
                }
                tracing::warn!(
                    id = %outcome.candidate.id, kind = outcome.verdict.kind(), detail = detail(&outcome.verdict),
                    "a program is evaluated once more"
                );
                let asked = Asked { attempt, ..asked };
                let id = self.send(&asked).await?;
                waiting.insert(id, asked);
            }
            Ok(true)
        })
    }

    /// The machine with this attestation, which its node published before its first outcome.
    async fn machine(&mut self, attestation: &Digest) -> Result<Option<&MachineFacts>> {
        if !self.machines.contains_key(attestation) {
            let subject = subjects::machine(&self.run);
            let mut log = self.bus.log::<MachineFacts>(&subject, 0).await?;
            let said = log.replay().await?.into_iter();
            self.machines
                .extend(said.map(|(_, facts)| (facts.attestation.clone(), facts)));
        }
        Ok(self.machines.get(attestation))
    }

    async fn send<T, P: Borrow<Program>>(&self, asked: &Asked<T, P>) -> Result<CandidateId> {
        let program: &Program = asked.program.borrow();
        let task = TaskId::of(&self.run, 0, asked.task);
        let id = CandidateId::of(&task, asked.attempt);
        let message = Candidate {
            candidate: CandidateRef {
                id: id.clone(),
                run: self.run.clone(),
                group: GroupId::of(&task),
                task,
                step: 0,
                tasks_in_step: 1,
                group_size: ATTEMPTS,
                sample: asked.attempt,
                problem: program.problem.clone(),
                stage: 0,
                permitted: program.permitted,
                purpose: match program.full {
                    // A program that is measured once more gets a full look.
                    true => Purpose::Certify,
                    false => Purpose::Search,
                },
                policy: None,
                remeasures: None,
                machine_class: self.class.clone(),
                exploration: false,
                finalist: self.certifies && program.full,
                follows: None,
                language: program.language,
            },
            source: program.source.clone(),
            answer: None,
        };
        let queue = Queue::compile(&self.class).of(&self.run);
        self.bus.publish(&queue, &message).await?;
        Ok(id)
    }

    /// True if a message of the run is queued or in work. The last outcome may arrive while this is asked, so the outcomes are
    /// missing for good only if no message was left `before` either.
    async fn is_left(&self, waiting: usize, before: bool) -> Result<bool> {
        if self.bus.queued(&self.run).await? == 0 {
            anyhow::ensure!(
                before,
                "{waiting} programs have no outcome, because no role could process their messages (see `flopsmith dead list`)"
            );
            return Ok(false);
        }
        say(&format!(
            "still waiting for {waiting} measurements; check that workers of machine class `{}` are at work (`flopsmith top --nats URL`)",
            self.class
        ));
        Ok(true)
    }
}

impl Drop for Farm {
    fn drop(&mut self) {
        let (bus, run) = (&self.bus, &self.run);
        let withdraw = async {
            RunRegistry::open(bus).await?.withdraw(run).await?;
            anyhow::Ok(bus.drain().await?)
        };
        let withdrawn = self
            .runtime
            .block_on(async { tokio::time::timeout(FAREWELL, withdraw).await });
        let error = match withdrawn {
            Ok(Ok(())) => return,
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "the bus does not answer".to_owned(),
        };
        say(&format!(
            "warning: the nodes still know {}: {error}; `flopsmith cluster stop {}` ends it",
            self.run, self.run
        ));
    }
}

/// A runtime beside the caller's threads.
fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start the async runtime")
}

/// The specification by which nodes know the run.
fn spec(
    run: &RunId,
    class: &MachineClass,
    store: Option<String>,
    order: &Order<'_>,
) -> Result<RunSpec> {
    let (first, others) = order
        .problems
        .split_first()
        .context("there is no problem to evaluate programs for")?;
    let mut settings = Settings {
        problem: String::new(),
        problems: order.problems.iter().map(|p| p.id.to_string()).collect(),
        workloads: order.workloads.to_vec(),
        threads: order.threads,
        machine_class: class.to_string(),
        ..Settings::default()
    };
    settings.evaluate.workers = true;
    settings.evaluate.compiler = order.compiler.to_owned();
    settings.evaluate.purpose = order.standard;
    settings.evaluate.again = order.full;
    settings.evaluate.sanitize = order.sanitize;
    Ok(RunSpec {
        run: run.clone(),
        version: version_with_languages(),
        problem: first.files(),
        others: others.iter().map(|problem| problem.files()).collect(),
        settings_json: serde_json::to_string(&settings)?,
        machine_class: class.clone(),
        trains: false,
        model: Vec::new(),
        store,
        session: None,
    })
}

/// True if another try would find the same. A program that only a GPU can time has been verified, and is not verified again.
fn is_final(verdict: &Verdict) -> bool {
    let not_timed = UnknownCause::NotTimed;
    verdict.counts() || matches!(verdict, Verdict::Unknown { cause, .. } if *cause == not_timed)
}

fn detail(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Infrastructure { detail, .. } | Verdict::Unknown { detail, .. } => detail,
        Verdict::Measured { .. } | Verdict::Rejected { .. } => "",
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
