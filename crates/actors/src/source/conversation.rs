//! Conversations with a language model about the programs of a population, as a source.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use flopsmith_agent::Population;
use flopsmith_agent::results::Scale;
use flopsmith_bus::LogReader;
use flopsmith_endpoint::{Amount, Client, Reason};
use flopsmith_problem::Problem;
use flopsmith_protocol::{CandidateId, Outcome, ProblemId, Task, Verdict, subjects};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::agent::population;
use super::endpoint::client;
use super::silence::{Silence, all_refused};
use crate::answer::{Answers, Source, problem_of};
use crate::documents::documents;
use crate::error::Error;
use crate::journal::Journal;
use crate::node::Context;
use crate::role::recorder::files;
use crate::scale::scale_of;

mod board;
mod explain;
mod talk;

use board::{Board, locked};
pub use explain::{Explain, Explainer, Stages};
use talk::Talk;

/// Holds a conversation about a program of the population for each task.
///
/// A task is a budget of evaluations: each program of the conversation is one of its samples, and its outcome is told in the next
/// turn. The population follows from the outcomes of the run. Prompts and answers are kept in the run's folder, so a run that
/// goes on holds the same conversation without asking again.
pub struct ConversingSource {
    client: Client,
    /// Address and model, for messages.
    name: String,
    context: Arc<Context>,
    populations: HashMap<ProblemId, Population>,
    /// The program with which the run begins.
    start: Option<String>,
    /// Documents that the model may read, by name.
    documents: Arc<BTreeMap<String, String>>,
    /// Answers questions about programs; none where this process evaluates no programs.
    explainer: Option<Arc<dyn Explain>>,
    books: Mutex<Books>,
    board: Board,
    /// The scales of the problems, once they are known.
    scales: Mutex<HashMap<ProblemId, Arc<Scale>>>,
    /// A permit for each request that the endpoint takes at the same time.
    permits: Semaphore,
    /// Samples that count as missing since an earlier session.
    missing: HashSet<CandidateId>,
    /// Opened with the first tasks.
    log: tokio::sync::Mutex<Option<LogReader<Outcome>>>,
    silence: Silence,
}

/// The kept turns and their file.
struct Books {
    file: Journal,
    kept: HashMap<(CandidateId, u32), Text>,
}

/// An answer of the model.
#[derive(Debug, Clone)]
struct Text {
    text: String,
    finished: bool,
    shortened: u32,
    unheard: bool,
}

/// A line of `attempts.jsonl`: a turn. The outcome of the candidate has the program of its last turn, and the verdict.
#[derive(Debug, Serialize, Deserialize)]
struct Turn {
    candidate: CandidateId,
    turn: u32,
    island: usize,
    /// The program with which the conversation began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<CandidateId>,
    /// For people: nothing follows from it, and all prompts of a run are long.
    #[serde(skip_deserializing)]
    prompt: String,
    /// As the model wrote it.
    answer: String,
    /// False if the limit on its tokens cut it off; none if the server does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finished: Option<bool>,
    /// The lines in which its program differs from the one that was shown; empty without a program.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    difference: String,
    /// How often the conversation was shortened since the answer before, because requests failed.
    #[serde(default)]
    shortened: u32,
    /// True if the result of the program before did not come in time, so that the prompt did not tell it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unheard: bool,
    /// The request that was answered.
    #[serde(flatten)]
    amount: Amount,
}

/// The end of a conversation before all samples have answers.
struct Broken {
    place: usize,
    /// The first sample without an answer, and the number of samples.
    from: u32,
    to: u32,
    reason: Reason,
    why: String,
}

/// A conversation has ended: true if the server answered any request, and the rest that has no answer.
struct Ended {
    is_answered: bool,
    broken: Option<Broken>,
}

/// Everything that the conversations of a call share.
struct Table<'a> {
    client: &'a Client,
    context: &'a Context,
    documents: &'a Arc<BTreeMap<String, String>>,
    explainer: Option<&'a Arc<dyn Explain>>,
    books: &'a Mutex<Books>,
    board: &'a Board,
    scales: &'a Mutex<HashMap<ProblemId, Arc<Scale>>>,
    permits: &'a Semaphore,
    missing: &'a HashSet<CandidateId>,
    answers: &'a Answers,
}

impl Table<'_> {
    /// The scale in which the speeds of a problem's programs are told. A node publishes its roofs before it times a program,
    /// so before the first result there may be none.
    async fn scale(&self, problem: &Problem) -> Result<Arc<Scale>, Error> {
        let known = locked(self.scales).get(&problem.id).cloned();
        if let Some(scale) = known {
            return Ok(scale);
        }
        let facts = self.context.machine_facts().await?;
        let class = &self.context.host.machine_class;
        let scale = Arc::new(scale_of(problem, &facts, class));
        if !scale.roofs.is_empty() || !problem.states_work() {
            locked(self.scales).insert(problem.id.clone(), Arc::clone(&scale));
        }
        Ok(scale)
    }
}

impl ConversingSource {
    /// A source of the run's endpoint, which goes on after the requests and turns in the run's folder.
    ///
    /// # Errors
    /// The settings name no endpoint, its URL or key cannot be used, or files of the run's folder fail.
    pub fn open(context: &Arc<Context>) -> Result<Self, Error> {
        let (client, name) = client(context)?;
        let (file, turns) = Journal::open::<Turn>(context.folder.join(files::ATTEMPTS))?;
        let kept = turns.into_iter().map(|turn| {
            let text = Text {
                text: turn.answer,
                finished: turn.finished.unwrap_or(true),
                shortened: turn.shortened,
                unheard: turn.unheard,
            };
            ((turn.candidate, turn.turn), text)
        });
        let settings = &context.settings;
        let populations = context.problems().map(|of| {
            let id = &of.problem.id;
            let population = population(settings, id, &context.host.machine_class);
            (id.clone(), population)
        });
        let folder = settings.generator.agent.documents.as_deref();
        let documents = folder.map(documents).transpose()?;
        let endpoint = settings.generator.endpoint.as_deref();
        let at_once = endpoint.map_or(1, |endpoint| endpoint.concurrency);
        Ok(Self {
            client,
            name,
            documents: Arc::new(documents.unwrap_or_default()),
            explainer: None,
            populations: populations.collect(),
            start: settings.start.as_ref().map(|start| start.source.clone()),
            books: Mutex::new(Books {
                file,
                kept: kept.collect(),
            }),
            board: Board::default(),
            scales: Mutex::default(),
            permits: Semaphore::new(at_once),
            missing: HashSet::new(),
            log: tokio::sync::Mutex::new(None),
            silence: Silence::default(),
            context: Arc::clone(context),
        })
    }

    /// The same source with answers to questions about programs.
    #[must_use]
    pub fn explaining(self, explainer: Option<Arc<dyn Explain>>) -> Self {
        Self { explainer, ..self }
    }

    /// Judges the ends of all conversations, and gives the samples that have no answer the reason for it.
    fn settle(&mut self, ended: Vec<Ended>, answers: &Answers) -> Result<(), Error> {
        let is_answered = ended.iter().any(|end| end.is_answered);
        let broken: Vec<Broken> = ended.into_iter().filter_map(|end| end.broken).collect();
        if self.client.is_denied() {
            let why = broken.first().map(|broken| broken.why.as_str());
            return Err(all_refused(&self.name, why));
        }
        let mut unanswered = None;
        for broken in broken {
            for sample in broken.from..broken.to {
                answers.take(broken.place, sample, Err(broken.why.clone()));
            }
            if broken.reason != Reason::Budget {
                unanswered = Some(broken.why);
            }
        }
        let is_exhausted = self.context.asked().exhausted;
        self.silence
            .count(&self.name, is_answered, unanswered.as_deref(), is_exhausted)
    }
}

#[async_trait]
impl Source for ConversingSource {
    fn computes(&self) -> bool {
        false
    }

    fn decided_before(&mut self, outcome: &Outcome) {
        if matches!(outcome.verdict, Verdict::Infrastructure { .. }) {
            self.missing.insert(outcome.candidate.id.clone());
        }
    }

    async fn answer_each(
        &mut self,
        problems: &[&Problem],
        tasks: &[Task],
        answers: &Answers,
    ) -> Result<(), Error> {
        let log = self.log.get_mut();
        let log = match log {
            Some(log) => log,
            None => {
                let subject = subjects::outcome(&self.context.run);
                log.insert(self.context.host.bus.log::<Outcome>(&subject, 0).await?)
            }
        };
        let table = Table {
            client: &self.client,
            context: &self.context,
            documents: &self.documents,
            explainer: self.explainer.as_ref(),
            books: &self.books,
            board: &self.board,
            scales: &self.scales,
            permits: &self.permits,
            missing: &self.missing,
            answers,
        };
        let mut held = BTreeSet::new();
        let mut talks = FuturesUnordered::new();
        for (place, task) in tasks.iter().enumerate() {
            // The bus may give out a task again while it is held. Its answers are those of the first one.
            if !held.insert(&task.id) {
                continue;
            }
            let problem = problem_of(problems, task)?;
            let population = self
                .populations
                .get(&task.problem)
                .ok_or_else(|| Error::Generator(format!("no population for `{}`", task.problem)))?;
            let start = self.start.as_deref();
            let begins = task.step == 0 && task.id.group() == Some(0);
            let first = start.filter(|_| begins).map(str::to_owned);
            let talk = Talk::new(&table, place, task, problem, population, start)?;
            talks.push(talk.hold(first));
        }
        let mut ended = Vec::new();
        while !talks.is_empty() {
            tokio::select! {
                end = talks.next() => ended.extend(end.transpose()?),
                outcome = log.next() => self.board.put(outcome?.1),
            }
        }
        drop(talks);
        self.settle(ended, answers)
    }

    fn outcome_reported(&mut self, outcome: &Outcome) {
        if let Some(population) = self.populations.get_mut(&outcome.candidate.problem) {
            population.note(outcome);
        }
    }
}
