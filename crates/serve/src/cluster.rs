//! Evaluates programs on the workers of a cluster, many at a time.
//!
//! Programs are candidates of runs without an archive ([`flopsmith_run::farm`]): a run for screenings and rankings and one for
//! certifications, each over all kernels, and a run of its own for each selection of workloads and for each module, whose name
//! may be that of a kernel. The workers of a class measure the plain reference of a problem once in a run, so a run that is older
//! than `--refresh` is followed by another one. A program whose run is gone from the bus is sent again. Runs that a killed process
//! left are withdrawn at the start.
//!
//! Programs for modules go to queues of their own, which only workers with PyTorch serve (`worker --modules`). While there are none,
//! such programs are refused, and those under way end after a while, so they do not fill the places of kernels.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use flopsmith_problem::Problem;
use flopsmith_protocol::{
    Digest, Failure, InfrastructureCause, MachineFacts, Outcome, RunId, Verdict,
};
use flopsmith_run::farm::{self, Farm, Link, Standard, Ways};
use flopsmith_run::local::unix_ms;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::cache::Cache;
use crate::job::lock;
use crate::journal::write;
use crate::program::{Judge, Judged, Program, permitted};
use crate::reference::{Grade, Reference};
use crate::station::Settings;
use crate::wire::Purpose;

mod told;

use told::told;

/// Number of programs that the workers have at a time.
pub const AT_ONCE: usize = 256;
/// Number of runs of kernels that stay open, and of runs of modules; requests choose the selections of workloads.
const OPEN: usize = 8;
/// Number of looks in a row at which no worker takes modules before programs for modules do not wait any longer. There are as many in
/// the time of [`Cluster::silence`].
const LOOKS: u32 = 4;
/// Number of references that are remembered.
const REMEMBERED: usize = 1024;
/// Time for which a program is sent again that cannot be sent, or whose run is gone.
const PATIENCE: Duration = Duration::from_secs(60);
/// See [`Cluster::again`].
const AGAIN: Duration = Duration::from_secs(2);
/// See [`Cluster::silence`].
const SILENCE: Duration = Duration::from_secs(120);
/// Length of the definitions that a run has, bytes. A bus takes messages of a mebibyte.
const MOST_BYTES: usize = 512 << 10;
/// The file in the folder that names the open runs.
const FILE: &str = "cluster-runs.json";

/// The workers of a cluster.
pub struct Cluster {
    ways: Ways,
    link: Link,
    settings: Settings,
    /// The problems of the runs that have all.
    problems: Vec<Arc<Problem>>,
    cache: Arc<Cache>,
    stopping: CancellationToken,
    runs: Mutex<Runs>,
    pulse: Arc<Mutex<Pulse>>,
    /// Time without an outcome after which the workers do not seem to answer.
    silence: Duration,
    /// Pause between two tries.
    again: Duration,
}

#[derive(Default)]
struct Runs {
    /// The most recently used first.
    open: VecDeque<Run>,
    /// The threads of runs that get no more programs.
    ending: Vec<JoinHandle<()>>,
    /// Number of runs so far.
    count: u32,
    /// References by run and problem.
    references: HashMap<(RunId, Digest), Reference>,
    /// The attestations that are in the folder.
    attested: HashSet<Digest>,
}

/// A run that takes programs. It ends with its inbox, once these are decided.
struct Run {
    grade: Grade,
    /// Its problem, if it has one only.
    only: Option<Digest>,
    /// True if its problem is a module.
    of_module: bool,
    id: RunId,
    began: Instant,
    /// Ends it before its programs are decided.
    stop: CancellationToken,
    inbox: UnboundedSender<(Sender<Reply>, farm::Program)>,
    thread: JoinHandle<()>,
}

/// An outcome, and the machine that measured it.
type Reply = (Outcome, Option<MachineFacts>);

/// The state of the cluster, for `/v1/health`.
struct Pulse {
    /// Number of programs that the workers have: for kernels, and for modules.
    under_way: [usize; 2],
    /// The last outcome of a kernel, or the first program for one after which there was none under way. The first outcome of a module
    /// may take long.
    heard: Instant,
    /// The last failure, if nothing succeeded since.
    trouble: Option<(Instant, String)>,
}

/// The state of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterHealth {
    /// Whether it answers.
    pub answers: bool,
    /// The trouble if it does not; null if it does.
    pub why: Option<String>,
    /// The class of the machines that time the programs.
    pub machine_class: String,
    /// Number of programs that the workers have.
    pub under_way: usize,
}

impl Runs {
    /// These runs get no more programs.
    fn retire(&mut self, which: impl Fn(&Run) -> bool) {
        let all = std::mem::take(&mut self.open).into_iter();
        let (gone, open): (VecDeque<Run>, VecDeque<Run>) = all.partition(which);
        self.open = open;
        self.ending.retain(|thread| !thread.is_finished());
        self.ending.extend(gone.into_iter().map(|run| run.thread));
    }
}

impl Cluster {
    /// Connects to a cluster. `problems` are those of most programs; others get runs of their own.
    ///
    /// # Errors
    /// The bus or the store cannot be used.
    pub fn open(
        ways: Ways,
        settings: Settings,
        problems: Vec<Arc<Problem>>,
        cache: Arc<Cache>,
        stopping: CancellationToken,
    ) -> Result<Self> {
        let link = Link::open(&ways)?;
        let mut bytes = 0;
        let problems = problems.into_iter().filter(|p| !p.needs_pytorch());
        let problems = problems.filter(|problem| {
            let files = serde_json::to_vec(&problem.files());
            bytes += files.map_or(MOST_BYTES, |files| files.len());
            bytes <= MOST_BYTES
        });
        let cluster = Self {
            problems: problems.collect(),
            ways,
            link,
            settings,
            cache,
            stopping,
            runs: Mutex::default(),
            pulse: Arc::new(Mutex::new(Pulse {
                under_way: [0; 2],
                heard: Instant::now(),
                trouble: None,
            })),
            silence: SILENCE,
            again: AGAIN,
        };
        cluster.end_earlier_runs();
        Ok(cluster)
    }

    /// The reason why no worker evaluates programs for a problem now, with what to do about it; none if nothing is known to be
    /// missing. Only workers that need PyTorch are looked for. Blocks.
    pub fn lacks(&self, problem: &Problem) -> Option<String> {
        if !problem.needs_pytorch() {
            return None;
        }
        match self.link.has_workers(problem) {
            Ok(true) => None,
            Ok(false) => Some(nobody(&self.ways)),
            Err(error) => Some(format!("{error:#}")),
        }
    }

    /// The state of the cluster.
    pub fn health(&self) -> ClusterHealth {
        let pulse = lock(&self.pulse);
        let class = &self.ways.machine_class;
        let silent = pulse.heard.elapsed();
        let why = if !self.link.is_connected() {
            Some("the connection to the broker is down".to_owned())
        } else if pulse.trouble.is_some() {
            Some("programs cannot be sent to the workers; the log of the service says why".into())
        } else if pulse.under_way[0] > 0 && silent > self.silence {
            Some(format!(
                "there was no outcome for {} s; check that workers of machine class `{class}` are at work (`flopsmith top --nats URL`)",
                silent.as_secs()
            ))
        } else {
            None
        };
        ClusterHealth {
            answers: why.is_none(),
            why,
            machine_class: class.clone(),
            under_way: pulse.under_way.iter().sum(),
        }
    }

    /// Ends all runs. The caller has cancelled the service, or waits for the programs that are under way.
    pub fn close(&self) {
        let ending = {
            let mut runs = lock(&self.runs);
            runs.retire(|_| true);
            self.note(&runs);
            std::mem::take(&mut runs.ending)
        };
        for thread in ending {
            if thread.join().is_err() {
                tracing::warn!("the thread of a run panicked");
            }
        }
    }

    fn file(&self) -> PathBuf {
        self.cache.folder().join(FILE)
    }

    fn end_earlier_runs(&self) {
        let noted = std::fs::read(self.file()).unwrap_or_default();
        let earlier: Vec<RunId> = serde_json::from_slice(&noted).unwrap_or_default();
        for run in earlier {
            if let Err(error) = self.link.withdraw(&run) {
                tracing::warn!(%run, error = %format!("{error:#}"), "a run of an earlier process cannot be withdrawn");
            }
        }
    }

    /// Notes the open runs for a later process.
    fn note(&self, runs: &Runs) {
        let ids: Vec<&RunId> = runs.open.iter().map(|run| &run.id).collect();
        if let Err(error) = write(&self.file(), &ids) {
            tracing::warn!(%error, "the names of the runs cannot be written");
        }
    }

    /// Evaluates a program; blocks.
    fn evaluate(&self, program: &Program) -> Result<Judged, Failure> {
        if let Some(known) = self.cache.look_up(program, unix_ms()) {
            return Ok(known);
        }
        let mut failing = None;
        loop {
            let answered = self.ask(program);
            let judged = answered.and_then(|(run, reply)| self.judged(program, &run, reply));
            let error = match judged {
                Ok(judged) => return Ok(judged),
                Err(error) => format!("{error:#}"),
            };
            if self.stopping.is_cancelled() {
                let why = "the service is stopping";
                return Err(Failure::infrastructure(InfrastructureCause::Shutdown, why));
            }
            if let Some(why) = self.lacks(&program.problem) {
                return Err(Failure::infrastructure(InfrastructureCause::Bus, why));
            }
            if failing.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                let why = format!("the cluster cannot evaluate the program: {error}");
                return Err(Failure::infrastructure(InfrastructureCause::Bus, why));
            }
            tracing::warn!(%error, "a program is sent to the cluster again");
            std::thread::park_timeout(self.again);
        }
    }

    /// Sends a program, and waits for its outcome. An error if its run ends before.
    fn ask(&self, program: &Program) -> Result<(RunId, Reply)> {
        let (reply, answer) = channel();
        let (run, stop) = self.send(program, reply)?;
        let kind = usize::from(program.problem.needs_pytorch());
        {
            let mut pulse = lock(&self.pulse);
            if kind == 0 && pulse.under_way[kind] == 0 {
                pulse.heard = Instant::now();
            }
            pulse.under_way[kind] += 1;
        }
        let answered = self.wait(&program.problem, &run, &answer, &stop);
        let mut pulse = lock(&self.pulse);
        pulse.under_way[kind] -= 1;
        if answered.is_ok() {
            if kind == 0 {
                pulse.heard = Instant::now();
            }
            pulse.trouble = None;
        }
        drop(pulse);
        if answered.is_err() {
            lock(&self.runs).retire(|open| open.id == run);
        }
        Ok((run, answered?))
    }

    /// Waits for the outcome of a program. An error if its run ends before; a run of a module is ended if no worker takes modules for a
    /// while.
    fn wait(
        &self,
        problem: &Problem,
        run: &RunId,
        answer: &Receiver<Reply>,
        stop: &CancellationToken,
    ) -> Result<Reply> {
        let ended = || format!("{run} ended before the program was decided");
        if !problem.needs_pytorch() {
            return answer.recv().with_context(ended);
        }
        let mut without = 0;
        while without < LOOKS {
            match answer.recv_timeout(self.silence / LOOKS) {
                Ok(reply) => return Ok(reply),
                Err(RecvTimeoutError::Disconnected) => bail!(ended()),
                // A bus that does not answer says nothing of the workers.
                Err(RecvTimeoutError::Timeout) => match self.link.has_workers(problem) {
                    Ok(false) => without += 1,
                    Ok(true) | Err(_) => without = 0,
                },
            }
        }
        stop.cancel();
        self.link.withdraw(run)?;
        bail!(nobody(&self.ways))
    }

    /// Sends a program to the run for it, which the token ends.
    fn send(&self, program: &Program, reply: Sender<Reply>) -> Result<(RunId, CancellationToken)> {
        let mut runs = lock(&self.runs);
        let run = self.run_for(&mut runs, program)?;
        let (id, stop) = (run.id.clone(), run.stop.clone());
        let sent = run.inbox.unbounded_send((
            reply,
            farm::Program {
                problem: program.problem.id.clone(),
                permitted: permitted(&program.problem),
                full: program.purpose != Purpose::Screen,
                language: program.language.unless(program.problem.language),
                source: program.source.clone(),
            },
        ));
        if sent.is_err() {
            runs.retire(|open| open.id == id);
            bail!("{id} takes no programs any more");
        }
        Ok((id, stop))
    }

    /// The run for a program, which is begun if it is not open.
    fn run_for<'a>(&self, runs: &'a mut Runs, program: &Program) -> Result<&'a Run> {
        let problem = &program.problem;
        let mut common = self.problems.iter();
        let is_common = common.any(|other| other.digest == problem.digest);
        let only = (!is_common).then(|| problem.digest.clone());
        let grade = Grade::of(program.purpose);
        let is_it = |run: &Run| run.grade == grade && run.only == only;
        let refresh = self.settings.refresh;
        runs.retire(|run| is_it(run) && run.began.elapsed() > refresh);
        let place = runs.open.iter().position(is_it);
        if let Some(run) = place.and_then(|place| runs.open.remove(place)) {
            runs.open.push_front(run);
        } else {
            runs.count += 1;
            let run = self.begin(grade, problem, only, runs.count)?;
            runs.open.push_front(run);
            // A client with many modules ends no run of kernels.
            let of_module = problem.needs_pytorch();
            let mut alike = runs.open.iter().filter(|run| run.of_module == of_module);
            if let Some(oldest) = alike.nth(OPEN).map(|run| run.id.clone()) {
                runs.retire(|run| run.id == oldest);
            }
            self.note(runs);
        }
        runs.open.front().context("no run is open")
    }

    /// Begins a run. While this fails, it is not tried for each of the programs that wait.
    fn begin(
        &self,
        grade: Grade,
        problem: &Arc<Problem>,
        only: Option<Digest>,
        number: u32,
    ) -> Result<Run> {
        if let Some((at, why)) = &lock(&self.pulse).trouble
            && at.elapsed() < self.again
        {
            bail!("{why}");
        }
        let (problems, workloads) = match &only {
            None => (self.problems.clone(), Vec::new()),
            Some(_) => {
                let named = problem.workloads.iter();
                let names = named.map(|workload| workload.name.clone());
                (vec![Arc::clone(problem)], names.collect())
            }
        };
        let (standard, full) = match grade {
            Grade::Quick => (Standard::Screen, Standard::Rank),
            Grade::Refined => (Standard::Certify, Standard::Certify),
        };
        let ways = Ways {
            machine_class: self.link.class_for(problem)?.to_string(),
            ..self.ways.clone()
        };
        let opened = Farm::open(
            &ways,
            &farm::Order {
                name: &format!("serve-{}-{number}", grade.name()),
                problems: &problems,
                workloads: &workloads,
                compiler: &self.settings.compiler,
                standard,
                full,
                threads: self.settings.threads,
                sanitize: self.settings.sanitize || grade == Grade::Refined,
            },
        );
        let mut farm = opened.inspect_err(|error| fail(&self.pulse, error))?;
        farm.set_silence(self.silence);
        lock(&self.pulse).trouble = None;
        let id = farm.run().clone();
        let (inbox, programs) = unbounded::<(Sender<Reply>, farm::Program)>();
        let stop = self.stopping.child_token();
        let (stopped, pulse) = (stop.clone(), Arc::clone(&self.pulse));
        let thread = std::thread::Builder::new().name("run".into());
        let thread = thread.spawn(move || {
            let evaluated = farm.evaluate_stream(programs, &stopped, |reply, outcome, machine| {
                // The request waits for it, unless the service ends.
                let _ = reply.send((outcome, machine.cloned()));
                Ok(())
            });
            if let Err(error) = evaluated {
                fail(&pulse, &error);
            }
        });
        Ok(Run {
            grade,
            only,
            of_module: problem.needs_pytorch(),
            id,
            began: Instant::now(),
            stop,
            inbox,
            thread: thread.context("cannot start the thread of a run")?,
        })
    }

    /// The result of a program of a run, in the reference of the run.
    fn judged(&self, program: &Program, run: &RunId, reply: Reply) -> Result<Judged> {
        let (outcome, machine) = reply;
        let mut verdict = outcome.verdict;
        let reference = self.reference(program, run, &verdict)?;
        if let (Verdict::Measured { measurement }, Some(reference)) = (&mut verdict, &reference) {
            let speeds = &reference.speeds;
            measurement.tell_in(speeds.gflops, &reference.of_each, speeds.peak_gflops);
        }
        if let Some(machine) = machine {
            self.keep_attestation(&machine);
        }
        let seconds: f32 = outcome.stage_seconds.iter().sum();
        let (speeds, circumstances) =
            reference.map_or((None, None), |r| (Some(r.speeds), Some(r.circumstances)));
        let judged = Judged {
            verdict,
            techniques: outcome.techniques,
            vector_bits: outcome.vector_bits,
            // An outcome says nothing about these.
            warnings: String::new(),
            sanitizers: None,
            machine_busy: None,
            reference: speeds,
            circumstances,
            cached: false,
            took: Some(Duration::try_from_secs_f32(seconds).unwrap_or_default()),
        };
        if let Err(error) = self.cache.keep(program, &judged) {
            tracing::warn!(%error, "a result cannot be kept");
        }
        Ok(judged)
    }

    /// The reference that the numbers of a run refer to. None if the verdict has no numbers and nobody has measured the
    /// reference, as far as the service knows.
    fn reference(
        &self,
        program: &Program,
        run: &RunId,
        verdict: &Verdict,
    ) -> Result<Option<Reference>> {
        let problem = &program.problem;
        let key = (run.clone(), problem.digest.clone());
        let known = lock(&self.runs).references.get(&key).cloned();
        if known.is_some() || verdict.measurement().is_none() {
            return Ok(known);
        }
        let (chains, facts) = self
            .link
            .reference(run, problem)?
            .with_context(|| format!("{run} has no reference of {} any more", problem.id))?;
        let grade = Grade::of(program.purpose);
        let sanitize = self.settings.sanitize;
        let reference = told(problem, run, chains, &facts, sanitize)?;
        // Another request of the run may have asked meanwhile: both tell the same reference.
        let reference = {
            let mut runs = lock(&self.runs);
            if runs.references.len() >= REMEMBERED {
                runs.references.clear();
            }
            runs.references.entry(key).or_insert(reference).clone()
        };
        if let Err(error) = self.cache.keep_reference(problem, grade, &reference) {
            tracing::warn!(%error, "a reference cannot be kept");
        }
        let refresh = self.settings.refresh;
        self.cache.refer_to(problem, grade, &reference, refresh);
        Ok(Some(reference))
    }

    fn keep_attestation(&self, machine: &MachineFacts) {
        let (digest, json) = (&machine.attestation, &machine.attestation_json);
        if !lock(&self.runs).attested.insert(digest.clone()) {
            return;
        }
        if let Err(error) = self.cache.keep_attestation(digest, json) {
            tracing::warn!(%error, "an attestation cannot be kept");
        }
    }
}

impl Judge for Arc<Cluster> {
    fn judge(&mut self, program: &Program) -> Judged {
        self.evaluate(program).unwrap_or_else(Judged::failed)
    }
}

/// Says that no worker takes modules, and what to do about it.
fn nobody(ways: &Ways) -> String {
    format!(
        "no worker of machine class `{}` takes modules of PyTorch now; start one with `flopsmith worker --modules` on a machine with PyTorch",
        ways.machine_class
    )
}

fn fail(pulse: &Mutex<Pulse>, error: &anyhow::Error) {
    let why = format!("{error:#}");
    tracing::warn!(error = %why, "the cluster cannot be used");
    lock(pulse).trouble = Some((Instant::now(), why));
}

#[cfg(test)]
mod tests;
