//! A language model behind an endpoint as a source.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use flopsmith_config::Generator;
use flopsmith_endpoint::{
    Account, Ask, Client, Entry, Error as Refusal, Event, Reason, Reply, Spending,
};
use flopsmith_problem::{Language, Problem, prompt};
use flopsmith_protocol::{
    CandidateId, Exchange, Outcome, RawAnswer, Sampling, Task, TaskId, Verdict,
};

use crate::answer::{Answer, Answers, Source, problem_of};
use crate::answer_line::AnswerLine;
use crate::error::Error;
use crate::journal::Journal;
use crate::node::Context;
use crate::role::recorder::files;
use crate::source::silence::{Silence, all_refused};
use crate::supervisor::words;

/// Longest program that is handed on, bytes: a longer one is too long for every problem, and may not fit into a message.
pub(super) const LONGEST_PROGRAM: usize = (1 << 20) + 1;

/// Asks a server for the answers to tasks.
///
/// Requests and answers are kept in the run's folder: a run that goes on knows what was spent, never pays twice for an
/// answer that it has, and never pays for one that counts as missing already.
pub struct EndpointSource {
    client: Client,
    /// Address and model, for messages.
    name: String,
    style: prompt::Style,
    context: Arc<Context>,
    file: Journal,
    kept: HashMap<(TaskId, u32), Text>,
    /// Samples that count as missing since an earlier session.
    missing: HashSet<CandidateId>,
    silence: Silence,
}

/// The text of a model.
#[derive(Debug, Clone)]
struct Text {
    text: String,
    finished: Option<bool>,
}

impl EndpointSource {
    /// A source of the run's endpoint, which goes on after the requests in the run's folder.
    ///
    /// # Errors
    /// The settings name no endpoint, its URL or key cannot be used, or files of the run's folder fail.
    pub fn open(context: &Arc<Context>) -> Result<Self, Error> {
        let (client, name) = client(context)?;
        let generator = &context.settings.generator;
        let (file, kept) = Journal::open::<AnswerLine>(context.folder.join(files::ANSWERS))?;
        let kept = kept.into_iter().map(|kept| {
            let AnswerLine {
                task,
                sample,
                answer: text,
                finished,
                ..
            } = kept;
            ((task, sample), Text { text, finished })
        });
        Ok(Self {
            client,
            name,
            style: generator.prompt.style(),
            context: Arc::clone(context),
            file,
            kept: kept.collect(),
            missing: HashSet::new(),
            silence: Silence::default(),
        })
    }
}

/// The client of the run's endpoint, which goes on after the requests in the run's folder, and its name for messages.
///
/// # Errors
/// The settings name no endpoint, its URL or key cannot be used, or files of the run's folder fail.
pub(super) fn client(context: &Arc<Context>) -> Result<(Client, String), Error> {
    let generator = &context.settings.generator;
    let endpoint = generator.endpoint.as_deref();
    let endpoint = endpoint.ok_or_else(|| Error::Settings("no endpoint is named".into()))?;
    let (journal, before) = books(context)?;
    let told = Arc::clone(context);
    let client = Client::open(endpoint, &sampling(generator), &before, journal)
        .map_err(|error| Error::Hopeless(words(&error)))?
        .telling(Box::new(move |repetition| {
            let words = repetition.to_string();
            tracing::warn!(
                task = repetition.problem,
                sample = repetition.number,
                "{words}"
            );
            told.note_asked(|asked| asked.trouble = words);
        }));
    Ok((client, format!("{}#{}", endpoint.url, endpoint.model)))
}

/// The journal of the run's requests, and what they have cost in earlier sessions.
fn books(context: &Arc<Context>) -> Result<(flopsmith_endpoint::Journal, Spending), Error> {
    let path = context.folder.join(files::REQUESTS);
    let (mut file, entries) = Journal::open::<Entry>(path)?;
    let before = Spending::of(&entries);
    let mut account = Account::after(before);
    let noted = Arc::clone(context);
    noted.note_asked(|asked| asked.spending = Some(before));
    let journal: flopsmith_endpoint::Journal = Box::new(move |entry| {
        file.write(entry).map_err(std::io::Error::other)?;
        account.add(entry);
        noted.note_asked(|asked| {
            asked.spending = Some(account.ended());
            if entry.event == Event::Answered {
                asked.trouble.clear();
            }
        });
        Ok(())
    });
    Ok((journal, before))
}

/// The requests in a run's folder: number, tokens and cost; none if the run asked no endpoint.
///
/// # Errors
/// The file cannot be read.
pub fn spending(folder: &Path) -> std::io::Result<Option<Spending>> {
    let path = folder.join(files::REQUESTS);
    let file = match std::fs::File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let entries = crate::journal::Lines::<Entry>::read(&path, file)?;
    Ok(Some(Spending::of(&entries.items)))
}

/// How the model samples: the same for all tasks of a search.
fn sampling(generator: &Generator) -> Sampling {
    Sampling {
        temperature: generator.temperature,
        top_p: generator.top_p,
        top_k: generator.top_k,
        max_tokens: generator.max_tokens,
    }
}

impl Text {
    /// The program in it.
    fn read(&self, style: prompt::Style, language: Language) -> Answer {
        let found = prompt::extract(&self.text, style, language);
        let raw = found
            .is_none()
            .then(|| RawAnswer::of(&self.text, self.finished.unwrap_or(true)));
        let mut source = found.unwrap_or_default();
        if source.len() > LONGEST_PROGRAM {
            source.truncate(source.ceil_char_boundary(LONGEST_PROGRAM));
        }
        Answer {
            source,
            raw,
            request: None,
            sampled: None,
            parent: None,
        }
    }
}

#[async_trait]
impl Source for EndpointSource {
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
        let mut asks = Vec::new();
        let mut open = HashMap::new();
        for (place, task) in tasks.iter().enumerate() {
            let problem = problem_of(problems, task)?;
            let elite = task.elite.as_ref();
            let mut text =
                flopsmith_nest::prompt::render(problem, task.permitted, elite, self.style)
                    .map_err(|e| Error::Generator(e.to_string()))?;
            for Exchange { answer, result, .. } in &task.history {
                let answer = prompt::answer(answer, Some(problem.language.fence()));
                text += &format!("\nAn earlier answer:\n\n{answer}\n{result}\n");
            }
            let name = task.id.to_string();
            // The bus may give out a task again while it is held. Its answers are those of the first one.
            if open.contains_key(&name) {
                continue;
            }
            open.insert(name, (place, problem.language));
            for sample in 0..task.group_size {
                if let Some(kept) = self.kept.get(&(task.id.clone(), sample)) {
                    answers.take(place, sample, Ok(kept.read(self.style, problem.language)));
                    continue;
                }
                if self.missing.contains(&CandidateId::of(&task.id, sample)) {
                    continue;
                }
                let seed = u64::from(sample).wrapping_mul(0xd134_2543_de82_ef95);
                asks.push(Ask {
                    problem: task.id.to_string(),
                    number: sample,
                    prompt: text.clone(),
                    seed: task.seed.wrapping_add(seed),
                });
            }
        }
        let Self {
            client,
            name,
            style,
            context,
            file,
            kept,
            silence,
            ..
        } = self;
        let (client, style) = (&*client, *style);
        // Refusals before the first answer: if none comes, the server refuses everything, and no answer is lost.
        let mut refused: Vec<(usize, u32, String)> = Vec::new();
        let mut failed = None;
        let (mut is_answered, mut unanswered) = (false, None);
        let ended = |ask: Ask, reply: Result<Reply, Refusal>| {
            let sample = ask.number;
            let Some(&(place, language)) = open.get(&ask.problem) else {
                return ControlFlow::Continue(());
            };
            match reply {
                Ok(reply) => {
                    is_answered = true;
                    for (place, sample, why) in refused.drain(..) {
                        answers.take(place, sample, Err(why));
                    }
                    let text = Text {
                        text: reply.text,
                        finished: reply.finished,
                    };
                    let line = AnswerLine {
                        task: tasks[place].id.clone(),
                        sample,
                        seed: Some(ask.seed),
                        prompt: ask.prompt,
                        answer: text.text.clone(),
                        bytes: None,
                        finished: text.finished,
                        amount: reply.amount,
                        rollout: None,
                    };
                    if let Err(error) = file.write(&line) {
                        failed = Some(error);
                        return ControlFlow::Break(());
                    }
                    answers.take(place, sample, Ok(text.read(style, language)));
                    kept.insert((line.task, sample), text);
                    ControlFlow::Continue(())
                }
                Err(error) => match error.reason() {
                    Some(reason) => {
                        let why = format!("the endpoint gave no answer: {error}");
                        match reason {
                            // Before the outcome, which may end the step.
                            Reason::Budget => context.note_asked(|asked| asked.exhausted = true),
                            _ => unanswered = Some(why.clone()),
                        }
                        match reason {
                            Reason::Denied if !client.has_answered() => {
                                refused.push((place, sample, why));
                            }
                            _ => answers.take(place, sample, Err(why)),
                        }
                        ControlFlow::Continue(())
                    }
                    None => {
                        failed = Some(Error::Generator(words(&error)));
                        ControlFlow::Break(())
                    }
                },
            }
        };
        client.ask_all(asks, ended).await;
        if let Some(error) = failed {
            return Err(error);
        }
        if client.is_denied() {
            let why = refused.first().map(|(_, _, why)| why.as_str());
            return Err(all_refused(name, why));
        }
        for (place, sample, why) in refused {
            answers.take(place, sample, Err(why));
        }
        let is_exhausted = context.asked().exhausted;
        silence.count(name, is_answered, unanswered.as_deref(), is_exhausted)
    }
}
