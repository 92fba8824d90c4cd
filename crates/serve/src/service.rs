//! The jobs of the service: requests in, answers out, and the folder between them.
//!
//! Requests come from many tasks; one thread evaluates ([`Service::work`]), or many wait for a cluster. A job is in the folder before its request is
//! answered, and an answer before anybody sees it, so that a process that is killed loses nothing that it confirmed. What
//! was being evaluated is evaluated again.

mod comparing;

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use flopsmith_problem::Problem;
use flopsmith_problem::prompt::{self, Style};
use flopsmith_protocol::{Digest, Failure, InfrastructureCause};
use flopsmith_reward::Reward;
use flopsmith_run::local::unix_ms;
use tokio_util::sync::CancellationToken;

use crate::against::Comparison;
use crate::auth::Holder;
use crate::best::{Best, List};
use crate::cache::Cache;
use crate::catalog::Catalog;
use crate::circumstances::{Circumstances, Now};
use crate::cluster::Cluster;
use crate::job::{Job, lock};
use crate::journal::{Idempotency, JobId, Journal, Kept, Order};
use crate::metrics::Metrics;
use crate::program::{Asked, Judge, Judged, Program};
use crate::queue::{Queue, Wait};
use crate::quota::Quotas;
use crate::reference::{Grade, Reference};
use crate::refusal::{Kind, MOST_MISTAKES, Mistake, Refusal};
use crate::repeats::Repeats;
use crate::tools::{AGAIN_SECONDS, Missing};
use crate::wire::{
    Answer, Candidate, DryRun, JobState, LONGEST_ID, MOST_CANDIDATES, Outcome, Purpose, Request,
    Status,
};

pub use comparing::First;

/// Number of finished jobs that stay in memory. Older ones are read from the folder.
const RECENT: usize = 64;

/// The jobs and the queue.
pub struct Service {
    state: Mutex<State>,
    /// Notified when there is a program to evaluate, or none any more.
    work: Condvar,
    /// The machine: an evaluation or a build beside the evaluations holds it. The one that waits longest gets it next.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Held while a request becomes a job: two requests with one idempotency key are one job.
    submitting: Mutex<()>,
    /// The jobs of recent requests without an idempotency key, of clients that ask again.
    repeats: Mutex<Repeats<Arc<Job>>>,
    journal: Journal,
    /// Jobs with all answers, of which the folder does not have all. They are open there.
    unwritten: Mutex<Vec<Arc<Job>>>,
    cache: Arc<Cache>,
    best: Best,
    quotas: Quotas,
    /// The circumstances of evaluations.
    circumstances: Now,
    /// The cluster whose workers evaluate; none on local cores.
    cluster: Option<Arc<Cluster>>,
    /// The tools that this machine lacks.
    missing: Missing,
    /// The problems.
    pub catalog: Catalog,
    /// The counters.
    pub metrics: Metrics,
    reward: Reward,
    most_waiting: usize,
    began: Instant,
    stopping: CancellationToken,
}

#[derive(Default)]
struct State {
    queue: Queue<Digest, JobId>,
    /// The programs of the queue.
    programs: HashMap<Digest, Arc<Program>>,
    /// Unfinished jobs, and recent ones.
    jobs: HashMap<JobId, Arc<Job>>,
    recent: VecDeque<JobId>,
    /// The number of the next order.
    number: u64,
}

/// A candidate that was checked.
enum Unit {
    Program(Arc<Program>),
    /// It needs no evaluation.
    Decided(Box<Judged>),
}

impl Service {
    /// A service on an open folder, with the unfinished jobs of the folder in its queue. It takes requests as long as at
    /// most `most_waiting` programs wait. Programs are evaluated in the `circumstances`. Cancelling `stopping` ends it.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn open(
        journal: Journal,
        cache: Arc<Cache>,
        catalog: Catalog,
        circumstances: Now,
        reward: Reward,
        most_waiting: usize,
        stopping: CancellationToken,
    ) -> io::Result<Self> {
        let quotas = Quotas::open(cache.folder(), |job| journal.has(job))?;
        let service = Self {
            state: Mutex::default(),
            work: Condvar::new(),
            turn: Arc::default(),
            submitting: Mutex::new(()),
            repeats: Mutex::default(),
            journal,
            unwritten: Mutex::default(),
            best: Best::open(cache.folder()),
            quotas,
            cache,
            circumstances,
            cluster: None,
            missing: Box::new(|_| None),
            catalog,
            metrics: Metrics::default(),
            reward,
            most_waiting,
            began: Instant::now(),
            stopping,
        };
        for kept in service.journal.unfinished()? {
            service.go_on(kept);
        }
        Ok(service)
    }

    /// The same service with its evaluations on a cluster, `at_once` at a time.
    #[must_use]
    pub fn on(mut self, cluster: Arc<Cluster>, at_once: usize) -> Self {
        lock(&self.state).queue.set_slots(at_once);
        self.cluster = Some(cluster);
        self
    }

    /// The same service, which refuses programs of problems for which this machine lacks tools.
    #[must_use]
    pub fn with_tools(self, missing: Missing) -> Self {
        Self { missing, ..self }
    }

    /// The cluster whose workers evaluate; none on local cores.
    pub fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_deref()
    }

    /// Puts an unfinished job of an earlier process into the queue.
    fn go_on(&self, kept: Kept) {
        let request = &kept.order.request;
        let asked: Vec<Asked> = (0..)
            .zip(&request.candidates)
            .map(|(n, c)| asked(n, c, request))
            .collect();
        let (created, holder) = (kept.order.created_unix_ms, kept.order.holder);
        let comparison = kept.order.comparison;
        let job = Arc::new(Job::new(kept.id, created, holder, asked, comparison));
        let answered: Vec<usize> = kept.answers.iter().map(|answer| answer.index).collect();
        let answers: Vec<Arc<Answer>> = kept.answers.into_iter().map(Arc::new).collect();
        // The earlier process was perhaps killed between an answer and this.
        self.refund(&job, &answers);
        let whole = job.add(answers);
        let units = (0..).zip(&request.candidates);
        let units = units.filter(|(index, _)| !answered.contains(index));
        let units = units.map(|(index, candidate)| {
            let unit = self.unit(candidate, request).unwrap_or_else(|mistake| {
                let why = format!(
                    "the service cannot go on with this candidate: {}",
                    mistake.detail
                );
                let failure = Failure::infrastructure(InfrastructureCause::Store, why);
                Unit::Decided(Box::new(Judged::failed(failure)))
            });
            (index, unit)
        });
        let units = units.collect();
        {
            let mut state = lock(&self.state);
            state.number = state.number.max(kept.order.number);
        }
        self.enqueue(&job, units);
        if whole {
            // The earlier process was killed before it could say so.
            self.finish(&job);
        }
    }

    /// Makes a job of a client's request, whose candidates are compared with the plain reference alone. True if an earlier request had
    /// the same idempotency key, and the job is that one's.
    ///
    /// # Errors
    /// A refusal with all mistakes of the request, or the reason why there can be no job now.
    pub fn submit(
        &self,
        request: Request,
        idempotency: Option<&Idempotency>,
        holder: Holder,
    ) -> Result<(Arc<Job>, bool), Refusal> {
        self.submit_comparing(request, Comparison::None, idempotency, holder)
    }

    /// The same with a comparison in place of the request's `against`.
    ///
    /// # Errors
    /// As [`Service::submit`].
    pub fn submit_comparing(
        &self,
        request: Request,
        comparison: Comparison,
        idempotency: Option<&Idempotency>,
        holder: Holder,
    ) -> Result<(Arc<Job>, bool), Refusal> {
        let units = self.units(&request)?;
        self.check_tools(&request, &units)?;
        let _one = lock(&self.submitting);
        if self.stopping.is_cancelled() {
            return Err(Refusal::stopping());
        }
        if let Some(wanted) = idempotency
            && let Some(job) = self.job_of_key(wanted)?
        {
            return Ok((job, true));
        }
        self.check_room(units.len(), holder)?;
        let number = {
            let mut state = lock(&self.state);
            state.number += 1;
            state.number
        };
        let candidates = request.candidates.iter();
        let asked = (0..).zip(candidates).map(|(n, c)| asked(n, c, &request));
        let (id, created) = (JobId::random(), unix_ms());
        let job = Job::new(id, created, holder, asked.collect(), comparison.clone());
        let job = Arc::new(job);
        let order = Order {
            request,
            created_unix_ms: job.created_unix_ms,
            number,
            holder,
            comparison,
        };
        // A process that is killed before the job is in the folder leaves a count that the next one gives back.
        self.quotas.charge(holder, &job.id, units.len(), created);
        let begun = match idempotency {
            Some(wanted) => self.journal.note_key(wanted, &job.id),
            None => Ok(()),
        };
        begun
            .and_then(|()| self.journal.begin(&job.id, &order))
            .map_err(|e| {
                self.quotas.forget(holder, &job.id);
                Refusal::storage(&e)
            })?;
        self.enqueue(&job, (0..).zip(units).collect());
        Ok((job, false))
    }

    /// The job of an earlier request with this idempotency key.
    fn job_of_key(&self, wanted: &Idempotency) -> Result<Option<Arc<Job>>, Refusal> {
        let known = self.journal.of_key(&wanted.key);
        let Some(known) = known.map_err(|e| Refusal::storage(&e))? else {
            return Ok(None);
        };
        if known.body != wanted.body {
            let detail =
                "this Idempotency-Key was sent with another body; use a new key for a new request";
            return Err(Refusal::new(Kind::KeyReused, detail).of_job(known.job.as_str()));
        }
        // Without a job, the process was killed before it made the job.
        self.job(&known.job).map_err(|e| Refusal::storage(&e))
    }

    /// Checks that this machine has the tools for all programs of a request.
    fn check_tools(&self, request: &Request, units: &[Unit]) -> Result<(), Refusal> {
        for (candidate, unit) in request.candidates.iter().zip(units) {
            if let Unit::Program(program) = unit
                && let Some(why) = (self.missing)(&program.problem)
            {
                let name = &candidate.problem;
                let detail = format!("programs for `{name}` cannot be evaluated here: {why}");
                return Err(Refusal::new(Kind::Infrastructure, detail).retry_after(AGAIN_SECONDS));
            }
        }
        Ok(())
    }

    /// Checks that the queue and the quota of a client have room for so many candidates.
    fn check_room(&self, candidates: usize, holder: Holder) -> Result<(), Refusal> {
        let (waiting, _) = self.waiting();
        if waiting + candidates > self.most_waiting {
            let detail = format!(
                "{waiting} programs wait, and the service lets {} wait at most; try again later, or with fewer candidates",
                self.most_waiting
            );
            let seconds = self.queue_seconds().ceil().clamp(1.0, 60.0) as u64;
            return Err(Refusal::new(Kind::Unavailable, detail).retry_after(seconds));
        }
        self.quotas.check(holder, candidates, unix_ms())
    }

    /// The effect that a client's request would have if it were submitted now.
    ///
    /// # Errors
    /// As [`Service::submit`].
    pub fn foretell(&self, request: &Request, holder: Holder) -> Result<DryRun, Refusal> {
        let mut units = self.units(request)?;
        self.check_tools(request, &units)?;
        if let Some((_, program)) = self.against(request)? {
            units.push(Unit::Program(program));
        }
        if self.stopping.is_cancelled() {
            return Err(Refusal::stopping());
        }
        self.check_room(units.len(), holder)?;
        let unknown = self.unknown(&units);
        let now = self.began.elapsed();
        let wait = lock(&self.state)
            .queue
            .wait_for(&unknown, request.purpose, now);
        let mut problems: Vec<String> = Vec::new();
        for candidate in &request.candidates {
            if !problems.contains(&candidate.problem) {
                problems.push(candidate.problem.clone());
            }
        }
        Ok(DryRun {
            problems,
            purpose: request.purpose,
            candidates: request.candidates.len(),
            evaluations: unknown.len(),
            position: wait.map(|wait| wait.position),
            expected_wait_seconds: wait.map(|wait| wait.seconds),
        })
    }

    /// Makes a job of a request, or finds the job of the request that it repeats: of one by the same client with the same digest
    /// `asked` a short time before, unless that has an answer without a reward.
    ///
    /// # Errors
    /// As [`Service::submit`].
    pub fn submit_once(
        &self,
        request: Request,
        asked: Digest,
        holder: Holder,
    ) -> Result<Arc<Job>, Refusal> {
        self.once(request, Comparison::None, asked, holder)
    }

    /// The same with a comparison in place of the request's `against`.
    fn once(
        &self,
        request: Request,
        comparison: Comparison,
        asked: Digest,
        holder: Holder,
    ) -> Result<Arc<Job>, Refusal> {
        // The job of another client counts for that one's quota.
        let asked = [asked.as_str().as_bytes(), holder.as_bytes()].concat();
        let asked = Digest::of(&asked);
        // Held until the job is noted: two requests at once are one job.
        let mut repeats = lock(&self.repeats);
        let now = self.began.elapsed();
        let known = repeats.of(&asked, now, |job| !job.has_failed(), |job| job.is_done());
        if let Some(job) = known {
            return Ok(job);
        }
        let (job, _) = self.submit_comparing(request, comparison, None, holder)?;
        repeats.note(asked, Arc::clone(&job), now);
        Ok(job)
    }

    /// Number of different programs of a request whose result is not known, and the expected time of their evaluations.
    pub fn unknown_of(&self, request: &Request) -> (u32, Duration) {
        let candidates = request.candidates.iter();
        let units = candidates.filter_map(|candidate| self.unit(candidate, request).ok());
        let units: Vec<Unit> = units.collect();
        let count = self.unknown(&units).len();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let usual = lock(&self.state).queue.usual(request.purpose);
        (count, usual.saturating_mul(count))
    }

    /// The different programs whose results are not known.
    fn unknown(&self, units: &[Unit]) -> HashSet<Digest> {
        let now = unix_ms();
        let unknown = units.iter().filter_map(|unit| match unit {
            Unit::Program(program) if self.cache.look_up(program, now).is_none() => {
                Some(program.key().clone())
            }
            Unit::Program(_) | Unit::Decided(_) => None,
        });
        unknown.collect()
    }

    /// All candidates of a request, checked.
    fn units(&self, request: &Request) -> Result<Vec<Unit>, Refusal> {
        let count = request.candidates.len();
        if count == 0 || count > MOST_CANDIDATES {
            return Err(Refusal::invalid(vec![Mistake {
                pointer: "/candidates".into(),
                detail: format!("there are {count} candidates; send 1 to {MOST_CANDIDATES}"),
            }]));
        }
        let mut units = Vec::with_capacity(count);
        let mut mistakes = Vec::new();
        for (index, candidate) in request.candidates.iter().enumerate() {
            match self.unit(candidate, request) {
                Ok(unit) => units.push(unit),
                Err(mistake) if mistakes.len() < MOST_MISTAKES => mistakes.push(Mistake {
                    pointer: format!("/candidates/{index}/{}", mistake.pointer),
                    ..mistake
                }),
                Err(_) => {}
            }
        }
        if mistakes.is_empty() {
            Ok(units)
        } else {
            Err(Refusal::invalid(mistakes))
        }
    }

    /// A candidate, checked. The pointer of a mistake is the name of its field.
    fn unit(&self, candidate: &Candidate, request: &Request) -> Result<Unit, Mistake> {
        let mistake = |field: &str, detail: String| Mistake {
            pointer: field.to_owned(),
            detail,
        };
        if candidate
            .id
            .as_ref()
            .is_some_and(|id| id.len() > LONGEST_ID)
        {
            let detail = format!("the id is longer than {LONGEST_ID} bytes; use a shorter one");
            return Err(mistake("id", detail));
        }
        let workloads = &candidate.workloads;
        let found = self.catalog.find(&candidate.problem, workloads);
        let problem = found.map_err(|why| {
            let whole = self.catalog.find(&candidate.problem, &[]);
            let field = if whole.is_ok() {
                "workloads"
            } else {
                "problem"
            };
            mistake(field, why)
        })?;
        let language = candidate.language.unwrap_or(problem.language);
        if !problem.languages().contains(&language) {
            let known: Vec<&str> = problem.languages().iter().map(|l| l.name()).collect();
            let detail = format!(
                "a program for `{}` is a {} in {}, and `language` says {}; leave it out for {}, or name the problem that the program solves",
                candidate.problem,
                problem.target(),
                known.join(", "),
                language.name(),
                problem.language.name()
            );
            return Err(mistake("language", detail));
        }
        let source = match (&candidate.source, &candidate.answer) {
            (Some(source), None) => source.clone(),
            (None, Some(answer)) => match prompt::extract(answer, Style::Full, language) {
                Some(source) => source,
                None => return Ok(Unit::Decided(Box::new(Judged::without_program(language)))),
            },
            _ => {
                let detail = "send either `source`, a program, or `answer`, a model's text with a program in it";
                return Err(mistake("source", detail.into()));
            }
        };
        let program = Program::new(problem, language, source, request.purpose);
        Ok(Unit::Program(Arc::new(program)))
    }

    /// Adds a job whose order is in the folder. Candidates whose results are known are answered at once.
    fn enqueue(&self, job: &Arc<Job>, units: Vec<(usize, Unit)>) {
        let now = unix_ms();
        let mut known = Vec::new();
        let mut programs = Vec::new();
        for (index, unit) in units {
            match unit {
                Unit::Decided(judged) => known.push((index, *judged)),
                Unit::Program(program) => match self.cache.look_up(&program, now) {
                    Some(judged) => known.push((index, judged)),
                    None => programs.push((index, program)),
                },
            }
        }
        let count = programs.len();
        let mut state = lock(&self.state);
        state.jobs.insert(job.id.clone(), Arc::clone(job));
        for (index, program) in programs {
            let key = program.key().clone();
            let by = (job.id.clone(), index);
            state.queue.push(key.clone(), program.purpose, by);
            state.programs.entry(key).or_insert(program);
        }
        drop(state);
        for _ in 0..count {
            self.work.notify_one();
        }
        self.deliver(job, known);
    }

    /// Gives results to candidates of a job.
    fn deliver(&self, job: &Arc<Job>, results: Vec<(usize, Judged)>) {
        let answers = results.into_iter().filter_map(|(index, judged)| {
            if judged.cached {
                self.metrics.cached();
            }
            let asked = job.asked.get(index)?;
            let mut answer = judged.answer(index, asked, &self.reward);
            job.comparison.enter(&mut answer);
            Some(Arc::new(answer))
        });
        let answers: Vec<Arc<Answer>> = answers.collect();
        let lines: Vec<&Answer> = answers.iter().map(Arc::as_ref).collect();
        if lines.is_empty() {
            return;
        }
        if let Err(error) = self.journal.answered(&job.id, &lines) {
            tracing::warn!(job = job.id.as_str(), %error, "answers cannot be written yet; a restart before that would evaluate them again");
            job.lacks_answers();
        }
        // Before anybody sees the answers and asks again.
        self.refund(job, &answers);
        if job.add(answers) {
            self.finish(job);
        }
    }

    /// Gives back the candidates that the machine failed to evaluate, and a refused program of an `against`. Candidates that the client
    /// withdrew stay counted.
    fn refund(&self, job: &Job, answers: &[Arc<Answer>]) {
        if job.holder == Holder::default() {
            return;
        }
        let missing = job.missing();
        let withdrawn = InfrastructureCause::Shutdown.name();
        let failed = answers.iter().filter(|answer| {
            let is_free = match answer.outcome {
                Outcome::Infrastructure => answer.reason.as_deref() != Some(withdrawn),
                Outcome::Rejected => job.comparison == Comparison::Measured,
                Outcome::Measured | Outcome::Unconverged | Outcome::Unknown => false,
            };
            is_free && missing.contains(&answer.index)
        });
        let failed: Vec<usize> = failed.map(|answer| answer.index).collect();
        self.quotas.refund(job.holder, &job.id, &failed);
    }

    /// All answers of a job are there. It is done once the folder has them, too.
    fn finish(&self, job: &Arc<Job>) {
        if !self.is_kept(job) {
            lock(&self.unwritten).push(Arc::clone(job));
            return;
        }
        // There is room again, perhaps.
        self.write_again();
    }

    /// Tries again to write the answers that could not be written.
    fn write_again(&self) {
        let mut unwritten = lock(&self.unwritten);
        unwritten.retain(|job| !self.is_kept(job));
    }

    /// Marks a job with all answers as done, with answers that could not be written before. False if that fails.
    fn is_kept(&self, job: &Job) -> bool {
        let written = if job.is_lacking_answers() {
            let answers = job.answers();
            let all: Vec<&Answer> = answers.iter().collect();
            self.journal.answered_whole(&job.id, &all)
        } else {
            Ok(())
        };
        if let Err(error) = written.and_then(|()| self.journal.finished(&job.id)) {
            tracing::warn!(job = job.id.as_str(), %error, "a job cannot be marked as done yet");
            return false;
        }
        self.quotas.settle(job.holder, &job.id);
        let mut state = lock(&self.state);
        state.recent.push_back(job.id.clone());
        if state.recent.len() > RECENT
            && let Some(old) = state.recent.pop_front()
        {
            state.jobs.remove(&old);
        }
        true
    }

    /// A job by its id: one that is not done, or a finished one of which the folder has all answers.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn job(&self, id: &JobId) -> io::Result<Option<Arc<Job>>> {
        if let Some(job) = lock(&self.state).jobs.get(id) {
            return Ok(Some(Arc::clone(job)));
        }
        let Some(kept) = self.journal.finished_job(id)? else {
            return Ok(None);
        };
        let request = &kept.order.request;
        let candidates = request.candidates.iter();
        let asked = (0..).zip(candidates).map(|(n, c)| asked(n, c, request));
        let (created, holder) = (kept.order.created_unix_ms, kept.order.holder);
        let comparison = kept.order.comparison;
        let job = Job::new(kept.id, created, holder, asked.collect(), comparison);
        let whole = job.add(kept.answers.into_iter().map(Arc::new).collect());
        Ok(whole.then(|| Arc::new(job)))
    }

    /// A job by its id, if it is this client's.
    ///
    /// # Errors
    /// As [`Service::job`].
    pub fn job_of(&self, id: &JobId, holder: Holder) -> io::Result<Option<Arc<Job>>> {
        let job = self.job(id)?;
        Ok(job.filter(|job| job.holder.is(holder)))
    }

    /// The state of a job.
    pub fn state_of(&self, job: &Job) -> JobState {
        let results = job.answers();
        let (total, done) = (job.total(), results.len());
        let wait = self.wait_of(job);
        let status = match done {
            done if done == total => Status::Done,
            0 => Status::Queued,
            _ => Status::Running,
        };
        JobState {
            id: job.id.as_str().to_owned(),
            status,
            created_unix_ms: job.created_unix_ms,
            total,
            done,
            position: wait.map(|wait| wait.position),
            expected_wait_seconds: wait.map(|wait| wait.seconds),
            results,
        }
    }

    /// Ends a job whose client does not wait for it any more. Its programs are not evaluated, unless another job asked for
    /// them, too. An evaluation that has begun goes on; returns the time that it takes, as far as that is known.
    pub fn withdraw(&self, job: &Arc<Job>) -> Duration {
        let goes_on = {
            let mut state = lock(&self.state);
            let goes_on = state.queue.running_of(&job.id, self.began.elapsed());
            for key in state.queue.withdraw(&job.id) {
                state.programs.remove(&key);
            }
            goes_on.unwrap_or_default()
        };
        let missing = job.missing().into_iter();
        let failed = missing.map(|index| {
            let why = "the client withdrew its request";
            let failure = Failure::infrastructure(InfrastructureCause::Shutdown, why);
            (index, Judged::failed(failure))
        });
        self.deliver(job, failed.collect());
        goes_on
    }

    /// If programs of it are being evaluated: the time that the evaluations have taken, or that they usually take if that is
    /// longer.
    pub fn running_of(&self, job: &Job) -> Option<Duration> {
        let now = self.began.elapsed();
        lock(&self.state).queue.running_of(&job.id, now)
    }

    /// The reference that results of a problem refer to now, to the standard of a purpose; none if this process neither
    /// measured nor read one.
    pub fn reference(&self, problem: &Problem, purpose: Purpose) -> Option<Reference> {
        self.cache.current_reference(problem, Grade::of(purpose))
    }

    /// The same, if that reference still holds.
    pub fn valid_reference(&self, problem: &Problem, purpose: Purpose) -> Option<Reference> {
        let grade = Grade::of(purpose);
        self.cache.valid_reference(problem, grade, unix_ms())
    }

    /// The fastest programs of a problem that were measured, and the circumstances in which programs are measured now; none
    /// if the compiler does not work.
    pub fn best(&self, problem: &Arc<Problem>) -> (Option<Circumstances>, Vec<List>) {
        ((self.circumstances)(problem), self.best.of(&problem.digest))
    }

    /// The wait of a job; none if it waits for no program.
    pub fn wait_of(&self, job: &Job) -> Option<Wait> {
        lock(&self.state)
            .queue
            .wait_of(&job.id, self.began.elapsed())
    }

    /// Number of programs that wait or are being evaluated, and whether one is being evaluated.
    pub fn waiting(&self) -> (usize, bool) {
        let state = lock(&self.state);
        (state.queue.len(), state.queue.running() > 0)
    }

    /// Number of programs that are being evaluated.
    pub fn evaluating(&self) -> usize {
        lock(&self.state).queue.running()
    }

    /// Expected time until the queue is empty, seconds.
    pub fn queue_seconds(&self) -> f64 {
        lock(&self.state).queue.seconds(self.began.elapsed())
    }

    /// Number of jobs that are not done.
    pub fn unfinished(&self) -> usize {
        let state = lock(&self.state);
        state.jobs.len().saturating_sub(state.recent.len())
    }

    /// Evaluates programs until the service stops, one at a time for each thread that calls this. The program that is being
    /// evaluated then is finished first.
    pub fn work(&self, judge: &mut dyn Judge) {
        while let Some(program) = self.next() {
            // Evaluations on a cluster do not use this machine.
            let here = self.cluster.is_none();
            let turn = here.then(|| self.turn.blocking_lock());
            let began = Instant::now();
            let judged = judge.judge(&program);
            drop(turn);
            // Ctrl-C reaches processes in the jail, too: a failure after it says nothing about the program.
            let is_result = judged.cached || judged.verdict.measurement().is_some();
            if self.stopping.is_cancelled() && !is_result {
                return;
            }
            let took = judged.took.unwrap_or_else(|| began.elapsed());
            self.decided(&program, judged, took);
        }
    }

    /// Waits for the next program; none once the service stops.
    fn next(&self) -> Option<Arc<Program>> {
        let mut state = lock(&self.state);
        loop {
            if self.stopping.is_cancelled() {
                return None;
            }
            if let Some(key) = state.queue.next(self.began.elapsed()) {
                return state.programs.get(&key).cloned();
            }
            let woken = self.work.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn decided(&self, program: &Program, judged: Judged, took: Duration) {
        if !judged.cached {
            let seconds = took.as_secs_f64();
            self.metrics.evaluated(program, &judged, seconds);
            if let Err(error) = self.best.enter(program, &judged, unix_ms()) {
                tracing::warn!(%error, "the list of best programs cannot be written");
            }
        }
        let mut by_job: Vec<(Arc<Job>, Vec<usize>)> = Vec::new();
        {
            let mut state = lock(&self.state);
            let now = self.began.elapsed();
            let candidates = state.queue.ended(program.key(), now, !judged.cached);
            state.programs.remove(program.key());
            for (id, index) in candidates {
                if let Some((_, indexes)) = by_job.iter_mut().find(|(job, _)| job.id == id) {
                    indexes.push(index);
                } else if let Some(job) = state.jobs.get(&id) {
                    by_job.push((Arc::clone(job), vec![index]));
                }
            }
        }
        let mut first = true;
        for (job, indexes) in by_job {
            if !judged.cached {
                job.spend(took);
            }
            let results = indexes.into_iter().map(|index| {
                // The other candidates with this program have a result from before.
                let cached = judged.cached || !std::mem::replace(&mut first, false);
                let judged = Judged {
                    cached,
                    ..judged.clone()
                };
                (index, judged)
            });
            let results = results.collect();
            self.deliver(&job, results);
        }
    }

    /// Waits until nothing uses the machine. No evaluation begins before the end of the returned value.
    pub async fn turn(&self) -> tokio::sync::OwnedMutexGuard<()> {
        Arc::clone(&self.turn).lock_owned().await
    }

    /// Wakes the threads that evaluate, so that they learn that the service stops.
    pub fn wake(&self) {
        // With the lock, a thread either has not looked yet or waits already.
        let _state = lock(&self.state);
        self.work.notify_all();
    }

    /// The token that ends the service.
    pub fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Writes what could not be written before, and removes finished jobs, keys and results that are older than `keep`.
    pub fn sweep(&self, keep: Duration) {
        self.write_again();
        let now = SystemTime::now();
        let swept = self.journal.sweep(keep, now);
        if let Err(error) = swept.and_then(|()| self.cache.sweep(keep, now)) {
            tracing::warn!(%error, "old jobs and results cannot be removed");
        }
    }
}

/// The parts of a candidate that its answer repeats.
fn asked(index: usize, candidate: &Candidate, request: &Request) -> Asked {
    Asked {
        id: candidate.id.clone().unwrap_or_else(|| index.to_string()),
        problem: candidate.problem.clone(),
        purpose: request.purpose,
    }
}
