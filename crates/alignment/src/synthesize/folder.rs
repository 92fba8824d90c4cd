//! The folder of synthetic programs: requests, answers and outcomes are lines that are appended as they come.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flopsmith_endpoint::{Ask, Entry, Journal, Reply, Spending};
use flopsmith_generator::measured::Program;
use flopsmith_protocol::Digest;
use flopsmith_run::console::{say, usage};
use flopsmith_run::continued::{self, appended, lines};
use flopsmith_run::jsonl;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Order, Refusal};

/// The programs.
pub const PROGRAMS: &str = "programs.jsonl";
const REQUESTS: &str = "requests.jsonl";
const ANSWERS: &str = "answers.jsonl";
const OUTCOMES: &str = "outcomes.jsonl";
/// The mark of configurations.
const FORMAT: &str = "flopsmith synthetic programs";
/// The version of the files.
const VERSION: u32 = 1;
/// Most bytes that are kept of an answer.
const LONGEST: usize = 64 << 10;

/// Everything that answers and outcomes depend on, but for the machine. Key, prices, limits and the number of answers may
/// change.
#[derive(Debug, Serialize)]
pub(super) struct Config {
    format: &'static str,
    version: u32,
    url: String,
    model: String,
    temperature: f32,
    top_p: f32,
    max_tokens: u32,
    seed: u64,
    problems: Vec<OfTask>,
    workloads: Vec<String>,
    compiler: String,
    snippets: Digest,
}

/// A problem of a configuration.
#[derive(Debug, Serialize)]
pub(super) struct OfTask {
    pub(super) problem: String,
    /// Digest of its definition.
    pub(super) digest: Digest,
    /// The prompt of its lines.
    pub(super) prompt: String,
}

impl Config {
    pub(super) fn new(order: &Order<'_>, problems: Vec<OfTask>, snippets: Digest) -> Self {
        Self {
            format: FORMAT,
            version: VERSION,
            url: order.endpoint.url.clone(),
            model: order.endpoint.model.clone(),
            temperature: order.sampling.temperature,
            top_p: order.sampling.top_p,
            max_tokens: order.sampling.max_tokens,
            seed: order.seed,
            problems,
            workloads: order.workloads.to_vec(),
            compiler: order.compiler.to_owned(),
            snippets,
        }
    }
}

/// An answer of the model: a line of `answers.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Answer {
    /// The problem, or `synthetic`.
    pub(super) problem: String,
    /// Its number, from 1.
    pub(super) number: u32,
    /// Seed of its draws.
    pub(super) seed: u64,
    /// The request.
    pub(super) prompt: String,
    /// The answer, at most [`LONGEST`] bytes of it.
    pub(super) answer: String,
    /// Bytes of the whole answer.
    pub(super) bytes: usize,
    /// False if the limit on its tokens cut it off; none if the server does not say.
    pub(super) finished: Option<bool>,
}

impl Answer {
    pub(super) fn of(ask: Ask, reply: Reply) -> Self {
        let mut answer = reply.text;
        let bytes = answer.len();
        answer.truncate(answer.floor_char_boundary(LONGEST));
        Self {
            problem: ask.problem,
            number: ask.number,
            seed: ask.seed,
            prompt: ask.prompt,
            answer,
            bytes,
            finished: reply.finished,
        }
    }

    /// True if only the beginning was kept.
    pub(super) fn is_bounded(&self) -> bool {
        self.answer.len() < self.bytes
    }
}

/// The outcome of an answer: a line of `outcomes.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// The problem, or `synthetic`.
    pub(super) problem: String,
    /// Number of the answer.
    pub(super) number: u32,
    /// Why it gives no programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<Refusal>,
    /// More about the reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) detail: String,
    /// Number of its programs whose text the folder had already, if another one is kept.
    #[serde(default)]
    pub(super) repeated: usize,
    /// Its programs, the slow one first.
    #[serde(default)]
    pub(super) programs: Vec<Program>,
}

impl Outcome {
    /// An outcome without programs yet.
    pub(super) fn of(answer: &Answer) -> Self {
        Self {
            problem: answer.problem.clone(),
            number: answer.number,
            refused: None,
            detail: String::new(),
            repeated: 0,
            programs: Vec::new(),
        }
    }
}

/// The folder that this process works on.
pub(super) struct Folder {
    path: PathBuf,
    answers: Vec<Answer>,
    outcomes: Vec<Outcome>,
    /// Answers that are there, and answers with an outcome: problem and number.
    there: BTreeSet<(String, u32)>,
    decided: BTreeSet<(String, u32)>,
    answers_file: File,
    outcomes_file: File,
    /// Its lock ends with this value.
    _locked: File,
}

impl Folder {
    /// Opens the folder, which is made if there is none.
    ///
    /// # Errors
    /// Wrong usage: the folder holds something else or was begun with another configuration, a file is damaged, or another
    /// process works on it.
    pub(super) fn open(path: &Path, config: &Config) -> Result<Self> {
        let locked = continued::claim(path, "set of synthetic programs", config, check)?;
        let appended = |name: &str| appended(&path.join(name));
        let (answers_file, outcomes_file) = (appended(ANSWERS)?, appended(OUTCOMES)?);
        let answers: Vec<Answer> = lines(&path.join(ANSWERS))?;
        let outcomes: Vec<Outcome> = lines(&path.join(OUTCOMES))?;
        if !answers.is_empty() {
            say(&format!(
                "going on in {}: {} answers and {} outcomes are there",
                path.display(),
                answers.len(),
                outcomes.len()
            ));
        }
        let there = answers.iter().map(|a| (a.problem.clone(), a.number));
        let decided = outcomes.iter().map(|o| (o.problem.clone(), o.number));
        Ok(Self {
            path: path.to_owned(),
            there: there.collect(),
            decided: decided.collect(),
            answers,
            outcomes,
            answers_file,
            outcomes_file,
            _locked: locked,
        })
    }

    /// True if this answer is there.
    pub(super) fn has(&self, problem: &str, number: u32) -> bool {
        self.there.contains(&(problem.to_owned(), number))
    }

    /// All answers.
    pub(super) fn answers(&self) -> &[Answer] {
        &self.answers
    }

    /// All outcomes.
    pub(super) fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// The answers without an outcome, in the order in which they came.
    pub(super) fn undecided(&self) -> impl Iterator<Item = &Answer> {
        self.answers.iter().filter(move |answer| {
            let key = (answer.problem.clone(), answer.number);
            !self.decided.contains(&key)
        })
    }

    /// The programs for a problem.
    pub(super) fn sources<'a>(&'a self, problem: &'a str) -> impl Iterator<Item = &'a str> {
        let programs = self.outcomes.iter().flat_map(|outcome| &outcome.programs);
        programs
            .filter(move |program| program.problem == problem)
            .map(|program| program.source.as_str())
    }

    /// Adds an answer.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn add(&mut self, answer: Answer) -> Result<()> {
        append(&self.answers_file, &answer).with_context(|| self.unwritten(ANSWERS))?;
        self.there.insert((answer.problem.clone(), answer.number));
        self.answers.push(answer);
        Ok(())
    }

    /// Adds an outcome.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn decide(&mut self, outcome: Outcome) -> Result<()> {
        append(&self.outcomes_file, &outcome).with_context(|| self.unwritten(OUTCOMES))?;
        let key = (outcome.problem.clone(), outcome.number);
        self.decided.insert(key);
        self.outcomes.push(outcome);
        Ok(())
    }

    /// Replaces the file of programs by those of all outcomes.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write_programs(&self) -> Result<()> {
        let programs = self.outcomes.iter().flat_map(|outcome| &outcome.programs);
        let programs: Vec<&Program> = programs.collect();
        jsonl::write(&self.path.join(PROGRAMS), &programs)
    }

    /// Opens the journal of requests.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn journal(&self) -> Result<Journal> {
        let file = appended(&self.path.join(REQUESTS))?;
        Ok(Box::new(move |entry| append(&file, entry)))
    }

    /// All requests so far.
    ///
    /// # Errors
    /// Wrong usage: the file is damaged.
    pub(super) fn requests(&self) -> Result<Vec<Entry>> {
        lines(&self.path.join(REQUESTS))
    }

    /// Cost of all requests so far.
    ///
    /// # Errors
    /// As [`Self::requests`].
    pub(super) fn spending(&self) -> Result<Spending> {
        Ok(Spending::of(&self.requests()?))
    }

    fn unwritten(&self, name: &str) -> String {
        format!("cannot write {}", self.path.join(name).display())
    }
}

/// Appends a line.
fn append<T: Serialize>(mut file: &File, item: &T) -> std::io::Result<()> {
    let line = serde_json::to_string(item).map_err(std::io::Error::other)?;
    file.write_all(format!("{line}\n").as_bytes())
}

/// Checks that a text is a configuration of such a folder.
fn check(path: &Path, text: &str) -> Result<()> {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    match value["format"] == FORMAT && value["version"] == VERSION {
        true => Ok(()),
        false => Err(usage(format!(
            "{} is no configuration of synthetic programs of version {VERSION}; name another folder with --output",
            path.display()
        ))),
    }
}
