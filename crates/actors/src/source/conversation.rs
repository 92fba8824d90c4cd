//! Conversations with a language model about the programs of a population, as a source.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use flopsmith_agent::conversation::{Conversation, Shown, Wanted, evaluated, found, repeated};
use flopsmith_agent::{Population, edit};
use flopsmith_archive::identity;
use flopsmith_bus::LogReader;
use flopsmith_endpoint::{Amount, Ask, Client, Reason};
use flopsmith_problem::Problem;
use flopsmith_problem::prompt::Style;
use flopsmith_protocol::{
    ArtifactRef, CandidateId, Measurement, Outcome, PolicyVersion, ProblemId, RawAnswer, Task,
    Verdict, subjects,
};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::agent::population;
use super::endpoint::{LONGEST_PROGRAM, MOST_SILENT, client};
use crate::answer::{Answer, Answers, Source, problem_of};
use crate::error::Error;
use crate::journal::Journal;
use crate::node::Context;
use crate::role::recorder::files;
use crate::supervisor::words;

mod board;

use board::{Board, locked};

/// Turns for one program at most: a model that only looks around, or whose edits never fit, writes no program.
const TURNS: u32 = 6;
/// Programs that a request to find some shows.
const FOUND: usize = 3;
/// Equal lines around a change in the record.
const AROUND: usize = 2;
/// How many times longer than [`flopsmith_config::Settings::lost_after_seconds`] a conversation waits for a result. While it waits
/// the node is not idle, so the archive counts no outcome as lost.
const PATIENCE: f64 = 4.0;

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
    books: Mutex<Books>,
    board: Board,
    /// A permit for each request that the endpoint takes at the same time.
    places: Semaphore,
    /// Samples that count as missing since an earlier session.
    missing: HashSet<CandidateId>,
    /// Opened with the first tasks.
    log: tokio::sync::Mutex<Option<LogReader<Outcome>>>,
    /// Calls in a row for which the server gave no answer.
    silent: u32,
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
    books: &'a Mutex<Books>,
    board: &'a Board,
    places: &'a Semaphore,
    missing: &'a HashSet<CandidateId>,
    answers: &'a Answers,
}

/// A conversation about one task.
struct Talk<'a> {
    table: &'a Table<'a>,
    place: usize,
    task: &'a Task,
    problem: &'a Problem,
    population: &'a Population,
    island: usize,
    parent: Option<CandidateId>,
    conversation: Conversation,
    /// Programs that were written in it, without those that the machine could not judge.
    written: BTreeSet<flopsmith_protocol::Digest>,
    is_answered: bool,
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
        let documents = folder.map(board::documents).transpose()?;
        let endpoint = settings.generator.endpoint.as_deref();
        let at_once = endpoint.map_or(1, |endpoint| endpoint.concurrency);
        Ok(Self {
            client,
            name,
            documents: Arc::new(documents.unwrap_or_default()),
            populations: populations.collect(),
            start: settings.start.as_ref().map(|start| start.source.clone()),
            books: Mutex::new(Books {
                file,
                kept: kept.collect(),
            }),
            board: Board::default(),
            places: Semaphore::new(at_once),
            missing: HashSet::new(),
            log: tokio::sync::Mutex::new(None),
            silent: 0,
            context: Arc::clone(context),
        })
    }

    /// Judges the ends of all conversations, and gives the samples that have no answer the reason for it.
    fn settle(&mut self, ended: Vec<Ended>, answers: &Answers) -> Result<(), Error> {
        let is_answered = ended.iter().any(|end| end.is_answered);
        let broken: Vec<Broken> = ended.into_iter().filter_map(|end| end.broken).collect();
        if self.client.is_denied() {
            let why = broken.first().map(|broken| broken.why.as_str());
            return Err(Error::Hopeless(format!(
                "{} refuses every request: {}; check the URL, the model's name and the key",
                self.name,
                why.unwrap_or_default()
            )));
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
        match unanswered {
            _ if is_answered => self.silent = 0,
            Some(why) if !self.context.asked().exhausted => {
                self.silent += 1;
                if self.silent >= MOST_SILENT {
                    return Err(Error::Hopeless(format!(
                        "{} answered none of the requests of {} steps in a row: {why}; requests.jsonl in the run's folder has all reasons; mend the cause, and resume the search",
                        self.name, self.silent
                    )));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Talk<'a> {
    /// The conversation of a task, about a parent on its island, or else about the program with which the run begins.
    fn new(
        table: &'a Table<'a>,
        place: usize,
        task: &'a Task,
        problem: &'a Problem,
        population: &'a Population,
        start: Option<&str>,
    ) -> Result<Self, Error> {
        let island = population.island_of(task.step, task.tasks_in_step, &task.id);
        let mut rng = ChaCha8Rng::seed_from_u64(task.seed);
        let parents = population.parents(island, task.permitted, 1, &mut rng);
        let parent = parents.first().map(|parent| parent.elite);
        let shown = match parent {
            Some(elite) => Some(Shown {
                source: elite.source.clone(),
                gflops: Some(elite.gflops),
            }),
            None => start.map(|source| Shown {
                source: source.to_owned(),
                gflops: None,
            }),
        };
        let head = flopsmith_nest::prompt::render(problem, task.permitted, None, Style::Full)
            .map_err(|e| Error::Generator(e.to_string()))?;
        let documents = Arc::clone(table.documents);
        Ok(Self {
            table,
            place,
            task,
            problem,
            population,
            island,
            parent: parent.map(|elite| elite.candidate.clone()),
            conversation: Conversation::new(head, problem.language, shown, documents),
            written: BTreeSet::new(),
            is_answered: false,
        })
    }

    /// Holds the conversation. `first` is evaluated before the model is asked.
    async fn hold(mut self, first: Option<String>) -> Result<Ended, Error> {
        let mut from = 0;
        if let Some(program) = first {
            self.evaluate(0, "(The program with which the search begins.)", program)
                .await;
            from = 1;
        }
        for sample in from..self.task.group_size {
            if let Some(broken) = self.write(sample).await? {
                return Ok(Ended {
                    is_answered: self.is_answered,
                    broken: Some(broken),
                });
            }
        }
        Ok(Ended {
            is_answered: self.is_answered,
            broken: None,
        })
    }

    /// Turns until the program of a sample is written and has a result. The rest of the conversation, if the server gives no
    /// answer.
    async fn write(&mut self, sample: u32) -> Result<Option<Broken>, Error> {
        let mut last = None;
        for turn in 0..TURNS {
            if self.is_missing(sample, turn) {
                return Ok(None);
            }
            let text = match self.answer(sample, turn).await? {
                Ok(text) => text,
                Err((reason, why)) => {
                    return Ok(Some(Broken {
                        place: self.place,
                        from: sample,
                        to: self.task.group_size,
                        reason,
                        why,
                    }));
                }
            };
            let result = match self.conversation.read(&text.text) {
                Ok(Wanted::Program(program)) => match self.known(&program) {
                    Some(result) => result,
                    None => {
                        self.evaluate(sample, &text.text, program).await;
                        return Ok(None);
                    }
                },
                Ok(Wanted::Find { techniques, text }) => {
                    let programs = self.population.find(techniques, &text, FOUND);
                    found(&programs, self.problem.language)
                }
                Ok(Wanted::Read(document)) => document,
                Err(fault) => fault,
            };
            self.conversation.note(&text.text, &result);
            last = Some(text);
        }
        // The model's own fault, and a verdict: an answer without a program.
        let raw = last.map(|text| RawAnswer::of(&text.text, text.finished));
        let answer = Answer {
            source: String::new(),
            raw,
            sampled: None,
        };
        self.table.answers.take(self.place, sample, Ok(answer));
        Ok(None)
    }

    /// True if the sample counts as missing already, so that a request for this turn would be paid for nothing.
    fn is_missing(&self, sample: u32, turn: u32) -> bool {
        let candidate = CandidateId::of(&self.task.id, sample);
        self.table.missing.contains(&candidate)
            && !locked(self.table.books)
                .kept
                .contains_key(&(candidate, turn))
    }

    /// The result of a program that was evaluated before.
    fn known(&self, program: &str) -> Option<String> {
        if let Some(known) = self.population.known(program) {
            return Some(repeated(known));
        }
        let digest = identity::source_digest(program);
        let known = self.written.contains(&digest);
        known.then(|| {
            "You wrote the same program before in this conversation; change something.".to_owned()
        })
    }

    /// Hands in a program, and tells its result.
    async fn evaluate(&mut self, sample: u32, answer: &str, mut program: String) {
        if program.len() > LONGEST_PROGRAM {
            program.truncate(program.ceil_char_boundary(LONGEST_PROGRAM));
        }
        self.written.insert(identity::source_digest(&program));
        let written = Answer {
            source: program.clone(),
            raw: None,
            sampled: None,
        };
        self.table.answers.take(self.place, sample, Ok(written));
        if sample + 1 == self.task.group_size {
            // Nobody is left to tell the result.
            return;
        }
        let candidate = CandidateId::of(&self.task.id, sample);
        let seconds = PATIENCE * self.table.context.settings.lost_after_seconds;
        let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let waited = tokio::time::timeout(limit, self.table.board.verdict(&candidate)).await;
        let Ok(verdict) = waited else {
            tracing::warn!(%candidate, "no result came in time; the conversation goes on without it");
            self.conversation
                .note(answer, "No result came in time. Write another program.");
            return;
        };
        if !verdict.counts() {
            self.written.remove(&identity::source_digest(&program));
        }
        let difference = self.difference(&program);
        self.conversation
            .note(answer, &evaluated(&verdict, &difference));
        if let Some(measurement) = verdict.measurement() {
            let gflops = Measurement::known_gflops(measurement);
            self.conversation.measured(&program, gflops);
        }
    }

    fn difference(&self, program: &str) -> String {
        let shown = self.conversation.current();
        shown.map_or_else(String::new, |shown| {
            edit::difference(&shown.source, program, AROUND)
        })
    }

    /// The answer of a turn: the kept one, or that of the server. The inner error is the reason for which there is none.
    async fn answer(
        &mut self,
        sample: u32,
        turn: u32,
    ) -> Result<Result<Text, (Reason, String)>, Error> {
        let Table {
            client,
            context,
            books,
            places,
            ..
        } = self.table;
        let candidate = CandidateId::of(&self.task.id, sample);
        let kept = locked(books).kept.get(&(candidate.clone(), turn)).cloned();
        if let Some(text) = kept {
            self.is_answered = true;
            return Ok(Ok(text));
        }
        let draw = u64::from(sample) * u64::from(TURNS) + u64::from(turn);
        let ask = Ask {
            problem: self.task.id.to_string(),
            number: sample,
            prompt: self.conversation.prompt(self.task.group_size - sample),
            seed: self
                .task
                .seed
                .wrapping_add(draw.wrapping_mul(0xd134_2543_de82_ef95)),
        };
        // It is never closed.
        let _place = places.acquire().await;
        let reply = match client.ask(&ask).await {
            Ok(reply) => reply,
            Err(error) => {
                let Some(reason) = error.reason() else {
                    return Err(Error::Generator(words(&error)));
                };
                if reason == Reason::Budget {
                    // Before the outcome, which may end the step.
                    context.note_asked(|asked| asked.exhausted = true);
                }
                let why = format!("the endpoint gave no answer: {error}");
                return Ok(Err((reason, why)));
            }
        };
        self.is_answered = true;
        let difference = match self.conversation.read(&reply.text) {
            Ok(Wanted::Program(program)) => self.difference(&program),
            _ => String::new(),
        };
        let text = Text {
            text: reply.text.clone(),
            finished: reply.finished.unwrap_or(true),
        };
        let line = Turn {
            candidate: candidate.clone(),
            turn,
            island: self.island,
            parent: self.parent.clone(),
            prompt: ask.prompt,
            answer: reply.text,
            finished: reply.finished,
            difference,
            amount: reply.amount,
        };
        let mut books = locked(books);
        books.file.write(&line)?;
        books.kept.insert((candidate, turn), text.clone());
        Ok(Ok(text))
    }
}

#[async_trait]
impl Source for ConversingSource {
    fn version(&self) -> Option<PolicyVersion> {
        None
    }

    async fn update(&mut self, _: PolicyVersion, _: &ArtifactRef) -> Result<(), Error> {
        Ok(())
    }

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
            books: &self.books,
            board: &self.board,
            places: &self.places,
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
