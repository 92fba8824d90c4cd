//! The turns of a conversation about one task.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use flopsmith_agent::conversation::{Conversation, Shown, Wanted};
use flopsmith_agent::results::{
    FOUND, Found, Scale, document, evaluated, explained, found, repeated,
};
use flopsmith_agent::{Population, edit};
use flopsmith_archive::identity;
use flopsmith_endpoint::{Ask, Reason};
use flopsmith_problem::Problem;
use flopsmith_problem::prompt::Style;
use flopsmith_protocol::{
    CandidateId, Digest, Measurement, Question, RawAnswer, Request, Task, Verdict,
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::board::locked;
use super::{Broken, Ended, Table, Text, Turn};
use crate::answer::Answer;
use crate::error::Error;
use crate::source::endpoint::LONGEST_PROGRAM;
use crate::supervisor::words;

/// Turns for one program at most: a model that only looks around, or whose edits never fit, writes no program.
const TURNS: u32 = 6;
/// Ends the prompt of the last of them.
const LAST: &str = "\nThis is the last answer that counts for this program: write a whole program or changes now. A request would get no answer.\n";
/// Equal lines around a change in the record.
const AROUND: usize = 2;
/// How many times longer than [`flopsmith_config::Settings::lost_after_seconds`] a conversation waits for a result. While it waits
/// the node is not idle, so the archive counts no outcome as lost.
const PATIENCE: f64 = 4.0;
/// Requests in a row that may fail, each after the endpoint's own retries, before the rest of the conversation has no answer.
const MOST_FAILED: u32 = 3;

/// A conversation about one task.
pub(super) struct Talk<'a> {
    table: &'a Table<'a>,
    place: usize,
    task: &'a Task,
    problem: &'a Problem,
    population: &'a Population,
    island: usize,
    parent: Option<CandidateId>,
    conversation: Conversation,
    /// Programs that were written in it, without those that the machine could not judge.
    written: BTreeSet<Digest>,
    /// Those of them that were measured, so that they are right.
    measured: BTreeSet<Digest>,
    /// Programs that were written in it, by candidate.
    programs: BTreeMap<String, String>,
    /// The one that was handed in last.
    last: Option<String>,
    is_answered: bool,
    /// Requests in a row that failed.
    failed: u32,
    /// How often the conversation was shortened since the last answer.
    shortened: u32,
    /// True if the last program has no result that was told.
    unheard: bool,
}

impl<'a> Talk<'a> {
    /// The conversation of a task, about a parent on its island, or else about the program with which the run begins.
    pub(super) fn new(
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
        let documents = table.documents.keys().cloned().collect();
        let questions = Question::ALL.into_iter().filter(|question| {
            let explainer = table.explainer;
            explainer.is_some_and(|e| e.unexplained(*question, problem).is_none())
        });
        let conversation = Conversation::new(head, problem.language, shown)
            .reading(documents)
            .explaining(questions.collect())
            .finding(problem.detectable());
        Ok(Self {
            table,
            place,
            task,
            problem,
            population,
            island,
            parent: parent.map(|elite| elite.candidate.clone()),
            conversation,
            written: BTreeSet::new(),
            measured: BTreeSet::new(),
            programs: BTreeMap::new(),
            last: None,
            is_answered: false,
            failed: 0,
            shortened: 0,
            unheard: false,
        })
    }

    /// Holds the conversation. `first` is evaluated before the model is asked.
    pub(super) async fn hold(mut self, first: Option<String>) -> Result<Ended, Error> {
        let mut from = 0;
        if let Some(program) = first {
            self.evaluate(0, "(The program with which the search begins.)", program)
                .await?;
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
        let mut turn = 0;
        while turn < TURNS {
            if self.is_missing(sample, turn) {
                return Ok(None);
            }
            let text = match self.answer(sample, turn).await? {
                Ok(text) => text,
                // The turn keeps its number, so that a run that goes on finds the same turns.
                Err((reason, _)) if self.may_repeat(reason) => continue,
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
            self.failed = 0;
            turn += 1;
            let scale = self.table.scale(self.problem).await?;
            let result = match self.conversation.read(&text.text) {
                Ok(Wanted::Program(program)) => match self.known(&program, &scale) {
                    Some(result) => result,
                    None => {
                        self.evaluate(sample, &text.text, program).await?;
                        return Ok(None);
                    }
                },
                Ok(Wanted::Request(request)) => self.told(&request, &scale),
                Ok(Wanted::Explain { question, program }) => {
                    self.explain(question, program.as_deref()).await
                }
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
            request: None,
            sampled: None,
            parent: None,
        };
        self.table.answers.take(self.place, sample, Ok(answer));
        Ok(None)
    }

    /// The result of a request.
    fn told(&self, request: &Request, scale: &Scale) -> String {
        match request {
            Request::Find { techniques, text } => {
                let programs = self.population.find(*techniques, text, FOUND).into_iter();
                let programs: Vec<Found> = programs.map(|of| Found::known(of, scale)).collect();
                found(&programs, self.problem.language)
            }
            Request::Read { document: name } => document(self.table.documents, name),
        }
    }

    /// Takes the failure of a request. True if the turn is asked for again.
    fn may_repeat(&mut self, reason: Reason) -> bool {
        self.failed += 1;
        let is_of_all = match reason {
            Reason::Budget => true,
            Reason::Denied => !self.table.client.has_answered(),
            _ => false,
        };
        if !reason.is_passing() {
            // The prompt may be longer than the model takes.
            self.conversation.shorten();
            self.shortened += 1;
        }
        !is_of_all && self.failed < MOST_FAILED
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
    fn known(&self, program: &str, scale: &Scale) -> Option<String> {
        if let Some(known) = self.population.known(program) {
            return Some(repeated(known, scale));
        }
        let digest = identity::source_digest(program);
        let known = self.written.contains(&digest);
        known.then(|| {
            "You wrote the same program before in this conversation; change something.".to_owned()
        })
    }

    /// Hands in a program, and tells its result.
    async fn evaluate(
        &mut self,
        sample: u32,
        answer: &str,
        mut program: String,
    ) -> Result<(), Error> {
        if program.len() > LONGEST_PROGRAM {
            program.truncate(program.ceil_char_boundary(LONGEST_PROGRAM));
        }
        self.written.insert(identity::source_digest(&program));
        let candidate = CandidateId::of(&self.task.id, sample);
        self.programs.insert(candidate.to_string(), program.clone());
        self.last = Some(program.clone());
        let written = Answer::of_program(program.clone(), None);
        self.table.answers.take(self.place, sample, Ok(written));
        if sample + 1 == self.task.group_size {
            // Nobody is left to tell the result.
            return Ok(());
        }
        let Some(verdict) = self.verdict(sample, &candidate).await else {
            self.unheard = true;
            self.conversation
                .note(answer, "No result came in time. Write another program.");
            return Ok(());
        };
        self.unheard = false;
        if !verdict.counts() {
            self.written.remove(&identity::source_digest(&program));
        }
        let difference = self.difference(&program);
        let scale = self.table.scale(self.problem).await?;
        let result = evaluated(&verdict, &difference, &scale);
        let result = format!("This is program `{candidate}`. {result}");
        self.conversation.note(answer, &result);
        if let Some(measurement) = verdict.measurement() {
            let gflops = Measurement::known_gflops(measurement);
            self.conversation.measured(&program, gflops);
            self.measured.insert(identity::source_digest(&program));
        }
        Ok(())
    }

    /// The verdict of a candidate; none if it does not come in time, or did not when the answer that follows was asked for.
    async fn verdict(&self, sample: u32, candidate: &CandidateId) -> Option<Verdict> {
        let next = (CandidateId::of(&self.task.id, sample + 1), 0);
        let kept = locked(self.table.books).kept.get(&next).cloned();
        if kept.is_some_and(|text| text.unheard) {
            return None;
        }
        let verdict = self.table.board.verdict(candidate);
        let verdict = tokio::time::timeout(self.patience(), verdict).await.ok();
        if verdict.is_none() {
            tracing::warn!(%candidate, "no result came in time; the conversation goes on without it");
        }
        verdict
    }

    /// The longest time that the conversation waits for a result.
    fn patience(&self) -> Duration {
        let seconds = PATIENCE * self.table.context.settings.lost_after_seconds;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// True if a program was measured, in this conversation or before.
    fn is_measured(&self, program: &str) -> bool {
        let before = self.population.known(program);
        before.is_some_and(|known| known.gflops().is_some())
            || self.measured.contains(&identity::source_digest(program))
    }

    /// The program with this name, or the one that a question without a name is about.
    fn asked_about(&self, question: Question, program: Option<&str>) -> Option<&str> {
        if let Some(id) = program {
            let own = self.programs.get(id).map(String::as_str);
            return own.or_else(|| self.population.of_candidate(id));
        }
        let last = self.last.as_deref().filter(|_| question.is_about_last());
        let shown = self.conversation.current();
        last.or_else(|| shown.map(|shown| shown.source.as_str()))
    }

    /// The answer to a question about a program. It takes a core as every build does, or all of them if the program runs.
    async fn explain(&mut self, question: Question, program: Option<&str>) -> String {
        let context = self.table.context;
        let of = context.of(&self.task.problem);
        let (Some(explainer), Some(of)) = (self.table.explainer, of) else {
            return "Programs are not explained here.".to_owned();
        };
        if let Some(why) = explainer.unexplained(question, &of.problem) {
            return format!("This question has no answer here: {why}.");
        }
        let Some(source) = self.asked_about(question, program).map(str::to_owned) else {
            return "There is no such program; take a name that a result gave, or leave it out for the program above.".to_owned();
        };
        if question.is_of_measured() && !self.is_measured(&source) {
            return "Only a program that is right runs once more; take one that was measured."
                .to_owned();
        }
        let (explainer, problem) = (Arc::clone(explainer), Arc::clone(&of.problem));
        let cores = &context.host.cores;
        let (role, count) = match question.runs() {
            // Nothing may be timed meanwhile, and nothing else may run on its cores.
            true => ("count", cores.total()),
            false => ("compile", 1),
        };
        let lease = cores.some(role, count);
        let Ok(lease) = tokio::time::timeout(self.patience(), lease).await else {
            return "This machine is too busy to explain the program. Write a program.".to_owned();
        };
        let work = move || explainer.explain(question, &problem, &source);
        let said = tokio::task::spawn_blocking(work).await;
        drop(lease);
        match said {
            Ok(Ok(said)) => explained(question, &said),
            Ok(Err(failure)) => explained(question, &failure.to_string()),
            Err(_) => "This machine could not explain the program.".to_owned(),
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
            permits,
            ..
        } = self.table;
        let candidate = CandidateId::of(&self.task.id, sample);
        let kept = locked(books).kept.get(&(candidate.clone(), turn)).cloned();
        if let Some(text) = kept {
            self.is_answered = true;
            self.unheard = false;
            // As it was done after the requests that failed before this answer.
            for _ in 0..text.shortened {
                self.conversation.shorten();
            }
            return Ok(Ok(text));
        }
        let repetition = u64::from(self.failed) << 32;
        let draw = u64::from(sample) * u64::from(TURNS) + u64::from(turn) + repetition;
        let mut prompt = self.conversation.prompt(self.task.group_size - sample);
        if turn + 1 == TURNS {
            prompt.push_str(LAST);
        }
        let ask = Ask {
            problem: self.task.id.to_string(),
            number: sample,
            prompt,
            seed: self
                .task
                .seed
                .wrapping_add(draw.wrapping_mul(0xd134_2543_de82_ef95)),
        };
        // It is never closed.
        let _permit = permits.acquire().await;
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
            shortened: std::mem::take(&mut self.shortened),
            unheard: std::mem::take(&mut self.unheard),
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
            shortened: text.shortened,
            unheard: text.unheard,
            amount: reply.amount,
        };
        let mut books = locked(books);
        books.file.write(&line)?;
        books.kept.insert((candidate, turn), text.clone());
        Ok(Ok(text))
    }
}
